//! Sets of characters that secrets consist of, as bits, so a run of any set is one loop over a table.

use std::fmt::Write as _;

/// A set of ASCII characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(pub(super) u16);

pub(super) const DIGIT: Class = Class(1);
const LOWER_HEX: u16 = 2;
const UPPER_HEX: u16 = 4;
const LOWER_REST: u16 = 8;
const UPPER_REST: u16 = 16;
const UNDERSCORE: u16 = 32;
const DOT: u16 = 128;
const PLUS_SLASH: u16 = 256;
const TILDE: u16 = 1024;
pub(super) const LOWER: Class = Class(LOWER_HEX | LOWER_REST);
pub(super) const UPPER: Class = Class(UPPER_HEX | UPPER_REST);
pub(super) const HEX: Class = Class(DIGIT.0 | LOWER_HEX | UPPER_HEX);
pub(super) const ALNUM: Class = Class(DIGIT.0 | LOWER.0 | UPPER.0);
pub(super) const WORD: Class = Class(ALNUM.0 | UNDERSCORE);
pub(super) const TOKEN: Class = Class(WORD.0 | Class::DASH);
pub(super) const DOTTED: Class = Class(TOKEN.0 | DOT | TILDE);
pub(super) const BASE64: Class = Class(ALNUM.0 | PLUS_SLASH | Class::EQUALS);
/// The characters of a token after `Bearer`.
pub(super) const BEARER: Class = Class(DOTTED.0 | BASE64.0);

impl Class {
    pub(super) const DASH: u16 = 64;
    pub(super) const EQUALS: u16 = 512;

    #[inline]
    pub(super) fn has(self, byte: u8) -> bool {
        SETS[byte as usize] & self.0 != 0
    }

    /// Writes the set as people do: `A-Z a-z 0-9 _`.
    pub(super) fn words(self) -> String {
        let has = |bits: u16| self.0 & bits == bits;
        let mut text = String::new();
        let sets = [
            (has(UPPER.0), "A-Z"),
            (has(UPPER_HEX) && !has(UPPER.0), "A-F"),
            (has(LOWER.0), "a-z"),
            (has(LOWER_HEX) && !has(LOWER.0), "a-f"),
            (has(DIGIT.0), "0-9"),
            (has(UNDERSCORE), "_"),
            (has(Self::DASH), "-"),
            (has(DOT), "."),
            (has(TILDE), "~"),
            (has(PLUS_SLASH), "+ /"),
            (has(Self::EQUALS), "="),
        ];
        for (_, word) in sets.iter().filter(|(has, _)| *has) {
            let _ = write!(text, "{}{word}", if text.is_empty() { "" } else { " " });
        }
        text
    }
}

/// The sets that each byte belongs to.
static SETS: [u16; 256] = sets();

const fn sets() -> [u16; 256] {
    let mut sets = [0; 256];
    let mut byte: u8 = 0;
    loop {
        sets[byte as usize] = match byte {
            b'0'..=b'9' => DIGIT.0,
            b'a'..=b'f' => LOWER_HEX,
            b'g'..=b'z' => LOWER_REST,
            b'A'..=b'F' => UPPER_HEX,
            b'G'..=b'Z' => UPPER_REST,
            b'_' => UNDERSCORE,
            b'-' => Class::DASH,
            b'.' => DOT,
            b'+' | b'/' => PLUS_SLASH,
            b'=' => Class::EQUALS,
            b'~' => TILDE,
            _ => 0,
        };
        if byte == u8::MAX {
            return sets;
        }
        byte += 1;
    }
}
