//! Decides which lines after `-----BEGIN … PRIVATE KEY-----` belong to the key, if its end is missing or has not
//! arrived yet. A text may only mention keys, and then the lines that follow are not one.

use std::ops::Range;

use super::class::BASE64;

/// The most header and blank lines before a key.
const HEADERS: usize = 8;
/// The shortest line of a key. Only the last line is shorter.
const SHORTEST: usize = 32;
/// The shortest first line of a key, if that line was cut off.
const SHORTEST_CUT: usize = 16;
/// The longest name of a header.
const HEADER_NAME: usize = 32;

/// The state while the lines of a key are read.
#[derive(Debug, Default)]
pub(super) struct KeyLines {
    headers: usize,
    /// The length of the key's lines, once one was seen.
    length: Option<usize>,
    /// Whether the last line, which is shorter, was seen.
    is_over: bool,
}

impl KeyLines {
    /// Returns the part of the next line that belongs to the key; a header has an empty part. Returns `None` if neither
    /// this line nor any later one belongs to it.
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

/// Returns whether this is a header such as `Proc-Type: …`. The first line of another key is not: each line is checked
/// for one key only.
fn is_header(line: &[u8]) -> bool {
    let name = memchr::memmem::find(&line[..line.len().min(HEADER_NAME)], b": ");
    name.is_some() && memchr::memmem::find(line, b"-----").is_none()
}

/// Returns whether a text begins like a key or is a mix of characters that no word has.
pub(super) fn is_mixed(text: &[u8]) -> bool {
    let begins = [&b"MI"[..], b"b3Bl"].iter().any(|start| text.starts_with(start));
    begins || [u8::is_ascii_digit, u8::is_ascii_lowercase, u8::is_ascii_uppercase].iter().all(|is| text.iter().any(is))
}

/// Returns where the key's part of a line starts, after a line number or quote marks, and its length. The length is 0
/// if the line contains anything else.
fn key_line(line: &[u8]) -> (usize, usize) {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let is_lead = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'|' | b'"' | b'\'' | b'#' | b'*' | b',');
    let mut lead = line.iter().take_while(|byte| is_lead(byte)).count();
    // `   12→`, `12\t`: line numbers in the output of tools.
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
