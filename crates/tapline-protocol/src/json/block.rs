//! Looks at 64 bytes of a text at once. The answer has one bit for each byte, the lowest for the first, so that the next
//! byte of interest is found by counting zeros. A byte at a time, or eight, would take most of the time of a long line.

/// How many bytes are looked at together.
pub(super) const BLOCK: usize = 64;

/// Marks the quotes, backslashes and control characters among the 64 bytes from `at` on, or among those that are left.
#[inline]
pub(super) fn specials_from(text: &[u8], at: usize) -> u64 {
    match text.get(at..).and_then(<[u8]>::first_chunk) {
        Some(block) => specials(block),
        None => specials_at_end(text, at),
    }
}

/// The same where fewer than 64 bytes are left.
#[inline(never)]
fn specials_at_end(text: &[u8], at: usize) -> u64 {
    let Some(rest @ [_, ..]) = text.get(at..) else { return 0 };
    if let Some(block) = text.last_chunk() {
        // The bytes before `at` are shifted out.
        return specials(block) >> (BLOCK - rest.len());
    }
    let mut block = [b' '; BLOCK];
    block[..rest.len()].copy_from_slice(rest);
    specials(&block)
}

/// Marks the quotes, backslashes and control characters.
#[inline]
#[expect(clippy::needless_bitwise_bool, reason = "a branch here would make compilers look at one byte at a time")]
fn specials(block: &[u8; BLOCK]) -> u64 {
    // With this bit flipped, a quote comes right behind the control characters, and nothing else does.
    const FLIP: u8 = 0x02;
    marks(block, |byte| ((byte ^ FLIP) <= (b'"' ^ FLIP)) | (byte == b'\\'))
}

/// Marks the backslashes.
#[inline]
pub(super) fn backslashes(block: &[u8; BLOCK]) -> u64 {
    marks(block, |byte| byte == b'\\')
}

/// Marks the bytes for which `is` holds. It must not branch: then compilers look at 16 bytes with one instruction.
#[inline]
fn marks(block: &[u8; BLOCK], is: impl Fn(u8) -> bool) -> u64 {
    let mut flags = [0; BLOCK];
    for (flag, byte) in flags.iter_mut().zip(block) {
        *flag = u8::from(is(*byte));
    }
    let (words, _) = flags.as_chunks();
    words.iter().rev().fold(0, |marks, word| {
        // Each bit of the factor moves one of the eight flags to its place in the highest byte.
        let found = u64::from_le_bytes(*word).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        marks << 8 | found
    })
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, backslashes, specials, specials_from};

    fn is_special(byte: u8) -> bool {
        byte == b'"' || byte == b'\\' || byte < 0x20
    }

    /// The marks, one by one.
    fn slow_marks(block: &[u8], is: impl Fn(u8) -> bool) -> u64 {
        block.iter().rev().fold(0, |marks, &byte| marks << 1 | u64::from(is(byte)))
    }

    #[test]
    fn every_byte_in_every_place() {
        for others in [b'a', b'"', b'\\', 0, 0xff] {
            for place in 0..BLOCK {
                for byte in 0..=u8::MAX {
                    let mut block = [others; BLOCK];
                    block[place] = byte;
                    assert_eq!(specials(&block), slow_marks(&block, is_special));
                    assert_eq!(backslashes(&block), slow_marks(&block, |byte| byte == b'\\'));
                }
            }
        }
    }

    #[test]
    fn a_text_may_end_within_the_block() {
        let text: Vec<u8> = (0..=u8::MAX).cycle().take(300).collect();
        for end in 0..text.len() {
            for at in 0..=end {
                let rest = &text[at..end];
                let block = &rest[..rest.len().min(BLOCK)];
                assert_eq!(specials_from(&text[..end], at), slow_marks(block, is_special), "{at}..{end}");
            }
        }
    }
}
