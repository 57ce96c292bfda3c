//! Finds the secrets in one text. The sieve finds everything that can announce a secret, and each finding is then
//! checked exactly. Every check looks a bounded way ahead or remembers how far a run of characters extends, so the time
//! is linear in any text.

use std::ops::Range;

use super::announced::Announced;
use super::class::{ALNUM, Class, TOKEN};
use super::glance::{Glance, announces};
use super::looks::HEAD;
use super::names::LastName;
use super::programs::{LITERALS, PASSWORDS, Programs, USERS};
use super::rules::Rules;
use super::spans::merge;
use super::table::{Part, Shape, Stands};

/// What was found in a text.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The positions of the secrets, in order and not overlapping.
    pub(super) spans: Vec<Range<usize>>,
    /// The position from which more text could change the decisions.
    pub(super) undecided: usize,
    /// Whether nothing announced a secret.
    pub(super) is_quiet: bool,
}

/// The most sets of characters. The last run of each is remembered.
const REMEMBERED: usize = 24;

pub(super) struct Scan<'a> {
    pub(super) text: &'a str,
    pub(super) bytes: &'a [u8],
    pub(super) spans: Vec<Range<usize>>,
    /// Everything before this position is decided.
    pub(super) covered: usize,
    /// Whether a check reached the end of the text, so more text may change its result.
    pub(super) touched: bool,
    /// Where the name that was checked last ends.
    pub(super) last_name: usize,
    /// What that name says about its value.
    pub(super) known: LastName,
    /// The last program before a `-u`.
    pub(super) users: Programs,
    /// The last program before a `-p`.
    pub(super) passwords: Programs,
    /// The last command before a `--from-literal`.
    pub(super) literals: Programs,
    /// Where the last `kind` of a manifest ends.
    pub(super) last_manifest: usize,
    /// Where the last `-----END` is.
    pub(super) last_key_end: usize,
    /// Where the last key in JSON ends.
    pub(super) last_jwk: usize,
    /// Whether text before the last finding was hidden.
    pub(super) is_unordered: bool,
    /// The next `-----END`: where the search began, and where it was found.
    pub(super) next_end: Option<(usize, Option<usize>)>,
    /// The header that was checked last.
    pub(super) last_header: Option<(usize, usize)>,
    /// For some kinds of positions: where the search began, and the next one found.
    pub(super) next_place: [(usize, usize); 3],
    runs: [(u16, usize, usize); REMEMBERED],
    more: bool,
    undecided: usize,
}

