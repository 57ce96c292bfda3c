//! Everything that is searched for, built once: the table, the names, and what a user adds.

use regex_lite::Regex;
use std::collections::HashSet;
use std::ops::Range;

use super::announced::Announced;
use super::class::{ALNUM, DOTTED};
use super::programs::COMMANDS;
use super::sieve::{Look, Passed, Sieve, keywords};
use super::spans::merge;
use super::table::SHAPES;

const PLACES: &[(&str, Announced)] = &[
    ("-----BEGIN", Announced::Key),
    ("://", Announced::Address),
    ("Bearer ", Announced::Bearer),
    ("bearer ", Announced::Bearer),
    ("BEARER ", Announced::Bearer),
    (" -u", Announced::User),
    (" --user", Announced::User),
    (" --proxy-user", Announced::User),
    (" -p", Announced::Password),
    ("--from-literal", Announced::Literal),
    ("-----END", Announced::KeyEnd),
    ("---- BEGIN SSH2", Announced::Key),
    ("Private-Lines: ", Announced::PrivateLines),
    ("kty", Announced::Jwk),
    ("@@ -", Announced::Hunk),
    ("sudo -S", Announced::Piped),
    ("--password-stdin", Announced::Piped),
    ("chpasswd", Announced::Piped),
    ("\"-u", Announced::User),
    ("'-u", Announced::User),
    ("\"-p", Announced::Password),
    ("'-p", Announced::Password),
    ("kinit ", Announced::Piped),
    ("cryptsetup ", Announced::Piped),
    ("passwd --stdin", Announced::Piped),
    ("--with-token", Announced::Piped),
    ("secret generic", Announced::Piped),
    ("secret create", Announced::Piped),
    ("secret put", Announced::Piped),
    ("secret set", Announced::Piped),
    ("--passphrase-fd", Announced::Piped),
    ("?sig=", Announced::Signature),
    ("&sig=", Announced::Signature),
    (";sig=", Announced::Signature),
    ("Signature=", Announced::Signature),
    ("?key=", Announced::Signature),
    ("&key=", Announced::Signature),
    ("?code=", Announced::Signature),
    ("&code=", Announced::Signature),
    ("_PAT", Announced::Name),
    ("_PW", Announced::Name),
    ("pw:", Announced::ShortName),
    ("pw=", Announced::ShortName),
    ("pw\"", Announced::ShortName),
    ("pw\\", Announced::ShortName),
    ("PW:", Announced::ShortName),
    ("PW=", Announced::ShortName),
    ("psk=", Announced::ShortName),
];

/// Everything that is searched for.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) sieve: Sieve,
    /// The starts of secrets, to find one that is only begun.
    begun: Begun,
    patterns: Vec<Regex>,
    /// Whether a user has added patterns or values.
    pub(super) has_own: bool,
}

impl Rules {
    /// Builds the rules from the table and what a user adds.
    pub(super) fn new(patterns: Vec<Regex>, values: Vec<String>) -> Self {
        let has_own = !patterns.is_empty() || !values.is_empty();
        let mut found: Vec<(String, Announced)> = Vec::new();
        for shape in SHAPES {
            found.extend(shape.starts.iter().map(|start| ((*start).to_owned(), Announced::Shape(shape))));
        }
        found.extend(PLACES.iter().map(|(text, announced)| ((*text).to_owned(), *announced)));
        found.extend(COMMANDS.iter().map(|command| (command.name.to_owned(), Announced::Command(command))));
        found.extend(keywords().map(|way| (way, Announced::Name)));
        let begins = |announced: &Announced| matches!(announced, Announced::Shape(shape) if shape.before.is_none());
        let mut starts: Vec<String> = found.iter().filter(|(_, what)| begins(what)).map(|(text, _)| text.clone()).collect();
        starts.push("-----BEGIN".to_owned());
        starts.extend(values.iter().cloned());
        found.extend(values.into_iter().map(|value| (value, Announced::Value)));
        let sieve = Sieve::new(&found);
        Self { sieve, begun: Begun::new(&starts), patterns, has_own }
    }

    /// Calls `each` with everything in the text that announces a secret, ordered by its end.
    pub(super) fn announcements(&self, text: &[u8], mut each: impl FnMut(Announced, usize, usize)) {
        // What overlaps is found in the order of some part of it. All that comes later ends behind `to`.
        let mut held: Vec<(usize, usize, Announced)> = Vec::new();
        let mut pass = |held: &mut Vec<(usize, usize, Announced)>, to: usize| {
            let first = |held: &[(usize, usize, Announced)]| {
                let ended = held.iter().enumerate().filter(|(_, (end, ..))| *end <= to);
                ended.min_by_key(|(_, (end, start, _))| (*end, *start)).map(|(at, _)| at)
            };
            while let Some(at) = first(held) {
                let (end, start, announced) = held.remove(at);
                each(announced, start, end);
            }
        };
        self.sieve.any(text, 0, Look::Whole, |passed| {
            if let Passed::Announced(announced, start, end) = passed {
                pass(&mut held, start);
                held.push((end, start, announced));
            }
            false
        });
        pass(&mut held, usize::MAX);
    }

