//! Streams that others push.

use tapline_recording::{Meta, Recorder, Stream, Sync};
use tapline_server::Budget;

use crate::stage::{Stage, TOKEN};

fn line(text: &str) -> String {
    format!(
        "{{\"type\":\"assistant\",\"session_id\":\"pushed-1\",\"message\":{{\"role\":\"assistant\",\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}}}\n"
    )
}

fn offset(stage: &Stage, at: Option<usize>, bytes: &str) -> (u16, u64) {
    let at = at.map(|at| at.to_string());
    let headers: Vec<(&str, &str)> = at.iter().map(|at| ("Tapline-Offset", at.as_str())).collect();
    let answer = stage.post("/api/v1/ingest/run-1", &headers, bytes.as_bytes());
    let json = answer.json().unwrap();
    let offset = json["offset"].as_u64().or_else(|| json["error"]["offset"].as_u64());
    (answer.status, offset.unwrap_or_else(|| panic!("{answer:?}")))
}

#[test]
fn bytes_have_offsets() {
    let stage = Stage::new();
    let (one, two) = (line("one"), line("two"));
    let (first, both) = (one.len() as u64, (one.len() + two.len()) as u64);
    assert_eq!(offset(&stage, Some(0), &one), (200, first));
    assert_eq!(offset(&stage, Some(0), &one), (200, first), "again");
    assert_eq!(offset(&stage, Some(one.len() + 5), &two), (409, first), "a gap");
    assert_eq!(offset(&stage, Some(0), &(one.clone() + &two)), (200, both), "some again, some new");
    assert_eq!(offset(&stage, Some(3), "other"), (409, both), "other bytes");
    assert_eq!(offset(&stage, None, &line("three")), (200, both + line("three").len() as u64), "at the end");
    let whole = one + &two + &line("three");
    let row = stage.until("/api/v1/sessions/pushed-1", |row| (row["steps"] == 3).then(|| row.clone()));
    assert_eq!((row["source"].as_str(), row["state"]["kind"].as_str()), (Some("push"), Some("running")));
    let folder = stage.path("home/recordings").read_dir().unwrap().next().unwrap().unwrap().path();
    assert_eq!(std::fs::read_to_string(folder.join("stdout")).unwrap(), whole);
    let mode = std::os::unix::fs::PermissionsExt::mode(&folder.join("push.json").metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);

    let end = stage.post("/api/v1/ingest/run-1/finish", &[], b"{\"exit_code\":3}");
    assert_eq!(end.status, 200, "{end:?}");
    assert_eq!(stage.post("/api/v1/ingest/run-1/finish", &[], b"{\"exit_code\":3}").status, 200, "again");
    stage.until("/api/v1/sessions/pushed-1", |row| {
        (row["state"]["kind"] == "failed" && row["verdict"]["exit"]["code"] == 3).then_some(())
    });
    assert_eq!(offset(&stage, Some(0), &whole), (200, whole.len() as u64), "again after the end");
    assert_eq!(offset(&stage, None, &line("four")).0, 409, "more after the end");
    assert_eq!(stage.get("/api/v1/sessions/pushed-1/steps").json().unwrap()["total"], 3);
}

