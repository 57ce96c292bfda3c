//! Processes that are killed, a broker that goes away, a stream that is full: no byte is lost or doubled.

use std::path::Path;
use std::time::Duration;

use async_nats::jetstream::stream;
use tapline_fleet::{Sealed, resend};
use tapline_recording::Recorder;
use tapline_testkit::nats::NatsServer;
use tapline_testkit::{TestProcess, rerun, wait_until, within};

use crate::machine::{Machine, finish, runtime, write};

/// What a process of these tests needs: the address, and the folder of its machine.
const URL: &str = "FLEET_URL";
const MACHINE: &str = "FLEET_MACHINE";

/// The machine, if this is a process of a test.
fn role() -> Option<Machine> {
    let url = std::env::var(URL).ok()?;
    Some(Machine::at(&url, Path::new(&std::env::var_os(MACHINE)?)))
}

fn process(server: &NatsServer, test: &str, machine: &str) -> TestProcess {
    let mut command = rerun(module_path!(), test);
    command.env(URL, server.url()).env(MACHINE, server.path(machine));
    TestProcess::logged(&mut command, server.path(&format!("{machine}.log")))
}

/// Waits for longer than any test takes.
async fn forever() {
    std::future::pending::<()>().await;
}

#[test]
fn a_collector_is_killed_three_times() {
    if let Some(home) = role() {
        return runtime().block_on(async {
            let (_collector, _news) = home.collect().await;
            forever().await;
        });
    }
    let server = NatsServer::start();
    let (worker, home) = (Machine::new(&server, "worker"), Machine::new(&server, "home"));
    runtime().block_on(async {
        let names: Vec<String> = (1..=8).map(|n| format!("r{n}")).collect();
        let mut runs = Vec::new();
        for name in &names {
            runs.push((name, worker.ship(name).await, worker.record(name)));
        }
        for round in 1..=3 {
            let collector = process(&server, "a_collector_is_killed_three_times", "home");
            for (n, (name, _, recorder)) in runs.iter_mut().enumerate() {
                write(recorder, round * 100 + n, 40_000 * (n + 1));
                if n == round * 2 {
                    home.wait_for(name, worker.length(name));
                }
            }
            drop(collector);
        }
        for (n, (_, shipper, mut recorder)) in runs.into_iter().enumerate() {
            write(&mut recorder, 1_000 + n, 1_000);
            finish(recorder);
            assert_eq!(within("it is sent", shipper.seal()).await, Sealed::Yes);
        }
        let (collector, mut news) = home.collect().await;
        for name in &names {
            // Some may be complete already.
            if !std::fs::read_to_string(home.recording(name).join("collected.json")).unwrap_or_default().contains("sealed") {
                news.complete(name).await;
            }
            assert!(home.files(name) == worker.files(name), "{name}");
        }
        collector.stop().await;
    });
}

