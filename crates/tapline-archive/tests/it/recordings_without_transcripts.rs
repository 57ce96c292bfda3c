//! Recordings without a transcript beside them, as those of other machines: where and when they ran, and how they ended.

use std::time::Duration;

use serde_json::json;
use tapline_archive::sessions::{ListedSession, SessionFilter, sessions};
use tapline_archive::stats::{By, Query, stats};
use tapline_archive::{Index, Prices, Selection};
use tapline_protocol::{Json, Moment, StopReason};
use tapline_recording::{End, Meta, Recorder, Stop, Stream, Sync};
use tapline_session::SessionState;
use tapline_testkit::TempFolder;

use crate::totals::{by, update};

/// When the runs begin, in milliseconds since 1970: 2026-10-26, in the past of every file that a test writes.
const BEGAN: u64 = 1_793_000_000_000;

fn begun(folder: &TempFolder, name: &str, agent: &str, began: u64) -> Recorder {
    let meta = Meta {
        schema: 1,
        agent: Some(agent.to_owned()),
        argv: [agent, "-p", "--output-format=stream-json", "--input-format=stream-json"].map(str::to_owned).into(),
        cwd: Some("/home/dev/of-the-process".to_owned()),
        started_ms: Some(Moment::from_millis(began)),
        ..Meta::default()
    };
    Recorder::create(&folder.join("runs").join(name), &meta, Sync::EverySecond).unwrap()
}

/// A run that took ten seconds.
fn ended(recorder: Recorder, outcome: &str) {
    let verdict = Json::parse(&json!({ "outcome": outcome }).to_string()).ok();
    recorder.finish(&End { duration_ms: Some(10_000), verdict, ..End::default() }).unwrap();
}

fn message(text: &str) -> String {
    json!({ "type": "user", "session_id": "", "message": { "role": "user", "content": text } }).to_string() + "\n"
}

/// A stream of one answer: no line has a time.
fn claude(session: &str, id: &str) -> String {
    let init = json!({ "type": "system", "subtype": "init", "session_id": session, "cwd": "/home/dev/shop", "model": "m" });
    let usage = json!({ "input_tokens": 7, "output_tokens": 1 });
    let answer = json!({
        "type": "assistant", "session_id": session,
        "message": { "id": id, "model": "claude-opus-5-5", "role": "assistant", "usage": usage, "content": [] },
    });
    format!("{init}\n{answer}\n")
}

fn codex(session: &str) -> String {
    let started = json!({ "type": "thread.started", "thread_id": session });
    let turn = json!({ "type": "turn.completed", "usage": { "input_tokens": 5, "output_tokens": 2 } });
    format!("{started}\n{turn}\n")
}

/// What Claude Code keeps of a prompt that it works on.
fn transcript(session: &str, time: u64) -> String {
    let time = jiff::Timestamp::from_millisecond(time.cast_signed()).unwrap().to_string();
    let message = json!({ "role": "user", "content": "go on" });
    json!({ "type": "user", "sessionId": session, "timestamp": time, "cwd": "/home/dev/shop", "message": message }).to_string()
        + "\n"
}

fn listed(index: &Index) -> Vec<ListedSession> {
    let mut filter = SessionFilter::default();
    filter.now = BEGAN + 60_000;
    sessions(index, Prices::embedded(), &Selection::default(), &filter).unwrap()
}

