//! When each piece of a recording arrived: one line of `times` each.

use std::time::Duration;

use crate::writing::Stream;

/// A piece of a stream: where it ends, and when it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which stream.
    pub stream: Stream,
    /// Where it ends, in bytes from the stream's start.
    pub end: u64,
    /// When, from the start of the run.
    pub at: Duration,
}

/// A line of `times`, whole: `o 5321 1045123`.
pub(crate) fn piece(line: &[u8]) -> Option<Piece> {
    let (letter, rest) = line.strip_suffix(b"\n")?.split_first()?;
    let stream = Stream::ALL.into_iter().find(|stream| stream.letter() == char::from(*letter))?;
    let rest = rest.strip_prefix(b" ")?;
    let (end, micros) = rest.split_at(rest.iter().position(|byte| *byte == b' ')?);
    Some(Piece { stream, end: number(end)?, at: Duration::from_micros(number(&micros[1..])?) })
}

fn number(digits: &[u8]) -> Option<u64> {
    let add = |sum: u64, digit: &u8| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    };
    if digits.is_empty() { None } else { digits.iter().try_fold(0, add) }
}
