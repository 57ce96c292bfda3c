//! Describes tool calls to people: a verb and the input that matters, for every tool this version knows.

use tapline_protocol::{Json, Kind, Value};

use crate::agents::{Key, Tool, profiles};
use crate::text::{fit, one_line};

/// A tool's verb in both tenses, and the title of the call.
pub(crate) struct Described {
    pub(crate) doing: &'static str,
    pub(crate) done: &'static str,
    pub(crate) title: String,
}

/// Returns the tools of all agents. An unknown tool is shown by its name and its first text.
fn tools() -> impl Iterator<Item = &'static Tool> {
    profiles().flat_map(|profile| profile.tools)
}

/// Returns the names of all known tools.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    tools().map(|tool| tool.0)
}

/// The longest title, which is on one line.
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

/// Returns the text at the first of these keys that has one, on one line.
fn first_text(value: Value<'_>, keys: &[&str]) -> Option<String> {
    let text = keys.iter().find_map(|key| value.get(key)?.as_str().filter(|text| !text.trim().is_empty()))?;
    Some(fit(&one_line(&text), TITLE_COLUMNS).into_owned())
}

/// Returns the code at the first of these keys that has some. Line breaks are shown, because they matter in code.
fn first_code(value: Value<'_>, keys: &[&str]) -> Option<String> {
    let text = keys.iter().find_map(|key| value.get(key)?.as_str().filter(|text| !text.trim().is_empty()))?;
    let lines: Vec<_> = text.trim().lines().map(one_line).filter(|line| !line.is_empty()).collect();
    Some(fit(&lines.join(" ⏎ "), TITLE_COLUMNS).into_owned())
}

/// Returns the first text of an input of an unknown tool.
fn any_text(value: Value<'_>) -> Option<String> {
    let (_, text) = value.entries()?.find(|(_, value)| value.kind() == Kind::String)?;
    let text = one_line(&text.as_str()?);
    (!text.is_empty()).then(|| fit(&text, TITLE_COLUMNS / 2).into_owned())
}

/// Returns how many tasks are done, as in `2/5 done`.
fn todos(value: Value<'_>) -> Option<String> {
    let items = value.items()?;
    let is_done = |item: &Value<'_>| {
        item.get("completed").is_some_and(|flag| flag.kind() == Kind::True)
            || item.get("status").and_then(Value::as_str).as_deref() == Some("completed")
    };
    let total = items.clone().count();
    Some(format!("{}/{total} done", items.filter(is_done).count()))
}
