//! Batches and workers that are stopped, also while the broker is away, and batches that begin nothing more.

use tapline_fleet::{BatchNews, EngineNews, Halt, WorkerNews};
use tapline_testkit::nats::NatsServer;
use tapline_testkit::wait_until;

use crate::crew::{Crew, IMPATIENT, Live, numbered, options, play_worker};

/// How many runs ended as cut off.
fn cut_off(live: &Live) -> usize {
    live.count(|event| matches!(event, BatchNews::CutOff { .. }))
}

/// A script that waits for a file in the folder of the crew, or until the folder is gone.
fn waits_for(crew: &Crew, file: &str) -> String {
    format!("while [ ! -e {} ] && [ -d {} ]; do sleep 0.02; done", crew.path(file).display(), crew.path("").display())
}

#[test]
fn a_batch_can_be_stopped_after_its_worker_was_started_again() {
    const TEST: &str = "a_batch_can_be_stopped_after_its_worker_was_started_again";
    if play_worker(1) {
        return;
    }
    let server = NatsServer::start();
    // So patient that the run does not come to the new process while the test lasts.
    let crew = Crew::new(&server);
    let go = crew.path("go");
    let text = format!("[[job]]\nname = \"a\"\nprompt = \"wait a {}\"\n", go.display());
    let mut last = None;
    let ran = crew.run_while(
        &text,
        |_| {},
        |live| {
            let worker = crew.process(module_path!(), TEST, "w1");
            let ready = || {
                let files = std::fs::read_dir(crew.path("")).unwrap().map(|entry| entry.unwrap().path());
                files.filter(|path| path.extension().is_some_and(|end| end == "ready")).count()
            };
            wait_until("it is ready", || ready() == 1);
            wait_until("it runs", || !crew.noted("a", "began").is_empty());
            drop(worker);
            last = Some(crew.process(module_path!(), TEST, "w1"));
            wait_until("the new process is ready", || ready() == 2);
            live.stop.send(1).unwrap();
        },
    );
    assert!(ran.end.stopped && ran.end.results.is_empty(), "{:?}", ran.end);
    std::fs::write(&go, "").unwrap();
    let ran = crew.resume(|_| {});
    assert_eq!(ran.outcomes(), [("a", "success")]);
}

#[test]
fn a_batch_can_be_stopped_after_a_worker_gave_its_run_back() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let (worker, go) = (crew.worker("w1", 1), crew.path("go"));
    let text = format!("[[job]]\nname = \"a\"\nprompt = \"wait a {}\"\n", go.display());
    let ran = crew.run_while(
        &text,
        |_| {},
        |live| {
            wait_until("it runs", || !crew.noted("a", "began").is_empty());
            worker.stop.send(2).unwrap();
            worker.until("it gives it back", |event| matches!(event, WorkerNews::GivenBack { .. }));
            live.stop.send(1).unwrap();
        },
    );
    assert!(ran.end.stopped && ran.end.results.is_empty(), "{:?}", ran.end);
}

#[test]
fn a_batch_and_a_worker_can_be_stopped_while_the_broker_is_away() {
    let mut server = NatsServer::start();
    let mut crew = Crew::new(&server);
    crew.patience = IMPATIENT;
    let (worker, go) = (crew.worker("w1", 1), crew.path("go"));
    let text = numbered(3, &format!("wait j{{n}} {}", go.display()));
    let ran = crew.run_while(
        &text,
        |options| (options.jobs, options.by_workers) = (3, false),
        |live| {
            wait_until("one runs, and two wait", || {
                crew.journal().len() == 3 && (1..=3).any(|n| !crew.noted(&format!("j{n}"), "began").is_empty())
            });
            server.kill();
            // Its outcome cannot be stored.
            std::fs::write(&go, "").unwrap();
            live.stop.send(2).unwrap();
        },
    );
    assert!(ran.end.stopped && ran.end.results.is_empty(), "{:?}", ran.end);
    worker.stop(3);
    server.again();
    let worker = crew.worker("w1", 1);
    let ran = crew.resume(|_| {});
    assert!(ran.end.is_complete() && ran.outcomes().iter().all(|(_, how)| *how == "success"), "{:?}", ran.outcomes());
    drop(worker);
}

#[test]
fn a_batch_that_waits_for_the_broker_before_it_stops_says_so_and_what_a_second_signal_does() {
    let mut server = NatsServer::start();
    let crew = Crew::new(&server);
    let (worker, go) = (crew.worker("w1", 1), crew.path("go"));
    let ran = crew.run_while(
        &format!("[[job]]\nname = \"a\"\nprompt = \"wait a {}\"\n", go.display()),
        |_| {},
        |live| {
            wait_until("it runs", || !crew.noted("a", "began").is_empty());
            server.kill();
            live.stop.send(1).unwrap();
            live.until("it says so", |event| format!("{event:?}").contains("Ctrl-C again (or another signal) ends the batch"));
            assert_eq!(cut_off(live), 0, "it waits");
            live.stop.send(2).unwrap();
        },
    );
    assert!(ran.end.stopped && ran.end.results.is_empty(), "{:?}", ran.end);
    // The run went on meanwhile, and its result is found.
    std::fs::write(&go, "").unwrap();
    server.again();
    let ran = crew.resume(|_| {});
    assert_eq!((ran.outcomes(), crew.noted("a", "began").len()), (vec![("a", "success")], 1));
    drop(worker);
}

