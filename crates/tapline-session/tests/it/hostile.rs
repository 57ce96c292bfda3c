//! Hostile text in every field of every event: none of it reaches a terminal or a page as anything but text.

use std::time::Duration;

use serde_json::Value;
use tapline_protocol::Moment;
use tapline_session::render::{
    Current, Hints, Outputs, Proposal, RenderAs, Status, Style, TerminalOptions, Times, digest, render_summary,
};
use tapline_session::text::without_commands;
use tapline_session::{Step, What};
use tapline_testkit::fixture;

use crate::read_stream::{PLAIN, ReadStream, show, tell_plainly};

/// Colours, a title, a link, the clipboard, an 8-bit sequence, overwriting, hidden and turned text, markup, a script link.
const HOSTILE: &str = "\u{1b}[31m\u{1b}]0;t\u{7}\u{1b}]8;;http://x\u{1b}\\\u{1b}]52;c;aGk=\u{7}\u{9b}2J\rover\u{8}\u{0}\u{7f}\u{202e}\u{2066}\u{200f}\u{e0041}<script>alert(1)</script><img src=x onerror=y>\"'&lt;[x](javascript:alert(1))::error::pwn\n::error::pwn\n##[error]pwn\n## pwn\n";

/// Every line of the fixtures with one string replaced, for every string there is; each behind an init and a call,
/// so that answers find theirs.
fn poisoned() -> impl Iterator<Item = (String, String)> {
    let folder = fixture("events");
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

fn every_poisoned(check: impl Fn(&str, &ReadStream)) {
    let mut count = 0;
    for (place, line) in poisoned() {
        check(&place, &tell_plainly(format!("{BEFORE}{line}\n").as_bytes()));
        count += 1;
    }
    assert!(count > 500, "only {count} fields were tried");
}

/// Where a text goes, and so what must not be in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A terminal: nothing steers it.
    Terminal,
    /// A CI log: nothing in it is a command, and nothing steers a terminal that shows it.
    CiLog,
    /// A page: nothing but our own tags.
    Page,
    /// A page made of Markdown: no markup, no script link outside code.
    Markdown,
    /// One JSON value a line.
    Json,
    /// The prompt of another agent: nothing hidden, and no heading but our own.
    Prompt,
    /// Whoever asked for the value itself: as it is. The commands make it visible where that is a terminal.
    Raw,
}

type Render = fn(&ReadStream) -> String;

/// How a file of `render/` is tried.
enum Tried {
    /// What it makes of a stream, and where that goes.
    As(Place, Render),
    /// It makes nothing by itself, but what these make goes through it.
    Within(&'static [&'static str]),
}

/// Every file of `render/`: one that is not here fails the test below.
const RENDERERS: &[(&str, Tried)] = &[
    ("changes", Tried::Within(&["html", "proposal", "prose"])),
    ("column", Tried::As(Place::CiLog, |told| without_commands(&with_times(told)))),
    (
        "digest",
        Tried::As(Place::Markdown, |told| {
            let titles: Vec<_> = told.report.tools.calls.iter().map(|call| format!("{} {}", call.name, call.title)).collect();
            digest(&told.report, titles.first().map(String::as_str), &titles, &titles)
        }),
    ),
    ("html", Tried::As(Place::Page, |told| show(told, RenderAs::Html))),
    ("lines", Tried::As(Place::CiLog, |told| without_commands(&show(told, RenderAs::Lines(LOG))))),
    ("live", Tried::As(Place::Terminal, live)),
    ("markdown", Tried::As(Place::Markdown, |told| show(told, RenderAs::Markdown))),
    ("marks", Tried::Within(&["terminal", "lines", "html", "markdown"])),
    ("output", Tried::As(Place::Raw, outputs)),
    ("proposal", Tried::As(Place::Terminal, proposals)),
    ("prose", Tried::As(Place::Terminal, rich)),
    ("status", Tried::As(Place::Terminal, statuses)),
    ("steps", Tried::As(Place::Json, |told| show(told, RenderAs::Steps))),
    ("style", Tried::Within(&["terminal"])),
    (
        "summary",
        Tried::As(Place::CiLog, |told| {
            without_commands(&render_summary(&told.report, &told.summary, Style::plain(), Some(80), Hints::default()))
        }),
    ),
    ("terminal", Tried::As(Place::CiLog, |told| without_commands(&show(told, RenderAs::Terminal(LOG))))),
    ("transcript", Tried::As(Place::Prompt, |told| show(told, RenderAs::Transcript))),
    ("typing", Tried::Within(&["live"])),
];

