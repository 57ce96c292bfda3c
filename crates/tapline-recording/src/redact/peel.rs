//! Text within text: a JSON string that holds JSON that holds JSON. Each layer of escapes is removed, and positions
//! found below are mapped back to the text above, so only those bytes are replaced.

mod view;

use super::rules::Rules;
use super::scan::{Found, scan};
use super::spans::merge;
use view::{key_without_marks, uncoloured, unlisted, unprefixed};

/// A text with one layer of escapes removed.
#[derive(Debug, Default)]
pub(super) struct Peeled {
    pub(super) text: String,
    /// After each escape: the position in this text and in the text above.
    pub(super) marks: Vec<(usize, usize)>,
    /// The position in the text above of an escape that is cut off at the end.
    pub(super) cut: Option<usize>,
}

impl Peeled {
    /// Maps a position to the text above.
    pub(super) fn above(&self, at: usize) -> usize {
        match self.marks.partition_point(|(inner, _)| *inner <= at).checked_sub(1) {
            Some(mark) => self.marks[mark].1 + (at - self.marks[mark].0),
            None => at,
        }
    }

    fn push(&mut self, text: &str, escape_ends: usize) {
        self.text.push_str(text);
        self.marks.push((self.text.len(), escape_ends));
    }
}

/// The deepest nesting. A quote has 65535 backslashes there.
const LAYERS: usize = 16;

/// Finds the secrets in a text, including those that are escaped in it.
pub(super) fn find(rules: &Rules, text: &str, more: bool) -> Found {
    let mut found = look(rules, text, more, false);
    let mut layers: Vec<Peeled> = Vec::new();
    while layers.len() < LAYERS && is_worth_it(layers.last().map_or(text, |layer| &layer.text)) {
        let layer = peel(layers.last().map_or(text, |layer| &layer.text), Escapes::Any);
        // Nothing was unescaped: what looks like an escape is not one.
        if layer.marks.is_empty() && layer.cut.is_none() {
            break;
        }
        let beneath = look(rules, &layer.text, more, false);
        layers.push(layer);
        let above = |at: usize| layers.iter().rev().fold(at, |at, layer| layer.above(at));
        found.spans.extend(beneath.spans.into_iter().map(|span| above(span.start)..above(span.end)));
        if more {
            let whole = layers.last().map_or(0, |layer| layer.text.len());
            if beneath.undecided < whole {
                found.undecided = found.undecided.min(above(beneath.undecided));
            }
            let cut = layers.last().and_then(|layer| layer.cut);
            let outer = &layers[..layers.len() - 1];
            let cut = cut.map(|cut| outer.iter().rev().fold(cut, |at, layer| layer.above(at)));
            found.undecided = cut.map_or(found.undecided, |cut| cut.min(found.undecided));
        }
    }
    if !layers.is_empty() {
        merge(&mut found.spans);
    }
    found
}

/// Finds the secrets in a text and in the views of it. Of lines in a list the beginning may be missing.
pub(super) fn look(rules: &Rules, text: &str, more: bool, is_list: bool) -> Found {
    let plain = uncoloured(text);
    // Without its codes a text says all that it says with them, unless they are links.
    let is_said = plain.is_some() && !more && memchr::memmem::find(text.as_bytes(), b"\x1b]").is_none();
    let mut found =
        if is_said { Found { spans: Vec::new(), undecided: text.len(), is_quiet: true } } else { scan(rules, text, more) };
    if let Some(plain) = plain {
        found.undecided = plain.cut.filter(|_| more).map_or(found.undecided, |cut| cut.min(found.undecided));
        found.add(&plain, look(rules, &plain.text, more, is_list));
    } else if !found.is_quiet || is_list {
        // Words are the same in every line, so where nothing announces a secret, none is there.
        let lines = unprefixed(text);
        let is_part = is_list || memchr::memmem::find(text.as_bytes(), b"@@ -").is_some();
        if is_part && lines.is_none() {
            key_without_marks(text, &mut found.spans);
        }
        for (view, is_part) in [(lines, is_part), (unlisted(text), false)] {
            let Some(view) = view else { continue };
            let mut beneath = scan(rules, &view.text, more);
            if is_part {
                key_without_marks(&view.text, &mut beneath.spans);
            }
            found.add(&view, beneath);
        }
    }
    merge(&mut found.spans);
    found
}

