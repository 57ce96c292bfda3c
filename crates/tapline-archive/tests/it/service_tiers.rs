//! Service tiers of Codex: requests cost what the model's row says for the tier, and what nobody knows stays unpriced.

use std::path::Path;

use serde_json::{Value, json};
use tapline_archive::Index;
use tapline_testkit::TempFolder;
use tapline_testkit::files::append;

use crate::totals::{counted, fresh, update};

fn line(second: u32, kind: &str, payload: &Value) -> String {
    let time = format!("2026-11-16T15:{:02}:{:02}Z", second / 60, second % 60);
    json!({ "timestamp": time, "type": kind, "payload": payload }).to_string() + "\n"
}

fn head(model: &str) -> String {
    line(0, "session_meta", &json!({ "id": "s-1", "cwd": "/home/dev/shop", "cli_version": "0.166.0" }))
        + &line(0, "turn_context", &json!({ "model": model, "cwd": "/home/dev/shop" }))
}

fn settings(tier: &Value) -> String {
    let settings = json!({ "model": "m", "service_tier": tier });
    line(1, "event_msg", &json!({ "type": "thread_settings_applied", "thread_settings": settings }))
}

/// A request with 100,000 tokens of input.
fn request(number: u32) -> String {
    let usage = json!({ "input_tokens": 100_000, "output_tokens": 0 });
    line(2 + number, "token_usage_record", &json!({ "response_id": format!("resp_{number}"), "usage": usage }))
}

fn usd(path: &Path) -> (f64, u64, Value) {
    let counted = fresh(path);
    let totals = &counted["totals"];
    (totals["cost_usd"].as_f64().unwrap(), totals["cost_unknown"].as_u64().unwrap(), counted["unknown_models"].clone())
}

#[test]
fn a_request_costs_what_its_tier_costs() {
    let folder = TempFolder::new();
    let none = json!([]);
    for (at, (model, tier, expected)) in [
        ("gpt-6.1-sol", json!(null), (0.2, 0, none.clone())),
        ("gpt-6.1-sol", json!("default"), (0.2, 0, none.clone())),
        ("gpt-6.1-sol", json!("priority"), (0.4, 0, none.clone())),
        ("gpt-6.1-sol", json!("fast"), (0.4, 0, none.clone())),
        ("gpt-6.1-sol", json!("ultrafast"), (1.2, 0, none.clone())),
        ("gpt-6.1-sol", json!("flex"), (0.1, 0, none)),
        ("gpt-6-sol", json!("ultrafast"), (0.0, 1, json!(["gpt-6-sol at its service tier"]))),
        ("gpt-6.1-sol", json!("scale"), (0.0, 1, json!(["gpt-6.1-sol at its service tier"]))),
    ]
    .into_iter()
    .enumerate()
    {
        let path = folder.write(&format!("{at}/rollout-1.jsonl"), head(model) + &settings(&tier) + &request(1));
        assert_eq!(usd(&path), expected, "{model} {tier}");
    }
}

#[test]
fn totals_have_a_tier_too_and_it_changes_on_the_way() {
    let folder = TempFolder::new();
    let total = |number: u32| {
        let last = json!({ "input_tokens": 100_000 });
        let info = json!({ "total_token_usage": { "input_tokens": 100_000 * number }, "last_token_usage": last });
        line(2 + number, "event_msg", &json!({ "type": "token_count", "info": info }))
    };
    for (name, count) in [("records", &request as &dyn Fn(u32) -> String), ("totals", &total)] {
        let text =
            head("gpt-6.1-sol") + &count(1) + &settings(&json!("priority")) + &count(2) + &settings(&json!(null)) + &count(3);
        let path = folder.write(&format!("{name}/rollout-1.jsonl"), text);
        assert_eq!(usd(&path), (0.8, 0, json!([])), "{name}");
    }
}

#[test]
fn a_file_that_is_read_in_parts_keeps_its_tier() {
    let folder = TempFolder::new();
    // More than two parts of 8 MB: the tier is in the first one only, then again in the last one.
    let filler = line(2, "token_usage_record", &json!({ "text": "x".repeat(1 << 20) })).repeat(12);
    let text = head("gpt-6.1-sol") + &settings(&json!("ultrafast")) + &request(1) + &filler + &request(2) + &filler;
    let path = folder.write("p/rollout-1.jsonl", text + &request(3) + &settings(&json!("flex")) + &request(4));
    assert_eq!(usd(&path), (3.7, 0, json!([])));
    let mut index = Index::in_memory().unwrap();
    update(&mut index, &path);
    append(&path, request(5).as_bytes());
    update(&mut index, &path);
    assert_eq!(counted(&index)["totals"]["cost_usd"].as_f64(), Some(3.8), "the index goes on with the tier");
}
