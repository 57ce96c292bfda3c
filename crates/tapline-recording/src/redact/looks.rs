//! What a value looks like by itself.

use super::names;
use super::words::Words;

/// How much of a value is checked to decide whether it is a secret.
pub(super) const HEAD: usize = 256;

/// Endings of file and host names.
static ENDINGS: Words = Words::of(
    "txt json yaml yml toml env md rs py js ts go sh conf cfg ini com org net io dev html pem key xml log \
    local lock java rb kt c h cpp tf csv",
);

/// Returns whether this looks like nothing but a secret, and not like an identifier or the name of a test.
pub(super) fn is_random(value: &str) -> bool {
    let kind = |byte: u8| match byte {
        b'0'..=b'9' => 1,
        b'a'..=b'z' => 2,
        b'A'..=b'Z' => 3,
        _ => 0,
    };
    // `Word` counts as one change, not two.
    let changes = |pair: &[u8]| matches!((kind(pair[0]), kind(pair[1])), (1, 2 | 3) | (2, 1 | 3) | (3, 1));
    let count = value.as_bytes().windows(2).filter(|pair| changes(pair)).count();
    let is_hex = value.len() >= 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    is_likely(value) && value.len() >= 16 && (10 * count >= 3 * value.len() || is_hex)
}

/// Returns whether this looks like a secret by itself: long, without spaces, and not a word.
pub(super) fn is_likely(value: &str) -> bool {
    let digits = value.bytes().any(|byte| byte.is_ascii_digit());
    let letters = value.bytes().any(|byte| byte.is_ascii_alphabetic());
    let is_path = value.starts_with(['/', '.', '~', '@', '#']) || value.contains("://");
    value.len() >= 8
        && digits
        && letters
        && !is_path
        && !value.bytes().any(|byte| byte.is_ascii_whitespace())
        && !names::is_code(value)
}

/// Returns whether a value ends like the name of a file.
pub(super) fn is_file(value: &str) -> bool {
    value.rsplit_once('.').is_some_and(|(_, ending)| ENDINGS.has(ending))
}
