//! Transcripts that the real programs wrote, read like streams.

use std::path::{Path, PathBuf};

use tapline_archive::{Source, SourceOptions, report};
use tapline_recording::Redactor;
use tapline_session::Outcome;
use tapline_session::step::What;
use tapline_testkit::files::files_below;
use tapline_testkit::{TempFolder, fixture, rounds};

/// Streams lie directly in the folder of a case.
fn is_in_an_agents_folder(path: &Path) -> bool {
    path.components().any(|part| ["projects", "sessions"].iter().any(|name| part.as_os_str() == *name))
}

/// All transcripts, of sub-agents, too.
fn transcripts() -> Vec<PathBuf> {
    let mut found = files_below(fixture("transcripts"));
    found.retain(|path| path.extension().is_some_and(|ending| ending == "jsonl") && is_in_an_agents_folder(path));
    // A program that is killed at once leaves an empty file.
    found.retain(|path| path.metadata().unwrap().len() > 0);
    assert!(found.len() > 25, "the fixtures are there");
    found
}

#[test]
fn the_records_of_a_transcript_are_its_bytes() {
    for path in transcripts() {
        let mut source = Source::open(&path, SourceOptions::default()).unwrap();
        let mut bytes = Vec::new();
        while let Some((record, steps)) = source.advance().unwrap() {
            bytes.extend(record.map(|record| record.bytes).unwrap_or_default());
            assert!(steps.iter().all(|step| step.line > 0), "{}", path.display());
        }
        assert_eq!(bytes, std::fs::read(&path).unwrap(), "{}", path.display());
        assert!(source.is_transcript(), "{}", path.display());
        let finished = source.finish();
        assert_eq!(finished.summary.stream.bytes, bytes.len() as u64, "{}", path.display());
        assert!(finished.summary.stream.unknown_types.is_empty(), "{}", path.display());
    }
}

/// Behind a prompt or a result of a call, a turn is never over.
#[test]
fn a_transcript_that_was_cut_off_is_no_success() {
    let folder = TempFolder::new();
    let mut seen = 0;
    for path in transcripts() {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut end = 0;
        for (at, line) in text.split_inclusive('\n').enumerate() {
            end += line.len();
            if at % rounds(4, 1) != 0 {
                continue;
            }
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            let is_prompt = value["type"] == "user" && value["isMeta"] != true && value["isCompactSummary"] != true;
            let said = value["message"]["content"].as_str().unwrap_or_default();
            let is_command = said.starts_with('<') || said.starts_with("[Request interrupted");
            let began = value["payload"]["type"] == "task_started";
            let cut = folder.join("cut.jsonl");
            std::fs::write(&cut, &text[..end]).unwrap();
            let told = report(&cut).unwrap();
            if is_prompt && !is_command || began {
                assert_eq!(told.verdict.outcome, Outcome::Incomplete, "{} cut behind {line}", path.display());
                seen += 1;
            }
            // Torn lines are told, and nothing else changes.
            std::fs::write(&cut, &text[..end - line.len() / 2]).unwrap();
            assert!(report(&cut).is_ok());
        }
    }
    assert!(seen > rounds(12, 60), "{seen}");
}

#[test]
fn secrets_in_the_files_of_sub_agents_are_removed_too() {
    let folder = TempFolder::new();
    let secret = "sk-ant-api03-Zx9kQ2mW7vB4nL8tR1yP5sD3fG6hJ0aC";
    let line = |kind: &str, more: &str, content: &str| {
        format!(
            r#"{{"parentUuid":null,"sessionId":"s","type":"{kind}","uuid":"{kind}{more_id}","timestamp":"2026-11-15T21:56:14.000Z"{more},"message":{{"id":"m{more_id}","role":"{kind}","content":{content}}}}}"#,
            more_id = more.len()
        )
    };
    let main = [
        line("user", "", r#""go""#),
        line("assistant", "", r#"[{"type":"tool_use","id":"call_1","name":"Agent","input":{"prompt":"look"}}]"#),
    ];
    std::fs::write(folder.join("s.jsonl"), main.join("\n") + "\n").unwrap();
    let beside = folder.join("s/subagents");
    std::fs::create_dir_all(&beside).unwrap();
    std::fs::write(beside.join("agent-a1.meta.json"), r#"{"toolUseId":"call_1"}"#).unwrap();
    let said = format!(r#"[{{"type":"text","text":"the key is {secret} indeed"}}]"#);
    std::fs::write(beside.join("agent-a1.jsonl"), line("assistant", r#","isSidechain":true,"agentId":"a1""#, &said)).unwrap();
    let open = || Source::open(&folder.join("s.jsonl"), SourceOptions::default()).unwrap();
    let plain = open().report().unwrap();
    assert!(plain.text.contains(secret), "a sub-agent's text is told: {}", plain.to_json());
    assert!(!plain.main_text.contains(secret), "under its call: {}", plain.main_text);
    let clean = open().redacted_by(Redactor::default()).report().unwrap();
    assert!(clean.text.contains("the key is ") && !clean.to_json().contains(secret), "{}", clean.to_json());
}

#[test]
fn only_a_status_tells_that_a_background_task_ended() {
    let folder = TempFolder::new();
    let told = |number: usize, more: &str| {
        let content = format!("<task-notification>\n<task-id>b1</task-id>\n{more}\n</task-notification>");
        let content = serde_json::Value::from(content);
        format!(
            r#"{{"parentUuid":null,"sessionId":"s","type":"user","uuid":"u{number}","timestamp":"2026-11-15T21:56:1{number}.000Z","message":{{"role":"user","content":{content}}}}}"#
        )
    };
    let lines = [
        told(1, "<summary>Monitor event: \"log\"</summary>\n<event>a line with <status>failed</status></event>"),
        told(2, "<summary>Background command \"x\" appears to be waiting for interactive input</summary>"),
        told(3, "<status>completed</status>\n<summary>done</summary>"),
    ];
    let path = folder.join("s.jsonl");
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    let mut source = Source::open(&path, SourceOptions::default()).unwrap();
    let mut tasks = Vec::new();
    while let Some((_, steps)) = source.advance().unwrap() {
        tasks.extend(steps.into_iter().filter_map(|step| match step.what {
            What::Task(task) => Some((task.status, task.terminal)),
            _ => None,
        }));
    }
    let wanted = [("running", false), ("running", false), ("completed", true)];
    assert_eq!(tasks, wanted.map(|(status, ends)| (status.to_owned(), ends)));
}

/// A sub-agent is known by what it was asked to do, not only by its thread.
#[test]
fn the_sub_agent_of_a_rollout_has_a_description() {
    let folder = fixture("transcripts/codex-subagents/codex/archived_sessions");
    let path = folder.join("rollout-2026-11-16T15-22-46-01a1e4f4-202e-78b3-9357-95885bd9ca01.jsonl");
    let mut source = Source::open(&path, SourceOptions::default()).unwrap();
    let mut tasks = Vec::new();
    while let Some((_, steps)) = source.advance().unwrap() {
        tasks.extend(steps.into_iter().filter_map(|step| match step.what {
            What::Task(task) => Some(task.description),
            _ => None,
        }));
    }
    assert!(tasks.contains(&Some("OUTER task".to_owned())) && !tasks.contains(&None), "{tasks:?}");
}
