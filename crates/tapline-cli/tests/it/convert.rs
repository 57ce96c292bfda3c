//! `tapline convert`: what the agent itself would have given, and the formats of our own.

use serde_json::Value;
use tapline_testkit::{TempFolder, fixture, streams};

use crate::tapline::{tapline, tapline_on};

fn convert(name: &str, to: &str) -> String {
    let ran = tapline(&["convert", "--to", to, fixture(name).to_str().unwrap()]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{name} to {to}");
    ran.out
}

#[test]
fn stream_json_is_byte_identical() {
    for path in streams() {
        let bytes = std::fs::read(&path).unwrap();
        let output = crate::tapline::command(&["convert", "--to", "stream-json", path.to_str().unwrap()]).output().unwrap();
        assert_eq!(output.stdout, bytes, "{}", path.display());
    }
    let odd =
        b"\xef\xbb\xbf{\"type\":\"keep_alive\"}\r\n\n \t\nnot json\n[1]\n\0\0\0{\"type\":\"result\"}\n{\"cut\":\"\xff\xfe";
    let mut child = crate::tapline::command(&["convert", "--to", "stream-json"]);
    let mut child = child.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), odd).unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, odd);
}

/// Each of these was seen on claude 2.1.325: the same session in its three output modes.
#[test]
fn text_is_what_claude_prints() {
    assert_eq!(convert("claude-2.1.325/text.jsonl", "text"), "Hello from the mock model.\n");
    assert_eq!(
        convert("claude-2.1.325/rate.jsonl", "text"),
        "API Error: Request rejected (429) · This request would exceed your account's rate limit. Please try again later.\n"
    );
    assert_eq!(convert("claude-2.1.325/maxturns.jsonl", "text"), "Error: Reached max turns (1)");
    let budget =
        br#"{"type":"result","subtype":"error_max_budget_usd","is_error":true,"errors":["Reached maximum budget ($0.0001)"]}"#;
    assert_eq!(tapline_on(budget, &["convert", "--to", "text"]).out, "Error: Exceeded USD budget (0.0001)");
    assert_eq!(convert("codex-0.166.0/tools.jsonl", "text"), "All done — 日本語 ✓.\n");
}

#[test]
fn json_is_the_result_without_what_the_stream_adds() {
    let made: Value = serde_json::from_str(&convert("claude-2.1.325/tools.jsonl", "json")).unwrap();
    let stream = std::fs::read_to_string(fixture("claude-2.1.325/tools.jsonl")).unwrap();
    let mut result: Value = serde_json::from_str(stream.lines().last().unwrap()).unwrap();
    assert!(result.as_object_mut().unwrap().remove("model_usage_since_last_result").is_some());
    assert_eq!(made, result);
    let real: Value = serde_json::from_str(&std::fs::read_to_string(fixture("claude-2.1.325/json.jsonl")).unwrap()).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let made: Value = serde_json::from_str(&convert("claude-2.1.325/text.jsonl", "json")).unwrap();
    assert_eq!(keys(&made), keys(&real));
}

#[test]
fn json_verbose_is_the_array() {
    let real: Vec<Value> =
        serde_json::from_str(&std::fs::read_to_string(fixture("claude-2.1.325/jsonverbose.jsonl")).unwrap()).unwrap();
    let made: Vec<Value> = serde_json::from_str(&convert("claude-2.1.325/tools.jsonl", "json-verbose")).unwrap();
    let kinds = |events: &[Value]| events.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(made.last().unwrap()), keys(real.last().unwrap()));
    assert_eq!(kinds(&made).last(), kinds(&real).last());
    // Through the array and back, the events are the same.
    let array = convert("claude-2.1.325/tools.jsonl", "json-verbose");
    assert_eq!(tapline_on(array.as_bytes(), &["convert", "--to", "json-verbose"]).out, array);
    let partial: Vec<Value> = serde_json::from_str(&convert("claude-2.1.325/tools-partial.jsonl", "json-verbose")).unwrap();
    assert!(!kinds(&partial).contains(&"stream_event".to_owned()));
    assert_eq!(tapline_on(b"", &["convert", "--to", "json-verbose"]).out, "[]\n");
}

#[test]
fn messages_are_added_on_demand() {
    let ran = tapline(&["convert", "--to", "json", "--messages", fixture("claude-2.1.325/multi.jsonl").to_str().unwrap()]);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    let messages = document["messages"].as_array().unwrap();
    assert_eq!(messages[0], serde_json::json!({"type": "user", "content": "first question"}));
    assert_eq!(messages[1]["content"][0]["text"], "Hello from the mock model.");
    assert_eq!(messages[1]["model"], "claude-opus-5-5");
    assert_eq!(messages.len(), 4);
    // They are a part of this format alone.
    let implied = tapline(&["convert", "--messages", fixture("claude-2.1.325/multi.jsonl").to_str().unwrap()]);
    assert_eq!((implied.code, implied.out), (0, ran.out));
    assert_eq!(tapline(&["convert", "--to", "text", "--messages"]).code, 2);
    let nothing = tapline(&["convert"]);
    assert!(nothing.code == 2 && nothing.err.contains("--to"), "{}", nothing.err);
}

