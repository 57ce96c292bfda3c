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
/// How many positions are checked between two branches, and how many of them are looked at again if one passes.
const STEP: usize = 16;
const QUARTER: usize = STEP / 4;
/// The group of escapes that can hide a letter.
const ESCAPES: usize = 63;
/// The group of lists of strings. The groups before it are for announcements.
const LISTS: usize = 62;

/// Everything that is searched for, as tables.
#[derive(Debug)]
pub(super) struct Sieve {
    tables: Box<[[u64; 256]; WINDOW]>,
    needles: Vec<Needle>,
    /// For each hash of a window in the tables, the first announcement that has it.
    first: Vec<u32>,
    /// Whether a line of JSON may spell something that is searched for in a way that the tables do not have.
    pub(super) is_blind: bool,
}

/// An announcement, and the offset of the part of it that is in the tables.
#[derive(Debug)]
struct Needle {
    text: Box<[u8]>,
    offset: usize,
    announced: Announced,
    /// That part as a number, as far as it is in the text.
    window: u32,
    mask: u32,
    /// The next announcement whose window has the same hash.
    next: u32,
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

/// The bytes that may stand at each place of a window.
type Sets = [Vec<u8>; WINDOW];

impl Sieve {
    pub(super) fn new(found: &[(String, Announced)]) -> Self {
        let (tables, needles, first) = (Box::new([[0; 256]; WINDOW]), Vec::new(), vec![u32::MAX; HASHES]);
        let mut sieve = Self { tables, needles, first, is_blind: false };
        let mut needles: Vec<(f32, Sets, Needle)> =
            found.iter().filter_map(|(text, announced)| sieve.needle(text.as_bytes(), *announced)).collect();
        // What passes most often is placed first, so that it has a group of its own.
        needles.sort_by(|(one, ..), (other, ..)| other.total_cmp(one));
        let mut odds_of_groups = [[0.0; WINDOW]; LISTS];
        for (number, (_, sets, needle)) in (0..).zip(needles) {
            let group = sieve.place(&sets, &mut odds_of_groups);
            sieve.allow(group, sets.each_ref().map(Vec::as_slice));
            let next = std::mem::replace(&mut sieve.first[hashed(needle.window)], number);
            sieve.needles.push(Needle { next, ..needle });
        }
        let any: Vec<u8> = (0..=255).collect();
        sieve.allow(ESCAPES, [b"\\", b"ux", b"01234567", &any]);
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

    /// Returns an announcement, the window of it that will be in the tables, and how often that passes.
    fn needle(&mut self, text: &[u8], announced: Announced) -> Option<(f32, Sets, Needle)> {
        let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'\'') || *byte == b' ';
        let is_loose = matches!(announced, Announced::Value) && !text.iter().all(is_plain);
        let mut offset = 0;
        let sets: Sets = if text.len() < WINDOW {
            // The window includes what follows.
            let follows = follows(announced);
            std::array::from_fn(|at| text.get(at).map_or_else(|| follows.clone(), |byte| vec![*byte]))
        } else {
            let is_spelt = |window: &[u8]| !window.iter().all(is_plain);
            // Take the rarest window, and the first of those.
            let of_window = |window: &[u8]| window.iter().map(|byte| odds([byte])).product::<f32>();
            let order = |one: &[u8], other: &[u8]| {
                is_spelt(one).cmp(&is_spelt(other)).then_with(|| of_window(one).total_cmp(&of_window(other)))
            };
            let (at, window) = text.windows(WINDOW).enumerate().min_by(|(_, one), (_, other)| order(one, other))?;
            self.is_blind |= is_spelt(window);
            offset = at;
            std::array::from_fn(|at| vec![window[at]])
        };
        let window = number(&text[offset..]);
        let mask = number(&[u8::MAX; WINDOW][..text.len().min(WINDOW)]);
        let passes = sets.iter().map(odds).product();
        Some((passes, sets, Needle { text: text.into(), offset, announced, window, mask, next: u32::MAX, is_loose }))
    }

