//! What is piped in beside a prompt goes behind it, as the agents themselves do it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use tapline_testkit::agent::misbehaving;
use tapline_testkit::{TempFolder, TestProcess, wait_until};

use crate::run::run_command;
use crate::tapline::{Ran, command, ran};

/// Runs with this on stdin; what the agent was told.
fn told(folder: &TempFolder, args: &[&str], stdin: impl Into<Stdio>, input: &[u8]) -> (Ran, Option<String>) {
    let recording = folder.path("recording");
    let _ = std::fs::remove_dir_all(&recording);
    // However long it takes until this test gets to write.
    let patient = if args.contains(&"--no-stdin") { &[][..] } else { &["--stdin-wait", "10m"] };
    let mut command = command(&[&["run", "--bin", &misbehaving(), "--record", &recording], patient, args].concat());
    let mode = if args.contains(&"codex") { "declined" } else { "ok" };
    let mut child = command.env("FAKE", mode).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    if let Some(mut stdin) = child.stdin.take() {
        // Who does not read it is no failure of the test.
        let _ = stdin.write_all(input);
    }
    let ended = ran(child.wait_with_output().unwrap());
    (ended, std::fs::read_to_string(format!("{recording}/stdin")).ok())
}

#[test]
fn a_pipe_or_file_goes_behind_the_prompt_as_the_agent_itself_does_it() {
    let folder = TempFolder::new();
    let file = folder.file("piped", "PIPED\nTEXT\n");
    let prompt = folder.file("prompt", "review this");
    for (args, joined) in [
        (&["review this"][..], "review this\nPIPED\nTEXT\n"),
        (&["-p", "review this"], "review this\nPIPED\nTEXT\n"),
        (&["--prompt-file", &prompt], "review this\nPIPED\nTEXT\n"),
        (&["review this", "--agent", "codex"], "review this\n\n<stdin>\nPIPED\nTEXT\n</stdin>"),
        (&["review this", "--no-stdin"], "review this"),
        (&[""], "PIPED\nTEXT\n"),
        (&["-"], "PIPED\nTEXT\n"),
        (&[], "PIPED\nTEXT\n"),
        (&["review this", "--context", "-"], "<earlier-run>\nPIPED\nTEXT\n</earlier-run>\n\nreview this"),
        (&["review this", "--context", &prompt], "<earlier-run>\nreview this\n</earlier-run>\n\nreview this\nPIPED\nTEXT\n"),
    ] {
        let (piped, said) = told(&folder, args, Stdio::piped(), b"PIPED\nTEXT\n");
        assert_eq!((piped.code, said.as_deref()), (0, Some(joined)), "{args:?}: {}", piped.err);
        let is_added = joined.contains("review this\n") && !joined.ends_with("review this");
        let note = "added 11 bytes from stdin after the prompt";
        assert_eq!((piped.err.contains(note), piped.err.contains("stdin")), (is_added, is_added), "{args:?}: {}", piped.err);
        let (_, said) = told(&folder, args, std::fs::File::open(&file).unwrap(), b"");
        assert_eq!(said.as_deref(), Some(joined), "{args:?}, from a file");
    }
}

#[test]
fn where_nothing_is_piped_nothing_is_said() {
    let folder = TempFolder::new();
    let empty = folder.file("empty", "");
    let silent = |stdin: Stdio| {
        let (ended, said) = told(&folder, &["go"], stdin, b"");
        assert_eq!((ended.code, said.as_deref()), (0, Some("go")));
        assert!(!ended.err.contains("stdin"), "{}", ended.err);
    };
    silent(Stdio::null());
    silent(Stdio::piped());
    silent(std::fs::File::open(&empty).unwrap().into());
    // Closed altogether.
    let script = format!("'{}' run go --bin '{}' --no-record --format text <&-", env!("CARGO_BIN_EXE_tapline"), misbehaving());
    let closed = ran(Command::new("bash").args(["-c", &script]).env("FAKE", "ok").output().unwrap());
    assert_eq!((closed.code, closed.out.as_str(), closed.err.as_str()), (0, "done\n", ""));
}

