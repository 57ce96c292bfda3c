//! What can be wrong: no broker, wrong credentials, a full stream, jobs that a worker cannot or must not run; and labels.

use std::collections::BTreeMap;

use async_nats::jetstream;
use tapline_fleet::{BatchFolder, BatchNews, Broker, BrokerError, EngineNews, Nats, NatsError, Plan, RunsOn, WorkerError};
use tapline_session::text::with_causes;
use tapline_testkit::nats::NatsServer;
use tapline_testkit::wait_until;

use crate::crew::{Crew, numbered, options};

/// Why a batch cannot be opened with this broker.
fn open(crew: &Crew, broker: &Broker) -> NatsError {
    let plan = crew.plan("[[job]]\nname = \"a\"\nprompt = \"say a\"\n");
    let folder = BatchFolder::create(&crew.store(), &plan).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(Nats::open(folder, broker, crew.store(), false)).expect_err("it must not work")
}

#[test]
fn a_broker_that_is_not_there() {
    let mut server = NatsServer::start();
    let crew = Crew::new(&server);
    server.kill();
    let error = open(&crew, &crew.broker());
    assert!(matches!(error, NatsError::Broker(BrokerError::Unreachable { .. })), "{error:?}");
    assert!(error.to_string().contains(&server.url()), "{error}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (news, _) = tokio::sync::mpsc::unbounded_channel();
    let broker = crew.broker();
    let worker = tapline_fleet::Worker::open(&broker, crew.place("w1"), options("w1", 1), news);
    let error = runtime.block_on(worker).expect_err("it must not work");
    assert!(matches!(error, WorkerError::Broker(BrokerError::Unreachable { .. })), "{error:?}");
}

#[test]
fn wrong_credentials() {
    let server = NatsServer::with(&["--user", "me", "--pass", "right"]);
    let crew = Crew::new(&server);
    for user in ["", "me:wrong@"] {
        let error = open(&crew, &Broker::at(server.url().replace("nats://", &format!("nats://{user}"))));
        assert!(matches!(error, NatsError::Broker(BrokerError::Refused { .. })), "{error:?}");
        assert!(!with_causes(&error).contains("wrong@"), "{error}");
    }
}

#[test]
fn a_stream_that_is_full() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let context = jetstream::new(async_nats::connect(server.url()).await.unwrap());
        let config = jetstream::stream::Config {
            name: "TAPLINE_JOBS".to_owned(),
            subjects: vec!["tapline.jobs.>".to_owned()],
            retention: jetstream::stream::RetentionPolicy::WorkQueue,
            discard: jetstream::stream::DiscardPolicy::New,
            max_messages: 1,
            ..Default::default()
        };
        context.create_stream(config).await.unwrap();
    });
    let _worker = crew.worker("w1", 1);
    let go = crew.path("go");
    let text = numbered(4, &format!("wait j{{n}} {}", go.display()));
    let ran = crew.run_while(
        &text,
        |options| (options.jobs, options.by_workers) = (4, false),
        |live| {
            live.until(
                "it is told",
                |event| matches!(event, BatchNews::Engine(EngineNews::Trouble(what)) if what.contains("no room")),
            );
            std::fs::write(&go, "").unwrap();
        },
    );
    assert!(ran.end.is_complete() && ran.outcomes().iter().all(|(_, how)| *how == "success"), "{:?}", ran.outcomes());
}

#[test]
fn a_job_that_the_worker_cannot_or_must_not_run() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let _worker = crew.worker("w1", 1);
    let text = "[[job]]\nname = \"folder\"\nfolder = \"/no/such/folder\"\nprompt = \"say folder\"\n\
                [[job]]\nname = \"worktree\"\nworktree = true\nfolder = \"/no/such/folder\"\nprompt = \"say worktree\"\n\
                [[job]]\nname = \"program\"\nbin = \"/bin/sh\"\nprompt = \"say program\"\n\
                [[job]]\nname = \"good\"\nprompt = \"say good\"\n";
    let ran = crew.run(text, |_| {});
    let expected = [("folder", "failure"), ("worktree", "failure"), ("program", "failure"), ("good", "success")];
    assert_eq!(ran.outcomes(), expected);
    for (job, why) in [("folder", "/no/such/folder"), ("worktree", "/no/such/folder"), ("program", "/bin/sh")] {
        let error = ran.result(job).error.clone().unwrap_or_default();
        assert!(error.contains("worker w1") && error.contains(why), "{job}: {error}");
        assert!(crew.traces(job).is_empty(), "{job} was not started");
    }
}

