//! A tool call on a page: a quiet card that opens, with its input and output. An edit is a diff.

use std::fmt::Write as _;

use tapline_protocol::{Json, Value};

use super::code::{self, Language};
use super::{escape, escaped, prose, took};
use crate::render::changes::{Line, edits, lines_of};
use crate::render::marks::output_of;
use crate::step::{Call, CallAnswer, CallStatus};

/// A diff with more lines is closed at first.
const OPEN_LINES: usize = 40;
/// How many lines of a diff are put on the page.
const MOST_LINES: usize = 2_000;

/// Writes a call. `is_over` says that no result can come any more.
pub(super) fn write(call: &Call, answer: Option<&CallAnswer>, is_over: bool, out: &mut String) {
    let (class, mark, word) = match answer.map(|answer| answer.status) {
        Some(CallStatus::Ok) => ("good", "✓", &*call.done),
        Some(CallStatus::Error) => ("bad", "✗", &*call.done),
        Some(CallStatus::Denied) => ("bad", "✗", "denied"),
        Some(CallStatus::Pending) => ("warn", "?", "unanswered"),
        None if is_over => ("warn", "?", "unanswered"),
        None => ("running", "◌", &*call.doing),
    };
    let mut title = match call.title.strip_prefix('`').and_then(|title| title.strip_suffix('`')) {
        Some(code) => format!("<code>{}</code>", escaped(code)),
        None => escaped(&call.title),
    };
    let took = took(answer.and_then(|answer| answer.duration_ms));
    let mut body = String::new();
    let mut is_open = class == "bad";
    if let Some(input) = &call.input {
        if let Some((come, gone, lines)) = diff(&call.name, input, &mut body) {
            let _ = write!(title, " <span class=counts>+{come} −{gone}</span>");
            is_open |= lines <= OPEN_LINES;
        } else {
            write_input(call, input, &mut body);
        }
    }
    if let Some(answer) = answer {
        write_output(call, answer, &mut body);
    }
    let head = format!("<span class=mark>{mark}</span> <span class=what>{} {title}</span>{took}", escaped(word));
    let _ = if body.is_empty() {
        writeln!(out, "<div class=\"tool {class}\"><div class=head>{head}</div></div>")
    } else {
        let open = if is_open { " open" } else { "" };
        writeln!(out, "<details class=\"tool {class}\"{open}><summary class=head>{head}</summary>\n{body}</details>")
    };
}

/// Writes an edit. Returns how many lines came, how many went, and how many are shown; `None` if the call is no edit.
fn diff(tool: &str, input: &Json, out: &mut String) -> Option<(usize, usize, usize)> {
    let edits = edits(tool, input)?;
    let (mut come, mut gone, mut shown) = (0, 0, 0);
    out.push_str("<pre class=diff>");
    for (at, (old, new)) in edits.iter().enumerate() {
        let lines = lines_of(old, new);
        let between = (at > 0).then_some(&Line::Between);
        for line in between.into_iter().chain(&lines) {
            let (class, mark, text) = match line {
                Line::Same(text) => ("same", " ", *text),
                Line::Gone(text) => ("del", "-", *text),
                Line::Come(text) => ("add", "+", *text),
                Line::Between => ("quiet", "⋮", ""),
            };
            come += usize::from(class == "add");
            gone += usize::from(class == "del");
            shown += 1;
            if shown <= MOST_LINES {
                let _ = write!(out, "<span class={class}>{mark} ");
                escape(super::cut(text).0, out);
                out.push_str("\n</span>");
            }
        }
        if lines.is_empty() {
            out.push_str("<span class=quiet>(only the line ends change)\n</span>");
        }
    }
    if shown > MOST_LINES {
        let _ = write!(out, "<span class=quiet>… {} more lines\n</span>", shown - MOST_LINES);
    }
    out.push_str("</pre>\n");
    Some((come, gone, shown))
}

fn write_input(call: &Call, input: &Json, out: &mut String) {
    let text = |key| input.text_of(key);
    let is_told = |text: &str| call.title.trim_matches('`') == text.trim();
    match call.name.as_str() {
        "Bash" | "PowerShell" | "Monitor" | "command_execution" => {
            if let Some(command) = text("command").filter(|command| !is_told(command)) {
                return code::write_block(&command, Language::named("sh"), out);
            }
        }
        "Write" => {
            if let Some(content) = text("content") {
                let language = text("file_path").and_then(|path| Language::of_file(&path));
                return code::write_block(&content, language, out);
            }
        }
        "Task" | "Agent" => {
            if let Some(prompt) = text("prompt") {
                let _ = writeln!(out, "<div class=prompt>{}</div>", escaped(super::cut(prompt.trim()).0));
                return;
            }
        }
        "ExitPlanMode" => {
            if let Some(plan) = text("plan") {
                out.push_str("<div class=prose>");
                prose::write(&plan, out);
                return out.push_str("</div>\n");
            }
        }
        "TodoWrite" | "todo_list" => return write_plan(input, out),
        _ => {}
    }
    write_pairs(call, input, out);
}

/// Writes a list of tasks.
fn write_plan(input: &Json, out: &mut String) {
    let write = |task: Value<'_>, out: &mut String| {
        let text = |key| task.get(key).and_then(Value::as_str);
        let is_done =
            text("status").as_deref() == Some("completed") || task.get("completed").and_then(Value::as_bool) == Some(true);
        let (class, mark) = if is_done { ("done", "☑") } else { ("todo", "☐") };
        let about = text("content").or_else(|| text("text")).unwrap_or_default();
        let _ = writeln!(out, "<li><span class={class}>{mark}</span> {}</li>", escaped(&about));
    };
    out.push_str("<div class=prose><ul>\n");
    input.with(|input| {
        let tasks = input.get("todos").or_else(|| input.get("items")).and_then(Value::items);
        tasks.into_iter().flatten().for_each(|task| write(task, out));
    });
    out.push_str("</ul></div>\n");
}

/// Writes the input as keys and values, without what the title already says.
fn write_pairs(call: &Call, input: &Json, out: &mut String) {
    let mut rows = String::new();
    let mut write = |key: &str, value: Value<'_>| {
        let text = value.as_str();
        let is_text = text.is_some();
        let text = text.unwrap_or_else(|| value.raw().into());
        if is_text && (call.title.trim_matches('`') == text.trim() || key == "description") {
            return;
        }
        let _ = write!(rows, "<span class=key>{}</span> ", escaped(key));
        match Language::named("json").filter(|_| !is_text) {
            Some(json) => code::write(super::cut(&text).0, json, &mut rows),
            None => escape(super::cut(&text).0, &mut rows),
        }
        rows.push('\n');
    };
    input.with(|input| input.entries().into_iter().flatten().for_each(|(key, value)| write(&key, value)));
    if !rows.is_empty() {
        let _ = writeln!(out, "<pre class=in>{}</pre>", rows.trim_end());
    }
}

fn write_output(call: &Call, answer: &CallAnswer, out: &mut String) {
    // That a file was written says nothing more than its mark.
    let is_written = answer.status == CallStatus::Ok && matches!(call.name.as_str(), "Edit" | "MultiEdit" | "Write");
    let text = if answer.status == CallStatus::Ok { answer.text.trim_end().into() } else { output_of(answer) };
    if is_written || text.trim().is_empty() {
        return;
    }
    if matches!(call.name.as_str(), "Task" | "Agent") && answer.status == CallStatus::Ok {
        out.push_str("<div class=prose>");
        prose::write(&text, out);
        return out.push_str("</div>\n");
    }
    out.push_str("<pre class=out>");
    escape(&text, out);
    out.push_str("</pre>\n");
}