#[test]
fn a_pipe_that_stays_silent_is_not_waited_for_and_that_is_said() {
    for (format, said) in [("text", true), ("report", true), ("quiet", false)] {
        let mut command = run_command("ok", &["--format", format, "--stdin-wait", "50ms"]);
        let mut child =
            TestProcess::from(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        // Held open for as long as it runs.
        let held = child.stdin.take();
        let mut err = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut err).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{err}");
        drop(held);
        assert_eq!(err.contains("nothing arrived on stdin within 50ms: continuing without it"), said, "{format}: {err}");
    }
}

#[test]
fn once_a_byte_came_it_is_read_to_its_end_and_the_clock_of_the_run_counts() {
    let mut command = run_command("ok", &["--format", "report", "--timeout", "500ms"]);
    // The byte is there before it begins.
    let (stdin, mut held) = std::io::pipe().unwrap();
    held.write_all(b"a byte").unwrap();
    let mut child = TestProcess::from(command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let (mut out, mut err) = (String::new(), String::new());
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut out).unwrap();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut err).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(124), "{err}");
    drop(held);
    assert!(err.contains("timeout: 500ms passed (--timeout) while reading stdin; the agent was not started"), "{err}");
    assert!(out.contains(r#""outcome":"failure","category":"timeout","error":"timeout""#), "{out}");
}

#[test]
fn a_signal_ends_it_while_stdin_is_read() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let mut command = run_command("ok", &["--format", "report", "--stdin-wait", "10m"]);
        let mut child =
            TestProcess::from(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let held = child.stdin.take();
        let status = format!("/proc/{}/status", child.id());
        // It listens for signals from then on.
        let listens = || {
            let status = std::fs::read_to_string(&status).unwrap();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim().to_owned();
            u64::from_str_radix(&caught, 16).unwrap() & (1 << 14) != 0
        };
        wait_until("it listens", listens);
        child.signal(signal);
        let mut out = String::new();
        std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut out).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{out}");
        drop(held);
        assert!(out.contains(r#""outcome":"interrupted","category":"interrupted""#), "{out}");
    }
}

#[test]
fn a_hundred_megabytes_go_behind_the_prompt() {
    let mut command = run_command("count", &["--format", "text", "--stdin-wait", "10m"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        let piece = vec![b'x'; 1 << 20];
        (0..100).try_for_each(|_| stdin.write_all(&piece))
    });
    let ended = ran(child.wait_with_output().unwrap());
    writer.join().unwrap().unwrap();
    assert_eq!((ended.code, ended.out.trim()), (0, (100 * (1 << 20) + 3).to_string().as_str()), "{}", ended.err);
}

#[test]
fn a_run_that_is_tried_again_is_told_the_same() {
    let folder = TempFolder::new();
    let recording = folder.path("r");
    let args = ["run", "go", "--bin", &misbehaving(), "--record", &recording, "--retry", "1", "--stdin-wait", "10m"];
    let mut command = command(&args);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    command.env("FAKE", "rate-limited").env("RESETS_AT", now.to_string());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"PIPED").unwrap();
    assert_eq!(ran(child.wait_with_output().unwrap()).code, 0);
    assert_eq!(std::fs::read_to_string(format!("{recording}/stdin")).unwrap(), "go\nPIPED");
    assert!(std::fs::read_to_string(format!("{recording}-2/stdin")).unwrap().ends_with("\n\ngo\nPIPED"));
}

#[test]
fn stdin_that_is_needed_cannot_be_left_alone() {
    for args in [
        &["-", "--no-stdin"][..],
        &["go", "--context", "-", "--no-stdin"],
        &["--no-stdin"],
        &["--input", "stream-json", "--no-stdin"],
    ] {
        let refused = ran(command(&[&["run", "--bin", &misbehaving(), "--no-record"], args].concat()).output().unwrap());
        assert_eq!(refused.code, 2, "{args:?}: {}", refused.err);
    }
}