#[test]
fn an_agent_that_reports_items_has_messages_too() {
    let ran = tapline(&["convert", "--messages", fixture("codex-0.166.0/tools.jsonl").to_str().unwrap()]);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &document["result"], &document["is_error"]), (0, &"All done — 日本語 ✓.".into(), &false.into()));
    let call = |id: &str, command: &str| serde_json::json!({"type": "tool_use", "id": id, "name": "command_execution", "input": {"command": command}});
    let answer = |id: &str, text: &str, is_error: bool| serde_json::json!({"type": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text, "is_error": is_error}]});
    let messages = serde_json::json!([
        {"type": "assistant", "content": [{"type": "thinking", "thinking": "Looking around"}, call("item_2", "/bin/bash -lc 'ls && echo hi'")]},
        answer("item_2", "hooks.json\nmain.py\nhi\n", false),
        {"type": "assistant", "content": [call("item_3", "/bin/bash -lc 'cat /nonexistent'")]},
        answer("item_3", "cat: /nonexistent: No such file or directory\n", true),
        {"type": "assistant", "content": [{"type": "text", "text": "All done — 日本語 ✓."}]},
    ]);
    assert_eq!(document["messages"], messages);
    let cut = tapline_on(
        b"{\"type\":\"thread.started\",\"thread_id\":\"t\"}\n{\"type\":\"turn.started\"}\n",
        &["convert", "--messages"],
    );
    assert_eq!((cut.code, cut.out.as_str()), (4, ""), "{}", cut.err);
}

#[test]
fn what_cannot_be_is_said() {
    let ran = tapline(&["convert", "--to", "text", fixture("claude-2.1.325/sigterm.jsonl").to_str().unwrap()]);
    assert_eq!((ran.code, ran.out.as_str()), (4, ""));
    assert!(ran.err.contains("no result"), "{}", ran.err);
    for to in ["json", "json-verbose"] {
        let ran = tapline(&["convert", "--to", to, fixture("codex-0.166.0/tools.jsonl").to_str().unwrap()]);
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains("codex does not have this output format"), "{}", ran.err);
    }
}

#[test]
fn steps_are_json_lines_that_end_with_the_verdict() {
    let out = convert("claude-2.1.325/subagent.jsonl", "steps");
    let steps: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(steps[0]["step"], "session");
    assert_eq!(steps.last().unwrap()["step"], "end");
    assert_eq!(steps.last().unwrap()["verdict"]["outcome"], "success");
    let inner = steps.iter().find(|step| step["step"] == "call" && step["depth"] == 1).unwrap();
    assert_eq!((&inner["title"], &inner["parent"]), (&Value::from("`echo sub`"), &Value::from("toolu_sim_1_1")));
}

#[test]
fn a_pretty_document_becomes_lines() {
    let pretty = "[\n  {\n    \"type\": \"keep_alive\",\n    \"text\": \"a  b\\\"\\n\"\n  },\n  {\"type\": \"result\"}\n]\n";
    let out = tapline_on(pretty.as_bytes(), &["convert", "--to", "stream-json"]).out;
    assert_eq!(out, "{\"type\":\"keep_alive\",\"text\":\"a  b\\\"\\n\"}\n{\"type\": \"result\"}\n");
}

#[test]
fn what_messages_writes_reads_back() {
    let path = fixture("claude-2.1.325/multi.jsonl");
    let document = tapline(&["convert", "--to", "json", "--messages", path.to_str().unwrap()]).out;
    let again = tapline_on(document.as_bytes(), &["convert", "--to", "json", "--messages"]).out;
    assert_eq!(again, document);
    assert_eq!(tapline_on(document.as_bytes(), &["inspect", "--get", "prompts[]"]).out, "first question\nsecond question\n");
}

#[test]
fn secrets_can_be_taken_out() {
    let key = "sk-ant-REDACTED";
    let stream = format!("{{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"the key is {key}.\"}}\n");
    for to in ["text", "json", "stream-json", "steps", "markdown", "html", "json-verbose"] {
        let out = tapline_on(stream.as_bytes(), &["convert", "--redact", "--to", to]).out;
        assert!(!out.contains(key) && out.contains("the key is ") && out.contains("redacted"), "{to}: {out}");
    }
}

#[test]
fn a_file_can_be_written() {
    let folder = TempFolder::new();
    let page = folder.path("page.html");
    let ran = tapline(&["convert", "--to", "html", "-o", &page, fixture("claude-2.1.325/tools.jsonl").to_str().unwrap()]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""));
    assert!(std::fs::read_to_string(&page).unwrap().starts_with("<!doctype html>"));
    // What was there stays when there is nothing to take its place, and a stream is not written over by itself.
    let (kept, stream) = (folder.file("kept.json", "keep me"), folder.file("same.jsonl", "{\"type\":\"result\"}\n"));
    let cut = fixture("claude-2.1.325/sigterm.jsonl").to_str().unwrap().to_owned();
    assert_eq!(tapline(&["convert", "--to", "json", "-o", &kept, &cut]).code, 4);
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "keep me");
    assert_eq!(tapline(&["convert", "--to", "markdown", "-o", &stream, &stream]).code, 2);
    assert_eq!(std::fs::read_to_string(&stream).unwrap(), "{\"type\":\"result\"}\n");
    let ran = tapline(&[
        "convert",
        "--to",
        "html",
        "-o",
        "/no/such/folder/page.html",
        fixture("claude-2.1.325/tools.jsonl").to_str().unwrap(),
    ]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("cannot write /no/such/folder/page.html"), "{}", ran.err);
}
