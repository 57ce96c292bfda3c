//! What was sent to the agent, piece by piece, and after how much of its output, so that both sides of a recording can
//! be read as one conversation.

use std::fs::File;
use std::io::{BufRead as _, Read as _};

use tapline_protocol::Moment;

use crate::chunks::Chunks;
use crate::times::{CHUNK, piece};
use crate::writing::Stream;

/// A piece that was sent, or the end of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentPiece {
    /// How many bytes of the agent's output came before it.
    pub after: u64,
    /// The bytes; empty if stdin was closed.
    pub bytes: Vec<u8>,
    /// When it was sent. `None` if `times` does not say.
    pub at: Option<Moment>,
}

/// An iterator over what was sent, in order. Without `times`, all of it counts as sent first.
#[derive(Debug)]
pub struct SentPieces {
    stdin: File,
    times: Option<Chunks<File>>,
    started: Moment,
    /// How much of stdout had arrived, and how much of stdin was returned.
    after: u64,
    given: u64,
    ended: bool,
    /// Whether more may be sent.
    grows: bool,
    /// The line of `times` that is being read.
    line: Vec<u8>,
}

impl SentPieces {
    /// Reads what was sent, and the list of times, if there is one.
    pub(crate) fn of(stdin: File, times: Option<File>, started: Moment) -> Self {
        let times = times.map(|times| Chunks::new(CHUNK, times));
        Self { stdin, times, started, after: 0, given: 0, ended: false, grows: false, line: Vec::new() }
    }

    /// Reads a recording that is still written: when nothing is left, there may be more later.
    #[must_use]
    pub fn growing(self) -> Self {
        Self { grows: true, ..self }
    }

    /// Returns how many bytes of the agent's output came before all pieces that were not returned yet, as far as `times` was read.
    pub fn after(&self) -> u64 {
        self.after
    }

    /// Returns the next piece that `times` lists.
    fn told(&mut self) -> Option<SentPiece> {
        let times = self.times.as_mut()?;
        loop {
            if times.read_until(b'\n', &mut self.line).ok()? == 0 || !self.line.ends_with(b"\n") {
                return None;
            }
            let piece = piece(&self.line);
            self.line.clear();
            match piece {
                Some(piece) if piece.stream == Stream::Stdout => self.after = self.after.max(piece.end),
                Some(piece) if piece.stream == Stream::Stdin => {
                    let mut bytes = Vec::new();
                    let count = piece.end.saturating_sub(self.given);
                    let read = self.stdin.by_ref().take(count).read_to_end(&mut bytes).ok()?;
                    self.given += read as u64;
                    return Some(SentPiece { after: self.after, bytes, at: Some(self.started.after(piece.at)) });
                }
                _ => {}
            }
        }
    }
}

impl Iterator for SentPieces {
    type Item = SentPiece;

    fn next(&mut self) -> Option<SentPiece> {
        if self.ended {
            return None;
        }
        if let Some(sent) = self.told() {
            return Some(sent);
        }
        if self.grows {
            return None;
        }
        // The rest is not in `times`, which is cut off or missing.
        self.ended = true;
        let mut bytes = Vec::new();
        self.stdin.read_to_end(&mut bytes).ok()?;
        (!bytes.is_empty()).then_some(SentPiece { after: self.after, bytes, at: None })
    }
}
