//! Recordings that travel arrive as they were written, byte by byte.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use tapline_fleet::{CollectNews, CollectOptions, Collected, RecordingCollector, Sealed};
use tapline_recording::{Recording, Redactor, Stream};
use tapline_testkit::nats::NatsServer;
use tapline_testkit::within;

use crate::machine::{BATCH, Machine, finish, lines, runtime, write};

async fn pieces(server: &NatsServer) -> u64 {
    let context = async_nats::jetstream::new(async_nats::connect(server.url()).await.unwrap());
    let stream = context.get_stream("TAPLINE_RECORDINGS").await.unwrap();
    stream.get_info().await.unwrap().state.messages
}

#[test]
fn a_short_recording_is_one_message() {
    let server = NatsServer::start();
    let (worker, home) = (Machine::new(&server, "worker"), Machine::new(&server, "home"));
    runtime().block_on(async {
        let (collector, mut news) = home.collect().await;
        for name in ["one", "two"] {
            let mut recorder = worker.record(name);
            write(&mut recorder, 1, 300);
            recorder.decide_at(&serde_json::json!({ "tool": "Bash" }), Duration::from_millis(3));
            finish(recorder);
            let shipper = worker.ship(name).await;
            assert_eq!(within("it is sent", shipper.seal()).await, Sealed::Yes);
            news.complete(name).await;
            assert_eq!(home.files(name), worker.files(name));
            assert_eq!(home.files(name).len(), 7);
        }
        assert_eq!(pieces(&server).await, 2);
        assert!(worker.outbox().waiting().unwrap().is_empty());
        // Private to its owner.
        let mode = |path: std::path::PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(home.recording("one")), 0o700);
        for file in std::fs::read_dir(home.recording("one")).unwrap() {
            assert_eq!(mode(file.unwrap().path()), 0o600);
        }
        assert_eq!(Recording::open(&home.recording("one")).unwrap().end.unwrap().exit_code, Some(0));
        collector.stop().await;
    });
}

#[test]
fn a_recording_arrives_while_it_grows() {
    let server = NatsServer::start();
    let (worker, home) = (Machine::new(&server, "worker"), Machine::new(&server, "home"));
    runtime().block_on(async {
        let (collector, mut news) = home.collect().await;
        // Its folder need not be there yet.
        let shipper = worker.ship("grows").await;
        let mut recorder = worker.record("grows");
        for n in 1..=4 {
            write(&mut recorder, n, 2_000);
            home.wait_for("grows", worker.length("grows"));
        }
        assert!(!home.recording("grows").join("end.json").exists(), "its run is not over");
        write(&mut recorder, 9, 700_000);
        finish(recorder);
        assert_eq!(within("it is sent", shipper.seal()).await, Sealed::Yes);
        news.complete("grows").await;
        assert_eq!(home.files("grows"), worker.files("grows"));
        collector.stop().await;
    });
}

#[test]
fn a_large_recording_goes_through_the_object_store() {
    let server = NatsServer::start();
    let (worker, home) = (Machine::new(&server, "worker"), Machine::new(&server, "home"));
    runtime().block_on(async {
        let (collector, mut news) = home.collect().await;
        let mut recorder = worker.record("large");
        write(&mut recorder, 1, 21 << 20);
        finish(recorder);
        let shipper = worker.ship("large").await;
        assert_eq!(within("it is sent", shipper.seal()).await, Sealed::Yes);
        news.complete("large").await;
        assert!(home.files("large") == worker.files("large"));
        assert!(worker.length("large") > 20 << 20);
        // 8 MiB in messages of half a MiB, and the rest in two objects.
        assert!(pieces(&server).await <= 20, "{}", pieces(&server).await);
        collector.stop().await;
    });
}

#[test]
fn what_was_redacted_stays_so() {
    let server = NatsServer::start();
    let (worker, home) = (Machine::new(&server, "worker"), Machine::new(&server, "home"));
    let key = format!("sk-ant-api03-{}", "Ab3".repeat(30));
    runtime().block_on(async {
        let (collector, mut news) = home.collect().await;
        let mut recorder = worker.record("redacted");
        let said = format!("{{\"type\":\"keep_alive\",\"text\":\"the key is {key}\"}}\n");
        let redactor = Redactor::default();
        let said = redactor.text(&said);
        recorder.write_at(Stream::Stdout, said.as_bytes(), Duration::ZERO);
        finish(recorder);
        assert_eq!(within("it is sent", worker.ship("redacted").await.seal()).await, Sealed::Yes);
        news.complete("redacted").await;
        assert_eq!(home.files("redacted"), worker.files("redacted"));
        assert!(!String::from_utf8_lossy(&home.files("redacted")["stdout"]).contains(&key));
        collector.stop().await;
    });
}

#[test]
fn each_of_two_machines_gets_everything() {
    let server = NatsServer::start();
    let worker = Machine::new(&server, "worker");
    let homes = ["here", "there"].map(|name| Machine::new(&server, name));
    runtime().block_on(async {
        let (here, mut first) = homes[0].collect().await;
        for n in 1..=20 {
            let name = format!("r{n}");
            let mut recorder = worker.record(&name);
            write(&mut recorder, n, 500 * n);
            finish(recorder);
            assert_eq!(within("it is sent", worker.ship(&name).await.seal()).await, Sealed::Yes);
        }
        // It comes later, and gets all of them, too.
        let (there, mut second) = homes[1].collect().await;
        for n in 1..=20 {
            first.complete(&format!("r{n}")).await;
            second.complete(&format!("r{n}")).await;
        }
        for n in 1..=20 {
            let name = format!("r{n}");
            assert_eq!(homes[0].files(&name), worker.files(&name));
            assert_eq!(homes[1].files(&name), worker.files(&name));
        }
        here.stop().await;
        there.stop().await;
    });
}

