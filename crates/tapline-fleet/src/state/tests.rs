//! What is next, after which notes.

use super::*;
use crate::note::RepeatJobs;
use crate::plan::{Entry, Source};
use crate::result::JobOutcome;

fn plan(jobs: &[&[(&str, &str)]]) -> Plan {
    let entry = |(number, job): (usize, &&[(&str, &str)])| {
        let own = job.iter().map(|(key, value)| ((*key).to_owned(), (*value).into()));
        let common = [("prompt", "x"), ("bin", "/bin/sh")].map(|(key, value)| (key.to_owned(), value.into()));
        Entry {
            place: format!("job {number}").into(),
            fields: common.into_iter().chain(own).collect(),
            rows: None,
            homes: BTreeMap::new(),
        }
    };
    let source = Source { base: "/".into(), name: "test".to_owned(), entries: jobs.iter().enumerate().map(entry).collect() };
    Plan::new(source, crate::plan::RunsOn::ThisMachine).unwrap_or_else(|error| panic!("{error}"))
}

fn begun(job: &str, attempt: u64) -> BatchNote {
    BatchNote::Begun(RunBegun { job: job.to_owned(), attempt, recording: format!("/r/{job}").into(), session: None })
}

fn ended(job: &str, outcome: JobOutcome, cost_usd: f64) -> BatchNote {
    let result = JobResult { job: job.to_owned(), outcome, cost_usd: Some(cost_usd), ..JobResult::default() };
    BatchNote::Ended(Box::new(result))
}

fn again(job: &str, at: i64) -> BatchNote {
    let (session, cost_usd) = (Some("s".to_owned()), Some(0.5));
    BatchNote::Again(RunAgain { job: job.to_owned(), at, session, cost_usd, error: None })
}

/// What is next, in a word: the job that starts, or the time that is waited for.
fn next(state: &mut State, now: i64) -> String {
    match state.next(now) {
        Next::Start(startable) => {
            state.start(&startable.job.name);
            startable.job.name
        }
        Next::Over(result) => {
            let told = format!("{} {}", result.job, result.outcome.word());
            state.end(*result);
            told
        }
        Next::Wait(until) => until.to_string(),
        Next::Nothing => "nothing".to_owned(),
    }
}

#[test]
fn a_limit_holds_back_all_jobs_of_its_account_and_nobody_else() {
    let jobs: &[&[(&str, &str)]] =
        &[&[("name", "a"), ("account", "x")], &[("name", "b"), ("account", "x")], &[("name", "c"), ("account", "y")]];
    let limit = BatchNote::Limit(AccountLimit { account: "x".to_owned(), until: 100 });
    let mut state = State::new(plan(jobs), vec![limit], None, None);
    let told: Vec<_> = [50, 50, 100, 101, 101, 101].map(|now| next(&mut state, now)).into();
    assert_eq!(told, ["c", "101", "101", "a", "b", "nothing"]);
}

#[test]
fn a_job_that_is_tried_again_waits_and_keeps_nobody_from_running() {
    let notes = vec![begun("a", 1), again("a", 70)];
    let mut state = State::new(plan(&[&[("name", "a")], &[("name", "b")]]), notes, None, None);
    assert_eq!([next(&mut state, 60), next(&mut state, 60)], ["b", "70"]);
    let Next::Start(startable) = state.next(70) else { panic!("it may start") };
    let Begun { attempts, retries, session, cut_off, .. } = startable.before;
    assert_eq!((attempts, retries, session.as_deref(), cut_off), (1, 1, Some("s"), false));
}

#[test]
fn what_has_ended_does_not_start_again_and_what_was_running_was_cut_off() {
    let good = JobOutcome::Success;
    let notes = vec![begun("a", 1), begun("b", 1), ended("a", good, 1.0), ended("a", JobOutcome::Failure, 9.0)];
    let mut state =
        State::new(plan(&[&[("name", "a")], &[("name", "b")], &[("name", "c"), ("needs", "a")]]), notes, None, None);
    assert_eq!((state.counts(), state.spent()), ((3, 1), 1.0), "a second result counts for nothing");
    assert_eq!(state.unfinished(), ["b"]);
    let Next::Start(startable) = state.next(0) else { panic!("it goes on") };
    assert!(startable.job.name == "b" && startable.before.cut_off);
    state.start("b");
    assert_eq!([next(&mut state, 0), next(&mut state, 0)], ["c", "nothing"]);
}

#[test]
fn a_run_that_was_cut_off_before_its_first_words_has_the_session_of_the_run_before() {
    let session = Some("s".to_owned());
    let second = RunBegun { job: "a".to_owned(), attempt: 2, recording: "/r/a".into(), session: session.clone() };
    let notes = vec![begun("a", 1), BatchNote::Begun(second)];
    let mut state = State::new(plan(&[&[("name", "a")]]), notes, None, None);
    let Next::Start(startable) = state.next(0) else { panic!("it goes on") };
    assert_eq!((startable.before.attempts, startable.before.session), (2, session));
}

