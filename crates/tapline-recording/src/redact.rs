//! Removes secrets from text: keys and tokens with a known shape, values after a name like `password`, private keys,
//! and passwords in URLs. It looks at decoded strings, replaces only the secret, and takes time linear in the text.
//! docs/REDACT.md says what it finds.

mod alike;
mod announced;
mod args;
mod beside;
mod class;
mod flags;
mod glance;
mod headers;
mod json;
mod keys;
mod lines;
mod looks;
mod manifest;
mod names;
mod pairs;
mod peel;
mod pieces;
mod places;
mod programs;
mod rules;
mod said;
mod scan;
mod sieve;
mod spans;
mod stream;
mod table;
mod values;
mod words;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use lines::Lines;
use rules::Rules;

pub use pieces::PieceRedactor;
pub use stream::StreamRedactor;
pub use table::{SHAPES, Shape};

/// The text that replaces a secret.
pub const REDACTED: &str = "[redacted]";

/// Shorter values of variables are not hidden, because they also occur as ordinary text.
pub const SHORTEST_VALUE: usize = 6;

/// Finds secrets and replaces them. It is built once, and is cheap to clone and share.
///
/// ```
/// use tapline_recording::Redactor;
///
/// let redactor = Redactor::default();
/// assert_eq!(redactor.text("PASSWORD=hunter2 make"), "PASSWORD=[redacted] make");
/// assert_eq!(redactor.text("Authorization: Bearer abc.def"), "Authorization: Bearer [redacted]");
/// assert_eq!(redactor.text("nothing to hide"), "nothing to hide");
/// assert_eq!(*redactor.line(br#"{"password":"hunter2","a":null}"#), *br#"{"password":"[redacted]","a":null}"#);
/// ```
#[derive(Clone, Debug)]
pub struct Redactor(Arc<Rules>);

impl Default for Redactor {
    /// Uses only the built-in table.
    fn default() -> Self {
        static TABLE: LazyLock<Redactor> = LazyLock::new(|| Redactor(Arc::new(Rules::new(Vec::new(), Vec::new()))));
        TABLE.clone()
    }
}

/// A pattern that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pattern `{pattern}` {why}")]
pub struct BadPattern {
    /// Its index in the list.
    pub index: usize,
    /// The pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub why: String,
}

impl Redactor {
    /// Creates a redactor with the built-in table, your own patterns and your own values.
    ///
    /// Patterns are regular expressions of the crate `regex-lite` that do not match empty text. Their first group is
    /// hidden, or the whole match if they have none. Values are hidden wherever they occur; those shorter than
    /// [`SHORTEST_VALUE`] are skipped.
    pub fn with(patterns: &[String], values: impl IntoIterator<Item = String>) -> Result<Self, BadPattern> {
        let read = |(index, pattern): (usize, &String)| {
            let bad = |why: String| BadPattern { index, pattern: pattern.clone(), why };
            let read = regex_lite::Regex::new(pattern).map_err(|error| bad(format!("cannot be read: {error}")))?;
            // A pattern that can match empty text does so somewhere in this one.
            if read.find_iter("a1 -_").any(|found| found.is_empty()) {
                return Err(bad("matches empty text: require at least one character, as in `[0-9]{4,}`".to_owned()));
            }
            Ok(read)
        };
        let patterns = patterns.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        let lines = |value: String| value.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
        let values = values.into_iter().flat_map(lines).filter(|line| line.len() >= SHORTEST_VALUE);
        Ok(Self(Arc::new(Rules::new(patterns, values.collect()))))
    }

    /// Returns the text without its secrets.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let spans = peel::find(&self.0, text, false).spans;
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        let bytes = splice(text.as_bytes(), spans.into_iter().map(|span| (span, REDACTED)));
        Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns a line without its secrets. JSON stays JSON, and the line ending stays.
    pub fn line<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        Lines::default().line(&self.0, bytes)
    }

    /// Returns a redactor for a whole stream, line by line. It also finds private keys that span many lines of text,
    /// and secrets that partial messages cut into pieces.
    pub fn stream(&self) -> StreamRedactor {
        StreamRedactor::new(self.clone())
    }

    /// Returns a redactor for the bytes of a stream, or of any other text, that arrive in pieces.
    pub fn pieces(&self) -> PieceRedactor {
        PieceRedactor::new(self.stream())
    }
}

/// Returns the nearest character boundary at or before this position.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Replaces each span with its text.
fn splice<'r>(bytes: &[u8], edits: impl Iterator<Item = (Range<usize>, &'r str)>) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut kept = 0;
    for (span, text) in edits {
        out.extend_from_slice(&bytes[kept..span.start]);
        out.extend_from_slice(text.as_bytes());
        kept = span.end;
    }
    out.extend_from_slice(&bytes[kept..]);
    out
}
