//! What another newcomer stumbled on: two verdicts, checks that pass for a typo, waits that are none, scripts that stop without a word.

use std::process::Stdio;

use crate::running::run_command;
use crate::tapline::{Folder, Ran, command, fixture, ran, tapline, tapline_on};

fn run(mode: &str, args: &[&str]) -> Ran {
    ran(run_command(mode, args).output().unwrap())
}

/// A program that is this shell script.
fn program(folder: &Folder, name: &str, script: &str) -> String {
    let path = folder.file(name, &format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_rate_limit_that_names_no_time_is_waited_for_longer_than_the_agent_itself_did() {
    let tried = run("limited-unnamed", &["--retry", "2", "--timeout", "20s", "--format", "report"]);
    assert!(tried.out.contains(r#""delay_ms":554"#), "{}", tried.out);
    assert!(tried.err.contains("no retry: the wait would exceed --timeout"), "{}", tried.err);
    assert!(tried.out.contains(r#""attempts":1"#), "{}", tried.out);
}

/// The lines that say how it ended.
fn verdicts(text: &str) -> Vec<&str> {
    let is_one = |line: &&str| ["success", "failure", "incomplete", "interrupted"].iter().any(|word| line.contains(word));
    text.lines().filter(is_one).filter(|line| line.contains(" turn")).collect()
}

#[test]
fn a_result_of_another_agent_is_not_called_a_success_and_then_none() {
    let folder = Folder::new("forced");
    let lines = r#"{"type":"init","session_id":"s","model":"auto"}
{"type":"result","status":"success","stats":{"total_tokens":300}}
"#;
    let file = folder.file("gemini.jsonl", lines);
    for input in [tapline(&["view", "--agent", "claude", &file]), tapline_on(lines.as_bytes(), &["view", "--agent", "claude"])]
    {
        assert_eq!(verdicts(&input.out), ["✗ incomplete (no_result) · 1 turn"], "{}", input.out);
    }
}
