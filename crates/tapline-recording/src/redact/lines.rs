//! Removes secrets from lines. In a line of JSON, each string is decoded, and only the bytes of the secrets are
//! replaced, so JSON stays JSON. Any other line is text; a private key may span many of those.

use std::borrow::Cow;
use std::ops::Range;

use tapline_protocol::Tape;

use super::glance::may_hold;
use super::json::json;
use super::keys::KeyLines;
use super::peel::{find, text_of};
use super::rules::Rules;
use super::spans::merge;
use super::{REDACTED, splice};

/// Returns a line without its byte order mark and line ending, and the length of the mark.
pub(super) fn trimmed(bytes: &[u8]) -> (usize, &[u8]) {
    let mark = if bytes.starts_with("\u{feff}".as_bytes()) { 3 } else { 0 };
    let line = &bytes[mark..];
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    (mark, line.strip_suffix(b"\r").unwrap_or(line))
}

/// Redacts lines, one after the other.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) tape: Tape,
    /// The private key that the current lines are part of.
    key: Option<KeyLines>,
}

impl Lines {
    /// Returns a line without its secrets. The line ending stays.
    pub(super) fn line<'b>(&mut self, rules: &Rules, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let (mark, line) = trimmed(bytes);
        if self.key.is_none() && !may_hold(rules, line) {
            return Cow::Borrowed(bytes);
        }
        let mut spans = if let Ok(text) = std::str::from_utf8(line) {
            self.spans(rules, text)
        } else {
            let text = text_of(line);
            let spans = self.spans(rules, &text.text);
            spans.into_iter().map(|span| text.above(span.start)..text.above(span.end)).collect()
        };
        if spans.is_empty() {
            return Cow::Borrowed(bytes);
        }
        for span in &mut spans {
            *span = span.start + mark..span.end + mark;
        }
        Cow::Owned(splice(bytes, spans.into_iter().map(|span| (span, REDACTED))))
    }

    fn spans(&mut self, rules: &Rules, text: &str) -> Vec<Range<usize>> {
        if let Ok(value) = self.tape.parse(text) {
            self.key = None;
            return json(rules, value, None);
        }
        self.text(rules, text)
    }

    /// Finds the secrets in a line of text. A line that continues a private key is hidden as a whole.
    fn text(&mut self, rules: &Rules, text: &str) -> Vec<Range<usize>> {
        let mut spans = find(rules, text, false).spans;
        if let Some(key) = &mut self.key {
            let bytes = text.as_bytes();
            let closed = memchr::memmem::find(bytes, b"-----END").map(|at| {
                let rest = &bytes[at + 8..];
                memchr::memmem::find(rest, b"-----").map_or(bytes.len(), |end| at + 8 + end + 5)
            });
            match closed.map_or_else(|| key.take(bytes), |end| Some(0..end)) {
                Some(part) => spans.push(part),
                None => self.key = None,
            }
            merge(&mut spans);
            spans.retain(|span| !span.is_empty());
        }
        let opens = memchr::memmem::rfind(text.as_bytes(), b"-----BEGIN").filter(|at| text[*at..].contains("PRIVATE KEY"));
        let closes = memchr::memmem::rfind(text.as_bytes(), b"-----END");
        match (opens, closes) {
            (Some(opens), closes) => self.key = closes.is_none_or(|closes| closes < opens).then(KeyLines::default),
            (None, Some(_)) => self.key = None,
            (None, None) => {}
        }
        spans
    }
}
