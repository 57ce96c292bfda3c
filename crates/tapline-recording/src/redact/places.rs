//! Secrets that are recognised by their place: private keys, passwords in URLs, tokens after `Bearer`, signatures.

use super::class::{BASE64, BEARER, DIGIT, TOKEN};
use super::floor;
use super::glance::{KEYS, ends_address};
use super::keys::KeyLines;
use super::looks::is_likely;
use super::names;
use super::scan::Scan;

/// The longest text between `-----BEGIN` and `PRIVATE KEY-----`.
const TITLE: usize = 80;
/// The longest private key.
const KEY: usize = 64 << 10;
/// The longest line of a private key.
const LINE: usize = 4 << 10;
/// The longest text before the host of a URL, if it is not plain.
const USER: usize = 512;
/// Indexes into `next_place`.
const HOST_END: usize = 0;
const ADDRESS_END: usize = 1;
const AT_SIGN: usize = 2;

impl Scan<'_> {
    /// Hides a private key, to its end or as far as the text looks like a key.
    pub(super) fn private_key(&mut self, start: usize, end: usize) -> usize {
        let Some(body) = self.title(end) else { return start };
        let bytes = self.bytes;
        // `---- BEGIN SSH2 …`
        if bytes[start + 4] == b' ' {
            self.touched |= bytes.len() - body <= KEY;
            self.hide(start..body + key_lines(&bytes[body..]));
            return start;
        }
        let known = self.next_end.filter(|(from, found)| *from <= body && found.is_none_or(|found| found >= body));
        let closes = if let Some((_, found)) = known {
            found
        } else {
            let found = memchr::memmem::find(&bytes[body..], b"-----END").map(|at| body + at);
            self.next_end = Some((body, found));
            found
        };
        let next = memchr::memmem::find(&bytes[body..closes.unwrap_or(body)], b"-----BEGIN");
        let to = if let Some(closes) = closes.filter(|closes| closes - body <= KEY && next.is_none()) {
            let rest = &bytes[closes + 8..bytes.len().min(closes + 8 + TITLE)];
            let dashes = memchr::memmem::find(rest, b"-----");
            self.touched |= dashes.is_none() && closes + 8 + TITLE > bytes.len();
            dashes.map_or(closes, |at| closes + 8 + at + 5)
        } else {
            self.touched |= closes.is_none() && bytes.len() - body <= KEY;
            body + key_lines(&bytes[body..])
        };
        self.hide(start..to);
        start
    }

    /// Hides the lines of a private key above its end, if its beginning is missing.
    pub(super) fn key_end(&mut self, start: usize, end: usize) -> usize {
        let from = self.last_key_end.max(self.covered);
        self.last_key_end = end;
        if self.title(end).is_none() || from >= start {
            return start;
        }
        let mut top = start;
        for line in self.text[from..start].split_inclusive('\n').rev() {
            let body = line.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | '+'));
            let is_one = body.len() > 1 && body.bytes().all(|byte| BASE64.has(byte));
            // Nothing but blanks and quotes stands before the mark itself.
            let is_blank = body.is_empty() && top == start;
            if !is_one && !is_blank {
                break;
            }
            top -= line.len();
        }
        self.hide(top..start);
        start
    }

    /// Hides the lines behind `Private-Lines: 1` in a key of `PuTTY`.
    pub(super) fn private_lines(&mut self, start: usize, end: usize) -> usize {
        let body = self.run(DIGIT, end);
        let lines = key_lines(&self.bytes[body..]);
        self.touched |= body + lines == self.bytes.len();
        self.hide(body..body + lines);
        start
    }

    /// Returns where `-----BEGIN … PRIVATE KEY-----` ends.
    fn title(&mut self, from: usize) -> Option<usize> {
        let rest = &self.bytes[from..self.bytes.len().min(from + TITLE)];
        let dashes = memchr::memmem::find(rest, b"----");
        self.touched |= dashes.is_none() && rest.len() < TITLE;
        let title = &rest[..dashes?];
        let is_key = KEYS.iter().any(|key| memchr::memmem::find(title, key.as_bytes()).is_some());
        let length = rest[title.len()..].iter().take_while(|byte| **byte == b'-').count();
        (is_key && !title.contains(&b'\n')).then_some(from + title.len() + length)
    }

    /// Hides the password in `scheme://user:password@host`.
    pub(super) fn address(&mut self, from: usize) -> usize {
        let bytes = self.bytes;
        let rest = &bytes[from..bytes.len().min(from + USER)];
        let [host, whole, next_at] = [
            self.next(HOST_END, from, |rest| {
                rest.iter().position(|byte| ends_address(*byte) || matches!(byte, b'/' | b'?' | b'#'))
            }),
            self.next(ADDRESS_END, from, |rest| rest.iter().position(|byte| ends_address(*byte))),
            self.next(AT_SIGN, from, |rest| memchr::memchr(b'@', rest)),
        ]
        .map(|found| (found - from).min(rest.len()));
        self.touched |= from + host == self.bytes.len();
        let colon = rest[..host].iter().position(|byte| *byte == b':');
        let is_port = |colon: usize| rest[colon + 1..host].iter().all(u8::is_ascii_digit);
        let at = match (memchr::memrchr(b'@', &rest[..host]), colon) {
            (Some(at), _) => at,
            // The password contains a character that would end the host.
            (None, Some(colon)) if !is_port(colon) && matches!(rest.get(host), Some(b'/' | b'?' | b'#')) => {
                self.touched |= from + whole == self.bytes.len();
                if next_at >= whole {
                    return from;
                }
                next_at
            }
            (None, _) => return from,
        };
        let (begin, is_sure) = match colon.filter(|colon| *colon < at) {
            Some(colon) => (from + colon + 1, true),
            // `https://TOKEN@host`
            None => (from, false),
        };
        let secret = &self.text[begin..from + at];
        if !names::is_placeholder(secret) && (is_sure || secret.len() >= 16 && is_likely(secret)) {
            self.hide(begin..from + at);
        }
        begin
    }

    /// Returns the next position of something from here on. It is remembered, so the text before it is searched only
    /// once.
    fn next(&mut self, what: usize, from: usize, find: impl FnOnce(&[u8]) -> Option<usize>) -> usize {
        let (looked, found) = self.next_place[what];
        if !(looked..=found).contains(&from) {
            let found = find(&self.bytes[from..]).map_or(self.bytes.len(), |at| from + at);
            self.next_place[what] = (from, found);
        }
        self.next_place[what].1
    }

    pub(super) fn bearer(&mut self, start: usize, end: usize) -> usize {
        if self.is_word_start(start) {
            let to = self.run(BEARER, end);
            let token = &self.text[end..to];
            let to = to - token.len() + token.trim_end_matches('.').len();
            if to - end >= 16 && token.bytes().any(|byte| byte.is_ascii_digit()) || is_likely(&self.text[end..to]) {
                self.hide(end..to);
            }
        }
        end
    }

    /// Hides the password in `curl -u USER:PASSWORD`.
    pub(super) fn user_and_password(&mut self, start: usize, end: usize) -> usize {
        let from = end + self.bytes[end..].iter().take(4).take_while(|byte| matches!(byte, b' ' | b'=' | b'"' | b'\'')).count();
        let quote = self.bytes[from - 1];
        let rest = &self.bytes[from..self.bytes.len().min(from + USER)];
        let ends = |byte: &u8| match quote {
            b'"' | b'\'' => *byte == quote || *byte == b'\n',
            _ => byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'\\'),
        };
        let length = rest.iter().position(ends).unwrap_or(rest.len());
        let is_open = from + length == self.bytes.len();
        let colon = memchr::memchr(b':', &rest[..length]);
        // Most `-u` flags have no password, or their program takes none.
        if colon.is_none() && !is_open || self.users.before_in_line(self.bytes, start).is_none() {
            return end;
        }
        self.touched |= is_open;
        let to = from + floor(&self.text[from..], length);
        if let Some(colon) = colon
            && !names::is_placeholder(&self.text[from + colon + 1..to])
        {
            self.hide(from + colon + 1..to);
        }
        from
    }

    /// Hides the signature, key or code in `?sig=…`: whoever has such a URL has access.
    pub(super) fn signature(&mut self, end: usize) -> usize {
        let is_part = |byte: &u8| TOKEN.has(*byte) || BASE64.has(*byte) || *byte == b'%';
        let length = self.bytes[end..].iter().take(USER).take_while(|byte| is_part(byte)).count();
        self.touched |= end + length == self.bytes.len();
        if length >= 16 && is_likely(&self.text[end..end + length]) {
            self.hide(end..end + length);
        }
        end
    }
}

/// Returns how much of this looks like the lines of a key without an end.
fn key_lines(bytes: &[u8]) -> usize {
    let (mut at, mut taken, mut key) = (0, 0, KeyLines::default());
    let end = bytes.len().min(KEY);
    while at < end {
        let line_end = line_end(&bytes[at..end.min(at + LINE)]).map_or(end.min(at + LINE), |found| at + found);
        let Some(part) = key.take(&bytes[at..line_end]) else { break };
        if !part.is_empty() {
            taken = at + part.end;
        }
        if line_end == end {
            break;
        }
        at = line_end + end_length(&bytes[line_end..end]);
    }
    taken
}

/// Returns where this line ends: at a newline or an escaped one.
fn line_end(bytes: &[u8]) -> Option<usize> {
    memchr::memchr2(b'\n', b'\\', bytes)
}

/// Returns the length of the line ending here.
fn end_length(bytes: &[u8]) -> usize {
    let slashes = bytes.iter().take_while(|byte| **byte == b'\\').count();
    match bytes.get(slashes) {
        Some(b'n' | b'r') if slashes > 0 => slashes + 1,
        Some(b'\n') if slashes == 0 => 1,
        _ => slashes.max(1),
    }
}
