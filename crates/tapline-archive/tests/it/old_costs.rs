//! `costUSD`, which old versions of Claude Code wrote beside each answer: it counts where the session has no total.

use serde_json::{Value, json};
use tapline_archive::Index;
use tapline_testkit::TempFolder;

use crate::totals::{counted, fresh, update};

fn line(id: &str, model: &str, cost: &Value) -> String {
    let usage = json!({ "input_tokens": 1_000, "output_tokens": 100 });
    let content = json!([{ "type": "text", "text": "Done." }]);
    let message =
        json!({ "id": id, "type": "message", "role": "assistant", "model": model, "content": content, "usage": usage });
    let mut line = json!({
        "type": "assistant", "uuid": id, "parentUuid": null, "isSidechain": false, "userType": "external", "version": "0.2.100",
        "sessionId": "s-1", "timestamp": "2025-04-01T10:00:00Z", "cwd": "/home/dev/shop", "message": message,
    });
    if !cost.is_null() {
        line["costUSD"] = cost.clone();
    }
    line.to_string() + "\n"
}

fn costs(counted: &Value) -> [Option<f64>; 5] {
    let names = ["cost_usd", "cost_reported_usd", "cost_computed_usd", "cost_unknown"];
    let [cost, reported, computed, unknown] = names.map(|name| counted["totals"][name].as_f64());
    [cost, reported, computed, unknown, counted["damaged_lines"].as_f64()]
}

#[test]
fn an_answer_costs_what_its_own_line_says() {
    let folder = TempFolder::new();
    // By the table: 1,000 × $3 and 100 × $15 for a million.
    let known = "claude-3-7-sonnet-20250219";
    for (name, model, cost, expected) in [
        ("none", known, json!(null), [0.0045, 0.0, 0.0045, 0.0, 0.0]),
        ("its-own", known, json!(0.25), [0.25, 0.25, 0.0045, 0.0, 0.0]),
        ("no-price", "claude-0-secret", json!(0.25), [0.25, 0.25, 0.0, 0.0, 0.0]),
        ("nothing-is-no-price", "claude-0-secret", json!(0), [0.0, 0.0, 0.0, 1.0, 0.0]),
        ("cannot-be-true", known, json!(1e18), [0.0045, 0.0, 0.0045, 0.0, 1.0]),
        ("no-number", known, json!("free"), [0.0045, 0.0, 0.0045, 0.0, 0.0]),
    ] {
        let path = folder.write(&format!("{name}/s-1.jsonl"), line("msg_1", model, &cost));
        assert_eq!(costs(&fresh(&path)), expected.map(Some), "{name}");
    }
}

#[test]
fn an_answer_of_several_lines_counts_once_and_stays_in_the_index() {
    let folder = TempFolder::new();
    let text = line("msg_1", "claude-0-secret", &json!(0.25)).repeat(3) + &line("msg_2", "claude-0-secret", &json!(0.5));
    let path = folder.write("p/s-1.jsonl", text);
    folder.write("p/copy.jsonl", std::fs::read_to_string(&path).unwrap());
    let home = folder.join("home");
    let mut index = Index::open(&home).unwrap();
    update(&mut index, &folder.join("p"));
    drop(index);
    assert_eq!(costs(&counted(&Index::open(&home).unwrap())), [0.75, 0.75, 0.0, 0.0, 0.0].map(Some));
}

#[test]
fn the_total_of_the_session_is_better() {
    let folder = TempFolder::new();
    let total = json!({ "type": "cost-state", "sessionId": "s-1", "totalCostUSD": 2.0, "modelUsage": {} }).to_string() + "\n";
    let path = folder.write("p/s-1.jsonl", line("msg_1", "claude-3-7-sonnet-20250219", &json!(0.25)) + &total);
    assert_eq!(costs(&fresh(&path)), [2.0, 2.0, 0.0045, 0.0, 0.0].map(Some));
}