#[test]
fn nothing_starts_once_the_budget_is_used_up_or_enough_has_failed() {
    let jobs: &[&[(&str, &str)]] = &[&[("name", "a")], &[("name", "b")], &[("name", "c")]];
    let failed = vec![begun("a", 1), ended("a", JobOutcome::Failure, 0.75)];
    let mut state = State::new(plan(jobs), failed.clone(), Some(0.75), None);
    assert_eq!((next(&mut state, 0).as_str(), state.halt()), ("nothing", Some(Halt::Budget)));
    let mut state = State::new(plan(jobs), failed.clone(), None, Some(1));
    assert_eq!((next(&mut state, 0).as_str(), state.halt()), ("nothing", Some(Halt::Failures)));
    let mut state = State::new(plan(jobs), failed, Some(0.76), Some(2));
    assert_eq!((next(&mut state, 0).as_str(), state.halt()), ("b", None));
}

#[test]
fn jobs_that_need_a_failure_are_skipped_one_after_the_other() {
    let jobs: &[&[(&str, &str)]] = &[&[("name", "a")], &[("name", "b"), ("needs", "a")], &[("name", "c"), ("needs", "b")]];
    let mut state = State::new(plan(jobs), vec![begun("a", 1), ended("a", JobOutcome::Failure, 0.0)], None, None);
    assert_eq!([next(&mut state, 0), next(&mut state, 0), next(&mut state, 0)], ["b skipped", "c skipped", "nothing"]);
    assert_eq!(state.counts(), (3, 3));
}

#[test]
fn what_failed_is_run_again_as_if_it_were_new() {
    let jobs: &[&[(&str, &str)]] = &[
        &[("name", "a")],
        &[("name", "b"), ("needs", "a")],
        &[("name", "c"), ("needs", "a"), ("if", "a.failure")],
        &[("name", "d")],
    ];
    let (good, bad) = (JobOutcome::Success, JobOutcome::Failure);
    let notes = vec![
        begun("a", 1),
        again("a", 0),
        begun("a", 2),
        ended("a", bad, 1.0),
        ended("b", JobOutcome::Skipped, 0.0),
        begun("c", 1),
        ended("c", good, 0.5),
        begun("d", 1),
        ended("d", good, 0.25),
    ];
    assert_eq!(RepeatJobs::Nothing.note(&notes), None);
    let note = RepeatJobs::Failed.note(&notes);
    assert_eq!(note, Some(BatchNote::Repeat(vec!["a".to_owned(), "b".to_owned()])));
    let notes: Vec<_> = notes.into_iter().chain(note).collect();
    let left: Vec<_> = steps_left(plan(jobs), notes.clone()).into_iter().map(|step| step.name).collect();
    assert_eq!(left, ["a", "b", "c"], "what c comes to is known when a has ended");
    let mut state = State::new(plan(jobs), notes.clone(), None, None);
    assert_eq!(state.unfinished(), Vec::<&str>::new(), "nothing of its runs is left to go on with");
    let Next::Start(startable) = state.next(0) else { panic!("it is run again") };
    let Begun { attempts, retries, session, cut_off, .. } = startable.before;
    assert_eq!((startable.job.name.as_str(), attempts, retries, session, cut_off), ("a", 2, 0, None, false));
    let more = [begun("a", 3), ended("a", good, 2.0)];
    let mut state = State::new(plan(jobs), notes.into_iter().chain(more).collect(), None, None);
    assert_eq!([next(&mut state, 0), next(&mut state, 0), next(&mut state, 0)], ["c success", "b", "nothing"]);
    assert!((state.spent() - 2.75).abs() < 1e-9, "{}", state.spent());
}

#[test]
fn what_waits_is_known_with_the_reason() {
    let jobs: &[&[(&str, &str)]] = &[
        &[("name", "a"), ("account", "x")],
        &[("name", "b"), ("account", "y")],
        &[("name", "c"), ("account", "y")],
        &[("name", "d"), ("needs", "a")],
        &[("name", "e"), ("account", "y")],
    ];
    let limit = BatchNote::Limit(AccountLimit { account: "x".to_owned(), until: 100 });
    let notes = vec![limit, begun("b", 1), again("b", 70)];
    let mut state = State::new(plan(jobs), notes, None, None);
    assert_eq!(next(&mut state, 50), "c");
    let expected = WaitingJobs {
        for_place: 1,
        for_needs: [("a".to_owned(), 1)].into(),
        for_limit: [("x".to_owned(), (1, 101))].into(),
        for_retry: Some((1, 70)),
    };
    assert_eq!(state.waiting(50), expected);
}
