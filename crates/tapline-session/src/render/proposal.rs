//! Shows what a tool would do, to the person who is asked for permission: the command, or a diff of the edit.

use std::borrow::Cow;
use std::fmt::Write as _;

use tapline_protocol::{Json, Value};

use super::Style;
use super::changes::{diff, rows, shown};
use crate::text::{count_of, fit, one_line, visible};

/// What a tool would do.
#[derive(Clone, Copy, Debug)]
pub struct Proposal<'a> {
    /// The tool.
    pub tool: &'a str,
    /// The input.
    pub input: &'a Json,
    /// The current file, if the tool would write one.
    pub file: Current<'a>,
    /// Why permission is needed.
    pub reason: Option<&'a str>,
    /// How many lines of a command, a text or a diff are shown. The rest is summarised.
    pub most: usize,
}

/// The current state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Current<'a> {
    /// The file does not exist.
    Absent,
    /// The file has this text.
    Text(&'a str),
    /// The file exists, but cannot be shown: it is too large, or not text.
    NotShown,
}

/// Tools that only run a command.
const SHELLS: &[&str] = &["Bash", "PowerShell"];

impl Proposal<'_> {
    /// Returns the file that a tool would write, if any.
    pub fn writes(tool: &str, input: &Json) -> Option<String> {
        let key = if tool == "NotebookEdit" { "notebook_path" } else { "file_path" };
        ["Write", "Edit", "MultiEdit", "NotebookEdit"].contains(&tool).then(|| input.text_of(key)).flatten()
    }

    /// Renders it as lines of this width.
    pub fn render(&self, style: Style, columns: usize) -> String {
        let Style { yellow, bold, dim, reset, .. } = style;
        let (verb, object) = self.words();
        let object = object.map(|object| format!(" {bold}{}{reset}", one_line(&object))).unwrap_or_default();
        let mut out = format!("{yellow}?{reset} {bold}{}{reset} asks to {verb}{object}\n", one_line(self.tool));
        out += &self.body(style, columns.saturating_sub(4).max(16));
        out += &self.rest(style, columns);
        if let Some(reason) = self.reason {
            let _ = writeln!(out, "  {dim}{}{reset}", fit(&one_line(reason), columns.saturating_sub(2)));
        }
        out
    }

    /// Returns whether the input that is shown exists and is text.
    fn is_readable(&self) -> bool {
        let needed: &[&str] = match self.tool {
            tool if SHELLS.contains(&tool) => &["command"],
            "Write" => &["file_path", "content"],
            "Edit" => &["file_path", "old_string", "new_string"],
            "NotebookEdit" => &["notebook_path"],
            _ => &[],
        };
        needed.iter().all(|key| self.input.text_of(key).is_some())
    }

    /// Shows the rest of the input: a flag may matter more than the command.
    fn rest(&self, style: Style, columns: usize) -> String {
        let told: &[&str] = match self.tool {
            _ if !self.is_readable() => return String::new(),
            tool if SHELLS.contains(&tool) => &["command", "description"],
            "Write" => &["file_path", "content"],
            "Edit" => &["file_path", "old_string", "new_string"],
            "MultiEdit" => &["file_path", "edits"],
            "NotebookEdit" => &["notebook_path", "new_source"],
            "ExitPlanMode" => &["plan"],
            "Read" => &["file_path"],
            "WebFetch" => &["url"],
            // All of it is already shown.
            _ => return String::new(),
        };
        // Only text counts as shown.
        let is_text = |key: &str| key != "edits" && self.input.text_of(key).is_some();
        let is_told = |key: &str| told.contains(&key) && (is_text(key) || self.has_edits(key));
        let lines = pairs(self.input, |key| !is_told(key));
        let mut out = String::new();
        for line in lines.iter().take(self.most) {
            for row in rows(line, columns.saturating_sub(3).max(16)) {
                let _ = writeln!(out, "  {}{row}{}", style.yellow, style.reset);
            }
        }
        let hidden = lines.len().saturating_sub(self.most);
        if hidden > 0 {
            let _ = writeln!(out, "  {}… {}{}", style.yellow, count_of(hidden, "line"), style.reset);
        }
        out
    }

    fn has_edits(&self, key: &str) -> bool {
        key == "edits" && self.input.with(|input| input.get(key).and_then(Value::items).is_some()) == Some(true)
    }

    fn words(&self) -> (&'static str, Option<String>) {
        match (self.tool, Self::writes(self.tool, self.input)) {
            (tool, _) if SHELLS.contains(&tool) => ("run", None),
            ("Write", path) if self.file == Current::Absent => ("write", path),
            ("Write", path) => ("write over", path),
            (_, path @ Some(_)) => ("change", path),
            ("ExitPlanMode", _) => ("begin: this is its plan", None),
            ("Read", _) => ("read", self.input.text_of("file_path")),
            ("WebFetch", _) => ("fetch", self.input.text_of("url")),
            _ => ("be called with", None),
        }
    }

    fn body(&self, style: Style, columns: usize) -> String {
        let most = self.most;
        let text = |key: &str| self.input.text_of(key);
        match self.tool {
            _ if !self.is_readable() => plain(&pairs(self.input, |_| true).join("\n"), style, columns, most),
            tool if SHELLS.contains(&tool) => plain(&text("command").unwrap_or_default(), style, columns, most),
            "Write" => {
                let old = if let Current::Text(old) = self.file { old } else { "" };
                let lost = "(the current content will be lost; it is too large to show, or not text)";
                let lost = if self.file == Current::NotShown { plain(lost, style, columns, most) } else { String::new() };
                lost + &diff(old, &text("content").unwrap_or_default(), style, columns, most)
            }
            "Edit" => {
                diff(&text("old_string").unwrap_or_default(), &text("new_string").unwrap_or_default(), style, columns, most)
            }
            "MultiEdit" => {
                let edit = |edit: Value<'_>| {
                    let text = |key| edit.get(key).and_then(Value::as_str).unwrap_or_default();
                    let all =
                        if edit.get("replace_all").and_then(Value::as_bool) == Some(true) { "(everywhere)\n" } else { "" };
                    plain(all, style, columns, most) + &diff(&text("old_string"), &text("new_string"), style, columns, most)
                };
                let edits = self.input.with(|input| Some(input.get("edits")?.items()?.map(edit).collect::<String>()));
                edits.flatten().unwrap_or_default()
            }
            "NotebookEdit" if text("edit_mode").as_deref() == Some("delete") => {
                plain("(the cell is deleted)", style, columns, most)
            }
            "NotebookEdit" => diff("", &text("new_source").unwrap_or_default(), style, columns, most),
            "ExitPlanMode" => plain(&text("plan").unwrap_or_default(), style, columns, most),
            "Read" | "WebFetch" => String::new(),
            _ => plain(&pairs(self.input, |_| true).join("\n"), style, columns, most),
        }
    }
}

