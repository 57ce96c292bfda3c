//! `tapline statusline`: with what Claude Code writes to its stdin, with less, and with nothing.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};
use tapline_testkit::files::{files_below, mode};
use tapline_testkit::{fixture, wait_until};

use crate::stats::{Home, answer};
use crate::tapline::{Ran, command, ran, tapline_on};

fn line(home: &Home, input: &[u8]) -> Ran {
    let mut command = home.set(command(&["statusline", "--color", "never"]));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    ran(child.wait_with_output().unwrap())
}

/// What Claude Code writes, for a session with this transcript. To accounts with a limit it also tells what is used of it.
fn told(transcript: &str) -> Value {
    let mut told = as_written();
    told["transcript_path"] = json!(transcript);
    told["rate_limits"] = json!({
        "five_hour": { "used_percentage": 41.2, "resets_at": 1_794_860_000 },
        "seven_day": { "used_percentage": 12, "resets_at": 1_795_000_000 },
    });
    told
}

fn as_written() -> Value {
    serde_json::from_slice(&std::fs::read(fixture("cases/statusline.json")).unwrap()).unwrap()
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

#[test]
fn one_line_with_everything_that_is_known() {
    let home = Home::new(&[]);
    // 1,000 × $4 + 100 × $20 for a million = $0.006, twice.
    let path = home.write("home/.claude/projects/a/s-1.jsonl", &answer("m1", "s-1", &now()));
    home.write("home/.claude/projects/b/s-2.jsonl", &answer("m2", "s-2", &now()));
    let ran = line(&home, told(&path).to_string().as_bytes());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    // 1,794,860,000 is 20:13:20 in UTC.
    assert_eq!(
        ran.out,
        "Opus 5.5 · context 1 % · session $0.0181 · today $0.0120 · 5 h 41 % used until 20:13 · 7 d 12 % used until Wed 11:06\n"
    );
    // What is new in its own session counts at once.
    home.write("home/.claude/projects/a/s-1.jsonl", &(answer("m1", "s-1", &now()) + &answer("m3", "s-1", &now())));
    let mut less = told(&path);
    less.as_object_mut().unwrap().remove("rate_limits");
    let ran = line(&home, less.to_string().as_bytes());
    assert_eq!(ran.out, "Opus 5.5 · context 1 % · session $0.0181 · today $0.0180 · 5 h $0.0180\n");
}

#[test]
fn before_the_first_answer_nothing_is_known_of_the_context() {
    let home = Home::new(&[]);
    let mut first = as_written();
    first["cost"]["total_cost_usd"] = json!(0);
    for key in ["used_percentage", "remaining_percentage", "current_usage"] {
        first["context_window"][key] = Value::Null;
    }
    let ran = line(&home, first.to_string().as_bytes());
    assert_eq!(ran.out, "Opus 5.5 · session $0 · today $0 · 5 h $0\n");
}

#[test]
fn it_counts_the_places_that_stats_counts() {
    let home = Home::new(&[]);
    let path = home.write("home/.claude/projects/a/s-1.jsonl", &answer("m1", "s-1", &now()));
    // The index knows another place, because somebody asked for it.
    let elsewhere = home.write("elsewhere/s-9.jsonl", &answer("m9", "s-9", &now()));
    assert_eq!(home.stats(&[&elsewhere])["totals"]["requests"], 1);
    let ran = line(&home, told(&path).to_string().as_bytes());
    assert!(ran.out.contains("today $0.0060 "), "{}", ran.out);
    assert_eq!(home.stats(&[])["totals"]["cost_usd"], 0.006);
    // Its own session counts, wherever it is.
    let ran = line(&home, told(&elsewhere).to_string().as_bytes());
    assert!(ran.out.contains("today $0.0120 "), "{}", ran.out);
}

/// A run without a tool call has no line with a time.
#[test]
fn a_recording_whose_lines_have_no_times_counts_as_in_stats() {
    let home = Home::new(&[]);
    let meta = json!({ "schema": 1, "agent": "claude", "argv": ["claude", "-p"], "started_at": now() });
    home.write("tapline/recordings/one/meta.json", &meta.to_string());
    home.write("tapline/recordings/one/end.json", &json!({ "exit_code": 0, "duration_ms": 1_000 }).to_string());
    let usage = json!({ "input_tokens": 1_000, "output_tokens": 1 });
    let message = json!({ "id": "m1", "model": "claude-opus-5-5", "role": "assistant", "usage": usage, "content": [] });
    let answer = json!({ "type": "assistant", "session_id": "s-1", "message": message });
    let result =
        json!({ "type": "result", "subtype": "success", "is_error": false, "session_id": "s-1", "total_cost_usd": 0.64 });
    home.write("tapline/recordings/one/stdout", &format!("{answer}\n{result}\n"));
    let ran = line(&home, b"");
    assert!(ran.out.starts_with("today $0.64 "), "{}", ran.out);
    let today = home.stats(&["--by", "day"]);
    assert_eq!((&today["rows"][0]["cost_usd"], &today["rows"][1]), (&json!(0.64), &Value::Null), "{today}");
}

#[test]
fn it_never_fails_because_of_what_it_reads() {
    let home = Home::new(&[]);
    for input in
        ["", "{", "null", "[]", "\u{0}", "{\"model\":7,\"cost\":{\"total_cost_usd\":\"x\"},\"transcript_path\":[]}", "not json"]
    {
        let ran = line(&home, input.as_bytes());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{input}");
        assert_eq!(ran.out, "today $0 · 5 h $0\n", "{input}");
    }
    assert_eq!(line(&home, b"\xff\xfe{").code, 0);
    // A transcript that is not there, and text that would move the cursor.
    let mut hostile = told("/nowhere/s.jsonl");
    hostile["model"]["display_name"] = json!("\u{1b}[2Jred\n\u{202e}");
    let ran = line(&home, hostile.to_string().as_bytes());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!ran.out.contains(['\u{1b}', '\u{202e}']) && ran.out.lines().count() == 1, "{:?}", ran.out);
}

