//! Requests behind a message that its own counts leave out: compactions by the API, and advisors, which may be other models.

use serde_json::json;
use tapline_archive::stats::By;
use tapline_archive::{Index, report};
use tapline_testkit::TempFolder;

use crate::totals::{by, fresh, tokens, update};

fn line(iterations: &serde_json::Value) -> String {
    let usage = json!({
        "input_tokens": 20, "output_tokens": 10, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "iterations": iterations,
    });
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5",
        "content": [{ "type": "text", "text": "Done." }], "stop_reason": "end_turn", "usage": usage,
    });
    json!({
        "type": "assistant", "uuid": "u-1", "parentUuid": null, "isSidechain": false, "userType": "external", "version": "2.1.325", "sessionId": "s-1",
        "timestamp": "2026-11-01T10:00:00Z", "cwd": "/home/dev/shop", "message": message,
    })
    .to_string()
        + "\n"
}

fn request(kind: &str, input: u64, output: u64) -> serde_json::Value {
    json!({ "type": kind, "input_tokens": input, "output_tokens": output, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0 })
}

#[test]
fn a_compaction_and_an_advisor_count_once_and_for_their_model() {
    let folder = TempFolder::new();
    let mut advisor = request("advisor_message", 1_900, 100);
    advisor["model"] = json!("claude-fable-1");
    let all = json!([request("compaction", 96_000, 4_000), request("message", 20, 10), advisor]);
    // A message has a line for each of its blocks.
    folder.write("p/s-1.jsonl", line(&all).repeat(3));
    let path = folder.join("p");
    assert_eq!(tokens(&fresh(&path)), [97_920, 4_110, 0, 0]);
    let mut index = Index::in_memory().unwrap();
    update(&mut index, &path);
    let models = by(&index, By::Model);
    let of = |model: &str| {
        let row = models["rows"].as_array().unwrap().iter().find(|row| row["key"] == model);
        row.map(|row| (row["input"].as_u64(), row["requests"].as_u64()))
    };
    assert_eq!(of("claude-opus-5-5"), Some((Some(96_020), Some(2))), "{models}");
    assert_eq!(of("claude-fable-1"), Some((Some(1_900), Some(1))), "{models}");
    let report = report(path.join("s-1.jsonl")).unwrap();
    assert_eq!(report.ledger.tokens.total(), 102_030, "the report agrees");
}

#[test]
fn a_message_that_is_one_request_counts_as_before() {
    let folder = TempFolder::new();
    for (name, iterations) in [("none", json!([])), ("one", json!([request("message", 20, 10)])), ("odd", json!({ "type": 5 }))]
    {
        folder.write(&format!("{name}/s-1.jsonl"), line(&iterations));
        assert_eq!(tokens(&fresh(&folder.join(name))), [20, 10, 0, 0], "{name}");
    }
}

#[test]
fn a_byte_order_mark_loses_no_line() {
    let folder = TempFolder::new();
    folder.write("p/s-1.jsonl", format!("\u{feff}{}", line(&json!([]))));
    // Without its last newline, too.
    folder.write("q/s-1.jsonl", format!("\u{feff}{}", line(&json!([])).trim_end()));
    for name in ["p", "q"] {
        assert_eq!(tokens(&fresh(&folder.join(name))), [20, 10, 0, 0], "{name}");
    }
}
