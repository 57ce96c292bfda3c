//! What `tapline search` finds when its index was made from other paths, when tapline is killed, when the disk is full, and
//! when an index is damaged: the same, every time. Needs strace (scripts/test installs it).

use std::fs;

use serde_json::Value;
use tapline_testkit::agent::misbehaving;
use tapline_testkit::rounds;

use crate::archive_index_faults::{forget_index, traced_with};
use crate::stats::Home;
use crate::tapline::{Ran, ran};

const CASES: &[&str] = &["claude-models", "codex-fork"];
/// Prompts of all sessions, and nothing else.
const PROMPTS: &[&str] = &["search", "is:prompt", "--json", "--limit", "100", "--hits", "100"];

fn sessions(ran: &Ran) -> Value {
    let found: Value = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    found["sessions"].clone()
}

/// Searches without any trouble.
fn found(home: &Home, args: &[&str]) -> Value {
    let ran = home.run(args);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
    let sessions = sessions(&ran);
    assert!(!sessions.as_array().unwrap().is_empty(), "{args:?}");
    sessions
}

/// A line of a transcript with a prompt.
fn prompt(session: &str, text: &str) -> String {
    format!(
        "{{\"type\":\"user\",\"uuid\":\"{session}\",\"sessionId\":\"{session}\",\"timestamp\":\"2026-11-16T10:00:00Z\",\"cwd\":\"/x\",\
         \"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
    )
}

#[test]
fn what_was_searched_elsewhere_before_hides_nothing() {
    let home = Home::new(&[]);
    let original = home.write("home/.claude/projects/p/s.jsonl", &prompt("s", "the first zebra"));
    let (one, other) = (home.path("one"), home.path("other"));
    for folder in [&one, &other] {
        fs::create_dir_all(folder).unwrap();
        fs::copy(&original, format!("{folder}/s.jsonl")).unwrap();
    }
    let file = |args: &[&str]| {
        let args = [&["search", "zebra", "--json"], args].concat();
        found(&home, &args)[0]["hits"][0]["file"].as_str().unwrap().to_owned()
    };
    assert!(file(&["--path", &one]).starts_with(&one));
    assert_eq!(file(&[]), original);
    assert!(file(&["--path", &other]).starts_with(&other));
    fs::remove_dir_all(&one).unwrap();
    assert!(file(&["--path", &other]).starts_with(&other));
    assert_eq!(file(&[]), original);
}

#[test]
fn killed_at_every_write_the_next_search_finds_the_same() {
    let home = Home::new(CASES);
    let wanted = found(&home, PROMPTS);
    let mut killed = 0;
    for calls in ["pwrite64", "ftruncate", "unlink"] {
        for at in (1..).step_by(rounds(5, 1)) {
            forget_index(&home);
            let output = traced_with(&home, PROMPTS, calls, &format!("signal=SIGKILL:when={at}")).unwrap();
            if output.status.success() {
                break;
            }
            killed += 1;
            assert_eq!(found(&home, PROMPTS), wanted, "killed at {calls} {at}");
            assert!(at < 2_000, "it never comes through");
        }
    }
    assert!(killed >= rounds(3, 6), "killed {killed} times");
}

#[test]
fn killed_while_it_adds_to_an_index_the_next_search_finds_all() {
    let home = Home::new(&["claude-models"]);
    found(&home, PROMPTS);
    for at in (1..).step_by(rounds(5, 1)) {
        // All sessions are rewritten: texts go, stay in another file, and come.
        for file in ["a", "b"] {
            let text: String = (1..=at).map(|n| prompt(&format!("s{n}"), &format!("zebra {n} of {at}"))).collect();
            home.write(&format!("home/.claude/projects/more/{file}.jsonl"), &text);
        }
        let output = traced_with(&home, PROMPTS, "pwrite64", &format!("signal=SIGKILL:when={at}")).unwrap();
        let args = ["search", "zebra", "--json", "--limit", "1000"];
        let all = found(&home, &args);
        assert_eq!(all.as_array().unwrap().len(), at, "killed at write {at}");
        assert!(all.as_array().unwrap().iter().all(|session| session["hits"].as_array().unwrap().len() == 1));
        if output.status.success() {
            assert!(at > 2, "{at}");
            break;
        }
        assert!(at < 500, "it never comes through");
    }
}

