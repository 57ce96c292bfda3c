//! A first look at a raw line, before it is decoded. Most lines cannot hold a secret and need no second look. It may
//! say yes too often, but never no if there is a secret: an escape that could hide a letter always means yes.

use std::borrow::Cow;

use super::announced::Announced;
use super::class::{BASE64, BEARER};
use super::keys::is_mixed;
use super::names::{self, LastName, name_around};
use super::pairs;
use super::programs::{PASSWORDS, Programs, USERS};
use super::rules::Rules;
use super::sieve::{Look, Passed};
use super::table::Part;

/// What a private key is called in its first and last lines.
pub(super) const KEYS: &[&str] = &["PRIVATE KEY", "OpenVPN Static key", "NKEY SEED"];

/// How far from an announcement it looks, and the longest text between two lines of a key: tools put a path before each.
const FAR: usize = 512;
/// The shortest line of a key.
const KEY_LINE: usize = 40;

/// Names that occur in nearly every line of an agent and do not name a secret.
const HARMLESS: &[&str] = &[
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "cached_input_tokens",
    "reasoning_output_tokens",
    "ephemeral_1h_input_tokens",
    "ephemeral_5m_input_tokens",
    "thinking_tokens",
    "output_tokens_details",
    "estimated_tokens",
    "estimated_tokens_delta",
    "total_tokens",
    "inputTokens",
    "outputTokens",
    "cacheReadInputTokens",
    "cacheCreationInputTokens",
    "maxOutputTokens",
    "thinkingTokens",
    "cacheCreationEphemeral1hInputTokens",
    "cacheCreationEphemeral5mInputTokens",
    "bypassPermissions",
    "plugin-authoring",
    "workflow-authoring",
    "apiKeySource",
    "signature",
    "signature_delta",
    "tokens",
    "key",
    "keys",
    "author",
];

/// Returns whether a raw line may hold a secret.
pub(super) fn may_hold(rules: &Rules, line: &[u8]) -> bool {
    let mut plain = Cow::Borrowed(line);
    if memchr::memchr(b'\\', line).is_some() {
        if memchr::memmem::find(line, b"\\/").is_some() {
            return true;
        }
        plain = without_codes(plain, b"\\u001b[");
    }
    // A line that is no JSON may have colours as they are.
    if memchr::memchr(0x1b, line).is_some() {
        plain = without_codes(plain, b"\x1b[");
        if memchr::memchr(0x1b, &plain).is_some() {
            return true;
        }
    }
    rules.is_blind() || Glance::new(&plain, true).may_hold(rules)
}

/// Returns whether something in the text from `from` on announces a secret, or begins to.
pub(super) fn announces(rules: &Rules, text: &str, from: usize) -> bool {
    let is_one = |passed: Passed| matches!(passed, Passed::Announced(..));
    rules.is_blind() || rules.sieve.any(text.as_bytes(), from, Look::Cut, is_one)
}

/// Returns a raw line without the colour codes that begin so. Other codes stay.
fn without_codes<'l>(line: Cow<'l, [u8]>, begin: &[u8]) -> Cow<'l, [u8]> {
    let (mut plain, mut kept) = (Vec::new(), 0);
    for code in memchr::memmem::find_iter(&line, begin) {
        plain.reserve(line.len() - kept);
        let from = code + begin.len();
        let end = from + line[from..].iter().take_while(|byte| matches!(byte, b'0'..=b'?')).count();
        if line.get(end).is_some_and(u8::is_ascii_alphabetic) {
            plain.extend_from_slice(&line[kept..code]);
            // In JSON within JSON, the escape has more backslashes.
            plain.truncate(plain.len() - plain.iter().rev().take_while(|byte| **byte == b'\\').count());
            kept = end + 1;
        }
    }
    if kept == 0 {
        return line;
    }
    plain.extend_from_slice(&line[kept..]);
    Cow::Owned(plain)
}