impl Found {
    /// Adds what was found in a view of the text.
    fn add(&mut self, view: &Peeled, beneath: Self) {
        self.is_quiet &= beneath.is_quiet;
        if beneath.undecided < view.text.len() {
            self.undecided = self.undecided.min(view.above(beneath.undecided));
        }
        self.spans.extend(beneath.spans.into_iter().flat_map(|span| view.spans_above(span)));
    }
}

/// Returns whether an escaped letter could hide a secret. Line ends and quotes are handled without removing escapes.
fn is_worth_it(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr::memchr_iter(b'\\', bytes).any(|at| match bytes.get(at + 1) {
        Some(b'u' | b'x') => bytes.get(at + 2).is_none_or(u8::is_ascii_hexdigit),
        // A value may contain a backslash of its own.
        Some(b'/' | b'\\') | None => true,
        Some(_) => false,
    })
}

/// The kinds of escapes that are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escapes {
    /// Escapes of a JSON string that was checked.
    Json,
    /// Escapes of any language. Anything else is left as it is.
    Any,
}

/// Removes one layer of escapes.
pub(super) fn peel(text: &str, escapes: Escapes) -> Peeled {
    let bytes = text.as_bytes();
    let mut peeled = Peeled { text: String::with_capacity(text.len()), ..Peeled::default() };
    let (mut kept, mut at) = (0, 0);
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        let escape = at + found;
        let (meant, ends) = match bytes.get(escape + 1) {
            Some(b'n') => ('\n', escape + 2),
            Some(b't') => ('\t', escape + 2),
            Some(b'r') => ('\r', escape + 2),
            Some(b'b') => ('\u{8}', escape + 2),
            Some(b'f') => ('\u{c}', escape + 2),
            Some(plain @ (b'"' | b'\\' | b'/')) => (char::from(*plain), escape + 2),
            Some(b'\'') if escapes == Escapes::Any => ('\'', escape + 2),
            Some(b'u') if hex(bytes, escape + 2, 4).is_some() => unicode(bytes, escape),
            Some(b'x') if escapes == Escapes::Any && hex(bytes, escape + 2, 2).is_some() => {
                (hex(bytes, escape + 2, 2).and_then(char::from_u32).unwrap_or_default(), escape + 4)
            }
            next => {
                let is_cut = |length: usize| bytes.len() - escape < length;
                if next.is_none() || matches!(next, Some(b'u')) && is_cut(6) || matches!(next, Some(b'x')) && is_cut(4) {
                    peeled.cut.get_or_insert(escape);
                }
                at = escape + 1;
                continue;
            }
        };
        peeled.text.push_str(&text[kept..escape]);
        peeled.push(meant.encode_utf8(&mut [0; 4]), ends);
        (kept, at) = (ends, ends);
    }
    peeled.text.push_str(&text[kept..]);
    peeled
}

fn hex(bytes: &[u8], from: usize, length: usize) -> Option<u32> {
    let digits = bytes.get(from..from + length)?;
    digits.iter().try_fold(0, |value, digit| Some(value * 16 + char::from(*digit).to_digit(16)?))
}

/// Decodes a `\u` escape, or two of them for a surrogate pair. A lone surrogate is U+FFFD.
fn unicode(bytes: &[u8], escape: usize) -> (char, usize) {
    let first = hex(bytes, escape + 2, 4).unwrap_or(0xFFFD);
    let second = || bytes.get(escape + 6..escape + 8).filter(|next| *next == b"\\u").and_then(|_| hex(bytes, escape + 8, 4));
    match (first, second()) {
        (0xD800..=0xDBFF, Some(second @ 0xDC00..=0xDFFF)) => {
            let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
            (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), escape + 12)
        }
        _ => (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), escape + 6),
    }
}

/// Converts bytes to text and keeps their positions. Invalid UTF-8 becomes U+FFFD.
pub(super) fn text_of(bytes: &[u8]) -> Peeled {
    let mut peeled = Peeled { text: String::with_capacity(bytes.len()), ..Peeled::default() };
    let mut at = 0;
    for chunk in bytes.utf8_chunks() {
        peeled.text.push_str(chunk.valid());
        at += chunk.valid().len();
        if !chunk.invalid().is_empty() {
            at += chunk.invalid().len();
            peeled.push("\u{fffd}", at);
        }
    }
    peeled
}
