//! What people are told: jobs that no worker takes, workers that die, a broker that goes away, jobs that a worker refuses.

use tapline_fleet::{BatchNews, EngineNews, WorkerNews};
use tapline_testkit::nats::NatsServer;
use tapline_testkit::wait_until;

use crate::crew::{Crew, IMPATIENT, options, play_worker};

#[test]
fn jobs_that_no_worker_takes_are_told_and_keep_no_place_from_others() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let _worker = crew.worker("plain", 1);
    let text = "[[job]]\nname = \"gpu-{n}\"\nworker = [\"gpu=yes\"]\nprompt = \"say gpu-{n}\"\nrows = [{n=\"1\"},{n=\"2\"},{n=\"3\"}]\n\
                [[job]]\nname = \"other\"\nprompt = \"say other\"\n";
    let waits = |event: &BatchNews, wanted: usize| matches!(event, BatchNews::Engine(EngineNews::NoWorker { missing, jobs }) if missing == "has gpu=yes" && *jobs == wanted);
    let ran = crew.run_while(
        text,
        |_| {},
        |live| {
            live.until("three jobs wait", |event| waits(event, 3));
            live.until("the other one ends", |event| matches!(event, BatchNews::Ended(result) if result.job == "other"));
            assert_eq!(live.count(|event| waits(event, 0)), 0, "no such worker is there");
            let mut strong = options("strong", 1);
            strong.labels = vec!["gpu=yes".to_owned()];
            let strong = crew.worker_with("strong", strong);
            live.until("a worker has come", |event| waits(event, 0));
            wait_until("all have ended", || crew.ended().len() == 4);
            drop(strong);
        },
    );
    assert!(ran.end.is_complete() && ran.outcomes().iter().all(|(_, how)| *how == "success"), "{:?}", ran.outcomes());
    let of = |job: &str| ran.result(job).worker.clone().unwrap_or_default();
    assert_eq!([of("gpu-1"), of("gpu-3"), of("other")], ["strong", "strong", "plain"]);
}

#[test]
fn a_worker_that_died_is_told() {
    const TEST: &str = "a_worker_that_died_is_told";
    if play_worker(1) {
        return;
    }
    let server = NatsServer::start();
    let mut crew = Crew::new(&server);
    crew.patience = IMPATIENT;
    let go = crew.path("go");
    let text = format!("[[job]]\nname = \"a.b\"\nprompt = \"wait a-b {}\"\n", go.display());
    let died = |event: &BatchNews, next: &str, again: bool| match event {
        BatchNews::Engine(EngineNews::Gone { worker, job, by, is_same, .. }) => {
            worker == "w1" && job == "a.b" && by == next && *is_same == again
        }
        _ => false,
    };
    let ran = crew.run_while(
        &text,
        |_| {},
        |live| {
            let runs = |count: usize| wait_until("it runs", || crew.noted("a-b", "began").len() == count);
            let first = crew.process(module_path!(), TEST, "w1");
            runs(1);
            drop(first);
            let again = crew.process(module_path!(), TEST, "w1");
            live.until("it was started again", |event| died(event, "w1", true));
            runs(2);
            drop(again);
            let other = crew.worker("w2", 1);
            live.until("it is gone", |event| died(event, "w2", false));
            std::fs::write(&go, "").unwrap();
            wait_until("the other makes it", || crew.ended().len() == 1);
            drop(other);
        },
    );
    assert_eq!(ran.outcomes(), [("a.b", "success")]);
    assert_eq!(ran.result("a.b").worker.as_deref(), Some("w2"));
}

#[test]
fn a_broker_that_goes_away_and_comes_back_is_told_once_each() {
    let mut server = NatsServer::start();
    let mut crew = Crew::new(&server);
    crew.patience = IMPATIENT;
    let (worker, go) = (crew.worker("w1", 1), crew.path("go"));
    let text = format!("[[job]]\nname = \"a\"\nprompt = \"wait a {}\"\n", go.display());
    let lost = "the connection to the broker is lost";
    let back = "the broker is there again";
    crew.run_while(
        &text,
        |_| {},
        |live| {
            let of_batch = |words| {
                live.count(|event| matches!(event, BatchNews::Engine(EngineNews::Trouble(what)) if what.starts_with(words)))
            };
            let of_worker = |words| worker.count(|event| matches!(event, WorkerNews::Trouble(what) if what.starts_with(words)));
            wait_until("it runs", || !crew.noted("a", "began").is_empty());
            for times in 1..=2 {
                server.kill();
                wait_until("it is told", || of_batch(lost) == times && of_worker(lost) == times);
                server.again();
                wait_until("its return is told", || of_batch(back) == times && of_worker(back) == times);
            }
            std::fs::write(&go, "").unwrap();
            wait_until("it has ended", || crew.ended().len() == 1);
            assert_eq!([of_batch(lost), of_worker(lost), of_batch(back), of_worker(back)], [2; 4], "not once for each try");
        },
    );
}

#[test]
fn a_worker_says_what_it_refuses_and_why() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let worker = crew.worker("w1", 1);
    let text = "[[job]]\nname = \"args\"\nargs = [\"--x\"]\nprompt = \"say args\"\n\
                [[job]]\nname = \"folder\"\nfolder = \"/no/such/folder\"\nprompt = \"say folder\"\n";
    let ran = crew.run(text, |_| {});
    assert_eq!(ran.outcomes(), [("args", "failure"), ("folder", "failure")]);
    worker.until(
        "it is told",
        |event| matches!(event, WorkerNews::Refused { job, why } if job == "args" && why.contains("`allow-args`")),
    );
    worker.until(
        "the other, too",
        |event| matches!(event, WorkerNews::Refused { job, why } if job == "folder" && why.contains("/no/such/folder")),
    );
}
