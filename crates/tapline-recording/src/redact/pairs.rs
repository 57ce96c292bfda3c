//! Names that stand beside their values instead of before them: `{"name": "DB_PASSWORD", "value": "…"}`, its like in
//! YAML, XML and HCL, and the private parts of a key in JSON.

use std::ops::Range;

use super::class::BEARER;
use super::words::Words;

/// How far apart name and value may be.
pub(super) const FAR: usize = 400;
/// How far from its type the parts of a key in JSON may be.
const KEY: usize = 8 << 10;
/// What the name of a pair is called.
static NAMES: Words = Words::of(
    "name key parametername parameterkey optionname variable output var env header setting property field id path option",
);
/// What its value is called.
static VALUES: Words = Words::of("value val parametervalue stringvalue secretvalue secretstring default content");
/// The private parts of a key.
const PARTS: &[&str] = &["d", "p", "q", "dp", "dq", "qi", "k"];

/// Returns whether a key is what the value of a pair is called.
pub(super) fn is_value(key: &str) -> bool {
    VALUES.has(key)
}

/// Returns where the text ends without these bytes at its end.
fn without(bytes: &[u8], what: &[u8]) -> usize {
    bytes.len() - bytes.iter().rev().take(FAR).take_while(|byte| what.contains(byte)).count()
}

const QUOTES: &[u8] = b"\"'`\\";
const BLANKS: &[u8] = b" \t";
const SPACE: &[u8] = b" \t\r\n";

/// Returns where the value of the pair begins whose name stands here.
pub(super) fn value_of(text: &str, name: Range<usize>) -> Option<usize> {
    let bytes = text.as_bytes();
    let key = called(bytes, name.start)?;
    behind(bytes, name.end).or_else(|| before(bytes, key))
}

/// Returns where the word begins that calls what stands here a name.
pub(super) fn called(bytes: &[u8], name: usize) -> Option<usize> {
    // `spring.datasource.password`, `/password`
    let is_dotted = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./:".contains(byte);
    let dotted = if matches!(bytes[..name].last(), Some(b'.' | b'/')) {
        bytes[..name].iter().rev().take(64).take_while(|byte| is_dotted(byte)).count()
    } else {
        0
    };
    let start = name - dotted;
    let open = without(&bytes[..start], QUOTES);
    let joint = without(&bytes[..open], BLANKS);
    let is_joined = matches!(bytes[..joint].last(), Some(b':' | b'=' | b'>'));
    let key = if is_joined { without(&bytes[..joint - 1], BLANKS) } else { joint };
    let key = if is_joined { without(&bytes[..key], QUOTES) } else { key };
    let length = bytes[..key].iter().rev().take(16).take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let word = &bytes[key - length..key];
    let is_declared = open < start && (word == b"variable" || word == b"output") || bytes[..key - length].ends_with(b"--");
    (NAMES.has(word) && (is_joined || is_declared)).then_some(key - length)
}

/// Returns where the value begins if `value:` or `value =` stands here, behind any quotes.
fn joined(bytes: &[u8], from: usize, is_flag: bool) -> Option<usize> {
    let skip = |at: usize, what: &[u8]| at + bytes[at..].iter().take(64).take_while(|byte| what.contains(byte)).count();
    let at = skip(skip(from, QUOTES), BLANKS);
    let at = match bytes[at..] {
        [b'=', b'>', ..] => at + 2,
        [b':' | b'=' | b'>', ..] => at + 1,
        // `--value VALUE`
        _ if is_flag && at > from => at,
        _ => return None,
    };
    Some(skip(at, BLANKS))
}

/// Goes through the words of these bytes, up to the end of the pair, and returns the first or last value.
fn values(bytes: &[u8], range: Range<usize>, is_before: bool) -> Option<usize> {
    let (mut at, mut found) = (range.start, None);
    while at < range.end {
        let byte = bytes[at];
        let is_item = byte == b'-' && bytes[..at].iter().rev().find(|byte| !BLANKS.contains(byte)) == Some(&b'\n');
        let tag = || {
            bytes[at + 1..range.end]
                .iter()
                .take(16)
                .skip_while(|byte| **byte == b'/')
                .take_while(|byte| byte.is_ascii_alphanumeric())
        };
        let is_other = byte == b'<' && {
            let tag: Vec<u8> = tag().copied().collect();
            !NAMES.has(&tag) && !VALUES.has(&tag)
        };
        if matches!(byte, b'{' | b'}') || is_other || bytes[at..].starts_with(b"/>") || is_item {
            if !is_before {
                return None;
            }
            found = None;
        }
        let length = bytes[at..range.end].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        if length > 0 && VALUES.has(&bytes[at..at + length]) {
            found = joined(bytes, at + length, bytes[..at].ends_with(b"--")).or(found);
            if !is_before && found.is_some() {
                return found;
            }
        }
        at += length.max(1);
    }
    found
}

pub(super) fn behind(bytes: &[u8], from: usize) -> Option<usize> {
    // `variable "db_password" {`
    let open = from + bytes[from..].iter().take(4).take_while(|byte| QUOTES.contains(byte) || **byte == b' ').count();
    let from = if bytes.get(open) == Some(&b'{') { open + 1 } else { from };
    values(bytes, from..bytes.len().min(from + FAR), false)
}

pub(super) fn before(bytes: &[u8], to: usize) -> Option<usize> {
    values(bytes, to.saturating_sub(FAR)..to, true)
}

/// Hides the private parts of the key in JSON whose type stands here. Returns where the object ends, so each byte is
/// read at most twice.
pub(super) fn private_parts(text: &str, at: usize, last: usize, spans: &mut Vec<Range<usize>>) -> usize {
    let bytes = text.as_bytes();
    let from = at.saturating_sub(KEY).max(last);
    let from = memchr::memrchr(b'{', &bytes[from..at]).map_or(from, |open| from + open);
    let to = bytes.len().min(at + KEY);
    let to = memchr::memchr(b'}', &bytes[at..to]).map_or(to, |close| at + close);
    for colon in memchr::memchr_iter(b':', &bytes[from..to]).map(|colon| from + colon) {
        let end = without(&bytes[from..colon], SPACE) + from;
        let key = without(&bytes[from..end], QUOTES) + from;
        let part = bytes[from..key].iter().rev().take(3).take_while(|byte| byte.is_ascii_alphanumeric()).count();
        if key == end || !PARTS.iter().any(|known| known.as_bytes() == &bytes[key - part..key]) {
            continue;
        }
        let skip = |at: usize, what: &[u8]| at + bytes[at..to].iter().take_while(|byte| what.contains(byte)).count();
        let open = skip(skip(colon + 1, SPACE), QUOTES);
        let length = bytes[open..to].iter().take_while(|byte| BEARER.has(**byte)).count();
        if length >= 16 {
            spans.push(open..open + length);
        }
    }
    to
}
