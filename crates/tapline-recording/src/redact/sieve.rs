//! Finds what announces a secret, in about a nanosecond per byte. It looks up four bytes at a time, each in its own
//! table; each bit is a group of announcements. What passes is then compared in full.

use super::announced::Announced;
use super::class::{ALNUM, Class};
use super::names::KEYWORDS;
use super::table::Part;

/// How many bytes of an announcement are in the tables.
const WINDOW: usize = 4;
/// How many bytes before new text an announcement in it may begin.
pub(super) const OVERLAP: usize = WINDOW - 1;
/// How many positions are checked between two branches.
const STEP: usize = 16;
/// The group of escapes that can hide a letter.
const ESCAPES: usize = 63;
/// The group of lists of strings.
const LISTS: usize = 62;
/// The first group for short announcements, which have one group each while there are any left. The groups before it
/// are for the others.
const FIRST_SHORT: usize = 38;

/// Everything that is searched for, as tables.
#[derive(Debug)]
pub(super) struct Sieve {
    tables: Box<[[u64; 256]; WINDOW]>,
    groups: Vec<Vec<Needle>>,
    /// The whole windows in the tables, hashed, one bit each. They rule out most of what the tables let through.
    windows: Vec<u64>,
    /// Whether a line of JSON may spell something that is searched for in a way that the tables do not have.
    pub(super) is_blind: bool,
}

/// An announcement, and the offset of the part of it that is in the tables.
#[derive(Debug)]
struct Needle {
    text: Box<[u8]>,
    offset: usize,
    announced: Announced,
    /// That part as a number, which distinguishes most announcements of a group.
    window: u32,
    mask: u32,
    /// Whether a line of JSON may spell it differently, so only the part in the tables is compared.
    is_loose: bool,
}

/// How exactly an announcement must stand there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// As a line of JSON may spell it.
    Raw,
    /// As it is.
    Whole,
    /// As it is, or cut off by the end of the text.
    Cut,
}

/// What was found at a position.
pub(super) enum Passed {
    /// An escape.
    Escape(usize),
    /// A list of strings.
    List(usize),
    /// An announcement, with its start and end.
    Announced(Announced, usize, usize),
}

impl Sieve {
    pub(super) fn new(found: &[(String, Announced)]) -> Self {
        let groups = std::iter::repeat_with(Vec::new).take(64).collect();
        let mut sieve = Self { tables: Box::new([[0; 256]; WINDOW]), groups, windows: vec![0; 1024], is_blind: false };
        let mut short = FIRST_SHORT;
        for (text, announced) in found {
            sieve.add(text.as_bytes(), *announced, &mut short);
        }
        let any: Vec<u8> = (0..=255).collect();
        sieve.allow(ESCAPES, [b"\\", b"u/x", &any, &any]);
        sieve.allow(LISTS, [b"[", b"\"\\", &any, &any]);
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
            // The window includes what follows.
            let follows = follows(announced);
            for (at, set) in sets.iter_mut().enumerate() {
                *set = text.get(at).map_or_else(|| follows.clone(), |byte| vec![*byte]);
            }
            // Announcements that differ only in case share a group.
            let same = |needle: &Needle| needle.text.len() == text.len() && needle.text[0].eq_ignore_ascii_case(&text[0]);
            let known = (FIRST_SHORT..*short).find(|group| self.groups[*group].iter().any(same));
            let group = known.unwrap_or((*short).min(LISTS - 1));
            *short = (*short).max(group + 1).min(LISTS);
            group
        } else {
            let is_spelt = |window: &[u8]| !window.iter().all(is_plain);
            // Take the rarest window, and the first of those.
            let rank = |window: &[u8]| (is_spelt(window), window.iter().map(|byte| commonness(*byte)).sum::<u32>());
            let Some((at, window)) = text.windows(WINDOW).enumerate().min_by_key(|(_, window)| rank(window)) else { return };
            self.is_blind |= is_spelt(window);
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
        if text.len() >= WINDOW {
            let (word, bit) = hashed(window);
            self.windows[word] |= bit;
        }
        self.groups[group].push(Needle { text: text.into(), offset, announced, window, mask, is_loose });
    }

