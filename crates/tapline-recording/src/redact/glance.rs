//! A first look at a raw line, before it is decoded. Most lines cannot hold a secret and need no second look. It may
//! say yes too often, but never no if there is a secret: an escape that could hide a letter always means yes.

use super::announced::Announced;
use super::class::{BASE64, BEARER};
use super::names::{self, LastName, name_around};
use super::pairs;
use super::programs::{PASSWORDS, Programs, USERS};
use super::rules::Rules;
use super::sieve::{Look, Passed};
use super::table::Part;

/// What a private key is called in its first and last lines.
pub(super) const KEYS: &[&str] = &["PRIVATE KEY", "OpenVPN Static key", "NKEY SEED"];

/// How far from an announcement it looks.
const FAR: usize = 512;

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
    // An escape at the end of the line is too short for the sieve.
    let ends_in_escape =
        line.ends_with(b"\\/") || line.get(line.len().saturating_sub(3)..).is_some_and(|end| end.starts_with(b"\\/"));
    // A line that is no JSON may have colours as they are.
    let is_coloured = line.first() != Some(&b'{') && memchr::memchr(0x1b, line).is_some();
    rules.is_blind() || ends_in_escape || is_coloured || Glance::new(line, true).may_hold(rules)
}

/// Returns whether a text may hold a secret. The text has no escapes, or they are checked elsewhere.
pub(super) fn may_hold_as_it_is(rules: &Rules, text: &[u8]) -> bool {
    rules.is_blind() || Glance::new(text, false).may_hold(rules)
}

/// Returns whether something in the text from `from` on announces a secret, or begins to.
pub(super) fn announces(rules: &Rules, text: &str, from: usize) -> bool {
    let is_one = |passed: Passed| matches!(passed, Passed::Announced(..));
    rules.is_blind() || rules.sieve.any(text.as_bytes(), from, Look::Cut, is_one)
}

struct Glance<'l> {
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
    /// Where the last list of strings ends that was looked through.
    listed: usize,
}

impl<'l> Glance<'l> {
    fn new(line: &'l [u8], is_raw: bool) -> Self {
        let [users, passwords] = [USERS, PASSWORDS].map(Programs::new);
        let known = LastName::default();
        Self { line, is_raw, last_name: 0, known, users, passwords, next_at: None, next_end: None, listed: 0 }
    }

    fn may_hold(&mut self, rules: &Rules) -> bool {
        let look = if self.is_raw { Look::Raw } else { Look::Whole };
        rules.sieve.any(self.line, 0, look, |passed| match passed {
            Passed::Escape(at) => self.is_raw && hides_letter(&self.line[at..]),
            Passed::List(at) => self.is_raw && at >= self.listed && self.list(at),
            Passed::Announced(announced, start, end) => self.announced(announced, start, end),
        })
    }

    fn announced(&mut self, announced: Announced, start: usize, end: usize) -> bool {
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
            Announced::Password => self.passwords.before(line, start).is_some(),
            Announced::Command(command) => {
                command.flags.iter().any(|(flag, _)| *flag == command.name.trim_end() || contains(behind, flag))
            }
            Announced::Jwk => matches!(before.last(), Some(b'"' | b'\'')),
            Announced::Piped => memchr::memchr(b'|', before).is_some(),
            Announced::Signature | Announced::Literal | Announced::PrivateLines | Announced::Hunk | Announced::Value => true,
        }
    }

    /// Returns whether two strings in a row in the list that begins here end like the lines of a key.
    fn list(&mut self, at: usize) -> bool {
        let line = self.line;
        let slashes = |from: usize| line[from..].iter().take_while(|byte| **byte == b'\\').count();
        let depth = slashes(at + 1);
        let (mut keys, mut next) = (0, at + 1);
        while slashes(next) == depth && line.get(next + depth) == Some(&b'"') {
            let start = next + depth + 1;
            let closes = |quote: &usize| {
                let before = line[start..*quote].iter().rev().take_while(|byte| **byte == b'\\').count();
                before == depth || depth == 0 && before % 2 == 0
            };
            let mut quotes = memchr::memchr_iter(b'"', &line[start..]).map(|quote| start + quote);
            let Some(end) = quotes.find(closes) else { break };
            let string = &line[start..end - depth];
            // A line may hold its end, too.
            let string = string.strip_suffix(b"n").filter(|string| string.ends_with(b"\\")).unwrap_or(string);
            let run =
                string.iter().rev().skip_while(|byte| **byte == b'\\').take(FAR).take_while(|byte| BASE64.has(**byte)).count();
            keys = if run >= 40 { keys + 1 } else { 0 };
            if keys == 2 {
                return true;
            }
            next = end + 1 + usize::from(line.get(end + 1) == Some(&b','));
            next += line[next.min(line.len())..].iter().take(8).take_while(|byte| **byte == b' ').count();
        }
        self.listed = next;
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
    escape[1] == b'/' || value.is_some_and(|value| (0x20..0x80).contains(&value) || value == 0x1b)
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
