//! What is looked for, put together once: the table, the names, and what a user adds. Cheap to share.

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use regex_lite::Regex;
use std::ops::Range;

use super::class::ALNUM;
use super::names::KEYWORDS;
use super::table::{SHAPES, Shape};

/// What a piece of text announces.
#[derive(Clone, Copy, Debug)]
pub(super) enum Announced {
    /// A secret of this shape.
    Shape(&'static Shape),
    /// The last word of a name; its value may follow.
    Name,
    /// A private key.
    Key,
    /// An address; a password may be in it.
    Address,
    /// A token behind `Bearer`.
    Bearer,
    /// `-u USER:PASSWORD`
    User,
    /// A signature in an address.
    Signature,
    /// A value that is to be hidden wherever it stands.
    Value,
}

const PLACES: &[(&str, Announced)] = &[
    ("-----BEGIN", Announced::Key),
    ("://", Announced::Address),
    ("Bearer ", Announced::Bearer),
    ("bearer ", Announced::Bearer),
    ("BEARER ", Announced::Bearer),
    (" -u", Announced::User),
    (" --user", Announced::User),
    (" --proxy-user", Announced::User),
    ("sig=", Announced::Signature),
];

/// What is looked for.
#[derive(Debug)]
pub(super) struct Rules {
    automaton: Option<AhoCorasick>,
    announced: Vec<Announced>,
    /// What a secret can begin with, longest first.
    starts: Vec<String>,
    patterns: Vec<Regex>,
}

impl Rules {
    /// The table, and what a user adds.
    pub(super) fn new(patterns: Vec<Regex>, values: Vec<String>) -> Self {
        let mut found: Vec<(String, Announced)> = Vec::new();
        for shape in SHAPES {
            found.extend(shape.starts.iter().map(|start| ((*start).to_owned(), Announced::Shape(shape))));
        }
        found.extend(PLACES.iter().map(|(text, announced)| ((*text).to_owned(), *announced)));
        let first = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
        for word in KEYWORDS {
            let ways = [(*word).to_owned(), word.to_ascii_uppercase(), first(word)];
            found.extend(ways.map(|way| (way, Announced::Name)));
        }
        let begins = |announced: &Announced| matches!(announced, Announced::Shape(shape) if shape.before.is_none());
        let mut starts: Vec<String> = found.iter().filter(|(_, what)| begins(what)).map(|(text, _)| text.clone()).collect();
        starts.push("-----BEGIN".to_owned());
        starts.extend(values.iter().cloned());
        found.extend(values.into_iter().map(|value| (value, Announced::Value)));
        let (texts, announced): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let build = |kind| AhoCorasick::builder().match_kind(MatchKind::Standard).kind(Some(kind)).build(&texts);
        // A table of a few hundred short words always fits; values that are too long for one may not.
        let automaton = build(AhoCorasickKind::DFA).or_else(|_| build(AhoCorasickKind::NoncontiguousNFA)).ok();
        Self { automaton, announced, starts, patterns }
    }

    /// Everything in the text that announces a secret, in the order of its end.
    pub(super) fn announcements(&self, text: &str) -> impl Iterator<Item = (Announced, usize, usize)> {
        let found = self.automaton.iter().flat_map(move |automaton| automaton.find_overlapping_iter(text));
        let found = found.map(|found| (self.announced[found.pattern().as_usize()], found.start(), found.end()));
        // Whoever cannot look hides everything.
        found.chain(self.automaton.is_none().then_some((Announced::Value, 0, text.len())))
    }

    /// Where the text's end may be the beginning of a secret.
    pub(super) fn may_begin(&self, text: &str) -> usize {
        let bytes = text.as_bytes();
        let longest = |start: &String| {
            let start = start.as_bytes();
            let part = (1..start.len().min(bytes.len() + 1)).rev().find(|length| bytes.ends_with(&start[..*length]))?;
            let from = bytes.len() - part;
            // One letter within a word begins nothing that anybody would miss.
            let within = part < 3 && from > 0 && ALNUM.has(bytes[from - 1]);
            (!within).then_some(from)
        };
        let begun = self.starts.iter().filter_map(longest).min().unwrap_or(bytes.len());
        // What a user's pattern begins with is not known: the last word waits.
        let word = || bytes.len() - bytes.iter().rev().take(WORD).take_while(|byte| !byte.is_ascii_whitespace()).count();
        let from = if self.patterns.is_empty() { begun } else { begun.min(word()) };
        (from..=bytes.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(bytes.len())
    }

    /// What the user's patterns find: their first group, or all of it.
    pub(super) fn patterns(&self, text: &str, spans: &mut Vec<Range<usize>>) {
        for pattern in &self.patterns {
            let found = pattern.captures_iter(text).filter_map(|found| found.get(1).or_else(|| found.get(0)));
            spans.extend(found.map(|found| found.range()).filter(|range| !range.is_empty()));
        }
        if !self.patterns.is_empty() {
            super::peel::merge(spans);
        }
    }
}

/// A word is no longer.
const WORD: usize = 256;
