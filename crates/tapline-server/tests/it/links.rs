//! Links that lead out of what is watched: the server neither shows what they lead to nor offers it for download.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use tapline_testkit::eventually;

use crate::stage::{Stage, write};

static NAMED: Mutex<Vec<(PathBuf, String)>> = Mutex::new(Vec::new());

/// A transcript with one message.
fn session(id: &str, text: &str) -> String {
    format!(
        "{{\"type\":\"user\",\"sessionId\":\"{id}\",\"uuid\":\"u-{id}\",\"timestamp\":\"2026-01-01T00:00:00Z\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
    )
}

#[test]
fn what_a_link_leads_to_is_no_session() {
    let stage = Stage::with(|options| {
        options.warn = Some(|path, error| {
            NAMED.lock().unwrap_or_else(PoisonError::into_inner).push((path.to_owned(), error.to_string()));
        });
    });
    let transcripts = stage.path("transcripts/p");
    write(&stage.path("outside/secret.jsonl"), &session("secret", "TREASURE"));
    write(&stage.path("home/recordings/run/meta.json"), "{}");
    symlink(stage.path("outside/secret.jsonl"), stage.path("home/recordings/run/stdout")).unwrap();
    write(&transcripts.join("own.jsonl"), &session("own", "hello"));
    symlink(stage.path("outside/secret.jsonl"), transcripts.join("secret.jsonl")).unwrap();
    symlink(stage.path("outside"), transcripts.join("folder")).unwrap();
    symlink("/", transcripts.join("everything")).unwrap();
    stage.until("/api/v1/sessions", |list| (list["sessions"][0]["id"] == "own").then_some(()));
    assert!(stage.get("/api/v1/sessions/own/download?format=jsonl").body.contains("hello"));
    // Everything is looked at several times, and named once.
    let named = || NAMED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert!(eventually(|| named().len() >= 4), "{:?}", named());
    write(&transcripts.join("other.jsonl"), &session("other", "hello"));
    let list = stage.until("/api/v1/sessions", |list| {
        list["sessions"].as_array()?.iter().any(|row| row["id"] == "other").then(|| list.to_string())
    });
    assert!(!list.contains("secret"), "{list}");
    let mut told: Vec<_> = named().iter().map(|(path, _)| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    told.sort();
    assert_eq!(told, ["everything", "folder", "secret.jsonl", "stdout"]);
    assert!(named().iter().all(|(_, error)| error.contains("leads out of the folder")));
    for name in ["secret", "run"] {
        assert_eq!(stage.get(&format!("/api/v1/sessions/{name}/download?format=jsonl")).status, 404, "{name}");
    }

    // A file or a folder that becomes a link later.
    fs::remove_file(transcripts.join("own.jsonl")).unwrap();
    symlink(stage.path("outside/secret.jsonl"), transcripts.join("own.jsonl")).unwrap();
    fs::rename(stage.path("transcripts/p"), stage.path("before")).unwrap();
    write(&stage.path("outside/p/other.jsonl"), &session("other", "TREASURE"));
    symlink(stage.path("outside/p"), stage.path("transcripts/p")).unwrap();
    for id in ["own", "other"] {
        let answer = stage.get(&format!("/api/v1/sessions/{id}/download?format=jsonl"));
        assert!(answer.status == 404 && !answer.body.contains("TREASURE"), "{id}: {answer:?}");
        assert!(!stage.get(&format!("/api/v1/sessions/{id}/steps")).body.contains("TREASURE"), "{id}");
    }
}

#[test]
fn a_pipe_in_place_of_a_session_holds_nobody_up() {
    let stage = Stage::new();
    let path = stage.path("transcripts/p/own.jsonl");
    write(&path, &session("own", "needle"));
    stage.until("/api/v1/search?q=needle", |found| (found["hits"][0]["step"] == 0).then_some(()));
    fs::remove_file(&path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    // Whoever opens it as a file waits until somebody writes to it.
    let answer = stage.get("/api/v1/search?q=needle");
    assert!(answer.status == 200 && answer.body.contains("\"session\":\"own\""), "{answer:?}");
}
