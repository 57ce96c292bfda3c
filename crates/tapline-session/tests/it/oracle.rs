//! The oracle: commands run in a bash with stub programs, and what ran is held against what the rules said of them. `scripts/fuzz rules`
//! does the same with millions.

mod commands;
mod sandbox;
mod verdicts;

use std::collections::HashSet;

use sandbox::run_each;
use tapline_testkit::rounds;

use crate::deny_rules::ways;

/// The list is honest: bash runs `rm` for each of them.
#[test]
fn every_way_to_say_rm_runs_it() {
    let ways: Vec<_> = ways().into_iter().filter(|way| way.sandbox).collect();
    let mut wrong = Vec::new();
    let mut at = 0;
    let commands: Vec<_> = ways.iter().map(|way| way.command.as_str()).collect();
    run_each(&commands, |ran| {
        let rm = |word: &str| word.rsplit('/').next() == Some("rm");
        if !ran.iter().any(|ran| ran.words.first().is_some_and(|name| rm(name))) {
            wrong.push(format!("{:?}: {ran:?}", ways[at].command));
        }
        at += 1;
    });
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), ways.len(), wrong.join("\n"));
}

#[test]
fn what_is_allowed_runs_nothing_else_and_what_is_denied_is_not_missed() {
    let made = rounds(2_000, 10_000);
    let tally = verdicts::hold(11, made, rounds(200, 700), &mut HashSet::new());
    assert!(tally.more.is_empty(), "{} did more than their rule says:\n{}", tally.more.len(), tally.more.join("\n"));
    assert!(tally.missed.is_empty(), "{} of {} missed:\n{}", tally.missed.len(), tally.ran_rm, tally.missed.join("\n"));
    let enough = tally.made == made && tally.allowed > made / 200 && tally.denied > made / 100;
    assert!(enough, "{tally:?}");
}
