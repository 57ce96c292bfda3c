//! What steps refer to by ids: their turn, their call, who denied it.

use serde_json::{Value, json};
use tapline_protocol::Reader;
use tapline_session::step::DeniedBy;
use tapline_session::{Fold, Step, What};
use tapline_testkit::fixture;

fn steps(stream: &[u8]) -> Vec<Step> {
    let mut fold = Fold::default();
    Reader::new(stream).flat_map(|record| fold.apply(&record.unwrap())).collect()
}

fn steps_of(lines: &[Value]) -> Vec<Step> {
    steps(lines.iter().flat_map(|line| [line.to_string(), "\n".to_owned()]).collect::<String>().as_bytes())
}

fn call(id: &str) -> Value {
    let block = json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "make"}});
    json!({"type": "assistant", "message": {"id": id, "role": "assistant", "content": [block]}})
}

fn answer(id: &str, text: &str) -> Value {
    let block = json!({"type": "tool_result", "tool_use_id": id, "is_error": true, "content": text});
    json!({"type": "user", "message": {"role": "user", "content": [block]}})
}

/// A request as earlier versions make it: it does not say which call it is about.
fn asks(request: &str) -> Value {
    let ask = json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "make"}});
    json!({"type": "control_request", "request_id": request, "request": ask})
}

#[test]
fn a_step_belongs_to_the_turn_that_it_was_made_in() {
    let steps = steps(&std::fs::read(fixture("claude-2.1.325/multi.jsonl")).unwrap());
    let ends: Vec<usize> = (0..steps.len()).filter(|at| matches!(steps[*at].what, What::Turn(_))).collect();
    let [first, second] = ends[..] else { panic!("{ends:?}") };
    let begins = (first..second).find(|at| matches!(steps[*at].what, What::Prompt { .. } | What::Session(_))).unwrap();
    for (at, step) in steps.iter().enumerate() {
        assert_eq!(step.turn, usize::from(at >= begins), "{step:?}");
    }
    // What comes behind the end of a turn belongs to it.
    let result = json!({"type": "result", "subtype": "success", "is_error": false, "result": "done"});
    let idle = json!({"type": "system", "subtype": "session_state_changed", "state": "idle"});
    let turns: Vec<usize> =
        steps_of(&[call("a"), result.clone(), idle, call("b"), result]).iter().map(|step| step.turn).collect();
    assert_eq!(turns, [0, 0, 0, 1, 1]);
}

#[test]
fn two_equal_questions_are_about_two_calls() {
    let steps = steps_of(&[call("a"), call("b"), asks("r1"), asks("r2"), asks("r3")]);
    let asked: Vec<_> = steps
        .iter()
        .filter_map(|step| match &step.what {
            What::Question(question) => Some((question.request_id.as_deref()?, question.tool_use_id.as_deref())),
            _ => None,
        })
        .collect();
    assert_eq!(asked, [("r1", Some("a")), ("r2", Some("b")), ("r3", None)]);
}

#[test]
fn a_result_says_who_denied_its_call() {
    for (text, by) in [
        ("Bash operation blocked by hook:\n- no", Some(DeniedBy::Hook)),
        ("PreToolUse:Bash hook error: [guard]: no", Some(DeniedBy::Hook)),
        ("The user doesn't want to proceed with this tool use.", Some(DeniedBy::Person)),
        ("denied by deny[0]: no make", None),
        ("husky: operation blocked by hook of this repository", None),
    ] {
        let steps = steps_of(&[call("a"), answer("a", text)]);
        let Some(What::Answer(answer)) = steps.last().map(|step| &step.what) else { panic!("{steps:?}") };
        assert_eq!(answer.denial.as_ref().map(|denial| denial.by), by, "{text}");
    }
}
