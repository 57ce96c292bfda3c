//! What a line of Codex's rollouts and streams says in words.

use std::borrow::Cow;

use tapline_protocol::{Kind, Tape, Value};

use super::super::{cut_title, number, text};
use crate::facts::hash;
use crate::said::{Context, Each, EntryKind, Said, key, strings};

/// The tool of a call that names none.
const SHELL: &str = "shell";

/// Reads the texts of one line.
pub(super) fn said(line: Value<'_>, context: &mut Context, each: Each<'_>) {
    let kind = line.get("type").map(text).unwrap_or_default();
    let time = line.get("timestamp").map_or(0, super::super::time);
    if time > 0 {
        context.time = time;
    }
    let Some(payload) = line.get("payload") else { return stream(&kind, line, context, each) };
    let inner = payload.get("type").map(text).unwrap_or_default();
    let field = |name: &str| payload.get(name).map(text).unwrap_or_default();
    match (&*kind, &*inner) {
        ("session_meta", _) => meta(payload, context),
        ("turn_context", _) => Context::set(&mut context.folder, &field("cwd")),
        ("event_msg", "user_message") => prompt(field("message"), context, each),
        ("event_msg", "item_completed") => {
            let item = payload.get("item").filter(|item| item.get("type").map(text).as_deref() == Some("UserMessage"));
            if let Some(said) = item.and_then(|item| item.get("content")) {
                prompt(texts(said), context, each);
            }
        }
        ("event_msg", "error") => words(EntryKind::Answer, field("message"), true, context, each),
        ("response_item", "message") if field("role") == "assistant" => {
            let said = payload.get("content").map(texts).unwrap_or_default();
            words(EntryKind::Answer, said, false, context, each);
        }
        ("response_item", "reasoning") => {
            let said = payload.get("summary").map(texts).unwrap_or_default();
            words(EntryKind::Thinking, said, false, context, each);
        }
        ("response_item", "function_call" | "custom_tool_call" | "local_shell_call") => call(payload, context, each),
        ("response_item", "function_call_output" | "custom_tool_call_output") => {
            let output = payload.get("output").map(output).unwrap_or_default();
            let error = failed(&output);
            let id = field("call_id");
            let (key, call) = (key(&["output", &id, &output]), key(&["call", &id]));
            pass_on(Said { kind: EntryKind::Output, key, call, tool: Cow::default(), error, text: output }, context, each);
        }
        _ => {}
    }
}

fn pass_on(said: Said<'_>, context: &Context, each: Each<'_>) {
    if !said.text.trim().is_empty() {
        each(context, said);
    }
}

/// Passes on a text without an id. Copies in forks and the stream of the same session have the same words.
fn words(kind: EntryKind, said: Cow<'_, str>, error: bool, context: &Context, each: Each<'_>) {
    let key = key(&[kind.name(), &context.root.to_string(), &said]);
    pass_on(Said { kind, key, call: 0, tool: Cow::default(), error, text: said }, context, each);
}

fn prompt(said: Cow<'_, str>, context: &mut Context, each: Each<'_>) {
    if context.title.is_empty() && !context.subagent {
        context.title = cut_title(&said);
    }
    words(EntryKind::Prompt, said, false, context, each);
}

/// The first line about the session is the file's own. Others are copies of the session that it was forked from.
fn meta(payload: Value<'_>, context: &mut Context) {
    let name = |key: &str| payload.get(key).map(text).unwrap_or_default();
    let id = name("id");
    if !context.session.is_empty() {
        context.root = hash(&id);
        return;
    }
    let (from, session) = (name("forked_from_id"), name("session_id"));
    context.root = hash(if from.is_empty() { &id } else { &from });
    Context::set(&mut context.session, if session.is_empty() { &id } else { &session });
    Context::set(&mut context.folder, &name("cwd"));
    let branch = payload.get("git").and_then(|git| git.get("branch")).map(text).unwrap_or_default();
    Context::set(&mut context.branch, &branch);
    context.subagent = payload.get("source").and_then(|source| source.get("subagent")).is_some();
}