#[test]
fn what_waits_on_the_queue_does_not_overrun_the_budget() {
    const JOBS: usize = 40;
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let _worker = crew.worker("w1", 1);
    let file = |n: usize| crew.path(&format!("go-{n}"));
    let text = numbered(JOBS, &format!("wait j{{n}} {}{{n}}", crew.path("go-").display()));
    let began = |n: &usize| !crew.noted(&format!("j{n}"), "began").is_empty();
    let ran = crew.run_while(
        &text,
        |options| (options.jobs, options.by_workers, options.budget_usd) = (JOBS, false, Some(0.01)),
        |live| {
            wait_until("all are ordered, and one runs", || crew.journal().len() == JOBS && (1..=JOBS).any(|n| began(&n)));
            let first = (1..=JOBS).find(began).unwrap();
            std::fs::write(file(first), "").unwrap();
            // The next one may have begun before anybody knew what the first cost.
            wait_until("the others are withdrawn", || cut_off(live) >= JOBS - 2);
            (1..=JOBS).for_each(|n| std::fs::write(file(n), "").unwrap());
        },
    );
    let done = ran.end.results.len();
    assert!((1..=2).contains(&done), "{:?}", ran.outcomes());
    assert_eq!(ran.end.halt, Some(Halt::Budget));
    assert_eq!((1..=JOBS).filter(began).count(), done, "nothing else was begun");
    let ran = crew.resume(|options| options.budget_usd = Some(10.0));
    assert!(ran.end.is_complete() && ran.outcomes().iter().all(|(_, how)| *how == "success"), "{:?}", ran.outcomes());
    assert!((1..=JOBS).all(|n| ran.result(&format!("j{n}")).attempts == 1), "what did not begin was not cut off");
}

#[test]
fn nothing_more_begins_after_so_many_failures() {
    const JOBS: usize = 20;
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let _worker = crew.worker("w1", 1);
    let file = |n: usize| crew.path(&format!("go-{n}"));
    let began = |n: &usize| !crew.noted(&format!("j{n}"), "began").is_empty();
    // All of them are ordered before the first one fails. Each fails when it is told to.
    for n in 1..=JOBS {
        let script = waits_for(&crew, &format!("go-{n}"));
        std::fs::write(crew.path(&format!("script-{n}")), format!("{script}; exit 1")).unwrap();
    }
    let ran = crew.run_while(
        &numbered(JOBS, &format!("sh j{{n}} {}{{n}}", crew.path("script-").display())),
        |options| (options.jobs, options.by_workers, options.until_failures) = (JOBS, false, Some(2)),
        |live| {
            wait_until("all are ordered", || crew.journal().len() == JOBS);
            for failed in 0..2 {
                wait_until("one runs", || (1..=JOBS).filter(began).count() > failed);
                (1..=JOBS).filter(began).for_each(|n| std::fs::write(file(n), "").unwrap());
            }
            // The next one may have begun before anybody knew of the second failure.
            wait_until("the others are withdrawn", || cut_off(live) >= JOBS - 3);
            (1..=JOBS).for_each(|n| std::fs::write(file(n), "").unwrap());
        },
    );
    let done = ran.end.results.len();
    assert!((2..=3).contains(&done), "{:?}", ran.outcomes());
    assert_eq!(ran.end.halt, Some(Halt::Failures));
    assert_eq!((1..=JOBS).filter(began).count(), done, "nothing else was begun");
    let ran = crew.resume(|_| {});
    assert!(ran.end.is_complete(), "{:?}", ran.outcomes());
    assert!(crew.ended().values().all(|count| *count == 1), "each has one result");
    assert!((1..=JOBS).all(|n| crew.traces(&format!("j{n}")).len() == 1), "each ran once");
}