fn only(index: &Index) -> ListedSession {
    let mut found = listed(index);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn indexed(folder: &TempFolder) -> Index {
    let mut index = Index::in_memory().unwrap();
    update(&mut index, &folder.join("runs"));
    index
}

#[test]
fn every_request_has_the_folder_of_its_run() {
    let folder = TempFolder::new();
    let mut one = begun(&folder, "one", "claude", BEGAN);
    one.write_at(Stream::Stdout, claude("s1", "m1").as_bytes(), Duration::from_secs(1));
    ended(one, "success");
    // This agent does not say where it works.
    let mut other = begun(&folder, "other", "codex", BEGAN);
    other.write_at(Stream::Stdout, codex("c1").as_bytes(), Duration::from_secs(1));
    ended(other, "success");
    let projects = by(&indexed(&folder), By::Project);
    let mut keys: Vec<_> = projects["rows"].as_array().unwrap().iter().map(|row| (&row["key"], &row["requests"])).collect();
    keys.sort_by_key(|(key, _)| key.to_string());
    assert_eq!(keys, [(&json!("/home/dev/of-the-process"), &json!(1)), (&json!("/home/dev/shop"), &json!(1))]);
}

#[test]
fn a_quick_look_at_the_present_counts_streams_without_times() {
    let folder = TempFolder::new();
    let mut run = begun(&folder, "run", "claude", BEGAN);
    run.write_at(Stream::Stdout, claude("s1", "m1").as_bytes(), Duration::from_secs(1));
    ended(run, "success");
    // A stream that is no recording has only the time of its file.
    folder.write("runs/captured.jsonl", claude("s2", "m2"));
    let index = indexed(&folder);
    let counted = |since: u64| {
        let selection = Selection { since: Some(since), ..Selection::default() };
        let mut query = Query::default();
        query.since = Some(since);
        stats(&index, Prices::embedded(), &selection, &query).unwrap().totals.requests
    };
    assert_eq!(counted(BEGAN), 2);
    assert_eq!(counted(BEGAN + 10_001), 1, "the run was over");
    assert_eq!(counted(u64::MAX >> 1), 0);
}

#[test]
fn the_verdict_on_a_run_says_how_its_session_stands() {
    let stopped = |reason| End { stop: Some(Stop { reason, limit_ms: None }), ..End::default() };
    let judged =
        |outcome: &str| End { verdict: Json::parse(&json!({ "outcome": outcome }).to_string()).ok(), ..End::default() };
    let cases = [
        (judged("success"), SessionState::Finished),
        (judged("failure"), SessionState::Failed),
        (judged("incomplete"), SessionState::Failed),
        (judged("interrupted"), SessionState::Interrupted),
        // Without a verdict.
        (stopped(StopReason::Timeout), SessionState::Failed),
        (stopped(StopReason::Interrupted), SessionState::Interrupted),
        (End { exit_code: Some(0), ..End::default() }, SessionState::Failed),
    ];
    for (end, wanted) in cases {
        for (with_transcript, output) in [(false, claude("s1", "m1")), (true, claude("s1", "m1")), (false, String::new())] {
            let folder = TempFolder::new();
            if with_transcript {
                folder.write("runs/s1.jsonl", transcript("s1", BEGAN + 9_999));
            }
            let mut run = begun(&folder, "run", "claude", BEGAN);
            run.write_at(Stream::Stdout, output.as_bytes(), Duration::from_secs(1));
            run.finish(&End { duration_ms: Some(10_000), ..end.clone() }).unwrap();
            let listed = only(&indexed(&folder));
            let id = if output.is_empty() { "run" } else { "s1" };
            assert_eq!((listed.facts.id.as_str(), listed.state), (id, wanted), "{end:?}, {with_transcript}");
            assert_eq!((listed.facts.agent.as_str(), listed.facts.last), ("claude", Some(BEGAN + 10_000)));
        }
    }
}

/// The end is written behind the last output: what was read before must not stay.
#[test]
fn an_end_that_comes_after_the_last_output_is_noticed() {
    let folder = TempFolder::new();
    let runs = folder.join("runs");
    let mut index = Index::open(&folder.join("index")).unwrap();
    let mut run = begun(&folder, "run", "claude", BEGAN);
    run.write_at(Stream::Stdout, claude("s1", "m1").as_bytes(), Duration::from_secs(1));
    let mut silent = begun(&folder, "silent", "claude", BEGAN);
    silent.write_at(Stream::Stderr, b"no login\n", Duration::from_secs(1));
    assert_eq!(update(&mut index, &runs).files, 2);
    assert_eq!(update(&mut index, &runs).files, 0);
    let one = only(&index);
    assert_eq!((one.state, one.facts.last), (SessionState::Running, Some(BEGAN + 1_000)));
    ended(run, "failure");
    ended(silent, "incomplete");
    let updated = update(&mut index, &runs);
    assert_eq!((updated.files, updated.bytes), (2, 0), "nothing is read again");
    let found = listed(&index);
    let states: Vec<_> = found.iter().map(|one| (one.facts.id.as_str(), one.state, one.requests)).collect();
    assert_eq!(states, [("s1", SessionState::Failed, 1), ("silent", SessionState::Failed, 0)]);
    assert_eq!(update(&mut index, &runs).files, 0);
}

#[test]
fn a_session_that_went_on_after_its_run_stands_as_its_transcript_says() {
    let folder = TempFolder::new();
    let mut run = begun(&folder, "run", "claude", BEGAN);
    run.write_at(Stream::Stdout, claude("s1", "m1").as_bytes(), Duration::from_secs(1));
    ended(run, "failure");
    folder.write("runs/s1.jsonl", transcript("s1", BEGAN + 20_000));
    let one = only(&indexed(&folder));
    assert_eq!((one.state, one.facts.first, one.facts.last), (SessionState::Running, Some(BEGAN), Some(BEGAN + 20_000)));
}

#[test]
fn a_session_of_several_runs_has_the_times_and_the_prompts_of_all() {
    let folder = TempFolder::new();
    for (name, began) in [("b", BEGAN), ("a", BEGAN + 30_000)] {
        let mut run = begun(&folder, name, "claude", began);
        run.write_at(Stream::Stdin, message("find the zebra").as_bytes(), Duration::ZERO);
        run.write_at(Stream::Stdout, claude("s1", name).as_bytes(), Duration::from_secs(1));
        ended(run, if name == "a" { "failure" } else { "success" });
    }
    let one = only(&indexed(&folder));
    let facts = &one.facts;
    assert_eq!((facts.prompts, one.requests), (2, 2));
    assert_eq!((facts.first, facts.last), (Some(BEGAN), Some(BEGAN + 40_000)));
    assert_eq!(one.state, SessionState::Failed, "as the later run");
    // A run that goes on is as old as its last output.
    let mut run = begun(&folder, "c", "claude", BEGAN + 50_000);
    run.write_at(Stream::Stdin, message("find the lion").as_bytes(), Duration::ZERO);
    run.write_at(Stream::Stdout, claude("s1", "c").as_bytes(), Duration::from_secs(3));
    let one = only(&indexed(&folder));
    assert_eq!((one.facts.prompts, one.facts.last, one.state), (3, Some(BEGAN + 53_000), SessionState::Running));
    ended(run, "success");
    // A copy that was pushed here is no other run.
    let mut copy = begun(&folder, "copy", "claude", BEGAN + 50_001);
    copy.write_at(Stream::Stdin, message("find the lion").as_bytes(), Duration::ZERO);
    copy.write_at(Stream::Stdout, claude("s1", "c").as_bytes(), Duration::from_secs(3));
    ended(copy, "success");
    folder.write("runs/copy/push.json", r#"{"run":"c"}"#);
    let one = only(&indexed(&folder));
    assert_eq!((one.facts.prompts, one.requests, one.state), (3, 3, SessionState::Finished));
}

/// The copy has no verdict, and is heard of last.
#[test]
fn a_run_that_was_pushed_to_its_own_machine_counts_once_and_as_the_original_ended() {
    let folder = TempFolder::new();
    let result = json!({ "type": "result", "subtype": "success", "session_id": "s1", "num_turns": 1, "total_cost_usd": 0.5 });
    let output = format!("{}{result}\n", claude("s1", "m1"));
    // The copy is found first.
    for (name, began, outcome) in [("a-copy", BEGAN + 500, None), ("mine", BEGAN, Some("interrupted"))] {
        let mut run = begun(&folder, name, "claude", began);
        run.write_at(Stream::Stdout, output.as_bytes(), Duration::from_secs(1));
        match outcome {
            Some(outcome) => ended(run, outcome),
            None => drop(run.finish(&End { exit_code: Some(130), duration_ms: Some(10_000), ..End::default() }).unwrap()),
        }
    }
    folder.write("runs/a-copy/push.json", "{}");
    let index = indexed(&folder);
    let listed = only(&index);
    assert_eq!((listed.state, listed.facts.prompts), (SessionState::Interrupted, 0));
    assert!((listed.facts.cost.usd() - 0.5).abs() < 1e-9, "{}", listed.facts.cost.usd());
}

#[test]
fn an_end_that_is_amended_is_read_again() {
    let folder = TempFolder::new();
    let mut run = begun(&folder, "run", "claude", BEGAN);
    run.write_at(Stream::Stdout, claude("s1", "m1").as_bytes(), Duration::from_secs(1));
    ended(run, "success");
    let mut index = indexed(&folder);
    assert_eq!(only(&index).state, SessionState::Finished);
    folder.write("runs/run/end.json", json!({ "exit_code": 0, "verdict": { "outcome": "failure" } }).to_string());
    update(&mut index, &folder.join("runs"));
    assert_eq!(only(&index).state, SessionState::Failed);
}

#[test]
fn a_stream_that_names_no_session_keeps_its_tokens_when_it_has_ended() {
    let folder = TempFolder::new();
    let mut run = begun(&folder, "run", "codex", BEGAN);
    let turn = codex("c1").lines().nth(1).unwrap().to_owned() + "\n";
    run.write_at(Stream::Stdout, turn.as_bytes(), Duration::from_secs(1));
    ended(run, "success");
    let tokens = only(&indexed(&folder)).facts.tokens;
    assert_eq!((tokens.input, tokens.output), (5, 2));
}

#[test]
fn a_run_without_a_recorded_prompt_has_its_label_as_title() {
    let folder = TempFolder::new();
    let labelled = |name: &str, sent: Option<&str>| {
        let meta = Meta {
            schema: 1,
            agent: Some("claude".to_owned()),
            argv: ["claude", "-p", "--input-format=stream-json"].map(str::to_owned).into(),
            started_ms: Some(Moment::from_millis(BEGAN)),
            label: Some("nightly".to_owned()),
            ..Meta::default()
        };
        let mut recorder = Recorder::create(&folder.join("runs").join(name), &meta, Sync::EverySecond).unwrap();
        recorder.write_at(Stream::Stdout, claude(name, name).as_bytes(), Duration::from_secs(1));
        if let Some(text) = sent {
            recorder.write_at(Stream::Stdin, message(text).as_bytes(), Duration::from_secs(1));
        }
        ended(recorder, "success");
    };
    labelled("silent", None);
    labelled("asked", Some("do it"));
    let mut index = Index::in_memory().unwrap();
    update(&mut index, &folder.join("runs"));
    let mut titles: Vec<_> = listed(&index).into_iter().map(|one| (one.facts.id, one.facts.title)).collect();
    titles.sort();
    assert_eq!(titles, [("asked".to_owned(), "do it".to_owned()), ("silent".to_owned(), "nightly".to_owned())]);
}
