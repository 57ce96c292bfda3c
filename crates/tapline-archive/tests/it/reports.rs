//! One call turns a recording, a stream or bytes into a report, with all that is known of the run.

use std::error::Error as _;
use std::path::Path;
use std::time::Duration;

use tapline_archive::{Note, Source, SourceError, SourceOptions, report, report_of, report_of_bytes};
use tapline_protocol::{Agent, Json, StopReason};
use tapline_recording::{End, Loss, Meta, Recorder, Recording, Redactor, Stop, Stream, Sync};
use tapline_session::{Category, Ending, Outcome, Report, StreamFormat};
use tapline_testkit::{TempFolder, fixtures};

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s","model":"m","tools":[]}"#;
const RESULT: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"4","session_id":"s","total_cost_usd":0.01,"num_turns":1}"#;

fn record(folder: &Path, meta: &Meta, stdout: &[&str], end: Option<&End>) {
    let mut recorder = Recorder::create(folder, meta, Sync::EverySecond).unwrap();
    recorder.write_at(Stream::Stdin, b"What is 2 + 2?", Duration::ZERO);
    recorder.write_at(
        Stream::Stderr,
        b"using ANTHROPIC_API_KEY=sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789\n",
        Duration::ZERO,
    );
    for line in stdout {
        recorder.write_at(Stream::Stdout, format!("{line}\n").as_bytes(), Duration::from_secs(1));
    }
    if let Some(end) = end {
        recorder.finish(end).unwrap();
        // With what only a writer in trouble would say.
        Recording::open(folder).unwrap().amend(end.clone()).unwrap();
    }
}

#[test]
fn a_recording_says_how_its_run_ended() {
    let folder = TempFolder::new();
    let path = folder.join("run-2");
    let meta = Meta {
        agent: Some("claude".to_owned()),
        argv: ["claude", "-p", "--output-format", "stream-json"].map(str::to_owned).to_vec(),
        started_at: Some("2026-01-02T03:04:05Z".to_owned()),
        label: Some("nightly".to_owned()),
        ..Meta::default()
    };
    let ledger = r#"{"cost_usd":0.5,"tokens":{"input":7,"output":0,"cache_read":0,"cache_write":0,"reasoning":0},"web_searches":0,"exact":false,"by_model":{},"basis":"results"}"#;
    let end = End {
        exit_code: Some(3),
        duration_ms: Some(1_500),
        attempts: Some(2),
        ledger: Json::parse(ledger).ok(),
        lost: vec![Loss { file: "stderr".to_owned(), from: 9, error: "no space".to_owned() }],
        ..End::default()
    };
    record(&path, &meta, &[INIT, RESULT], Some(&end));
    let told = report(&path).unwrap();
    assert_eq!((told.agent, told.format, told.answer.as_deref()), (Some(Agent::Claude), StreamFormat::StreamJson, Some("4")));
    assert_eq!((told.verdict.outcome, told.verdict.category), (Outcome::Failure, Some(Category::Exit)));
    assert_eq!((told.verdict.exit.code, told.run.attempts, told.run.duration_ms), (Some(3), 2, Some(1_500)));
    assert_eq!((told.run.label.as_deref(), told.run.started_at.as_deref()), (Some("nightly"), Some("2026-01-02T03:04:05Z")));
    assert_eq!(told.run.recording, Some(path.display().to_string()));
    assert_eq!((told.ledger.cost_usd, told.ledger.tokens.input), (Some(0.5), 7), "of all attempts");
    assert_eq!(told.prompts, ["What is 2 + 2?"]);
    let error = told.verdict.error.as_deref().unwrap();
    assert!(error.contains("ANTHROPIC_API_KEY") && !error.contains("abcdefghij"), "{error}");
    let codes: Vec<_> = told.verdict.warnings.iter().map(|warning| warning.code.as_ref()).collect();
    assert_eq!(codes, ["stderr", "recording-incomplete"]);
    let read: Report = serde_json::from_str(&told.to_json()).unwrap();
    assert_eq!(read, told, "and is a value");

    // What the caller knows better counts.
    let mut options = SourceOptions::default();
    options.ending = Ending { exit_code: Some(0), stderr: Some("mine".to_owned()), ..Ending::default() };
    let source = Source::open(&path, options).unwrap();
    assert_eq!(source.earlier_attempts(), [folder.join("run")]);
    let told = source.report().unwrap();
    assert_eq!((told.verdict.outcome, told.verdict.warnings[0].message.as_str()), (Outcome::Success, "mine"));
}

