//! `tapline view` and `tapline demo`, piped.

use std::io::Read as _;
use std::process::Stdio;

use tapline_testkit::fixture;

use crate::tapline::{command, tapline, tapline_on};

fn path(name: &str) -> String {
    fixture(name).to_str().unwrap().to_owned()
}

#[test]
fn calls_are_written_out_when_they_start_and_when_they_end() {
    let out = tapline(&["view", &path("claude-2.1.325/tools.jsonl")]).out;
    assert!(out.contains("▸ running: `ls`\n▸ reading: `main.py`\n✓ read: `main.py`\n✓ ran: `ls`\n"), "{out}");
    assert!(out.contains("✗ ran: `cat /nonexistent`\n    Exit code 1\n"));
    assert_eq!(out.matches("All done").count(), 1, "the answer is shown once");
    assert!(out.ends_with("✓ success · 1 turn · 250 ms · 48 in · 160 out · 8.0k cached · $0.0070\n"));
    assert!(!out.contains('\u{1b}'));
}

#[test]
fn partial_text_is_typed_once() {
    let out = tapline(&["view", "--partial", &path("claude-2.1.325/tools-partial.jsonl")]).out;
    for text in ["Let me check the files.", "Now a failing command.", "All done: I listed files"] {
        assert_eq!(out.matches(text).count(), 1, "{text} in\n{out}");
    }
}

#[test]
fn thoughts_are_folded_unless_asked_for() {
    let thought = "I should look at the files first.";
    assert!(!tapline(&["view", &path("claude-2.1.325/tools.jsonl")]).out.contains(thought));
    assert!(tapline(&["view", "--thinking", &path("claude-2.1.325/tools.jsonl")]).out.contains(thought));
}

#[test]
fn the_verdict_comes_with_the_result_and_can_be_the_exit_status() {
    let stream =
        br#"{"type":"result","subtype":"error_max_turns","num_turns":3,"errors":["Reached maximum number of turns (2)"]}"#;
    let line = "✗ failure (max_turns) · 1 turn\n";
    let ran = tapline_on(&[b"{\"type\":\"keep_alive\"}\n".as_slice(), stream, b"\n"].concat(), &["view", "--exit-status"]);
    assert_eq!(ran.code, 1);
    assert_eq!(ran.out.matches(line).count(), 1, "{}", ran.out);
}

#[test]
fn a_cut_message_is_shown_as_far_as_it_came() {
    let out = tapline(&["view", &path("claude-2.1.325/sigterm.jsonl")]).out;
    assert!(out.contains("One two three four five six se\n! cut short\n"), "{out}");
}

#[test]
fn a_missing_file_does_not_hide_the_others() {
    let ran = tapline(&["view", "/no/such/stream", &path("claude-2.1.325/text.jsonl")]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("/no/such/stream") && ran.out.contains("Hello from the mock model."));
}

#[test]
fn several_files_have_headings() {
    let (one, two) = (path("claude-2.1.325/text.jsonl"), path("codex-0.166.0/tools.jsonl"));
    let out = tapline(&["view", &one, &two]).out;
    assert!(out.contains(&format!("==> {one} <==\n")) && out.contains(&format!("\n==> {two} <==\n")));
}

#[test]
fn a_closed_pipe_is_a_quiet_end() {
    let mut stream = Vec::new();
    for _ in 0..2_000 {
        stream.extend(std::fs::read(fixture("claude-2.1.325/tools.jsonl")).unwrap());
    }
    for args in
        [["view", "-"].as_slice(), &["convert", "--to", "stream-json"], &["convert", "--to", "steps"], &["demo", "--raw"]]
    {
        let mut child = command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let copy = stream.clone();
        let writer = std::thread::spawn(move || drop(std::io::Write::write_all(&mut stdin, &copy)));
        let mut first = [0; 10];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), b"".as_slice()), "{args:?}");
    }
}

#[test]
fn the_demo_needs_nothing() {
    let ran = tapline(&["demo"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.contains("✓ edited: `/home/dev/project/stats.py`") && ran.out.contains("✓ success"), "{}", ran.out);
    let raw = tapline(&["demo", "--raw"]).out;
    assert_eq!(tapline_on(raw.as_bytes(), &["view"]).out, ran.out, "the same through the pipe");
    let check = tapline_on(raw.as_bytes(), &["check", "--strict"]);
    assert_eq!(check.code, 0, "{}", check.out);
    assert_eq!(tapline(&["demo", "--speed", "-1"]).code, 2);
}
