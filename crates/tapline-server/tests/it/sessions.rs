//! Sessions as they grow: recordings and transcripts, their list, their steps and their events.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tapline_protocol::StopReason;
use tapline_recording::{End, Meta, Recorder, Stop, Stream, Sync};
use tapline_testkit::files::{append, copy_folder, files_below};
use tapline_testkit::fixture;

use crate::stage::{Stage, write};

/// A stream with tools and partial messages.
fn stream() -> String {
    std::fs::read_to_string(fixture("claude-2.1.325/tools-partial.jsonl")).unwrap()
}

fn recorder(stage: &Stage, name: &str) -> Recorder {
    let meta = Meta {
        label: Some("a label".to_owned()),
        cwd: Some("/home/dev/shop".to_owned()),
        started_at: Some(jiff::Timestamp::now().to_string()),
        ..Meta::default()
    };
    Recorder::create(&stage.path("home/recordings").join(name), &meta, Sync::EverySecond).unwrap()
}

/// The row of a session, once it is as wanted.
fn row(stage: &Stage, wanted: impl Fn(&Value) -> bool) -> Value {
    stage.until("/api/v1/sessions", |list| list["sessions"].as_array()?.iter().find(|row| wanted(row)).cloned())
}

/// Text of an assistant, as a stream has it.
fn said(session: &str, text: &str) -> String {
    let text = serde_json::to_string(text).unwrap();
    format!(
        "{{\"type\":\"assistant\",\"session_id\":\"{session}\",\"message\":{{\"role\":\"assistant\",\"content\":[{{\"type\":\"text\",\"text\":{text}}}]}}}}\n"
    )
}

#[test]
fn a_recording_appears_grows_and_ends() {
    let stage = Stage::new();
    let mut recorder = recorder(&stage, "2026-11-16T06-46-57Z-0a1b2c3d4e");
    let stream = stream();
    let lines: Vec<&str> = stream.split_inclusive('\n').collect();
    let (first, rest) = lines.split_at(3);
    recorder.write_at(Stream::Stdout, first.concat().as_bytes(), Duration::from_millis(10));
    let seen = row(&stage, |row| row["state"]["kind"] == "running");
    assert_eq!(
        (seen["source"].as_str(), seen["project"].as_str(), seen["title"].as_str()),
        (Some("recording"), Some("project"), Some("a label"))
    );
    let id = seen["id"].as_str().unwrap().to_owned();
    assert!(stream.contains(&format!("\"session_id\":\"{id}\"")), "{id}");

    let steps = format!("/api/v1/sessions/{id}/steps");
    let before = stage.until(&steps, |page| page["event_id"].as_u64());
    let mut events = stage.events(&format!("/api/v1/sessions/{id}/events"), Some(before));
    for line in rest {
        recorder.write_at(Stream::Stdout, line.as_bytes(), Duration::from_millis(20));
    }
    recorder.finish(&End { exit_code: Some(0), ..End::default() }).unwrap();
    let done = events.until(|name, data| (name == "row" && data["state"]["kind"] == "finished").then(|| data.clone()));
    assert!(done["cost_usd"].as_f64().is_some_and(|cost| cost > 0.0), "{done}");
    assert!(done["now"].is_null() && done["model"].is_string(), "{done}");

    let page = stage.until(&steps, |page| Some(page.clone()));
    assert_eq!(page["total"], done["steps"]);
    let steps = page["steps"].as_array().unwrap();
    assert!(steps.iter().enumerate().all(|(at, step)| step["n"] == at && step["time"].is_string()), "{page}");
    assert!(steps.iter().any(|step| step["kind"] == "call"), "{page}");
    // A result ends the turn; the end of the recording, a moment later, is the verdict.
    let one = stage.until(&format!("/api/v1/sessions/{id}"), |one| one["verdict"].is_object().then(|| one.clone()));
    assert_eq!(one["verdict"]["outcome"], "success");
    assert!(!one["turns"].as_array().unwrap().is_empty() && !one["spans"].as_array().unwrap().is_empty(), "{one}");
    assert!(one["spans"].as_array().unwrap().iter().all(|span| span["end"].is_string()), "{one}");
}

