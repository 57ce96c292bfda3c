//! Tool calls in a person's words: a verb and the input that matters, for every tool this version knows.

use tapline_protocol::{Json, Kind, Value};

use crate::text::{fit, one_line};

/// A tool's verb, in both tenses, and its title.
pub(crate) struct Described {
    pub(crate) doing: &'static str,
    pub(crate) done: &'static str,
    pub(crate) title: String,
}

/// What of the input says what the call is about.
enum Key {
    /// In backticks: commands, paths, patterns.
    Code(&'static [&'static str]),
    /// As it is: descriptions, questions, queries.
    Plain(&'static [&'static str]),
    /// A list of tasks: how many are done.
    Todos(&'static str),
    /// The first of a list of questions.
    Questions,
}

/// The tools of both agents. A tool that is not here is shown by its name and its first text.
const TOOLS: &[(&str, &str, &str, Key)] = &[
    ("Bash", "running", "ran", Key::Code(&["command"])),
    ("PowerShell", "running", "ran", Key::Code(&["command"])),
    ("command_execution", "running", "ran", Key::Code(&["command"])),
    ("BashOutput", "checking", "checked", Key::Plain(&["bash_id", "task_id"])),
    ("TaskOutput", "checking", "checked", Key::Plain(&["task_id"])),
    ("KillShell", "stopping", "stopped", Key::Plain(&["shell_id"])),
    ("KillBash", "stopping", "stopped", Key::Plain(&["shell_id"])),
    ("TaskStop", "stopping", "stopped", Key::Plain(&["task_id"])),
    ("Monitor", "watching", "watched", Key::Code(&["command", "task_id"])),
    ("Read", "reading", "read", Key::Code(&["file_path", "path"])),
    ("NotebookRead", "reading", "read", Key::Code(&["notebook_path"])),
    ("LS", "listing", "listed", Key::Code(&["path"])),
    ("Write", "writing", "wrote", Key::Code(&["file_path", "path"])),
    ("Edit", "editing", "edited", Key::Code(&["file_path", "path"])),
    ("MultiEdit", "editing", "edited", Key::Code(&["file_path"])),
    ("NotebookEdit", "editing", "edited", Key::Code(&["notebook_path"])),
    ("file_change", "changing", "changed", Key::Code(&["paths"])),
    ("Glob", "finding", "found", Key::Code(&["pattern"])),
    ("Grep", "searching", "searched", Key::Code(&["pattern"])),
    ("LSP", "looking up", "looked up", Key::Code(&["symbol", "operation"])),
    ("ToolSearch", "finding tools", "found tools", Key::Plain(&["query"])),
    ("WebSearch", "searching the web", "searched the web", Key::Plain(&["query"])),
    ("web_search", "searching the web", "searched the web", Key::Plain(&["query"])),
    ("WebFetch", "fetching", "fetched", Key::Plain(&["url"])),
    ("Task", "delegating", "delegated", Key::Plain(&["description", "prompt"])),
    ("Agent", "delegating", "delegated", Key::Plain(&["description", "prompt"])),
    ("Workflow", "starting", "started", Key::Plain(&["name", "workflow", "description"])),
    ("SendMessage", "messaging", "messaged", Key::Plain(&["summary", "to", "message"])),
    ("collab_tool_call", "delegating", "delegated", Key::Plain(&["prompt", "tool"])),
    ("TodoWrite", "planning", "planned", Key::Todos("todos")),
    ("todo_list", "planning", "planned", Key::Todos("items")),
    ("TaskCreate", "planning", "planned", Key::Plain(&["subject", "description"])),
    ("TaskUpdate", "planning", "planned", Key::Plain(&["subject", "status", "taskId"])),
    ("AskUserQuestion", "asking", "asked", Key::Questions),
    ("Skill", "using skill", "used skill", Key::Plain(&["skill", "command"])),
    ("SlashCommand", "running", "ran", Key::Code(&["command"])),
    ("EnterPlanMode", "planning", "planned", Key::Plain(&[])),
    ("ExitPlanMode", "proposing a plan", "proposed a plan", Key::Plain(&["plan"])),
    ("StructuredOutput", "answering", "answered", Key::Plain(&[])),
    ("ListMcpResourcesTool", "listing resources", "listed resources", Key::Plain(&["server"])),
    ("ReadMcpResourceTool", "reading", "read", Key::Code(&["uri"])),
    ("EnterWorktree", "entering a worktree", "entered a worktree", Key::Plain(&["name", "path"])),
    ("ExitWorktree", "leaving a worktree", "left a worktree", Key::Plain(&["name", "path"])),
    ("ScheduleWakeup", "scheduling", "scheduled", Key::Plain(&["reason", "prompt"])),
    ("CronCreate", "scheduling", "scheduled", Key::Plain(&["name", "schedule", "prompt"])),
    ("CronDelete", "unscheduling", "unscheduled", Key::Plain(&["name", "id"])),
    ("CronList", "listing schedules", "listed schedules", Key::Plain(&[])),
    ("ReportFindings", "reporting", "reported", Key::Plain(&["title", "summary"])),
    ("ListAgents", "listing agents", "listed agents", Key::Plain(&[])),
];