#[test]
fn without_a_home_it_shows_what_it_was_told() {
    let ran = tapline_on(told("/nowhere/s.jsonl").to_string().as_bytes(), &["statusline", "--color", "never"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.starts_with("Opus 5.5 · context 1 % · session $0.0181 · "), "{}", ran.out);
    assert_eq!(tapline_on(b"", &["statusline"]).code, 0);
}

#[test]
fn a_window_or_context_that_is_nearly_full_is_coloured() {
    let home = Home::new(&[]);
    let mut full = told("");
    full["context_window"]["used_percentage"] = json!(80);
    full["rate_limits"]["five_hour"]["used_percentage"] = json!(95);
    let mut command = home.set(command(&["statusline", "--color", "always"]));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(full.to_string().as_bytes()).unwrap();
    let out = ran(child.wait_with_output().unwrap()).out;
    assert!(out.contains("\u{1b}[33mcontext 80 %") && out.contains("\u{1b}[31m5 h 95 % used"), "{out:?}");
}

#[test]
fn whatever_it_writes_is_private() {
    let home = Home::new(&[]);
    let path = home.write("home/.claude/projects/a/s-1.jsonl", &answer("m1", "s-1", &now()));
    line(&home, told(&path).to_string().as_bytes());
    let mut seen = Vec::new();
    for path in files_below(home.path("tapline/archive")) {
        assert_eq!(mode(&path), 0o600, "{path:?}");
        seen.push(path);
    }
    assert!(["looked", "index.db"].iter().all(|name| seen.iter().any(|path| path.ends_with(name))), "{seen:?}");
}

/// A scan can take minutes. The line is there every second all the same, and nothing is read twice.
#[test]
fn while_another_process_reads_it_neither_waits_nor_reads() {
    let home = Home::new(&[]);
    let path = home.write("home/.claude/projects/a/s-1.jsonl", &answer("m1", "s-1", &now()));
    let input = told(&path).to_string();
    assert!(line(&home, input.as_bytes()).out.contains("today $0.0060 "));
    let lock = std::fs::File::open(home.path("tapline/archive/index.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    home.write("home/.claude/projects/a/s-1.jsonl", &(answer("m1", "s-1", &now()) + &answer("m2", "s-1", &now())));
    let busy = line(&home, input.as_bytes());
    assert_eq!((busy.code, busy.err.as_str()), (0, ""));
    assert!(busy.out.contains("today $0.0060 "), "it counts what is known: {}", busy.out);
    drop(lock);
    assert!(line(&home, input.as_bytes()).out.contains("today $0.0120 "));
}

#[test]
fn twenty_at_once_say_the_same() {
    let home = Home::new(&[]);
    let path = home.write("home/.claude/projects/a/s-1.jsonl", &answer("m1", "s-1", &now()));
    home.write("home/.claude/projects/b/s-2.jsonl", &answer("m2", "s-2", &now()));
    let input = told(&path).to_string();
    let wanted = line(&home, input.as_bytes());
    assert!(wanted.out.contains("today $0.0120 "), "{}", wanted.out);
    let lines: Vec<Ran> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..20).map(|_| scope.spawn(|| line(&home, input.as_bytes()))).collect();
        started.into_iter().map(|line| line.join().unwrap()).collect()
    });
    for ran in lines {
        assert_eq!((ran.code, ran.err.as_str(), &ran.out), (0, "", &wanted.out));
    }
}

/// What is more than a moment's work is read by another process, so that the status line alone is right in a minute.
#[test]
fn until_all_is_read_the_cost_of_today_is_not_known() {
    let home = Home::new(&[]);
    home.write("home/.claude/projects/a/s-1.jsonl", &(answer("m1", "s-1", &now()) + &"\n".repeat(33 << 20)));
    let first = line(&home, b"").out;
    assert!(first.starts_with("today ? · 5 h ?"), "{first}");
    assert_eq!(line(&home, b"").out, first, "nobody looks again");
    let looked = home.path("tapline/archive/looked");
    wait_until("it is read", || {
        let minute = std::time::SystemTime::now() - std::time::Duration::from_secs(61);
        std::fs::File::options().write(true).open(&looked).unwrap().set_modified(minute).unwrap();
        line(&home, b"").out.starts_with("today $0.0060 ")
    });
}
