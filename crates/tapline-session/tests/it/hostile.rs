//! Hostile text in every field of every event: none of it reaches a terminal or a page as anything but text.

use serde_json::Value;
use tapline_session::render::{Format, Style, TerminalOptions, render_summary};
use tapline_session::text::without_commands;

use crate::fixtures::{Told, folder, show, tell_plainly};

/// Colours, a title, a link, the clipboard, an 8-bit sequence, overwriting, hidden and turned text, markup, a script link.
const HOSTILE: &str = "\u{1b}[31m\u{1b}]0;t\u{7}\u{1b}]8;;http://x\u{1b}\\\u{1b}]52;c;aGk=\u{7}\u{9b}2J\rover\u{8}\u{0}\u{7f}\u{202e}\u{2066}\u{200f}\u{e0041}<script>alert(1)</script><img src=x onerror=y>\"'&lt;[x](javascript:alert(1))::error::pwn\n::error::pwn\n##[error]pwn\n";

/// Every line of the fixtures with one string replaced, for every string there is; each behind an init and a call,
/// so that answers find theirs.
fn poisoned() -> impl Iterator<Item = (String, String)> {
    let folder = folder().join("events");
    let names = ["claude-catalogue.jsonl", "codex-catalogue.jsonl", "control.jsonl", "older-shapes.jsonl"];
    let lines: Vec<String> = names
        .iter()
        .flat_map(|name| std::fs::read_to_string(folder.join(name)).unwrap().lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    lines.into_iter().filter_map(|line| serde_json::from_str::<Value>(&line).ok()).flat_map(|event| {
        let mut paths = Vec::new();
        leaves(&event, String::new(), &mut paths);
        paths.into_iter().map(move |path| {
            let mut poisoned = event.clone();
            *poisoned.pointer_mut(&path).unwrap() = HOSTILE.into();
            (format!("{} {path}", event["type"]), poisoned.to_string())
        })
    })
}

/// The places of all strings.
fn leaves(value: &Value, at: String, out: &mut Vec<String>) {
    match value {
        Value::String(_) => out.push(at),
        Value::Array(items) => items.iter().enumerate().for_each(|(index, item)| leaves(item, format!("{at}/{index}"), out)),
        Value::Object(entries) => entries.iter().for_each(|(key, item)| {
            let key = key.replace('~', "~0").replace('/', "~1");
            leaves(item, format!("{at}/{key}"), out);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

const BEFORE: &str = concat!(
    r#"{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls"}}]}}"#,
    "\n"
);

fn steers_terminal(text: &str) -> bool {
    text.chars().any(|c| {
        (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{e0000}'..='\u{e007f}')
    })
}

fn every_poisoned(check: impl Fn(&str, &Told)) {
    let mut count = 0;
    for (place, line) in poisoned() {
        check(&place, &tell_plainly(format!("{BEFORE}{line}\n").as_bytes()));
        count += 1;
    }
    assert!(count > 500, "only {count} fields were tried");
}

#[test]
fn no_field_reaches_the_terminal() {
    let options = TerminalOptions {
        style: Style::plain(),
        width: Some(80),
        rows: 24,
        live: false,
        thinking: true,
        partial: true,
        ci_log: true,
    };
    every_poisoned(|place, told| {
        let log = show(told, Format::Terminal(options));
        assert!(!steers_terminal(&log), "{place}: {log:?}");
        let command = log.lines().find(|line| line.trim_start().starts_with("::") || line.contains("##["));
        assert_eq!(command, None, "{place} starts a workflow command");
        let summary = without_commands(&render_summary(&told.report, &told.summary, Style::plain(), Some(80)));
        assert!(!steers_terminal(&summary), "{place}: {summary:?}");
        let command = summary.lines().find(|line| line.trim_start().starts_with("::") || line.contains("##["));
        assert_eq!(command, None, "{place} starts a workflow command");
    });
}

#[test]
fn no_field_reaches_the_page() {
    const TAGS: &[&str] = &[
        "!doctype", "html", "meta", "title", "/title", "style", "/style", "header", "/header", "h1", "/h1", "p", "/p", "main",
        "/main", "footer", "/footer", "div", "/div", "details", "/details", "summary", "/summary", "span", "/span", "pre",
        "/pre", "code", "/code", "/html",
    ];
    every_poisoned(|place, told| {
        let page = show(told, Format::Html);
        assert!(!steers_terminal(&page), "{place}");
        for tag in page.split('<').skip(1) {
            let inside = tag.split('>').next().unwrap();
            let name = inside.split([' ', '\n']).next().unwrap();
            assert!(TAGS.contains(&name), "{place}: <{name}");
            assert!(!inside.contains("javascript") && !inside.contains("pwn"), "{place}: {inside}");
        }
    });
}

#[test]
fn no_field_runs_in_markdown() {
    every_poisoned(|place, told| {
        let text = show(told, Format::Markdown);
        assert!(!steers_terminal(&text), "{place}");
        // What stands in code is shown as it is: blocks first, then spans.
        let prose = text.split("```").step_by(2).collect::<String>();
        let outside = prose.split('`').step_by(2).collect::<String>();
        assert!(!outside.contains("<script") && !outside.contains("<img"), "{place}: {text}");
        assert!(!outside.contains("](javascript:"), "{place}: {text}");
    });
}

#[test]
fn steps_stay_json() {
    every_poisoned(|place, told| {
        for line in show(told, Format::Steps).lines() {
            assert!(serde_json::from_str::<Value>(line).is_ok(), "{place}: {line}");
        }
        assert!(serde_json::from_str::<Value>(&told.report.to_json()).is_ok(), "{place}");
    });
}
