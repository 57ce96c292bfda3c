//! Codex's types, as `codex exec --json` writes them.

mod event;
mod transcript;

pub use event::Event;

use crate::json::{Json, Value};
use crate::wire::{Count, Field, Read, frame, last_entries, read_back, wire};

wire! {
    /// `thread.started`
    ThreadStarted { thread_id: Option<String> = "thread_id" }

    /// `turn.started`
    TurnStarted {; also "turn_id" }

    /// `turn.completed`: its usage is cumulative over the thread, including resumed runs.
    TurnCompleted { usage: Option<CodexUsage> = "usage" }

    /// `turn.failed`
    TurnFailed { error: Option<Json> = "error" }

    /// `item.started`, `item.updated`, `item.completed`
    ItemEvent { item: Option<Item> = "item" }

    /// `error`: an error of the stream, in addition to the turn's.
    StreamError { message: Option<String> = "message", error: Option<Json> = "error" }

    /// One entry of a plan.
    Todo { text: Option<String> = "text", completed: bool = "completed" }

    /// A changed file.
    FileChange { path: Option<String> = "path", kind: Option<String> = "kind" }
}

frame! {
    /// Token counts of Codex: `input_tokens` includes the cached ones.
    CodexUsage {
        input_tokens: Count = "input_tokens",
        cached_input_tokens: Count = "cached_input_tokens",
        cache_write_input_tokens: Count = "cache_write_input_tokens",
        output_tokens: Count = "output_tokens",
        reasoning_output_tokens: Count = "reasoning_output_tokens",
    }
}

read_back!(CodexUsage);

impl Field for CodexUsage {
    fn field(value: Value<'_>) -> Self {
        Self::read(value).unwrap_or_default()
    }
    fn present(&self) -> bool {
        true
    }
}

/// An item with every field in its original order. If a key is repeated, the last value counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Item {
    /// The fields, including `id` and `type`.
    pub fields: Vec<(String, Json)>,
}

/// The kinds of items this version knows.
pub const ITEM_KINDS: &[&str] = &[
    "agent_message",
    "reasoning",
    "command_execution",
    "file_change",
    "mcp_tool_call",
    "collab_tool_call",
    "web_search",
    "todo_list",
    "error",
];

impl Item {
    /// Returns the value of a field.
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.fields.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Returns the value of a field that is a string.
    pub fn text(&self, key: &str) -> Option<String> {
        self.get(key)?.with(String::read).flatten()
    }

    /// Returns the `type`.
    pub fn kind(&self) -> Option<String> {
        self.text("type")
    }
}

impl Read for Item {
    fn read(value: Value<'_>) -> Option<Self> {
        let fields = last_entries(value, |_| true)?;
        Some(Self { fields })
    }
}
