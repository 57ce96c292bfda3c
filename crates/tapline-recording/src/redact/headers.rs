//! Credentials in headers: `Authorization` with any scheme, and cookies.

use super::floor;
use super::looks::{is_likely, is_random};
use super::names;
use super::scan::Scan;
use super::words::Words;

/// The longest header.
const LONGEST: usize = 16 << 10;
/// The longest text with fields.
const FIELDS_LONGEST: usize = 2 << 10;
/// The longest text before the first field in quotes.
const SHORT: usize = 200;
/// How many words of a header without a known scheme are checked.
const WORDS: usize = 8;
/// Schemes behind which everything is a secret.
static SCHEMES: Words = Words::of(
    "bearer basic token negotiate ntlm apikey bot aws4-hmac-sha256 hmac key jwt geniekey ssws splunk dpop klaviyo-api-key",
);
/// Fields of an `Authorization` that are no secrets, whatever they look like.
static FIELDS: Words = Words::of(
    "username realm uri algorithm qop nc opaque id ts app ext dlg credential signedheaders oauth_version \
    oauth_timestamp oauth_signature_method client device version",
);

impl Scan<'_> {
    /// Hides the credentials in `Authorization: Bearer …` and keeps the scheme.
    pub(super) fn authorization(&mut self, from: usize) {
        let from = from + usize::from(matches!(self.bytes.get(from), Some(b'"' | b'\'')));
        let end = self.end_of_header(from);
        let value = &self.text[from..end];
        let scheme = value.find(' ').unwrap_or(value.len());
        let rest = value[scheme..].trim_start();
        // `Digest username="…", response="…"`: the quotes are those of the fields.
        let is_field = |name: &str| name.len() < 24 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let name = rest.strip_suffix('=').and_then(|rest| rest.rsplit([' ', ',']).next());
        if name.is_some_and(is_field) && rest.len() < SHORT && matches!(self.bytes.get(end), Some(b'"' | b'\\')) {
            return self.fields(end - rest.len());
        }
        let is_known = SCHEMES.has(&value[..scheme]);
        if is_known && !rest.is_empty() {
            if !names::is_placeholder(rest) {
                self.hide(end - rest.len()..end);
            }
            return;
        }
        if is_known {
            return;
        }
        // An unknown scheme, or none: what looks like a secret is one.
        let mut at = from;
        for (index, word) in value.split([' ', ',']).take(WORDS).enumerate() {
            let start = at + word.find('=').filter(|sign| *sign + 1 < word.len() && *sign < 24).map_or(0, |sign| sign + 1);
            let part = &self.text[start..at + word.len()];
            let is_one = if index == 0 { is_likely(part) } else { is_random(part) || part.len() >= 16 && is_likely(part) };
            if is_one && !names::is_placeholder(part) {
                self.hide(start..at + word.len());
            }
            at += word.len() + 1;
        }
    }

    /// Hides the fields of `Digest response="…", nonce="…"`, except those that only describe.
    fn fields(&mut self, from: usize) {
        let rest = &self.text[from..floor(self.text, from + FIELDS_LONGEST)];
        let line = rest.lines().next().unwrap_or_default();
        self.touched |= from + line.len() == self.bytes.len();
        let mut at = 0;
        while let Some(sign) = line[at..].find('=').map(|sign| at + sign) {
            let name = line[at..sign].rsplit([' ', ',', '"', '\\']).next().unwrap_or_default();
            let begin = line.len() - line[sign + 1..].trim_start_matches(['\\', '"', '\'']).len();
            let is_quoted = begin > sign + 1;
            let ends =
                |c: char| if is_quoted { matches!(c, '"' | '\'' | '\\') } else { matches!(c, ',' | ' ' | '"' | '\'' | '\\') };
            let end = line[begin..].find(ends).map_or(line.len(), |length| begin + length);
            if end - begin > 3 && !FIELDS.has(name) && !names::is_placeholder(&line[begin..end]) {
                self.hide(from + begin..from + end);
            }
            at = end.max(sign + 1);
        }
    }

    pub(super) fn cookie(&mut self, from: usize) {
        let from = from + usize::from(matches!(self.bytes.get(from), Some(b'"' | b'\'')));
        let end = self.end_of_header(from);
        let value = &self.text[from..end];
        if value.contains('=') && !names::is_placeholder(value) {
            self.hide(from..end);
        }
    }

    /// Returns where a header's value ends: at the end of its line, or at the quote around it.
    fn end_of_header(&mut self, from: usize) -> usize {
        if let Some((_, end)) = self.last_header.filter(|(start, end)| (*start..*end).contains(&from)) {
            self.touched |= end == self.bytes.len();
            return end;
        }
        let rest = &self.bytes[from..self.bytes.len().min(from + LONGEST)];
        let stops = |at: &usize| match rest[*at] {
            b'\n' | b'\r' | b'"' | b'\'' | b'`' => true,
            b'\\' => matches!(rest.get(at + 1), Some(b'n' | b'r' | b'"' | b'\'' | b'\\')),
            _ => false,
        };
        let length = (0..rest.len()).find(stops).unwrap_or(rest.len());
        self.touched |= from + length == self.bytes.len();
        let end = from + floor(&self.text[from..], length);
        let end = from + self.text[from..end].trim_end().len();
        self.last_header = Some((from, end));
        end
    }
}