/// As `tapline sessions` has it, for whoever follows the session and for the archive.
#[test]
fn a_run_that_a_person_interrupted_is_over_and_one_that_took_too_long_failed() {
    let stage = Stage::new();
    for (name, reason, wanted) in [
        ("one", StopReason::Interrupted, "interrupted"),
        ("two", StopReason::Timeout, "failed"),
        ("three", StopReason::Idle, "failed"),
    ] {
        let mut recorder = recorder(&stage, &format!("2026-11-16T06-46-57Z-{name}"));
        recorder.write_at(Stream::Stdout, said(name, "Once").as_bytes(), Duration::from_millis(10));
        row(&stage, |row| row["id"] == name && row["state"]["kind"] == "running");
        let stop = Some(Stop { reason, limit_ms: None });
        recorder.finish(&End { signal: Some("SIGTERM".to_owned()), stop, ..End::default() }).unwrap();
        let ended = row(&stage, |row| row["id"] == name && row["state"]["kind"] != "running");
        assert_eq!(ended["state"]["kind"], wanted, "{ended}");
    }
}

#[test]
fn text_grows_in_place() {
    let stage = Stage::new();
    let mut recorder = recorder(&stage, "2026-11-16T06-46-57Z-0a1b2c3d4e");
    let delta = |text: &str| {
        format!(
            "{{\"type\":\"stream_event\",\"session_id\":\"s-1\",\"event\":{{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}}}\n"
        )
    };
    let start = "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s-1\",\"model\":\"m\",\"cwd\":\"/x\",\"tools\":[]}\n\
                 {\"type\":\"stream_event\",\"session_id\":\"s-1\",\"event\":{\"type\":\"message_start\",\"message\":{\"id\":\"m1\",\"role\":\"assistant\",\"content\":[]}}}\n";
    recorder.write_at(Stream::Stdout, (start.to_owned() + &delta("Hel")).as_bytes(), Duration::from_millis(1));
    let page = stage.until("/api/v1/sessions/s-1/steps", |page| (page["total"] == 2).then(|| page.clone()));
    assert!(page["steps"][1]["html"].as_str().unwrap().contains("Hel"), "{page}");
    let mut events = stage.events("/api/v1/sessions/s-1/events", page["event_id"].as_u64());
    recorder.write_at(Stream::Stdout, delta("lo wor").as_bytes(), Duration::from_millis(2));
    events.until(|name, data| (name == "step" && data["n"] == 1 && data["html"].as_str()?.contains("Hello wor")).then_some(()));
    let whole = said("s-1", "Hello world").replace("\"role\"", "\"id\":\"m1\",\"role\"");
    recorder.write_at(Stream::Stdout, whole.as_bytes(), Duration::from_millis(3));
    events
        .until(|name, data| (name == "step" && data["n"] == 1 && data["html"].as_str()?.contains("Hello world")).then_some(()));
    assert_eq!(stage.get("/api/v1/sessions/s-1/steps").json().unwrap()["total"], 2);
}

#[test]
fn a_reader_that_comes_back_misses_nothing_and_gets_nothing_twice() {
    let stage = Stage::new();
    let mut recorder = recorder(&stage, "2026-11-16T06-46-57Z-0a1b2c3d4e");
    recorder.write_at(Stream::Stdout, said("s-2", "text 0").as_bytes(), Duration::from_millis(1));
    let page = stage.until("/api/v1/sessions/s-2/steps", |page| (page["total"] == 1).then(|| page.clone()));
    let mut last = page["event_id"].as_u64().unwrap();
    let mut seen = Vec::new();
    for round in 0..5 {
        for n in 1..=4 {
            let n = round * 4 + n;
            recorder.write_at(Stream::Stdout, said("s-2", &format!("text {n}")).as_bytes(), Duration::from_millis(1));
        }
        // Each time on a new connection, in the middle of what comes.
        let mut events = stage.events("/api/v1/sessions/s-2/events", Some(last));
        while seen.len() < round * 4 + 2 {
            let (id, name, data) = events.next();
            last = id;
            assert_ne!(name, "snapshot");
            if name == "step" {
                seen.push(data["n"].as_u64().unwrap());
            }
        }
    }
    let mut events = stage.events("/api/v1/sessions/s-2/events", Some(last));
    while seen.len() < 20 {
        let (_, name, data) = events.next();
        if name == "step" {
            seen.push(data["n"].as_u64().unwrap());
        }
    }
    assert_eq!(seen, (1..=20).collect::<Vec<u64>>());
}

