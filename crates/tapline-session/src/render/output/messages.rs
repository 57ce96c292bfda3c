//! The conversation as a list of messages: type, content, and the model of an answer. An agent writes a message in pieces; here it
//! is whole again.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Write as _;

use serde::Serialize;
use tapline_protocol::{Json, Kind, Record, Value};

use crate::step::{Step, What};

/// A block, as the agents that write messages write it.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'s> {
    Text { text: &'s str },
    Thinking { thinking: &'s str },
    ToolUse { id: Option<&'s str>, name: &'s str, input: Option<&'s Json> },
    ToolResult { tool_use_id: Option<&'s str>, content: &'s str, is_error: bool },
}

impl<'s> Block<'s> {
    /// The block that a step stands for, and whose message it is part of.
    fn of(what: &'s What) -> Option<(&'static str, Self)> {
        if let What::Answer(answer) = what {
            let (tool_use_id, content) = (answer.id.as_deref(), answer.text.as_str());
            return Some(("user", Self::ToolResult { tool_use_id, content, is_error: answer.is_error }));
        }
        let block = if let What::Text(said) = what {
            Self::Text { text: &said.text }
        } else if let What::Thinking(said) = what {
            Self::Thinking { thinking: &said.text }
        } else if let What::Call(call) = what {
            Self::ToolUse { id: call.id.as_deref(), name: &call.name, input: call.input.as_ref() }
        } else {
            return None;
        };
        Some(("assistant", block))
    }
}

/// The messages so far.
#[derive(Debug, Default)]
pub(super) struct Messages {
    list: Vec<Message>,
    /// Where the messages with an id are in the list. Its pieces may come between those of others.
    places: HashMap<(&'static str, String), usize>,
}

#[derive(Debug, Default)]
struct Message {
    /// `user` or `assistant`; empty if `content` is the whole message, as a document had it.
    kind: &'static str,
    /// Its blocks, or one value that is no list.
    content: Vec<String>,
    is_list: bool,
    /// More keys, each with a comma before it.
    more: String,
}

impl Messages {
    /// Takes a prompt that was sent to the agent.
    pub(super) fn prompt(&mut self, text: &str) {
        let content = vec![serde_json::to_string(text).unwrap_or_default()];
        self.list.push(Message { kind: "user", content, ..Message::default() });
    }

    /// Takes the steps of an agent that reports its work in items: it writes no messages, so their blocks are made from the steps.
    pub(super) fn work(&mut self, steps: &[Step]) {
        for step in steps {
            let Some((kind, block)) = Block::of(&step.what) else { continue };
            let block = serde_json::to_string(&block).unwrap_or_default();
            // What comes between two answers of tools is one message of the model.
            match self.list.last_mut().filter(|last| last.is_list && last.kind == kind) {
                Some(last) => last.content.push(block),
                None => self.list.push(Message { kind, content: vec![block], is_list: true, ..Message::default() }),
            }
        }
    }

    /// Takes the next record.
    pub(super) fn accept(&mut self, record: &Record) {
        let kind = match record.envelope.kind.as_deref() {
            Some("user") => "user",
            Some("assistant") => "assistant",
            _ => "",
        };
        record.with(|value| {
            if let Some(messages) = value.get("messages").and_then(Value::items) {
                let whole = messages.map(|message| Message { content: vec![message.raw().to_owned()], ..Message::default() });
                self.list.extend(whole);
            } else if !kind.is_empty() {
                let body = value.get("message").filter(|message| message.kind() == Kind::Object).unwrap_or(value);
                self.piece(kind, record.envelope.parent.as_deref(), body);
            }
        });
    }

    fn piece(&mut self, kind: &'static str, parent: Option<&str>, body: Value<'_>) {
        let Some(content) = body.get("content") else { return };
        let blocks: Option<Vec<String>> = content.items().map(|blocks| blocks.map(|block| block.raw().to_owned()).collect());
        let id = body.get("id").and_then(Value::as_str).map(Cow::into_owned);
        let place = id.and_then(|id| match (&blocks, self.places.entry((kind, id))) {
            (Some(_), Entry::Occupied(place)) => Some(*place.get()),
            (Some(_), Entry::Vacant(place)) => {
                place.insert(self.list.len());
                None
            }
            (None, _) => None,
        });
        if let (Some(blocks), Some(earlier)) = (&blocks, place.and_then(|place| self.list.get_mut(place))) {
            // Some versions write all blocks so far, others only the new ones.
            let known = if blocks.starts_with(&earlier.content) { earlier.content.len() } else { 0 };
            earlier.content.extend_from_slice(&blocks[known..]);
            return;
        }
        let mut more = body.get("model").map(|model| format!(",\"model\":{}", model.raw())).unwrap_or_default();
        if let Some(parent) = parent {
            let _ = write!(more, ",\"parent_tool_use_id\":{}", serde_json::to_string(parent).unwrap_or_default());
        }
        let is_list = blocks.is_some();
        let content = blocks.unwrap_or_else(|| vec![content.raw().to_owned()]);
        self.list.push(Message { kind, content, is_list, more });
    }

    /// All of them, as a JSON array.
    pub(super) fn to_json(&self) -> String {
        let messages: Vec<_> = self.list.iter().map(Message::to_json).collect();
        format!("[{}]", messages.join(","))
    }
}

impl Message {
    fn to_json(&self) -> String {
        let Self { kind, is_list, more, .. } = self;
        let content = self.content.join(",");
        match (*kind, is_list) {
            ("", _) => content,
            (kind, true) => format!("{{\"type\":\"{kind}\",\"content\":[{content}]{more}}}"),
            (kind, false) => format!("{{\"type\":\"{kind}\",\"content\":{content}{more}}}"),
        }
    }
}
