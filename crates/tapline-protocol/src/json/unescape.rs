//! Resolves the escapes of a checked string. Escapes are close together in code and in logs, so a long string is copied 64 bytes at a
//! time, whatever is in them: what is behind an escape is written over.

use super::block::{BLOCK, backslashes};

/// A string of this length is resolved in pieces.
const LONG: usize = 4 * BLOCK;
/// The room for a piece. It is small enough for the fastest cache.
const PIECE: usize = 32 * BLOCK;

/// Resolves the escapes of a string, without its quotes. Lone surrogates become U+FFFD.
pub(super) fn unescape(body: &str) -> String {
    let mut out = String::with_capacity(body.len());
    let rest = if body.len() < LONG { body } else { unescape_pieces(body, &mut out) };
    unescape_to(rest, &mut out);
    out
}

/// Resolves the escapes one by one.
fn unescape_to(body: &str, out: &mut String) {
    let mut rest = body;
    while let Some(at) = next_escape(rest.as_bytes()) {
        out.push_str(&rest[..at]);
        let code = rest.as_bytes()[at + 1];
        rest = &rest[at + 2..];
        if let Some(plain) = stands_for(code) {
            out.push(char::from(plain));
        } else {
            let (unicode, behind) = unicode(rest);
            out.push(unicode);
            rest = behind;
        }
    }
    out.push_str(rest);
}

/// Resolves most of a long string, and returns the rest of it.
fn unescape_pieces<'b>(body: &'b str, out: &mut String) -> &'b str {
    let mut piece = [0; PIECE];
    let mut rest = body;
    while rest.len() >= 2 * BLOCK {
        let (read, written) = unescape_piece(rest, &mut piece);
        // It is valid, but only what was checked is a text.
        let Ok(text) = simdutf8::basic::from_utf8(&piece[..written]) else { break };
        out.push_str(text);
        rest = &rest[read..];
    }
    rest
}

/// Resolves the beginning of a string of at least two blocks. Returns how many bytes were read and written; they end with a whole character.
fn unescape_piece(body: &str, piece: &mut [u8; PIECE]) -> (usize, usize) {
    let bytes = body.as_bytes();
    let (mut read, mut written) = (0, 0);
    // Behind the block there is a second one in the string, because 64 bytes are copied from each of its places, and room for two more in the piece: for
    // those 64 bytes, and for an escape that ends behind the block.
    while read + 2 * BLOCK <= bytes.len() && written + 3 * BLOCK <= PIECE {
        let Some(block) = bytes[read..].first_chunk() else { break };
        let mut escapes = backslashes(block);
        let (mut from, end) = (read, read + BLOCK);
        while escapes != 0 {
            let at = read + escapes.trailing_zeros() as usize;
            piece[written..written + BLOCK].copy_from_slice(&bytes[from..from + BLOCK]);
            written += at - from;
            if let Some(plain) = stands_for(bytes[at + 1]) {
                piece[written] = plain;
                written += 1;
                from = at + 2;
            } else {
                let rest = &body[at + 2..];
                let (unicode, behind) = unicode(rest);
                written += unicode.encode_utf8(&mut piece[written..]).len();
                from = at + 2 + (rest.len() - behind.len());
            }
            // A backslash that is escaped itself begins nothing.
            escapes &= if from < end { u64::MAX << (from - read) } else { 0 };
        }
        if from < end {
            piece[written..written + BLOCK].copy_from_slice(&bytes[from..from + BLOCK]);
            written += end - from;
            from = end;
        }
        read = from;
    }
    while !body.is_char_boundary(read) {
        read -= 1;
        written -= 1;
    }
    (read, written)
}

/// The character for which the one behind a backslash stands, unless it is the `u` of a code.
#[inline]
fn stands_for(code: u8) -> Option<u8> {
    match code {
        b'b' => Some(0x08),
        b'f' => Some(0x0c),
        b'n' => Some(b'\n'),
        b'r' => Some(b'\r'),
        b't' => Some(b'\t'),
        b'u' => None,
        itself => Some(itself),
    }
}

/// Reads the code behind `\u`, and the second one if it takes two. Returns what is behind them.
fn unicode(text: &str) -> (char, &str) {
    let (first, rest) = unit(text);
    if let Some(plain) = char::from_u32(first) {
        return (plain, rest);
    }
    if let Some(behind) = rest.strip_prefix("\\u")
        && let (second @ 0xDC00..=0xDFFF, behind) = unit(behind)
        && first < 0xDC00
    {
        let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        return (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), behind);
    }
    (char::REPLACEMENT_CHARACTER, rest)
}

/// Splits four hex digits off the front of a text.
fn unit(text: &str) -> (u32, &str) {
    let (digits, rest) = text.split_at(4);
    (u32::from_str_radix(digits, 16).unwrap_or(0xFFFD), rest)
}

/// The lowest bit of each of eight bytes.
const LOW: u64 = 0x0101_0101_0101_0101;
/// The highest bit of each of eight bytes.
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Sets the high bit of every byte of `word` that equals `byte`. Borrows only set bits above a true match, so the
/// lowest set bit is exact.
#[inline]
fn bytes_that_are(word: u64, byte: u8) -> u64 {
    let zero = word ^ (LOW * u64::from(byte));
    zero.wrapping_sub(LOW) & !zero & HIGH
}

/// Finds the next backslash. Escapes are close together in code, so a call to a general search would cost more than it
/// saves.
#[inline]
fn next_escape(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in (&mut chunks).take(8) {
        let Some(chunk) = chunk.first_chunk() else { break };
        let hits = bytes_that_are(u64::from_le_bytes(*chunk), b'\\');
        if hits != 0 {
            return Some(at + (hits.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    memchr::memchr(b'\\', &bytes[at..]).map(|found| at + found)
}
