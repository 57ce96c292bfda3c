//! `tapline sim` and `tapline replay`, as people use them. What the real programs make of them is tested by scripts/e2e.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

use serde_json::Value;
use tapline_testkit::{TempFolder, TestProcess, signal, wait_until};

use crate::tapline::{PATIENT, command, ran, tapline, tapline_on};

const TURN: &str = "turn = [{ text = \"Hello.\" }]\n";

#[test]
fn the_example_is_one() {
    let example = tapline(&["sim", "--example"]);
    assert_eq!(example.code, 0);
    let ran = tapline_on(example.out.as_bytes(), &["sim", "-", "--", "true"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "tapline: sim: note: no request reached the model\n"));
}

#[test]
fn nothing_of_ours_reaches_the_command() {
    let folder = TempFolder::new();
    let scenario = folder.file("s.toml", TURN);
    let mut sim = command(&["sim", &scenario, "--env", "MINE=1", "--env", "PASSED", "--", "env"]);
    for name in [
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "CLAUDE_CODE_USE_BEDROCK",
        "XDG_CONFIG_HOME",
        "NODE_OPTIONS",
        "HTTPS_PROXY",
    ] {
        sim.env(name, "leaked");
    }
    let ran = ran(sim.env("PASSED", "2").env("HOME", "/leaked").env("LANG", "C.UTF-8").env("TERM", "dumb").output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!ran.out.contains("leaked"), "{}", ran.out);
    for wanted in [
        "ANTHROPIC_BASE_URL=http://127.0.0.1:",
        "HOME=",
        "MINE=1\n",
        "PASSED=2\n",
        "LANG=C.UTF-8\n",
        "TERM=dumb\n",
        "PATH=/usr/bin:/bin\n",
    ] {
        assert!(ran.out.contains(wanted), "no {wanted} in {}", ran.out);
    }
    let home = ran.out.lines().find_map(|line| line.strip_prefix("HOME=")).unwrap();
    assert!(!std::path::Path::new(home).exists(), "the fresh HOME is gone");
}

#[test]
fn the_commands_end_is_given_back() {
    let folder = TempFolder::new();
    let scenario = folder.file("s.toml", TURN);
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)] {
        assert_eq!(tapline(&["sim", &scenario, "--", "sh", "-c", script]).code, code, "{script}");
    }
    let lost = tapline(&["sim", &scenario, "--", "no-such-program"]);
    assert!(lost.code == 127 && lost.err.contains("no-such-program"), "{}", lost.err);
    let folder_itself = tapline(&["sim", &scenario, "--", "/tmp"]);
    assert_eq!(folder_itself.code, 126, "{}", folder_itself.err);
    // What it left behind is ended with it.
    let script = "(while :; do sleep 0.02; done) >/dev/null 2>&1 & cat /proc/$!/cmdline; echo; echo $!";
    let ran = tapline(&["sim", &scenario, "--", "sh", "-c", script]);
    let (line, pid) = ran.out.trim_end().rsplit_once('\n').unwrap();
    assert!(ran.code == 0 && line.contains("while"), "it lived: {}", ran.out);
    // Of a process that has ended and that nobody has waited for, the line is empty.
    wait_until("it ends, too", || std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default().is_empty());
}

#[test]
fn signals_reach_the_command_once() {
    let folder = TempFolder::new();
    let scenario = folder.file("s.toml", TURN);
    for name in ["INT", "TERM", "HUP"] {
        let script = format!(
            "n=0; trap 'n=$((n+1))' {name}; echo ready; while [ $n = 0 ]; do sleep 0.02; done; \
             i=0; while [ $i -lt 20 ]; do sleep 0.02; i=$((i+1)); done; exit $n"
        );
        let args = ["sim", &scenario, "--grace", PATIENT, "--", "sh", "-c", &script];
        let mut child = command(&args).stdout(Stdio::piped()).spawn().unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
        signal(child.id(), name);
        assert_eq!(child.wait().unwrap().code(), Some(1), "{name}");
    }
}

