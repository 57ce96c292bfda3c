//! What is known about Claude Code apart from its lines.

use super::{Key, Profile, Tool, ToolKinds, line};
use crate::format::StreamFormat;
use crate::step::{DeniedBy, Turn};

pub(super) const PROFILE: Profile = Profile {
    lines: StreamFormat::StreamJson,
    text,
    has_documents: true,
    tools: TOOLS,
    kinds: KINDS,
    asks: &["AskUserQuestion"],
    proposes: &["ExitPlanMode"],
    provider: "anthropic",
    no_models: &["<synthetic>"],
    numbers_anew: false,
    subagent: Some("subagent_type"),
    denied_by,
    resumes: &["--resume", "-r", "--continue", "-c"],
    notes: &["[Request interrupted", "<command-name>", "<local-command", "<task-notification>"],
    names: NAMES,
};

/// The words with which Claude Code says that a call was denied.
fn denied_by(text: &str) -> Option<DeniedBy> {
    const STARTS: [(&str, DeniedBy); 4] = [
        ("The user doesn't want to proceed with this tool use", DeniedBy::Person),
        ("The user doesn't want to take this action", DeniedBy::Person),
        ("Claude requested permissions", DeniedBy::Mode),
        ("Permission to use ", DeniedBy::Unknown),
    ];
    // `touch in '/home/dev/x' needs approval. …`
    const NEEDS: [&str; 3] = [" needs approval", " requires approval", " require approval"];
    // `Bash operation blocked by hook: …`, `PreToolUse:Bash hook error: …`
    let named = text.strip_prefix("PreToolUse:").unwrap_or(text);
    let behind = named.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_' || c == '-');
    if behind.starts_with(" operation blocked by hook")
        || text.starts_with("PreToolUse:") && behind.starts_with(" hook error: ")
    {
        return Some(DeniedBy::Hook);
    }
    let by = STARTS.iter().find(|(start, _)| text.starts_with(start)).map(|(_, by)| *by);
    let beginning = || text.chars().take(400).collect::<String>();
    by.or_else(|| NEEDS.iter().any(|words| beginning().contains(words)).then_some(DeniedBy::Mode))
}

/// Returns what `--output-format text` prints.
#[expect(clippy::unnecessary_wraps, reason = "an agent may print nothing")]
fn text(turn: &Turn, _answer: Option<&str>) -> Option<String> {
    let number = || {
        let text = turn.errors.as_ref().map(|errors| errors.texts().concat()).unwrap_or_default();
        text.chars().filter(|c| c.is_ascii_digit() || *c == '.').collect::<String>()
    };
    Some(match turn.subtype.as_deref() {
        Some("error_max_turns") => format!("Error: Reached max turns ({})", number()),
        Some("error_max_budget_usd") => format!("Error: Exceeded USD budget ({})", number()),
        Some("error_max_structured_output_retries") => "Error: Failed to provide valid structured output".to_owned(),
        Some("error_during_execution") if turn.result.is_none() => "Execution error".to_owned(),
        _ => line(turn.result.as_deref().or(turn.message.as_deref()).unwrap_or_default()),
    })
}

