//! A broker that is away for a while, and servers of a cluster that lag behind: no run is begun twice, and nothing is taken for lost too early.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::stream::Stream;
use async_nats::jetstream::{self, Context};
use futures_util::StreamExt as _;
use tapline_fleet::{Nats, WorkerNews};
use tapline_testkit::nats::NatsServer;
use tapline_testkit::{git, wait_until, wait_until_async, within};

use crate::broker_roles::{payload, signed};
use crate::crew::{Crew, PATIENT, Ran};
use crate::machine::runtime;

pub(crate) async fn context(server: &NatsServer) -> Context {
    let client = async {
        loop {
            // On a busy machine, an answer may come too late.
            if let Ok(client) = async_nats::connect(server.url()).await {
                break client;
            }
        }
    };
    jetstream::new(within("the server answers", client).await)
}

/// Waits until so many jobs are on the queue.
pub(crate) async fn jobs_on_queue(context: &Context, count: u64) {
    let is_so = async || context.get_stream("TAPLINE_JOBS").await.is_ok_and(|jobs| jobs.cached_info().state.messages == count);
    wait_until_async("so many jobs are on the queue", is_so).await;
}

#[test]
fn a_run_goes_on_while_the_broker_is_away_for_longer_than_a_worker_may_be_silent() {
    let mut server = NatsServer::start();
    let mut crew = Crew::new(&server);
    // A worker that stands still for so long loses its run: a busy machine must not be that slow.
    crew.patience = Duration::from_secs(12);
    let workers = ["w1", "w2"].map(|name| crew.worker(name, 2));
    let go = crew.path("go");
    let text = format!("[[job]]\nname = \"a\"\nprompt = \"wait a {}\"\n", go.display());
    let ran = crew.run_while(
        &text,
        |_| {},
        |_| {
            wait_until("it runs", || crew.noted("a", "began").len() == 1);
            server.kill();
            std::thread::sleep(crew.patience + Duration::from_secs(1));
            server.again();
            let is_back = |event: &WorkerNews| matches!(event, WorkerNews::Trouble(what) if what.contains("there again"));
            for worker in &workers {
                worker.until("it is connected again", is_back);
            }
            // The broker would give it to the other one in this time.
            std::thread::sleep(2 * crew.patience);
            std::fs::write(&go, "").unwrap();
        },
    );
    assert_eq!((ran.outcomes(), crew.noted("a", "began").len()), (vec![("a", "success")], 1));
    assert_eq!((ran.result("a").attempts, crew.ended().len()), (1, 1));
}

/// Runs a job with a large order. Of the object that has the order, the last message with this subject is missing until the worker has asked
/// twice for what has this subject.
fn runs_with_a_late_part(of: &str, asks: &str) -> Ran {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let prompt = "x".repeat(900 * 1024);
    let text = format!("[[job]]\nname = \"a\"\nprompt = \"{prompt}\\nsay a\"\n");
    crew.run_while(
        &text,
        |_| {},
        |_| {
            runtime().block_on(async {
                let context = context(&server).await;
                jobs_on_queue(&context, 1).await;
                let files: Stream = context.get_stream("OBJ_tapline-orders").await.unwrap();
                let mut asked = context.client().subscribe(asks.to_owned()).await.unwrap();
                context.client().flush().await.unwrap();
                let part = files.get_last_raw_message_by_subject(of).await.unwrap();
                files.delete_message(part.sequence).await.unwrap();
                let worker = crew.worker("w1", 1);
                for _ in 0..2 {
                    within("the worker asks for it", asked.next()).await.unwrap();
                }
                let headers: HeaderMap = part.headers.clone();
                let sent = context.publish_with_headers(part.subject.clone(), headers, part.payload.clone()).await.unwrap();
                sent.await.unwrap();
                wait_until("it has ended", || crew.ended().len() == 1);
                drop(worker);
            });
        },
    )
}