#[test]
fn what_a_person_may_want_to_know_comes_as_values() {
    let folder = TempFolder::new();
    let notes = |path: &Path| {
        let mut source = Source::open(path, SourceOptions::default()).unwrap();
        while source.advance().unwrap().is_some() {}
        source.take_notes()
    };
    record(&folder.join("cut"), &Meta::default(), &[INIT], None);
    assert_eq!(notes(&folder.join("cut")), [Note::NoEnd]);
    let (loss, lingered) = (
        Loss { file: "stdout".to_owned(), from: 1, error: "no space".to_owned() },
        Stop { reason: StopReason::Linger, limit_ms: Some(5_000) },
    );
    let end = End { lost: vec![loss.clone()], stop: Some(lingered), ..End::default() };
    record(&folder.join("lost"), &Meta::default(), &[INIT, RESULT], Some(&end));
    assert_eq!(notes(&folder.join("lost")), [Note::Lost(loss), Note::Lingered(lingered)]);
    let idle = Some(Stop { reason: StopReason::Idle, limit_ms: Some(7) });
    let end = End { stop: idle, ..End::default() };
    record(&folder.join("late"), &Meta::default(), &[INIT], Some(&end));
    let mut late = Source::open(&folder.join("late"), SourceOptions::default()).unwrap();
    while late.advance().unwrap().is_some() {}
    let finished = late.finish();
    assert_eq!((finished.stop, finished.summary.verdict.category), (idle, Some(Category::Timeout)));

    let file = folder.join("file.jsonl");
    std::fs::write(&file, "{\"type\":\"somebody\"}\n{\"type\":\"else\"}\n").unwrap();
    assert_eq!(notes(&file), [Note::Foreign]);
    std::fs::write(&file, r#"{"parentUuid":null,"sessionId":"s","type":"user","message":{"role":"user","content":"hi"}}"#)
        .unwrap();
    assert!(matches!(notes(&file)[..], [Note::Transcript(about)] if about.starts_with("Claude Code's own transcript")));
    assert_eq!(notes(&fixtures().join("claude-2.1.325/tools.jsonl")), []);
}

#[test]
fn a_file_a_reader_and_bytes_give_the_same_report() {
    let mut seen = 0;
    for group in std::fs::read_dir(fixtures()).unwrap().map(|group| group.unwrap().path()).filter(|path| path.is_dir()) {
        for path in std::fs::read_dir(group).unwrap().map(|file| file.unwrap().path()).filter(|path| path.is_file()) {
            let bytes = std::fs::read(&path).unwrap();
            let of_file = report(&path).unwrap();
            assert_eq!(of_file, report_of_bytes(&bytes), "{}", path.display());
            assert_eq!(of_file, report_of(Slow(&bytes)).unwrap(), "{}", path.display());
            assert_eq!(of_file.to_json(), report_of_bytes(&bytes).to_json());
            seen += 1;
        }
    }
    assert!(seen > 20);
}

/// Hands out a byte at a time, then three, then seven …
struct Slow<'b>(&'b [u8]);

impl std::io::Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = (1 + self.0.len() % 97).min(self.0.len()).min(buffer.len());
        buffer[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        Ok(length)
    }
}

#[test]
fn a_source_without_secrets_reports_none() {
    let folder = TempFolder::new();
    let path = folder.join("run");
    let secret = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789";
    let said =
        format!(r#"{{"type":"result","subtype":"success","is_error":false,"result":"the key is {secret}","num_turns":1}}"#);
    record(&path, &Meta { label: Some(format!("key={secret}")), ..Meta::default() }, &[INIT, &said], None);
    let open = || Source::open(&path, SourceOptions::default()).unwrap();
    assert!(open().report().unwrap().to_json().contains(secret));
    let clean = open().redacted_by(Redactor::default()).report().unwrap();
    assert!(!clean.to_json().contains(secret) && clean.answer.unwrap().starts_with("the key is "));
}

struct Broken;

impl std::io::Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("the pipe broke"))
    }
}

#[test]
fn errors_are_one_line_and_keep_their_source() {
    let folder = TempFolder::new();
    let missing = report(folder.join("missing")).unwrap_err();
    assert_eq!(missing.to_string(), format!("cannot open {}", folder.join("missing").display()));
    assert!(missing.source().is_some());
    let wrong = report(&folder).unwrap_err();
    assert!(matches!(&wrong, SourceError::Folder(path) if *path == *folder), "{wrong}");
    assert_eq!(wrong.to_string(), format!("{} is a folder but not a recording", folder.display()));

    let broken = report_of(Broken).unwrap_err();
    assert_eq!(
        (broken.to_string().as_str(), broken.source().unwrap().to_string().as_str()),
        ("cannot read the stream", "the pipe broke")
    );
}

#[test]
fn a_source_can_be_sent_to_a_thread() {
    fn is_send<T: Send>() {}
    is_send::<Source<std::fs::File>>();
    is_send::<Source<Box<dyn std::io::Read + Send>>>();
    is_send::<SourceError>();
}
