//! Views of a text as a reader sees it: without colour codes, and without what tools put before each line (numbers, the
//! signs of a patch, the names of files, signs of quotation). What is found in a view is hidden in the text.

use std::ops::Range;

use super::Peeled;
use crate::redact::class::BASE64;
use crate::redact::floor;

/// The longest name of a file before a line.
const PATH: usize = 200;
/// The longest colour code, or link.
const CODE: usize = 2 << 10;
/// The longest note before a line of `git blame`.
const BLAME: usize = 120;

impl Peeled {
    /// Leaves out what is in the text above up to this position.
    fn skip_to(&mut self, above: usize) {
        self.marks.push((self.text.len(), above));
    }

    /// Maps a span to the text above. What the view leaves out stays there, so this may be several spans.
    pub(in crate::redact) fn spans_above(&self, span: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let first = self.marks.partition_point(|(inner, _)| *inner <= span.start);
        let last = self.marks.partition_point(|(inner, _)| *inner < span.end);
        let cuts: Vec<usize> = self.marks[first..last.max(first)].iter().map(|(inner, _)| *inner).collect();
        let starts = std::iter::once(span.start).chain(cuts.clone());
        let ends = cuts.into_iter().chain(std::iter::once(span.end));
        let pairs: Vec<_> = starts.zip(ends).filter(|(start, end)| start < end).collect();
        pairs.into_iter().map(|(start, end)| {
            let above = self.above(start);
            above..above + (end - start)
        })
    }
}

/// Returns the text without colour codes, if it has any.
pub(in crate::redact) fn uncoloured(text: &str) -> Option<Peeled> {
    let bytes = text.as_bytes();
    memchr::memchr(0x1b, bytes)?;
    let mut view = Peeled { text: String::with_capacity(text.len()), ..Peeled::default() };
    let mut kept = 0;
    while let Some(found) = memchr::memchr(0x1b, &bytes[kept..]) {
        let code = kept + found;
        view.text.push_str(&text[kept..code]);
        let Some(length) = code_length(&bytes[code..bytes.len().min(code + CODE)]) else {
            view.cut.get_or_insert(code);
            kept = code + 1;
            view.skip_to(kept);
            continue;
        };
        kept = floor(text, code + length);
        view.skip_to(kept);
    }
    view.text.push_str(&text[kept..]);
    Some(view)
}

/// Returns the length of the code that begins here, or `None` if its end is missing.
fn code_length(code: &[u8]) -> Option<usize> {
    match code.get(1)? {
        b'[' => code[2..].iter().position(|byte| !matches!(byte, 0x20..=0x3f)).map(|end| 3 + end),
        b']' => {
            let end = code.iter().position(|byte| matches!(byte, 7 | b'\n')).unwrap_or(code.len());
            let closed = memchr::memmem::find(&code[1..end], b"\x1b\\").map(|at| at + 3);
            closed.or((end < code.len()).then_some(end + 1))
        }
        b'(' | b')' | b'*' | b'+' | b'#' | b' ' => code.get(2).map(|_| 3),
        _ => Some(2),
    }
}

/// Returns the text without what stands before its lines, if that is anything.
pub(in crate::redact) fn unprefixed(text: &str) -> Option<Peeled> {
    let mut is_patch = text.lines().all(|line| line.is_empty() || line.starts_with(['+', '-', ' ', '@', '\\']))
        && text.lines().any(|line| line.starts_with(['+', '-']));
    let (mut view, mut at) = (Peeled::default(), 0);
    for line in text.split_inclusive('\n') {
        is_patch |= line.starts_with("@@ ");
        is_patch &= line.trim_end().is_empty() || line.starts_with(['+', '-', ' ', '@', '\\']);
        let mut length = 0;
        if is_patch {
            length = usize::from(line.starts_with(['+', '-', ' ']));
        } else {
            // A note within a note: a quoted line of a search.
            for _ in 0..2 {
                length += prefix(&line[length..]);
            }
        }
        if length > 0 {
            view.skip_to(at + length);
        }
        view.text.push_str(&line[length..]);
        at += line.len();
    }
    (!view.marks.is_empty()).then_some(view)
}

