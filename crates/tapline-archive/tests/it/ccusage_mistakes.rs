//! What other programs that count transcripts get wrong (each was seen in ccusage 20.0.24): it is right here.

use std::path::PathBuf;

use serde_json::{Value, json};
use tapline_archive::stats::By;
use tapline_archive::{Index, Money};
use tapline_testkit::TempFolder;

use crate::totals::{by, case, counted, fresh, tokens, transcripts, update};

/// A line of a transcript, as Claude Code writes it: one answer.
fn answer(id: &str, usage: &Value) -> Value {
    json!({
        "parentUuid": null, "isSidechain": false, "type": "assistant", "uuid": format!("u-{id}"), "requestId": format!("req_{id}"),
        "timestamp": "2026-11-16T10:00:00.000Z", "cwd": "/home/dev/app", "sessionId": "s-1", "version": "2.1.325", "gitBranch": "main",
        "message": {
            "id": id, "type": "message", "role": "assistant", "model": "claude-opus-5-5", "stop_reason": "end_turn",
            "content": [{ "type": "text", "text": "Hello." }], "usage": usage,
        },
    })
}

fn usage() -> Value {
    json!({ "input_tokens": 1_000, "output_tokens": 100, "cache_read_input_tokens": 10_000, "cache_creation_input_tokens": 0 })
}

/// Counts a transcript of these lines.
fn count(lines: &[String]) -> Value {
    let folder = TempFolder::new();
    fresh(&folder.write("a.jsonl", lines.join("\n") + "\n"))
}

fn cost(counted: &Value) -> Money {
    Money::from_usd(counted["totals"]["cost_usd"].as_f64().unwrap())
}

/// Millionths of a dollar: tokens times dollars for a million of them.
fn micro(dollars: f64) -> Money {
    Money::from_usd(dollars / 1e6)
}

#[test]
fn a_null_anywhere_in_a_line_does_not_drop_its_message() {
    let plain = answer("m1", &usage());
    let mut with_speed = plain.clone();
    with_speed["message"]["usage"]["speed"] = Value::Null;
    let mut with_model = plain.clone();
    // As in the input of a tool.
    with_model["message"]["content"] = json!([{ "type": "tool_use", "id": "t", "name": "Task", "input": { "model": null } }]);
    let mut elsewhere = plain.clone();
    elsewhere["model"] = Value::Null;
    elsewhere["message"]["usage"]["server_tool_use"] = Value::Null;
    elsewhere["message"]["usage"]["cache_creation"] = Value::Null;
    for line in [&plain, &with_speed, &with_model, &elsewhere] {
        assert_eq!(tokens(&count(&[line.to_string()])), [1_000, 100, 10_000, 0], "{line}");
    }
}

#[test]
fn blanks_in_a_line_do_not_drop_its_message() {
    let line = answer("m1", &usage()).to_string();
    let spaced = line.replace(':', ": ").replace(',', " , ");
    let tabbed = line.replace("\"usage\":", "\"usage\"\t: ");
    for line in [spaced, tabbed] {
        assert_eq!(tokens(&count(std::slice::from_ref(&line))), [1_000, 100, 10_000, 0], "{line}");
    }
}

#[test]
fn all_reports_agree_about_replays() {
    // Sessions that were resumed and forked, a side question, sub-agents: all of them replay messages.
    for name in
        ["claude-fork", "claude-subagents", "claude-side-question", "claude-2.0.76", "claude-2.1.200", "codex-subagents"]
    {
        let mut index = Index::in_memory().unwrap();
        update(&mut index, &case(name));
        let day = by(&index, By::Day);
        let ways = [
            By::Week,
            By::Month,
            By::Hour,
            By::Session,
            By::Project,
            By::Model,
            By::Agent,
            By::Tool,
            By::Subagent,
            By::Branch,
            By::Block,
        ];
        for way in ways {
            let other = by(&index, way);
            assert_eq!(other["totals"], day["totals"], "{name}, {way:?}");
            for key in [
                "input",
                "output",
                "cache_read",
                "cache_write",
                "cache_write_1h",
                "tokens",
                "requests",
                "calls",
                "cost_unknown",
                "web_searches",
            ] {
                let sum: u64 = other["rows"].as_array().unwrap().iter().map(|row| row[key].as_u64().unwrap()).sum();
                assert_eq!(sum, other["totals"][key].as_u64().unwrap(), "{name}, {way:?}, {key}");
            }
            let sum: Money =
                other["rows"].as_array().unwrap().iter().map(|row| Money::from_usd(row["cost_usd"].as_f64().unwrap())).sum();
            assert_eq!(sum, cost(&other), "{name}, {way:?}");
        }
    }
}

#[test]
fn a_replay_in_another_file_is_no_new_cost() {
    let folder = TempFolder::new();
    let first = answer("m1", &usage());
    let mut replay = first.clone();
    replay["sessionId"] = json!("s-2");
    replay["timestamp"] = json!("2026-11-18T10:00:00.000Z");
    replay["isSidechain"] = json!(true);
    // Another day, another cache count, and no request id: as behind a proxy.
    replay["message"]["usage"]["cache_read_input_tokens"] = json!(9_000);
    replay.as_object_mut().unwrap().remove("requestId");
    let once = fresh(&folder.write("a/a.jsonl", first.to_string() + "\n"));
    folder.write("a/b.jsonl", replay.to_string() + "\n");
    let both = fresh(&folder.join("a"));
    assert_eq!(both["totals"], once["totals"]);
    assert_eq!(both["rows"].as_array().unwrap().len(), 1, "{both}");
}

