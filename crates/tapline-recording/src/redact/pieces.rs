//! A stream without its secrets, as it comes: in pieces that end anywhere.

use super::stream::StreamRedactor;

/// A line that is longer is looked at in parts.
const LONGEST: usize = 64 << 20;

/// Takes secrets out of bytes that come in pieces. What it gives back ends with a line, until the end.
#[derive(Debug)]
pub struct PieceRedactor {
    stream: StreamRedactor,
    line: Vec<u8>,
}

impl PieceRedactor {
    pub(super) fn new(stream: StreamRedactor) -> Self {
        Self { stream, line: Vec::new() }
    }

    /// Takes the next piece, and returns what can be passed on.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") || self.line.len() > LONGEST {
                self.stream.line(std::mem::take(&mut self.line), |line| out.extend(line));
            }
        }
        out
    }

    /// The stream has ended: returns the rest.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.line.is_empty() {
            self.stream.line(std::mem::take(&mut self.line), |line| out.extend(line));
        }
        self.stream.finish(|line| out.extend(line));
        out
    }
}
