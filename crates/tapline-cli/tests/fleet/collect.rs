//! `tapline collect` and `tapline serve --engine`: recordings of another machine, in this one's recordings folder.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tapline_fleet::{Broker, Outbox, Post, Sealed, Shipper};
use tapline_recording::{End, Meta, Recorder, Store, Stream, Sync};
use tapline_testkit::nats::NatsServer;
use tapline_testkit::{TestProcess, wait_until};

const BATCH: &str = "2026-11-17T19-00-00Z-0a1b2c3d4e";
const LINE: &str =
    r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s1","total_cost_usd":0.5}"#;

/// Records a run on a machine of its own, and sends it.
fn record(server: &NatsServer, names: &[&str]) {
    let store = Store::at(server.path("worker"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let post = Box::pin(Post::open(&Broker::at(server.url()), "test")).await.unwrap();
        let outbox = Outbox::of(&store).unwrap();
        for name in names {
            let folder = store.folder().join(name);
            let meta = Meta { schema: 1, agent: Some("claude".to_owned()), ..Meta::default() };
            let mut recorder = Recorder::create(&folder, &meta, Sync::EverySecond).unwrap();
            recorder.write_at(Stream::Stdout, format!("{LINE}\n").as_bytes(), Duration::from_millis(5));
            recorder.finish(&End { exit_code: Some(0), ..End::default() }).unwrap();
            let shipper = Shipper::start(&post, &outbox, BATCH, &folder).unwrap();
            assert_eq!(Box::pin(shipper.seal()).await, Sealed::Yes);
        }
    });
}

fn tapline(server: &NatsServer, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tapline"));
    command.env_clear().env("HOME", server.path("")).env("TAPLINE_HOME", server.path("home")).args(args).stdin(Stdio::null());
    command
}

fn output(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn copy(server: &NatsServer, name: &str) -> PathBuf {
    server.path("home/recordings").join(name)
}

fn is_complete(folder: &Path) -> bool {
    std::fs::read_to_string(folder.join("collected.json")).is_ok_and(|text| text.contains("sealed"))
}

/// Ends a process as a service manager would, and returns its exit code.
fn end(mut process: TestProcess) -> i32 {
    process.signal("TERM");
    process.wait().unwrap().code().unwrap()
}

#[test]
fn collected_once_and_then_used_as_any_recording() {
    let server = NatsServer::start();
    record(&server, &["one", "two"]);
    let (code, out, err) = output(tapline(&server, &["collect", "--once"]).env("TAPLINE_ENGINE", server.url()));
    assert_eq!((code, out.as_str(), err.as_str()), (0, "collected one\ncollected two\n2 recordings collected\n", ""));
    let (code, out, _) = output(&mut tapline(&server, &["inspect", "one", "--get", "answer", "--get", "ledger.cost_usd"]));
    assert_eq!((code, out.as_str()), (0, "done\n0.5\n"));
    let engine = ["--engine", &server.url()];
    let (code, out, _) = output(tapline(&server, &["collect", "--once"]).args(engine));
    assert_eq!((code, out.as_str()), (0, "0 recordings collected\n"));
    record(&server, &["three"]);
    let (code, out, _) = output(tapline(&server, &["collect", "--once", "--quiet"]).args(engine));
    assert_eq!((code, out.as_str()), (0, ""));
    assert!(is_complete(&copy(&server, "three")));
}

#[test]
fn a_collector_takes_what_comes_until_it_is_stopped() {
    let server = NatsServer::start();
    let start = || TestProcess::spawn(tapline(&server, &["collect", "--engine", &server.url()]).stdout(Stdio::piped()));
    for name in ["first", "second"] {
        let mut collector = start();
        let mut lines = BufReader::new(collector.stdout.take().unwrap()).lines();
        record(&server, &[name]);
        assert_eq!(lines.next().unwrap().unwrap(), format!("collected {name}"));
        assert!(is_complete(&copy(&server, name)));
        assert_eq!(end(collector), 0);
        assert_eq!(lines.next().unwrap().unwrap(), "1 recording collected");
    }
}

#[test]
fn a_damaged_recording_is_kept_and_named() {
    let server = NatsServer::start();
    record(&server, &["good", "bad"]);
    // As if the disk had changed something while the rest was on its way.
    std::fs::create_dir_all(copy(&server, "bad")).unwrap();
    std::fs::write(copy(&server, "bad").join("collected.json"), format!("{{\"batch\":\"{BATCH}\"}}")).unwrap();
    std::fs::write(copy(&server, "bad").join("stdout"), "something else\n").unwrap();
    let (code, out, err) = output(&mut tapline(&server, &["collect", "--once", "--engine", &server.url()]));
    assert_eq!((code, out.as_str()), (1, "collected good\n1 recording collected, and 1 damaged\n"));
    assert!(
        err.starts_with("tapline: the recording bad is not as its original: stdout has other bytes than the original"),
        "{err}"
    );
    assert!(copy(&server, "bad").join("end.json").exists());
}

#[test]
fn a_broker_that_is_not_there_or_not_named_is_told() {
    let server = NatsServer::start();
    let (code, _, err) = output(&mut tapline(&server, &["collect", "--once"]));
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("--engine nats://HOST:4222"), "{err}");
    let (code, _, err) = output(&mut tapline(&server, &["collect", "--engine", "nats://127.0.0.1:1"]));
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("cannot reach the broker at nats://127.0.0.1:1: Connection refused"), "{err}");
}

#[test]
fn a_server_collects_what_it_shows() {
    let server = NatsServer::start();
    let args = ["serve", "--no-open", "--engine", &server.url()];
    let mut serving = TestProcess::spawn(tapline(&server, &args).stdout(Stdio::piped()));
    let mut lines = BufReader::new(serving.stdout.take().unwrap()).lines();
    let link = lines.next().unwrap().unwrap();
    assert!(link.starts_with("http://127.0.0.1:"), "{link}");
    record(&server, &["shown"]);
    wait_until("it is there", || is_complete(&copy(&server, "shown")));
    assert_eq!(end(serving), 0);
}