    /// Returns the group that lets through the least more with this window, and adds it to the odds of that group.
    fn place(&self, sets: &Sets, odds_of_groups: &mut [[f32; WINDOW]; LISTS]) -> usize {
        let with = |group: usize, before: &[f32; WINDOW]| -> [f32; WINDOW] {
            std::array::from_fn(|at| {
                let new = sets[at].iter().filter(|byte| self.tables[at][usize::from(**byte)] >> group & 1 == 0);
                before[at] + odds(new)
            })
        };
        let grown = odds_of_groups.iter().enumerate().map(|(group, before)| {
            let after = with(group, before);
            (group, after, after.iter().product::<f32>() - before.iter().product::<f32>())
        });
        let (group, after, _) = grown.min_by(|(.., one), (.., other)| one.total_cmp(other)).unwrap_or_default();
        odds_of_groups[group] = after;
        group
    }

    /// Calls `check` with everything that passes from here on, in order, until it returns true. Returns whether it did.
    pub(super) fn any(&self, text: &[u8], from: usize, look: Look, mut check: impl FnMut(Passed) -> bool) -> bool {
        let [one, two, three, four] = &*self.tables;
        let groups = |a: u8, b: u8, c: u8, d: u8| {
            one[usize::from(a)] & two[usize::from(b)] & three[usize::from(c)] & four[usize::from(d)]
        };
        let mut at = from;
        while let Some(chunk) = text.get(at..).and_then(<[u8]>::first_chunk::<{ STEP + WINDOW - 1 }>) {
            let mut quarters = [0; STEP / QUARTER];
            for place in 0..STEP {
                quarters[place / QUARTER] |= groups(chunk[place], chunk[place + 1], chunk[place + 2], chunk[place + 3]);
            }
            if quarters.iter().fold(0, |all, quarter| all | quarter) != 0 {
                for place in (0..STEP).filter(|place| quarters[place / QUARTER] != 0) {
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

    fn passes(&self, groups: u64, text: &[u8], at: usize, look: Look, check: &mut impl FnMut(Passed) -> bool) -> bool {
        if groups >> LISTS != 0 && check(if groups >> ESCAPES != 0 { Passed::Escape(at) } else { Passed::List(at) }) {
            return true;
        }
        // Most of what the tables let through has no such window.
        let window = number(&text[at..]);
        [u32::MAX, 0xFF_FFFF, 0xFFFF].into_iter().any(|mask| {
            let mut next = self.first[hashed(window & mask)];
            while let Some(needle) = self.needles.get(next as usize) {
                next = needle.next;
                if needle.mask != mask || needle.window != window & mask {
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
            false
        })
    }
}

/// How many hashes windows have.
const HASHES: usize = 1 << 12;

/// Returns the hash of a window.
fn hashed(window: u32) -> usize {
    (window.wrapping_mul(0x9E37_79B1) >> 20) as usize
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

/// The bytes that occur most often in agents' output, the most frequent first.
const FREQUENT: &[u8] = b" et\"nsraoil:duc,_p\\mfh-.01()gyb{}4wk/`2vx=38|56>9;7S'&E[T<]RB";

/// Roughly how often each byte occurs there.
static ODDS: [f32; 256] = {
    let (mut odds, mut at, mut rank) = ([0.0008; 256], 0, 0.0);
    while at < FREQUENT.len() {
        odds[FREQUENT[at] as usize] = 0.12 / (1.0 + 0.3 * rank + 0.01 * rank * rank);
        (at, rank) = (at + 1, rank + 1.0);
    }
    odds
};

/// Returns how often one of these bytes occurs.
fn odds<'b>(bytes: impl IntoIterator<Item = &'b u8>) -> f32 {
    bytes.into_iter().map(|byte| ODDS[usize::from(*byte)]).sum()
}

/// Returns a word in lower case, in CAPITALS and Capitalised.
pub(super) fn ways(word: &str) -> [String; 3] {
    [word.to_owned(), word.to_ascii_uppercase(), word[..1].to_ascii_uppercase() + &word[1..]]
}

/// Returns every keyword in each of those spellings.
pub(super) fn keywords() -> impl Iterator<Item = String> {
    KEYWORDS.iter().flat_map(|word| ways(word))
}
