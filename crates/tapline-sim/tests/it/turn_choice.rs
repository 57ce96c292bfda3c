//! Which turn answers: by place, by count, by what stands in the request, by who asks.

use serde_json::json;
use tapline_sim::Sim;

use crate::client::{ask, messages, send};

#[test]
fn turns_come_in_order_and_run_out_by_name() {
    let sim = Sim::start("turn = [{ text = \"one\" }, { text = \"two\" }]").unwrap();
    assert_eq!(ask(&sim, "a", 0).text(), "one");
    assert_eq!(ask(&sim, "b", 1).text(), "two");
    let got = ask(&sim, "the last straw", 2);
    assert_eq!(got.status, 400, "an error that no client tries again");
    let message = got.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("turn 3") && message.contains("main") && message.contains("the last straw"), "{message}");
    assert_eq!(sim.failures().len(), 1);
}

#[test]
fn the_first_that_fits_and_is_not_used_up_answers() {
    let scenario = r#"
[[turn]]
when = { last = "(?i)thank" }
repeat = "forever"
text = "welcome"
[[turn]]
when = { count = 2 }
text = "third"
[[turn]]
when = { prompt = "^begin$", last = "special" }
text = "special"
[[turn]]
repeat = 2
text = "plain"
"#;
    let sim = Sim::start(scenario).unwrap();
    assert_eq!(ask(&sim, "Thank you", 0).text(), "welcome");
    assert_eq!(ask(&sim, "thanks again", 5).text(), "welcome");
    assert_eq!(ask(&sim, "x", 2).text(), "third");
    assert_eq!(ask(&sim, "x", 2).text(), "plain", "the one for it is used up");
    assert_eq!(ask(&sim, "special", 0).text(), "plain", "it begins otherwise");
    assert_eq!(ask(&sim, "special", 1).text(), "special");
    assert_eq!(ask(&sim, "x", 1).status, 400);
}

#[test]
fn what_is_asked_beside_the_conversation_uses_no_turn() {
    let sim = Sim::start("side = \"a title\"\nturn = [{ text = \"one\" }]").unwrap();
    let side = json!({ "model": "small", "max_tokens": 1, "messages": [{ "role": "user", "content": "quota" }] }).to_string();
    assert_eq!(send(&sim, "POST", "/v1/messages", &side).json()["content"][0]["text"], "a title");
    assert_eq!(ask(&sim, "a", 0).text(), "one");
}

#[test]
fn what_a_request_must_say_is_held_against_it() {
    let scenario = "[expect]\nrequests = 3\nall_turns = true\n[[turn]]\nname = \"greeting\"\ntext = \"one\"\nexpect = { last = \"hello\", tools = [\"Bash\"] }\n[[turn]]\ntext = \"two\"\n";
    let sim = Sim::start(scenario).unwrap();
    let refused = ask(&sim, "goodbye", 0);
    assert_eq!(refused.status, 400);
    assert!(
        refused.body.contains("turn 1 expects") && refused.body.contains("hello") && refused.body.contains("goodbye"),
        "{}",
        refused.body
    );
    assert_eq!(ask(&sim, "hello", 0).text(), "one");
    let failures = sim.failures().join("; ");
    assert!(failures.contains("turn 1 expects"), "{failures}");
    assert!(
        failures.contains("requests answered by a turn: 1, not 3") && failures.contains("turn 2 was not used"),
        "{failures}"
    );
}

#[test]
fn many_at_once_get_one_turn_each() {
    let turns = (0..40).map(|turn| format!("[[turn]]\ntext = \"t{turn}\"")).collect::<Vec<_>>().join("\n");
    let sim = Sim::start(&turns).unwrap();
    let mut texts: Vec<String> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..40).map(|_| scope.spawn(|| ask(&sim, "x", 0).text())).collect();
        asking.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 40);
    assert_eq!(sim.tokens().output_tokens, 40 * 42);
    assert_eq!(send(&sim, "POST", "/v1/messages", &messages("x", 0, true)).status, 400);
}
