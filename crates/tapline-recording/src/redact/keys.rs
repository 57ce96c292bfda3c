//! The lines below `-----BEGIN … PRIVATE KEY-----`, one after the other, where the end is missing or has not come: which of them
//! are the key. A text may only speak of keys, and what follows is no part of one.

use std::ops::Range;

use super::class::BASE64;

/// So many headers and blank lines stand before a key at most.
const HEADERS: usize = 8;
/// Lines of a key are as long at least; the last is shorter.
const SHORTEST: usize = 32;
/// A first line that was cut off must be as long at least.
const SHORTEST_CUT: usize = 16;
/// The name of a header is no longer.
const HEADER_NAME: usize = 32;

/// What was seen of a key.
#[derive(Debug, Default)]
pub(super) struct KeyLines {
    headers: usize,
    /// How long its lines are, when one was seen.
    length: Option<usize>,
    /// The last one, which is shorter, was seen.
    is_over: bool,
}

impl KeyLines {
    /// Which part of the next line is the key's: none of a header. `None`: the line does not belong to it, and no line behind it.
    pub(super) fn take(&mut self, line: &[u8]) -> Option<Range<usize>> {
        let (lead, body) = key_line(line);
        let text = &line[lead..lead + body];
        let Some(length) = self.length else {
            if body >= SHORTEST || body >= SHORTEST_CUT && is_mixed(text) {
                self.length = Some(body);
                return Some(lead..lead + body);
            }
            self.headers += 1;
            let is_blank = line[lead..].trim_ascii().is_empty();
            return ((is_blank || is_header(line)) && self.headers <= HEADERS).then_some(0..0);
        };
        // A checksum may follow the last line (PGP).
        let is_checksum = text.starts_with(b"=") && body <= 5;
        let is_one = if self.is_over { is_checksum } else { body > 0 && (body <= length || body >= SHORTEST) };
        self.is_over |= body < length;
        is_one.then_some(lead..lead + body)
    }
}

/// `Proc-Type: …`. The beginning of the next key is none: each line is looked at for one key only.
fn is_header(line: &[u8]) -> bool {
    let name = memchr::memmem::find(&line[..line.len().min(HEADER_NAME)], b": ");
    name.is_some() && memchr::memmem::find(line, b"-----").is_none()
}

/// How keys begin, or what no word is like.
fn is_mixed(text: &[u8]) -> bool {
    let begins = [&b"MI"[..], b"b3Bl"].iter().any(|start| text.starts_with(start));
    begins || [u8::is_ascii_digit, u8::is_ascii_lowercase, u8::is_ascii_uppercase].iter().all(|is| text.iter().any(is))
}

/// What of a line can be a key's: where it begins, behind a number or a sign of quoting, and how long it is; 0 if there is more in
/// the line than a key.
fn key_line(line: &[u8]) -> (usize, usize) {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let is_lead = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'|' | b'"' | b'\'' | b'#' | b'*' | b',');
    let mut lead = line.iter().take_while(|byte| is_lead(byte)).count();
    // `   12→`, `12\t`: as files are shown.
    let digits = line[lead..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let behind = &line[lead + digits..];
    if digits > 0
        && let Some(arrow) = ["\t", "→", ":", "|", ": ", " | "].iter().find(|sign| behind.starts_with(sign.as_bytes()))
    {
        lead += digits + arrow.len();
    }
    let body = line[lead..].iter().take_while(|byte| BASE64.has(**byte)).count();
    let tail = &line[lead + body..];
    let is_whole =
        tail.iter().all(|byte| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b',' | b'+' | b';' | b'\\'));
    if is_whole { (lead, body) } else { (lead, 0) }
}
