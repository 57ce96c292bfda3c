//! `tapline stats` on a terminal: tables that fit it, and `--watch`. The terminal is that of `script` (util-linux).

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use tapline_testkit::{TestProcess, wait_until};

use crate::stats::{Home, answer};

/// Starts tapline on a terminal of this size.
fn start(home: &Home, size: (usize, usize), args: &str) -> Child {
    tapline_testkit::catch_ignored_signals();
    let mut command = Command::new("script");
    let inside = format!("stty cols {} rows {} && exec '{}' {args}", size.0, size.1, env!("CARGO_BIN_EXE_tapline"));
    command.args(["-q", "-e", "-f", "-c", &inside, "/dev/null"]).env_clear();
    command.env("PATH", "/usr/bin:/bin").env("TERM", "xterm-256color").env("SHELL", "/bin/sh");
    home.set(command).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// What is shown, without colours.
fn shown(home: &Home, columns: usize, args: &str) -> Vec<String> {
    let mut child = start(home, (columns, 50), args);
    // At the end of its input, `script` would end the terminal.
    let stdin = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    assert!(output.status.success(), "{output:?}");
    let colours = regex_lite::Regex::new("\u{1b}\\[[0-9;]*[mK]").unwrap();
    let text = String::from_utf8(output.stdout).unwrap().replace('\r', "");
    colours.replace_all(&text, "").lines().map(str::to_owned).collect()
}

#[test]
fn tables_fit_the_terminal() {
    let cases = ["claude-models", "claude-fork", "claude-subagents", "claude-unknown-model", "codex-fork", "codex-limits"];
    let home = Home::new(&cases);
    let now = jiff::Timestamp::now().to_string();
    let long = answer("m1", "s-1", &now).replace("/home/dev/app", &format!("/home/dev/{}", "長い名前".repeat(20)));
    home.write("home/.claude/projects/a/s-1.jsonl", &long);
    for columns in [60, 80, 120] {
        for by in
            ["day", "week", "month", "hour", "session", "project", "model", "agent", "tool", "subagent", "branch", "block"]
        {
            for more in ["", " --breakdown"] {
                let lines = shown(&home, columns, &format!("stats --by {by}{more}"));
                assert!(lines.len() > 3 && lines.iter().any(|line| line.starts_with("total ")), "{lines:?}");
                for line in &lines {
                    let width = tapline_session::text::width(line);
                    assert!(width <= columns, "{columns} columns, --by {by}{more}: {width}: {line}");
                }
                let head = lines.first().unwrap();
                assert!(head.contains("cost") && head.contains("output"), "{columns}: {head}");
                // What has no room is named.
                let all = lines.join(" ");
                let left_out = all.split_once("No room for: ").map_or("", |(_, names)| names.split('.').next().unwrap());
                for name in ["requests", "calls", "input", "cache read"] {
                    assert!(head.contains(name) != left_out.contains(name), "{columns}, --by {by}{more}: {name}: {lines:?}");
                }
            }
        }
    }
}

#[test]
fn sessions_that_begin_alike_are_told_apart() {
    let home = Home::new(&["codex-fork"]);
    let lines = shown(&home, 120, "stats --by session");
    for id in ["01a1e4f2-62bd  ", "01a1e4f2-6579  "] {
        assert!(lines.iter().any(|line| line.starts_with(id)), "{lines:?}");
    }
}

/// Collects what a terminal shows.
fn collect(child: &mut Child) -> Arc<Mutex<Vec<u8>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (mut from, into) = (child.stdout.take().unwrap(), Arc::clone(&seen));
    std::thread::spawn(move || {
        let mut buffer = [0; 4_096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            into.lock().unwrap().extend(&buffer[..count]);
        }
    });
    seen
}

fn has(seen: &Mutex<Vec<u8>>, text: &str) -> bool {
    String::from_utf8_lossy(&seen.lock().unwrap()).contains(text)
}

#[test]
fn watching_shows_what_is_new_and_ctrl_c_gives_the_terminal_back() {
    let home = Home::new(&[]);
    let line = |number: u32| answer(&format!("m{number}"), "s-1", "2026-11-16T10:00:00Z");
    home.write("home/.claude/projects/a/s-1.jsonl", &line(1));
    let mut child = TestProcess::from(start(&home, (100, 20), "stats --watch --color never"));
    let seen = collect(&mut child);
    wait_until("the table is there", || has(&seen, "$0.0060"));
    home.write("home/.claude/projects/a/s-1.jsonl", &(line(1) + &line(2) + &line(3)));
    wait_until("what is new is shown", || has(&seen, "$0.0180"));
    child.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    let ended = child.wait().unwrap();
    assert_eq!(ended.code(), Some(0), "Ctrl-C is how watching ends");
    wait_until("the other screen is left", || has(&seen, "\u{1b}[?25h\u{1b}[?1049l"));
    let all = String::from_utf8(seen.lock().unwrap().clone()).unwrap();
    assert_eq!(all.matches("\u{1b}[?1049h").count(), 1, "{all:?}");
    // The last table stays.
    wait_until("it is below what was there before", || {
        let all = String::from_utf8_lossy(&seen.lock().unwrap()).into_owned();
        all.rsplit_once("\u{1b}[?1049l").is_some_and(|(_, left)| left.contains("total ") && left.contains("$0.0180"))
    });
}

#[test]
fn a_wide_table_fills_the_terminal() {
    let home = Home::new(&["claude-models"]);
    home.write("home/.claude/projects/a/s-1.jsonl", &answer("m1", "s-1", "2026-10-01T10:00:00Z"));
    let full = |columns: usize, by: &str| shown(&home, columns, &format!("stats --by {by}"));
    for by in ["day", "project", "session"] {
        let (narrow, wide) = (full(100, by), full(200, by));
        let longest = |lines: &[String]| lines.iter().map(|line| tapline_session::text::width(line)).max().unwrap();
        assert!(longest(&narrow) <= 100 && longest(&wide) > 140 && longest(&wide) <= 200, "{by}: {wide:#?}");
        let head = &wide[0];
        assert!(
            head.contains("models")
                && head.contains("tokens")
                && wide.iter().any(|line| line.contains("claude-opus-5-5, claude-sonnet")),
            "{by}: {wide:#?}"
        );
        assert!(
            !narrow[0].contains("models") && wide.iter().all(|line| !line.trim_start().starts_with("claude-opus")),
            "{narrow:#?}"
        );
        assert_eq!(wide.last().map(|line| line.starts_with("Cost ")), Some(true), "one line below the table: {wide:#?}");
    }
}

#[test]
fn a_prompt_that_is_typed_is_waited_for_and_that_is_said() {
    let home = Home::new(&[]);
    let mut child = TestProcess::from(start(&home, (100, 20), "run - --bin /bin/cat --no-record --format text"));
    let seen = collect(&mut child);
    wait_until("it says that it waits", || has(&seen, "reading the prompt from the terminal: end it with Ctrl-D"));
    child.stdin.as_mut().unwrap().write_all(b"hello\n\x04").unwrap();
    child.wait().unwrap();
}

#[test]
fn watching_into_a_pipe_prints_once() {
    let home = Home::new(&["claude-models"]);
    let ran = home.run(&["stats", "--watch"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(ran.out, home.run(&["stats"]).out);
}