#[test]
fn the_original_stays_as_it_is() {
    let server = NatsServer::start();
    let machine = Machine::new(&server, "machine");
    runtime().block_on(async {
        let (collector, mut news) = machine.collect().await;
        let mut recorder = machine.record("own");
        write(&mut recorder, 1, 1_000);
        finish(recorder);
        let before = machine.files("own");
        assert_eq!(within("it is sent", machine.ship("own").await.seal()).await, Sealed::Yes);
        let original = CollectNews::Collected { recording: "own".to_owned(), is_original: true };
        news.wait_for("it is the original", |news| *news == original).await;
        assert_eq!(machine.files("own"), before);
        assert!(!machine.recording("own").join("collected.json").exists());
        collector.stop().await;
    });
}

#[test]
fn a_run_that_did_not_start_has_no_recording() {
    let server = NatsServer::start();
    let worker = Machine::new(&server, "worker");
    runtime().block_on(async {
        let shipper = worker.ship("never").await;
        assert_eq!(worker.outbox().waiting().unwrap(), ["never"]);
        assert_eq!(within("it says so", shipper.seal()).await, Sealed::Nothing);
        assert!(worker.outbox().waiting().unwrap().is_empty());
        assert_eq!(pieces(&server).await, 0);
    });
}

#[test]
fn a_batch_waits_for_its_recordings_and_leaves_nothing() {
    let server = NatsServer::start();
    let (worker, home) = (Machine::new(&server, "worker"), Machine::new(&server, "home"));
    runtime().block_on(async {
        let post = home.post().await;
        let collect = || RecordingCollector::for_batch(&post, BATCH, &home.store, CollectOptions::default());
        let collector = collect().await.unwrap();
        for n in 1..=5 {
            let name = format!("r{n}");
            let shipper = worker.ship(&name).await;
            let mut recorder = worker.record(&name);
            recorder.write_at(Stream::Stdout, &lines(n, 5_000), Duration::ZERO);
            if n == 3 {
                assert_eq!(within("it is not there", collector.collected(&name)).await, Collected::Incomplete);
            }
            finish(recorder);
            assert_eq!(within("it is sent", shipper.seal()).await, Sealed::Yes);
            assert_eq!(within("it comes", collector.collected(&name)).await, Collected::Complete);
            assert_eq!(home.files(&name), worker.files(&name));
        }
        // A batch that goes on knows what it has.
        collector.stop().await;
        let collector = collect().await.unwrap();
        assert_eq!(within("it is there", collector.collected("r1")).await, Collected::Complete);
        collector.finish().await;
        let context = async_nats::jetstream::new(async_nats::connect(server.url()).await.unwrap());
        let mut stream = context.get_stream("TAPLINE_RECORDINGS").await.unwrap();
        assert_eq!(stream.info().await.unwrap().state.consumer_count, 0);
    });
}

#[test]
fn collecting_once_ends_when_nothing_is_left() {
    let server = NatsServer::start();
    let (worker, home) = (Machine::new(&server, "worker"), Machine::new(&server, "home"));
    runtime().block_on(async {
        for n in 1..=100 {
            let name = format!("r{n}");
            let mut recorder = worker.record(&name);
            write(&mut recorder, n, 200);
            finish(recorder);
            assert_eq!(within("it is sent", worker.ship(&name).await.seal()).await, Sealed::Yes);
        }
        let mut options = CollectOptions::default();
        options.once = true;
        let (sender, _news) = tokio::sync::mpsc::unbounded_channel();
        let post = home.post().await;
        let mut collector = RecordingCollector::of_all(&post, &home.store, options, sender).await.unwrap();
        within("nothing is left", collector.ended()).await.unwrap();
        for n in 1..=100 {
            assert_eq!(home.files(&format!("r{n}")), worker.files(&format!("r{n}")));
        }
    });
}

#[test]
fn several_processes_write_the_copies_of_one_data_folder() {
    let server = NatsServer::start();
    let (worker, home) = (Machine::new(&server, "worker"), Machine::new(&server, "home"));
    runtime().block_on(async {
        // The first two share a place in the stream, so each gets some of the pieces. The third gets all of them.
        let (first, _one) = home.collect().await;
        let (second, _two) = home.collect().await;
        let post = home.post().await;
        let batch = RecordingCollector::for_batch(&post, BATCH, &home.store, CollectOptions::default()).await.unwrap();
        let names: Vec<String> = (1..=10).map(|n| format!("r{n}")).collect();
        let mut runs = Vec::new();
        for name in &names {
            runs.push((worker.ship(name).await, worker.record(name)));
        }
        for round in 1..=4 {
            for (n, (_, recorder)) in runs.iter_mut().enumerate() {
                write(recorder, round * 100 + n, 20_000 * (n + 1));
            }
            home.wait_for("r10", worker.length("r10"));
        }
        for (name, (shipper, recorder)) in names.iter().zip(runs) {
            finish(recorder);
            assert_eq!(within("it is sent", shipper.seal()).await, Sealed::Yes);
            assert_eq!(within("it comes", batch.collected(name)).await, Collected::Complete);
            assert!(home.files(name) == worker.files(name), "{name}");
        }
        for collector in [first, second, batch] {
            collector.stop().await;
        }
        assert!(names.iter().all(|name| home.files(name) == worker.files(name)));
    });
}