#[test]
fn a_command_that_ignores_signals_is_killed_with_all_it_has_started_after_the_grace() {
    let folder = TempFolder::new();
    let scenario = folder.file("s.toml", TURN);
    for name in ["INT", "TERM"] {
        // Both hold stdout: its end says that both have ended.
        let script = "trap '' INT TERM; setsid sh -c 'while :; do sleep 1; done' & echo ready; while :; do sleep 1; done";
        let args = ["sim", &scenario, "--grace", "100ms", "--", "sh", "-c", script];
        let mut child = command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        std::io::Read::read_exact(&mut stdout, &mut [0; 6]).unwrap();
        signal(child.id(), name);
        let done = child.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(137), "{name}");
        assert!(String::from_utf8_lossy(&done.stderr).contains("killing it"), "{name}");
        assert_eq!(std::io::Read::read(&mut stdout, &mut [0; 6]).unwrap(), 0, "{name}: nothing is left");
    }
}

#[test]
fn what_does_not_hold_is_said() {
    let folder = TempFolder::new();
    let scenario = folder.file("s.toml", "[expect]\nrequests = 1\n[[turn]]\ntext = \"x\"\n");
    let ran = tapline(&["sim", &scenario, "--", "true"]);
    assert!(ran.code == 3 && ran.err.contains("requests answered by a turn: 0, not 1"), "{}", ran.err);
    assert_eq!(tapline(&["sim", &scenario, "--", "false"]).code, 1, "the command's own failure comes first");
    let wrong = folder.file("wrong.toml", "[[turn]]\ntext = \"x\"\n\n[[turn]]\ntxt = \"y\"\n");
    let ran = tapline(&["sim", &wrong, "--", "true"]);
    assert!(ran.code == 2 && ran.err.contains("wrong.toml:5:1: unknown field `txt`"), "{}", ran.err);
    for (args, wanted) in [
        (
            &["sim", "/no/such.toml", "--", "true"][..],
            "cannot read the scenario /no/such.toml: there is no such file (`tapline sim --example > /no/such.toml` writes an example)",
        ),
        (&["sim", &scenario], "give a command"),
        (&["sim", &scenario, "--env", "NOT_HERE", "--", "true"], "NOT_HERE"),
    ] {
        let ran = tapline(args);
        assert!(ran.code == 2 && ran.err.contains(wanted), "{args:?}: {}", ran.err);
    }
}

