//! A first pass over bytes that tells in about a nanosecond a byte where something that announces a secret may stand. Four
//! bytes at a time are looked up, each in its own table; a bit is one group of announcements. What passes is compared in full.

use super::announced::Announced;
use super::class::{ALNUM, Class};
use super::names::KEYWORDS;
use super::table::Part;

/// So many bytes of what is looked for are in the tables.
const WINDOW: usize = 4;
/// What is new in a text may be announced by so many bytes before it.
pub(super) const OVERLAP: usize = WINDOW - 1;
/// So many places are looked at between two branches.
const STEP: usize = 16;
/// The group of escapes that can hide a letter.
const ESCAPES: usize = 63;
/// Groups that are made from the front; those behind are for short announcements, one each while there are any.
const FIRST_SHORT: usize = 38;

/// What is looked for, as tables.
#[derive(Debug)]
pub(super) struct Sieve {
    tables: Box<[[u64; 256]; WINDOW]>,
    groups: Vec<Vec<Needle>>,
    /// Something is looked for that the tables cannot find.
    pub(super) is_blind: bool,
}

/// What is looked for, and how far into it the window is that the tables know.
#[derive(Debug)]
struct Needle {
    text: Box<[u8]>,
    offset: usize,
    announced: Announced,
    /// Most that share a group are told apart by the window, as a number.
    window: u32,
    mask: u32,
    /// In a line of JSON it may be written otherwise: the window alone must do.
    is_loose: bool,
}

/// What was found at a place.
pub(super) enum Passed {
    /// An escape.
    Escape(usize),
    /// An announcement, from here to there.
    Announced(Announced, usize, usize),
}

impl Sieve {
    pub(super) fn new(found: &[(String, Announced)]) -> Self {
        let groups = std::iter::repeat_with(Vec::new).take(64).collect();
        let mut sieve = Self { tables: Box::new([[0; 256]; WINDOW]), groups, is_blind: false };
        let mut short = FIRST_SHORT;
        for (text, announced) in found {
            sieve.add(text.as_bytes(), *announced, &mut short);
        }
        let any: Vec<u8> = (0..=255).collect();
        sieve.allow(ESCAPES, [b"\\", b"u/x", &any, &any]);
        sieve
    }

    fn allow(&mut self, group: usize, sets: [&[u8]; WINDOW]) {
        for (table, set) in self.tables.iter_mut().zip(sets) {
            for byte in set {
                table[usize::from(*byte)] |= 1 << group;
            }
        }
    }

