//! Workers, batches and brokers that are killed: every job has exactly one result.

use std::collections::BTreeMap;

use tapline_fleet::{BatchFolder, BatchNews, JobOutcome, WorkerNews};
use tapline_testkit::nats::NatsServer;
use tapline_testkit::wait_until;

use crate::crew::{Crew, IMPATIENT, Ran, is_anybody_left, numbered, play_worker};

const JOBS: usize = 60;

/// Every job has one result, and succeeded.
fn all_is_well(crew: &Crew, ran: &Ran) {
    assert!(ran.end.is_complete());
    assert_eq!(ran.end.results.len(), JOBS);
    for result in &ran.end.results {
        assert_eq!(result.outcome, JobOutcome::Success, "{result:?}");
        assert_eq!(result.answer.as_deref(), Some(format!("done {}", result.job).as_str()));
        assert!(crew.is_recorded(result) && result.warnings.is_empty(), "{result:?}");
    }
    assert_eq!(crew.ended().len(), JOBS);
    assert!(crew.ended().values().all(|count| *count == 1), "no job has two results");
}

#[test]
fn a_worker_is_killed_three_times() {
    const TEST: &str = "a_worker_is_killed_three_times";
    if play_worker(3) {
        return;
    }
    let server = NatsServer::start();
    let mut crew = Crew::new(&server);
    crew.patience = IMPATIENT;
    let _other = crew.worker("w2", 1);
    let mut last = None;
    let ran = crew.run_while(
        &numbered(JOBS, "slow j{n}"),
        |_| {},
        |_| {
            for results in [10, 25, 40] {
                let worker = crew.process(module_path!(), TEST, "w1");
                wait_until("the batch goes on", || crew.ended().len() >= results);
                drop(worker);
            }
            last = Some(crew.process(module_path!(), TEST, "w1"));
        },
    );
    drop(last);
    all_is_well(&crew, &ran);
    wait_until("no agent is left", || !is_anybody_left(&crew));
}

#[test]
fn a_batch_is_killed_three_times() {
    const TEST: &str = "a_batch_is_killed_three_times";
    if let Some(crew) = Crew::of_process() {
        match BatchFolder::open_for(&crew.store(), "last", tapline_fleet::RunsOn::Workers, tapline_fleet::RepeatJobs::Nothing) {
            Ok((folder, _)) => {
                drop(folder);
                crew.resume(|_| {});
            }
            Err(_) => drop(crew.run(&numbered(JOBS, "slow j{n}"), |_| {})),
        }
        return;
    }
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let _workers = ["w1", "w2"].map(|name| crew.worker(name, 2));
    for notes in [17, 49, 90] {
        let mut batch = crew.process(module_path!(), TEST, "batch");
        wait_until("the batch goes on", || crew.journal().len() >= notes || batch.has_ended());
        drop(batch);
    }
    let ran = crew.resume(|_| {});
    all_is_well(&crew, &ran);
    for n in 1..=JOBS {
        assert_eq!(crew.traces(&format!("j{n}")).len(), 1, "j{n} ran once: its worker was not killed");
    }
}

#[test]
fn a_broker_is_killed_three_times() {
    let mut server = NatsServer::start();
    let mut crew = Crew::new(&server);
    crew.patience = IMPATIENT;
    let _workers = ["w1", "w2"].map(|name| crew.worker(name, 2));
    let ran = crew.run_while(
        &numbered(JOBS, "slow j{n}"),
        |_| {},
        |_| {
            for results in [10, 25, 40] {
                wait_until("the batch goes on", || crew.ended().len() >= results);
                server.kill();
                server.again();
            }
        },
    );
    all_is_well(&crew, &ran);
}

