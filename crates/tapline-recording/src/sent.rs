//! What was sent to the agent, piece by piece, and after how much of its output, so that both sides of a recording can
//! be read as one conversation.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use tapline_protocol::Moment;

use crate::times::piece;
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
    times: Option<BufReader<File>>,
    started: Moment,
    /// How much of stdout had arrived, and how much of stdin was returned.
    after: u64,
    given: u64,
    ended: bool,
}

impl SentPieces {
    pub(crate) fn open(folder: &Path, started: Moment) -> std::io::Result<Self> {
        let stdin = File::open(folder.join(Stream::Stdin.file_name()))?;
        let times = File::open(folder.join("times")).ok().map(BufReader::new);
        Ok(Self { stdin, times, started, after: 0, given: 0, ended: false })
    }

    /// Returns the next piece that `times` lists.
    fn told(&mut self) -> Option<SentPiece> {
        let times = self.times.as_mut()?;
        let mut line = Vec::new();
        loop {
            line.clear();
            if times.read_until(b'\n', &mut line).ok()? == 0 {
                return None;
            }
            match piece(&line) {
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
        // The rest is not in `times`, which is cut off or missing.
        self.ended = true;
        let mut bytes = Vec::new();
        self.stdin.read_to_end(&mut bytes).ok()?;
        (!bytes.is_empty()).then_some(SentPiece { after: self.after, bytes, at: None })
    }
}
