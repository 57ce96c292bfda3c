//! Workers that cannot start an agent: they leave the jobs to others, rest, and say why.

use std::path::PathBuf;

use tapline_fleet::{BatchNews, EngineNews, WorkerNews};
use tapline_testkit::agent::by_prompt;
use tapline_testkit::nats::NatsServer;
use tapline_testkit::wait_until;

use crate::crew::{Crew, Hand, numbered, options};

impl Crew {
    /// A worker with this agent.
    fn worker_of(&self, name: &str, places: usize, program: PathBuf) -> Hand {
        let mut options = options(name, places);
        options.programs = vec![(None, program)];
        self.worker_with(name, options)
    }

    /// An agent that ends at once.
    fn broken_agent(&self) -> PathBuf {
        let path = self.path("agent");
        let text = "#!/bin/sh\necho 'no licence' >&2\nexit 1\n";
        // Not written by this process: another thread could fork meanwhile, and nobody starts a file that somebody has open for writing.
        let mut writes = std::process::Command::new("sh");
        writes.args(["-c", "printf '%s' \"$1\" >\"$0\" && chmod +x \"$0\""]).arg(&path).arg(text);
        assert!(writes.status().unwrap().success());
        path
    }
}

fn rests(event: &WorkerNews, because: &str) -> bool {
    matches!(event, WorkerNews::Rests { why, .. } if why.contains(because))
}

#[test]
fn a_sick_worker_leaves_the_jobs_to_others_and_rests() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let without = crew.worker_of("without", 4, crew.path("nowhere"));
    without.until("it says why it is not ready", |event| rests(event, "not found"));
    let broken = crew.worker_of("broken", 2, crew.broken_agent());
    broken.until("it is ready", |event| matches!(event, WorkerNews::Ready));
    let mut well = None;
    let ran = crew.run_while(
        &numbered(12, "say j{n}"),
        |options| options.jobs = 12,
        |live| {
            let fails = |event: &WorkerNews| matches!(event, WorkerNews::Ended { .. });
            broken.until("it rests", |event| rests(event, "3 runs of it could not be started, the last one: no licence"));
            live.until("the batch says it", |event| match event {
                BatchNews::Engine(EngineNews::NoWorker { missing, jobs }) => {
                    *jobs >= 10 && missing.starts_with("can start") && missing.contains("worker ")
                }
                _ => false,
            });
            assert!(broken.count(fails) <= 2, "nobody else was there");
            well = Some(crew.worker("well", 2));
            wait_until("all have ended", || crew.ended().len() == 12);
        },
    );
    let failed: Vec<_> = ran.outcomes().into_iter().filter(|(_, how)| *how != "success").collect();
    assert!(failed.len() <= 2, "{failed:?}");
    assert!(!without.has(|event| matches!(event, WorkerNews::Ready | WorkerNews::Began { .. })));
    std::os::unix::fs::symlink(by_prompt(), crew.path("nowhere")).unwrap();
    without.until("it is ready now", |event| matches!(event, WorkerNews::Ready));
}

#[test]
fn a_run_that_cannot_be_started_is_made_by_another_worker() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let (broken, well) = (crew.worker_of("broken", 2, crew.broken_agent()), crew.worker("well", 1));
    for worker in [&broken, &well] {
        worker.until("it is ready", |event| matches!(event, WorkerNews::Ready));
    }
    let ran = crew.run(&numbered(12, "slow j{n}"), |options| options.jobs = 12);
    assert!(ran.outcomes().iter().all(|(_, how)| *how == "success"), "{:?}", ran.outcomes());
    assert!(ran.end.results.iter().all(|result| result.worker.as_deref() == Some("well")));
    broken.until("it gives them back", |event| matches!(event, WorkerNews::GivenBack { .. }));
}

#[test]
fn a_job_that_no_worker_can_start_has_failed() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let workers = ["a", "b"].map(|name| crew.worker_of(name, 1, crew.broken_agent()));
    for worker in &workers {
        worker.until("it is ready", |event| matches!(event, WorkerNews::Ready));
    }
    let ran = crew.run(&numbered(1, "say j{n}"), |_| {});
    assert_eq!(ran.outcomes(), [("j1", "failure")]);
    let error = ran.result("j1").error.clone().unwrap_or_default();
    assert!(error.contains("no licence") && error.contains("worker "), "{error}");
}