#[test]
fn what_a_killed_worker_was_doing_goes_on_as_its_rules_say() {
    const TEST: &str = "what_a_killed_worker_was_doing_goes_on_as_its_rules_say";
    if play_worker(3) {
        return;
    }
    let server = NatsServer::start();
    let mut crew = Crew::new(&server);
    crew.patience = IMPATIENT;
    let go = crew.path("go");
    let job = |name: &str, more: &str| format!("[[job]]\nname = \"{name}\"\n{more}prompt = \"wait {name} {}\"\n", go.display());
    let text = [job("resumed", ""), job("again", "cut_off = \"again\"\n"), job("failed", "cut_off = \"fail\"\n")].concat();
    let mut last = None;
    let ran = crew.run_while(
        &text,
        |options| (options.jobs, options.by_workers) = (3, false),
        |_| {
            let worker = crew.process(module_path!(), TEST, "w1");
            wait_until("all of them work", || {
                let said = |job: &str| crew.traces(job).iter().any(|said| String::from_utf8_lossy(said).contains("does wait"));
                ["resumed", "again", "failed"].into_iter().all(said)
            });
            // What the agent wrote is recorded before its worker dies.
            wait_until("all of it is recorded", || {
                let folders = crew.store_of("w1").list().unwrap_or_default();
                let said = |folder: &std::path::PathBuf| std::fs::read_to_string(folder.join("stdout")).unwrap_or_default();
                folders.iter().filter(|folder| said(folder).contains("does wait")).count() == 3
            });
            drop(worker);
            std::fs::write(&go, "").unwrap();
            wait_until("no agent is left", || !is_anybody_left(&crew));
            last = Some(crew.process(module_path!(), TEST, "w1"));
        },
    );
    drop(last);
    assert_eq!(ran.outcomes(), [("resumed", "success"), ("again", "success"), ("failed", "failure")]);
    let resumed = |job: &str| crew.noted(job, "args").iter().filter(|args| args.contains(&format!("--resume=s-{job}"))).count();
    assert_eq!((resumed("resumed"), resumed("again"), crew.traces("failed").len()), (1, 0, 1));
    assert_eq!(ran.result("resumed").attempts, 2);
}

#[test]
fn a_batch_that_is_stopped_goes_on() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let worker = crew.worker("w1", 2);
    let go = crew.path("go");
    let text = numbered(6, &format!("wait j{{n}} {}", go.display()));
    // More are ordered than can run: some wait on the queue.
    let ran = crew.run_while(
        &text,
        |options| (options.jobs, options.by_workers) = (4, false),
        |live| {
            wait_until("two of them run, and two wait", || {
                let said =
                    |n| crew.traces(&format!("j{n}")).iter().any(|said| String::from_utf8_lossy(said).contains("does wait"));
                crew.journal().len() == 4 && (1..=6).filter(|n| said(*n)).count() == 2
            });
            wait_until("what they said is recorded", || {
                let folders = crew.store_of("w1").list().unwrap_or_default();
                let said = |folder: &std::path::PathBuf| std::fs::read_to_string(folder.join("stdout")).unwrap_or_default();
                folders.iter().filter(|folder| said(folder).contains("does wait")).count() == 2
            });
            live.stop.send(2).unwrap();
        },
    );
    assert!(ran.end.stopped && ran.end.results.is_empty(), "{:?}", ran.end);
    let cut_off = ran.events.iter().filter(|event| matches!(event, BatchNews::CutOff { .. })).count();
    assert_eq!(cut_off, 4);
    std::fs::write(&go, "").unwrap();
    let ran = crew.resume(|_| {});
    assert!(ran.end.is_complete() && ran.outcomes().iter().all(|(_, how)| *how == "success"), "{:?}", ran.outcomes());
    let runs: BTreeMap<usize, usize> =
        (1..=6).map(|n| crew.traces(&format!("j{n}")).len()).fold(BTreeMap::new(), |mut all, runs| {
            *all.entry(runs).or_default() += 1;
            all
        });
    assert_eq!(runs, BTreeMap::from([(1, 4), (2, 2)]), "two were cut off, and the others had not begun");
    let resumed =
        (1..=6).filter(|n| crew.noted(&format!("j{n}"), "args").iter().any(|args| args.contains("--resume="))).count();
    assert_eq!(resumed, 2, "their sessions went on");
    drop(worker);
}

#[test]
fn a_worker_that_is_stopped_lets_its_runs_end_or_gives_them_back() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let (first, go) = (crew.worker("w1", 1), crew.path("go"));
    let text = format!("[[job]]\nname = \"a\"\nprompt = \"wait a {}\"\n", go.display());
    let ran = crew.run_while(
        &text,
        |_| {},
        |_| {
            wait_until("it runs", || !crew.noted("a", "began").is_empty());
            first.stop.send(1).unwrap();
            first.until("it stops", |event| matches!(event, WorkerNews::Stopping { running: 1 }));
            first.stop.send(3).unwrap();
            first.until("it gives it back", |event| matches!(event, WorkerNews::GivenBack { .. }));
            first.stop(3);
            std::fs::write(&go, "").unwrap();
            let second = crew.worker("w2", 1);
            wait_until("the other makes it", || crew.ended().len() == 1);
            drop(second);
        },
    );
    assert_eq!(ran.outcomes(), [("a", "success")]);
    assert_eq!(crew.traces("a").len(), 2);
}