    /// Calls `check` with everything that passes from here on, in order, until it returns true. Returns whether it did.
    pub(super) fn any(&self, text: &[u8], from: usize, look: Look, mut check: impl FnMut(Passed) -> bool) -> bool {
        let [one, two, three, four] = &*self.tables;
        let groups = |a: u8, b: u8, c: u8, d: u8| {
            one[usize::from(a)] & two[usize::from(b)] & three[usize::from(c)] & four[usize::from(d)]
        };
        let mut at = from;
        while let Some(chunk) = text.get(at..).and_then(<[u8]>::first_chunk::<{ STEP + WINDOW - 1 }>) {
            let mut all = 0;
            for place in 0..STEP {
                all |= groups(chunk[place], chunk[place + 1], chunk[place + 2], chunk[place + 3]);
            }
            if all != 0 {
                for place in 0..STEP {
                    let groups = groups(chunk[place], chunk[place + 1], chunk[place + 2], chunk[place + 3]);
                    if groups != 0 && self.passes(groups, text, at + place, look, &mut check) {
                        return true;
                    }
                }
            }
            at += STEP;
        }
        let rest = text.get(at..).unwrap_or_default().windows(WINDOW).enumerate();
        let found = rest.into_iter().any(|(place, window)| {
            let groups = groups(window[0], window[1], window[2], window[3]);
            groups != 0 && self.passes(groups, text, at + place, look, &mut check)
        });
        // An announcement shorter than a window may end the text.
        let mut ends = from.max((text.len() + 1).saturating_sub(WINDOW))..text.len().saturating_sub(1);
        found
            || ends.any(|at| {
                let third = text.get(at + 2).map_or(u64::MAX, |byte| three[usize::from(*byte)]);
                let groups = one[usize::from(text[at])] & two[usize::from(text[at + 1])] & third;
                groups != 0 && self.passes(groups, text, at, Look::Whole, &mut check)
            })
    }

    fn passes(&self, mut groups: u64, text: &[u8], at: usize, look: Look, check: &mut impl FnMut(Passed) -> bool) -> bool {
        let window = number(&text[at..]);
        let (word, bit) = hashed(window);
        // Only the groups of short announcements, and those of no announcement, have other windows.
        if self.windows[word] & bit == 0 {
            groups &= !0 << FIRST_SHORT;
        }
        while groups != 0 {
            let group = groups.trailing_zeros() as usize;
            groups &= groups - 1;
            if group == ESCAPES {
                if check(Passed::Escape(at)) {
                    return true;
                }
                continue;
            }
            if group == LISTS {
                if check(Passed::List(at)) {
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
                let is_it = rest.starts_with(&needle.text)
                    || look == Look::Raw && needle.is_loose
                    || look == Look::Cut && needle.text.starts_with(rest);
                let end = text.len().min(start + needle.text.len());
                if is_it && check(Passed::Announced(needle.announced, start, end)) {
                    return true;
                }
            }
        }
        false
    }
}

/// Returns the place of a window among those that are known.
fn hashed(window: u32) -> (usize, u64) {
    let hash = (window.wrapping_mul(0x9E37_79B1) >> 16) as usize;
    (hash / 64, 1 << (hash % 64))
}

/// Returns the first bytes as a number.
fn number(bytes: &[u8]) -> u32 {
    let mut window = [0; WINDOW];
    match bytes.first_chunk() {
        Some(whole) => window = *whole,
        None => window[..bytes.len()].copy_from_slice(bytes),
    }
    u32::from_le_bytes(window)
}

/// Returns the bytes that can follow a short announcement.
fn follows(announced: Announced) -> Vec<u8> {
    let of = |class: Class| (0..=255).filter(|byte| class.has(*byte)).collect();
    match announced {
        Announced::Shape(shape) => match shape.body.first() {
            Some(Part::Of(class, _)) => of(*class),
            _ => (0..=255).collect(),
        },
        Announced::Name => (0..=255).filter(|byte| ALNUM.has(*byte) || b"_=:\"'` \t\\]><*\n\r,(-".contains(byte)).collect(),
        _ => (0..=255).collect(),
    }
}

/// Returns roughly how often a byte occurs in agents' output.
fn commonness(byte: u8) -> u32 {
    match byte {
        b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' | b' ' => 6,
        b'd' | b'l' | b'c' | b'u' | b'm' | b'p' | b'h' => 4,
        b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'"' | b':' => 3,
        b'.' | b'/' | b'=' => 2,
        _ => 1,
    }
}

/// Returns a word in lower case, in CAPITALS and Capitalised.
pub(super) fn ways(word: &str) -> [String; 3] {
    [word.to_owned(), word.to_ascii_uppercase(), word[..1].to_ascii_uppercase() + &word[1..]]
}

/// Returns every keyword in each of those spellings.
pub(super) fn keywords() -> impl Iterator<Item = String> {
    KEYWORDS.iter().flat_map(|word| ways(word))
}
