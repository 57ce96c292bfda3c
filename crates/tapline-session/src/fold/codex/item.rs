//! Codex's items: what their fields mean, and the tool calls they stand for.

use std::collections::HashMap;

use tapline_protocol::codex::{FileChange, Item};
use tapline_protocol::control::Content;
use tapline_protocol::{Json, Read};

/// Reads `42 events were dropped due to lag` or `dropped 42 events`.
pub(super) fn dropped_events(message: &str) -> Option<u64> {
    let message = message.to_lowercase();
    if !message.contains("dropped") || !message.contains("event") {
        return None;
    }
    message.split(|c: char| !c.is_ascii_digit()).find_map(|digits| digits.parse().ok())
}

/// Merges an item's fields into the known ones. An empty or null value never overwrites an earlier one.
pub(super) fn merge(known: &mut Vec<(String, Json)>, news: &[(String, Json)]) {
    let places: HashMap<String, usize> = known.iter().enumerate().map(|(at, (key, _))| (key.clone(), at)).collect();
    for (key, value) in news {
        match places.get(key) {
            Some(at) if !is_empty(value) => known[*at].1 = value.clone(),
            Some(_) => {}
            None => known.push((key.clone(), value.clone())),
        }
    }
}

fn is_empty(value: &Json) -> bool {
    let text = value.as_str();
    text == "null"
        || text == "\"\""
        || (text.starts_with(['[', '{']) && text[1..text.len() - 1].bytes().all(|byte| byte.is_ascii_whitespace()))
}

/// Items that have no status of their own.
const WITHOUT_STATUS: &[&str] = &["agent_message", "reasoning", "todo_list"];

/// Returns whether an item succeeded.
pub(super) fn is_ok(item: &Item, completed: bool) -> bool {
    match item.kind().as_deref() {
        Some("error") => return false,
        Some("web_search") => return completed,
        _ => {}
    }
    let has_none = item.kind().is_some_and(|kind| WITHOUT_STATUS.contains(&kind.as_str()));
    let status = item.text("status").map_or(has_none && completed, |status| status == "completed");
    let exit = item.get("exit_code").is_none_or(|code| code.as_str() == "null" || code.as_str().parse() == Ok(0.0));
    let error = item.get("error").is_some_and(|error| error.as_str() != "null");
    status && exit && !error
}

/// Returns a call's name and input, with the names that policies and renderers use.
pub(super) fn call_of(kind: &str, item: &Item) -> (String, Option<Json>) {
    let object = |pairs: &[(&str, Option<Json>)]| {
        let pairs = pairs.iter().filter_map(|(key, value)| Some(((*key).to_owned(), value.clone()?)));
        object_of(&pairs.collect::<Vec<_>>())
    };
    match kind {
        "mcp_tool_call" => {
            let part = |key| item.text(key).unwrap_or_default();
            let input = item.get("arguments").filter(|json| json.as_str().starts_with('{')).cloned();
            (format!("mcp__{}__{}", part("server"), part("tool")), input)
        }
        "file_change" => {
            let changes = item.get("changes").cloned();
            let paths = changes.as_ref().and_then(|json| {
                let list = json.with(Vec::<FileChange>::read).flatten()?;
                let paths: Vec<_> = list.into_iter().filter_map(|change| change.path).collect();
                Json::parse(&serde_json::to_string(&paths.join(", ")).ok()?).ok()
            });
            (kind.to_owned(), object(&[("paths", paths), ("changes", changes)]))
        }
        "web_search" => {
            (kind.to_owned(), object(&[("query", item.get("query").cloned()), ("action", item.get("action").cloned())]))
        }
        "collab_tool_call" => {
            let keys = ["tool", "prompt", "receiver_thread_ids"];
            (kind.to_owned(), object(&keys.map(|key| (key, item.get(key).cloned()))))
        }
        _ => (kind.to_owned(), object(&[("command", item.get("command").cloned())])),
    }
}

fn object_of(pairs: &[(String, Json)]) -> Option<Json> {
    let mut text = Vec::new();
    crate::step::pairs::write(pairs, &mut serde_json::Serializer::new(&mut text)).ok()?;
    Json::parse(&String::from_utf8(text).ok()?).ok()
}

/// Returns the result as text.
pub(super) fn answer_text(item: &Item) -> String {
    let message = || item.get("error").and_then(|error| error.text_of("message"));
    let content = || {
        let content = item.get("result")?.get("content")?;
        let content = content.with(Content::read).flatten()?;
        Some(content.joined_text())
    };
    item.text("aggregated_output").or_else(message).or_else(content).unwrap_or_default()
}