const LOG: TerminalOptions = TerminalOptions { width: Some(80), thinking: true, partial: true, ..PLAIN };

/// A view of steps that have times.
fn with_times(told: &ReadStream) -> String {
    let mut renderer = RenderAs::Terminal(TerminalOptions { times: Times::SinceFirst, ..LOG }).renderer();
    let moments = (0..).map(|second| Some(Moment::from_millis(second * 1_000)));
    let steps = told.steps.iter().flatten().zip(moments).map(|(step, arrived)| {
        let mut step: Step = step.clone();
        step.arrived = arrived;
        step
    });
    steps.map(|step| renderer.step(&step)).collect::<String>() + &renderer.finish(&told.summary)
}

/// A view with colours, where Markdown and edits are more than text, without our own colours.
fn rich(told: &ReadStream) -> String {
    let Style { bold, dim, italic, red, green, yellow, cyan, reset } = Style::ansi();
    let shown: String = [false, true]
        .into_iter()
        .map(|live| {
            let mut renderer =
                RenderAs::Terminal(TerminalOptions { style: Style::ansi(), full: !live, live, ..LOG }).renderer();
            let steps: String = told.steps.iter().flatten().map(|step| renderer.step(step)).collect();
            steps + &renderer.finish(&told.summary)
        })
        .collect();
    let shown = (1..100).fold(shown, |out, rows| out.replace(&format!("\r\u{1b}[{rows}A\u{1b}[J"), ""));
    [bold, dim, italic, red, green, yellow, cyan, reset].iter().fold(shown, |out, code| out.replace(code, ""))
}

/// What is drawn over and over, without our own moves of the cursor.
fn live(told: &ReadStream) -> String {
    let mut renderer = RenderAs::Terminal(TerminalOptions { live: true, ..LOG }).renderer();
    let mut out = String::new();
    for step in told.steps.iter().flatten() {
        out += &renderer.step(step);
        out += &renderer.pause();
        out += &renderer.resume();
    }
    out += &renderer.finish(&told.summary);
    (1..100).fold(out, |out, rows| out.replace(&format!("\r\u{1b}[{rows}A\u{1b}[J"), ""))
}

/// The status line at every moment.
fn statuses(told: &ReadStream) -> String {
    let mut status = Status::default();
    let mut out = String::new();
    for step in told.steps.iter().flatten() {
        status.accept(step, Duration::from_secs(1));
        let line = status.line(Duration::from_secs(2));
        assert_eq!(line.lines().count(), 1, "a status line is a line: {line:?}");
        out += &(line + "\n");
    }
    out
}

/// Every call, as if it were asked for, about a file that is hostile too.
fn proposals(told: &ReadStream) -> String {
    let mut out = String::new();
    for step in told.steps.iter().flatten() {
        if let What::Call(call) = &step.what
            && let Some(input) = &call.input
        {
            for tool in [call.name.as_str(), "Bash", "Write", "Edit", "MultiEdit", "NotebookEdit", "WebFetch", HOSTILE] {
                for file in [Current::Absent, Current::Text(HOSTILE), Current::NotShown] {
                    let proposal = Proposal { tool, input, file, reason: Some(HOSTILE), most: 20 };
                    out += &proposal.render(Style::plain(), 80);
                }
            }
        }
    }
    out
}

/// What the agent itself would have printed.
fn outputs(told: &ReadStream) -> String {
    let mut outputs = Outputs::with_messages();
    for (record, steps) in told.records.iter().zip(&told.steps) {
        outputs.accept(Some(record), steps);
    }
    if let Ok(json) = outputs.json(told.summary.agent) {
        assert!(serde_json::from_str::<Value>(&json).is_ok(), "{json}");
    }
    outputs.text(told.summary.agent, told.summary.answer.as_deref()).unwrap_or_default()
}