    fn add(&mut self, text: &[u8], announced: Announced, short: &mut usize) {
        let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'\'') || *byte == b' ';
        let is_loose = matches!(announced, Announced::Value) && !text.iter().all(is_plain);
        let mut sets = [const { Vec::new() }; WINDOW];
        let mut offset = 0;
        let group = if text.len() < WINDOW {
            // What follows it is in the window as well.
            let follows = follows(announced);
            for (at, set) in sets.iter_mut().enumerate() {
                *set = text.get(at).map_or_else(|| follows.clone(), |byte| vec![*byte]);
            }
            // Those that only differ in their letters share a group.
            let same = |needle: &Needle| needle.text.len() == text.len() && needle.text[0].eq_ignore_ascii_case(&text[0]);
            let known = (FIRST_SHORT..*short).find(|group| self.groups[*group].iter().any(same));
            let group = known.unwrap_or((*short).min(ESCAPES - 1));
            *short = (*short).max(group + 1).min(ESCAPES);
            group
        } else {
            let windows = text.windows(WINDOW).enumerate().filter(|(_, window)| window.iter().all(is_plain));
            // The rarest, and of those the first.
            let Some((at, window)) = windows.min_by_key(|(_, window)| window.iter().map(|byte| commonness(*byte)).sum::<u32>())
            else {
                self.is_blind = true;
                return;
            };
            offset = at;
            for (set, byte) in sets.iter_mut().zip(window) {
                *set = vec![*byte];
            }
            match window[0] {
                byte @ b'a'..=b'z' => usize::from(byte - b'a') + 1,
                byte @ b'A'..=b'Z' => 27 + usize::from(byte % 8),
                byte => 35 + usize::from(byte % 3),
            }
        };
        self.allow(group, sets.each_ref().map(Vec::as_slice));
        let window = number(&text[offset..]);
        let mask = number(&[u8::MAX; WINDOW][..text.len().min(WINDOW)]);
        self.groups[group].push(Needle { text: text.into(), offset, announced, window, mask, is_loose });
    }

    /// Calls `check` with what passes from here on, in order, until it says yes; whether it did. Of what the end of the text
    /// may cut off the beginning is enough if `cut`.
    pub(super) fn any(&self, text: &[u8], from: usize, cut: bool, mut check: impl FnMut(Passed) -> bool) -> bool {
        let [one, two, three, four] = &*self.tables;
        let look = |a: u8, b: u8, c: u8, d: u8| {
            one[usize::from(a)] & two[usize::from(b)] & three[usize::from(c)] & four[usize::from(d)]
        };
        let mut at = from;
        while let Some(chunk) = text.get(at..).and_then(<[u8]>::first_chunk::<{ STEP + WINDOW - 1 }>) {
            let mut all = 0;
            for place in 0..STEP {
                all |= look(chunk[place], chunk[place + 1], chunk[place + 2], chunk[place + 3]);
            }
            if all != 0 {
                for place in 0..STEP {
                    let groups = look(chunk[place], chunk[place + 1], chunk[place + 2], chunk[place + 3]);
                    if groups != 0 && self.passes(groups, text, at + place, cut, &mut check) {
                        return true;
                    }
                }
            }
            at += STEP;
        }
        let rest = text.get(at..).unwrap_or_default().windows(WINDOW).enumerate();
        let found = rest.into_iter().any(|(place, window)| {
            let groups = look(window[0], window[1], window[2], window[3]);
            groups != 0 && self.passes(groups, text, at + place, cut, &mut check)
        });
        // What is shorter than a window may end the text.
        let mut ends = from.max((text.len() + 1).saturating_sub(WINDOW))..text.len().saturating_sub(1);
        found
            || cut
                && ends.any(|at| {
                    let third = text.get(at + 2).map_or(u64::MAX, |byte| three[usize::from(*byte)]);
                    let groups = one[usize::from(text[at])] & two[usize::from(text[at + 1])] & third;
                    groups != 0 && self.passes(groups, text, at, false, &mut check)
                })
    }

    fn passes(&self, mut groups: u64, text: &[u8], at: usize, cut: bool, check: &mut impl FnMut(Passed) -> bool) -> bool {
        let window = number(&text[at..]);
        while groups != 0 {
            let group = groups.trailing_zeros() as usize;
            groups &= groups - 1;
            if group == ESCAPES {
                if check(Passed::Escape(at)) {
                    return true;
                }
                continue;
            }
            for needle in &self.groups[group] {
                if window & needle.mask != needle.window {
                    continue;
                }
                let Some(start) = at.checked_sub(needle.offset) else { continue };
                let rest = &text[start..];
                let is_it = needle.is_loose || rest.starts_with(&needle.text) || cut && needle.text.starts_with(rest);
                let end = text.len().min(start + needle.text.len());
                if is_it && check(Passed::Announced(needle.announced, start, end)) {
                    return true;
                }
            }
        }
        false
    }
}

/// The first bytes as a number.
fn number(bytes: &[u8]) -> u32 {
    let mut window = [0; WINDOW];
    match bytes.first_chunk() {
        Some(whole) => window = *whole,
        None => window[..bytes.len()].copy_from_slice(bytes),
    }
    u32::from_le_bytes(window)
}

/// What can follow a short announcement.
fn follows(announced: Announced) -> Vec<u8> {
    let of = |class: Class| (0..=255).filter(|byte| class.has(*byte)).collect();
    match announced {
        Announced::Shape(shape) => match shape.body.first() {
            Some(Part::Of(class, _)) => of(*class),
            _ => (0..=255).collect(),
        },
        Announced::Name => (0..=255).filter(|byte| ALNUM.has(*byte) || b"_=:\"'` \t\\]><*\n\r".contains(byte)).collect(),
        _ => (0..=255).collect(),
    }
}

/// How often a byte stands in what agents write, roughly.
fn commonness(byte: u8) -> u32 {
    match byte {
        b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' | b' ' => 6,
        b'd' | b'l' | b'c' | b'u' | b'm' | b'p' | b'h' => 4,
        b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'"' | b':' => 3,
        b'.' | b'/' | b'=' => 2,
        _ => 1,
    }
}

/// The three ways a word is written.
pub(super) fn ways(word: &str) -> [String; 3] {
    [word.to_owned(), word.to_ascii_uppercase(), word[..1].to_ascii_uppercase() + &word[1..]]
}

/// Every word that names end with, in every way.
pub(super) fn keywords() -> impl Iterator<Item = String> {
    KEYWORDS.iter().flat_map(|word| ways(word))
}