#[test]
fn whoever_is_new_or_fell_behind_gets_a_snapshot() {
    let stage = Stage::new();
    let mut recorder = recorder(&stage, "2026-11-16T06-46-57Z-0a1b2c3d4e");
    recorder.write_at(Stream::Stdout, said("s-3", "text").as_bytes(), Duration::from_millis(1));
    let page = stage.until("/api/v1/sessions/s-3/steps", |page| (page["total"] == 1).then(|| page.clone()));
    for last in [None, Some(1), Some(9_007_199_254_740_991)] {
        let (id, name, data) = stage.events("/api/v1/sessions/s-3/events", last).next();
        assert_eq!((name.as_str(), &data["total"]), ("snapshot", &Value::from(1)), "{last:?}");
        assert_eq!((data["event_id"].as_u64(), id >= page["event_id"].as_u64().unwrap()), (Some(id), true));
        let (_, name, _) = stage.events("/api/v1/events", last).next();
        assert_eq!(name, "snapshot", "{last:?}");
    }
    let answer = stage.ask(
        "GET",
        "/api/v1/events",
        &[("Authorization", &format!("Bearer {}", crate::stage::TOKEN)), ("Last-Event-ID", "x")],
        b"",
    );
    assert_eq!((answer.status, answer.code().as_str()), (400, "bad-request"));
}

#[test]
fn the_list_tells_what_changes() {
    let stage = Stage::new();
    let list = stage.until("/api/v1/sessions", |list| Some(list.clone()));
    assert_eq!(list["sessions"], Value::Array(Vec::new()));
    let mut events = stage.events("/api/v1/events", list["event_id"].as_u64());
    let mut recorder = recorder(&stage, "2026-11-16T06-46-57Z-0a1b2c3d4e");
    recorder.write_at(Stream::Stdout, said("s-4", "text").as_bytes(), Duration::from_millis(1));
    events.until(|name, row| (name == "session" && row["id"] == "s-4").then_some(()));
    recorder.finish(&End { exit_code: Some(1), ..End::default() }).unwrap();
    events.until(|name, row| (name == "session" && row["id"] == "s-4" && row["state"]["kind"] == "failed").then_some(()));
    for (query, count) in
        [("q=shop", 1), ("q=nothing", 0), ("state=failed", 1), ("state=running", 0), ("q=S-4&state=failed&limit=1", 1)]
    {
        let list = stage.get(&format!("/api/v1/sessions?{query}")).json().unwrap();
        assert_eq!(list["sessions"].as_array().unwrap().len(), count, "{query}");
    }
    assert_eq!(stage.get("/api/v1/sessions?state=odd").status, 400);
    assert_eq!(stage.get("/api/v1/sessions/s-5").status, 404);
}

#[test]
fn a_transcript_is_one_session_with_its_subagents() {
    let stage = Stage::new();
    let (from, to) = (fixture("transcripts/claude-subagents/claude/projects"), stage.path("transcripts/projects"));
    copy_folder(from, to);
    let id = "207f0d38-6b7e-4228-a830-88dedeea3215";
    let row = row(&stage, |row| row["id"] == id && row["branch"] == "trunk" && row["cost_usd"].is_number());
    assert_eq!(
        (row["source"].as_str(), row["title"].as_str(), row["project"].as_str()),
        (Some("transcript"), Some("delegate two deep"), Some("claude-subagents"))
    );
    let agents = stage.until(&format!("/api/v1/sessions/{id}"), |one| {
        Some(one["agents"].as_array()?.clone()).filter(|agents| agents.len() == 2)
    });
    assert!(agents.iter().all(|agent| agent["first_step"].is_number() && agent["name"] != ""), "{agents:?}");
    let list = stage.get("/api/v1/sessions").json().unwrap();
    let mut ids: Vec<&str> = list["sessions"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["0cfbbae1-7eca-4365-9a34-6f3e02867135", id], "a sub-agent is not a session");
}

#[test]
fn a_transcript_grows() {
    let stage = Stage::new();
    let name = "transcripts/claude-denied/claude/projects";
    let file = transcripts_below(&fixture(name)).into_iter().next().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let id = file.file_stem().unwrap().to_str().unwrap();
    let path = stage.path("transcripts/projects/x").join(file.file_name().unwrap());
    let (first, rest) = lines.split_at(lines.len() / 2);
    write(&path, &first.concat());
    let steps = format!("/api/v1/sessions/{id}/steps");
    let before = stage.until(&steps, |page| page["total"].as_u64().filter(|total| *total > 0));
    append(&path, rest.concat());
    stage.until(&steps, |page| (page["total"].as_u64()? > before).then_some(()));
}

