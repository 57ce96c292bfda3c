//! When each piece of a recording arrived: one line of `times` each. A line of output arrived with the piece that has
//! its last byte.

use std::fs::File;
use std::io::BufRead as _;
use std::time::Duration;

use tapline_protocol::Moment;

use crate::chunks::Chunks;
use crate::writing::Stream;

/// How many bytes of `times` are read at once.
pub(crate) const CHUNK: usize = 8 << 10;

/// A piece of a stream: where it ends and when it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedPiece {
    /// The stream.
    pub stream: Stream,
    /// Where the piece ends, in bytes from the start of the stream.
    pub end: u64,
    /// When it arrived, from the start of the run.
    pub at: Duration,
}

/// When each part of one stream arrived, or was sent.
#[derive(Debug)]
pub struct Arrivals {
    times: Chunks<File>,
    stream: Stream,
    started: Moment,
    /// The last piece that was read: where it ends and when it arrived.
    piece: (u64, Moment),
    line: Vec<u8>,
}

impl Arrivals {
    pub(crate) fn new(times: File, stream: Stream, started: Moment) -> Self {
        Self { times: Chunks::new(CHUNK, times), stream, started, piece: (0, started), line: Vec::new() }
    }

    /// Returns when the stream up to this byte had arrived, or `None` if `times` does not say. Positions must not
    /// decrease from call to call.
    pub fn at(&mut self, end: u64) -> Option<Moment> {
        while self.piece.0 < end {
            self.piece = self.next()?;
        }
        Some(self.piece.1)
    }

    /// Returns the next piece of the stream. A line that is not complete yet is read on next time: `times` may grow.
    fn next(&mut self) -> Option<(u64, Moment)> {
        loop {
            if self.times.read_until(b'\n', &mut self.line).ok()? == 0 || !self.line.ends_with(b"\n") {
                return None;
            }
            let piece = piece(&self.line).filter(|piece| piece.stream == self.stream);
            self.line.clear();
            if let Some(piece) = piece {
                return Some((piece.end, self.started.after(piece.at)));
            }
        }
    }
}

/// Parses a whole line of `times`: `o 5321 1045123`.
pub(crate) fn piece(line: &[u8]) -> Option<TimedPiece> {
    let (letter, rest) = line.strip_suffix(b"\n")?.split_first()?;
    let stream = Stream::ALL.into_iter().find(|stream| stream.letter() == char::from(*letter))?;
    let rest = rest.strip_prefix(b" ")?;
    let (end, micros) = rest.split_at(rest.iter().position(|byte| *byte == b' ')?);
    Some(TimedPiece { stream, end: number(end)?, at: Duration::from_micros(number(&micros[1..])?) })
}

fn number(digits: &[u8]) -> Option<u64> {
    let add = |sum: u64, digit: &u8| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    };
    if digits.is_empty() { None } else { digits.iter().try_fold(0, add) }
}