#[test]
fn the_queue_chooses_programs_only_where_a_worker_allows_it() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let jobs = "[[job]]\nname = \"args\"\nargs = [\"--settings\", \"{{}}\"]\nprompt = \"say args\"\n\
                [[job]]\nname = \"mcp\"\nmcp_config = ['{{\"mcpServers\": {{\"a\": {{\"command\": \"sh\"}}}}}}']\nprompt = \"say mcp\"\n\
                [[job]]\nname = \"good\"\nprompt = \"say good\"\n";
    let worker = crew.worker("w1", 1);
    let ran = crew.run(jobs, |_| {});
    assert_eq!(ran.outcomes(), [("args", "failure"), ("mcp", "failure"), ("good", "success")]);
    for job in ["args", "mcp"] {
        let error = ran.result(job).error.clone().unwrap_or_default();
        assert!(error.contains("worker w1") && error.contains("allow-args"), "{job}: {error}");
        assert!(crew.traces(job).is_empty(), "{job} was not started");
    }
    worker.stop(1);
    let mut options = options("w2", 1);
    options.allow_args = true;
    let _worker = crew.worker_with("w2", options);
    let ran = crew.run(jobs, |_| {});
    assert_eq!(ran.outcomes(), [("args", "success"), ("mcp", "success"), ("good", "success")]);
}

#[test]
fn an_order_above_the_ceiling_of_a_worker_is_refused() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let (inside, outside) = (crew.path("inside"), crew.path("outside"));
    for folder in [&inside, &outside] {
        std::fs::create_dir(folder).unwrap();
    }
    let mut options = options("w1", 1);
    options.folders = vec![inside.clone()];
    let _worker = crew.worker_with("w1", options);
    // What an agent recorded is what its author said: here, servers.
    let recorded = crew.store_of("w1").folder().join("old").join("stdin");
    std::fs::create_dir_all(recorded.parent().unwrap()).unwrap();
    std::fs::write(&recorded, r#"{"mcpServers":{"a":{"command":"sh"}}}"#).unwrap();
    let job = |name: &str, folder: &std::path::Path, more: &str| {
        format!("[[job]]\nname = \"{name}\"\nfolder = \"{}\"\n{more}\nprompt = \"say {name}\"\n", folder.display())
    };
    let text = [
        job("good", &inside, ""),
        job("elsewhere", &outside, ""),
        job("mode", &inside, "permission_mode = \"bypassPermissions\""),
        job("mark", &inside, "mcp_config = [\"\\uFEFF{{\\\"mcpServers\\\": {{}}}}\"]"),
        job("stdin", &inside, &format!("mcp_config = [\"{}\"]", recorded.display())),
    ];
    let ran = crew.run(&text.concat(), |_| {});
    let why = [
        ("elsewhere", "among its `folders`"),
        ("mode", "`max-permission-mode` bypassPermissions"),
        ("mark", "`allow-args`"),
        ("stdin", "beneath the folder of the job only"),
    ];
    assert_eq!(ran.result("good").outcome.word(), "success", "{:?}", ran.result("good"));
    for (job, needed) in why {
        let error = ran.result(job).error.clone().unwrap_or_default();
        assert!(error.contains("worker w1") && error.contains(needed), "{job}: {error}");
        assert!(crew.traces(job).is_empty(), "{job} was not started");
    }
}

