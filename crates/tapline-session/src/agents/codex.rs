//! What is known about Codex apart from its lines.

use super::{Key, Profile, Tool, ToolKinds, line};
use crate::format::StreamFormat;
use crate::step::Turn;

pub(super) const PROFILE: Profile = Profile {
    lines: StreamFormat::ExecJson,
    text,
    has_documents: false,
    tools: TOOLS,
    kinds: KINDS,
    asks: &[],
    proposes: &[],
    provider: "openai",
    no_models: &[],
    numbers_anew: true,
    subagent: None,
    denied_by: |_| None,
    resumes: &["resume", "fork"],
    notes: &[],
    names: NAMES,
};

/// Returns what `codex exec` prints to stdout.
fn text(turn: &Turn, answer: Option<&str>) -> Option<String> {
    answer.or(turn.message.as_deref()).map(line)
}

const TOOLS: &[Tool] = &[
    Tool("command_execution", "running", "ran", Key::Code(&["command"])),
    Tool("file_change", "changing", "changed", Key::Code(&["paths"])),
    Tool("web_search", "searching the web", "searched the web", Key::Plain(&["query"])),
    Tool("collab_tool_call", "delegating", "delegated", Key::Plain(&["prompt", "tool"])),
    Tool("todo_list", "planning", "planned", Key::Todos("items")),
];

const KINDS: ToolKinds = ToolKinds {
    shells: &["command_execution", "local_shell", "shell"],
    reading: &[],
    writing: &[],
    named_only: &[],
    same: &[],
};

const NAMES: &[(&str, &str)] = &[
    ("thread_id", "session.id"),
    ("usage.cached_input_tokens", "ledger.tokens.cache_read"),
    ("usage.reasoning_output_tokens", "ledger.tokens.reasoning"),
];
