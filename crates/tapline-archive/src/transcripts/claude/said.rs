//! What a line of Claude Code's transcripts and streams says in words.

use std::borrow::Cow;

use tapline_protocol::claude::content::ToolResult;
use tapline_protocol::{Kind, Value};

use super::super::{cut_title, text};
use super::Envelope;
use crate::said::{Context, Each, EntryKind, Said, key, strings};

/// What such a note begins with.
const DIAGNOSTIC: &str = "[ede_diagnostic]";

/// Reads the texts of one line.
pub(super) fn said(line: Value<'_>, context: &mut Context, each: Each<'_>) {
    let envelope = Envelope::of(line);
    Context::set(&mut context.session, &envelope.session);
    Context::set(&mut context.folder, &envelope.folder);
    Context::set(&mut context.branch, &envelope.branch);
    if envelope.time > 0 {
        context.time = envelope.time;
    }
    context.streamed = envelope.streamed;
    context.subagent = envelope.side || !envelope.agent.is_empty() || !envelope.parent.is_empty();
    match &*envelope.kind {
        "assistant" => answer(&envelope, context, each),
        "user" => user(&envelope, line, context, each),
        "result" if line.get("is_error").and_then(Value::as_bool) == Some(true) => {
            let said = line.get("result").or_else(|| line.get("errors")).map(strings).unwrap_or_default();
            // What the program notes for its makers, beside what it says or alone, helps nobody.
            let said = if said.contains(DIAGNOSTIC) {
                said.lines().filter(|line| !line.starts_with(DIAGNOSTIC)).collect::<Vec<_>>().join("\n").into()
            } else {
                said
            };
            let key = key(&["result", &envelope.session, &said]);
            pass_on(
                Said { kind: EntryKind::Answer, key, call: 0, tool: Cow::default(), error: true, text: said },
                context,
                each,
            );
        }
        // A `summary` is no title: it can be of another session.
        "custom-title" | "ai-title" => {
            let title = ["customTitle", "aiTitle", "title"].into_iter().find_map(|key| line.get(key)).map(text);
            let title = title.filter(|title| !title.is_empty() && (!context.titled || envelope.kind == "custom-title"));
            if let Some(title) = title {
                (context.title, context.titled) = (cut_title(&title), true);
            }
        }
        _ => {}
    }
}

fn pass_on(said: Said<'_>, context: &Context, each: Each<'_>) {
    if !said.text.trim().is_empty() {
        each(context, said);
    }
}

fn answer(envelope: &Envelope<'_>, context: &Context, each: Each<'_>) {
    let Some(message) = envelope.message else { return };
    let id = message.get("id").map(text).filter(|id| !id.is_empty());
    let id = id.as_deref().unwrap_or(&envelope.uuid);
    let no_model = message.get("model").map(text).is_some_and(|model| model == super::SYNTHETIC);
    for block in message.get("content").and_then(Value::items).into_iter().flatten() {
        let field = |name: &str| block.get(name).map(text).unwrap_or_default();
        let said = match &*field("type") {
            "text" => {
                let said = field("text");
                let (key, error) = (key(&["text", id, &said]), envelope.error || no_model);
                Said { kind: EntryKind::Answer, key, call: 0, tool: Cow::default(), error, text: said }
            }
            "thinking" => {
                let said = field("thinking");
                let key = key(&["thinking", id, &said]);
                Said { kind: EntryKind::Thinking, key, call: 0, tool: Cow::default(), error: false, text: said }
            }
            "tool_use" | "server_tool_use" => {
                let input = block.get("input").map(strings).unwrap_or_default();
                // A call without strings is found by its tool.
                let input = if input.is_empty() { field("name") } else { input };
                // Not all providers give every call an id of its own.
                let (key, call) = (key(&["call", &field("id"), &input]), key(&["call", &field("id")]));
                Said { kind: EntryKind::Call, key, call, tool: field("name"), error: false, text: input }
            }
            _ => continue,
        };
        pass_on(said, context, each);
    }
}

fn user(envelope: &Envelope<'_>, line: Value<'_>, context: &mut Context, each: Each<'_>) {
    let Some(inner) = envelope.message.and_then(|message| message.get("content")) else { return };
    if inner.kind() == Kind::String {
        return prompt(text(inner), envelope, line, context, each);
    }
    for block in inner.items().into_iter().flatten() {
        match block.get("type").map(text).as_deref() {
            Some("tool_result") => result(block, context, each),
            Some("text") => prompt(block.get("text").map(text).unwrap_or_default(), envelope, line, context, each),
            _ => {}
        }
    }
}

fn prompt(said: Cow<'_, str>, envelope: &Envelope<'_>, line: Value<'_>, context: &mut Context, each: Each<'_>) {
    // A summary looks like a prompt, but the model wrote it. Other such lines are the program's own words.
    let is_summary = ["isCompactSummary", "isSynthetic"].iter().any(|key| line.get(key).and_then(Value::as_bool) == Some(true));
    if envelope.meta && !is_summary {
        return;
    }
    let kind = if is_summary { EntryKind::Answer } else { EntryKind::Prompt };
    if context.title.is_empty() && !context.subagent && !is_summary && !super::is_command(&said) {
        context.title = cut_title(&said);
    }
    // Copies in forks have the same time, and not always the same ids.
    let time = line.get("timestamp").map(text).unwrap_or_default();
    let key = key(&["prompt", if time.is_empty() { &envelope.session } else { &time }, &said]);
    pass_on(Said { kind, key, call: 0, tool: Cow::default(), error: false, text: said }, context, each);
}

fn result(block: Value<'_>, context: &Context, each: Each<'_>) {
    let id = block.get("tool_use_id").map(text).unwrap_or_default();
    let inner = block.get("content");
    let parts = inner.and_then(Value::items).into_iter().flatten().filter_map(|part| part.get("text")?.as_str());
    let said = match inner.filter(|inner| inner.kind() == Kind::String) {
        Some(whole) => text(whole),
        None => Cow::Owned(parts.collect::<Vec<_>>().join("\n")),
    };
    let error = ToolResult::is_failure(block.get("is_error").and_then(Value::as_bool), &said);
    let (key, call) = (key(&["output", &id, &said]), key(&["call", &id]));
    pass_on(Said { kind: EntryKind::Output, key, call, tool: Cow::default(), error, text: said }, context, each);
}
