//! Commands made by chance, held against rules and then run in the sandbox of the session crate's tests: `oracle [MADE] [OTHERS] [SEED]`.
//! It ends with 1 if an allowed command did more than its rule says, or if more than 5 % of what ran `rm` was missed.

#[path = "../../../crates/tapline-session/tests/it/oracle/commands.rs"]
mod commands;
#[path = "../../../crates/tapline-session/tests/it/oracle/sandbox.rs"]
mod sandbox;
#[path = "../../../crates/tapline-session/tests/it/oracle/verdicts.rs"]
mod verdicts;

use std::collections::HashSet;
use std::process::ExitCode;

/// Commands that are made at a time.
const AT_ONCE: usize = 100_000;

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).filter_map(|text| text.parse::<usize>().ok());
    let [made, others, seed] = [10_000_000, 100_000, 1].map(|usual| numbers.next().unwrap_or(usual));
    let mut commands = HashSet::new();
    let mut sum = verdicts::Tally::default();
    for (round, from) in (0..made).step_by(AT_ONCE).enumerate() {
        let count = AT_ONCE.min(made - from);
        // Others are taken from every round.
        let share = (others * (from + count)).div_ceil(made).saturating_sub(sum.others);
        let mut tally = verdicts::hold((seed + round) as u64, count, share, &mut commands);
        sum.made += tally.made;
        sum.allowed += tally.allowed;
        sum.others += tally.others;
        sum.ran_rm += tally.ran_rm;
        sum.denied += tally.denied;
        sum.asked += tally.asked;
        sum.too_much += tally.too_much;
        for line in tally.more.iter().chain(&tally.missed) {
            println!("{line}");
        }
        sum.more.append(&mut tally.more);
        sum.missed.append(&mut tally.missed);
        if round % 10 == 9 || sum.made == made {
            println!(
                "{} made, {} allowed and run ({} did more), {} others run; {} ran rm: {} denied, {} asked, {} missed; {} denied that did not",
                sum.made,
                sum.allowed,
                sum.more.len(),
                sum.others,
                sum.ran_rm,
                sum.denied,
                sum.asked,
                sum.missed.len(),
                sum.too_much
            );
        }
    }
    let few = sum.missed.len() * 20 <= sum.ran_rm;
    if sum.more.is_empty() && few { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
