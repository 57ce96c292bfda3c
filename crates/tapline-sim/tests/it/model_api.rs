//! What the two APIs answer, to the event.

use serde_json::{Value, json};
use tapline_sim::Sim;
use tapline_testkit::TempFolder;

use crate::client::{ask, ask_responses, messages, send};

const TURN: &str = r#"
[[turn]]
thinking = "Hm. Let me see."
text = "Looking."
tool = [{ name = "Bash", input = { command = "ls" } }, { name = "Read", id = "mine", input = { file_path = "x" } }]
usage = { input_tokens = 3, output_tokens = 7, cache_read_input_tokens = 100, cache_creation_input_tokens = 20, reasoning_tokens = 5 }
chunk = 6
"#;

fn data(events: &[(String, String)]) -> Vec<Value> {
    events
        .iter()
        .map(|(name, data)| {
            let data: Value = serde_json::from_str(data).unwrap();
            assert_eq!(data["type"], name.as_str(), "the event's name is its type");
            data
        })
        .collect()
}

#[test]
fn a_streamed_message_is_what_the_messages_api_sends() {
    let sim = Sim::start(TURN).unwrap();
    let got = ask(&sim, "go", 0);
    assert_eq!((got.status, got.whole), (200, true));
    assert!(got.head.contains("content-type: text/event-stream"), "{}", got.head);
    let events = data(&got.events());
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[..3], ["message_start", "ping", "content_block_start"]);
    assert_eq!(kinds[kinds.len() - 3..], ["content_block_stop", "message_delta", "message_stop"]);
    let start = &events[0]["message"];
    assert_eq!(start["model"], "claude-asked");
    assert_eq!(start["usage"]["output_tokens"], 1, "a placeholder, as in life");
    assert_eq!(start["usage"]["cache_read_input_tokens"], 100);
    let joined = |index: u64, key: &str| -> String {
        let deltas = events.iter().filter(|event| event["type"] == "content_block_delta" && event["index"] == index);
        deltas.filter_map(|event| event["delta"][key].as_str()).collect()
    };
    assert_eq!(joined(0, "thinking"), "Hm. Let me see.");
    assert!(!joined(0, "signature").is_empty(), "a thought is signed");
    assert_eq!(joined(1, "text"), "Looking.");
    assert_eq!(joined(2, "partial_json"), r#"{"command":"ls"}"#);
    let starts: Vec<&Value> =
        events.iter().filter(|event| event["type"] == "content_block_start").map(|event| &event["content_block"]).collect();
    assert_eq!(starts[2]["id"], "toolu_sim_1_2");
    assert_eq!(starts[3]["id"], "mine");
    let delta = events.iter().find(|event| event["type"] == "message_delta").unwrap();
    assert_eq!(delta["delta"]["stop_reason"], "tool_use");
    assert_eq!(delta["usage"]["output_tokens"], 7);
    assert_eq!(sim.tokens().output_tokens, 7);
    assert_eq!(sim.tokens().cache_creation_input_tokens, 20);
}

#[test]
fn ids_are_the_same_each_time_unless_they_are_to_be_unique() {
    let id = |unique_ids: bool| {
        let scenario = tapline_sim::Scenario::parse("[[turn]]\ntext = \"x\"\n").unwrap();
        let options = tapline_sim::SimOptions { unique_ids, ..tapline_sim::SimOptions::default() };
        let sim = Sim::start_with(scenario, options).unwrap();
        ask(&sim, "go", 0);
        sim.requests()[0].answer.as_ref().unwrap().id.clone()
    };
    assert_eq!((id(false).as_str(), id(false).as_str()), ("msg_sim_1", "msg_sim_1"));
    assert_ne!(id(true), id(true));
}