pub(super) struct Glance<'l> {
    line: &'l [u8],
    is_raw: bool,
    /// Where the name that was checked last ends.
    last_name: usize,
    /// What that name says about its value.
    known: LastName,
    /// The last program before a `-u`.
    users: Programs,
    /// The last program before a `-p`.
    passwords: Programs,
    /// The next `@` and the next byte that ends a URL, so each byte is searched only once.
    next_at: Option<usize>,
    next_end: Option<usize>,
    /// Up to where it was looked through for lines of keys.
    lined: usize,
}

impl<'l> Glance<'l> {
    pub(super) fn new(line: &'l [u8], is_raw: bool) -> Self {
        let [users, passwords] = [USERS, PASSWORDS].map(Programs::new);
        let known = LastName::default();
        Self { line, is_raw, last_name: 0, known, users, passwords, next_at: None, next_end: None, lined: 0 }
    }

    fn may_hold(&mut self, rules: &Rules) -> bool {
        rules.sieve.any(self.line, 0, Look::Raw, |passed| match passed {
            Passed::Escape(at) => hides_letter(&self.line[at..]),
            Passed::List(at) => self.has_key_lines(at),
            Passed::Announced(announced, start, end) => self.announced(announced, start, end),
        })
    }

    /// Returns whether what is announced here may be a secret.
    pub(super) fn announced(&mut self, announced: Announced, start: usize, end: usize) -> bool {
        let line = self.line;
        let behind = &line[end..line.len().min(end + FAR)];
        let before = &line[start.saturating_sub(FAR)..start];
        let contains = |text: &[u8], what: &str| memchr::memmem::find(text, what.as_bytes()).is_some();
        match announced {
            Announced::Shape(shape) => match shape.body.first() {
                Some(Part::Of(class, least)) => behind.len() >= *least && behind[..*least].iter().all(|byte| class.has(*byte)),
                _ => true,
            },
            Announced::Name => end > self.last_name && self.name(end),
            Announced::ShortName => end > self.last_name && self.name(end - 1),
            Announced::Key | Announced::KeyEnd => KEYS.iter().any(|title| contains(&behind[..behind.len().min(100)], title)),
            Announced::Address => self.address(end),
            Announced::Bearer => behind.iter().take(8).filter(|byte| BEARER.has(**byte)).count() == 8,
            Announced::User => memchr::memchr(b':', behind).is_some() && self.users.before(line, start).is_some(),
            // In a list, the words of the program stand apart.
            Announced::Password => {
                line[start] != b' ' && matches!(behind.first(), Some(b'"' | b'\'' | b'\\'))
                    || self.passwords.before(line, start).is_some()
            }
            Announced::Command(command) => {
                command.flags.iter().any(|(flag, _)| *flag == command.name.trim_end() || contains(behind, flag))
            }
            Announced::Jwk => matches!(before.last(), Some(b'"' | b'\'')),
            Announced::Piped => memchr::memchr(b'|', before).is_some(),
            Announced::Signature => behind.iter().take(16).filter(|byte| BEARER.has(**byte) || **byte == b'%').count() == 16,
            Announced::Hunk => self.has_key_lines(end),
            Announced::Literal | Announced::PrivateLines | Announced::Value => true,
        }
    }

    /// Returns whether the lines of a key may follow: two long runs of encoded bytes, one behind the other.
    fn has_key_lines(&mut self, from: usize) -> bool {
        let line = self.line;
        let (mut at, mut last) = (from.max(self.lined), None);
        self.lined = line.len();
        let run = |bytes: &mut dyn Iterator<Item = &u8>| bytes.take_while(|byte| BASE64.has(**byte)).count();
        // A run is longer than a step, so none is stepped over.
        while let Some(byte) = line.get(at) {
            if BASE64.has(*byte) {
                let (start, end) = (at - run(&mut line[..at].iter().rev().take(KEY_LINE)), at + run(&mut line[at..].iter()));
                if end - start >= KEY_LINE {
                    if last.is_some_and(|last| start < last + FAR) {
                        return true;
                    }
                    // The first line of a key is a mix, a path is mostly none.
                    last = is_mixed(&line[start..end]).then_some(end);
                }
                at = end;
            }
            at += KEY_LINE;
        }
        false
    }

