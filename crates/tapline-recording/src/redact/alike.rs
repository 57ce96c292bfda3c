//! The pieces of a message come in lines that differ in their text and their `uuid` alone. The last such line is remembered: one
//! that is like it need not be read as JSON to know which block it adds to, and only its text can hold a secret.

use std::ops::Range;

/// What a line is compared with.
#[derive(Debug)]
pub(super) struct Alike {
    /// Up to the quote that opens the text.
    head: Vec<u8>,
    /// From the quote that closes it.
    tail: Vec<u8>,
    /// Where the `uuid` stands in the tail.
    id: Range<usize>,
}

impl Alike {
    /// Remembers a line by where its text stands, with the quotes. A line without a `uuid` behind it is not like any other.
    pub(super) fn new(line: &[u8], text: &Range<usize>) -> Option<Self> {
        let tail = &line[text.end - 1..];
        let begin = memchr::memmem::find(tail, KEY)? + KEY.len();
        let id = begin..begin + LENGTH;
        let is_one = tail.get(id.clone()).is_some_and(is_uuid) && tail.get(id.end) == Some(&b'"');
        is_one.then(|| Self { head: line[..=text.start].to_vec(), tail: tail.to_vec(), id })
    }

    /// Where the text of this line stands, with the quotes, if the line is like the one that is remembered.
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

/// Whether it is written like `123e4567-e89b-12d3-a456-426614174000`. No secret is.
fn is_uuid(id: &[u8]) -> bool {
    id.iter().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    })
}

/// Whether this can stand between the quotes of a JSON string. Escapes by number are left to the JSON reader.
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