#[test]
fn a_packed_body_is_refused() {
    let stage = Stage::new();
    let gzip = b"\x1f\x8b\x08\0\0\0\0\0\x02\xff\xab\xae\xe5\x02\0\x57\xea\x33\x91\x03\0\0\0";
    for coding in ["gzip", "zstd", "identity, gzip", "br", "x-odd"] {
        for path in ["/api/v1/ingest/run-1", "/api/v1/ingest/run-1/finish"] {
            let answer = stage.post(path, &[("Content-Encoding", coding)], gzip);
            assert_eq!((answer.status, answer.code().as_str()), (415, "packed"), "{coding} {path}");
        }
    }
    assert!(stage.path("home/recordings").read_dir().map_or(0, Iterator::count) == 0, "nothing of it is kept");
    let answer = stage.post("/api/v1/ingest/run-1", &[("Content-Encoding", "Identity")], line("one").as_bytes());
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[test]
fn a_new_server_goes_on_where_the_old_one_was() {
    let first = Stage::new();
    let (one, two) = (line("one"), line("two"));
    assert_eq!(offset(&first, Some(0), &one).0, 200);
    let folder = std::sync::Arc::clone(&first.folder);
    drop(first);
    let second = Stage::at(folder, |_| {});
    assert_eq!(offset(&second, Some(0), &(one.clone() + &two)), (200, (one.len() + two.len()) as u64));
    assert_eq!(second.path("home/recordings").read_dir().unwrap().count(), 1);
    second.until("/api/v1/sessions/pushed-1", |row| (row["steps"] == 2).then_some(()));
}

/// Records a session here. By its name, the recording is older than what is pushed.
fn record(stage: &Stage) -> Recorder {
    let meta = Meta { started_at: Some(jiff::Timestamp::now().to_string()), ..Meta::default() };
    let mut recorder =
        Recorder::create(&stage.path("home/recordings/2026-11-16T06-46-57Z-0a1b2c3d4e"), &meta, Sync::EverySecond).unwrap();
    recorder.write_at(Stream::Stdout, line("mine").as_bytes(), std::time::Duration::from_millis(1));
    recorder
}

#[test]
fn what_is_pushed_does_not_hide_what_is_here() {
    let stage = Stage::new();
    let _recorder = record(&stage);
    stage.until("/api/v1/sessions/pushed-1", |row| (row["steps"] == 1).then_some(()));
    assert_eq!(offset(&stage, Some(0), &line("theirs")).0, 200);
    let sources = |list: &serde_json::Value| {
        let rows = list["sessions"].as_array()?;
        (rows.len() == 2).then(|| rows.iter().map(|row| (row["id"].clone(), row["source"].clone())).collect::<Vec<_>>())
    };
    let rows = stage.until("/api/v1/sessions", sources);
    assert!(rows.contains(&("pushed-1".into(), "recording".into())), "{rows:?}");
    assert!(rows.iter().any(|(id, source)| source == "push" && id != "pushed-1"), "{rows:?}");
}

#[test]
fn what_is_here_is_shown_even_if_it_was_pushed_before() {
    let stage = Stage::new();
    assert_eq!(offset(&stage, Some(0), &line("theirs")).0, 200);
    stage.until("/api/v1/sessions/pushed-1", |row| (row["source"] == "push" && row["steps"] == 1).then_some(()));
    let mut events = stage.events("/api/v1/events", None);
    events.until(|name, _| (name == "snapshot").then_some(()));
    let _recorder = record(&stage);
    stage.until("/api/v1/sessions/pushed-1", |row| (row["source"] == "recording" && row["steps"] == 1).then_some(()));
    let both = |list: &serde_json::Value| {
        let rows = list["sessions"].as_array()?;
        let has = |source: &str, is_named: bool| {
            rows.iter().any(|row| row["source"] == source && (row["id"] == "pushed-1") == is_named)
        };
        (rows.len() == 2 && has("recording", true) && has("push", false)).then_some(())
    };
    stage.until("/api/v1/sessions", both);
    // The page is not told that the session is gone when the pushed one gets another name.
    events.until(|name, data| {
        assert!(name != "gone" || data["id"] != "pushed-1", "{data}");
        (name == "session" && data["source"] == "push" && data["id"] != "pushed-1").then_some(())
    });
}

#[test]
fn counts_that_are_too_large_break_nothing() {
    let stage = Stage::new();
    let most = u64::MAX;
    let huge = format!(
        "{{\"type\":\"assistant\",\"session_id\":\"pushed-1\",\"message\":{{\"id\":\"m\",\"model\":\"m\",\"role\":\"assistant\",\"content\":[{{\"type\":\"text\",\"text\":\"x\"}}],\"usage\":{{\"input_tokens\":{most},\"cache_read_input_tokens\":{most},\"cache_creation_input_tokens\":{most},\"output_tokens\":{most}}}}}}}\n"
    );
    assert_eq!(offset(&stage, Some(0), &huge).0, 200);
    stage.until("/api/v1/sessions/pushed-1", |row| (row["steps"] == 1).then_some(()));
    assert_eq!(stage.post("/api/v1/ingest/run-2", &[], huge.replace("pushed-1", "pushed-2").as_bytes()).status, 200);
    stage.until("/api/v1/sessions/pushed-2", |row| (row["steps"] == 1).then_some(()));
    let metrics = stage.get("/metrics");
    assert!(metrics.status == 200 && metrics.body.contains("tapline_broken_sessions_total 0"), "{metrics:?}");
    assert_eq!(stage.get("/readyz").status, 200);
}

#[test]
fn what_is_wrong_is_refused() {
    let stage = Stage::new();
    for name in ["-x", ".x", "a%20b", "a%2fb", &"x".repeat(200)] {
        let answer = stage.post(&format!("/api/v1/ingest/{name}"), &[], b"{}\n");
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad-name"), "{name}");
    }
    assert_eq!(stage.post("/api/v1/ingest/x", &[("Tapline-Offset", "many")], b"{}\n").status, 400);
    assert_eq!(stage.post("/api/v1/ingest/x/finish", &[], b"nonsense").status, 400);
    let unknown = stage.post("/api/v1/ingest/x/finish", &[], b"{}");
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "no-run"));
    let late = stage.post("/api/v1/ingest/x", &[("Tapline-Offset", "5")], b"{}\n");
    assert_eq!((late.status, late.code().as_str()), (409, "gap"));
    assert_eq!(stage.ask("POST", "/api/v1/ingest/x", &[("Authorization", &format!("Bearer {TOKEN}x"))], b"{}\n").status, 401);
    assert!(!stage.path("home/recordings").read_dir().unwrap().any(|_| true), "nothing was kept");
}

