//! Steps as spans: what is below what, when it began and ended, what it says, and what it does not say.

use std::collections::HashMap;
use std::path::PathBuf;

use tapline_protocol::{Moment, Reader};
use tapline_session::otlp::{
    AgentSpan, AttributeValue, Clean, Measures, Operation, OtlpResource, SpanKind, Spans, encode_metrics, encode_span,
    encode_traces,
};
use tapline_session::{Fold, Step, What};
use tapline_testkit::fixture;

/// Every fixture that is a stream.
fn streams() -> Vec<PathBuf> {
    let folders = ["claude-1.0.128", "claude-2.0.76", "claude-2.1.325", "codex-0.166.0", "events"].map(fixture);
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    files.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl")).collect()
}

/// A stream as steps. Its lines arrive a second after each other.
fn steps(stream: &str) -> Vec<Step> {
    let mut fold = Fold::default();
    let mut steps = Vec::new();
    for (at, record) in (1..).zip(Reader::new(stream.as_bytes())) {
        let mut record = record.unwrap();
        record.arrived = Some(Moment::from_millis(at * 1_000));
        steps.extend(fold.apply(&record));
    }
    steps
}

fn spans_of(mut spans: Spans, stream: &str) -> Vec<AgentSpan> {
    for step in &steps(stream) {
        spans.accept(step);
    }
    spans.finish(None);
    spans.take()
}

fn spans(stream: &str) -> Vec<AgentSpan> {
    spans_of(Spans::default(), stream)
}

/// Each span in short: its name, from when to when, and its error.
fn short(spans: &[AgentSpan]) -> Vec<String> {
    let line = |span: &AgentSpan| {
        let error = span.error.as_ref().map(|error| format!(" !{error}")).unwrap_or_default();
        format!("{} {}-{}{error}", span.name, span.start.as_millis() / 1_000, span.end.as_millis() / 1_000)
    };
    spans.iter().map(line).collect()
}

fn value<'s>(span: &'s AgentSpan, key: &str) -> Option<&'s AttributeValue> {
    span.attributes.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
}

const INIT: &str =
    r#"{"type":"system","subtype":"init","session_id":"s","model":"opus","cwd":"/home/dev/shop","claude_code_version":"2.1"}"#;
const RESULT: &str = r#"{"type":"result","subtype":"success","is_error":false,"session_id":"s","result":"done","total_cost_usd":0.5,"num_turns":1,"usage":{"input_tokens":10,"output_tokens":20,"cache_read_input_tokens":30,"cache_creation_input_tokens":40}}"#;

fn said(message: &str, block: &str) -> String {
    format!(
        r#"{{"type":"assistant","session_id":"s","message":{{"id":"{message}","model":"opus","role":"assistant","content":[{block}]}}}}"#
    )
}

