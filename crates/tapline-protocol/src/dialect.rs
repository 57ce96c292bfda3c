//! Whose stream it is, told by one line. Other agents borrow names from Claude (`result`, `tool_use`, `error`, an
//! `init` of its own): a line counts for an agent only where its shape is that agent's, too.

use crate::claude::system::Init;
use crate::event::{Agent, Event};
use crate::json::{Kind, Value};
use crate::record::Record;

/// What a line says about who wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// Only this agent writes such lines.
    Sure(Agent),
    /// This agent writes such lines, and others may.
    Likely(Agent),
    /// None of the agents we know writes such lines today.
    Foreign,
    /// It says nothing.
    Nothing,
}

impl Event {
    /// What this line says about who wrote it.
    pub fn sign(&self) -> Sign {
        if let Self::Error(error) = self {
            return if error.message.is_some() { Sign::Likely(Agent::Codex) } else { Sign::Nothing };
        }
        if let Self::Init(init) = self {
            return if is_claudes(init) { Sign::Sure(Agent::Claude) } else { Sign::Likely(Agent::Claude) };
        }
        if let Self::Unknown { kind } = self {
            // A new `system` event is as likely Claude's as not.
            return if kind.starts_with("system/") { Sign::Nothing } else { Sign::Foreign };
        }
        if matches!(self, Self::Invalid { .. }) && self.as_result().is_some() {
            return Sign::Foreign;
        }
        match self.agent() {
            Some(agent) if matches!(self, Self::ToolUse(_) | Self::ToolResult(_) | Self::Invalid { .. }) => Sign::Likely(agent),
            Some(agent) => Sign::Sure(agent),
            None if matches!(self, Self::Untyped) => Sign::Foreign,
            None => Sign::Nothing,
        }
    }
}

impl Record {
    /// Whether Codex before 0.44 wrote this line: `{"id":"0","msg":{"type":…}}`.
    pub fn is_of_old_codex(&self) -> bool {
        let reads = |value: Value<'_>| {
            let kind = value.get("msg").and_then(|message| message.get("type")).map(Value::kind);
            value.get("id").is_some() && kind == Some(Kind::String)
        };
        self.event == Event::Untyped && self.with(reads).unwrap_or(false)
    }
}

/// An `init` that names what only Claude's has.
fn is_claudes(init: &Init) -> bool {
    init.permission_mode.is_some() || init.api_key_source.is_some() || init.claude_code_version.is_some()
}

/// Whether a `result` says anything that Claude's says. Gemini and Copilot end their streams with a `result` of their own.
pub(crate) fn is_claudes_result(value: Value<'_>) -> bool {
    const KEYS: &[&str] = &[
        "subtype",
        "is_error",
        "result",
        "errors",
        "total_cost_usd",
        "cost_usd",
        "modelUsage",
        "num_turns",
        "duration_api_ms",
        "permission_denials",
    ];
    let counts = |usage: Value<'_>| usage.get("input_tokens").is_some() || usage.get("output_tokens").is_some();
    let mut entries = value.entries().into_iter().flatten();
    entries.any(|(key, value)| KEYS.contains(&&*key) || key == "usage" && counts(value))
}
