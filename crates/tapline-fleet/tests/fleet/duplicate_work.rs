//! What happens twice: two make the same streams, two workers make the same run, and jobs that failed are run again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_nats::jetstream::{kv, object_store, stream};
use tapline_fleet::WorkerNews;
use tapline_testkit::nats::NatsServer;
use tapline_testkit::{wait_until, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::broker_away::context;
use crate::cluster::until_made;
use crate::crew::{Crew, IMPATIENT, is_anybody_left, play_worker};
use crate::machine::runtime;

/// A way to a server on which whoever wants to make a stream waits.
struct Delay {
    url: String,
    /// Somebody waits.
    waits: Arc<Notify>,
    /// Nobody has to wait any more.
    go: Arc<Notify>,
}

impl Delay {
    async fn before(server: &NatsServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (url, to) = (format!("nats://{}", listener.local_addr().unwrap()), server.url().replace("nats://", ""));
        let (waits, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let delay = Self { url, waits: Arc::clone(&waits), go: Arc::clone(&go) };
        tokio::spawn(async move {
            let is_over = Arc::new(AtomicBool::new(false));
            // On a busy machine, whoever waits for too long connects again.
            while let Ok((client, _)) = listener.accept().await {
                let (mut reads, mut writes) = client.into_split();
                let Ok(server) = TcpStream::connect(&to).await else { return };
                let (mut answers, mut asks) = server.into_split();
                tokio::spawn(async move { tokio::io::copy(&mut answers, &mut writes).await });
                let (waits, go, is_over) = (Arc::clone(&waits), Arc::clone(&go), Arc::clone(&is_over));
                tokio::spawn(async move {
                    let mut bytes = vec![0; 65_536];
                    while let Ok(length @ 1..) = reads.read(&mut bytes).await {
                        let is_create = String::from_utf8_lossy(&bytes[..length]).contains("$JS.API.STREAM.CREATE.");
                        if is_create && !is_over.load(Ordering::SeqCst) {
                            waits.notify_one();
                            go.notified().await;
                            is_over.store(true, Ordering::SeqCst);
                            // For those who wait on another connection.
                            go.notify_one();
                        }
                        if asks.write_all(&bytes[..length]).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        delay
    }
}

#[test]
fn what_somebody_else_makes_at_the_same_time_is_taken_as_it_is() {
    let server = NatsServer::start();
    let mut crew = Crew::new(&server);
    runtime().block_on(async {
        let delay = Delay::before(&server).await;
        crew.log_in(&server.url(), &delay.url);
        let worker = crew.worker("w1", 1);
        within("the worker makes what is missing", delay.waits.notified()).await;
        // An operator is faster, and makes it with other limits.
        let context = context(&server).await;
        for (name, subjects) in [("TAPLINE_JOBS", "tapline.jobs.>"), ("TAPLINE_RECORDINGS", "tapline.recordings.>")] {
            let (name, subjects) = (name.to_owned(), vec![subjects.to_owned()]);
            let config = stream::Config { name, subjects, max_bytes: 1 << 30, ..Default::default() };
            until_made(async || context.create_stream(config.clone()).await.is_ok()).await;
        }
        for name in ["outcomes", "runs", "limits", "control", "classes", "workers"] {
            let bucket = format!("tapline-{name}");
            let config = kv::Config { bucket, max_bytes: 1 << 30, ..Default::default() };
            until_made(async || context.create_key_value(config.clone()).await.is_ok()).await;
        }
        for bucket in ["tapline-orders", "tapline-files"] {
            let config = || object_store::Config { bucket: bucket.to_owned(), max_bytes: 1 << 30, ..Default::default() };
            until_made(async || context.create_object_store(config()).await.is_ok()).await;
        }
        delay.go.notify_one();
        worker.until("the worker is ready", |event| matches!(event, WorkerNews::Ready));
        let ran = tokio::task::block_in_place(|| crew.run("[[job]]\nname = \"a\"\nprompt = \"say a\"\n", |_| {}));
        assert_eq!(ran.outcomes(), [("a", "success")]);
        let jobs = context.get_stream("TAPLINE_JOBS").await.unwrap();
        assert_eq!(jobs.cached_info().config.max_bytes, 1 << 30, "it stays as it is");
    });
}

#[test]
fn the_second_run_of_an_order_is_stopped_when_the_first_has_ended() {
    const TEST: &str = "the_second_run_of_an_order_is_stopped_when_the_first_has_ended";
    if play_worker(1) {
        return;
    }
    let server = NatsServer::start();
    let mut crew = Crew::new(&server);
    crew.patience = IMPATIENT;
    let go = crew.path("go");
    let is_already = |event: &WorkerNews| matches!(event, WorkerNews::GivenBack { why: "already done elsewhere", .. });
    let ran = crew.run_while(
        &format!("[[job]]\nname = \"a\"\nprompt = \"spend a {}\"\n", go.display()),
        |_| {},
        |_| {
            let first = crew.process(module_path!(), TEST, "w1");
            wait_until("it runs", || crew.noted("a", "began").len() == 1);
            // It lives, and says nothing.
            first.signal("STOP");
            let second = crew.worker("w2", 1);
            wait_until("the other one makes it, too", || crew.noted("a", "began").len() == 2);
            std::fs::write(crew.path("go.w1"), "").unwrap();
            first.signal("CONT");
            second.until("its run is stopped", is_already);
            assert!(!second.has(|event| matches!(event, WorkerNews::Ended { .. })), "its outcome does not count");
        },
    );
    let result = ran.result("a");
    assert_eq!((result.worker.as_deref(), result.answer.as_deref()), (Some("w1"), Some("done a")), "{result:?}");
    assert!(crew.is_recorded(result) && result.warnings.is_empty(), "{result:?}");
    assert_eq!(crew.ended()["a"], 1);
    wait_until("no agent is left", || !is_anybody_left(&crew));
}

#[test]
fn what_failed_is_run_again_as_if_it_were_new() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let text = "[[job]]\nname = \"good\"\nprompt = \"say good\"\n[[job]]\nname = \"bad\"\nprompt = \"once bad\"\n\
                [[job]]\nname = \"after\"\nneeds = [\"bad\"]\nprompt = \"say after\"\n";
    let first = crew.worker("w1", 2);
    let ran = crew.run(text, |_| {});
    assert_eq!(ran.outcomes(), [("good", "success"), ("bad", "failure"), ("after", "skipped")]);
    first.stop(1);
    // Another worker knows nothing of what the first run cost.
    let _second = crew.worker("w2", 2);
    let ran = crew.retry_failed();
    assert_eq!(ran.outcomes(), [("good", "success"), ("bad", "success"), ("after", "success")]);
    let runs = ["good", "bad", "after"].map(|job| (crew.traces(job).len(), ran.result(job).attempts));
    assert_eq!(runs, [(1, 1), (2, 2), (1, 1)]);
    assert!(crew.noted("bad", "args").iter().all(|args| !args.contains("--resume")), "not in its old session");
    for job in ["good", "bad", "after"] {
        assert!(crew.is_recorded(ran.result(job)), "{job}");
    }
    // Each run says that it cost a cent.
    assert!((ran.end.cost_usd - 0.04).abs() < 1e-9, "{}", ran.end.cost_usd);
    assert!(ran.result("bad").cost_usd.is_some_and(|cost| (cost - 0.02).abs() < 1e-9), "{:?}", ran.result("bad"));
}
