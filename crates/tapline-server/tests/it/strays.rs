//! Files that look like sessions by their names, and are something else.

use crate::stage::{Stage, write};

#[test]
fn a_file_that_is_no_session_is_not_listed() {
    let stage = Stage::new();
    let package = "{\n  \"name\": \"x\",\n  \"type\": \"module\"\n}\n";
    let strays = [
        ("one/package.json", package),
        ("two/package.json", package),
        ("three/package.json", "{\"name\":\"x\",\"type\":\"module\",\"version\":\"1.0.0\"}"),
        ("settings.json", "{\"permissions\":{\"allow\":[\"Bash(ls)\"]},\"model\":\"opus\",\"env\":{}}\n"),
        ("mcp.json", "{\"mcpServers\":{}}\n"),
        ("list.json", "[{\"type\":\"text\",\"text\":\"x\"}]\n"),
        ("text.json", "no JSON\n"),
        ("log.jsonl", "{\"level\":\"info\",\"session_id\":\"log\"}\n{\"level\":\"info\",\"session_id\":\"log\"}\n"),
        ("data.ndjson", "{\"a\":1}\n{\"a\":2}\n"),
    ];
    for (name, text) in strays {
        write(&stage.path("transcripts").join(name), text);
    }
    // What the agent prints with `--output-format json` is one line, and a session.
    let result = "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"num_turns\":1,\"result\":\"hi\",\"session_id\":\"of-one-line\",\"total_cost_usd\":0.1,\"usage\":{\"input_tokens\":1,\"output_tokens\":2}}\n";
    write(&stage.path("transcripts/result.json"), result);
    let all = format!("\ntapline_followed_sessions {}\n", strays.len() + 1);
    let is_followed = tapline_testkit::eventually(|| stage.get("/metrics").body.contains(&all));
    assert!(is_followed, "{}", stage.get("/metrics").body);
    let ids = |list: &serde_json::Value| -> Vec<String> {
        list["sessions"].as_array().into_iter().flatten().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    };
    stage.until("/api/v1/sessions", |list| (!ids(list).is_empty()).then_some(()));
    assert_eq!(ids(&stage.get("/api/v1/sessions").json().unwrap()), ["of-one-line"]);
    for name in ["package", "settings", "log", "data"] {
        assert_eq!(stage.get(&format!("/api/v1/sessions/{name}")).status, 404, "{name}");
    }
}
