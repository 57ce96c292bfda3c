//! An answer as Anthropic's Messages API gives it.

use serde_json::{Value, json};

use crate::answer::{Answer, event};
use crate::scenario::Block;

/// The tool that Claude Code offers for answers that must fit a schema.
const STRUCTURED: &str = "StructuredOutput";
/// What is signed in a thought; nobody checks it here.
const SIGNATURE: &str = "c2ltdWxhdGVk";

pub(crate) fn events(answer: Answer<'_>) -> Vec<String> {
    let mut message = message(answer, "[]", None);
    message["usage"]["output_tokens"] = json!(1);
    let mut out = vec![typed(json!({ "type": "message_start", "message": message })), typed(json!({ "type": "ping" }))];
    for (index, block) in answer.turn.blocks.iter().enumerate() {
        let (start, deltas) = parts(answer, index, block);
        out.push(event("content_block_start", &format!(r#"{{"type":"content_block_start","index":{index},"content_block":{start}}}"#)));
        let delta = |delta: String| event("content_block_delta", &format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#));
        out.extend(deltas.into_iter().map(delta));
        out.push(typed(json!({ "type": "content_block_stop", "index": index })));
    }
    let usage = usage(answer);
    out.push(typed(json!({ "type": "message_delta", "delta": { "stop_reason": stop_reason(answer), "stop_sequence": null }, "usage": usage })));
    out.push(typed(json!({ "type": "message_stop" })));
    out
}

pub(crate) fn document(answer: Answer<'_>) -> String {
    let blocks: Vec<String> = answer.turn.blocks.iter().enumerate().map(|(index, block)| whole(answer, index, block)).collect();
    let mut text = message(answer, "[]", Some(stop_reason(answer))).to_string();
    // What a block holds may be no value of Rust's (half an emoji): it is put in as it is written.
    if let Some(at) = text.find(r#""content":[]"#) {
        text.replace_range(at..at + r#""content":[]"#.len(), &format!(r#""content":[{}]"#, blocks.join(",")));
    }
    text
}

fn typed(data: Value) -> String {
    let name = data["type"].as_str().unwrap_or_default().to_owned();
    event(&name, &data.to_string())
}

fn message(answer: Answer<'_>, _content: &str, stop_reason: Option<&str>) -> Value {
    json!({
        "id": format!("msg_{}", answer.id), "type": "message", "role": "assistant", "model": answer.model, "content": [],
        "stop_reason": stop_reason, "stop_sequence": null, "usage": usage(answer),
    })
}

fn usage(answer: Answer<'_>) -> Value {
    let usage = answer.usage;
    json!({
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_creation_input_tokens,
        "cache_read_input_tokens": usage.cache_read_input_tokens,
        "output_tokens": usage.output_tokens,
        "service_tier": "standard",
    })
}

fn stop_reason(answer: Answer<'_>) -> &str {
    let usual = if answer.calls_tools() { "tool_use" } else { "end_turn" };
    answer.turn.stop_reason.as_deref().unwrap_or(usual)
}

/// How a block begins, and the deltas that fill it.
fn parts(answer: Answer<'_>, index: usize, block: &Block) -> (String, Vec<String>) {
    let chunk = answer.turn.pace.chunk.get();
    let call = |name: &str, id: Option<&str>, input: &Value| {
        let start = json!({ "type": "tool_use", "id": answer.call_id("toolu", id, index), "name": name, "input": {} });
        let input = crate::scenario::Text::plain(&input.to_string());
        let delta = |part: String| format!(r#"{{"type":"input_json_delta","partial_json":{part}}}"#);
        (start.to_string(), input.chunks(chunk).into_iter().map(delta).collect())
    };
    match block {
        Block::Text(text) => {
            let delta = |part: String| format!(r#"{{"type":"text_delta","text":{part}}}"#);
            (json!({ "type": "text", "text": "" }).to_string(), text.chunks(chunk).into_iter().map(delta).collect())
        }
        Block::Thinking(text) => {
            let delta = |part: String| format!(r#"{{"type":"thinking_delta","thinking":{part}}}"#);
            let signed = json!({ "type": "signature_delta", "signature": SIGNATURE }).to_string();
            let deltas = text.chunks(chunk).into_iter().map(delta).chain([signed]).collect();
            (json!({ "type": "thinking", "thinking": "", "signature": "" }).to_string(), deltas)
        }
        Block::Tool(tool) => call(&tool.name, tool.id.as_deref(), &tool.input),
        Block::Structured(value) => call(STRUCTURED, None, value),
        Block::Raw(json) => (json.as_str().to_owned(), Vec::new()),
    }
}

/// A block all at once.
fn whole(answer: Answer<'_>, index: usize, block: &Block) -> String {
    let call = |name: &str, id: Option<&str>, input: &Value| {
        json!({ "type": "tool_use", "id": answer.call_id("toolu", id, index), "name": name, "input": input }).to_string()
    };
    match block {
        Block::Text(text) => format!(r#"{{"type":"text","text":{}}}"#, text.json()),
        Block::Thinking(text) => format!(r#"{{"type":"thinking","thinking":{},"signature":"{SIGNATURE}"}}"#, text.json()),
        Block::Tool(tool) => call(&tool.name, tool.id.as_deref(), &tool.input),
        Block::Structured(value) => call(STRUCTURED, None, value),
        Block::Raw(json) => json.as_str().to_owned(),
    }
}
