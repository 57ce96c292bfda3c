//! When each piece of a recording arrived: one line of `times` each. A line of the agent's output arrived with the piece that
//! has its last byte.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::time::Duration;

use tapline_protocol::Moment;

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

/// When the agent's output arrived, place by place.
#[derive(Debug)]
pub struct Arrivals {
    times: BufReader<File>,
    started: Moment,
    /// The piece that was read last: where it ends, and when it arrived. There is none behind the last.
    piece: Option<(u64, Moment)>,
    line: Vec<u8>,
}

impl Arrivals {
    pub(crate) fn new(times: File, started: Moment) -> Self {
        Self { times: BufReader::new(times), started, piece: Some((0, started)), line: Vec::new() }
    }

    /// When the output up to this byte had arrived; `None` if `times` does not say. Ask for places in their order.
    pub fn at(&mut self, end: u64) -> Option<Moment> {
        while self.piece?.0 < end {
            self.piece = self.next();
        }
        self.piece.map(|(_, at)| at)
    }

    /// The next piece of the output.
    fn next(&mut self) -> Option<(u64, Moment)> {
        loop {
            self.line.clear();
            if self.times.read_until(b'\n', &mut self.line).ok()? == 0 {
                return None;
            }
            if let Some(piece) = piece(&self.line).filter(|piece| piece.stream == Stream::Stdout) {
                return Some((piece.end, self.started.after(piece.at)));
            }
        }
    }
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