#[test]
fn a_run_that_ended_stays_ended() {
    let first = Stage::new();
    let one = line("one");
    assert_eq!(offset(&first, Some(0), &one).0, 200);
    assert_eq!(first.post("/api/v1/ingest/run-1/finish", &[], b"").status, 200);
    let folder = std::sync::Arc::clone(&first.folder);
    drop(first);
    let second = Stage::at(folder, |_| {});
    assert_eq!(offset(&second, Some(0), &one), (200, one.len() as u64), "again");
    assert_eq!(offset(&second, Some(one.len()), &line("two")), (409, one.len() as u64), "late");
    assert_eq!(second.post("/api/v1/ingest/run-1", &[], b"{}\n").code(), "ended");
    assert_eq!(second.post("/api/v1/ingest/run-1/finish", &[], b"").status, 200);
    assert_eq!(second.path("home/recordings").read_dir().unwrap().count(), 1);
}

#[test]
fn only_one_of_two_servers_keeps_what_is_pushed() {
    let first = Stage::new();
    let (one, two) = (line("one"), line("two"));
    assert_eq!(offset(&first, Some(0), &one).0, 200);
    let second = Stage::at(std::sync::Arc::clone(&first.folder), |_| {});
    let refused = second.post("/api/v1/ingest/run-1", &[("Tapline-Offset", &one.len().to_string())], two.as_bytes());
    assert_eq!((refused.status, refused.code().as_str()), (503, "elsewhere"));
    assert_eq!(second.post("/api/v1/ingest/run-1/finish", &[], b"").code(), "elsewhere");
    // It shows everything all the same.
    second.until("/api/v1/sessions/pushed-1", |row| (row["steps"] == 1).then_some(()));
    assert_eq!(offset(&first, Some(one.len()), &two), (200, (one.len() + two.len()) as u64));
    drop(first);
    // The other one has ended.
    assert_eq!(offset(&second, Some(0), &(one + &two + &line("three"))).0, 200);
    second.until("/api/v1/sessions/pushed-1", |row| (row["steps"] == 3).then_some(()));
    assert_eq!(second.path("home/recordings").read_dir().unwrap().count(), 1);
}