#[test]
fn an_answer_tells_the_kinds_of_cache_writes_and_the_web_searches_apart() {
    let scenario = "[[turn]]\ntext = \"x\"\nmodel = \"m\"\nusage = { cache_creation_input_tokens = 20, ephemeral_1h_input_tokens = 5, web_search_requests = 2 }\n";
    let sim = Sim::start(scenario).unwrap();
    let events = data(&ask(&sim, "go", 0).events());
    let delta = events.iter().find(|event| event["type"] == "message_delta").unwrap();
    assert_eq!(delta["usage"]["cache_creation_input_tokens"], 20);
    assert_eq!(delta["usage"]["cache_creation"], json!({ "ephemeral_5m_input_tokens": 15, "ephemeral_1h_input_tokens": 5 }));
    assert_eq!(delta["usage"]["server_tool_use"], json!({ "web_search_requests": 2 }));
    let request = &sim.requests()[0];
    let answer = request.answer.as_ref().unwrap();
    assert_eq!((answer.id.as_str(), answer.model.as_str(), answer.usage), ("msg_sim_1", "m", sim.tokens()));
    let line: Value = serde_json::from_str(&request.to_line()).unwrap();
    assert_eq!((&line["answer"]["id"], &line["answer"]["usage"]["web_search_requests"]), (&json!("msg_sim_1"), &json!(2)));
}

#[test]
fn a_message_without_a_stream_is_one_document() {
    let sim = Sim::start(TURN).unwrap();
    let got = send(&sim, "POST", "/v1/messages", &messages("go", 0, false)).json();
    let content = got["content"].as_array().unwrap();
    assert_eq!(content.len(), 4);
    assert_eq!(content[2], json!({ "type": "tool_use", "id": "toolu_sim_1_2", "name": "Bash", "input": { "command": "ls" } }));
    assert_eq!((&got["stop_reason"], &got["usage"]["output_tokens"]), (&json!("tool_use"), &json!(7)));
}

