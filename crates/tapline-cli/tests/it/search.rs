//! `tapline search`, as people and scripts use it: on transcripts of the real programs.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tapline_testkit::files::{files_below, mode};
use tapline_testkit::{Home, TestProcess, fixture, root, wait_until};

use crate::tapline::{Ran, command, ran};

/// A search in a home of its own.
fn searching(home: &Home, args: &[&str]) -> Command {
    let mut command = command(&["search"]);
    command.args(args).envs(home.environment());
    command
}

fn search(home: &Home, args: &[&str]) -> Ran {
    ran(searching(home, args).output().unwrap())
}

fn denied() -> String {
    fixture("transcripts/claude-denied").to_str().unwrap().to_owned()
}

#[test]
fn a_search_shows_hits_by_session_and_the_command_that_opens_it() {
    let home = Home::new();
    let ran = search(&home, &["\"no such file\"", "tool:Bash", "--path", &denied()]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let expected = "\
try it  claude-denied · claude
  2026-11-16 15:41  Bash output, error
    Exit code 1 cat: none.txt: No such file or directory
  tapline view 78c1d850-27a1-4a95-a237-1f3749ac9b3c
";
    assert_eq!(ran.out, expected);
    let coloured = search(&home, &["\"no such file\"", "--path", &denied(), "--color", "always"]);
    assert!(coloured.out.contains("none.txt: \x1b[1m\x1b[33mNo such file\x1b[0m or directory"), "{}", coloured.out);
    let nothing = search(&home, &["zebra", "--path", &denied()]);
    assert_eq!(nothing.code, 1);
    assert!(nothing.out.starts_with("Nothing found.") && nothing.out.lines().count() == 1, "{}", nothing.out);
    let meant = search(&home, &["direktory OR zebra", "--path", &denied()]);
    assert_eq!(meant.code, 1);
    assert!(meant.out.ends_with("\n`direktory` stands nowhere: did you mean `directory`?\n"), "{}", meant.out);
    let with_a_minus = search(&home, &["-zebra directory", "--path", &denied()]);
    assert!(with_a_minus.code == 0 && with_a_minus.out.contains("or directory"), "{with_a_minus:?}");
}

#[test]
fn the_json_is_as_documented() {
    let home = Home::new();
    let ran = search(&home, &["--json", "directory is:output", "--path", &denied(), "--", "-approval"]);
    let found: Value = serde_json::from_str(&ran.out).unwrap();
    let hit = &found["sessions"][0]["hits"][0];
    let expected = json!({
        "time": "2026-11-16T15:41:01Z", "kind": "output", "tool": "Bash", "error": true, "subagent": false,
        "file": hit["file"], "offset": hit["offset"],
        "snippet": "Exit code 1 cat: none.txt: No such file or directory", "matches": [{ "start": 43, "end": 52 }], "lost": null,
    });
    assert_eq!(*hit, expected);
    let keys = |of: &Value| of.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let docs = fs::read_to_string(root().join("docs/SEARCH.md")).unwrap();
    let example = docs.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let example: Value = serde_json::from_str(example).unwrap();
    assert_eq!(keys(&found), keys(&example));
    assert_eq!(keys(&found["sessions"][0]), keys(&example["sessions"][0]));
    assert_eq!(keys(hit), keys(&example["sessions"][0]["hits"][0]));
    // The line begins where it says.
    let bytes = fs::read(hit["file"].as_str().unwrap()).unwrap();
    let line = &bytes[usize::try_from(hit["offset"].as_u64().unwrap()).unwrap()..];
    assert!(line.starts_with(b"{") && line.split(|byte| *byte == b'\n').next().unwrap().ends_with(b"}"));
}

#[test]
fn mistakes_are_told_with_what_to_do() {
    let home = Home::new();
    for (args, part) in [
        (
            &["tools:Bash"][..],
            "there is no filter `tools:`; there are agent:, branch:, is:, project:, session:, since:, tool:, until:",
        ),
        (&["since:later"], "write it like 2026-11-01, 2026-11-01T09:00, 7d or 12h"),
        (&["is:bad"], "answer, call, error, output, prompt, subagent or thinking"),
        (&["(((", ")))"], "no letter or digit"),
        (&["x", "--path", "/nonexistent"], "cannot read /nonexistent"),
    ] {
        let ran = search(&home, args);
        assert!(ran.code != 0 && ran.out.is_empty() && ran.err.contains(part), "{args:?}: {ran:?}");
    }
    assert_eq!(search(&home, &[]).code, 2);
}

#[test]
fn whatever_is_typed_is_no_error_of_the_database() {
    let home = Home::new();
    for typed in [
        "\"",
        "a\"b",
        "NEAR(a b)",
        "a AND",
        "OR OR",
        "{marks}:k1 x",
        "a'b; DROP TABLE text",
        "x*y*",
        "^a",
        "a^b",
        "-x",
        "--",
        "é\u{202e}x",
    ] {
        let ran = search(&home, &["--path", &denied(), "--", typed]);
        assert!(
            !ran.err.contains("fts5") && !ran.err.contains("the index failed") && !ran.err.contains("syntax"),
            "{typed}: {ran:?}"
        );
    }
}

#[test]
fn hostile_text_does_not_steer_the_terminal() {
    let home = Home::new();
    let line = json!({
        "type": "user", "sessionId": "s\u{1b}[31m", "uuid": "u", "timestamp": "2026-11-01T00:00:00Z", "cwd": "/x\u{1b}]0;t\u{7}",
        "message": { "role": "user", "content": "needle \u{1b}[2J\u{202e}evil\n::error::x" },
    });
    let path = home.file("a.jsonl", format!("{line}\n"));
    let ran = search(&home, &["needle", "--path", &path]);
    assert!(ran.out.contains("needle"), "{ran:?}");
    assert!(!ran.out.contains(['\u{1b}', '\u{7}', '\u{202e}']) && !ran.out.contains("\n::error"), "{}", ran.out);
}

#[test]
fn no_output_has_a_secret() {
    let home = Home::new();
    let key = format!("ghp_{}", "aB3dE6gH9j".repeat(4));
    let key = &key[..40];
    let line = |uuid: &str, content: Value| {
        json!({ "type": "user", "sessionId": "s", "uuid": uuid, "timestamp": "2026-11-01T00:00:00Z", "cwd": "/x",
            "message": { "role": "user", "content": content } })
    };
    let call = json!({ "type": "assistant", "sessionId": "s", "uuid": "c", "timestamp": "2026-11-01T00:00:01Z",
        "message": { "id": "m", "role": "assistant", "content": [{ "type": "tool_use", "id": "t", "name": "Login",
            "input": { "user": "needle", "password": "correcthorse" } }] } });
    let text = format!(
        "{}\n{}\n{call}\n",
        line("a", json!(format!("needle {key}"))),
        line("b", json!(format!("needle token: {key} needle")))
    );
    let path = home.file("a.jsonl", &text);
    for near in ["correcthorze", "correcthorze --json"] {
        let ran = search(&home, &[&near.split(' ').collect::<Vec<_>>()[..], &["--path", &path]].concat());
        assert!(ran.code == 1 && !ran.out.contains("correcthorse"), "{ran:?}");
    }
    for args in [&["needle"][..], &["needle", "--json"], &["ghp*"], &["correcthorse"], &["correcthorse", "--json"]] {
        let ran = search(&home, &[args, &["--path", &path]].concat());
        assert!(ran.out.contains("[redacted]"), "{args:?}: {ran:?}");
        let said = ran.out.replace("\"query\":\"correcthorse\"", "");
        assert!(!said.contains("aB3d") && !said.contains("correcthorse"), "{args:?}: {ran:?}");
    }
}

#[test]
fn the_index_is_private_and_beside_the_other_one() {
    let home = Home::new();
    search(&home, &["x", "--path", &denied()]);
    let archive = home.path("tapline/archive");
    assert_eq!(mode(&archive), 0o700);
    let files = files_below(&archive);
    assert!(files.iter().any(|file| file.ends_with("text.db")));
    assert!(files.iter().all(|file| mode(file) == 0o600));
}

#[test]
fn a_killed_search_leaves_an_index_that_goes_on() {
    let home = Home::new();
    let line = |number: u32| {
        json!({ "type": "user", "sessionId": format!("s{}", number % 7), "uuid": format!("u{number}"),
            "timestamp": "2026-11-01T00:00:00Z", "cwd": "/x",
            "message": { "role": "user", "content": format!("needle n{number} {}", "filler ".repeat(2_000)) } })
        .to_string()
            + "\n"
    };
    let text: String = (0..1_500).map(line).collect();
    let path = home.file("a.jsonl", &text);
    // Killed when this much of the index is written, or at its end.
    let written = || fs::metadata(home.path("tapline/archive/text.db-wal")).map_or(0, |meta| meta.len());
    for bytes in [0, 1, 50_000, 500_000, 2_000_000] {
        let mut search = searching(&home, &["needle", "--path", &path]);
        let mut child = TestProcess::from(search.stdout(Stdio::null()).spawn().unwrap());
        wait_until("the index is written", || written() >= bytes || child.try_wait().unwrap().is_some());
    }
    for number in [0, 700, 1_499] {
        let ran = search(&home, &[&format!("n{number}"), "--json", "--path", &path]);
        let found: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((ran.code, found["sessions"].as_array().unwrap().len()), (0, 1), "{number}: {ran:?}");
        assert_eq!(found["sessions"][0]["hits"].as_array().unwrap().len(), 1);
    }
}
