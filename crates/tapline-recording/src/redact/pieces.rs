//! Removes secrets from a stream that arrives in pieces of any size.

use std::borrow::Cow;

use super::stream::StreamRedactor;

/// A longer line is checked in parts.
const LONGEST: usize = 64 << 20;

/// Removes secrets from bytes that arrive in pieces. Until the end, it returns only whole lines.
#[derive(Debug)]
pub struct PieceRedactor {
    stream: StreamRedactor,
    line: Vec<u8>,
}

impl PieceRedactor {
    pub(super) fn new(stream: StreamRedactor) -> Self {
        Self { stream, line: Vec::new() }
    }

    /// Takes the next piece and returns what can be passed on.
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

    /// Ends the stream and returns the rest.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.line.is_empty() {
            self.pass(&mut out);
        }
        self.stream.finish(|line| out.extend(line));
        out
    }
}
