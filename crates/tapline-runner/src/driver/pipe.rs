//! One of the agent's streams, read to its end into a buffer that grows with the output.

use tokio::io::AsyncReadExt as _;

use crate::transport::Source;

/// The smallest and the largest size of the buffer.
const BUFFER: (usize, usize) = (8 << 10, 256 << 10);

pub(super) struct Pipe<R> {
    reader: Option<R>,
    buffer: Vec<u8>,
}

impl<R: Source> Pipe<R> {
    pub(super) fn new(reader: Option<R>) -> Self {
        Self { reader, buffer: Vec::new() }
    }

    /// Returns whether there is nothing to read now.
    pub(super) fn is_drained(&self) -> bool {
        self.reader.as_ref().is_none_or(Source::is_drained)
    }

    pub(super) fn is_open(&self) -> bool {
        self.reader.is_some()
    }

    pub(super) fn close(&mut self) {
        self.reader = None;
    }

    /// Reads on, and returns how many bytes. At the end it returns 0 and closes the stream.
    pub(super) async fn read(&mut self) -> usize {
        let Some(reader) = &mut self.reader else { return 0 };
        if self.buffer.is_empty() {
            self.buffer.resize(BUFFER.0, 0);
        }
        // A pipe that cannot be read has ended.
        let count = reader.read(&mut self.buffer).await.unwrap_or(0);
        if count == 0 {
            self.reader = None;
        }
        count
    }

    /// Lends out the bytes that were read.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Takes the buffer back. A full buffer grows.
    pub(super) fn give_back(&mut self, mut buffer: Vec<u8>, count: usize) {
        if count == buffer.len() && count < BUFFER.1 {
            buffer.resize(count * 2, 0);
        }
        self.buffer = buffer;
    }
}