#[test]
fn nothing_is_acknowledged_into_a_recording_that_was_deleted() {
    let stage = Stage::new();
    let (one, two) = (line("one"), line("two"));
    let delete = || {
        let folder = stage.path("home/recordings").read_dir().unwrap().next().unwrap().unwrap().path();
        std::fs::remove_dir_all(&folder).unwrap();
    };
    // Its files are open, because it has not ended.
    assert_eq!(offset(&stage, Some(0), &one).0, 200);
    delete();
    assert_eq!(offset(&stage, Some(one.len()), &two), (409, 0), "more");
    assert_eq!(offset(&stage, Some(0), &one), (200, one.len() as u64));
    delete();
    assert_eq!(offset(&stage, Some(0), &one), (409, 0), "again");
    assert_eq!(offset(&stage, Some(0), &one), (200, one.len() as u64));
    delete();
    let end = stage.post("/api/v1/ingest/run-1/finish", &[], b"");
    assert_eq!((end.status, end.code().as_str()), (409, "gap"), "{end:?}");
    assert_eq!(offset(&stage, Some(0), &(one.clone() + &two)), (200, (one.len() + two.len()) as u64));
    let folder = stage.path("home/recordings").read_dir().unwrap().next().unwrap().unwrap().path();
    assert_eq!(std::fs::read_to_string(folder.join("stdout")).unwrap(), one + &two);
}

#[test]
fn a_run_whose_recording_was_deleted_begins_again() {
    let stage = Stage::new();
    let (one, two) = (line("one"), line("two"));
    assert_eq!(offset(&stage, Some(0), &one).0, 200);
    assert_eq!(stage.post("/api/v1/ingest/run-1/finish", &[], b"").status, 200);
    let folder = stage.path("home/recordings").read_dir().unwrap().next().unwrap().unwrap().path();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(offset(&stage, Some(one.len()), &two), (409, 0));
    assert_eq!(offset(&stage, Some(0), &one), (200, one.len() as u64));
}

#[test]
fn figures_that_cannot_be_true_use_up_no_budget() {
    let stage = Stage::with(|options| options.budgets = vec![Budget { project: None, usd: 10.0 }]);
    let figures = [("1e308", "7"), ("-5000", "7"), ("0.25", "1e19"), ("0.25", "-7"), ("0.25", "7")];
    for (at, (cost, tokens)) in figures.iter().enumerate() {
        let is_true = |figure: &str| ["0.25", "7"].contains(&figure);
        let id = format!("pushed-{at}");
        let lines = format!(
            "{{\"type\":\"assistant\",\"session_id\":\"{id}\",\"message\":{{\"id\":\"m-{at}\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"usage\":{{\"input_tokens\":7,\"output_tokens\":1}}}}}}\n\
             {{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"ok\",\"session_id\":\"{id}\",\"total_cost_usd\":{cost},\
             \"usage\":{{\"input_tokens\":{tokens},\"output_tokens\":1}},\"modelUsage\":{{\"m\":{{\"inputTokens\":{tokens},\"outputTokens\":1,\"costUSD\":{cost}}}}}}}\n"
        );
        assert_eq!(stage.post(&format!("/api/v1/ingest/run-{at}"), &[], lines.as_bytes()).status, 200);
        assert_eq!(stage.post(&format!("/api/v1/ingest/run-{at}/finish"), &[], b"{\"exit_code\":0}").status, 200);
        let row =
            stage.until(&format!("/api/v1/sessions/{id}"), |row| (row["verdict"]["exit"]["code"] == 0).then(|| row.clone()));
        assert_eq!(row["cost_usd"].as_f64(), is_true(cost).then_some(0.25), "{row}");
        assert_eq!(row["tokens"]["input"], if is_true(tokens) { 7 } else { 0 }, "{row}");
        let warnings = row["verdict"]["warnings"].as_array().unwrap();
        let named = warnings.iter().any(|warning| warning["code"] == "implausible-figure");
        assert_eq!(named, !is_true(cost) || !is_true(tokens), "{row}");
    }
    let costs = stage.until("/api/v1/costs?last=1d", |costs| (costs["totals"]["sessions"] == 5).then(|| costs.clone()));
    assert_eq!(costs["totals"]["cost_usd"], 0.75, "{costs}");
    assert_eq!(costs["damaged_files"].as_array().unwrap().len(), 4, "{costs}");
    assert_eq!((&costs["budgets"][0]["spent_usd"], &costs["budgets"][0]["level"]), (&0.75.into(), &"fine".into()), "{costs}");
    let metrics = stage.get("/metrics").body;
    assert!(metrics.contains("tapline_budget_used_usd 0.75\n"), "{metrics}");
}
