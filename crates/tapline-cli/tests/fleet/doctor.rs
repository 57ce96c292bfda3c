//! `tapline doctor --engine`: what it says of a broker, and that it changes nothing there.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tapline_testkit::nats::NatsServer;
use tapline_testkit::{Home, root, wait_until};

use crate::program_output::started;

/// `tapline doctor`, where an agent is installed: then only the broker decides.
fn doctor(home: &Home, args: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tapline"));
    command.env_clear().envs(home.environment());
    command.env("TAPLINE_CLAUDE_BIN", "/bin/echo").arg("doctor").args(args).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

fn found(home: &Home, url: &str) -> (i32, Value) {
    let (code, out) = doctor(home, &["--json", "--engine", url]);
    let json: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"));
    assert_eq!(json["ok"], code == 0, "{json}");
    assert!(!out.trim_end().contains(char::is_control), "{out:?}");
    (code, json["findings"].clone())
}

/// The streams and buckets that are there.
fn there(findings: &Value) -> Vec<&str> {
    let stores = findings["stored"]["stores"].as_object().unwrap();
    assert_eq!(stores.len(), 10);
    stores.iter().filter(|(_, store)| store["there"] == true).map(|(name, _)| name.as_str()).collect()
}

#[test]
fn a_broker_that_nobody_uses_yet() {
    let (home, server) = (Home::new(), NatsServer::start());
    // The second time nothing is there either: the doctor only looks.
    for _ in 0..2 {
        let (code, findings) = found(&home, &server.url());
        assert_eq!(code, 0, "{findings}");
        assert_eq!(findings["broker"]["jetstream"], true);
        assert!(findings["broker"]["version"].as_str().unwrap().starts_with(|c: char| c.is_ascii_digit()), "{findings}");
        assert!(there(&findings).is_empty(), "{findings}");
        assert_eq!((&findings["workers"]["workers"], &findings["workers"]["places"]), (&json!([]), &json!(0)));
        for role in ["worker", "batch", "collector", "setup"] {
            assert_eq!(findings["rights"][role]["missing"], json!([]), "{role}");
        }
    }
    let (code, out) = doctor(&home, &["--engine", &server.url()]);
    assert_eq!(code, 0, "{out}");
    for words in [
        "✓ broker     nats-server ",
        "✓ rights     enough for worker, batch, collector, setup\n",
        "✓ stored     0 of 10 streams and buckets are there",
        "! workers    none is there, so jobs wait\n",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
    let (_, without) = doctor(&home, &[]);
    assert!(!without.contains("broker"), "{without}");
}

#[test]
fn a_machine_that_sends_batches_to_workers_needs_no_agent() {
    let (home, server) = (Home::new(), NatsServer::start());
    let doctor = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tapline"));
        command.env_clear().envs(home.environment()).env("PATH", home.path("none"));
        let output = command.arg("doctor").args(args).stdin(Stdio::null()).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, out) = doctor(&["--engine", &server.url()]);
    assert!(
        code == 0 && out.contains("! claude     not found") && out.contains("needed only on machines that run agents"),
        "{out}"
    );
    let (code, out) = doctor(&[]);
    assert!(code == 1 && out.contains("✗ claude     not found") && !out.contains("needed only"), "{out}");
}

#[test]
fn the_workers_and_what_is_stored() {
    let (home, server) = (Home::new(), NatsServer::start());
    // What others say steers no terminal, and is told as it is in JSON.
    let name = "w\u{1b}[2J\u{9b}1";
    let mut command = Command::new(env!("CARGO_BIN_EXE_tapline"));
    command.env_clear().envs(home.environment()).env("TAPLINE_HOME", home.path("worker"));
    command.args(["worker", "--name", name, "--jobs", "3", "--label", "gpu=yes", "--require", "repo=api"]);
    let (mut worker, _out, told) = started(command.args(["--engine", &server.url()]));
    let mut said = Vec::new();
    wait_until("a worker is there", || {
        let (_, findings) = found(&home, &server.url());
        said = findings["workers"]["workers"].as_array().unwrap().clone();
        !said.is_empty()
    });
    let card = json!({ "name": name, "places": 3, "labels": ["gpu=yes"], "require": ["repo=api"], "tapline": env!("CARGO_PKG_VERSION") });
    assert_eq!(said, [card]);
    let (code, findings) = found(&home, &server.url());
    assert_eq!((code, &findings["workers"]["places"]), (0, &json!(3)));
    assert!(there(&findings).contains(&"TAPLINE_JOBS") && there(&findings).contains(&"tapline-workers"), "{findings}");
    // Of what the doctor tries nothing is stored: only the worker has said something.
    for (name, store) in findings["stored"]["stores"].as_object().unwrap() {
        assert_eq!(store["messages"].as_u64().unwrap() > 0, name == "tapline-workers", "{name}: {store}");
    }
    assert_eq!(findings["clock"]["broker_ahead_ms"], 0, "both have the clock of this machine");
    let (_, out) = doctor(&home, &["--engine", &server.url()]);
    assert!(out.contains("✓ workers    1 worker with 3 places: w␛[2J<U+009B>1 (3, gpu=yes)\n"), "{out}");
    assert!(out.contains("✓ clock      the same here and at the broker\n"), "{out}");
    // A worker that was told to end says so, and is not counted any more.
    worker.signal("TERM");
    assert_eq!(worker.ended().code(), Some(0));
    let told: Vec<String> = told.collect();
    let (_, findings) = found(&home, &server.url());
    assert_eq!(findings["workers"]["workers"], json!([]), "{told:?}");
}

/// The configuration that docs/FLEET.md shows.
fn documented() -> String {
    let page = std::fs::read_to_string(root().join("docs/FLEET.md")).unwrap();
    let (_, config) = page.split_once("```conf\njetstream").expect("it has a configuration");
    let (config, _) = config.split_once("```").unwrap();
    // The test says where the server stores what it has.
    config.lines().skip(1).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_rights_of_each_user() {
    let home = Home::new();
    let without = "NONE { users: [{ user: none, password: p }] }\n\
         DEAF { jetstream: enabled, users: [{ user: deaf, password: p, permissions: { subscribe: [\"x\"] } }] }\n";
    let config = home.file("server.conf", documented().replacen("TAPLINE {", &format!("{without}TAPLINE {{"), 1));
    let server = NatsServer::with(&["-c", &config]);
    let url = |user: &str| server.url().replace("nats://", &format!("nats://{user}@"));
    for (user, role, others) in [
        (
            "worker:change-me-1",
            "worker",
            [("batch", "tapline.jobs.>"), ("collector", "$JS.API.CONSUMER.CREATE.TAPLINE_RECORDINGS.>")],
        ),
        ("batch:change-me-2", "batch", [("worker", "tapline.recordings.>"), ("worker", "$KV.tapline-outcomes.>")]),
        (
            "collector:change-me-3",
            "collector",
            [("worker", "tapline.recordings.>"), ("batch", "$JS.API.STREAM.INFO.TAPLINE_JOBS")],
        ),
        ("setup:change-me-4", "setup", [("worker", "tapline.recordings.>"), ("batch", "tapline.jobs.>")]),
    ] {
        let (code, findings) = found(&home, &url(user));
        assert_eq!((code, &findings["rights"][role]["missing"]), (0, &json!([])), "{user}: {findings}");
        for (role, subject) in others {
            let missing = findings["rights"][role]["missing"].as_array().unwrap();
            assert!(missing.contains(&json!(subject)), "{user} as {role}: {missing:?}");
        }
        // Who may not see the workers is not told that there is none.
        assert_eq!(findings["workers"]["workers"].is_null(), ["collector", "setup"].contains(&role), "{user}: {findings}");
    }
    let (code, out) = doctor(&home, &["--engine", &url("setup:change-me-4"), "--setup"]);
    assert!(code == 0 && out.contains("✓ stored     10 of 10 streams and buckets are there"), "{out}");
    let (_, findings) = found(&home, &url("setup:change-me-4"));
    let key = findings["key"]["key"].as_str().unwrap();
    assert!(key.starts_with('U') && key.len() == 56 && out.contains(&format!("✓ key        {key} (for --trust")), "{out}");
    let (_, out) = doctor(&home, &["--engine", &url("worker:change-me-1")]);
    assert!(out.contains("✓ rights     enough for worker, not for batch, collector, setup\n"), "{out}");
    assert!(out.contains("a batch may not publish to tapline.jobs.>"), "{out}");
    for (user, words) in [
        ("worker:wrong", "refuses us: the user or the password in the address is missing, wrong or expired"),
        ("none:p", "has no JetStream"),
        ("deaf:p", "this user may not subscribe to _INBOX.>"),
    ] {
        let (code, out) = doctor(&home, &["--engine", &url(user)]);
        assert!(code == 1 && out.contains("✗ broker     ") && out.contains(words), "{user}: {code} {out}");
        assert!(!out.contains("wrong@"), "{out}");
        let (code, findings) = found(&home, &url(user));
        assert_eq!((code, &findings["broker"]["ok"], findings.get("workers")), (1, &json!(false), None), "{user}");
        assert!(findings["broker"]["error"].as_str().unwrap().contains(words), "{user}: {findings}");
    }
}

#[test]
fn no_broker() {
    let home = Home::new();
    let (code, out) = doctor(&home, &["--engine", "nats://127.0.0.1:1"]);
    assert_eq!(code, 1);
    assert!(out.contains("✗ broker     cannot reach the broker at nats://127.0.0.1:1: Connection refused"), "{out}");
    let (code, findings) = found(&home, "nats://127.0.0.1:1");
    assert_eq!((code, &findings["broker"]["version"], &findings["broker"]["ok"]), (1, &Value::Null, &json!(false)));
}