/// The names of all tools that are known.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TOOLS.iter().map(|(name, ..)| *name)
}

/// No title is longer: it stands on one line.
const TITLE_COLUMNS: usize = 200;

/// Describes a call of this tool with this input.
pub(crate) fn describe(name: &str, input: Option<&Json>) -> Described {
    let known = TOOLS.iter().find(|(tool, ..)| *tool == name);
    let read = |read: &dyn Fn(Value<'_>) -> Option<String>| input.and_then(|json| json.with(read)).flatten();
    let Some((_, doing, done, key)) = known else {
        let detail = read(&any_text).map(|text| format!(": {text}")).unwrap_or_default();
        let shown = match name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
            Some((server, tool)) => format!("{server} {tool}{detail}"),
            None => format!("{name}{detail}"),
        };
        let title = fit(&one_line(&shown), TITLE_COLUMNS).into_owned();
        return Described { doing: "calling", done: "called", title };
    };
    let title = match key {
        Key::Code(keys) => read(&|value| first_code(value, keys)).map(|text| format!("`{text}`")),
        Key::Plain(keys) => read(&|value| first_text(value, keys)),
        Key::Todos(key) => read(&|value| todos(value.get(key)?)),
        Key::Questions => read(&|value| first_text(value.get("questions")?.items()?.next()?, &["question"])),
    };
    Described { doing, done, title: title.unwrap_or_else(|| name.to_owned()) }
}

/// The first of these keys that holds a text, on one line.
fn first_text(value: Value<'_>, keys: &[&str]) -> Option<String> {
    let text = keys.iter().find_map(|key| value.get(key)?.as_str().filter(|text| !text.trim().is_empty()))?;
    Some(fit(&one_line(&text), TITLE_COLUMNS).into_owned())
}

/// The same for code: where a line ended is shown, because it matters there.
fn first_code(value: Value<'_>, keys: &[&str]) -> Option<String> {
    let text = keys.iter().find_map(|key| value.get(key)?.as_str().filter(|text| !text.trim().is_empty()))?;
    let lines: Vec<_> = text.trim().lines().map(one_line).filter(|line| !line.is_empty()).collect();
    Some(fit(&lines.join(" ⏎ "), TITLE_COLUMNS).into_owned())
}

/// A call's input as a person reads it: a command, an edit as a difference, else JSON.
pub(crate) fn input_text(name: &str, input: &Json) -> String {
    let text = |key| input.text_of(key);
    let signed = |sign: &str, text: &str| {
        let lines: Vec<_> = text.lines().map(|line| format!("{sign} {line}")).collect();
        lines.join("\n")
    };
    let read = match name {
        "Bash" | "command_execution" => text("command"),
        "Write" => text("content"),
        "Edit" => {
            text("old_string").zip(text("new_string")).map(|(old, new)| format!("{}\n{}", signed("-", &old), signed("+", &new)))
        }
        "Task" | "Agent" => text("prompt"),
        _ => None,
    };
    read.unwrap_or_else(|| input.as_str().to_owned())
}

/// The first text of an input that is not known better.
fn any_text(value: Value<'_>) -> Option<String> {
    let (_, text) = value.entries()?.find(|(_, value)| value.kind() == Kind::String)?;
    let text = one_line(&text.as_str()?);
    (!text.is_empty()).then(|| fit(&text, TITLE_COLUMNS / 2).into_owned())
}

/// `2/5 done`
fn todos(value: Value<'_>) -> Option<String> {
    let items = value.items()?;
    let is_done = |item: &Value<'_>| {
        item.get("completed").is_some_and(|flag| flag.kind() == Kind::True)
            || item.get("status").and_then(Value::as_str).as_deref() == Some("completed")
    };
    let total = items.clone().count();
    Some(format!("{}/{total} done", items.filter(is_done).count()))
}
