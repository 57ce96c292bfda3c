//! A stream without its secrets, as it comes: in pieces that end anywhere.

use std::borrow::Cow;

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
        let mut out = Vec::with_capacity(bytes.len());
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, behind) = rest.split_at(end + 1);
            rest = behind;
            if self.line.is_empty() {
                self.stream.pass(Cow::Borrowed(line), |line| out.extend_from_slice(&line));
            } else {
                self.line.extend_from_slice(line);
                self.pass(&mut out);
            }
        }
        self.line.extend_from_slice(rest);
        if self.line.len() > LONGEST {
            self.pass(&mut out);
        }
        out
    }

    fn pass(&mut self, out: &mut Vec<u8>) {
        let line = std::mem::take(&mut self.line);
        self.stream.pass(Cow::Owned(line), |line| out.extend_from_slice(&line));
    }

    /// The stream has ended: returns the rest.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.line.is_empty() {
            self.pass(&mut out);
        }
        self.stream.finish(|line| out.extend(line));
        out
    }
}