#[test]
fn a_worker_is_killed_and_sends_the_rest_later() {
    if let Some(worker) = role() {
        return runtime().block_on(async {
            let mut runs: Vec<Recorder> = Vec::new();
            let mut shippers = Vec::new();
            for n in 1..=3 {
                let name = format!("r{n}");
                shippers.push(worker.ship(&name).await);
                runs.push(worker.record(&name));
                write(&mut runs[n - 1], n, 100_000 * n);
            }
            // The second is over, and the others go on until this process is killed.
            finish(runs.remove(1));
            for n in 0.. {
                for recorder in &mut runs {
                    write(recorder, n, 3_000);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
    }
    let server = NatsServer::start();
    let (worker, home) = (Machine::new(&server, "worker"), Machine::new(&server, "home"));
    runtime().block_on(async {
        let (collector, mut news) = home.collect().await;
        let killed = process(&server, "a_worker_is_killed_and_sends_the_rest_later", "worker");
        home.wait_for("r1", 110_000);
        home.wait_for("r2", 200_000);
        home.wait_for("r3", 310_000);
        drop(killed);
        assert_eq!(worker.outbox().waiting().unwrap().len(), 3);
        assert_eq!(resend(&worker.post().await, &worker.outbox()).unwrap(), 3);
        let mut left = vec!["r1", "r2", "r3"];
        while !left.is_empty() {
            let told =
                news.wait_for("it is complete", |news| matches!(news, tapline_fleet::CollectNews::Collected { .. })).await;
            left.retain(|name| !matches!(&told, tapline_fleet::CollectNews::Collected { recording, .. } if recording == name));
        }
        for name in ["r1", "r2", "r3"] {
            assert!(home.files(name) == worker.files(name), "{name}");
            assert_eq!(home.files(name).contains_key("end.json"), name == "r2", "{name}");
        }
        wait_until("nothing is left", || worker.outbox().waiting().unwrap().is_empty());
        collector.stop().await;
    });
}

#[test]
fn the_broker_is_killed_three_times() {
    let mut server = NatsServer::start();
    let (worker, home) = (Machine::new(&server, "worker"), Machine::new(&server, "home"));
    runtime().block_on(async {
        let (collector, mut news) = home.collect().await;
        let shipper = worker.ship("r").await;
        let mut recorder = worker.record("r");
        for round in 1..=3 {
            write(&mut recorder, round, 100_000);
            home.wait_for("r", worker.length("r"));
            write(&mut recorder, round, 600_000);
            server.kill();
            write(&mut recorder, round, 50_000);
            server.again();
        }
        finish(recorder);
        assert_eq!(within("it is sent", shipper.seal()).await, Sealed::Yes);
        news.complete("r").await;
        assert!(home.files("r") == worker.files("r"));
        collector.stop().await;
    });
}

#[test]
fn a_full_stream_loses_nothing() {
    let server = NatsServer::start();
    let (worker, home) = (Machine::new(&server, "worker"), Machine::new(&server, "home"));
    runtime().block_on(async {
        let context = async_nats::jetstream::new(async_nats::connect(server.url()).await.unwrap());
        // As an operator made it: with room for one recording.
        let mut config = stream::Config {
            name: "TAPLINE_RECORDINGS".to_owned(),
            subjects: vec!["tapline.recordings.>".to_owned()],
            discard: stream::DiscardPolicy::New,
            max_bytes: 200_000,
            ..stream::Config::default()
        };
        context.create_stream(config.clone()).await.unwrap();
        let mut sealed = Vec::new();
        for name in ["first", "second"] {
            let mut recorder = worker.record(name);
            write(&mut recorder, 1, 150_000);
            finish(recorder);
            sealed.push(within("it says how it is", worker.ship(name).await.seal()).await);
        }
        assert_eq!(sealed[0], Sealed::Yes);
        let why = "the stream TAPLINE_RECORDINGS is full: raise its limits, or wait until there is room";
        assert_eq!(sealed[1], Sealed::Later(why.to_owned()));
        assert_eq!(worker.outbox().waiting().unwrap(), ["second"]);
        config.max_bytes = 10_000_000;
        context.update_stream(config).await.unwrap();
        let (collector, mut news) = home.collect().await;
        news.complete("first").await;
        news.complete("second").await;
        for name in ["first", "second"] {
            assert_eq!(home.files(name), worker.files(name));
        }
        wait_until("nothing is left", || worker.outbox().waiting().unwrap().is_empty());
        collector.stop().await;
    });
}

#[test]
fn a_server_keeps_its_address_and_what_it_stored() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut server = NatsServer::start();
    runtime.block_on(async {
        let put = async |server: &NatsServer, is_new: bool| {
            let context = async_nats::jetstream::new(async_nats::connect(server.url()).await.unwrap());
            let config = stream::Config { name: "KEPT".to_owned(), subjects: vec!["kept".to_owned()], ..Default::default() };
            let made = context.create_stream(config).await.unwrap();
            assert_eq!(made.cached_info().state.messages, u64::from(!is_new));
            context.publish("kept", "kept".into()).await.unwrap().await.unwrap();
        };
        put(&server, true).await;
        let url = server.url();
        server.kill();
        server.again();
        assert_eq!(server.url(), url);
        put(&server, false).await;
    });
}
