//! Times, as people see them: in the view when asked, in reports and steps of recordings, in pages.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tapline_testkit::{TempFolder, fixture};

use crate::tapline::{command, ran, tapline, tapline_on};

const LINES: &[(u64, &str)] = &[
    (850, r#"{"type":"system","subtype":"init","session_id":"s","model":"m"}"#),
    (
        1_000,
        r#"{"type":"assistant","session_id":"s","message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"cargo test"}}]}}"#,
    ),
    (
        13_400,
        r#"{"type":"user","session_id":"s","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}}"#,
    ),
    (15_000, r#"{"type":"result","subtype":"success","result":"done","session_id":"s","num_turns":2}"#),
];

/// A recording that was made by hand: what came when, after a prompt at half a second.
fn recording(folder: &TempFolder, name: &str) -> String {
    let path = folder.path(name);
    std::fs::create_dir(&path).unwrap();
    let file = |name: &str, text: &str| std::fs::write(format!("{path}/{name}"), text).unwrap();
    let meta = json!({"schema": 1, "agent": "claude", "argv": ["claude", "--output-format", "stream-json"], "started_at": "2026-01-01T00:00:00Z"});
    file("meta.json", &meta.to_string());
    file("end.json", r#"{"exit_code":0,"duration_ms":15100}"#);
    file("stdin", "go\n");
    file("stderr", "");
    let (mut stdout, mut times) = (String::new(), "i 3 500000\ni 3 500100\n".to_owned());
    for (ms, line) in LINES {
        writeln!(stdout, "{line}").unwrap();
        writeln!(times, "o {} {}", stdout.len(), ms * 1_000).unwrap();
    }
    file("stdout", &stdout);
    file("times", &times);
    path
}

#[test]
fn view_shows_times_since_the_start_and_durations_behind_calls() {
    let folder = TempFolder::new();
    let recording = recording(&folder, "rec");
    let view = tapline(&["view", "--times", &recording]);
    let expected = "    0.5s  › go
    0.9s  ● session started · resume id s
            m

    1.0s  ▸ running: `cargo test`
   13.4s  ✓ ran: `cargo test`                                                        12.4s

   15.0s  done

          ✓ success · 1 turn · 14.5 s
";
    assert_eq!((view.out.as_str(), view.err.as_str(), view.code), (expected, "", 0));
    // Nobody who does not ask sees any.
    let plain = tapline(&["view", &recording]).out;
    assert!(plain.contains("✓ ran: `cargo test`\n") && plain.starts_with("› go\n"), "{plain}");
}

#[test]
fn reports_steps_and_pages_of_a_recording_have_its_durations() {
    let folder = TempFolder::new();
    let recording = recording(&folder, "rec");
    let get = |path: &str| tapline(&["inspect", "--get", path, &recording]).out;
    assert_eq!(get("tools.calls[].duration_ms"), "12400\n");
    // From the prompt to the result.
    assert_eq!(get("turns[0].elapsed_ms"), "14500\n");
    let written = tapline(&["convert", "--to", "steps", &recording]).out;
    let steps: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let step = |kind: &str| steps.iter().find(|step| step["step"] == kind).unwrap();
    let start = 1_767_225_600_000_u64;
    assert_eq!(step("prompt")["arrived_ms"], json!(start + 500));
    assert_eq!(step("answer")["arrived_ms"], json!(start + 13_400));
    assert_eq!(step("answer")["duration_ms"], json!(12_400));
    for format in ["markdown", "html"] {
        let page = tapline(&["convert", "--to", format, &recording]).out;
        assert!(page.contains("12.4s"), "{format}: {page}");
    }
    // Redacted, they are the same.
    assert_eq!(tapline(&["convert", "--to", "steps", "--redact", &recording]).out, written);
}

#[test]
fn a_stream_without_times_says_so_and_shows_none() {
    let folder = TempFolder::new();
    let stream = LINES.iter().map(|(_, line)| *line).collect::<Vec<_>>().join("\n") + "\n";
    let file = folder.file("run.jsonl", &stream);
    let short = folder.file("short.jsonl", r#"{"type":"keep_alive"}"#);
    let array = fixture("claude-2.1.325/jsonverbose.jsonl").display().to_string();
    for path in [&file, &short, &array] {
        let (view, plain) = (tapline(&["view", "--times", path]), tapline(&["view", path]));
        assert_eq!((&view.out, view.code), (&plain.out, plain.code), "{path}");
        assert_eq!(view.err.replace(&plain.err, "").matches("has no times, so none are shown").count(), 1, "{}", view.err);
        assert!(!plain.err.contains("no times"), "{}", plain.err);
    }
    // Nor has a file that is read on stdin, or an array, however it comes.
    let mut redirected = command(&["view", "--times"]);
    let redirected = ran(redirected.stdin(std::fs::File::open(&file).unwrap()).output().unwrap());
    assert!(redirected.err.contains("stdin has no times"), "{}", redirected.err);
    let piped = tapline_on(&std::fs::read(&array).unwrap(), &["view", "--times"]);
    assert!(piped.err.contains("stdin has no times"), "{}", piped.err);

    // The same for a recording whose times are gone, or that was edited, so that they do not fit.
    let [gone, edited] = ["gone", "edited"].map(|name| recording(&folder, name));
    std::fs::remove_file(format!("{gone}/times")).unwrap();
    std::fs::write(format!("{edited}/stdout"), stream.replace("cargo test", "cargo test --all")).unwrap();
    for path in [&gone, &edited] {
        let view = tapline(&["view", "--times", path]);
        assert!(view.err.contains("has no times") && !view.out.contains("12.4s"), "{} {}", view.err, view.out);
        assert_eq!(tapline(&["inspect", "--get", "tools.calls[].duration_ms", path]).code, 1, "{path}");
    }
}

#[test]
fn lines_that_arrive_on_a_pipe_have_the_time_of_their_arrival() {
    let stream = LINES.iter().map(|(_, line)| *line).collect::<Vec<_>>().join("\n") + "\n";
    let piped = tapline_on(stream.as_bytes(), &["view", "--times"]);
    assert_eq!((piped.err.as_str(), piped.code), ("", 0));
    assert!(piped.out.starts_with("    0.0s  ● session started"), "{}", piped.out);
    let ran = piped.out.lines().find(|line| line.contains("✓ ran: `cargo test`")).unwrap();
    assert!(ran.ends_with('s') && ran.chars().rev().nth(2) == Some('.'), "how long it took: {ran}");
    assert!(piped.out.contains("✓ success · 1 turn · "), "{}", piped.out);
}

#[test]
fn a_transcript_has_its_own_times() {
    let folder = TempFolder::new();
    let stamped = |stamp: &str, line: &str| {
        let line = line.replace("\"session_id\"", "\"sessionId\"");
        line.replacen('{', &format!("{{\"parentUuid\":null,\"timestamp\":\"2026-01-01T00:00:{stamp}Z\","), 1) + "\n"
    };
    let lines = [stamped("10.000", LINES[1].1), stamped("22.375", LINES[2].1)].concat();
    let file = folder.file("transcript.jsonl", &lines);
    let view = tapline(&["view", "--times", &file]);
    assert!(view.out.contains("▸ running: `cargo test`\n   12.4s  ✓ ran: `cargo test` "), "{}", view.out);
    assert!(!view.err.contains("no times"), "{}", view.err);
    assert_eq!(tapline(&["inspect", "--get", "tools.calls[].duration_ms", &file]).out, "12375\n");
}
