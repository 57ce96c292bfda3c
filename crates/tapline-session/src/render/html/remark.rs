//! A line about something that is neither text nor a call.

use std::fmt::Write as _;

use super::{cut, escaped, took};
use crate::render::marks::{Mood, Remark};
use crate::text::one_line;

/// What the line says.
#[derive(Debug)]
pub(super) struct RemarkCard {
    class: &'static str,
    mark: &'static str,
    pub(super) text: String,
    took: Option<u64>,
}

impl RemarkCard {
    pub(super) fn of(remark: &Remark) -> Self {
        let class = match remark.mood {
            Mood::Good => "good",
            Mood::Bad => "bad",
            Mood::Warn => "warn",
            Mood::Aside => "aside",
        };
        Self { class, mark: remark.mark, text: one_line(cut(&remark.text).0), took: remark.took }
    }

    pub(super) fn write(&self, out: &mut String) {
        let Self { class, mark, text, took: ms } = self;
        let text = marked(text);
        let _ = writeln!(out, "<div class=\"line {class}\"><span class=mark>{mark}</span> {text}{}</div>", took(*ms));
    }
}

/// Returns a text as HTML. What stands between its only two backticks is code.
pub(super) fn marked(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    match parts[..] {
        [before, code, after] if !code.is_empty() => {
            format!("{}<code>{}</code>{}", escaped(before), escaped(code), escaped(after))
        }
        _ => escaped(text),
    }
}
