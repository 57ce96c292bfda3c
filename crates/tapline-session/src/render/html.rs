//! What happened, as HTML: one card for each thing, and a page of them. The agent's text is escaped, never interpreted:
//! Markdown becomes tags of ours around escaped text. Whoever shows cards on a page of their own uses the same style
//! ([`STYLE`]) and a content policy of their own.

mod call;
mod card;
mod code;
mod mark;
mod page;
mod prose;
mod remark;
mod timeline;

pub use card::{Card, Cards};
pub(super) use page::Html;
pub use page::{CONTENT_POLICY, Page, verdict};

use crate::text::{head, visible};
use crate::time::short_duration;

/// The style of cards: colours, times, tool calls, diffs, code and Markdown. It styles only the classes that cards have,
/// and sets the colours of light and dark as variables.
pub const STYLE: &str = include_str!("html/style.css");

/// How many characters of a text or of a call's output are put on the page.
const LONGEST: usize = 100_000;

/// Writes text as text: control characters visible, markup escaped.
fn escape(text: &str, out: &mut String) {
    let text = visible(text);
    out.reserve(text.len());
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escaped = match byte {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            b'\'' => "&#39;",
            _ => continue,
        };
        out.push_str(&text[plain..at]);
        out.push_str(escaped);
        plain = at + 1;
    }
    out.push_str(&text[plain..]);
}

/// Returns text as text: control characters visible, markup escaped.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    escape(text, &mut out);
    out
}

/// Returns the beginning of a text, and how many bytes are left out.
fn cut(text: &str) -> (&str, usize) {
    if text.len() <= LONGEST {
        return (text, 0);
    }
    let (begin, _) = head(text, LONGEST);
    (begin, text.len() - begin.len())
}

/// Returns how long something took, if it is known.
fn took(ms: Option<u64>) -> String {
    ms.map(|ms| format!(" <span class=took>{}</span>", short_duration(ms))).unwrap_or_default()
}

/// Formats milliseconds as on a clock: `0:03`, `12:05`, `1:02:03`.
fn clock(ms: u64) -> String {
    let seconds = ms / 1_000;
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}