    /// Returns whether only the full search can find all secrets: a user's patterns may match anything.
    pub(super) fn is_blind(&self) -> bool {
        !self.patterns.is_empty() || self.sieve.is_blind
    }

    /// Returns the position at the end of the text where a secret may begin.
    pub(super) fn may_begin(&self, text: &str) -> usize {
        let bytes = text.as_bytes();
        let begun = self.begun.at_end(bytes).unwrap_or(bytes.len()).min(first_half(bytes));
        // How a match of a user's pattern begins is not known, so the last word waits.
        let word = || bytes.len() - bytes.iter().rev().take(WORD).take_while(|byte| !byte.is_ascii_whitespace()).count();
        let from = if self.patterns.is_empty() { begun } else { begun.min(word()) };
        (from..=bytes.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(bytes.len())
    }

    /// Finds matches of the user's patterns: their first group, or the whole match.
    pub(super) fn patterns(&self, text: &str, spans: &mut Vec<Range<usize>>) {
        for pattern in &self.patterns {
            let found = pattern.captures_iter(text).filter_map(|found| found.get(1).or_else(|| found.get(0)));
            spans.extend(found.map(|found| found.range()).filter(|range| !range.is_empty()));
        }
        if !self.patterns.is_empty() {
            merge(spans);
        }
    }
}

/// Returns where the first half of a secret that is recognised by its middle (`…-us1`) may begin at the end of a text.
/// It is longer than a word, and not longer than such a half.
fn first_half(bytes: &[u8]) -> usize {
    let length = bytes.iter().rev().take(HALF.end).take_while(|byte| DOTTED.has(**byte)).count();
    let half = &bytes[bytes.len() - length..];
    let is_one = HALF.contains(&length) && half.iter().any(u8::is_ascii_digit) && half.iter().any(u8::is_ascii_alphabetic);
    if is_one { bytes.len() - length } else { bytes.len() }
}

/// The length of the first half of such a secret.
const HALF: Range<usize> = 8..60;

/// The longest word.
const WORD: usize = 256;

/// All prefixes of the texts that secrets start with, to tell whether a text ends with one.
#[derive(Debug)]
struct Begun {
    beginnings: HashSet<Vec<u8>>,
    longest: usize,
    /// The pairs of bytes that prefixes of a length begin with, one bit each. They rule out most texts.
    pairs: Vec<u64>,
    /// For each last byte, the lengths of the prefixes that end with it, one bit each. The last bit means any greater
    /// length.
    lengths: [u64; 256],
}

impl Begun {
    fn new(starts: &[String]) -> Self {
        let parts = |start: &String| (1..start.len()).map(|length| start.as_bytes()[..length].to_vec()).collect::<Vec<_>>();
        let beginnings: HashSet<Vec<u8>> = starts.iter().flat_map(parts).collect();
        let mut begun = Self { longest: 0, pairs: vec![0; 1024], lengths: [0; 256], beginnings: HashSet::new() };
        for part in &beginnings {
            begun.longest = begun.longest.max(part.len());
            begun.lengths[usize::from(part[part.len() - 1])] |= 1 << part.len().min(63);
            if let [one, other, ..] = part[..] {
                let pair = pair(one, other, part.len());
                begun.pairs[pair / 64] |= 1 << (pair % 64);
            }
        }
        Self { beginnings, ..begun }
    }

    /// Returns where the longest prefix at the end of the text begins.
    fn at_end(&self, bytes: &[u8]) -> Option<usize> {
        let lengths = self.lengths[usize::from(*bytes.last()?)];
        // Only a user's values are longer.
        let longest = if lengths >> 63 == 1 { self.longest } else { 63 - (lengths | 1).leading_zeros() as usize };
        let from = bytes.len().saturating_sub(longest);
        let may_be = |from: &usize| lengths >> (bytes.len() - from).min(63) & 1 == 1;
        (from..bytes.len()).filter(may_be).find(|from| match bytes[*from..] {
            [one, other, ref rest @ ..] => {
                let pair = pair(one, other, bytes.len() - from);
                // One or two letters inside a word are not enough for a prefix.
                let within = rest.is_empty() && *from > 0 && ALNUM.has(bytes[from - 1]);
                self.pairs[pair / 64] >> (pair % 64) & 1 == 1 && !within && self.beginnings.contains(&bytes[*from..])
            }
            [_] => !(*from > 0 && ALNUM.has(bytes[from - 1])),
            [] => false,
        })
    }
}

/// Returns the place of prefixes of a length that begin with these bytes.
fn pair(one: u8, other: u8, length: usize) -> usize {
    (usize::from(one) << 8 | usize::from(other)) ^ ((length * 0x9E5) & 0xFFFF)
}