#[test]
fn an_order_that_a_server_does_not_have_yet_is_read_when_it_has_it() {
    let ran = runs_with_a_late_part("$O.tapline-orders.M.*", "$JS.API.DIRECT.GET.OBJ_tapline-orders.>");
    assert_eq!(ran.outcomes(), [("a", "success")], "{:?}", ran.end.results);
}

#[test]
fn an_order_of_which_a_server_has_only_a_part_is_read_when_it_has_all() {
    let ran = runs_with_a_late_part("$O.tapline-orders.C.*", "$JS.API.CONSUMER.CREATE.OBJ_tapline-orders");
    assert_eq!(ran.outcomes(), [("a", "success")], "{:?}", ran.end.results);
}

#[test]
fn a_run_does_not_begin_if_its_job_has_got_an_outcome_meanwhile() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let worker = crew.worker("w1", 2);
    let (repository, at, go) = (crew.path("repository"), crew.path("at"), crew.path("go"));
    std::fs::create_dir(&repository).unwrap();
    std::fs::write(repository.join(".gitattributes"), "* filter=slow\n").unwrap();
    for args in [&["init", "--quiet"][..], &["add", "."], &["commit", "--quiet", "-m", "first"]] {
        git(&repository, args);
    }
    // Making the worktree takes until the file is there, or the folder of the test is gone.
    let wait = format!(
        "touch {}; while [ ! -e {} ] && [ -d {} ]; do sleep 0.02; done; cat",
        at.display(),
        go.display(),
        crew.path("").display()
    );
    git(&repository, &["config", "filter.slow.smudge", &wait]);
    let text = format!(
        "[[job]]\nname = \"a\"\nworktree = true\nfolder = \"{}\"\nprompt = \"say a\"\n[[job]]\nname = \"b\"\nprompt = \"say b\"\n",
        repository.display()
    );
    let ran = crew.run_while(
        &text,
        |_| {},
        |_| {
            wait_until("a is about to begin, and b has ended", || at.exists() && crew.ended().contains_key("b"));
            runtime().block_on(async {
                let context = context(&server).await;
                let outcomes = context.get_key_value("tapline-outcomes").await.unwrap();
                let keys: Vec<String> = outcomes.keys().await.unwrap().map(Result::unwrap).collect().await;
                let key = keys.iter().find(|key| key.ends_with(".b.1")).unwrap();
                let outcome = outcomes.get(key.as_str()).await.unwrap().unwrap();
                let other = key.replace(".b.1", ".a.1");
                let seed = std::fs::read_to_string(crew.path("w1/fleet/key")).unwrap();
                let key = nkeys::KeyPair::from_seed(seed.trim()).unwrap();
                let outcome =
                    signed(&key, &format!("$KV.tapline-outcomes.{other}"), payload(std::str::from_utf8(&outcome).unwrap()));
                outcomes.put(other, outcome.into()).await.unwrap();
                std::fs::write(&go, "").unwrap();
                jobs_on_queue(&context, 0).await;
            });
        },
    );
    assert_eq!(ran.result("a").answer, ran.result("b").answer, "the first outcome counts");
    drop(worker);
    assert_eq!(crew.noted("a", "began").len(), 0);
}

#[test]
fn a_batch_that_goes_on_keeps_its_patience() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let plan = crew.plan("[[job]]\nname = \"a\"\nprompt = \"say a\"\n");
    let short = Duration::from_secs(3);
    let first = tapline_fleet::BatchFolder::create(&crew.store(), &plan).unwrap();
    runtime().block_on(async {
        let (engine, _) = Box::pin(Nats::open(first, &crew.broker(), crew.store(), false)).await.unwrap();
        drop(engine.with_patience(short).unwrap());
        let (again, _) = crew.open();
        let (engine, _) = Box::pin(Nats::open(again, &crew.broker(), crew.store(), false)).await.unwrap();
        assert_eq!(engine.with_patience(PATIENT).unwrap().patience(), short);
    });
}