#[test]
fn a_recording_and_a_transcript_of_one_session_are_one_row() {
    let stage = Stage::new();
    let folder = fixture("transcripts/claude-denied");
    let transcript = transcripts_below(&folder.join("claude/projects")).into_iter().next().unwrap();
    copy_folder(folder.join("claude/projects"), stage.path("transcripts/projects"));
    let id = transcript.file_stem().unwrap().to_str().unwrap().to_owned();
    row(&stage, |row| row["id"] == id.as_str());
    let mut recorder = recorder(&stage, "2026-11-16T06-46-57Z-0a1b2c3d4e");
    recorder.write_at(Stream::Stdout, said(&id, "text").as_bytes(), Duration::from_millis(1));
    row(&stage, |row| row["id"] == id.as_str() && row["source"] == "recording");
    let list = stage.get("/api/v1/sessions").json().unwrap();
    assert_eq!(list["sessions"].as_array().unwrap().iter().filter(|row| row["id"] == id.as_str()).count(), 1, "{list}");
}

#[test]
fn hostile_text_stays_text() {
    let stage = Stage::new();
    let mut recorder = recorder(&stage, "2026-11-16T06-46-57Z-0a1b2c3d4e");
    let hostile = "<script>alert(1)</script><img src=x onerror=alert(1)>[a](javascript:alert(1))\u{202e}</div></details>";
    let call = serde_json::json!({"type":"assistant","session_id":"s-6","message":{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":hostile,"input":{"command":hostile}}]}});
    let answer = serde_json::json!({"type":"user","session_id":"s-6","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":hostile}]}});
    recorder.write_at(
        Stream::Stdout,
        format!("{}{call}\n{answer}\n", said("s-6", hostile)).as_bytes(),
        Duration::from_millis(1),
    );
    let page = stage.until("/api/v1/sessions/s-6/steps", |page| (page["total"] == 2).then(|| page.clone()));
    for step in page["steps"].as_array().unwrap() {
        let html = step["html"].as_str().unwrap();
        for never in ["<script", "<img", "href=\"javascript", "\u{202e}"] {
            assert!(!html.contains(never), "{html}");
        }
        let count = |text: &str| html.matches(text).count();
        assert_eq!((count("<div"), count("<details")), (count("</div"), count("</details")), "{html}");
    }
}

#[test]
fn steps_are_paged() {
    let stage = Stage::new();
    let mut recorder = recorder(&stage, "2026-11-16T06-46-57Z-0a1b2c3d4e");
    let text: String = (0..2_500).map(|n| said("s-7", &format!("text {n}."))).collect();
    recorder.write_at(Stream::Stdout, text.as_bytes(), Duration::from_millis(1));
    stage.until("/api/v1/sessions/s-7/steps?limit=1", |page| (page["total"] == 2_500).then_some(()));
    for (query, from, count) in [
        ("from=0&limit=10", 0, 10),
        ("from=2490", 2_490, 10),
        ("from=1000&limit=500", 1_000, 500),
        ("from=9999", 0, 0),
        ("limit=100000", 0, 500),
    ] {
        let page = stage.get(&format!("/api/v1/sessions/s-7/steps?{query}")).json().unwrap();
        let steps = page["steps"].as_array().unwrap();
        assert_eq!(steps.len(), count, "{query}");
        for (at, step) in steps.iter().enumerate() {
            assert_eq!(step["n"], from + at);
            assert!(step["html"].as_str().unwrap().contains(&format!("text {}.", from + at)));
        }
    }
    assert_eq!(stage.get("/api/v1/sessions/s-7/steps?from=x").status, 400);
}

