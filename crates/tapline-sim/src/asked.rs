//! Reads leniently what a request of either API asks.

use std::collections::{BTreeMap, HashSet};

use tapline_protocol::{Json, Kind, Value};

use crate::agents::{Guest, guests};
use crate::scenario::{Facts, Lane};

/// The API of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    /// The Messages API: `POST /v1/messages`.
    Messages,
    /// The Responses API: `POST /v1/responses`.
    Responses,
}

impl Api {
    /// Returns the id of an answer as the API writes it.
    pub(crate) fn id_of_answer(self, id: &str) -> String {
        let prefix = match self {
            Self::Messages => "msg",
            Self::Responses => "resp",
        };
        format!("{prefix}_{id}")
    }
}

/// What a request asks.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) facts: Facts,
    pub(crate) stream: bool,
}

impl Asked {
    /// Reads a request. `given` holds the prompts that sub-agents were started with: requests of older programs do not
    /// name an agent, but a conversation that starts with one of these prompts is a sub-agent's.
    pub(crate) fn of(api: Api, headers: &BTreeMap<String, String>, body: &Json, given: &HashSet<String>) -> Option<Self> {
        body.with(|body| {
            if body.kind() != Kind::Object {
                return None;
            }
            let mut facts = match api {
                Api::Messages => of_messages(body),
                Api::Responses => of_responses(body),
            };
            let is_sub = guests().any(|guest| headers.contains_key(guest.of_sub_agents)) || given.contains(&facts.prompt);
            let program = told(headers, "user-agent");
            let asks_aside = |guest: &Guest| guest.asks_aside.is_some_and(|name| program.starts_with(name));
            let is_side = facts.tools.is_empty() && guests().any(asks_aside);
            facts.lane = match (is_side, is_sub) {
                (true, _) => Lane::Side,
                (false, true) => Lane::Sub,
                (false, false) => Lane::Main,
            };
            Some(Self { facts, stream: body.get("stream").and_then(Value::as_bool).unwrap_or(false) })
        })
        .flatten()
    }
}

fn told<'h>(headers: &'h BTreeMap<String, String>, name: &str) -> &'h str {
    headers.get(name).map_or("", String::as_str)
}

fn text(value: Option<Value<'_>>) -> String {
    value.and_then(Value::as_str).map(std::borrow::Cow::into_owned).unwrap_or_default()
}

fn is(value: Value<'_>, key: &str, word: &str) -> bool {
    value.get(key).and_then(Value::as_str).as_deref() == Some(word)
}

/// Collects the texts of a content: a string, blocks with `text`, or tool results with such a content.
fn texts(content: Option<Value<'_>>, out: &mut Vec<String>) {
    texts_within(content, out, 0);
}

/// Nothing relevant is nested deeper.
const DEEP: usize = 16;

fn texts_within(content: Option<Value<'_>>, out: &mut Vec<String>, depth: usize) {
    let Some(content) = content.filter(|_| depth < DEEP) else { return };
    if let Some(text) = content.as_str() {
        return out.push(text.into_owned());
    }
    for block in content.items().into_iter().flatten() {
        if let Some(text) = block.get("text").and_then(Value::as_str) {
            out.push(text.into_owned());
        } else {
            texts_within(block.get("content").or_else(|| block.get("output")), out, depth + 1);
        }
    }
}

/// Returns what a message says, without what the program wraps around it.
fn said(content: Option<Value<'_>>) -> String {
    let mut all = Vec::new();
    texts(content, &mut all);
    let said: Vec<&str> = all.iter().filter(|text| !is_wrapping(text)).map(String::as_str).collect();
    // Sometimes the message has only what the program adds.
    if said.is_empty() { all.join("\n") } else { said.join("\n") }
}

fn is_wrapping(text: &str) -> bool {
    WRAPPINGS.iter().any(|tag| text.trim_start().starts_with(tag))
}

/// Tags that programs wrap around what people say.
const WRAPPINGS: &[&str] = &[
    "<system-reminder>",
    "<session-start-hook>",
    "<user-prompt-submit-hook>",
    "<environment_context>",
    "<user_instructions>",
    "<subagent_notification>",
];