impl<'a> Scan<'a> {
    fn new(text: &'a str, more: bool) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            spans: Vec::new(),
            covered: 0,
            touched: false,
            last_name: 0,
            known: LastName::default(),
            users: Programs::new(USERS),
            passwords: Programs::new(PASSWORDS),
            literals: Programs::new(LITERALS),
            last_manifest: 0,
            last_jwk: 0,
            last_key_end: 0,
            is_unordered: false,
            next_end: None,
            last_header: None,
            next_place: [(1, 0); 3],
            runs: [(0, 0, 0); REMEMBERED],
            more,
            undecided: text.len(),
        }
    }

    /// Returns where the run of such characters at this position ends.
    pub(super) fn run(&mut self, class: Class, from: usize) -> usize {
        if let Some(run) = self.runs.iter().find(|(of, start, end)| *of == class.0 && (*start..*end).contains(&from)) {
            self.touched |= run.2 == self.bytes.len();
            return run.2;
        }
        let rest = &self.bytes[from..];
        let end = from + rest.iter().position(|byte| !class.has(*byte)).unwrap_or(rest.len());
        // Keep one run per set: short runs of other sets must not displace a long one.
        let place = self.runs.iter().position(|(of, ..)| *of == class.0 || *of == 0).unwrap_or(0);
        self.runs[place] = (class.0, from, end);
        self.touched |= end == self.bytes.len();
        end
    }

    /// Returns the byte here, and notes if the text ends before it.
    pub(super) fn byte(&mut self, at: usize) -> Option<u8> {
        let byte = self.bytes.get(at).copied();
        self.touched |= byte.is_none();
        byte
    }

    /// Returns whether a word may begin here. One begins after an escape (`\n`, `\u000a`).
    pub(super) fn is_word_start(&self, at: usize) -> bool {
        let before = &self.bytes[..at];
        match before {
            [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f' | b'v' | b'0']
            | [.., b'\\', b'u', _, _, _, _]
            | [.., b'\\', b'x', _, _]
            | [] => true,
            [.., last] => !ALNUM.has(*last),
        }
    }

    /// Hides a secret.
    pub(super) fn hide(&mut self, span: Range<usize>) {
        let start = span.start.max(self.covered);
        if start < span.end {
            self.spans.push(start..span.end);
            self.covered = span.end;
        }
    }

    /// Hides a secret that may stand before others.
    pub(super) fn hide_anywhere(&mut self, span: Range<usize>) {
        self.is_unordered = true;
        self.spans.push(span);
    }

    /// Checks an announcement. If the check reaches the end of the text, more text may change its result.
    fn check(&mut self, from: usize, check: impl FnOnce(&mut Self) -> usize) {
        self.touched = false;
        let from = from.min(check(self));
        if self.touched && self.more {
            self.undecided = self.undecided.min(from);
        }
    }

    fn shape(&mut self, shape: &Shape, start: usize, end: usize) -> usize {
        if let Some(span) = self.matches(shape, start, end) {
            self.hide(span);
        }
        let (class, _, most) = shape.before.unwrap_or((ALNUM, 0, 0));
        start - self.bytes[..start].iter().rev().take(most).take_while(|byte| class.has(**byte)).count()
    }

    fn matches(&mut self, shape: &Shape, start: usize, end: usize) -> Option<Range<usize>> {
        let mut from = start;
        if let Some((class, least, most)) = shape.before {
            let behind = self.bytes[..start].iter().rev().take(most).take_while(|byte| class.has(**byte)).count();
            from = (least..=behind.min(most)).rev().map(|count| start - count).find(|from| self.is_word_start(*from))?;
        }
        let part_of_more = |byte: u8| matches!(byte, b'+' | b'/');
        if shape.stands != Stands::Anywhere && !self.is_word_start(from)
            || shape.stands == Stands::AsWord && from > 0 && part_of_more(self.bytes[from - 1])
            || shape.stands == Stands::Mixed && from > 0 && TOKEN.has(self.bytes[from - 1])
        {
            return None;
        }
        let mut at = end;
        for part in shape.body {
            match part {
                Part::Of(class, least) => {
                    let to = self.run(*class, at);
                    if to - at < *least {
                        return None;
                    }
                    at = to;
                }
                Part::Is(text) => {
                    let rest = &self.bytes[at..];
                    if !rest.starts_with(text.as_bytes()) {
                        self.touched |= text.as_bytes().starts_with(rest);
                        return None;
                    }
                    at += text.len();
                }
            }
        }
        let behind = self.bytes.get(at);
        if shape.stands == Stands::AsWord && behind.is_some_and(|byte| ALNUM.has(*byte) || part_of_more(*byte)) {
            return None;
        }
        // Enough of it to judge by.
        let rest = &self.bytes[end..at.min(end + HEAD)];
        let has = |is: fn(&u8) -> bool| rest.iter().any(is);
        let is_mix = || {
            let is_hex = rest.iter().all(u8::is_ascii_hexdigit);
            has(u8::is_ascii_digit) && (is_hex || has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase))
        };
        // `ghp_xxxxxxxx` shows what one looks like.
        let is_example = rest.len() > 8 && rest.iter().all(|byte| *byte == rest[0]);
        if is_example || shape.stands == Stands::Mixed && !is_mix() {
            return None;
        }
        // The full stop of a sentence is not part of the secret.
        while at > end && matches!(self.bytes[at - 1], b'.' | b'-') && !self.touched {
            at -= 1;
        }
        Some(from..at)
    }

    fn announced(&mut self, announced: Announced, start: usize, end: usize) {
        match announced {
            Announced::Shape(shape) => self.check(start, |scan| scan.shape(shape, start, end)),
            Announced::Value => self.hide(start..end),
            Announced::Name if end > self.last_name && end > self.covered => self.check(usize::MAX, |scan| scan.named(end)),
            Announced::ShortName if end > self.last_name && end > self.covered => {
                self.check(usize::MAX, |scan| scan.named(end - 1));
            }
            Announced::Name | Announced::ShortName | Announced::Hunk => {}
            Announced::Key => self.check(start, |scan| scan.private_key(start, end)),
            Announced::Address => self.check(end, |scan| scan.address(end)),
            Announced::Bearer => self.check(end, |scan| scan.bearer(start, end)),
            Announced::User => self.check(end, |scan| scan.user_and_password(start, end)),
            Announced::Password => self.check(end, |scan| scan.short_flag(start, end)),
            Announced::Command(command) => self.check(end, |scan| scan.command(command, end)),
            Announced::Literal => self.check(end, |scan| scan.literal(start, end)),
            Announced::KeyEnd => self.check(start, |scan| scan.key_end(start, end)),
            Announced::PrivateLines => self.check(start, |scan| scan.private_lines(start, end)),
            Announced::Jwk => self.check(start, |scan| scan.jwk(start)),
            Announced::Piped => self.check(end, |scan| scan.piped(start, end)),
            Announced::Signature => self.check(end, |scan| scan.signature(end)),
        }
    }
}

/// Finds the secrets in a text. `more` says whether text may follow.
pub(super) fn scan(rules: &Rules, text: &str, more: bool) -> Found {
    let mut found = Found { spans: Vec::new(), undecided: text.len(), is_quiet: !rules.is_blind() };
    if more {
        found.undecided = rules.may_begin(text);
        if !announces(rules, text, 0) {
            return found;
        }
    }
    let mut glance = Glance::new(text.as_bytes(), false);
    let mut scan = None;
    rules.announcements(text.as_bytes(), |announced, start, end| {
        if more || rules.is_blind() || glance.announced(announced, start, end) {
            scan.get_or_insert_with(|| Scan::new(text, more)).announced(announced, start, end);
        }
    });
    if let Some(scan) = scan {
        found.is_quiet = false;
        found.undecided = found.undecided.min(scan.undecided);
        found.spans = scan.spans;
        // A manifest may hide text before the last finding.
        if scan.is_unordered {
            merge(&mut found.spans);
        }
    }
    rules.patterns(text, &mut found.spans);
    found
}
