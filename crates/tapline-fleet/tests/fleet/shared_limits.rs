//! A limit that one worker learns holds for all of them.

use std::time::{SystemTime, UNIX_EPOCH};

use tapline_fleet::{BatchNews, WorkerNews};
use tapline_testkit::nats::NatsServer;
use tapline_testkit::wait_until;

use crate::crew::Crew;

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn a_limit_told_to_one_of_four_workers() {
    let server = NatsServer::start();
    let (crew, other) = (Crew::new(&server), Crew::new(&server));
    let workers: Vec<_> = (1..=4).map(|n| crew.worker(&format!("w{n}"), 1)).collect();
    let (tell, go) = (crew.path("tell"), crew.path("go"));
    let until = now() + 6;
    let first = format!(
        "[[job]]\nname = \"first\"\naccount = \"shared\"\nprompt = \"limit first {until} {}\"\n\
         [[job]]\nname = \"w-{{n}}\"\naccount = \"shared\"\nprompt = \"wait w-{{n}} {}\"\nrows = [{{n=\"1\"}},{{n=\"2\"}},{{n=\"3\"}}]\n",
        tell.display(),
        go.display(),
    );
    let second = "[[job]]\nname = \"l-{n}\"\naccount = \"shared\"\nprompt = \"say l-{n}\"\n\
                  rows = [{n=\"1\"},{n=\"2\"},{n=\"3\"},{n=\"4\"}]\n";
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            // All four are busy. What this batch orders waits on the queue, and its batch knows of no limit.
            wait_until("all four are busy", || {
                ["first", "w-1", "w-2", "w-3"].iter().all(|job| !crew.noted(job, "began").is_empty())
            });
            other.run_while(
                second,
                |options| (options.jobs, options.by_workers) = (4, false),
                |live| {
                    wait_until("they are ordered", || other.journal().len() >= 4);
                    let _ = live;
                    std::fs::write(&tell, "").unwrap();
                },
            )
        });
        let ran = crew.run_while(
            &first,
            |_| {},
            |live| {
                live.until("the first has ended", |event| matches!(event, BatchNews::Ended(result) if result.job == "first"));
                std::fs::write(&go, "").unwrap();
            },
        );
        assert_eq!(ran.outcomes(), [("first", "failure"), ("w-1", "success"), ("w-2", "success"), ("w-3", "success")]);
        assert!(ran.events.iter().any(|event| matches!(event, BatchNews::Limit(limit) if limit.account == "shared")));
        let ran = waits.join().unwrap();
        assert!(ran.end.is_complete() && ran.outcomes().iter().all(|(_, how)| *how == "success"), "{:?}", ran.outcomes());
    });
    for n in 1..=4 {
        let began: Vec<u64> = crew.noted(&format!("l-{n}"), "began").iter().map(|text| text.trim().parse().unwrap()).collect();
        assert_eq!(began.len(), 1, "l-{n} began once");
        assert!(began[0] >= until * 1_000_000_000, "l-{n} waited");
    }
    let told = workers.iter().filter(|worker| worker.has(|event| matches!(event, WorkerNews::Limit(_)))).count();
    assert_eq!(told, 1, "one of them learned it");
}