#[test]
fn a_worktree_is_removed_when_the_job_has_ended_elsewhere() {
    const TEST: &str = "a_worktree_is_removed_when_the_job_has_ended_elsewhere";
    if play_worker(1) {
        return;
    }
    let server = NatsServer::start();
    let mut crew = Crew::new(&server);
    crew.patience = IMPATIENT;
    let (repository, go) = (crew.path("repository"), crew.path("go"));
    std::fs::create_dir(&repository).unwrap();
    for args in [&["init", "--quiet"][..], &["commit", "--quiet", "--allow-empty", "-m", "first"]] {
        let mut git = std::process::Command::new("git");
        git.args(["-c", "user.name=x", "-c", "user.email=x@example.com"]).args(args).current_dir(&repository);
        assert!(git.status().unwrap().success());
    }
    let text = format!(
        "[[job]]\nname = \"a\"\nworktree = true\nfolder = \"{}\"\nprompt = \"wait a {}\"\n",
        repository.display(),
        go.display()
    );
    let trees = |worker: &str| {
        let batches = std::fs::read_dir(crew.path(worker).join("fleet/worktrees")).into_iter().flatten().flatten();
        batches.flat_map(|batch| std::fs::read_dir(batch.path()).unwrap()).count()
    };
    let ran = crew.run_while(
        &text,
        |_| {},
        |_| {
            let first = crew.process(module_path!(), TEST, "w1");
            wait_until("it runs", || !crew.noted("a", "began").is_empty());
            drop(first);
            std::fs::write(&go, "").unwrap();
            let second = crew.worker("w2", 1);
            wait_until("the other makes it", || crew.ended().len() == 1);
            drop(second);
        },
    );
    assert_eq!(ran.outcomes(), [("a", "success")], "{:?}", ran.end.results);
    assert_eq!((trees("w1"), trees("w2")), (1, 0));
    let _first = crew.worker("w1", 1);
    wait_until("it is removed", || trees("w1") == 0);
}

/// The files of all recordings of a data folder, but not what says that they are copies.
fn recorded(store: &tapline_recording::Store) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for recording in std::fs::read_dir(store.folder()).into_iter().flatten().flatten() {
        for file in std::fs::read_dir(recording.path()).into_iter().flatten().flatten() {
            let name = format!("{}/{}", recording.file_name().display(), file.file_name().display());
            if !name.ends_with("/collected.json") {
                files.insert(name, std::fs::read(file.path()).unwrap());
            }
        }
    }
    files
}

#[test]
fn a_run_that_failed_before_its_worker_died_is_tried_again_and_its_recording_comes() {
    const TEST: &str = "a_run_that_failed_before_its_worker_died_is_tried_again_and_its_recording_comes";
    if play_worker(1) {
        return;
    }
    let mut server = NatsServer::start();
    let mut crew = Crew::new(&server);
    crew.patience = IMPATIENT;
    let go = crew.path("go");
    let text = format!("[[job]]\nname = \"a\"\nretry = 1\nretry_delay = \"1ms\"\nprompt = \"once a {}\"\n", go.display());
    let store = crew.store_of("w1");
    let mut last = None;
    let ran = crew.run_while(
        &text,
        |_| {},
        |_| {
            let worker = crew.process(module_path!(), TEST, "w1");
            wait_until("the agent works", || !crew.traces("a").is_empty());
            // The run ends while the server is away, so nobody hears of it.
            server.kill();
            std::fs::write(&go, "").unwrap();
            wait_until("it has ended", || recorded(&store).keys().any(|name| name.ends_with("/end.json")));
            drop(worker);
            server.again();
            last = Some(crew.process(module_path!(), TEST, "w1"));
        },
    );
    let result = ran.result("a");
    assert_eq!((result.outcome, result.attempts), (JobOutcome::Success, 2), "{result:?}");
    assert_eq!(crew.traces("a").len(), 2, "what had ended is not repeated");
    drop(last);
    assert_eq!(recorded(&store).keys().filter(|name| name.ends_with("/end.json")).count(), 2);
    assert!(recorded(&crew.store()) == recorded(&store), "{:?}", recorded(&crew.store()).keys());
}
