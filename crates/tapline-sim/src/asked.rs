//! What a request asks, read leniently from either API.

use tapline_protocol::{Json, Value};

use crate::scenario::{Facts, Lane};

/// Which API is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// Anthropic's `POST /v1/messages`.
    Messages,
    /// OpenAI's `POST /v1/responses`.
    Responses,
}

/// What a request asks.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) facts: Facts,
    pub(crate) stream: bool,
}

impl Asked {
    pub(crate) fn of(api: Api, body: &Json) -> Option<Self> {
        body.with(|body| {
            let facts = match api {
                Api::Messages => of_messages(body),
                Api::Responses => of_responses(body),
            };
            Self { facts, stream: body.get("stream").and_then(Value::as_bool).unwrap_or(false) }
        })
    }
}

fn text(value: Option<Value<'_>>) -> String {
    value.and_then(Value::as_str).map(std::borrow::Cow::into_owned).unwrap_or_default()
}

fn is(value: Value<'_>, key: &str, word: &str) -> bool {
    value.get(key).and_then(Value::as_str).as_deref() == Some(word)
}

/// The texts in a content: a string, or blocks with `text`, or results of tools with such a content.
fn texts(content: Option<Value<'_>>, out: &mut Vec<String>) {
    let Some(content) = content else { return };
    if let Some(text) = content.as_str() {
        return out.push(text.into_owned());
    }
    for block in content.items().into_iter().flatten() {
        if let Some(text) = block.get("text").and_then(Value::as_str) {
            out.push(text.into_owned());
        } else {
            texts(block.get("content").or_else(|| block.get("output")), out);
        }
    }
}

/// What a message says itself: what the program wraps around it is left out.
fn said(content: Option<Value<'_>>) -> String {
    let mut all = Vec::new();
    texts(content, &mut all);
    let own = |text: &String| !WRAPPINGS.iter().any(|tag| text.trim_start().starts_with(tag));
    all.into_iter().filter(own).collect::<Vec<_>>().join("\n")
}

/// What programs put around what people say.
const WRAPPINGS: &[&str] = &["<system-reminder>", "<environment_context>", "<user_instructions>", "<permissions instructions>"];

fn of_messages(body: Value<'_>) -> Facts {
    let messages: Vec<Value<'_>> = body.get("messages").and_then(Value::items).into_iter().flatten().collect();
    let mut system = Vec::new();
    texts(body.get("system"), &mut system);
    let tools: Vec<String> = body.get("tools").and_then(Value::items).into_iter().flatten().map(|tool| text(tool.get("name"))).collect();
    let users = || messages.iter().filter(|message| is(**message, "role", "user"));
    let system = system.join("\n");
    let lane = if tools.is_empty() {
        Lane::Side
    } else if SUB_AGENTS.iter().any(|mark| system.contains(mark)) {
        Lane::Sub
    } else {
        Lane::Main
    };
    Facts {
        lane,
        count: messages.iter().filter(|message| is(**message, "role", "assistant")).count() as u64,
        last: users().next_back().map(|message| said(message.get("content"))).unwrap_or_default(),
        prompt: users().map(|message| said(message.get("content"))).find(|text| !text.is_empty()).unwrap_or_default(),
        system,
        model: text(body.get("model")),
        tools,
    }
}

/// What the system prompts of sub-agents say, and no other.
const SUB_AGENTS: &[&str] = &["You are an agent for Claude Code"];

fn of_responses(body: Value<'_>) -> Facts {
    let input = body.get("input");
    let items: Vec<Value<'_>> = input.and_then(Value::items).into_iter().flatten().collect();
    let is_answer = |item: &Value<'_>| {
        matches!(text(item.get("type")).as_str(), "reasoning" | "function_call" | "custom_tool_call" | "local_shell_call") || is(*item, "role", "assistant")
    };
    let answers = items.iter().enumerate().filter(|(at, item)| is_answer(item) && (*at == 0 || !is_answer(&items[at - 1]))).count();
    let from_user = |item: &&Value<'_>| is(**item, "role", "user") || text(item.get("type")).ends_with("_output");
    let own = |item: &Value<'_>| {
        let content = item.get("content").or_else(|| item.get("output"));
        said(content)
    };
    let mut last: Vec<String> = items.iter().rev().take_while(|item| !is_answer(item)).filter(from_user).map(own).collect();
    last.reverse();
    let whole = input.and_then(Value::as_str).map(std::borrow::Cow::into_owned);
    Facts {
        lane: Lane::Main,
        count: answers as u64,
        last: whole.clone().unwrap_or_else(|| last.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")),
        prompt: whole.or_else(|| items.iter().filter(from_user).map(own).find(|text| !text.is_empty())).unwrap_or_default(),
        system: text(body.get("instructions")),
        model: text(body.get("model")),
        tools: body.get("tools").and_then(Value::items).into_iter().flatten().map(|tool| tool_name(tool)).collect(),
    }
}

fn tool_name(tool: Value<'_>) -> String {
    let name = text(tool.get("name"));
    if name.is_empty() { text(tool.get("type")) } else { name }
}
