//! A transcript in Markdown, written as it arrives, in bounded memory.

mod escape;

use std::fmt::Write as _;

use super::marks::{Mood, Shown, output_of, session_lines, show};
use super::{Render, Style};
use crate::fold::Summary;
use crate::step::{Call, CallAnswer, CallStatus, Said, SessionInfo, Step, Turn};
use crate::text::count_of;
use crate::time::short_duration;
use escape::title;
pub(super) use escape::{code_block, inline, prose};

/// The Markdown renderer.
#[derive(Default)]
pub(super) struct Markdown {
    /// Calls that wait for their result. A list item is written once it is known how the call ended.
    running: Vec<(Option<String>, usize, String)>,
    /// Whether the last thing written was a list item.
    in_list: bool,
    /// Whether the heading, or something that needs none, was written.
    begun: bool,
    /// Prompts from before the session began. They come below its heading.
    held: String,
}

/// How many running calls are remembered.
const TRACKED: usize = 1_024;
/// How many lines of a failed call's output are shown.
const OUTPUT_LINES: usize = 20;

impl Markdown {
    /// Writes a block, quoted as deep as its thread.
    fn block(&mut self, depth: usize, text: &str) -> String {
        let gap = if std::mem::take(&mut self.in_list) { "\n" } else { "" };
        format!("{gap}{}\n\n", quoted(depth, text)).trim_end_matches('\n').to_owned() + "\n\n"
    }

    /// Writes a list item, quoted as deep as its thread.
    fn item(&mut self, depth: usize, text: &str) -> String {
        self.in_list = true;
        format!("{}\n", quoted(depth, &format!("- {text}")))
    }

    fn session(&mut self, info: &SessionInfo) -> String {
        let lines = session_lines(info);
        let mut out = format!("# Session {}\n", inline(&lines.id));
        for line in [lines.about, lines.has].iter().filter(|line| !line.is_empty()) {
            let _ = write!(out, "\n{}  ", inline(line));
        }
        for line in lines.not_connected {
            let _ = write!(out, "\n**{}**  ", inline(&line));
        }
        self.block(0, &out)
    }

    fn thinking(&mut self, said: &Said, depth: usize) -> String {
        let words = said.text.split_whitespace().count();
        let summary = format!("Thought ({})", count_of(words, "word"));
        self.block(depth, &format!("<details><summary>{summary}</summary>\n\n{}\n\n</details>", prose(&said.text)))
    }

    fn call(&mut self, call: &Call, depth: usize) {
        if self.running.len() < TRACKED {
            self.running.push((call.id.clone(), depth, format!("{}: {}", call.doing, title(&call.title))));
        }
    }

    fn answer(&mut self, answer: &CallAnswer, depth: usize) -> String {
        if let Some(at) = self.running.iter().position(|(id, ..)| *id == answer.id) {
            self.running.remove(at);
        }
        let what = title(answer.title.as_deref().or(answer.name.as_deref()).unwrap_or("a call"));
        let (done, took) = (answer.done.as_deref().unwrap_or("called"), took(answer.duration_ms));
        match answer.status {
            CallStatus::Ok | CallStatus::Pending => self.item(depth, &format!("✓ {done}: {what}{took}")),
            CallStatus::Error => self.item(depth, &format!("✗ {done}: {what}{took}{}", excerpt(&output_of(answer)))),
            CallStatus::Denied => self.item(depth, &format!("✗ denied: {what}{took}{}", excerpt(&answer.text))),
        }
    }

    fn turn(&mut self, turn: &Turn) -> String {
        if let Some(message) = turn.message.as_ref().filter(|_| !turn.repeats_text) {
            return self.block(0, &format!("**Error:** {}", inline(message)));
        }
        turn.news().map(|text| self.block(0, &prose(text))).unwrap_or_default()
    }
}

/// Returns how long something took, if it is known.
fn took(ms: Option<u64>) -> String {
    ms.map(|ms| format!(" · {}", short_duration(ms))).unwrap_or_default()
}

/// Returns the first lines of a failed call's output, as part of its list item.
fn excerpt(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() {
        return String::new();
    }
    let lines: Vec<_> = text.lines().take(OUTPUT_LINES).collect();
    let more = text.lines().count() - lines.len();
    let mut shown = lines.join("\n");
    if more > 0 {
        let _ = write!(shown, "\n… {}", count_of(more, "more line"));
    }
    let indented = code_block(&shown).replace('\n', "\n  ");
    format!("\n\n  {indented}\n")
}

/// Puts a `>` before every line for each level of the thread.
fn quoted(depth: usize, text: &str) -> String {
    if depth == 0 {
        return text.to_owned();
    }
    let mark = "> ".repeat(depth.min(16));
    text.lines().map(|line| format!("{mark}{line}").trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

impl Markdown {
    fn shown(&mut self, shown: Shown<'_>, step: &Step) -> String {
        match shown {
            Shown::Session(info) => self.session(info),
            Shown::Prompt(text) => self.block(step.depth + 1, &prose(text)),
            Shown::Text(said) if said.text.trim().is_empty() => String::new(),
            Shown::Text(said) => self.block(step.depth, &prose(&said.text)),
            Shown::Thinking(said) => self.thinking(said, step.depth),
            Shown::Call(call) => {
                self.call(call, step.depth);
                String::new()
            }
            Shown::Answer(answer) => self.answer(answer, step.depth),
            Shown::Turn(turn) => self.turn(turn),
            Shown::Remark(remark) => {
                let text = inline(&remark.text);
                let text = if matches!(remark.mood, Mood::Bad | Mood::Warn) { format!("**{text}**") } else { text };
                self.item(step.depth, &format!("{} {text}{}", remark.mark, took(remark.took)))
            }
            Shown::Partial(_) | Shown::Nothing => String::new(),
        }
    }
}

impl Render for Markdown {
    fn step(&mut self, step: &Step) -> String {
        let shown = show(step);
        let (is_prompt, is_session) = (matches!(shown, Shown::Prompt(_)), matches!(shown, Shown::Session(_)));
        let text = self.shown(shown, step);
        if !self.begun && is_prompt {
            self.held += &text;
            return String::new();
        }
        self.begun |= !text.is_empty();
        match std::mem::take(&mut self.held) {
            held if text.is_empty() => {
                self.held = held;
                text
            }
            held if is_session => text + &held,
            held => held + &text,
        }
    }

    fn finish(&mut self, summary: &Summary) -> String {
        let mut out = std::mem::take(&mut self.held);
        for (_, depth, text) in std::mem::take(&mut self.running) {
            out += &self.item(depth, &format!("? unanswered: {text}"));
        }
        let verdict = super::summary::verdict_lines(summary, Style::plain(), None);
        let lines: Vec<_> = verdict.lines().map(|line| inline(line.trim())).collect();
        out + &self.block(0, &format!("---\n\n{}", lines.join("  \n")))
    }
}
