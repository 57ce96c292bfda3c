//! Limits of accounts, budgets, retries, and enough failures.

use std::time::{SystemTime, UNIX_EPOCH};

use tapline_fleet::{BatchNews, Halt};

use crate::stage::Stage;

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn began(stage: &Stage, job: &str) -> Vec<u64> {
    let mut times: Vec<u64> = stage.noted(job, "began").iter().map(|text| text.trim().parse().unwrap()).collect();
    times.sort_unstable();
    times
}

#[test]
fn no_run_of_an_account_starts_before_its_limit_resets() {
    let stage = Stage::new();
    let until = now() + 3;
    let text = format!(
        r#"
        [[job]]
        name = "first"
        account = "shared"
        prompt = "limit first {until}"
        retry = 3
        [[job]]
        name = "second"
        account = "shared"
        needs = {{ told = "other" }}
        prompt = "say second"
        [[job]]
        name = "third"
        account = "shared"
        needs = {{ told = "other" }}
        prompt = "say third"
        [[job]]
        name = "other"
        account = "another"
        prompt = "say other"
        "#
    );
    // One at a time, in the order of the file: the others come after the limit is known.
    let ran = stage.run(&text, |options| options.jobs = 1);
    assert_eq!(ran.outcomes(), [("first", "success"), ("second", "success"), ("third", "success"), ("other", "success")]);
    assert_eq!(ran.result("first").attempts, 2);
    let limits: Vec<_> = ran.events.iter().filter(|event| matches!(event, BatchNews::Limit(_))).collect();
    assert_eq!(limits.len(), 1, "it is told once: {limits:?}");
    let opens = until * 1_000_000_000;
    assert!(began(&stage, "first")[1] >= opens, "the retry waited");
    assert!(began(&stage, "second")[0] >= opens && began(&stage, "third")[0] >= opens, "so did the others");
    // The session goes on.
    assert!(stage.noted("first", "args").iter().any(|args| args.contains("--resume=s-first")));
}

#[test]
fn a_limit_holds_for_other_batches_of_the_user() {
    let stage = Stage::new();
    let until = now() + 3;
    let limited = format!("[[job]]\nname = \"first\"\naccount = \"shared\"\nprompt = \"limit first {until}\"\n");
    assert_eq!(stage.run(&limited, |_| {}).outcomes(), [("first", "failure")]);
    let text = "[[job]]\nname = \"second\"\naccount = \"shared\"\nprompt = \"say second\"\n\
                [[job]]\nname = \"third\"\naccount = \"another\"\nprompt = \"say third\"\n";
    let ran = stage.run(text, |options| options.jobs = 1);
    assert_eq!(ran.outcomes(), [("second", "success"), ("third", "success")]);
    assert!(began(&stage, "second")[0] >= until * 1_000_000_000, "it waited");
}

#[test]
fn the_budget_is_overrun_by_no_more_than_what_was_running() {
    let stage = Stage::new();
    let rows: Vec<String> = (1..=20).map(|n| format!("{{ n = \"{n}\" }}")).collect();
    let text = format!("[[job]]\nname = \"j{{n}}\"\nprompt = \"say j{{n}}\"\nrows = [{}]\n", rows.join(","));
    let ran = stage.run(&text, |options| (options.jobs, options.budget_usd) = (2, Some(0.05)));
    let done = ran.end.results.len();
    assert!((5..=6).contains(&done), "each costs 0.01, and one more was running: {done}");
    assert_eq!(ran.end.halt, Some(Halt::Budget));
    assert!(!ran.end.is_complete() && ran.end.cost_usd <= 0.0601);
    let rest = stage.resume(|options| options.budget_usd = Some(0.05));
    assert_eq!((rest.end.results.len(), rest.events.len()), (done, 0), "what was spent is spent");
    let rest = stage.resume(|_| {});
    assert!(rest.end.is_complete() && rest.end.results.len() == 20);
    for n in 1..=20 {
        assert_eq!(stage.traces(&format!("j{n}")).len(), 1, "j{n} ran once");
    }
}

#[test]
fn enough_failures_are_enough() {
    let stage = Stage::new();
    let text =
        "[[job]]\nname = \"j{n}\"\nprompt = \"fail j{n}\"\nrows = [{n = \"1\"}, {n = \"2\"}, {n = \"3\"}, {n = \"4\"}]\n";
    let ran = stage.run(text, |options| (options.jobs, options.until_failures) = (1, Some(2)));
    assert_eq!(ran.outcomes(), [("j1", "failure"), ("j2", "failure")]);
    assert_eq!(ran.end.halt, Some(Halt::Failures));
}

#[test]
fn a_failure_of_the_server_is_tried_again_in_the_same_session() {
    let stage = Stage::new();
    let text = "[[job]]\nname = \"a\"\nprompt = \"once a\"\nretry = 2\nretry_delay = \"0\"\n[[job]]\nname = \"b\"\nprompt = \"once b\"\n";
    let ran = stage.run(text, |options| options.jobs = 2);
    assert_eq!(ran.outcomes(), [("a", "success"), ("b", "failure")]);
    let result = ran.result("a");
    assert_eq!((result.attempts, stage.traces("a").len()), (2, 2));
    assert!(stage.is_recorded(result) && result.recording.as_deref().unwrap().ends_with("-2"), "{result:?}");
    assert!(result.cost_usd.is_some_and(|cost| cost > 0.0), "{result:?}");
    let report = tapline_archive::report(result.recording.as_deref().unwrap()).unwrap();
    assert_eq!((report.run.attempts, report.ledger.cost_usd), (2, result.cost_usd), "the recording says the same");
}
