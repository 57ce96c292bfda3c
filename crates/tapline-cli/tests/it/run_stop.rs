//! What ends a run from outside: signals to tapline, its death, readers that do not read. Nothing of the agent stays.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;
use std::time::Duration;

use tapline_testkit::agent::misbehaving;
use tapline_testkit::{TempFolder, TestProcess, processes_with, signal, unique, wait_for, wait_until};

use crate::run::run_command;
use crate::tapline::{PATIENT, command, tapline};

/// The processes that carry it, but for tapline itself.
pub(crate) fn left_of(id: &str, tapline: u32) -> usize {
    processes_with(&format!("FAKE_ID={id}")).iter().filter(|process| process.pid != tapline).count()
}

/// The processes that one of its threads has started.
fn children_of(tapline: u32) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{tapline}/task")).unwrap();
    let children = threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("children")).unwrap_or_default());
    children.flat_map(|pids| pids.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

fn is_guard(pid: &str) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains("__guard"))
}

/// Starts it, and waits for the agent's first line.
fn start(id: &str, mode: &str, args: &[&str]) -> TestProcess {
    let mut command = run_command(mode, &[args, &["--format", "stream-json"]].concat());
    let mut child =
        TestProcess::from(command.env("FAKE_ID", id).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut first = String::new();
    BufReader::with_capacity(1, child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("init"), "{first}");
    child
}

#[test]
fn signals_stop_the_agent_in_order_and_finish_the_recording() {
    let folder = TempFolder::new();
    for (name, mode, code) in [
        ("INT", "interrupted", 130),
        ("INT", "stubborn", 130),
        ("INT", "hang", 130),
        ("TERM", "hang", 143),
        ("HUP", "hang", 143),
    ] {
        let id = unique();
        let recording = folder.path(&id);
        let grace = if mode == "stubborn" { "2s" } else { PATIENT };
        let mut command =
            command(&["run", "go", "--bin", &misbehaving(), "--record", &recording, "--grace", grace, "--format", "report"]);
        command.env("FAKE", mode).env("FAKE_ID", &id).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = TestProcess::spawn(&mut command);
        // The recording tells when the agent has begun.
        wait_until("it began", || std::fs::metadata(format!("{recording}/stdout")).is_ok_and(|meta| meta.len() > 0));
        child.signal(name);
        let mut report = String::new();
        child.stdout.take().unwrap().read_to_string(&mut report).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(code), "{name} {mode}");
        assert!(
            report.contains(r#""verdict":{"outcome":"interrupted","category":"interrupted","error":"interrupted""#),
            "{report}"
        );
        assert_eq!(left_of(&id, 0), 0, "{name} {mode}");
        if mode != "stubborn" {
            // With a short grace, a slow disk is not waited for.
            let kept = tapline(&["inspect", "--get", "verdict.outcome", &recording]);
            assert_eq!((kept.out.as_str(), kept.err.as_str()), ("interrupted\n", ""), "the recording has its end");
        }
    }
}

#[test]
fn told_twice_it_hurries() {
    let id = unique();
    let mut child = start(&id, "stubborn", &["--grace", "20m"]);
    // Two signals that come before the first is seen are one: so again and again.
    let mut status = None;
    wait_until("it ends long before its grace does", || {
        child.signal("INT");
        std::thread::sleep(Duration::from_millis(200));
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.and_then(|status| status.code()), Some(130));
    assert_eq!(left_of(&id, 0), 0);
}

#[test]
fn if_tapline_is_killed_the_agent_does_not_live_on() {
    for mode in ["hang", "stubborn", "calls", "wrapper"] {
        let id = unique();
        let mut child = start(&id, mode, &[]);
        assert!(left_of(&id, child.id()) > 0);
        child.signal("KILL");
        child.wait().unwrap();
        wait_until(&format!("nothing is left of {mode}"), || left_of(&id, 0) == 0);
    }
}

#[test]
fn a_guard_that_dies_midway_takes_nothing_from_the_run() {
    let id = unique();
    let mut child = start(&id, "wrapper", &[]);
    let guard = wait_for("the guard is there", || children_of(child.id()).into_iter().find(|pid| is_guard(pid)));
    signal(guard.parse().unwrap(), "KILL");
    // The agent works on, and is stopped in order.
    wait_until("the agent and what it started are there", || left_of(&id, child.id()) > 1);
    child.signal("TERM");
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(left_of(&id, 0), 0);
}

#[test]
fn a_reader_that_does_not_read_stops_no_clock() {
    // More than a pipe holds and more than may wait; and less than may wait.
    for (format, lines) in [("stream-json", "500000"), ("lines", "500000"), ("lines", "3000")] {
        let id = unique();
        let mode = if lines == "3000" { "lines-and-stay" } else { "lines" };
        let mut command = run_command(mode, &["--format", format, "--timeout", "500ms"]);
        command.env("FAKE_ID", &id).env("LINES_WANTED", lines);
        let mut child = TestProcess::from(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(124), "{format}");
        assert_eq!(left_of(&id, 0), 0);
    }
}

#[test]
fn a_slow_reader_of_a_good_run_gets_all_of_it() {
    let mut command = run_command("lines", &["--format", "stream-json", "--timeout", "20m"]);
    command.env("LINES_WANTED", "20000");
    let mut child = TestProcess::from(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    // Longer than a stopped run would be waited for. The clock is another process's: it cannot be paused, and nothing is to be
    // seen while it runs.
    std::thread::sleep(Duration::from_secs(7));
    let mut all = String::new();
    child.stdout.take().unwrap().read_to_string(&mut all).unwrap();
    assert_eq!((child.wait().unwrap().code(), all.lines().count()), (Some(0), 20_002));
}

#[test]
fn interrupted_while_it_waits_to_try_again() {
    let mut command = run_command("rate-limited", &["--format", "report", "--retry", "3"]);
    command.env("RESETS_AT", "4102444800");
    let mut child = TestProcess::from(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("trying again in") {
        line.clear();
        assert!(told.read_line(&mut line).unwrap() > 0, "it never waited");
    }
    child.signal("INT");
    let mut report = String::new();
    child.stdout.take().unwrap().read_to_string(&mut report).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(report.contains(r#""outcome":"interrupted""#), "{report}");
}

#[test]
fn a_good_run_whose_output_nobody_takes_can_be_interrupted() {
    let mut command = run_command("lines", &["--format", "lines"]);
    command.env("LINES_WANTED", "3000");
    let mut child = TestProcess::from(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let pipe = child.stdout.take().unwrap();
    // The pipe takes whole lines only as long as they fit, so that some of its 64 KiB stay free.
    wait_until("the agent has ended, and the pipe is full", || {
        rustix::io::ioctl_fionread(&pipe).unwrap() >= 40_000 && children_of(child.id()).iter().all(|pid| is_guard(pid))
    });
    assert!(child.try_wait().unwrap().is_none(), "it waits for its reader");
    child.signal("INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
