//! Many jobs over several workers: each has exactly one result.

use tapline_fleet::{BatchNews, EngineNews, Halt, JobOutcome, WorkerNews};
use tapline_testkit::TempFolder;
use tapline_testkit::nats::NatsServer;

use crate::crew::{Crew, numbered};

#[test]
fn a_thousand_jobs_over_four_workers() {
    const JOBS: usize = 1_000;
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let workers: Vec<_> = (1..=4).map(|n| crew.worker(&format!("w{n}"), 2)).collect();
    let ran = crew.run(&numbered(JOBS, "say j{n} {n}"), |_| {});
    assert!(ran.end.is_complete());
    let names: Vec<_> = ran.end.results.iter().map(|result| result.job.clone()).collect();
    assert_eq!(names, (1..=JOBS).map(|n| format!("j{n}")).collect::<Vec<_>>(), "in the order of the file");
    for (n, result) in (1..).zip(&ran.end.results) {
        assert_eq!((result.outcome, result.attempts), (JobOutcome::Success, 1), "{result:?}");
        assert_eq!(result.answer.as_deref(), Some(format!("done j{n} {n}").as_str()));
        assert_eq!(crew.traces(&result.job).len(), 1, "{} ran once", result.job);
        assert!(crew.is_recorded(result) && result.warnings.is_empty(), "{result:?}");
    }
    assert_eq!(crew.store().list().unwrap().len(), JOBS, "each has its recording here, and nothing else is here");
    assert!(crew.ended().values().all(|count| *count == 1), "no job has two results");
    let ended = ran.events.iter().filter(|event| matches!(event, BatchNews::Ended(_))).count();
    assert_eq!(ended, JOBS);
    let again = crew.resume(|_| {});
    assert_eq!(again.end.results, ran.end.results);
    let new = again.events.iter().filter(|event| !matches!(event, BatchNews::Engine(EngineNews::Workers { .. }))).count();
    assert_eq!(new, 0, "a batch that has ended has nothing to resume: {:?}", again.events);
    drop(workers);
}

#[test]
fn the_budget_is_overrun_by_no_more_than_what_was_running() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let _workers = ["w1", "w2"].map(|name| crew.worker(name, 1));
    let ran = crew.run(&numbered(20, "say j{n}"), |options| options.budget_usd = Some(0.05));
    let done = ran.end.results.len();
    assert!((5..=6).contains(&done), "each costs 0.01, and one more was running: {done}");
    assert_eq!(ran.end.halt, Some(Halt::Budget));
    let rest = crew.resume(|options| options.budget_usd = Some(0.05));
    assert_eq!(rest.end.results.len(), done, "what was spent is spent");
    let rest = crew.resume(|_| {});
    assert!(rest.end.is_complete() && rest.end.results.len() == 20);
    for n in 1..=20 {
        assert_eq!(crew.traces(&format!("j{n}")).len(), 1, "j{n} ran once");
    }
}

#[test]
fn steps_use_what_earlier_ones_came_to_on_other_workers() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let _workers = ["w1", "w2"].map(|name| crew.worker(name, 1));
    let text = "[[job]]\nname = \"plan\"\nprompt = \"items plan a b c\"\n\
                [[job]]\nname = \"each\"\nneeds = [\"plan\"]\nfor_each = \"plan.structured.items\"\nprompt = \"say each-{item}\"\n\
                [[job]]\nname = \"last\"\nneeds = [\"each\"]\nprompt = \"{each.transcript}\\nsay last\"\n";
    let ran = crew.run(text, |_| {});
    let names: Vec<_> = ran.outcomes().into_iter().map(|(name, how)| format!("{name} {how}")).collect();
    assert_eq!(names, ["plan success", "each-1 success", "each-2 success", "each-3 success", "last success"]);
    assert_eq!(ran.result("each-2").answer.as_deref(), Some("done each-b "));
}

#[test]
fn a_retry_on_another_worker_counts_what_the_first_run_cost() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let text = "[[job]]\nname = \"a\"\nprompt = \"once a\"\nretry = 2\nretry_delay = \"0\"\n";
    let _workers = ["w1", "w2"].map(|name| crew.worker(name, 1));
    let ran = crew.run(text, |_| {});
    let result = ran.result("a");
    assert_eq!((result.outcome, result.attempts, crew.traces("a").len()), (JobOutcome::Success, 2, 2), "{result:?}");
    assert!(result.cost_usd.is_some_and(|cost| cost > 0.0), "{result:?}");
    assert!(crew.is_recorded(result) && result.recording.as_deref().unwrap().ends_with("-2"), "{result:?}");
    assert!(ran.events.iter().any(|event| matches!(event, BatchNews::Again(_))));
}

#[test]
fn what_is_too_large_for_a_message_travels_as_well() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let _worker = crew.worker("w1", 1);
    let long = "x".repeat(3 << 20);
    let ran = crew.run(&format!("[[job]]\nname = \"a\"\nprompt = \"{long}\\nsay a\"\n"), |_| {});
    assert_eq!(ran.outcomes(), [("a", "success")], "{:?}", ran.end.results);
}

#[test]
fn a_broker_with_small_messages_takes_long_prompts_answers_and_recordings() {
    let folder = TempFolder::new();
    let config = folder.join("server.conf");
    std::fs::write(&config, "max_payload: 16384\n").unwrap();
    let server = NatsServer::with(&["-c", config.to_str().unwrap()]);
    let crew = Crew::new(&server);
    let worker = crew.worker("w1", 1);
    let prompt = "x".repeat(100_000);
    let text = format!(
        "[[job]]\nname = \"a\"\nprompt = \"{prompt}\\nlong a 300000\"\n[[job]]\nname = \"b\"\nprompt = \"long b 15000\"\n"
    );
    let ran = crew.run(&text, |_| {});
    for (job, length) in [("a", 300_000), ("b", 15_000)] {
        let result = ran.result(job);
        assert_eq!((result.outcome, result.answer.as_ref().map(String::len)), (JobOutcome::Success, Some(length)), "{job}");
        assert!(crew.is_recorded(result) && result.warnings.is_empty(), "{:?}", result.warnings);
    }
    assert!(!ran.events.iter().any(|event| matches!(event, BatchNews::Engine(EngineNews::Trouble(_)))), "{:?}", ran.events);
    assert!(!worker.has(|event| matches!(event, WorkerNews::Trouble(_))));
}