    fn name(&mut self, end: usize) -> bool {
        let line = self.line;
        let Some(place) = name_around(line, end) else { return self.is_raw && is_key(line, end) };
        self.last_name = place.end;
        let (start, to) = (place.start, place.end);
        if &line[start..to] == b"Secret" && names::is_kind(&line[..start]) {
            return true;
        }
        // A string value that no value follows, so it is not a name.
        if line.get(to) == Some(&b',') && pairs::called(line, start).is_none() {
            return false;
        }
        if start > 0
            && line[start - 1] == b'"'
            && matches!(line[to..], [b'"', b',' | b'}', ..])
            && !line[..start - 1].ends_with(b"(")
            && pairs::called(line, start).is_none()
        {
            return false;
        }
        // `the api key is …`
        let may_tell =
            |behind: &[u8]| matches!(behind, [b':' | b'=' | b'*', ..]) || matches!(behind, [b' ', next, ..] if next.is_ascii());
        if names::is_bare_key(&line[place.clone()]) && may_tell(&line[to..]) && names::is_one_with(&line[..start]) {
            return true;
        }
        if !self.known.is(line, &place) && HARMLESS.iter().any(|name| *name.as_bytes() == line[place.clone()]) {
            return self.is_raw && !(start > 0 && line[start - 1] == b'"') && is_key(line, end);
        }
        // `\u000aname`: the start of the name is not visible.
        let is_escaped = self.is_raw && start > 0 && line[start - 1] == b'\\';
        is_escaped || self.known.name(line, place).is_some() || self.is_raw && is_key(line, end)
    }

    /// Returns whether this URL contains an `@`.
    fn address(&mut self, from: usize) -> bool {
        let line = self.line;
        let next = |known: Option<usize>, found: &dyn Fn(&[u8]) -> Option<usize>| match known.filter(|known| *known >= from) {
            Some(known) => known,
            None => found(&line[from..]).map_or(line.len(), |at| from + at),
        };
        let at = next(self.next_at, &|rest| memchr::memchr(b'@', rest));
        self.next_at = Some(at);
        if at == line.len() || at - from >= FAR {
            return false;
        }
        let end = next(self.next_end, &|rest| rest.iter().position(|byte| ends_address(*byte)));
        self.next_end = Some(end);
        // An escape may be a letter.
        at < end || self.is_raw && matches!(line[end..], [b'\\', b'u' | b'x' | b'/', ..])
    }
}

/// Returns whether a word that ends here is part of a key that names a secret as a whole (`api key`).
fn is_key(line: &[u8], end: usize) -> bool {
    let behind = &line[end..line.len().min(end + names::LONGEST)];
    let Some(close) = memchr::memchr(b'"', behind) else { return false };
    let before = &line[end.saturating_sub(names::LONGEST)..end];
    let is_followed = line[end + close + 1..].iter().take(FAR).find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
    let open = memchr::memrchr(b'"', before).filter(|_| is_followed);
    let key = open.map(|open| &line[end - before.len() + open + 1..end + close]);
    // The character behind an escape is not known here.
    let is_one = |key: &str| key.contains('\\') || names::name(key).is_some();
    key.is_some_and(|key| std::str::from_utf8(key).is_ok_and(is_one))
}

pub(super) fn ends_address(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\')
}

/// Returns whether an escape could be a character of something that is searched for, or begin a colour. Line ends, quotes, backslashes and
/// non-ASCII characters are not.
fn hides_letter(escape: &[u8]) -> bool {
    let digits = match escape[1] {
        b'u' => escape.get(2..6),
        b'x' => escape.get(2..4),
        _ => None,
    };
    let value =
        digits.and_then(|digits| std::str::from_utf8(digits).ok()).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    value.is_some_and(|value| (0x20..0x80).contains(&value) || value == 0x1b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_names_are_no_names_of_secrets() {
        for name in HARMLESS {
            assert!(names::name(name).is_none(), "{name}");
        }
    }
}