#[test]
fn web_searches_and_the_place_of_computing_are_priced() {
    // 1,000 × $4 + 100 × $20 + 10,000 × $0.2 for a million = 8,000 millionths.
    let mut used = usage();
    assert_eq!(cost(&count(&[answer("m1", &used).to_string()])), micro(8_000.0));
    used["server_tool_use"] = json!({ "web_search_requests": 3 });
    assert_eq!(cost(&count(&[answer("m1", &used).to_string()])), micro(38_000.0));
    // In the US, tokens cost a tenth more: 8,800 millionths. Searches do not.
    used["inference_geo"] = json!("us");
    assert_eq!(cost(&count(&[answer("m1", &used).to_string()])), micro(38_800.0));
}

#[test]
fn a_long_prompt_has_the_higher_price_for_the_whole_request() {
    let with = |input: u64| {
        let mut line = answer("m1", &json!({ "input_tokens": input, "output_tokens": 1_000 }));
        line["message"]["model"] = json!("claude-haiku-5-5");
        cost(&count(&[line.to_string()]))
    };
    // Up to 100,000 tokens: $0.1 and $0.5 for a million.
    assert_eq!(with(100_000), micro(100_000.0 * 0.1 + 1_000.0 * 0.5));
    // Above: $0.5 and $2.5, for all of them.
    assert_eq!(with(100_001), micro(100_001.0 * 0.5 + 1_000.0 * 2.5));
}

#[test]
fn a_new_model_is_not_free() {
    let mut line = answer("m1", &usage());
    line["message"]["model"] = json!("claude-opus-77");
    let got = count(&[line.to_string()]);
    assert_eq!(tokens(&got), [1_000, 100, 10_000, 0]);
    assert_eq!(got["totals"]["cost_unknown"], 1);
    assert_eq!(got["unknown_models"], json!(["claude-opus-77"]));
}

#[test]
fn a_captured_stream_has_the_output_that_its_result_tells() {
    // The lines of a stream have placeholders: adding them up gives another number.
    let mut seen = 0;
    for name in ["claude-models", "claude-fork", "claude-subagents", "claude-background"] {
        let path = case(name).join("stream.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let result = lines.iter().rfind(|line| line["type"] == "result").unwrap();
        let told: u64 = result["modelUsage"].as_object().unwrap().values().map(|of| of["outputTokens"].as_u64().unwrap()).sum();
        let got = fresh(&path);
        assert_eq!(got["totals"]["output"], told, "{name}");
        assert_eq!(got["totals"]["exact"], true, "{name}");
        let placeholders: u64 = lines.iter().filter_map(|line| line["message"]["usage"]["output_tokens"].as_u64()).sum();
        seen += usize::from(placeholders < told);
    }
    assert!(seen > 0, "the placeholders are there");
}

#[test]
fn lines_of_one_answer_count_once() {
    let mut placeholder = answer("m1", &usage());
    placeholder["message"]["usage"]["output_tokens"] = json!(1);
    placeholder["message"]["stop_reason"] = Value::Null;
    let last = answer("m1", &usage());
    // In older versions only the last line is final.
    let lines = [&placeholder, &placeholder, &last].map(Value::to_string);
    assert_eq!(tokens(&count(&lines)), [1_000, 100, 10_000, 0]);
}

#[test]
fn a_large_file_in_parts_is_counted_like_a_small_one() {
    let folder = TempFolder::new();
    // Longer than two parts of 8 MiB, with lines of all lengths, so that parts begin within lines.
    let (mut text, mut wanted) = (String::new(), [0; 4]);
    let mut number = 0_u64;
    while text.len() < 18 << 20 {
        number += 1;
        let used = json!({ "input_tokens": number, "output_tokens": 2 * number, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 3 });
        let mut line = answer(&format!("m{number}"), &used);
        line["message"]["content"][0]["text"] = json!("x".repeat(usize::try_from(number * 7_919 % 60_000).unwrap()));
        text += &line.to_string();
        text += "\n";
        for (sum, more) in wanted.iter_mut().zip([number, 2 * number, 7, 3]) {
            *sum += more;
        }
    }
    let path = folder.write("a.jsonl", &text);
    let got = fresh(&path);
    assert_eq!((tokens(&got), &got["totals"]["requests"]), (wanted, &json!(number)));
}

#[test]
fn the_next_run_reads_nothing_again() {
    let folder = TempFolder::new();
    let files: Vec<PathBuf> = transcripts("claude-fork");
    for path in &files {
        folder.write(path.file_name().unwrap().to_str().unwrap(), std::fs::read(path).unwrap());
    }
    let mut index = Index::open(&folder.join("index")).unwrap();
    assert_eq!(update(&mut index, &folder).files, files.len());
    let wanted = counted(&index);
    drop(index);
    let mut index = Index::open(&folder.join("index")).unwrap();
    assert_eq!(update(&mut index, &folder).bytes, 0);
    assert_eq!(counted(&index), wanted);
}
