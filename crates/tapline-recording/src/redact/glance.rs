//! A first look at a line as it stands, not decoded: most lines hold nothing that could be a secret, and need no second. It may
//! say yes too often, never no where there is one: escapes that could hide a letter always say yes.

use super::class::BEARER;
use super::names;
use super::rules::{Announced, Rules};
use super::table::Part;
use super::values::name_around;

/// How far it looks from what announces a secret.
const FAR: usize = 512;

/// Whether an escape in it could hide a letter. Line ends, quotes and backslashes are no part of what is looked for.
pub(super) fn hides_letters(line: &[u8]) -> bool {
    memchr::memchr_iter(b'\\', line).any(|at| matches!(line.get(at + 1), Some(b'u' | b'/' | b'x')))
}

/// Whether there may be a secret in it.
pub(super) fn may_hold(rules: &Rules, line: &[u8]) -> bool {
    if rules.has_patterns() || hides_letters(line) {
        return true;
    }
    let mut last_name = 0;
    rules.announcements(line).any(|(announced, start, end)| {
        let behind = &line[end..line.len().min(end + FAR)];
        let before = &line[start.saturating_sub(FAR)..start];
        let contains = |text: &[u8], what: &str| memchr::memmem::find(text, what.as_bytes()).is_some();
        match announced {
            Announced::Shape(shape) => match shape.body.first() {
                Some(Part::Of(class, least)) => behind.len() >= *least && behind[..*least].iter().all(|byte| class.has(*byte)),
                _ => true,
            },
            Announced::Name if end <= last_name => false,
            Announced::Name => name_around(line, end).is_some_and(|name| {
                last_name = name.end;
                std::str::from_utf8(&line[name]).is_ok_and(|name| names::name(name).is_some())
            }),
            Announced::Key => contains(&behind[..behind.len().min(100)], "PRIVATE KEY"),
            Announced::Address => {
                let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\');
                behind.iter().take_while(|byte| !ends(byte)).any(|byte| *byte == b'@')
            }
            Announced::Bearer => behind.iter().take(8).filter(|byte| BEARER.has(**byte)).count() == 8,
            Announced::User => ["curl", "wget", "http"].iter().any(|program| contains(before, program)),
            Announced::Signature => matches!(before.last(), Some(b'?' | b'&' | b';')),
            Announced::Value => true,
        }
    })
}
