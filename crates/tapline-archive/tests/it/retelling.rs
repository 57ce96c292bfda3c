//! Transcripts that the real programs wrote, read like streams.

use std::path::{Path, PathBuf};

use tapline_archive::{Source, SourceOptions, report};
use tapline_recording::Redactor;
use tapline_session::Outcome;

/// All transcripts below a folder, of sub-agents, too.
fn below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            below(&entry, found);
        } else if entry.extension().is_some_and(|ending| ending == "jsonl") && is_in_an_agents_folder(&entry) {
            found.push(entry);
        }
    }
}

/// Streams lie directly in the folder of a case.
fn is_in_an_agents_folder(path: &Path) -> bool {
    path.components().any(|part| ["projects", "sessions"].iter().any(|name| part.as_os_str() == *name))
}

fn transcripts() -> Vec<PathBuf> {
    let mut found = Vec::new();
    below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/transcripts"), &mut found);
    // A program that is killed at once leaves an empty file.
    found.retain(|path| path.metadata().unwrap().len() > 0);
    found.sort();
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
    let folder = Folder::new("cut");
    let mut seen = 0;
    for path in transcripts() {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut end = 0;
        for line in text.split_inclusive('\n') {
            end += line.len();
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            let is_prompt = value["type"] == "user" && value["isMeta"] != true && value["isCompactSummary"] != true;
            let said = value["message"]["content"].as_str().unwrap_or_default();
            let is_command = said.starts_with('<') || said.starts_with("[Request interrupted");
            let began = value["payload"]["type"] == "task_started";
            let cut = folder.0.join("cut.jsonl");
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
    assert!(seen > 60, "{seen}");
}

#[test]
fn secrets_in_the_files_of_sub_agents_are_removed_too() {
    let folder = Folder::new("secret");
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
    std::fs::write(folder.0.join("s.jsonl"), main.join("\n") + "\n").unwrap();
    let beside = folder.0.join("s/subagents");
    std::fs::create_dir_all(&beside).unwrap();
    std::fs::write(beside.join("agent-a1.meta.json"), r#"{"toolUseId":"call_1"}"#).unwrap();
    let said = format!(r#"[{{"type":"text","text":"the key is {secret} indeed"}}]"#);
    std::fs::write(beside.join("agent-a1.jsonl"), line("assistant", r#","isSidechain":true,"agentId":"a1""#, &said)).unwrap();
    let open = || Source::open(&folder.0.join("s.jsonl"), SourceOptions::default()).unwrap();
    let plain = open().report().unwrap();
    assert!(plain.text.contains(secret), "a sub-agent's text is told: {}", plain.to_json());
    assert!(!plain.main_text.contains(secret), "under its call: {}", plain.main_text);
    let clean = open().redacted_by(Redactor::default()).report().unwrap();
    assert!(clean.text.contains("the key is ") && !clean.to_json().contains(secret), "{}", clean.to_json());
}

/// A folder of a test's own, gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tapline-retelling-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