const TOOLS: &[Tool] = &[
    Tool("Bash", "running", "ran", Key::Code(&["command"])),
    Tool("PowerShell", "running", "ran", Key::Code(&["command"])),
    Tool("BashOutput", "checking", "checked", Key::Plain(&["bash_id", "task_id"])),
    Tool("TaskOutput", "checking", "checked", Key::Plain(&["task_id"])),
    Tool("KillShell", "stopping", "stopped", Key::Plain(&["shell_id"])),
    Tool("KillBash", "stopping", "stopped", Key::Plain(&["shell_id"])),
    Tool("TaskStop", "stopping", "stopped", Key::Plain(&["task_id"])),
    Tool("Monitor", "watching", "watched", Key::Code(&["command", "task_id"])),
    Tool("Read", "reading", "read", Key::Code(&["file_path", "path"])),
    Tool("NotebookRead", "reading", "read", Key::Code(&["notebook_path"])),
    Tool("LS", "listing", "listed", Key::Code(&["path"])),
    Tool("Write", "writing", "wrote", Key::Code(&["file_path", "path"])),
    Tool("Edit", "editing", "edited", Key::Code(&["file_path", "path"])),
    Tool("MultiEdit", "editing", "edited", Key::Code(&["file_path"])),
    Tool("NotebookEdit", "editing", "edited", Key::Code(&["notebook_path"])),
    Tool("Glob", "finding", "found", Key::Code(&["pattern"])),
    Tool("Grep", "searching", "searched", Key::Code(&["pattern"])),
    Tool("LSP", "looking up", "looked up", Key::Code(&["symbol", "operation"])),
    Tool("ToolSearch", "finding tools", "found tools", Key::Plain(&["query"])),
    Tool("WebSearch", "searching the web", "searched the web", Key::Plain(&["query"])),
    Tool("WebFetch", "fetching", "fetched", Key::Plain(&["url"])),
    Tool("Task", "delegating", "delegated", Key::Plain(&["description", "prompt"])),
    Tool("Agent", "delegating", "delegated", Key::Plain(&["description", "prompt"])),
    Tool("Workflow", "starting", "started", Key::Plain(&["name", "workflow", "description"])),
    Tool("SendMessage", "messaging", "messaged", Key::Plain(&["summary", "to", "message"])),
    Tool("TodoWrite", "planning", "planned", Key::Todos("todos")),
    Tool("TaskCreate", "planning", "planned", Key::Plain(&["subject", "description"])),
    Tool("TaskUpdate", "planning", "planned", Key::Plain(&["subject", "status", "taskId"])),
    Tool("AskUserQuestion", "asking", "asked", Key::Questions),
    Tool("Skill", "using skill", "used skill", Key::Plain(&["skill", "command"])),
    Tool("SlashCommand", "running", "ran", Key::Code(&["command"])),
    Tool("EnterPlanMode", "planning", "planned", Key::Plain(&[])),
    Tool("ExitPlanMode", "proposing a plan", "proposed a plan", Key::Plain(&["plan"])),
    Tool("StructuredOutput", "answering", "answered", Key::Plain(&[])),
    Tool("ListMcpResourcesTool", "listing resources", "listed resources", Key::Plain(&["server"])),
    Tool("ReadMcpResourceTool", "reading", "read", Key::Code(&["uri"])),
    Tool("EnterWorktree", "entering a worktree", "entered a worktree", Key::Plain(&["name", "path"])),
    Tool("ExitWorktree", "leaving a worktree", "left a worktree", Key::Plain(&["name", "path"])),
    Tool("ScheduleWakeup", "scheduling", "scheduled", Key::Plain(&["reason", "prompt"])),
    Tool("CronCreate", "scheduling", "scheduled", Key::Plain(&["name", "schedule", "prompt"])),
    Tool("CronDelete", "unscheduling", "unscheduled", Key::Plain(&["name", "id"])),
    Tool("CronList", "listing schedules", "listed schedules", Key::Plain(&[])),
    Tool("ReportFindings", "reporting", "reported", Key::Plain(&["title", "summary"])),
    Tool("ListAgents", "listing agents", "listed agents", Key::Plain(&[])),
];

const KINDS: ToolKinds = ToolKinds {
    shells: &["Bash", "Monitor", "mcp__workspace__bash"],
    reading: &["Read", "NotebookRead", "Glob", "Grep", "LS", "WebFetch", "WebSearch"],
    writing: &["Write", "Edit", "MultiEdit", "NotebookEdit"],
    named_only: &["WebFetch", "WebSearch", "Agent", "Task", "TodoWrite", "AskUserQuestion", "ExitPlanMode", "EnterPlanMode"],
    same: &[
        &["Agent", "Task"],
        &["TaskStop", "KillShell", "KillBash"],
        &["TaskOutput", "BashOutput", "BashOutputTool", "AgentOutput", "AgentOutputTool"],
        &["Edit", "MultiEdit"],
        &["REPL", "Eval"],
        &["ListAgents", "ListPeers"],
        &["SendUserMessage", "Brief"],
        &["ListMcpResourcesTool", "ListMcpResources"],
        &["ReadMcpResourceTool", "ReadMcpResource"],
        &["ReadMcpResourceDirTool", "ReadMcpResourceDir"],
    ],
};

const NAMES: &[(&str, &str)] = &[
    ("result", "answer"),
    ("is_error", "verdict.outcome"),
    ("error", "verdict.error"),
    ("errors", "verdict.error"),
    ("message", "last_text"),
    ("session_id", "session.id"),
    ("claude_code_version", "session.cli_version"),
    ("total_cost_usd", "ledger.cost_usd"),
    ("usage", "ledger.tokens"),
    ("usage.input_tokens", "ledger.tokens.input"),
    ("usage.output_tokens", "ledger.tokens.output"),
    ("usage.cache_read_input_tokens", "ledger.tokens.cache_read"),
    ("usage.cache_creation_input_tokens", "ledger.tokens.cache_write"),
    ("modelUsage", "ledger.by_model"),
    ("structured_output", "structured"),
    ("subtype", "turns[-1].subtype"),
    ("num_turns", "turns[-1].num_turns"),
    ("stop_reason", "turns[-1].stop_reason"),
    ("terminal_reason", "turns[-1].terminal_reason"),
    ("api_error_status", "turns[-1].api_error_status"),
    ("permission_denials", "turns[-1].permission_denials"),
];
