//! Streams that were damaged on purpose: lines lost, doubled, cut, out of order, values of the wrong type. Whatever is left,
//! the report keeps to the contract. Seeded, so that every run tries the same; `scripts/test --all` tries more.

use std::collections::HashSet;

use serde_json::{Value, json};
use tapline_protocol::{Agent, InputFormat};
use tapline_session::Ending;
use tapline_testkit::mutations::{Dice, lines_of, mutate};
use tapline_testkit::{fixture, rounds};

use crate::read_stream::tell;
use crate::round_trip::reads_back;

const STREAMS: &[&str] = &[
    "claude-1.0.128/tools.jsonl",
    "claude-2.0.76/tools-partial.jsonl",
    "claude-2.1.325/tools.jsonl",
    "claude-2.1.325/tools-denied.jsonl",
    "claude-2.1.325/subagent.jsonl",
    "claude-2.1.325/multi.jsonl",
    "claude-2.1.325/rate.jsonl",
    "claude-2.1.325/maxturns.jsonl",
    "claude-2.1.325/ask.jsonl",
    "codex-0.166.0/tools.jsonl",
    "codex-0.166.0/auth.jsonl",
    "events/claude-catalogue.jsonl",
    "events/codex-catalogue.jsonl",
    "events/older-shapes.jsonl",
];

fn list<'v>(value: &'v Value, path: &str) -> Vec<&'v Value> {
    value.pointer(path).and_then(Value::as_array).into_iter().flatten().collect()
}

fn report(bytes: &[u8], chunk: usize, agent: Option<Agent>) -> Value {
    let ending = Ending { exit_code: Some(0), ..Ending::default() };
    let told = tell(bytes, chunk, InputFormat::Lines, agent, &ending);
    reads_back(&told);
    serde_json::from_str(&told.report.to_json()).unwrap()
}

/// What must hold, whatever the stream.
fn keeps_the_contract(report: &Value, bytes: &[u8], agent: Option<Agent>) {
    let verdict = &report["verdict"];
    let (turns, calls) = (list(report, "/turns"), list(report, "/tools/calls"));
    let (last, succeeded) = (turns.last(), verdict["outcome"] == "success");
    if succeeded {
        assert!(last.is_some_and(|turn| turn["failed"] == false) && verdict["error"].is_null());
        assert_ne!(report["agent"], "unknown");
    } else {
        assert_eq!((&verdict["clean"], verdict["category"].is_null()), (&json!(false), false));
    }
    if calls.iter().any(|call| call["status"] == "denied") || turns.iter().any(|turn| turn["failed"] == true) {
        assert_eq!(verdict["clean"], false);
    }
    if report["agent"] == "claude" && last.is_some_and(|turn| turn["failed"] == true) {
        assert_eq!(report["answer"], "", "an answer of a failed turn");
    }
    let ledger = &report["ledger"];
    if ledger["exact"] == true && ledger["basis"] == "results" && report["agent"] == "claude" {
        assert!(turns.iter().any(|turn| turn["model_usage"].is_object()), "exact without a total by model");
    }
    assert!(ledger["exact"] == false || ledger["basis"] == "results" || ledger["basis"] == "deltas");
    let costs: Vec<_> = turns.iter().filter_map(|turn| turn["cost_usd"].as_f64()).collect();
    if let Some(total) = ledger["cost_usd"].as_f64().filter(|total| total.abs() < 1e6) {
        assert!((costs.iter().sum::<f64>() - total).abs() < 1e-6, "{costs:?} are not {total}");
    }
    let lines = &report["stream"]["lines"];
    let sum: u64 = ["objects", "malformed", "non_object", "blank"].iter().map(|kind| lines[kind].as_u64().unwrap()).sum();
    assert_eq!(lines["total"].as_u64().unwrap(), sum);

    // What the lines themselves say, read by somebody else. Sure only where nobody reads them as another agent's.
    if agent != Some(Agent::Claude) {
        return;
    }
    let events: Vec<Value> = bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let mut denied = HashSet::new();
    let mut answers = 0;
    for event in &events {
        if event["type"] == "system" && event["subtype"] == "permission_denied" {
            denied.extend(event["tool_use_id"].as_str());
        } else if event["type"] == "result" {
            denied.extend(list(event, "/permission_denials").iter().filter_map(|denial| denial["tool_use_id"].as_str()));
        } else if event["type"] == "user" {
            answers += list(event, "/message/content").iter().filter(|block| block["type"] == "tool_result").count();
        }
    }
    for call in &calls {
        let id = call["id"].as_str().filter(|id| denied.contains(id));
        assert!(id.is_none() || call["status"] == "denied", "a denied call: {call}");
    }
    if events.iter().all(|event| event["type"] != "tool_result" && !event["messages"].is_array()) {
        let answered = calls.iter().filter(|call| !call["result"].is_null()).count();
        assert!(answered + list(report, "/tools/orphan_results").len() >= answers, "a result was dropped");
    }
}

#[test]
fn damaged_streams_keep_the_contract() {
    let count = rounds(200_u64, 10_000);
    let streams: Vec<Vec<Vec<u8>>> = STREAMS.iter().map(|name| lines_of(&std::fs::read(fixture(name)).unwrap())).collect();
    let all: Vec<Vec<u8>> = streams.concat();
    for seed in 1..=count {
        let mut dice = Dice::new(seed);
        let which = dice.roll(STREAMS.len());
        let mut lines = streams[which].clone();
        for _ in 0..=dice.roll(4) {
            mutate(&mut lines, &all, &mut dice);
        }
        let bytes = lines.join(&b"\n"[..]);
        let agent = [None, Some(if STREAMS[which].contains("codex") { Agent::Codex } else { Agent::Claude })][dice.roll(2)];
        let shown = || format!("seed {seed}, {}:\n{}", STREAMS[which], String::from_utf8_lossy(&bytes));
        let whole = report(&bytes, 1 << 20, agent);
        let checked = std::panic::catch_unwind(|| keeps_the_contract(&whole, &bytes, agent));
        assert!(checked.is_ok(), "{}", shown());
        // However it comes, and however its lines end, it says the same.
        let mut parts = report(&bytes, 1 + dice.roll(200), agent);
        assert_eq!(whole, parts, "{}", shown());
        let windows = [b"\xEF\xBB\xBF", lines.join(&b"\r\n"[..]).as_slice(), b"\r\n"].concat();
        parts = report(&windows, 1 << 20, agent);
        let truncated = whole["verdict"]["warnings"].to_string().contains("truncated-tail");
        if !bytes.is_empty() && !truncated && !lines.iter().any(|line| line.starts_with(b"\xff") || line.is_empty()) {
            parts["stream"]["bytes"] = whole["stream"]["bytes"].clone();
            assert_eq!(whole, parts, "line ends: {}", shown());
        }
    }
}