fn of_messages(body: Value<'_>) -> Facts {
    let messages: Vec<Value<'_>> = body.get("messages").and_then(Value::items).into_iter().flatten().collect();
    let mut system = Vec::new();
    texts(body.get("system"), &mut system);
    let tools: Vec<String> =
        body.get("tools").and_then(Value::items).into_iter().flatten().map(|tool| text(tool.get("name"))).collect();
    let users = || messages.iter().filter(|message| is(**message, "role", "user"));
    let system = system.join("\n");
    Facts {
        lane: Lane::Main,
        count: messages.iter().filter(|message| is(**message, "role", "assistant")).count() as u64,
        last: users().next_back().map(|message| said(message.get("content"))).unwrap_or_default(),
        prompt: users().next().map(|message| said(message.get("content"))).unwrap_or_default(),
        system,
        model: text(body.get("model")),
        tools,
    }
}

fn of_responses(body: Value<'_>) -> Facts {
    let input = body.get("input");
    let items: Vec<Value<'_>> = input.and_then(Value::items).into_iter().flatten().collect();
    let is_answer = |item: &Value<'_>| {
        matches!(text(item.get("type")).as_str(), "reasoning" | "function_call" | "custom_tool_call" | "local_shell_call")
            || is(*item, "role", "assistant")
    };
    let answers =
        items.iter().enumerate().filter(|(at, item)| is_answer(item) && (*at == 0 || !is_answer(&items[at - 1]))).count();
    let from_user = |item: &&Value<'_>| is(**item, "role", "user") || text(item.get("type")).ends_with("_output");
    let own = |item: &Value<'_>| said(item.get("content").or_else(|| item.get("output")));
    let mut last: Vec<String> = items.iter().rev().take_while(|item| !is_answer(item)).filter(from_user).map(own).collect();
    last.reverse();
    let whole = input.and_then(Value::as_str).map(std::borrow::Cow::into_owned);
    Facts {
        lane: Lane::Main,
        count: answers as u64,
        last: whole.clone().unwrap_or_else(|| {
            last.into_iter().filter(|text| !text.is_empty() && !is_wrapping(text)).collect::<Vec<_>>().join("\n")
        }),
        prompt: whole
            .or_else(|| items.iter().filter(from_user).map(own).find(|text| !text.is_empty() && !is_wrapping(text)))
            .unwrap_or_default(),
        system: text(body.get("instructions")),
        model: text(body.get("model")),
        tools: {
            let mut tools = Vec::new();
            tool_names(body, &mut tools, 0);
            for item in &items {
                tool_names(*item, &mut tools, 0);
            }
            tools
        },
    }
}

/// What stands before the name of a tool that is called in code, in the description of the tool that runs the code.
const IN_CODE: &str = "declare const tools: { ";

/// Collects the names of the tools in `tools`, including those in a namespace, and those that the code which one of them runs may call.
fn tool_names(holder: Value<'_>, out: &mut Vec<String>, depth: usize) {
    for tool in holder.get("tools").filter(|_| depth < DEEP).and_then(Value::items).into_iter().flatten() {
        let name = text(tool.get("name"));
        out.push(if name.is_empty() { text(tool.get("type")) } else { name });
        let description = text(tool.get("description"));
        out.extend(description.split(IN_CODE).skip(1).filter_map(|rest| Some(rest.split_once('(')?.0.to_owned())));
        tool_names(tool, out, depth + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_in_namespaces_and_in_code_are_offered() {
        let exec = "Runs code.\n\n### `apply_patch`\n```ts\ndeclare const tools: { apply_patch(input: string): Promise<unknown>; };\n```\n\n\
                    ### `exec_command`\n```ts\ndeclare const tools: { exec_command(args: {\n  cmd: string;\n}): Promise<unknown>; };\n```";
        let functions = serde_json::json!([{ "type": "custom", "name": "exec", "description": exec }, { "type": "function", "name": "wait" }]);
        let tools = serde_json::json!([{ "type": "namespace", "name": "functions", "tools": functions }]);
        let body =
            serde_json::json!({ "model": "m", "input": [{ "type": "additional_tools", "role": "developer", "tools": tools }] });
        let facts = Json::from(body).with(of_responses).unwrap();
        assert_eq!(facts.tools, ["functions", "exec", "apply_patch", "exec_command", "wait"]);
        assert!(facts.may_call("exec_command") && !facts.may_call("Bash"));
    }
}