#[test]
fn the_archive_is_behind_it() {
    let stage = Stage::new();
    copy_folder(fixture("transcripts/claude-denied/claude/projects"), stage.path("transcripts/projects"));
    let id = transcripts_below(&stage.path("transcripts/projects"))
        .into_iter()
        .next()
        .unwrap()
        .file_stem()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    row(&stage, |row| row["id"] == id.as_str());
    let costs = stage.get("/api/v1/costs?by=model").json().unwrap();
    assert!(
        costs["totals"].is_object() && costs["rows"].is_array() && costs["budgets"].as_array().is_some_and(Vec::is_empty),
        "{costs}"
    );
    assert_eq!(stage.get("/api/v1/costs?by=odd").status, 400);
    assert_eq!(stage.get("/api/v1/costs?last=odd").status, 400);
    let title = stage.get(&format!("/api/v1/sessions/{id}")).json().unwrap()["title"].as_str().unwrap().to_owned();
    let word = title.split(' ').max_by_key(|word| word.len()).unwrap();
    let found = stage.get(&format!("/api/v1/search?q={word}")).json().unwrap();
    let hit = &found["hits"][0];
    let step = stage.get(&format!("/api/v1/sessions/{id}/steps?from={}&limit=1", hit["step"])).json().unwrap();
    assert!(step["steps"][0]["html"].as_str().is_some_and(|html| html.contains(word)), "{found} {step}");
    assert_eq!(hit["session"], id.as_str(), "{found}");
    assert!(hit["snippet"].as_array().unwrap().iter().any(|piece| piece["hit"] == true), "{found}");
    for (format, kind) in [("html", "text/html"), ("markdown", "text/markdown"), ("jsonl", "application/x-ndjson")] {
        let answer = stage.get(&format!("/api/v1/sessions/{id}/download?format={format}"));
        assert_eq!(answer.status, 200, "{format}");
        assert!(answer.head.contains(kind) && answer.head.contains("content-disposition: attachment"), "{answer:?}");
        assert!(answer.body.contains(word), "{format}");
    }
    assert_eq!(stage.get(&format!("/api/v1/sessions/{id}/download?format=odd")).status, 400);
    let metrics = stage.get("/metrics");
    assert!(
        metrics.body.contains("tapline_sessions{state=\"running\"}")
            && metrics.body.contains("# TYPE tapline_cost_usd_total counter"),
        "{}",
        metrics.body
    );
}

#[test]
fn secrets_are_not_in_downloads() {
    let stage = Stage::new();
    let mut recorder = recorder(&stage, "2026-11-16T06-46-57Z-0a1b2c3d4e");
    let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    recorder.write_at(Stream::Stdout, said("s-8", &format!("the token is {secret}")).as_bytes(), Duration::from_millis(1));
    stage.until("/api/v1/sessions/s-8/steps", |page| (page["total"] == 1).then_some(()));
    for format in ["html", "markdown", "jsonl"] {
        let answer = stage.get(&format!("/api/v1/sessions/s-8/download?format={format}"));
        assert!(
            answer.status == 200 && answer.body.contains("the token is") && !answer.body.contains(&secret),
            "{format}: {answer:?}"
        );
    }
}

/// All transcripts below a folder.
fn transcripts_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = files_below(folder);
    found.retain(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    found
}

#[test]
fn what_sub_agents_write_is_no_session_of_its_own() {
    let stage = Stage::new();
    let root = stage.path("transcripts");
    copy_folder(fixture("transcripts/claude-subagents/claude/projects"), &root);
    copy_folder(fixture("transcripts/codex-subagents/codex"), root.join("codex"));
    let wanted = ["01a1e4f4-202e-78b3-9357-95885bd9ca01", "01a1e4f4-2517-7d90-8ffc-e67c60be84b4"];
    let wanted: Vec<&str> =
        wanted.into_iter().chain(["0cfbbae1-7eca-4365-9a34-6f3e02867135", "207f0d38-6b7e-4228-a830-88dedeea3215"]).collect();
    let ids = |list: &Value| {
        let mut ids: Vec<String> =
            list["sessions"].as_array()?.iter().filter_map(|row| row["id"].as_str().map(str::to_owned)).collect();
        ids.sort();
        Some(ids)
    };
    // Both when they are read as they grow, and when the archive knows them.
    stage.until("/api/v1/sessions", |list| (ids(list)? == wanted).then_some(()));
    stage.until("/api/v1/sessions", |list| {
        let rows = list["sessions"].as_array()?;
        (ids(list)? == wanted && rows.iter().all(|row| row["tokens"]["input"].as_u64() > Some(0))).then_some(())
    });
}

