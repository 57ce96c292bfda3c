//! What somebody deleted or spoiled on the broker while a batch runs: nothing hangs because of it.

use std::time::SystemTime;

use async_nats::jetstream::Context;
use futures_util::StreamExt as _;
use tapline_fleet::{BatchNews, EngineNews};
use tapline_testkit::nats::NatsServer;
use tapline_testkit::wait_until;

use crate::broker_away::{context, jobs_on_queue};
use crate::broker_roles::Documented;
use crate::crew::Crew;
use crate::machine::runtime;

/// Puts a text in the place of each value of a bucket.
async fn spoil(context: &Context, bucket: &str) {
    let values = context.get_key_value(bucket).await.unwrap();
    let keys: Vec<String> = values.keys().await.unwrap().map(Result::unwrap).collect().await;
    assert!(!keys.is_empty(), "{bucket} has values");
    for key in keys {
        values.put(key, "no JSON {".into()).await.unwrap();
    }
}

#[test]
fn notes_on_the_broker_that_cannot_be_read_hold_up_nothing() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let first = crew.worker("w1", 1);
    let go = crew.path("go");
    let text = format!("[[job]]\nname = \"a\"\nprompt = \"wait a {}\"\n", go.display());
    let ran = crew.run_while(
        &text,
        |_| {},
        |_| {
            wait_until("it runs", || crew.noted("a", "began").len() == 1);
            // The run goes on elsewhere.
            first.stop(2);
            runtime().block_on(async {
                let context = context(&server).await;
                jobs_on_queue(&context, 1).await;
                for bucket in ["tapline-runs", "tapline-classes"] {
                    spoil(&context, bucket).await;
                }
                let limits = context.get_key_value("tapline-limits").await.unwrap();
                limits.put("shared", "no JSON {".into()).await.unwrap();
            });
            std::fs::write(&go, "").unwrap();
            // The recording of the first run is here. Another batch makes the class known again.
            let second = crew.worker("w1", 1);
            let until = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() + 2;
            let limited = format!("[[job]]\nname = \"b\"\naccount = \"shared\"\nprompt = \"limit b {until}\"\n");
            assert_eq!(Crew::new(&server).run(&limited, |_| {}).outcomes(), [("b", "failure")]);
            wait_until("it has ended", || crew.ended().len() == 1);
            drop(second);
        },
    );
    assert_eq!(ran.outcomes(), [("a", "success")], "{:?}", ran.end.results);
}

#[test]
fn a_batch_that_cannot_write_recordings_ends_and_can_go_on() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let _worker = crew.worker("w1", 1);
    let (go, folder, aside) = (crew.path("go"), crew.store().folder(), crew.path("aside"));
    let text = format!("[[job]]\nname = \"a\"\nprompt = \"wait a {}\"\n", go.display());
    let run = || {
        crew.run_while(
            &text,
            |_| {},
            |_| {
                wait_until("it runs", || crew.noted("a", "began").len() == 1);
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::rename(&folder, &aside).unwrap();
                std::fs::write(&folder, "no folder").unwrap();
                std::fs::write(&go, "").unwrap();
            },
        )
    };
    // Whoever runs a batch here panics with its error.
    let error = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).err().expect("it fails");
    let words = error.downcast_ref::<String>().unwrap();
    assert!(words.contains("cannot note what happens in the batch"), "{words}");
    std::fs::remove_file(&folder).unwrap();
    std::fs::rename(&aside, &folder).unwrap();
    let ran = crew.resume(|_| {});
    assert_eq!((ran.outcomes(), crew.noted("a", "began").len()), (vec![("a", "success")], 1));
    assert!(crew.is_recorded(ran.result("a")));
}

/// Runs two jobs, one after the other, and does something while the first one runs and the second one waits. Each is begun once.
fn runs_while(spoils: impl AsyncFnOnce(&mut NatsServer) + Send) {
    let mut server = NatsServer::start();
    let crew = Crew::new(&server);
    let (worker, go) = (crew.worker("w1", 1), crew.path("go"));
    let prompt = |name: &str| format!("[[job]]\nname = \"{name}\"\nprompt = \"wait {name} {}\"\n", go.display());
    let ran = crew.run_while(
        &(prompt("a") + &prompt("b")),
        |options| (options.jobs, options.by_workers) = (2, false),
        |live| {
            wait_until("one runs", || crew.noted("a", "began").len() + crew.noted("b", "began").len() == 1);
            runtime().block_on(async {
                jobs_on_queue(&context(&server).await, 2).await;
                spoils(&mut server).await;
            });
            let is_told = |event: &BatchNews| {
                matches!(event, BatchNews::Engine(EngineNews::Trouble(what)) if what.contains("made again"))
            };
            live.until("it is told", is_told);
            std::fs::write(&go, "").unwrap();
        },
    );
    assert_eq!(ran.outcomes(), [("a", "success"), ("b", "success")], "{:?}", ran.end.results);
    assert_eq!(["a", "b"].map(|job| crew.noted(job, "began").len()), [1, 1]);
    drop(worker);
}

#[test]
fn a_queue_that_somebody_deletes_is_made_again() {
    runs_while(async |server| context(server).await.delete_stream("TAPLINE_JOBS").await.map(drop).unwrap());
}

#[test]
fn a_consumer_that_somebody_deletes_is_made_again() {
    runs_while(async |server| {
        let jobs = context(server).await.get_stream("TAPLINE_JOBS").await.unwrap();
        let consumers: Vec<_> = jobs.consumer_names().map(Result::unwrap).collect().await;
        for consumer in &consumers {
            jobs.delete_consumer(consumer).await.unwrap();
        }
        assert_eq!(consumers.len(), 1);
    });
}

#[test]
fn a_broker_that_comes_back_with_nothing_gets_everything_again() {
    runs_while(async |server| {
        server.kill();
        std::fs::remove_dir_all(server.path("server")).unwrap();
        server.again();
    });
}

#[test]
fn a_batch_that_may_not_make_again_what_is_gone_ends_and_can_go_on() {
    let broker = Documented::start();
    let crew = broker.crew();
    for stream in ["TAPLINE_JOBS", "KV_tapline-outcomes"] {
        let worker = crew.worker("w1", 1);
        let go = crew.path(&format!("go-{stream}"));
        let text = format!("[[job]]\nname = \"a\"\nprompt = \"wait {stream} {}\"\n", go.display());
        let runs = || {
            crew.run_while(
                &text,
                |_| {},
                |_| {
                    wait_until("it runs", || crew.noted(stream, "began").len() == 1);
                    runtime().block_on(async { broker.admin().await.delete_stream(stream).await.map(drop) }).unwrap();
                },
            )
        };
        // Whoever runs a batch here panics with its error.
        let error = std::panic::catch_unwind(std::panic::AssertUnwindSafe(runs)).err().expect("it ends");
        let words = error.downcast_ref::<String>().unwrap();
        let name = stream.trim_start_matches("KV_");
        assert_eq!(words, &format!("the broker has no {name}, and this user may not make it"));
        broker.set_up();
        std::fs::write(&go, "").unwrap();
        let ran = crew.resume(|_| {});
        assert_eq!((ran.outcomes(), crew.noted(stream, "began").len()), (vec![("a", "success")], 1), "{stream}");
        drop(worker);
    }
}
