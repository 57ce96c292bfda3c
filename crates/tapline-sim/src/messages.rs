//! An answer in the format of the Messages API, which Claude Code uses.

use serde_json::Value;

use crate::answer::{Answer, event};
use crate::scenario::ScriptedBlock;

/// The tool that Claude Code offers for answers that must match a schema.
const STRUCTURED: &str = "StructuredOutput";
/// The signature of a thought. Nobody checks it here.
const SIGNATURE: &str = "c2ltdWxhdGVk";

pub(crate) fn events(answer: Answer<'_>) -> Vec<String> {
    // As in the real API, the number of output tokens is not known yet.
    let message = message(answer, "", None, 1);
    let start = event("message_start", &format!(r#"{{"type":"message_start","message":{message}}}"#));
    let mut out = vec![start, event("ping", r#"{"type":"ping"}"#)];
    for (index, block) in answer.turn.blocks.iter().enumerate() {
        let (start, deltas) = parts(answer, index, block);
        out.push(event(
            "content_block_start",
            &format!(r#"{{"type":"content_block_start","index":{index},"content_block":{start}}}"#),
        ));
        let delta = |delta: String| {
            event("content_block_delta", &format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#))
        };
        out.extend(deltas.into_iter().map(delta));
        out.push(event("content_block_stop", &format!(r#"{{"type":"content_block_stop","index":{index}}}"#)));
    }
    let (reason, usage) = (Value::from(stop_reason(answer)), usage(answer, answer.usage.output_tokens));
    let ending =
        format!(r#"{{"type":"message_delta","delta":{{"stop_reason":{reason},"stop_sequence":null}},"usage":{usage}}}"#);
    out.extend([event("message_delta", &ending), event("message_stop", r#"{"type":"message_stop"}"#)]);
    out
}

pub(crate) fn document(answer: Answer<'_>) -> String {
    let blocks: Vec<String> = answer.turn.blocks.iter().enumerate().map(|(index, block)| whole(answer, index, block)).collect();
    message(answer, &blocks.join(","), Some(stop_reason(answer)), answer.usage.output_tokens)
}

/// The text is written directly, because a block may hold what a Rust string cannot: half an emoji.
fn message(answer: Answer<'_>, content: &str, stop_reason: Option<&str>, output: u64) -> String {
    let (id, model, reason, usage) = (answer.id, Value::from(answer.model), Value::from(stop_reason), usage(answer, output));
    format!(
        r#"{{"id":"msg_{id}","type":"message","role":"assistant","model":{model},"content":[{content}],"stop_reason":{reason},"stop_sequence":null,"usage":{usage}}}"#
    )
}

fn usage(answer: Answer<'_>, output: u64) -> String {
    let usage = answer.usage;
    let (written, hour) = (usage.cache_creation_input_tokens, usage.ephemeral_1h_input_tokens);
    let mut more = String::new();
    if hour > 0 {
        let minutes = written.saturating_sub(hour);
        let times = format!(r#"{{"ephemeral_5m_input_tokens":{minutes},"ephemeral_1h_input_tokens":{hour}}}"#);
        more = format!(r#","cache_creation":{times}"#);
    }
    if usage.web_search_requests > 0 {
        more = format!(r#"{more},"server_tool_use":{{"web_search_requests":{}}}"#, usage.web_search_requests);
    }
    format!(
        r#"{{"input_tokens":{},"cache_creation_input_tokens":{written},"cache_read_input_tokens":{},"output_tokens":{output},"service_tier":"standard"{more}}}"#,
        usage.input_tokens, usage.cache_read_input_tokens,
    )
}

fn stop_reason(answer: Answer<'_>) -> &str {
    let usual = if answer.calls_tools() { "tool_use" } else { "end_turn" };
    answer.turn.stop_reason.as_deref().unwrap_or(usual)
}

/// Returns how a block begins, and the deltas that fill it.
fn parts(answer: Answer<'_>, index: usize, block: &ScriptedBlock) -> (String, Vec<String>) {
    let chunk = answer.turn.pace.chunk.get();
    let call = |name: &str, id: Option<&str>, input: &Value| {
        let start = tool_use(&answer.call_id("toolu", id, index), name, "{}");
        let input = crate::scenario::Text::plain(&input.to_string());
        let delta = |part: String| format!(r#"{{"type":"input_json_delta","partial_json":{part}}}"#);
        (start, input.chunks(chunk).into_iter().map(delta).collect())
    };
    match block {
        ScriptedBlock::Text(text) => {
            let delta = |part: String| format!(r#"{{"type":"text_delta","text":{part}}}"#);
            (r#"{"type":"text","text":""}"#.to_owned(), text.chunks(chunk).into_iter().map(delta).collect())
        }
        ScriptedBlock::Thinking(text) => {
            let delta = |part: String| format!(r#"{{"type":"thinking_delta","thinking":{part}}}"#);
            let signed = format!(r#"{{"type":"signature_delta","signature":"{SIGNATURE}"}}"#);
            let deltas = text.chunks(chunk).into_iter().map(delta).chain([signed]).collect();
            (r#"{"type":"thinking","thinking":"","signature":""}"#.to_owned(), deltas)
        }
        ScriptedBlock::Tool(tool) => call(&tool.name, tool.id.as_deref(), &tool.input),
        ScriptedBlock::Structured(value) => call(STRUCTURED, None, value),
        ScriptedBlock::Raw(json) => (json.as_str().to_owned(), Vec::new()),
    }
}

fn tool_use(id: &str, name: &str, input: &str) -> String {
    format!(r#"{{"type":"tool_use","id":{},"name":{},"input":{input}}}"#, Value::from(id), Value::from(name))
}

/// Returns a whole block.
fn whole(answer: Answer<'_>, index: usize, block: &ScriptedBlock) -> String {
    let call =
        |name: &str, id: Option<&str>, input: &Value| tool_use(&answer.call_id("toolu", id, index), name, &input.to_string());
    match block {
        ScriptedBlock::Text(text) => format!(r#"{{"type":"text","text":{}}}"#, text.json()),
        ScriptedBlock::Thinking(text) => {
            format!(r#"{{"type":"thinking","thinking":{},"signature":"{SIGNATURE}"}}"#, text.json())
        }
        ScriptedBlock::Tool(tool) => call(&tool.name, tool.id.as_deref(), &tool.input),
        ScriptedBlock::Structured(value) => call(STRUCTURED, None, value),
        ScriptedBlock::Raw(json) => json.as_str().to_owned(),
    }
}