#[test]
fn secrets_of_mcp_servers_are_refused_before_anything_starts() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let path = crew.path("jobs.toml");
    let text = "[[job]]\nname = \"good\"\nprompt = \"say good\"\n\
                [[job]]\nname = \"leaks\"\nprompt = \"say leaks\"\n\
                mcp_config = ['{{\"mcpServers\": {{\"a\": {{\"command\": \"a\", \"env\": {{\"KEY\": \"hunter2\"}}}}}}}}']\n";
    std::fs::write(&path, text).unwrap();
    let read = |on| Plan::read_for(&path, &BTreeMap::new(), on);
    let error = with_causes(&read(RunsOn::Workers).err().unwrap());
    assert!(error.contains("leaks") && error.contains("`KEY`") && error.contains("${NAME}"), "{error}");
    assert!(!error.contains("hunter2") && !error.contains("good"), "{error}");
}

#[test]
fn jobs_and_workers_find_each_other_by_labels() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let text = |list: &[&str]| list.iter().map(|label| (*label).to_owned()).collect::<Vec<_>>();
    let mut picky = options("picky", 1);
    picky.require = text(&["repo=api", "agent=claude"]);
    let mut strong = options("strong", 1);
    strong.labels = text(&["gpu=yes"]);
    strong.require = text(&["repo=web"]);
    let _workers = [crew.worker_with("picky", picky), crew.worker_with("strong", strong)];
    let jobs = "[[job]]\nname = \"api\"\nlabels = [\"repo=api\"]\nprompt = \"say api\"\n\
                [[job]]\nname = \"web\"\nlabels = [\"repo=web\"]\nprompt = \"say web\"\n\
                [[job]]\nname = \"gpu\"\nlabels = [\"repo=web\", \"size=l\"]\nworker = [\"gpu=yes\"]\nprompt = \"say gpu\"\n\
                [[job]]\nname = \"nobody\"\nlabels = [\"repo=api\"]\nworker = [\"gpu=yes\"]\nprompt = \"say nobody\"\n";
    let ran = crew.run_while(
        jobs,
        |options| (options.jobs, options.by_workers) = (4, false),
        |live| {
            wait_until("three have ended", || crew.ended().len() == 3);
            live.stop.send(1).unwrap();
        },
    );
    assert_eq!(ran.outcomes(), [("api", "success"), ("web", "success"), ("gpu", "success")]);
    assert_eq!(crew.store_of("picky").list().unwrap().len(), 1, "api");
    assert_eq!(crew.store_of("strong").list().unwrap().len(), 2, "web and gpu");
    assert!(crew.traces("nobody").is_empty(), "nobody may run it");
    assert!(ran.end.stopped);
}

#[test]
fn a_data_folder_has_one_worker() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let worker = crew.worker("w1", 1);
    worker.until("it is ready", |event| matches!(event, tapline_fleet::WorkerNews::Ready));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (news, _) = tokio::sync::mpsc::unbounded_channel();
    let broker = crew.broker();
    let second = tapline_fleet::Worker::open(&broker, crew.place("w1"), options("second", 1), news);
    let error = runtime.block_on(second).expect_err("the folder is taken");
    assert!(matches!(error, WorkerError::Taken(_)), "{error:?}");
}

#[test]
fn a_number_of_runs_that_cannot_be() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let ran = crew.run_while(
        "[[job]]\nname = \"a\"\nprompt = \"say a\"\n",
        |_| {},
        |_| {
            wait_until("it is ordered", || crew.journal().len() == 1);
            let batch = std::fs::read_dir(crew.path("home/batches")).unwrap().next().unwrap().unwrap().file_name();
            runtime.block_on(async {
                let context = jetstream::new(async_nats::connect(server.url()).await.unwrap());
                let runs = context.get_key_value("tapline-runs").await.unwrap();
                let note = format!(r#"{{"order":1,"attempt":{},"worker":"x"}}"#, u64::MAX);
                runs.put(format!("{}.a", batch.to_str().unwrap()), note.into()).await.unwrap();
            });
            let worker = crew.worker("w1", 1);
            wait_until("it has ended", || crew.ended().len() == 1);
            drop(worker);
        },
    );
    let error = ran.result("a").error.clone().unwrap_or_default();
    assert!(error.contains("worker w1") && error.contains("runs, which cannot be"), "{error}");
    assert!(crew.traces("a").is_empty());
}
