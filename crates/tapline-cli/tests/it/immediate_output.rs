//! On a pipe, each event is put out before the next is waited for.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use tapline_testkit::fixture;

use crate::tapline::command;

/// Writes one line at a time and reads what it gives before the next is written: with any delay behind a buffer
/// this would hang.
fn each_line_at_once(args: &[&str], shows: impl Fn(&str) -> bool) {
    let stream = std::fs::read_to_string(fixture("claude-2.1.325/tools.jsonl")).unwrap();
    let mut child = command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    for line in stream.lines().filter(|line| shows(line)) {
        writeln!(stdin, "{line}").unwrap();
        stdin.flush().unwrap();
        let mut seen = String::new();
        stdout.read_line(&mut seen).unwrap();
        assert!(!seen.is_empty());
        // A step may take several lines: those that are there already.
        while !stdout.buffer().is_empty() {
            stdout.read_line(&mut seen).unwrap();
        }
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn stream_json() {
    each_line_at_once(&["convert", "--to", "stream-json"], |_| true);
}

#[test]
fn steps() {
    each_line_at_once(&["convert", "--to", "steps"], |_| true);
}

#[test]
fn view() {
    each_line_at_once(&["view"], |line| {
        line.contains("\"tool_use\"") || line.contains("\"text\":") || line.contains("\"init\"") || line.contains("\"result\":")
    });
}