fn check(place: Place, text: &str) -> Result<(), String> {
    let fails = |bad: bool, why: &str| if bad { Err(format!("{why}: {text:?}")) } else { Ok(()) };
    match place {
        Place::Terminal => fails(steers_terminal(text), "steers the terminal"),
        Place::CiLog => {
            let is_command = |line: &str| line.trim_start().starts_with("::") || line.contains("##[");
            fails(steers_terminal(text), "steers the terminal")?;
            fails(text.lines().any(is_command), "starts a workflow command")
        }
        Place::Page => {
            fails(steers_terminal(text), "steers")?;
            // Our own script is the last thing on the page.
            let text = text.split("<script>\"use strict\";\n").next().unwrap();
            for tag in text.split('<').skip(1) {
                let inside = tag.split('>').next().unwrap();
                let name = inside.split([' ', '\n']).next().unwrap();
                fails(!TAGS.contains(&name.trim_start_matches('/')) || name == "script", &format!("<{name}"))?;
                fails(inside.contains("javascript:") || inside.contains("onerror") || inside.contains("pwn"), inside)?;
                // One of the hostile addresses is on the web.
                let is_web = inside == "a href=\"http://x\" rel=\"noreferrer noopener\" target=_blank";
                fails(inside.contains("href=") && !inside.contains("href=\"#step-") && !is_web, inside)?;
            }
            Ok(())
        }
        Place::Markdown => {
            fails(steers_terminal(text), "steers")?;
            // What stands in code is shown as it is: blocks first, then spans.
            let prose = text.split("```").step_by(2).collect::<String>();
            let outside = prose.split('`').step_by(2).collect::<String>();
            fails(outside.contains("<script") || outside.contains("<img"), "markup")?;
            fails(outside.contains("](javascript:"), "a script link")
        }
        Place::Json => fails(text.lines().any(|line| serde_json::from_str::<Value>(line).is_err()), "no JSON"),
        Place::Prompt => {
            let own = ["## User", "## Assistant", "## Tool call", "## Tool answer", "## Error", "## Result"];
            let forged = |line: &str| line.starts_with("## ") && !own.iter().any(|own| line.starts_with(own));
            fails(steers_terminal(text), "hides something")?;
            fails(text.lines().any(forged), "a heading that is not ours")
        }
        Place::Raw => Ok(()),
    }
}

/// Our tags, with `/` at their ends as well.
const TAGS: &[&str] = &[
    "!doctype",
    "html",
    "meta",
    "title",
    "style",
    "script",
    "header",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "p",
    "main",
    "footer",
    "aside",
    "section",
    "nav",
    "article",
    "div",
    "details",
    "summary",
    "span",
    "pre",
    "code",
    "a",
    "ol",
    "ul",
    "li",
    "br",
    "hr",
    "em",
    "strong",
    "del",
    "blockquote",
    "table",
    "tr",
    "th",
    "td",
    "svg",
    "rect",
];

#[test]
fn hostile_text_in_any_field_is_text_wherever_it_is_shown() {
    every_poisoned(|field, told| {
        for (name, tried) in RENDERERS {
            if let Tried::As(place, render) = tried
                && let Err(why) = check(*place, &render(told))
            {
                panic!("{field} in {name}: {why}");
            }
        }
        assert!(serde_json::from_str::<Value>(&told.report.to_json()).is_ok(), "{field}: the report");
    });
}

#[test]
fn no_renderer_is_forgotten() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/render");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let mut files: Vec<String> = files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    files.sort();
    let names: Vec<&str> = RENDERERS.iter().map(|(name, _)| *name).collect();
    assert_eq!(files, names, "every file of render/ has its row in RENDERERS");
    let is_tried = |wanted: &&str| RENDERERS.iter().any(|(name, tried)| name == wanted && matches!(tried, Tried::As(..)));
    for (name, tried) in RENDERERS {
        if let Tried::Within(others) = tried {
            assert!(!others.is_empty() && others.iter().all(is_tried), "{name} is tried by others");
        }
    }
}