#[test]
fn a_full_or_failing_disk_hides_nothing_and_is_said() {
    let home = Home::new(CASES);
    let wanted = found(&home, PROMPTS);
    let mut told = 0;
    for error in ["ENOSPC", "EIO"] {
        for from in [1, 2, 3, 5, 8, 13, 21, 34] {
            forget_index(&home);
            let ran = ran(traced_with(&home, PROMPTS, "pwrite64", &format!("error={error}:when={from}+")).unwrap());
            assert_eq!(ran.code, 0, "{error} from {from}: {ran:?}");
            assert_eq!(sessions(&ran), wanted, "{error} from {from}");
            told += usize::from(ran.err.contains("the text index cannot be kept"));
            assert_eq!(found(&home, PROMPTS), wanted, "and later");
        }
    }
    assert!(told > 4, "{told}");
}

#[test]
fn on_a_full_disk_what_is_gone_and_what_is_new_is_found() {
    let home = Home::new(CASES);
    let before = found(&home, PROMPTS);
    fs::remove_dir_all(home.path("home/.codex")).unwrap();
    home.write("home/.claude/projects/more/s.jsonl", &prompt("s", "a zebra"));
    let ran = ran(traced_with(&home, PROMPTS, "pwrite64", "error=ENOSPC:when=1+").unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    let ids = |found: &Value| {
        let mut ids: Vec<_> =
            found.as_array().unwrap().iter().map(|session| session["session"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    let mut wanted = ids(&before);
    wanted.push("s".to_owned());
    wanted.sort();
    assert_eq!(ids(&sessions(&ran)), wanted, "{ran:?}");
    assert!(ran.err.contains("the text index cannot be kept"), "{ran:?}");
}

#[test]
fn a_damaged_index_is_built_again_and_that_is_said() {
    let home = Home::new(CASES);
    home.stats(&[]);
    let wanted = found(&home, PROMPTS);
    let read = |name| (name, fs::read(home.path(&format!("tapline/archive/{name}"))).unwrap());
    let good = ["text.db", "index.db"].map(read);
    let mut told = 0;
    for (name, bytes) in &good {
        for at in (0..bytes.len()).step_by(bytes.len() / rounds(10, 40)) {
            forget_index(&home);
            fs::create_dir_all(home.path("tapline/archive")).unwrap();
            for (other, bytes) in &good {
                let mut bytes = bytes.clone();
                for byte in bytes.iter_mut().skip(at).take(if other == name { 64 } else { 0 }) {
                    *byte ^= 0x5a;
                }
                fs::write(home.path(&format!("tapline/archive/{other}")), bytes).unwrap();
            }
            let ran = home.run(PROMPTS);
            assert_eq!(ran.code, 0, "{name} at {at}: {ran:?}");
            assert_eq!(sessions(&ran), wanted, "{name} at {at}: {}", ran.err);
            told += usize::from(ran.err.contains("the text index was damaged: it is built again"));
            assert_eq!(found(&home, PROMPTS), wanted, "{name} at {at}, once more");
        }
    }
    assert!(told > rounds(0, 2), "{told}");
}

#[test]
fn what_archive_keep_copied_is_found_and_shown_after_the_original_is_gone() {
    let home = Home::new(CASES);
    let snippets = |found: &Value| {
        let hits = found.as_array().unwrap().iter().flat_map(|session| session["hits"].as_array().unwrap());
        let mut all: Vec<String> = hits.map(|hit| hit["snippet"].as_str().unwrap_or("(lost)").to_owned()).collect();
        all.sort();
        all
    };
    let before = snippets(&found(&home, PROMPTS));
    let Ran { code, err, .. } = home.run(&["archive", "keep"]);
    assert_eq!(code, 0, "{err}");
    fs::remove_dir_all(home.path("home")).unwrap();
    fs::create_dir_all(home.path("home")).unwrap();
    assert!(!before.contains(&"(lost)".to_owned()), "{before:?}");
    assert_eq!(snippets(&found(&home, PROMPTS)), before);
    // Also if the first search comes only now, or the index was built again.
    for file in ["text.db", "text.db-wal", "text.db-shm"] {
        let _ = fs::remove_file(home.path(&format!("tapline/archive/{file}")));
    }
    assert_eq!(snippets(&found(&home, PROMPTS)), before);
    assert_eq!(snippets(&found(&home, PROMPTS)), before, "and once more");
}

#[test]
fn a_limit_of_nothing_is_refused() {
    let home = Home::new(CASES);
    for args in [&["search", "x", "--limit", "0"][..], &["sessions", "--list", "--limit", "0"]] {
        let ran = home.run(args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(ran.err.contains("--limit") && ran.err.contains("it must be at least 1"), "{args:?}: {ran:?}");
    }
}

#[test]
fn the_prompt_of_a_recording_without_a_transcript_is_found_listed_and_shown() {
    let home = Home::new(&[]);
    let write = |name: &str, file: &str, text: &str| home.write(&format!("tapline/recordings/{name}/{file}"), text);
    let message = r#"{"type":"user","message":{"role":"user","content":"find the zebra"},"session_id":""}"#;
    for (name, argv, sent, output) in [
        (
            "2026-11-16T10-00-00Z-a",
            r#""claude","-p","--output-format=stream-json","--input-format=stream-json""#,
            format!("{message}\n"),
            "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"a1\",\"cwd\":\"/x\",\"model\":\"m\"}\n\
             {\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"done\",\"session_id\":\"a1\"}\n",
        ),
        (
            "2026-11-16T11-00-00Z-b",
            r#""codex","exec","--json","-""#,
            "find the zebra\n".to_owned(),
            "{\"type\":\"thread.started\",\"thread_id\":\"b1\"}\n{\"type\":\"turn.completed\",\"usage\":{}}\n",
        ),
    ] {
        write(name, "meta.json", &format!("{{\"schema\":1,\"argv\":[{argv}],\"started_ms\":1794823200000}}"));
        write(name, "stdin", &sent);
        write(name, "stdout", output);
        write(name, "end.json", "{\"exit_code\":0}");
    }
    let found = found(&home, &["search", "zebra", "is:prompt", "--json"]);
    let mut ids: Vec<&str> = found.as_array().unwrap().iter().map(|session| session["session"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["a1", "b1"]);
    for session in found.as_array().unwrap() {
        assert_eq!(session["title"], "find the zebra");
        let hits = session["hits"].as_array().unwrap();
        assert!(hits.len() == 1 && hits[0]["snippet"] == "find the zebra", "{hits:?}");
        assert!(hits[0]["file"].as_str().unwrap().ends_with("/stdin"), "{hits:?}");
    }
    let listed = sessions(&home.run(&["sessions", "--json"]));
    let titles: Vec<_> = listed.as_array().unwrap().iter().map(|session| (&session["title"], &session["prompts"])).collect();
    assert_eq!(titles, [(&Value::from("find the zebra"), &Value::from(1)); 2]);
    for id in ids {
        let view = home.run(&["view", id]);
        assert!(view.code == 0 && view.out.contains("find the zebra"), "{view:?}");
    }
}

#[test]
fn the_prompt_on_the_command_line_of_tee_is_found_and_listed() {
    let home = Home::new(&[]);
    let fake = misbehaving();
    let tee = home.run(&["tee", "--agent", "claude", "--bin", &fake, "--", "-p", "--verbose", "find the zebra"]);
    assert_eq!(tee.code, 0, "{tee:?}");
    let found = found(&home, &["search", "zebra", "is:prompt", "--json"]);
    let [session] = found.as_array().unwrap().as_slice() else { panic!("{found}") };
    assert_eq!((&session["session"], &session["title"]), (&Value::from("fake-session"), &Value::from("find the zebra")));
    let [hit] = session["hits"].as_array().unwrap().as_slice() else { panic!("{found}") };
    assert!(hit["snippet"] == "find the zebra" && hit["file"].as_str().unwrap().ends_with("/meta.json"), "{hit}");
    let listed = sessions(&home.run(&["sessions", "--json"]));
    assert_eq!((&listed[0]["title"], &listed[0]["prompts"]), (&Value::from("find the zebra"), &Value::from(1)));
}