/// Returns the text with the strings of its lists as words of a command, if one is a flag: `["mysql", "-pSECRET"]`.
pub(in crate::redact) fn unlisted(text: &str) -> Option<Peeled> {
    let bytes = text.as_bytes();
    let is_slash = |byte: &&u8| **byte == b'\\';
    memchr::memchr_iter(b'-', bytes).find(|at| *at > 0 && matches!(bytes[at - 1], b'"' | b'\''))?;
    let (mut view, mut kept) = (Peeled::default(), 0);
    for comma in memchr::memchr_iter(b',', bytes) {
        let Some(quote @ (b'"' | b'\'')) = bytes[..comma].last() else { continue };
        let next = comma + 1 + bytes[comma + 1..].iter().take(PATH).take_while(|byte| byte.is_ascii_whitespace()).count();
        let next = next + bytes[next..].iter().take_while(is_slash).count();
        if let (true, Some(before)) = (bytes.get(next) == Some(quote), bytes.get(kept..comma - 1)) {
            let slashes = before.iter().rev().take_while(is_slash).count();
            view.text.push_str(&text[kept..comma - 1 - slashes]);
            kept = next + 1;
            view.push(" ", kept);
        }
    }
    view.text.push_str(&text[kept..]);
    Some(view).filter(|view| !view.marks.is_empty())
}

/// Returns the length of what a tool puts before a line.
fn prefix(line: &str) -> usize {
    let bytes = line.as_bytes();
    let blanks = bytes.iter().take_while(|byte| **byte == b' ').count();
    let behind = &line[blanks..];
    let digits = behind.bytes().take(8).take_while(u8::is_ascii_digit).count();
    if digits > 0 {
        let sign = ["\t", "→", " │ ", " | ", "│", "|", ": ", ":", "-"].iter().find(|sign| behind[digits..].starts_with(**sign));
        let space = (blanks > 1 && behind[digits..].starts_with(' ')).then_some(1);
        // A time of day has two signs; of a date nothing is left out.
        if let Some(length) = sign.map(|sign| sign.len()).or(space) {
            return blanks + digits + length;
        }
    }
    if let Some(sign) = ["> ", "# ", "// ", "* ", "; ", "│ ", "+ ", ">\t"].iter().find(|sign| behind.starts_with(**sign)) {
        return blanks + sign.len();
    }
    if blanks > 0 {
        return 0;
    }
    let hash = bytes.iter().take(41).take_while(|byte| byte.is_ascii_hexdigit() || **byte == b'^').count();
    if hash > 6 && bytes[hash..].starts_with(b" (") {
        return memchr::memmem::find(&bytes[..bytes.len().min(BLAME)], b") ").map_or(0, |end| end + 2);
    }
    path(bytes)
}

/// Returns the length of `src/lib.rs:12:`, `src/lib.rs-12-` or `src/lib.rs:`.
fn path(line: &[u8]) -> usize {
    let line = &line[..line.len().min(PATH)];
    let mut is_path = false;
    for (at, byte) in line.iter().enumerate() {
        match byte {
            b'.' | b'/' => is_path = true,
            b':' | b'-' if at > 0 => {
                let digits = line[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                let end = at + 1 + digits;
                if digits > 0 && line.get(end) == Some(byte) {
                    return end + 1;
                }
                if *byte == b':' {
                    let goes_on = line.get(at + 1).is_some_and(|next| !matches!(next, b'/' | b' ' | b'\n'));
                    return if is_path && goes_on { at + 1 } else { 0 };
                }
            }
            b' ' | b'\t' | b'"' | b'\'' | b'=' | b'{' | b'(' | b'\n' => return 0,
            _ => {}
        }
    }
    0
}

/// Finds lines of a private key of which neither the beginning nor the end is there, as a patch near one shows them.
pub(in crate::redact) fn key_without_marks(text: &str, spans: &mut Vec<Range<usize>>) {
    let (mut at, mut run, mut is_public) = (0, Vec::new(), false);
    for line in text.split_inclusive('\n').chain(std::iter::once("\n")) {
        let body = line.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | '+'));
        let from = at + line.find(body).unwrap_or(0);
        at += line.len();
        if is_key_line(body) || !run.is_empty() && body.len() > 3 && body.bytes().all(|byte| BASE64.has(byte)) {
            run.push(from..from + body.len());
            continue;
        }
        let closes_public = body.starts_with("-----END") && !body.contains("PRIVATE KEY");
        if run.len() > 1 && !is_public && !closes_public {
            spans.append(&mut run);
        }
        run.clear();
        is_public = body.starts_with("-----BEGIN") && !body.contains("PRIVATE KEY") || is_public && !body.contains("-----");
    }
}

/// Returns whether a line can be nothing but encoded bytes, as long as the lines of keys are.
pub(in crate::redact) fn is_key_line(line: &str) -> bool {
    let has = |is: fn(&u8) -> bool| line.as_bytes().iter().any(is);
    (40..=80).contains(&line.len())
        && line.bytes().all(|byte| BASE64.has(byte))
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
}