#[test]
fn a_turn_of_a_transcript_counts_from_its_prompt_on() {
    let stage = Stage::new();
    let path = stage.path("transcripts").join("-x/turns.jsonl");
    let line = |kind: &str, message: &str, at: &str| {
        format!(
            "{{\"parentUuid\":null,\"isSidechain\":false,\"version\":\"2.1.325\",\"type\":\"{kind}\",\"uuid\":\"u-{at}\",\"sessionId\":\"turns\",\"cwd\":\"/x\",\"timestamp\":\"2026-11-17T10:00:{at}Z\",\"message\":{message}}}\n"
        )
    };
    let prompt = |at: &str| line("user", "{\"role\":\"user\",\"content\":\"go\"}", at);
    let end = |at: &str| {
        line(
            "assistant",
            &format!(
                "{{\"id\":\"m{at}\",\"role\":\"assistant\",\"model\":\"m\",\"stop_reason\":\"end_turn\",\"content\":[{{\"type\":\"text\",\"text\":\"done\"}}]}}"
            ),
            at,
        )
    };
    let turns = |count: usize, state: &str| {
        stage.until("/api/v1/sessions/turns", |one| {
            let turns = one["turns"].as_array()?;
            (turns.len() == count && one["state"]["kind"] == state).then(|| turns.clone())
        })
    };
    write(&path, &prompt("00"));
    // Its time is long past.
    turns(1, "silent");
    append(&path, end("03"));
    assert_eq!(turns(1, "finished")[0]["duration_ms"], 3_000);
    append(&path, prompt("10"));
    turns(2, "silent");
    append(&path, end("14"));
    let all = turns(2, "finished");
    assert_eq!((all[0]["n"].as_u64(), all[1]["n"].as_u64()), (Some(1), Some(2)), "{all:?}");
}

#[test]
fn a_run_that_failed_says_why_and_only_a_session_of_the_agent_can_be_resumed() {
    let stage = Stage::with(|options| options.resume = Some(|agent, id| vec![agent.to_owned(), id.to_owned()]));
    let one = |id: &str| stage.until(&format!("/api/v1/sessions/{id}"), |one| (one["ending"] != "").then(|| one.clone()));
    // The agent says only on stderr why it did not start.
    let name = "2026-11-16T06-46-57Z-0a1b2c3d4e";
    let mut started = recorder(&stage, name);
    started.write_at(Stream::Stderr, b"error: no <such> option\n", Duration::from_millis(1));
    started.finish(&End { exit_code: Some(2), ..End::default() }).unwrap();
    row(&stage, |row| row["id"] == name && row["state"]["kind"] == "failed");
    let failed = one(name);
    let ending = failed["ending"].as_str().unwrap();
    let why = failed["state"]["message"].as_str().unwrap().replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    assert!(ending.contains(&why) && ending.contains("class=verdict>✗ "), "{failed}");
    assert_eq!(failed["resume"], serde_json::json!([]), "the name of a recording is no session");
    // One that the agent knows.
    let mut known = recorder(&stage, "2026-11-16T06-46-58Z-0a1b2c3d4e");
    known.write_at(Stream::Stdout, stream().as_bytes(), Duration::from_millis(1));
    let id = row(&stage, |row| row["state"]["kind"] == "finished")["id"].as_str().unwrap().to_owned();
    let running = stage.get(&format!("/api/v1/sessions/{id}")).json().unwrap();
    assert_eq!((&running["ending"], &running["resume"]), (&"".into(), &serde_json::json!(["claude", id])));
    known.finish(&End { exit_code: Some(0), ..End::default() }).unwrap();
    assert!(one(&id)["ending"].as_str().unwrap().contains("✓ success"));
}

