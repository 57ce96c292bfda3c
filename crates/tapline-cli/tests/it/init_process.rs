//! tapline as the first process of a container: signals end it, and it waits for whoever has lost its parent. Needs unshare.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use tapline_testkit::agent::misbehaving;
use tapline_testkit::{TempFolder, TestProcess, root, wait_until};

use crate::tapline::{PATIENT, ran};

/// tapline with these arguments, as the first process of a namespace of its own.
pub(crate) fn first(args: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-r", "--pid", "--fork", "--mount-proc", "--kill-child", env!("CARGO_BIN_EXE_tapline")]).args(args);
    command.env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Signals the process that unshare has started: tapline.
fn signal(unshare: &TestProcess, name: &str) {
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", unshare.id())).unwrap();
    let pid = children.split_whitespace().next().unwrap().parse().unwrap();
    tapline_testkit::signal(pid, name);
}

#[test]
fn as_the_first_process_a_signal_stops_the_agent_in_order() {
    let folder = TempFolder::new();
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let recording = folder.path(name);
        let args =
            ["run", "go", "--bin", &misbehaving(), "--record", &recording, "--format", "stream-json", "--grace", PATIENT];
        let mut child = TestProcess::from(first(&args).env("FAKE", "hang").spawn().unwrap());
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("init"), "{line}");
        signal(&child, name);
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{err}");
        assert!(err.contains("stopping the agent"), "{err}");
        let end = std::fs::read_to_string(format!("{recording}/end.json")).unwrap();
        assert!(end.contains(r#""interrupted":true"#), "{end}");
    }
}

#[test]
fn as_the_first_process_a_signal_ends_what_has_no_agent() {
    // It waits for its input.
    let mut child = TestProcess::from(first(&["view"]).stdin(Stdio::piped()).spawn().unwrap());
    // To wait for a child closes its input, and then `view` may end before the signal comes.
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, b"no JSON\n").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(!line.is_empty());
    // Held open until it has ended: the end of its input would end it, too, and `wait` closes what the child has.
    let held = child.stdin.take();
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(143));
    drop(held);
}

#[test]
fn as_the_first_process_it_waits_for_whoever_has_lost_its_parent() {
    let folder = TempFolder::new();
    // It counts those that have ended and were not waited for, until there are none.
    let agent = folder.program(
        "agent",
        r#"#!/bin/bash
           for i in {1..50}; do (: & ) ; done
           for try in {1..1200}; do
             ended=$(cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z ')
             if [ "$ended" = 0 ]; then
               echo '{"type":"result","subtype":"success","is_error":false,"result":"none","num_turns":1}'; exit
             fi
             sleep 0.1
           done"#,
    );
    let done = ran(first(&["run", "go", "--bin", &agent, "--no-record", "--get", "answer"]).output().unwrap());
    assert_eq!((done.code, done.out.as_str()), (0, "none\n"), "{}", done.err);
}

#[test]
fn as_the_first_process_its_exit_code_is_the_commands() {
    let text = root().join("fixtures/claude-2.1.325/text.jsonl");
    for (args, code) in [(&["inspect", text.to_str().unwrap(), "--get", "session.id"][..], 0), (&["no-such-command"], 2)] {
        assert_eq!(ran(first(args).output().unwrap()).code, code, "{args:?}");
    }
}

#[test]
fn the_recording_says_how_many_processes_could_not_be_ended() {
    let folder = TempFolder::new();
    let recording = folder.path("r");
    // No signal of tapline's reaches anybody. In a namespace of its own, so that all of it ends with the test.
    let mut command = Command::new("unshare");
    command.args(["-r", "--pid", "--fork", "--mount-proc", "--kill-child", "strace", "-f", "-qq", "-o", "/dev/null"]);
    command.args(["-e", "trace=kill,pidfd_send_signal", "-e", "inject=kill,pidfd_send_signal:error=EPERM"]);
    command.args([
        env!("CARGO_BIN_EXE_tapline"),
        "run",
        "go",
        "--bin",
        &misbehaving(),
        "--record",
        &recording,
        "--grace",
        "300ms",
    ]);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("FAKE", "grandchild").stdin(Stdio::null());
    let mut child = TestProcess::from(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let end = format!("{recording}/end.json");
    // Strace waits for those that are left, too.
    wait_until("the recording has its end", || std::fs::exists(&end).unwrap());
    let end = std::fs::read_to_string(end).unwrap();
    let left = end.split_once(r#""left":"#).and_then(|(_, rest)| rest.split([',', '}']).next()?.parse::<usize>().ok());
    assert!(left.is_some_and(|left| left > 0), "{end}");
    // It says so after that.
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut told = String::new();
    while !told.contains("cannot be killed: the kernel does not let them exit") {
        assert!(err.read_line(&mut told).unwrap() > 0, "{told}");
    }
}
