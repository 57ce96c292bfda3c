//! What ends a run from outside: signals to tapline, its death, readers that do not read. Nothing of the agent stays.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::running::{fake, run_command};
use crate::tapline::{Bounded, Folder, PATIENT, command, tapline, wait_until};

/// A word that no other process has in its environment.
pub(crate) fn unique(name: &str) -> String {
    format!("stopping-{}-{name}", std::process::id())
}

/// The processes that carry it, but for tapline itself.
pub(crate) fn left_of(id: &str, tapline: u32) -> usize {
    let wanted = format!("FAKE_ID={id}").into_bytes();
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<u32>().ok());
    let carries = |pid: &u32| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|entry| entry == wanted)
    };
    pids.filter(|pid| *pid != tapline).filter(carries).count()
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

fn signal(child: &Child, name: &str) {
    let status = std::process::Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

/// Starts it, and waits for the agent's first line.
fn start(id: &str, mode: &str, args: &[&str]) -> Bounded {
    let mut command = run_command(mode, &[args, &["--format", "stream-json"]].concat());
    let mut child = Bounded(command.env("FAKE_ID", id).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut first = String::new();
    BufReader::with_capacity(1, child.0.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("init"), "{first}");
    child
}

#[test]
fn signals_stop_the_agent_in_order_and_finish_the_recording() {
    let folder = Folder::new("signals");
    for (name, mode, code) in [
        ("INT", "interrupted", 130),
        ("INT", "stubborn", 130),
        ("INT", "hang", 130),
        ("TERM", "hang", 143),
        ("HUP", "hang", 143),
    ] {
        let id = unique(&format!("{name}-{mode}"));
        let recording = folder.path(&id);
        let grace = if mode == "stubborn" { "2s" } else { PATIENT };
        let mut command =
            command(&["run", "go", "--bin", &fake(), "--record", &recording, "--grace", grace, "--format", "report"]);
        let mut child =
            command.env("FAKE", mode).env("FAKE_ID", &id).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The recording tells when the agent has begun.
        wait_until("it began", || std::fs::metadata(format!("{recording}/stdout")).is_ok_and(|meta| meta.len() > 0));
        signal(&child, name);
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
    let id = unique("twice");
    let mut child = start(&id, "stubborn", &["--grace", "20m"]);
    // Two signals that come before the first is seen are one: so again and again.
    let mut status = None;
    wait_until("it ends long before its grace does", || {
        signal(&child.0, "INT");
        std::thread::sleep(Duration::from_millis(200));
        status = child.0.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.and_then(|status| status.code()), Some(130));
    assert_eq!(left_of(&id, 0), 0);
}

#[test]
fn if_tapline_is_killed_the_agent_does_not_live_on() {
    for mode in ["hang", "stubborn", "calls", "wrapper"] {
        let id = unique(&format!("killed-{mode}"));
        let mut child = start(&id, mode, &[]);
        assert!(left_of(&id, child.0.id()) > 0);
        signal(&child.0, "KILL");
        child.0.wait().unwrap();
        wait_until(&format!("nothing is left of {mode}"), || left_of(&id, 0) == 0);
    }
}

#[test]
fn a_guard_that_dies_midway_takes_nothing_from_the_run() {
    let id = unique("guard");
    let mut child = start(&id, "wrapper", &[]);
    let mut guard = None;
    wait_until("the guard is there", || {
        guard = children_of(child.0.id()).into_iter().find(|pid| is_guard(pid));
        guard.is_some()
    });
    let killed = std::process::Command::new("kill").args(["-KILL", &guard.unwrap()]).status().unwrap();
    assert!(killed.success());
    // The agent works on, and is stopped in order.
    wait_until("the agent and what it started are there", || left_of(&id, child.0.id()) > 1);
    signal(&child.0, "TERM");
    assert_eq!(child.0.wait().unwrap().code(), Some(143));
    assert_eq!(left_of(&id, 0), 0);
}

#[test]
fn a_reader_that_does_not_read_stops_no_clock() {
    // More than a pipe holds and more than may wait; and less than may wait.
    for (format, lines) in [("stream-json", "500000"), ("lines", "500000"), ("lines", "3000")] {
        let id = unique(&format!("unread-{format}-{lines}"));
        let mode = if lines == "3000" { "lines-and-stay" } else { "lines" };
        let mut command = run_command(mode, &["--format", format, "--timeout", "500ms"]);
        command.env("FAKE_ID", &id).env("LINES_WANTED", lines);
        let mut child = Bounded(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let status = child.0.wait().unwrap();
        assert_eq!(status.code(), Some(124), "{format}");
        assert_eq!(left_of(&id, 0), 0);
    }
}

#[test]
fn a_slow_reader_of_a_good_run_gets_all_of_it() {
    let mut command = run_command("lines", &["--format", "stream-json", "--timeout", "20m"]);
    command.env("LINES_WANTED", "20000");
    let mut child = Bounded(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    // Longer than a stopped run would be waited for. The clock is another process's: it cannot be paused, and nothing is to be
    // seen while it runs.
    std::thread::sleep(Duration::from_secs(7));
    let mut all = String::new();
    child.0.stdout.take().unwrap().read_to_string(&mut all).unwrap();
    assert_eq!((child.0.wait().unwrap().code(), all.lines().count()), (Some(0), 20_002));
}

#[test]
fn interrupted_while_it_waits_to_try_again() {
    let mut command = run_command("rate-limited", &["--format", "report", "--retry", "3"]);
    command.env("RESETS_AT", "4102444800");
    let mut child = Bounded(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut told = BufReader::new(child.0.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("trying again in") {
        line.clear();
        assert!(told.read_line(&mut line).unwrap() > 0, "it never waited");
    }
    signal(&child.0, "INT");
    let mut report = String::new();
    child.0.stdout.take().unwrap().read_to_string(&mut report).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
    assert!(report.contains(r#""outcome":"interrupted""#), "{report}");
}

#[test]
fn a_good_run_whose_output_nobody_takes_can_be_interrupted() {
    let mut command = run_command("lines", &["--format", "lines"]);
    command.env("LINES_WANTED", "3000");
    let mut child = Bounded(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let pipe = child.0.stdout.take().unwrap();
    // The pipe takes whole lines only as long as they fit, so that some of its 64 KiB stay free.
    wait_until("the agent has ended, and the pipe is full", || {
        rustix::io::ioctl_fionread(&pipe).unwrap() >= 40_000 && children_of(child.0.id()).iter().all(|pid| is_guard(pid))
    });
    assert!(child.0.try_wait().unwrap().is_none(), "it waits for its reader");
    signal(&child.0, "INT");
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
}
