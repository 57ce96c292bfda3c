//! Whose stream it is: the first line that only one agent writes decides, and a stream of nobody's is never a success.

use tapline_protocol::{Agent, InputFormat};
use tapline_session::step::What;
use tapline_session::{Category, Ending, Outcome, StreamFormat};
use tapline_testkit::fixture;

use crate::read_stream::{ReadStream, tell};

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s","model":"m","permissionMode":"default"}"#;
const TEXT: &str =
    r#"{"type":"assistant","message":{"id":"m1","role":"assistant","content":[{"type":"text","text":"hello"}]}}"#;
const RESULT: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"hello","num_turns":1}"#;
const THREAD: &str = r#"{"type":"thread.started","thread_id":"t"}"#;
const ITEM: &str = r#"{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"hi"}}"#;
const COMPLETED: &str = r#"{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":2}}"#;
const NEW: &str = r#"{"type":"brand_new","text":"what is this?"}"#;

fn read(lines: &[&str]) -> ReadStream {
    read_with(lines, None, &Ending::default())
}

fn read_with(lines: &[&str], agent: Option<Agent>, ending: &Ending) -> ReadStream {
    tell((lines.join("\n") + "\n").as_bytes(), 4096, InputFormat::Auto, agent, ending)
}

fn outcome(told: &ReadStream) -> (Option<Agent>, Outcome, Option<Category>) {
    (told.summary.agent, told.summary.verdict.outcome, told.summary.verdict.category)
}