#[test]
fn a_response_is_what_the_responses_api_sends() {
    let sim = Sim::start(&format!("{TURN}\n[[turn]]\nstructured = {{ answer = 42 }}\n")).unwrap();
    let got = ask_responses(&sim, "go", true);
    let events = data(&got.events());
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds.first(), Some(&"response.created"));
    assert_eq!(kinds.last(), Some(&"response.completed"));
    let items: Vec<&Value> =
        events.iter().filter(|event| event["type"] == "response.output_item.done").map(|event| &event["item"]).collect();
    assert_eq!(items[0]["summary"][0]["text"], "Hm. Let me see.");
    assert_eq!(items[1]["content"][0]["text"], "Looking.");
    assert_eq!((&items[2]["name"], &items[2]["arguments"]), (&json!("Bash"), &json!(r#"{"command":"ls"}"#)));
    assert_eq!(items[3]["call_id"], "mine");
    assert_eq!(got.text(), "Looking.");
    let usage = &events.last().unwrap()["response"]["usage"];
    assert_eq!(usage["input_tokens"], 123, "this API counts what was cached among the input");
    assert_eq!(usage["input_tokens_details"]["cached_tokens"], 100);
    assert_eq!(usage["output_tokens_details"]["reasoning_tokens"], 5);
    assert_eq!(usage["total_tokens"], 130);
    let whole = ask_responses(&sim, "more", false).json();
    assert_eq!(whole["output"][0]["content"][0]["text"], r#"{"answer":42}"#);
}

#[test]
fn structured_output_is_a_call_of_claude_codes_own_tool() {
    let sim = Sim::start("turn = [{ structured = { answer = 42 } }]").unwrap();
    let got = send(&sim, "POST", "/v1/messages", &messages("go", 0, false)).json();
    assert_eq!(got["content"][0]["name"], "StructuredOutput");
    assert_eq!(got["content"][0]["input"], json!({ "answer": 42 }));
}

#[test]
fn half_an_emoji_passes_both_ways() {
    let sim = Sim::start(r#"turn = [{ text_json = '"half: \ud83d"', chunk = 1 }, { text = "fine" }]"#).unwrap();
    let body = messages("go", 0, true).replace("\"go\"", r#""half \ud83d""#);
    let got = send(&sim, "POST", "/v1/messages", &body);
    assert_eq!(got.status, 200);
    assert!(got.body.contains(r#""text":"\ud83d""#), "{}", got.body);
    let document = send(&sim, "POST", "/v1/messages", &messages("go", 1, false));
    assert_eq!(document.status, 200);
    assert!(sim.requests()[0].to_line().contains(r"half \ud83d"), "it is logged as it came");
}

#[test]
fn other_questions_have_their_answers() {
    let sim = Sim::start("usage = { input_tokens = 77 }\nturn = [{ text = \"x\" }]").unwrap();
    assert_eq!(send(&sim, "POST", "/v1/messages/count_tokens?beta=true", "{}").json(), json!({ "input_tokens": 77 }));
    assert_eq!(send(&sim, "GET", "/v1/models", "").status, 200);
    assert_eq!(send(&sim, "HEAD", "/", "").status, 200);
    let lost = send(&sim, "GET", "/v2/elsewhere", "");
    assert_eq!(lost.status, 404);
    assert!(lost.json()["error"]["message"].as_str().unwrap().contains("GET /v2/elsewhere"));
    for nonsense in ["", "[1]", "{\"a\":", "nonsense"] {
        assert_eq!(send(&sim, "POST", "/v1/messages", nonsense).status, 400, "{nonsense}");
    }
}

#[test]
fn requests_are_kept_without_their_keys() {
    let sim = Sim::start("turn = [{ text = \"x\" }]").unwrap();
    ask(&sim, "go on", 0);
    let requests = sim.requests();
    let [request] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!(
        (request.method.as_str(), request.path.as_str(), request.turn, request.status),
        ("POST", "/v1/messages?beta=true", Some(1), 200)
    );
    let facts = request.facts.as_ref().unwrap();
    assert_eq!((facts.last.as_str(), facts.model.as_str(), facts.count), ("go on", "claude-asked", 0));
    let line = request.to_line();
    assert!(!line.contains("secret-key"), "{line}");
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["body"]["model"], "claude-asked");
}

#[test]
fn an_agents_environment_has_nothing_of_ours() {
    let sim = Sim::start("turn = [{ text = \"x\" }]").unwrap();
    let names: Vec<String> = sim.environment().into_iter().map(|(name, _)| name).collect();
    let allowed = [
        "PATH",
        "TERM",
        "LANG",
        "HOME",
        "TMPDIR",
        "CODEX_HOME",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_API_KEY",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "DISABLE_AUTOUPDATER",
        "IS_SANDBOX",
        "TAPLINE_SIM_KEY",
    ];
    assert!(names.iter().all(|name| allowed.contains(&name.as_str())), "{names:?}");
    let home = sim.home().to_owned();
    assert!(home.join(".codex/config.toml").is_file());
    drop(sim);
    assert!(!home.exists(), "it goes with the sim");
}

#[test]
fn the_log_holds_no_secrets() {
    let folder = TempFolder::new();
    let log = folder.join("log.jsonl");
    let options = tapline_sim::SimOptions { log: Some(log.clone()), ..tapline_sim::SimOptions::default() };
    let sim = Sim::start_with(tapline_sim::Scenario::parse(r#"turn = [{ text = "Hello." }]"#).unwrap(), options).unwrap();
    let key = ["sk-", "ant-", "api03-abcdefgh12345678"].concat();
    let body = messages(&format!("here:\n{key}\tand PASSWORD=hunter2"), 0, true);
    assert_eq!(send(&sim, "POST", "/v1/messages?access_token=hunter2", &body).status, 200);
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(!logged.contains(&key) && !logged.contains("hunter2") && !logged.contains("secret-key"), "{logged}");
    let line: Value = serde_json::from_str(logged.lines().next().unwrap()).unwrap();
    assert_eq!(line["body"]["messages"][0]["content"], "here:\n[redacted]\tand PASSWORD=[redacted]");
}

/// It is the compiler that tests it.
#[test]
fn a_scripted_model_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Sim>();
    shared::<tapline_sim::FakeAgent>();
    shared::<tapline_sim::Scenario>();
}