/// The texts of a message, without what else can be in it.
fn texts(content: Value<'_>) -> Cow<'_, str> {
    if content.kind() == Kind::String {
        return text(content);
    }
    let parts = content.items().into_iter().flatten().filter_map(|part| part.get("text")?.as_str());
    Cow::Owned(parts.collect::<Vec<_>>().join("\n"))
}

fn call(payload: Value<'_>, context: &Context, each: Each<'_>) {
    let field = |name: &str| payload.get(name).map(text).filter(|text| !text.is_empty());
    let tool = field("name").unwrap_or(Cow::Borrowed(SHELL));
    let arguments = ["arguments", "input", "action"].into_iter().find_map(|key| payload.get(key));
    let mut said = arguments.map(strings).unwrap_or_default();
    // The arguments are JSON inside a string.
    let mut tape = Tape::default();
    let inner =
        tape.parse(said.trim()).ok().filter(|inner| inner.kind() == Kind::Object).map(|inner| strings(inner).into_owned());
    if let Some(inner) = inner {
        said = Cow::Owned(inner);
    }
    let said = if said.is_empty() { tool.clone() } else { said };
    let id = field("call_id").unwrap_or_default();
    let (key, call) = (key(&["call", &id, &said]), key(&["call", &id]));
    pass_on(Said { kind: EntryKind::Call, key, call, tool, error: false, text: said }, context, each);
}

/// What a tool returned: text, or parts, or an object around one of them.
fn output(value: Value<'_>) -> Cow<'_, str> {
    let content = value.get("content").unwrap_or(value);
    if content.kind() == Kind::Array { texts(content) } else { strings(content) }
}

/// Returns whether the first lines of an output say that the command failed.
fn failed(output: &str) -> bool {
    let code = |line: &str| {
        let code = line.strip_prefix("Exit code: ").or_else(|| line.strip_prefix("Process exited with code "))?;
        Some(code.trim() != "0")
    };
    output.lines().take(6).find_map(code) == Some(true)
}

/// A line of `codex exec --json`. Calls have no ids that the rollout knows.
fn stream(kind: &str, line: Value<'_>, context: &mut Context, each: Each<'_>) {
    context.streamed = true;
    let item = line.get("item");
    let field = |name: &str| item.and_then(|item| item.get(name)).map(text).unwrap_or_default();
    match (kind, &*field("type")) {
        ("thread.started", _) => {
            let id = line.get("thread_id").map(text).unwrap_or_default();
            Context::set(&mut context.session, &id);
            context.root = hash(&id);
        }
        ("item.completed", "agent_message") => words(EntryKind::Answer, field("text"), false, context, each),
        ("item.completed", "reasoning") => words(EntryKind::Thinking, field("text"), false, context, each),
        ("item.completed", "error") => words(EntryKind::Answer, field("message"), true, context, each),
        ("item.completed", "command_execution") => {
            let root = context.root.to_string();
            let id = field("id");
            let (command, output) = (field("command"), field("aggregated_output"));
            let error = item.and_then(|item| item.get("exit_code")).map_or(0, number) != 0;
            let called = key(&["stream call", &root, &id, &command]);
            let own = key(&["stream output", &root, &id, &command]);
            let tool = Cow::Borrowed(SHELL);
            pass_on(Said { kind: EntryKind::Call, key: called, call: 0, tool, error: false, text: command }, context, each);
            let tool = Cow::Borrowed(SHELL);
            pass_on(Said { kind: EntryKind::Output, key: own, call: 0, tool, error, text: output }, context, each);
        }
        ("turn.failed" | "error", _) => {
            let said = line.get("error").and_then(|error| error.get("message")).or_else(|| line.get("message")).map(text);
            words(EntryKind::Answer, said.unwrap_or_default(), true, context, each);
        }
        _ => {}
    }
}