#[test]
fn a_question_says_how_it_was_decided_before_the_call_has_its_result() {
    let stage = Stage::new();
    let mut recorder = recorder(&stage, "2026-11-16T06-46-57Z-0a1b2c3d4e");
    let asks = |n: u64| {
        format!(
            "{{\"type\":\"assistant\",\"session_id\":\"s-q\",\"message\":{{\"id\":\"m{n}\",\"role\":\"assistant\",\"content\":[{{\"type\":\"tool_use\",\"id\":\"t-{n}\",\"name\":\"Bash\",\"input\":{{\"command\":\"make {n}\"}}}}]}}}}\n\
             {{\"type\":\"control_request\",\"request_id\":\"q-{n}\",\"request\":{{\"subtype\":\"can_use_tool\",\"tool_name\":\"Bash\",\"input\":{{\"command\":\"make {n}\"}},\"tool_use_id\":\"t-{n}\"}}}}\n"
        )
    };
    for (n, ruling, word) in [(1, "allow", "✓</span> allowed"), (2, "deny", "✗</span> denied")] {
        recorder.write_at(Stream::Stdout, asks(n).as_bytes(), Duration::from_millis(n));
        // A run that has written nothing yet is waiting, too.
        let asked = row(&stage, |row| row["questions"].as_array().is_some_and(|asked| asked.len() == 1));
        assert_eq!(asked["state"]["kind"], "waiting", "{asked}");
        let steps = stage.get("/api/v1/sessions/s-q/steps").json().unwrap();
        assert!(steps.to_string().contains(&format!("asks for permission: Bash <code>make {n}")), "{steps}");
        let decision = serde_json::json!({"request_id": format!("q-{n}"), "tool": "Bash", "ruling": ruling, "by": "callback"});
        recorder.decide_at(&decision, Duration::from_millis(n));
        let decided = row(&stage, |row| row["state"]["kind"] == "running");
        assert_eq!(decided["questions"], serde_json::json!([]));
        let steps = stage.get("/api/v1/sessions/s-q/steps").json().unwrap().to_string();
        assert!(steps.contains(&format!("{word}: Bash <code>make {n}")) && !steps.contains("asks for"), "{steps}");
    }
}

#[test]
fn what_the_api_does_not_understand_is_refused_in_its_own_words() {
    let stage = Stage::new();
    let refused = |path: &str| {
        let answer = stage.get(path);
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad-request"), "{path}");
        assert!(answer.head.contains("content-type: application/json"), "{answer:?}");
        answer.json().unwrap()["error"]["message"].as_str().unwrap().to_owned()
    };
    let states = "waiting, limited, running, silent, failed, interrupted, finished, unknown";
    assert!(refused("/api/v1/sessions?state=nope").contains(states));
    assert!(refused("/api/v1/sessions?state=nope&limit=abc").contains("limit"));
    for path in ["sessions?limit=-1", "sessions?limit=1&limit=2", "sessions/x/steps?from=x", "search?limit=x", "sessions/%ff"] {
        refused(&format!("/api/v1/{path}"));
    }
    let answer = stage.post("/api/v1/ingest/run?title=a&title=b", &[], b"{}\n");
    assert_eq!((answer.status, answer.code().as_str()), (400, "bad-request"));
    // People get a sentence.
    let answer = stage.get("/open?ticket=a&ticket=b");
    assert_eq!(answer.status, 400);
}

#[test]
fn a_session_that_was_gone_on_with_has_its_first_title_its_whole_cost_and_its_earlier_runs() {
    let stage = Stage::new();
    let prompt = |text: &str| {
        format!(
            "{{\"type\":\"user\",\"session_id\":\"s-r\",\"parent_tool_use_id\":null,\"isReplay\":true,\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
        )
    };
    let result = |cost: f64| {
        format!(
            "{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"session_id\":\"s-r\",\"num_turns\":1,\"result\":\"ok\",\"total_cost_usd\":{cost},\
             \"usage\":{{\"input_tokens\":10,\"output_tokens\":5}},\"modelUsage\":{{\"claude-opus-5-5\":{{\"inputTokens\":10,\"outputTokens\":5,\"costUSD\":{cost}}}}}}}\n"
        )
    };
    let runs = ["2026-11-16T06-46-57Z-0a1b2c3d4e", "2026-11-16T07-46-57Z-0a1b2c3d4e"];
    for (name, text, cost) in [(runs[0], "start", 0.25), (runs[1], "go on", 0.5)] {
        let mut recorder = recorder(&stage, name);
        recorder.write_at(Stream::Stdout, (prompt(text) + &result(cost)).as_bytes(), Duration::from_millis(1));
        recorder.finish(&End { exit_code: Some(0), ..End::default() }).unwrap();
    }
    let shown = row(&stage, |row| row["id"] == "s-r" && row["earlier"].is_array() && row["cost_usd"] == 0.75);
    assert_eq!((shown["title"].as_str(), &shown["earlier"]), (Some("start"), &serde_json::json!([runs[0]])), "{shown}");
    let download = |run: &str| stage.get(&format!("/api/v1/sessions/s-r/download?format=jsonl{run}"));
    assert!(download("").body.contains("go on"));
    let earlier = download(&format!("&run={}", runs[0])).body;
    assert!(earlier.contains("start") && !earlier.contains("go on"), "{earlier}");
    assert_eq!(download("&run=..%2F..").code(), "bad-request");
}