/// Lists keys and values. A value of several lines comes below its key, marked, so that none of its lines looks like
/// another key.
fn pairs(input: &Json, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let lines = |(key, value): (Cow<'_, str>, Value<'_>)| {
        let value = value.as_str().map_or_else(|| value.raw().to_owned(), Cow::into_owned);
        let (key, value) = (one_line(&key), visible(value.trim_end()).into_owned());
        match value.contains('\n') {
            _ if !wanted(&key) => Vec::new(),
            true => std::iter::once(format!("{key}:")).chain(value.lines().map(|line| format!("│ {line}"))).collect(),
            false => vec![format!("{key}: {value}")],
        }
    };
    input.with(|input| Some(input.entries()?.flat_map(lines).collect())).flatten().unwrap_or_default()
}

/// Returns lines of text, each made safe and wrapped.
fn plain(text: &str, style: Style, columns: usize, most: usize) -> String {
    let text = visible(text.trim_end()).replace('\r', "␍");
    let lines: Vec<_> = text.lines().flat_map(|line| rows(line, columns)).collect();
    shown(lines.into_iter().map(|line| ("", " ", line)).collect(), style, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(tool: &str, input: serde_json::Value, file: Option<&str>) -> String {
        let (input, file) = (Json::from(input), file.map_or(Current::Absent, Current::Text));
        Proposal { tool, input: &input, file, reason: None, most: 24 }.render(Style::plain(), 40)
    }

    #[test]
    fn a_command_whole_and_safe() {
        let command = serde_json::json!({"command": "echo \u{1b}[2J; cat averyverylongwordthatdoesnotfitinfortycolumns"});
        let text = render("Bash", command, None);
        assert_eq!(text, "? Bash asks to run\n    echo ␛[2J; cat\n    averyverylongwordthatdoesnotfitinfor\n    tycolumns\n");
    }

    #[test]
    fn an_edit_as_a_diff() {
        let edit = serde_json::json!({"file_path": "a.rs", "old_string": "a\nb\nc\nd", "new_string": "a\nb\nX\nY\nd"});
        assert_eq!(render("Edit", edit, None), "? Edit asks to change a.rs\n    a\n    b\n  - c\n  + X\n  + Y\n    d\n");
        let write = serde_json::json!({"file_path": "a.rs", "content": "one\ntwo\n"});
        assert_eq!(render("Write", write.clone(), None), "? Write asks to write a.rs\n  + one\n  + two\n");
        assert_eq!(render("Write", write.clone(), Some("one\n")), "? Write asks to write over a.rs\n    one\n  + two\n");
        assert_eq!(render("Write", write, Some("one\ntwo\n")), "? Write asks to write over a.rs\n    (nothing changes)\n");
    }

    #[test]
    fn two_distant_edits_are_two_places() {
        let file = |first: &str, last: &str| {
            (0..40)
                .map(|at| {
                    if at == 3 {
                        first.to_owned()
                    } else if at == 30 {
                        last.to_owned()
                    } else {
                        format!("{at}\n")
                    }
                })
                .collect::<String>()
        };
        let edit = serde_json::json!({"file_path": "a", "old_string": file("x\n", "y\n"), "new_string": file("X\n", "Y\n")});
        let text = render("Edit", edit, None);
        let lines: Vec<_> = text.lines().skip(1).map(str::trim).collect();
        assert_eq!(lines, ["1", "2", "- x", "+ X", "4", "5", "⋮", "28", "29", "- y", "+ Y", "31", "32"]);
    }

    #[test]
    fn texts_that_differ_everywhere_are_shown_all_the_same() {
        let [old, new] =
            ["a", "b"].map(|mark| (0..20_000).fold(String::new(), |text, at| text + mark + &at.to_string() + "\n"));
        let text = render("Write", serde_json::json!({"file_path": "a", "content": new}), Some(&old));
        assert!(text.contains("- a0") && text.contains("+ b19999") && text.contains("… 39976 lines"), "{text}");
    }

    #[test]
    fn what_cannot_be_seen_is_shown() {
        let edit = |old: &str, new: &str| {
            let input = serde_json::json!({"file_path": "a", "old_string": old, "new_string": new});
            render("Edit", input, None).lines().skip(1).collect::<Vec<_>>().join("|")
        };
        assert_eq!(edit("a\r\n", "a\n"), "  - a␍|  + a");
        assert_eq!(edit("a", "a\n"), "  - a␄|  + a");
        assert_eq!(edit("a \t\n", "a\n"), "  - a·→|  + a");
        assert_eq!(edit("a", "b"), "  - a|  + b");
        let odd = serde_json::json!({"file_path": "a", "old_string": 5, "new_string": "x"});
        assert!(render("Edit", odd, None).contains("old_string: 5"));
    }

    #[test]
    fn what_is_left_out_is_said() {
        let text = render("Write", serde_json::json!({"file_path": "a", "content": "x\n".repeat(100)}), None);
        assert_eq!(text.lines().count(), 26);
        assert!(text.contains("… 76 lines"), "{text}");
    }

    #[test]
    fn a_flag_is_seen() {
        let command = serde_json::json!({"command": "ls", "description": "List", "dangerouslyDisableSandbox": true});
        assert_eq!(render("Bash", command, None), "? Bash asks to run\n    ls\n  dangerouslyDisableSandbox: true\n");
        let decoy = serde_json::json!({"path": "/keys", "command": "ls"});
        assert_eq!(
            render("mcp__fs__write", decoy, None),
            "? mcp__fs__write asks to be called with\n    command: ls\n    path: /keys\n"
        );
        let cell = serde_json::json!({"notebook_path": "a.ipynb", "edit_mode": "delete", "cell_id": "c7"});
        let text = render("NotebookEdit", cell, None);
        assert!(text.contains("(the cell is deleted)") && text.contains("cell_id: c7"), "{text}");
    }

    #[test]
    fn any_other_tool() {
        let text = render("mcp__calc__add", serde_json::json!({"a": 2, "why": "two\nlines"}), None);
        assert_eq!(text, "? mcp__calc__add asks to be called with\n    a: 2\n    why:\n    │ two\n    │ lines\n");
        let edits = serde_json::json!({"file_path": "a", "edits": "no list"});
        assert!(render("MultiEdit", edits, None).contains("edits: no list"));
    }
}