#[test]
fn unknown_first_lines_are_shown_as_they_are_and_decide_nothing() {
    let told = read(&[NEW, r#"{"role":"user"}"#, "npm warn something", INIT, TEXT, RESULT]);
    assert_eq!(outcome(&told), (Some(Agent::Claude), Outcome::Success, None));
    for (line, expected) in [(0, NEW), (1, r#"{"role":"user"}"#)] {
        let What::Odd(odd) = &told.steps[line][0].what else { panic!("{:?}", told.steps[line]) };
        assert_eq!(odd.text.as_deref(), Some(expected));
    }
    let known = read(&[INIT, NEW, RESULT]);
    let What::Odd(odd) = &known.steps[1][0].what else { panic!("{:?}", known.steps[1]) };
    assert_eq!((odd.text.as_deref(), odd.unknown.as_deref()), (None, Some("brand_new")), "it is known whose it is");
}

#[test]
fn of_lines_of_two_dialects_the_first_decides() {
    let claude = read(&[INIT, TEXT, THREAD, ITEM, COMPLETED]);
    assert_eq!(outcome(&claude), (Some(Agent::Claude), Outcome::Incomplete, Some(Category::NoResult)));
    assert_eq!(claude.summary.last_text, "hello");
    let codex = read(&[THREAD, ITEM, INIT, TEXT, RESULT]);
    assert_eq!(outcome(&codex), (Some(Agent::Codex), Outcome::Incomplete, Some(Category::NoResult)));
    assert_eq!(codex.summary.last_text, "hi");
    let named = read_with(&[INIT, TEXT, RESULT], Some(Agent::Codex), &Ending::default());
    assert_eq!(outcome(&named), (Some(Agent::Codex), Outcome::Incomplete, Some(Category::NoResult)), "what was said counts");
}

#[test]
fn a_dialect_that_shows_at_the_end_alone_is_seen_there() {
    let foreign: Vec<String> = (0..62).map(|at| format!(r#"{{"type":"step_{at}"}}"#)).collect();
    let mut lines: Vec<&str> = foreign.iter().map(String::as_str).collect();
    lines.push(RESULT);
    let told = read(&lines);
    assert_eq!(outcome(&told), (Some(Agent::Claude), Outcome::Success, None));
    assert_eq!(told.summary.answer.as_deref(), Some("hello"));
}

#[test]
fn after_64_lines_that_decide_nothing_it_is_nobodys_for_good() {
    for noise in [NEW, "not JSON", "[1]", r#"{"role":"user"}"#] {
        let mut lines = vec![noise; 64];
        lines.extend([INIT, TEXT, RESULT]);
        let told = read(&lines);
        assert_eq!(outcome(&told), (None, Outcome::Incomplete, Some(Category::NoResult)), "{noise}");
        let report = serde_json::to_value(&told.report).unwrap();
        assert_eq!((&report["agent"], &report["format"]), (&"unknown".into(), &"unknown".into()));
        let named = read_with(&lines, Some(Agent::Claude), &Ending::default());
        assert_eq!(outcome(&named), (Some(Agent::Claude), Outcome::Success, None), "{noise}: somebody said it");
    }
    // Lines that are likely Claude's or Codex's, and could be others', decide nothing either.
    let call = r#"{"type":"tool_use","id":"t","name":"Bash","input":{}}"#;
    let lenient = r#"{"type":"result","subtype":"success","result":"hello"}"#;
    for (likely, agent) in [(call, Agent::Claude), (lenient, Agent::Claude), (r#"{"type":"turn.started"}"#, Agent::Codex)] {
        let lines = [vec![likely; 64], vec![INIT, TEXT, RESULT, THREAD, ITEM, COMPLETED, likely]].concat();
        assert_eq!(read(&lines[..63]).summary.agent, Some(agent), "{likely}");
        for length in [64, 65, 70, 71] {
            let told = read(&lines[..length]);
            assert_eq!(outcome(&told), (None, Outcome::Incomplete, Some(Category::NoResult)), "{likely}, {length} lines");
        }
        let told = read(&lines);
        let What::Odd(odd) = &told.steps[70][0].what else { panic!("{:?}", told.steps[70]) };
        assert_eq!(odd.text.as_deref(), Some(likely), "shown whole");
    }
    let mut lines = vec![""; 200];
    lines.extend([INIT, TEXT, RESULT]);
    assert_eq!(outcome(&read(&lines)), (Some(Agent::Claude), Outcome::Success, None), "blank lines say nothing");
}

#[test]
fn a_stream_of_nobodys_is_never_a_success() {
    // As Gemini, Copilot and OpenCode write them.
    let gemini = [
        r#"{"type":"init","session_id":"s","model":"gemini"}"#,
        r#"{"type":"tool_use","tool_name":"run","tool_id":"1","parameters":{}}"#,
        r#"{"type":"error","severity":"error","message":"401"}"#,
        r#"{"type":"result","status":"error"}"#,
    ];
    let copilot = [r#"{"type":"assistant.message","data":{}}"#, r#"{"type":"result","exitCode":1}"#];
    let opencode = [r#"{"type":"step_start","sessionID":"s"}"#, r#"{"type":"error","error":{"name":"x"}}"#];
    for lines in [&gemini[..], &copilot, &opencode] {
        let told = read(lines);
        assert_eq!(outcome(&told), (None, Outcome::Incomplete, Some(Category::NoResult)), "{lines:?}");
        assert_eq!(StreamFormat::of(tapline_protocol::InputShape::Lines, told.summary.agent), StreamFormat::Unknown);
        for (step, line) in told.steps.iter().zip(lines) {
            let What::Odd(odd) = &step[0].what else { panic!("{step:?}") };
            assert_eq!(odd.text.as_deref(), Some(*line), "shown whole");
        }
        for (code, expected) in [(1, (None, Outcome::Failure, Some(Category::Exit))), (0, outcome(&told))] {
            let ending = Ending { exit_code: Some(code), ..Ending::default() };
            assert_eq!(outcome(&read_with(lines, None, &ending)), expected, "{lines:?}, exit code {code}");
        }
    }
}

/// Streams of eight other programs, each with a plain answer and with a key that was refused; then short ones that failed, in the shapes
/// that unknown agents may share with known ones.
#[test]
fn of_other_programs_none_that_failed_is_called_a_success() {
    let cases = std::fs::read_to_string(fixture("cases/others.jsonl")).unwrap();
    let (mut failed, mut read_as_claude) = (0, Vec::new());
    for case in cases.lines() {
        let case: serde_json::Value = serde_json::from_str(case).unwrap();
        let (name, stream) = (case["agent"].as_str().unwrap(), case["stream"].as_str().unwrap());
        let exit_code = case["exit_code"].as_i64().and_then(|code| i32::try_from(code).ok());
        for exit_code in [None, exit_code] {
            let ending = Ending { exit_code, ..Ending::default() };
            let told = tell(stream.as_bytes(), 4096, InputFormat::Auto, None, &ending);
            let (agent, outcome, _) = outcome(&told);
            let shown: usize = told.records.iter().map(|record| record.bytes.len()).sum();
            assert_eq!(shown, stream.len(), "{name}: kept whole");
            if case["failed"] == true {
                failed += 1;
                assert_ne!(outcome, Outcome::Success, "{name}, exit code {exit_code:?}");
            } else if agent.is_some() {
                assert_eq!((agent, outcome), (Some(Agent::Claude), Outcome::Success), "{name}");
                read_as_claude.push(name.to_owned());
            } else {
                assert_eq!(outcome, Outcome::Incomplete, "{name}");
            }
        }
    }
    read_as_claude.dedup();
    assert_eq!((failed, read_as_claude), (40, vec!["grok-1.0.41".to_owned(), "qwen-code-0.24.4".to_owned()]));
}

#[test]
fn a_turn_that_failed_while_the_agent_was_not_known_is_told_when_it_is() {
    // `error` is anybody's; what follows says whose it was.
    let error = r#"{"type":"error","message":"stream disconnected before completion"}"#;
    assert_eq!(outcome(&read(&[error, THREAD])), (Some(Agent::Codex), Outcome::Failure, Some(Category::Network)));
    let claude = read(&[error, INIT, TEXT, RESULT]);
    assert_eq!(outcome(&claude), (Some(Agent::Claude), Outcome::Success, None), "what one agent failed of is not another's");
}

#[test]
fn a_document_of_nobodys_is_never_a_success() {
    let error = r#"{"error":{"message":"boom"}}"#;
    let read = |text: &str, agent| tell(text.as_bytes(), 4096, InputFormat::Document, agent, &Ending::default());
    assert_eq!(outcome(&read(error, None)), (None, Outcome::Incomplete, Some(Category::NoResult)));
    assert_eq!(outcome(&read(error, Some(Agent::Claude))).1, Outcome::Incomplete, "whatever agent it is said to be");
    let envelope = r#"{"messages":[{"type":"user","content":"hi"}],"error":{"message":"boom","type":"api"}}"#;
    let told = read(envelope, None);
    assert_eq!(outcome(&told), (Some(Agent::Claude), Outcome::Failure, Some(Category::Api)));
    assert_eq!(told.summary.verdict.error.as_deref(), Some("boom"));
    let answered = r#"{"session_id":"s","result":"hi"}"#;
    assert_eq!(outcome(&read(answered, None)), (Some(Agent::Claude), Outcome::Success, None));
}

#[test]
fn a_result_that_shares_a_key_with_claudes_counts_only_where_nobody_else_spoke() {
    let lenient = r#"{"type":"result","subtype":"success","result":"hello"}"#;
    assert_eq!(outcome(&read(&[lenient])), (Some(Agent::Claude), Outcome::Success, None));
    assert_eq!(outcome(&read(&[TEXT, lenient])), (Some(Agent::Claude), Outcome::Success, None));
    for lines in [[NEW, lenient], [lenient, NEW]] {
        assert_eq!(outcome(&read(&lines)), (None, Outcome::Incomplete, Some(Category::NoResult)), "{lines:?}");
    }
    let denied = r#"{"type":"result","is_error":false,"result":"hello","error":"of a tool"}"#;
    assert_eq!(outcome(&read(&[denied])), (Some(Agent::Claude), Outcome::Success, None), "it says that it has not failed");
}

#[test]
fn lines_that_may_be_of_two_agents_are_read_as_one_agents() {
    let error = r#"{"type":"error","message":"boom"}"#;
    let init = r#"{"type":"system","subtype":"init","session_id":"s"}"#;
    // Many agents write such an `error`; such an `init` says more.
    assert_eq!(outcome(&read(&[error, init])), (Some(Agent::Claude), Outcome::Incomplete, Some(Category::NoResult)));
    let told = read(&[init, error]);
    assert_eq!(told.summary.agent, Some(Agent::Claude));
    assert_eq!(told.records[1].event.agent(), Some(Agent::Claude), "{:?}", told.records[1].event);
    // As likely one's as the other's: nobody's.
    let completed = r#"{"type":"turn.completed"}"#;
    for lines in [[init, completed], [completed, init]] {
        assert_eq!(outcome(&read(&lines)), (None, Outcome::Incomplete, Some(Category::NoResult)), "{lines:?}");
    }
}
