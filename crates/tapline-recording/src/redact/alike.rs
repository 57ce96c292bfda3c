//! Recognises lines of partial messages that differ only in their text and `uuid`. Only the text of such a line can
//! hold a secret, and its block is known, so it need not be parsed as JSON.

use std::ops::Range;

/// The last line, to compare the next one with.
#[derive(Debug)]
pub(super) struct Alike {
    /// The bytes up to and including the quote that opens the text.
    head: Vec<u8>,
    /// The bytes from the quote that closes the text.
    tail: Vec<u8>,
    /// The position of the `uuid` in `tail`.
    id: Range<usize>,
}

impl Alike {
    /// Remembers a line and the position of its text, including the quotes. Returns `None` if no `uuid` follows the
    /// text.
    pub(super) fn new(line: &[u8], text: &Range<usize>) -> Option<Self> {
        let tail = &line[text.end - 1..];
        let begin = memchr::memmem::find(tail, KEY)? + KEY.len();
        let id = begin..begin + LENGTH;
        let is_one = tail.get(id.clone()).is_some_and(is_uuid) && tail.get(id.end) == Some(&b'"');
        is_one.then(|| Self { head: line[..=text.start].to_vec(), tail: tail.to_vec(), id })
    }

    /// Returns the position of this line's text, including the quotes, if the line is like the remembered one.
    pub(super) fn text(&self, line: &[u8]) -> Option<Range<usize>> {
        let rest = line.strip_prefix(&*self.head)?;
        let (text, tail) = rest.split_at_checked(rest.len().checked_sub(self.tail.len())?)?;
        let is_same = tail[..self.id.start] == self.tail[..self.id.start]
            && tail[self.id.end..] == self.tail[self.id.end..]
            && is_uuid(&tail[self.id.clone()]);
        let start = self.head.len() - 1;
        (is_same && is_string(text)).then(|| start..start + text.len() + 2)
    }
}

const KEY: &[u8] = b"\"uuid\":\"";
const LENGTH: usize = 36;

/// Returns whether this looks like `123e4567-e89b-12d3-a456-426614174000`. No secret does.
fn is_uuid(id: &[u8]) -> bool {
    id.iter().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    })
}

/// Returns whether this is the content of a JSON string. Numeric escapes are left to the JSON reader.
fn is_string(text: &[u8]) -> bool {
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        at += match byte {
            b'\\' if matches!(text.get(at + 1), Some(b'n' | b't' | b'r' | b'"' | b'\\' | b'/' | b'b' | b'f')) => 2,
            b'"' | b'\\' | 0..b' ' => return false,
            _ => 1,
        };
    }
    std::str::from_utf8(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::sieve::keywords;
    use super::super::table::SHAPES;

    #[test]
    fn no_secret_stands_in_a_uuid() {
        let is_id = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'));
        assert!(!keywords().any(|word| is_id(&word)));
        for shape in SHAPES {
            for start in shape.starts.iter().filter(|start| is_id(start)) {
                let longest = shape.example(start, false).split('-').map(str::len).max();
                assert!(longest > Some(12), "{start} may stand in one");
            }
        }
    }
}
