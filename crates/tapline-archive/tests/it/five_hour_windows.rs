//! What is left of a window of five hours, as Claude Code's streams tell it (`rate_limit_event`, only for subscriptions).

use serde_json::{Value, json};
use tapline_archive::stats::{By, Query, stats};
use tapline_archive::{Index, Prices, Selection};
use tapline_testkit::TempFolder;

use crate::totals::{by, case, update};

/// The line of the catalogue of all events, about another limit.
fn event(kind: &str, status: &str, used: Option<f64>, resets: u64) -> String {
    let catalogue = std::fs::read_to_string(case("../events/claude-catalogue.jsonl")).unwrap();
    let line = catalogue.lines().find(|line| line.contains("\"rate_limit_event\"")).expect("the catalogue has one");
    let mut line: Value = serde_json::from_str(line).unwrap();
    let info = &mut line["rate_limit_info"];
    (info["rateLimitType"], info["status"], info["resetsAt"]) = (json!(kind), json!(status), json!(resets));
    match used {
        Some(used) => info["utilization"] = json!(used),
        None => drop(info.as_object_mut().unwrap().remove("utilization")),
    }
    line.to_string()
}

/// When the window ends, in seconds since 1970: 2026-11-16 20:00.
const ENDS: u64 = 1_794_859_200;
/// When the second line of the stream was written, in milliseconds since 1970.
const SECOND_LINE: u64 = 1_794_842_323_174;

/// The window of a real stream with other lines in it, each behind a line of the stream.
fn window(events: &[(usize, String)]) -> Value {
    let folder = TempFolder::new();
    let stream = std::fs::read_to_string(case("claude-error/stream.jsonl")).unwrap();
    let mut lines = String::new();
    for (at, line) in stream.lines().enumerate() {
        for (_, event) in events.iter().filter(|(before, _)| *before == at) {
            lines.push_str(event);
            lines.push('\n');
        }
        lines.push_str(line);
        lines.push('\n');
    }
    let path = folder.write("stream.jsonl", lines);
    let mut index = Index::in_memory().unwrap();
    update(&mut index, &path);
    let windows = by(&index, By::Block);
    assert_eq!(windows["rows"].as_array().unwrap().len(), 1, "{windows}");
    assert_eq!(windows["damaged_lines"], 0);
    windows["rows"][0].clone()
}

#[test]
fn what_is_left_is_what_the_last_event_says() {
    let five = |status: &str, used| event("five_hour", status, used, ENDS);
    let row = window(&[]);
    assert_eq!((&row["left"], &row["resets"]), (&Value::Null, &json!(ENDS * 1_000)));
    // The time is that of the line before, or else of the next one.
    for at in [0, 1, 2] {
        let row = window(&[(at, five("allowed_warning", Some(0.93)))]);
        assert_eq!(row["left"], json!({ "share": 1.0 - 0.93, "tokens": null, "as_of": SECOND_LINE }), "before line {at}");
        assert_eq!(row["resets"], ENDS * 1_000);
    }
    let row = window(&[(1, five("allowed", Some(0.25))), (3, five("allowed", Some(0.5)))]);
    assert_eq!(row["left"]["share"], 0.5);
    let row = window(&[(1, five("allowed", Some(0.25))), (3, five("rejected", None))]);
    assert_eq!(row["left"]["share"], 0.0);
}

#[test]
fn an_event_that_says_nothing_about_the_window_takes_nothing_back() {
    let used = (1, event("five_hour", "allowed", Some(0.25), ENDS));
    for (name, other) in [
        ("silent", event("five_hour", "allowed", None, ENDS)),
        ("week", event("seven_day", "allowed", Some(0.75), ENDS + 86_400)),
        ("model", event("seven_day_opus", "rejected", Some(1.0), ENDS)),
        ("empty", r#"{"type":"rate_limit_event","session_id":"s"}"#.to_owned()),
    ] {
        let row = window(&[used.clone(), (2, other.clone())]);
        assert_eq!((&row["left"]["share"], &row["resets"]), (&json!(0.75), &json!(ENDS * 1_000)), "{name}");
        let alone = window(&[(2, other)]);
        assert_eq!(alone["left"], Value::Null, "{name} alone: the share is not known");
    }
    // When it ends is known even so.
    let row = window(&[(2, event("five_hour", "allowed", None, ENDS - 1_800))]);
    assert_eq!((&row["left"], &row["resets"]), (&Value::Null, &json!((ENDS - 1_800) * 1_000)));
}

#[test]
fn rates_are_over_the_part_of_the_window_that_has_passed() {
    let folder = TempFolder::new();
    let line = |id: &str, time: &str| {
        json!({
            "type": "assistant", "uuid": id, "sessionId": "s", "timestamp": time,
            "message": {
                "id": id, "role": "assistant", "model": "claude-opus-5-5", "content": [],
                "usage": { "input_tokens": 60_000, "output_tokens": 0 },
            },
        })
        .to_string()
            + "\n"
    };
    // One request, and none for ninety minutes.
    folder.write("s.jsonl", line("m1", "2026-11-01T10:00:10Z") + &line("m2", "2026-11-01T10:00:11Z"));
    let mut index = Index::in_memory().unwrap();
    update(&mut index, &folder.join("s.jsonl"));
    let mut query = Query::default();
    query.by = By::Block;
    let start = 1_793_527_200_000;
    let block = |now: u64| {
        let mut query = query.clone();
        query.now = now;
        let found = stats(&index, Prices::embedded(), &Selection::default(), &query).unwrap();
        found.rows[0].block.clone().unwrap()
    };
    let is = |now: u64, rate: f64| (block(now).tokens_per_minute.unwrap() - rate).abs() < 1e-9;
    assert_eq!(block(start).start, start);
    assert!(is(start + 90 * 60_000, 120_000.0 / 90.0));
    assert!(is(start + 600 * 60_000, 120_000.0 / 300.0), "it is over");
    assert!(is(start + 30_000, 120_000.0), "less than a minute counts as one");
}