#[test]
fn it_serves_and_says_where() {
    let folder = TempFolder::new();
    let scenario = folder.file("s.toml", TURN);
    let log = folder.path("log.jsonl");
    let mut child = TestProcess::from(
        command(&["sim", "--listen", "127.0.0.1:0", &scenario, "--log", &log])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    // Its output ends when all is said, so that a shell can wait for it.
    let mut said = String::new();
    std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut said).unwrap();
    let address = said.lines().find_map(|line| line.strip_prefix("export ANTHROPIC_BASE_URL=http://")).unwrap().to_owned();
    assert!(said.contains("export CODEX_HOME=") && said.contains("export CLAUDE_CONFIG_DIR="), "{said}");
    assert!(said.starts_with("unset ") && said.contains("ANTHROPIC_AUTH_TOKEN"), "no login stays: {said}");
    let taken = tapline(&["sim", &scenario, &format!("--listen={address}")]);
    assert!(taken.code == 2 && taken.err.contains("in use") && taken.err.contains(&address), "{}", taken.err);
    let mut stream = std::net::TcpStream::connect(&address).unwrap();
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
    write!(stream, "POST /v1/messages HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-secret\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
    assert!(answer.contains("Hello."), "{answer}");
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(!logged.contains("sk-secret"));
    let logged: Value = serde_json::from_str(&logged).unwrap();
    assert_eq!((&logged["turn"], &logged["body"]["messages"][0]["content"]), (&Value::from(1), &Value::from("hi")));
    child.signal("INT");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A recording of an agent that is this script.
fn recorded(folder: &TempFolder, name: &str, script: &str) -> String {
    let program = folder.script("agent", script);
    let recording = folder.path(name);
    let output = command(&["tee", "--bin", &program, "--record", &recording, "--", "-p"]).output().unwrap();
    assert!(std::path::Path::new(&recording).join("end.json").exists(), "{output:?}");
    recording
}

#[test]
fn a_recording_is_played_to_its_end() {
    let folder = TempFolder::new();
    let recording =
        recorded(&folder, "r", "echo '{\"type\":\"system\"}'; echo beside >&2; echo '{\"type\":\"result\"}'; exit 7");
    let ran = tapline(&["replay", &recording, "--speed", "instant"]);
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (7, "{\"type\":\"system\"}\n{\"type\":\"result\"}\n", "beside\n")
    );
    let dropped = tapline(&["replay", &recording, "--speed", "instant", "--drop-result", "--chunks", "1"]);
    assert_eq!((dropped.code, dropped.out.as_str()), (7, "{\"type\":\"system\"}\n"));
    let stopped = tapline(&["replay", &recording, "--speed", "100", "--stop-after", "1"]);
    assert_eq!(stopped.out, "{\"type\":\"system\"}\n");
    let killed = recorded(&folder, "k", "echo x; kill -KILL $$");
    let status = command(&["replay", &killed]).stdout(Stdio::null()).status().unwrap();
    assert_eq!(status.signal(), Some(9));
    for bad in ["0", "-1", "nan", "fast"] {
        assert_eq!(tapline(&["replay", &recording, "--speed", bad]).code, 2, "{bad}");
    }
}

#[test]
fn a_cut_recording_says_so() {
    let folder = TempFolder::new();
    let recording = recorded(&folder, "r", "echo one; echo two");
    std::fs::remove_file(format!("{recording}/end.json")).unwrap();
    let ran = tapline(&["replay", &recording, "--speed", "instant"]);
    assert_eq!((ran.code, ran.out.as_str()), (4, "one\ntwo\n"));
    assert!(ran.err.contains("incomplete") && ran.err.contains("no end"), "{}", ran.err);
    let none = tapline(&["replay", &folder.path("nowhere")]);
    assert!(none.code == 2 && none.err.contains("not a recording") && none.err.contains("does not exist"), "{}", none.err);
}

#[test]
fn who_wants_to_replay_a_stream_is_told_how() {
    let folder = TempFolder::new();
    let stream = folder.file("run.jsonl", "{\"type\":\"system\",\"subtype\":\"init\"}\n");
    let ran = tapline(&["replay", &stream]);
    let told = format!("{stream} is a file; a recording is a folder that contains a file `stdout`");
    assert!(ran.code == 2 && ran.err.contains(&told) && ran.err.contains("mkdir DIR && cp FILE DIR/stdout"), "{}", ran.err);
    // As it says.
    std::fs::create_dir(folder.path("made")).unwrap();
    std::fs::copy(&stream, folder.path("made/stdout")).unwrap();
    let ran = tapline(&["replay", &folder.path("made"), "--speed", "instant"]);
    assert_eq!((ran.code, ran.out), (4, std::fs::read_to_string(&stream).unwrap()));
}

#[test]
fn a_stand_in_plays_what_was_recorded() {
    let folder = TempFolder::new();
    let recording = recorded(&folder, "r", "echo '{\"claude_code_version\":\"9.8.7\"}'; exit 3");
    let made = tapline(&["shim", &folder.path("shim dir"), "--replay", &recording, "--", "--speed", "instant"]);
    let program = made.out.trim_end();
    let played = ran(std::process::Command::new(program).args(["-p", "whatever"]).stdin(Stdio::null()).output().unwrap());
    assert_eq!((played.code, played.out.as_str()), (3, "{\"claude_code_version\":\"9.8.7\"}\n"));
    let version = ran(std::process::Command::new(program).arg("--version").output().unwrap());
    assert_eq!((version.code, version.out.as_str()), (0, "9.8.7 (tapline replay)\n"));
}

#[test]
fn of_several_recordings_the_one_with_the_hosts_arguments_is_played() {
    let folder = TempFolder::new();
    let program = folder.script("agent", "echo \"$*\"");
    let all = folder.path("all");
    for words in [&["-p", "first"][..], &["-p", "second", "--resume=1"]] {
        let args: Vec<&str> = ["tee", "--bin", &program, "--record-in", &all, "--"].iter().chain(words).copied().collect();
        assert_eq!(tapline(&args).code, 0);
    }
    let made = tapline(&["shim", &folder.path("shim"), "--replay", &all, "--", "--speed", "instant"]);
    assert_eq!(made.code, 0, "{}", made.err);
    let play =
        |args: &[&str]| ran(std::process::Command::new(made.out.trim_end()).args(args).stdin(Stdio::null()).output().unwrap());
    assert_eq!(play(&["-p", "second", "--resume=1"]).out, "-p second --resume=1\n");
    assert_eq!(play(&["-p", "first"]).out, "-p first\n");
    assert_eq!(play(&["--version"]).code, 0, "who it is can be asked before");
    let other = play(&["-p", "third"]);
    assert!(other.code == 2 && other.err.contains("none of the 2 recordings"), "{}", other.err);
    let none = tapline(&["replay", &all]);
    assert!(none.code == 2 && none.err.contains("name one of them"), "{}", none.err);
}

#[test]
fn a_stand_in_that_would_not_work_is_refused_when_it_is_made() {
    let folder = TempFolder::new();
    let recording = recorded(&folder, "r", "echo x");
    for args in [
        &["shim", "D", "--bin", "/no/such/claude"][..],
        &["shim", "D", "--replay", "/no/such"],
        &["shim", "D", "--replay", &recording, "--", "--spede", "3"],
    ] {
        let args: Vec<String> =
            args.iter().map(|arg| if *arg == "D" { folder.path("made") } else { (*arg).to_owned() }).collect();
        let ran = tapline(&args.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(ran.code == 2 && !ran.err.is_empty(), "{args:?}: {}", ran.err);
        assert!(!std::path::Path::new(&folder.path("made/claude")).exists());
    }
}

#[test]
fn a_strict_host_sends_the_same_and_nothing_more() {
    let folder = TempFolder::new();
    let recording = recorded(&folder, "r", "echo '{\"type\":\"result\"}'");
    let strict = |args: &[&str], sends: &str| {
        let args: Vec<&str> =
            ["replay", &recording, "--strict", "--speed", "instant", "--"].iter().chain(args).copied().collect();
        tapline_on(sends.as_bytes(), &args)
    };
    assert_eq!(strict(&["-p"], "").code, 0);
    let other = strict(&["-p", "more"], "");
    assert!(other.code == 3 && other.err.contains("argument 2 was missing and is \"more\""), "{}", other.err);
    for _ in 0..10 {
        let surprised = strict(&["-p"], "{\"type\":\"user\"}\n");
        assert!(surprised.code == 3 && surprised.err.contains("line 1 of stdin"), "{}", surprised.err);
    }
}

#[test]
fn every_request_is_told_on_demand() {
    let folder = TempFolder::new();
    let scenario = folder.file("s.toml", "[[turn]]\ntool = [{ name = \"Bsah\" }]\n");
    let body = r#"{"model":"m","tools":[{"name":"Bash"}],"messages":[{"role":"user","content":"hi"}]}"#;
    let script = format!(
        "exec 3<>/dev/tcp/${{ANTHROPIC_BASE_URL#http://127.0.0.1:}} 2>/dev/null; printf 'POST /v1/messages HTTP/1.1\\r\\nhost: x\\r\\nconnection: close\\r\\ncontent-length: {}\\r\\n\\r\\n{body}' >&3; cat <&3 >/dev/null",
        body.len()
    );
    let script =
        script.replace("/dev/tcp/${ANTHROPIC_BASE_URL#http://127.0.0.1:}", "/dev/tcp/127.0.0.1/${ANTHROPIC_BASE_URL##*:}");
    let ran = tapline(&["sim", &scenario, "--verbose", "--", "bash", "-c", &script]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("sim: POST /v1/messages · main agent, answer 1 · turn 1 · 200"), "{}", ran.err);
    assert!(ran.err.contains("note: sim_1 calls Bsah, but the agent has no tool of that name"), "{}", ran.err);
}

#[test]
fn the_prompt_of_a_run_is_awaited_and_held_against_it() {
    let folder = TempFolder::new();
    let program = folder.script("agent", "cat >/dev/null; echo '{\"type\":\"result\"}'");
    let recording = folder.path("r");
    let mut child = command(&["tee", "--bin", &program, "--record", &recording, "--"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"What is this?").unwrap();
    child.wait().unwrap();
    let same = tapline_on(b"What is this?", &["replay", &recording, "--strict", "--speed", "instant"]);
    assert_eq!((same.code, same.out.as_str()), (0, "{\"type\":\"result\"}\n"));
    let other = tapline_on(b"What is that?", &["replay", &recording, "--strict", "--speed", "instant"]);
    assert!(other.code == 3 && other.err.contains("byte 10"), "{}", other.err);
}
