//! Tool calls in a person's words: a verb and the input that matters, for every tool this version knows.

use tapline_protocol::{Json, Kind, Value};

use crate::agents::{Key, Tool, profiles};
use crate::text::{fit, one_line};

/// A tool's verb, in both tenses, and its title.
pub(crate) struct Described {
    pub(crate) doing: &'static str,
    pub(crate) done: &'static str,
    pub(crate) title: String,
}

/// The tools of all agents. A tool that is not there is shown by its name and its first text.
fn tools() -> impl Iterator<Item = &'static Tool> {
    profiles().flat_map(|profile| profile.tools)
}

/// The names of all tools that are known.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    tools().map(|tool| tool.0)
}

/// No title is longer: it stands on one line.
const TITLE_COLUMNS: usize = 200;

/// Describes a call of this tool with this input.
pub(crate) fn describe(name: &str, input: Option<&Json>) -> Described {
    let known = tools().find(|tool| tool.0 == name);
    let read = |read: &dyn Fn(Value<'_>) -> Option<String>| input.and_then(|json| json.with(read)).flatten();
    let Some(Tool(_, doing, done, key)) = known else {
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