#[test]
fn a_run_that_goes_on_after_a_halt_is_not_made_twice() {
    const TEST: &str = "a_run_that_goes_on_after_a_halt_is_not_made_twice";
    if let Some(crew) = Crew::of_process() {
        let text = std::fs::read_to_string(crew.path("text")).unwrap();
        crew.run(&text, |options| (options.jobs, options.by_workers, options.until_failures) = (2, false, Some(1)));
        return;
    }
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let go = crew.path("go");
    let job = |name: &str, prompt: &str| format!("[[job]]\nname = \"{name}\"\nprompt = \"{prompt}\"\n");
    let waits = format!("wait a {}", go.display());
    // It fails when the other one runs: a run that has not begun would be withdrawn.
    let (fails, script) = (format!("sh b {}", crew.path("script").display()), waits_for(&crew, "fail"));
    std::fs::write(crew.path("script"), format!("{script}; exit 1")).unwrap();
    let text = [job("a", &waits), job("b", &fails), job("c", "say c"), job("d", "say d")].concat();
    std::fs::write(crew.path("text"), text).unwrap();
    let _workers = ["w1", "w2"].map(|name| crew.worker(name, 1));
    let batch = crew.process(module_path!(), TEST, "batch");
    wait_until("one runs", || !crew.noted("a", "began").is_empty());
    std::fs::write(crew.path("fail"), "").unwrap();
    wait_until("the other one has failed", || crew.ended().len() == 1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    wait_until("the jobs of the batch are withdrawn", || {
        runtime.block_on(async {
            // On a busy machine, an answer may come too late.
            let Ok(client) = async_nats::connect(server.url()).await else { return false };
            let jobs = async_nats::jetstream::new(client).get_stream("TAPLINE_JOBS").await;
            jobs.is_ok_and(|jobs| jobs.cached_info().state.messages == 0)
        })
    });
    drop(batch);
    let ran = crew.resume_while(
        |options| (options.jobs, options.by_workers) = (2, false),
        |_| {
            // One worker is free. It would get the run that is under way before the last job, which is ordered later.
            let began = || crew.noted("a", "began").len();
            wait_until("the others have ended", || crew.ended().contains_key("d") || began() > 1);
            assert_eq!(began(), 1, "it is under way");
            std::fs::write(&go, "").unwrap();
        },
    );
    assert_eq!(ran.outcomes(), [("a", "success"), ("b", "failure"), ("c", "success"), ("d", "success")]);
    assert!(crew.ended().values().all(|count| *count == 1), "each has one result");
    assert_eq!(crew.traces("a").len(), 1);
}

#[test]
fn what_a_run_cost_before_it_was_cut_off_counts() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let (first, go) = (crew.worker("w1", 1), crew.path("go"));
    let text = format!(
        "[[job]]\nname = \"a\"\nprompt = \"spend a {}\"\n[[job]]\nname = \"b\"\nprompt = \"say b\"\nneeds = [\"a\"]\n",
        go.display()
    );
    // It stays until the batch has ended: if something is left for the next job, that runs, and the test fails.
    let mut second = None;
    let ran = crew.run_while(
        &text,
        |options| options.budget_usd = Some(0.2),
        |_| {
            wait_until("it works", || crew.traces("a").iter().any(|said| String::from_utf8_lossy(said).contains("does spend")));
            first.stop(2);
            std::fs::write(&go, "").unwrap();
            second = Some(crew.worker("w2", 1));
            wait_until("the other makes it", || crew.ended().len() == 1);
        },
    );
    drop(second);
    let result = ran.result("a");
    assert_eq!((result.outcome.word(), result.worker.as_deref()), ("success", Some("w2")), "{result:?}");
    assert!(result.cost_usd.is_some_and(|cost| (cost - 0.26).abs() < 1e-9), "0.25 on the first worker: {result:?}");
    assert_eq!((ran.end.halt, ran.end.results.len()), (Some(Halt::Budget), 1), "nothing is left for the next one");
}

#[test]
fn only_workers_that_fit_are_counted() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let mut other = options("other", 5);
    other.require = vec!["repo=other".to_owned()];
    let _workers = [crew.worker("w1", 1), crew.worker_with("other", other)];
    let go = crew.path("go");
    crew.run_while(
        &numbered(2, &format!("wait j{{n}} {}", go.display())),
        |_| {},
        |live| {
            live.until("one worker counts", |event| {
                matches!(event, BatchNews::Engine(EngineNews::Workers { workers: 1, places: 1 }))
            });
            std::fs::write(&go, "").unwrap();
        },
    );
}

#[test]
fn a_worker_that_is_stopped_twice_ends_without_a_broker_and_its_run_is_not_lost() {
    let mut server = NatsServer::start();
    let mut crew = Crew::new(&server);
    crew.patience = IMPATIENT;
    let (worker, go) = (crew.worker("w1", 1), crew.path("go"));
    let text = format!("[[job]]\nname = \"a\"\nprompt = \"wait a {}\"\n", go.display());
    let ran = crew.run_while(
        &text,
        |_| {},
        |_| {
            wait_until("it runs", || crew.noted("a", "began").len() == 1);
            server.kill();
            let is_lost = |event: &WorkerNews| matches!(event, WorkerNews::Trouble(what) if what.contains("is lost"));
            worker.until("it knows that the broker is away", is_lost);
            std::fs::write(&go, "").unwrap();
            wait_until("the run is over", || {
                std::fs::read_dir(crew.store_of("w1").folder())
                    .is_ok_and(|runs| runs.flatten().any(|run| run.path().join("end.json").exists()))
            });
            // It ends, although what the run came to is not stored.
            worker.stop(2);
            server.again();
            let again = crew.worker("w1", 1);
            wait_until("its outcome is stored", || crew.ended().len() == 1);
            drop(again);
        },
    );
    assert_eq!((ran.outcomes(), crew.noted("a", "began").len()), (vec![("a", "success")], 1));
}
