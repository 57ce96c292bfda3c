//! An answer in the format of the Responses API, which Codex uses.

use serde_json::{Value, json};

use crate::answer::{Answer, event};
use crate::scenario::{ScriptedBlock, Text};

pub(crate) fn events(answer: Answer<'_>) -> Vec<String> {
    let begun = response(answer, "in_progress", "[]", false);
    let mut out = vec![event("response.created", &format!(r#"{{"type":"response.created","response":{begun}}}"#))];
    for (index, block) in answer.turn.blocks.iter().enumerate() {
        let item = item(answer, index, block);
        if let ScriptedBlock::Text(text) = block {
            let id = format!("msg_{}_{index}", answer.id);
            let empty = json!({ "type": "message", "id": id, "role": "assistant", "status": "in_progress", "content": [] });
            out.push(added(index, &empty.to_string()));
            let delta = |part: String| {
                event(
                    "response.output_text.delta",
                    &format!(
                        r#"{{"type":"response.output_text.delta","item_id":"{id}","output_index":{index},"content_index":0,"delta":{part}}}"#
                    ),
                )
            };
            out.extend(text.chunks(answer.turn.pace.chunk.get()).into_iter().map(delta));
        } else {
            out.push(added(index, &item));
        }
        out.push(event(
            "response.output_item.done",
            &format!(r#"{{"type":"response.output_item.done","output_index":{index},"item":{item}}}"#),
        ));
    }
    let ended = finished(answer);
    out.push(event("response.completed", &format!(r#"{{"type":"response.completed","response":{ended}}}"#)));
    out
}

pub(crate) fn document(answer: Answer<'_>) -> String {
    finished(answer)
}

fn added(index: usize, item: &str) -> String {
    event(
        "response.output_item.added",
        &format!(r#"{{"type":"response.output_item.added","output_index":{index},"item":{item}}}"#),
    )
}

fn finished(answer: Answer<'_>) -> String {
    let items: Vec<String> = answer.turn.blocks.iter().enumerate().map(|(index, block)| item(answer, index, block)).collect();
    response(answer, "completed", &format!("[{}]", items.join(",")), true)
}

fn response(answer: Answer<'_>, status: &str, output: &str, used: bool) -> String {
    let id = format!("resp_{}", answer.id);
    let usage = if used { usage(answer) } else { Value::Null };
    let model = Value::from(answer.model);
    format!(
        r#"{{"id":"{id}","object":"response","created_at":0,"status":"{status}","model":{model},"output":{output},"usage":{usage}}}"#
    )
}

/// In this API, the input tokens include the cached ones.
fn usage(answer: Answer<'_>) -> Value {
    let usage = answer.usage;
    let parts = [usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens];
    let input = parts.into_iter().fold(0, u64::saturating_add);
    json!({
        "input_tokens": input,
        "input_tokens_details": { "cached_tokens": usage.cache_read_input_tokens, "cache_write_tokens": usage.cache_creation_input_tokens },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": { "reasoning_tokens": usage.reasoning_tokens },
        "total_tokens": input.saturating_add(usage.output_tokens),
    })
}

/// Returns a whole block.
fn item(answer: Answer<'_>, index: usize, block: &ScriptedBlock) -> String {
    let message = |text: &Text| {
        let id = format!("msg_{}_{index}", answer.id);
        format!(
            r#"{{"type":"message","id":"{id}","role":"assistant","status":"completed","content":[{{"type":"output_text","text":{},"annotations":[]}}]}}"#,
            text.json()
        )
    };
    match block {
        ScriptedBlock::Text(text) => message(text),
        ScriptedBlock::Structured(value) => message(&Text::plain(&value.to_string())),
        ScriptedBlock::Thinking(text) => {
            let id = format!("rs_{}_{index}", answer.id);
            format!(
                r#"{{"type":"reasoning","id":"{id}","summary":[{{"type":"summary_text","text":{}}}],"content":null,"encrypted_content":null}}"#,
                text.json()
            )
        }
        ScriptedBlock::Tool(tool) => {
            let id = answer.call_id("call", tool.id.as_deref(), index);
            let mut item = json!({
                "type": "function_call", "id": format!("fc_{}_{index}", answer.id), "call_id": id, "name": tool.name,
                "arguments": tool.input.to_string(), "status": "completed",
            });
            if let Some(namespace) = &tool.namespace {
                item["namespace"] = json!(namespace);
            }
            item.to_string()
        }
        ScriptedBlock::Raw(json) => json.as_str().to_owned(),
    }
}