fn text(message: &str) -> String {
    said(message, r#"{"type":"text","text":"WORDS"}"#)
}

fn call(message: &str, id: &str) -> String {
    said(message, &format!(r#"{{"type":"tool_use","id":"{id}","name":"Bash","input":{{"command":"ARGUMENTS"}}}}"#))
}

fn answer(id: &str, is_error: bool) -> String {
    let block = format!(r#"{{"type":"tool_result","tool_use_id":"{id}","is_error":{is_error},"content":"OUTPUT"}}"#);
    format!(r#"{{"type":"user","session_id":"s","message":{{"role":"user","content":[{block}]}}}}"#)
}

fn stream(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

#[test]
fn a_turn_has_its_requests_and_calls() {
    let stream = stream(&[
        INIT.to_owned(),
        text("m1"),
        call("m1", "t1"),
        call("m1", "t2"),
        answer("t2", true),
        answer("t1", false),
        text("m2"),
        RESULT.to_owned(),
    ]);
    let spans = spans(&stream);
    // A request begins when the model could answer: with the session, or with the last result.
    let expected = [
        "execute_tool Bash 4-5 !tool_error",
        "execute_tool Bash 3-6",
        "chat opus 1-4",
        "chat opus 6-7",
        "invoke_agent claude 1-8",
        "session claude 1-8",
    ];
    assert_eq!(short(&spans), expected);
    let [_, _, chat, _, turn, session] = &spans[..] else { panic!() };
    assert_eq!((chat.kind, turn.kind), (SpanKind::Client, SpanKind::Internal));
    assert!(spans[..4].iter().all(|span| span.parent == Some(turn.span_id)) && turn.parent == Some(session.span_id));
    assert!(spans.iter().all(|span| span.trace_id == session.trace_id) && session.parent.is_none());
    // The conventions count cached tokens as input.
    let usage = ["input_tokens", "output_tokens", "cache_read.input_tokens", "cache_creation.input_tokens"];
    let usage = usage.map(|name| value(turn, &format!("gen_ai.usage.{name}")).cloned());
    assert_eq!(usage, [80, 20, 30, 40].map(|count| Some(AttributeValue::Whole(count))));
    assert_eq!(value(turn, "tapline.cost_usd"), Some(&AttributeValue::Number(0.5)));
    assert_eq!((turn.text("tapline.project"), turn.text("gen_ai.agent.version")), (Some("shop"), Some("2.1")));
    assert_eq!(turn.text("gen_ai.conversation.id"), Some("s"));
}

#[test]
fn what_never_ended_says_so() {
    let stream = stream(&[INIT.to_owned(), call("m1", "t1")]);
    let spans = spans(&stream);
    assert_eq!(short(&spans), ["chat opus 1-2", "execute_tool Bash 2-2", "invoke_agent claude 1-2", "session claude 1-2"]);
    for span in &spans[1..3] {
        assert_eq!(value(span, "tapline.unfinished"), Some(&AttributeValue::Flag(true)), "{}", span.name);
    }
}

#[test]
fn a_turn_that_failed_says_why_in_one_word() {
    let failed = RESULT.replace(r#""success","is_error":false"#, r#""error_max_turns","is_error":true"#);
    let failed = spans(&stream(&[INIT.to_owned(), text("m1"), failed]));
    let turn = failed.iter().find(|span| span.operation == Operation::InvokeAgent).unwrap();
    let error = turn.error.as_deref().unwrap();
    assert!(error.len() < 40 && !error.contains(' '), "{error}");
    assert_eq!((turn.text("error.type"), turn.message.as_deref()), (Some(error), None));
}

#[test]
fn texts_are_told_only_on_request_and_only_clean() {
    let stream = stream(&[
        INIT.to_owned(),
        text("m1"),
        call("m1", "t1"),
        answer("t1", false),
        call("m2", "t2"),
        answer("t2", true),
        RESULT.replace("done", "WORDS"),
    ]);
    let secret = ["WORDS", "ARGUMENTS", "OUTPUT"];
    let plain = format!("{:?}", spans(&stream));
    assert!(secret.iter().all(|word| !plain.contains(word)), "{plain}");
    let told = spans_of(Spans::default().with_content(Clean::new(str::to_owned)), &stream);
    let texts = format!("{told:?}");
    assert!(secret.iter().all(|word| texts.contains(word)), "{texts}");
    // What removes secrets sees every text, and before it is cut.
    let hide = |text: &str| text.replace("WORDS", "x").replace("ARGUMENTS", "x").replace("OUTPUT", "x");
    let hidden = format!("{:?}", spans_of(Spans::default().with_content(Clean::new(hide)), &stream));
    assert!(secret.iter().all(|word| !hidden.contains(word)), "{hidden}");
    let long = "é".repeat(100_000);
    let cut = spans_of(Spans::default().with_content(Clean::new(move |_| long.clone())), &stream);
    assert!(cut.iter().all(|span| encode_span(span).len() < 200_000));
}

#[test]
fn another_session_in_the_same_stream_is_another_trace() {
    let other = |line: &str| line.replace(r#""session_id":"s""#, r#""session_id":"other""#);
    let stream = stream(&[INIT.to_owned(), text("m1"), RESULT.to_owned(), other(INIT), other(&text("m2")), other(RESULT)]);
    let spans = spans(&stream);
    let sessions: Vec<_> = spans.iter().filter(|span| span.operation == Operation::Session).collect();
    assert_eq!(sessions.len(), 2);
    assert_ne!(sessions[0].trace_id, sessions[1].trace_id);
}

#[test]
fn runs_that_number_anew_do_not_share_ids() {
    let run = "{\"type\":\"thread.started\",\"thread_id\":\"s\"}\n{\"type\":\"turn.started\"}\n\
               {\"type\":\"item.completed\",\"item\":{\"id\":\"item_0\",\"type\":\"agent_message\",\"text\":\"x\"}}\n{\"type\":\"turn.completed\"}\n";
    let mut both = Spans::default();
    for later in [0, 60_000] {
        both.begin_run();
        for mut step in steps(run) {
            step.arrived = step.arrived.map(|at| Moment::from_millis(at.as_millis() + later));
            both.accept(&step);
        }
    }
    both.finish(None);
    let told = both.take();
    let turns: Vec<_> = told.iter().filter(|span| span.operation == Operation::InvokeAgent).collect();
    assert_eq!(turns.len(), 2, "{:?}", short(&told));
    let sessions: Vec<_> = told.iter().filter(|span| span.operation == Operation::Session).collect();
    assert_eq!((sessions.len(), turns[0].parent), (1, Some(sessions[0].span_id)));
}

#[test]
fn every_stream_becomes_whole_traces() {
    let mut all = 0;
    for path in streams() {
        let name = path.display();
        let bytes = std::fs::read(&path).unwrap();
        let stream = String::from_utf8_lossy(&bytes);
        let told = spans(&stream);
        let ids: HashMap<_, _> = told.iter().map(|span| ((span.trace_id, span.span_id), span)).collect();
        let repeated = told.len() - ids.len();
        let sessions = told.iter().filter(|span| span.operation == Operation::Session).count();
        assert!(repeated < sessions.max(1), "{name}: only a session may be told again");
        for span in &told {
            assert!(span.start <= span.end, "{name}: {}", span.name);
            assert_eq!(span.parent.is_none(), span.operation == Operation::Session, "{name}: {}", span.name);
            let parent = span.parent.map(|parent| ids.get(&(span.trace_id, parent)));
            assert!(parent.is_none_or(|parent| parent.is_some()), "{name}: the parent of {} is missing", span.name);
            assert_eq!(span.error.as_deref(), span.text("error.type"), "{name}");
        }
        assert_eq!(told, spans(&stream), "{name}: the same again");
        all += told.len();
    }
    assert!(all > 100, "{all}");
}

#[test]
fn nothing_without_a_time_is_made_up() {
    let mut fold = Fold::default();
    let mut told = Spans::default();
    for record in Reader::new(stream(&[INIT.to_owned(), text("m1"), RESULT.to_owned()]).as_bytes()) {
        for step in &fold.apply(&record.unwrap()) {
            told.accept(step);
        }
    }
    told.finish(None);
    assert!(told.lacks_times());
    assert_eq!(told.take(), []);
}

#[test]
fn requests_begin_with_who_sends_them() {
    let spans = spans(&stream(&[INIT.to_owned(), text("m1"), RESULT.to_owned()]));
    let mut measures = Measures::default();
    for span in &spans {
        measures.duration(span);
    }
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let resource = OtlpResource::new("1", [pair("service.name", "a"), pair("x", "y"), pair("service.name", "b")]);
    assert_eq!(resource.attributes, [pair("x", "y"), pair("service.name", "b")]);
    let encoded: Vec<_> = spans.iter().map(encode_span).collect();
    let traces = encode_traces(&resource, encoded.iter().map(Vec::as_slice));
    let metrics = encode_metrics(&resource, &measures, spans[0].start, spans[0].end);
    for (request, name) in [(&traces, "invoke_agent claude"), (&metrics, "gen_ai.invoke_agent.duration")] {
        let text = String::from_utf8_lossy(request);
        assert!(request[0] == 0x0a && text.contains("service.name") && text.contains(name), "{text}");
    }
}

#[test]
fn names_of_any_length_stay_short() {
    let long = "ü".repeat(100_000);
    let call = call("m1", "t1").replace("Bash", &long).replace("opus", &long);
    let told = spans(&stream(&[INIT.replace("opus", &long), call, answer("t1", false), RESULT.to_owned()]));
    assert_eq!(told.len(), 4);
    let mut measures = Measures::default();
    for span in &told {
        assert!(encode_span(span).len() < 4_000, "{}", span.operation.name());
        measures.duration(span);
    }
    let resource = OtlpResource::default();
    assert!(encode_metrics(&resource, &measures, told[0].start, told[0].end).len() < 4_000);
}

/// The streams of runs of one session, a minute after each other.
fn runs(mut spans: Spans, streams: &[String]) -> Vec<AgentSpan> {
    for (at, run) in (0..).zip(streams) {
        spans.begin_run();
        for mut step in steps(run) {
            step.arrived = step.arrived.map(|time| Moment::from_millis(time.as_millis() + at * 60_000));
            spans.accept(&step);
        }
    }
    spans.finish(None);
    spans.take()
}

fn run_of(message: &str, input: u64, output: u64, usd: f64) -> String {
    let usage =
        format!(r#""total_cost_usd":{usd},"num_turns":1,"usage":{{"input_tokens":{input},"output_tokens":{output}}}}}"#);
    let (begin, _) = RESULT.split_once(r#""total_cost_usd""#).unwrap();
    stream(&[INIT.to_owned(), text(message), format!("{begin}{usage}")])
}

#[test]
fn each_run_counts_from_zero_and_the_session_has_all_of_them() {
    let told = runs(Spans::default(), &[run_of("m1", 1_000, 100, 0.5), run_of("m2", 1_200, 130, 0.625)]);
    let turns: Vec<_> = told.iter().filter(|span| span.operation == Operation::InvokeAgent).collect();
    let used =
        |span: &AgentSpan| ["input_tokens", "output_tokens"].map(|name| value(span, &format!("gen_ai.usage.{name}")).cloned());
    let [first, second] = &turns[..] else { panic!("{:?}", short(&told)) };
    assert_eq!(used(first), [1_000, 100].map(|count| Some(AttributeValue::Whole(count))));
    assert_eq!(used(second), [1_200, 130].map(|count| Some(AttributeValue::Whole(count))));
    let session = told.last().unwrap();
    assert_eq!(value(session, "tapline.cost_usd"), Some(&AttributeValue::Number(1.125)));
    assert_eq!(value(session, "tapline.turns"), Some(&AttributeValue::Whole(2)));
}

#[test]
fn a_copy_of_a_run_counts_nothing_again() {
    let told = runs(Spans::default(), &[run_of("m1", 1_000, 100, 0.5), run_of("m1", 1_000, 100, 0.5)]);
    let session = told.last().unwrap();
    assert_eq!(value(session, "tapline.turns"), Some(&AttributeValue::Whole(1)), "{:?}", short(&told));
    assert_eq!(value(session, "tapline.cost_usd"), Some(&AttributeValue::Number(0.5)));
}

#[test]
fn a_turn_that_a_transcript_ends_has_its_texts_and_counts_once() {
    let prompt = r#"{"type":"user","session_id":"s","message":{"role":"user","content":"ASKED"}}"#;
    for is_told in [true, false] {
        let mut spans = Spans::default().with_content(Clean::new(|text| text.replace("SECRET", "***")));
        for step in &steps(&stream(&[INIT.to_owned(), prompt.to_owned(), text("m1").replace("WORDS", "WORDS SECRET")])) {
            spans.accept(step);
        }
        if is_told {
            spans.note_end(false);
            spans.note_end(false);
        }
        spans.finish(None);
        let told = spans.take();
        let turn = told.iter().find(|span| span.operation == Operation::InvokeAgent).unwrap();
        assert!(turn.text("gen_ai.input.messages").is_some_and(|text| text.contains("ASKED")), "{turn:?}");
        let said = turn.text("gen_ai.output.messages").unwrap_or_default();
        assert!(said.contains("WORDS ***") && said.contains("assistant"), "{turn:?}");
        assert_eq!(value(told.last().unwrap(), "tapline.turns"), Some(&AttributeValue::Whole(1)));
    }
}

#[test]
fn reasons_and_errors_are_words() {
    let last = |subtype: &str, reason: &str| {
        let failed = RESULT
            .replace(r#""success","is_error":false"#, &format!(r#""{subtype}","is_error":true,"stop_reason":"{reason}""#));
        let mut spans = Spans::default();
        for mut step in steps(&stream(&[INIT.to_owned(), text("m1"), failed])) {
            // Nobody knows what kind of error it is.
            if let What::Turn(turn) = &mut step.what {
                turn.category = None;
            }
            spans.accept(&step);
        }
        let told = spans.take();
        let turn = told.iter().find(|span| span.operation == Operation::InvokeAgent).unwrap();
        (turn.error.clone(), value(turn, "gen_ai.response.finish_reasons").cloned())
    };
    let reason = |word: &str| Some(AttributeValue::Texts(vec![word.to_owned()]));
    assert_eq!(last("what_nobody_knows", "end_turn"), (Some("what_nobody_knows".to_owned()), reason("end_turn")));
    for text in ["my key is 123", &"x".repeat(100_000)] {
        assert_eq!(last(text, text), (Some("_OTHER".to_owned()), reason("other")));
    }
}
