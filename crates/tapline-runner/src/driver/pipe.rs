//! One of the agent's streams, read until its end into a buffer that grows with what comes.

use tokio::io::AsyncReadExt as _;

use crate::transport::Source;

/// Reading starts with a buffer of this size, which grows while it is filled.
const BUFFER: (usize, usize) = (8 << 10, 256 << 10);

pub(super) struct Pipe<R> {
    reader: Option<R>,
    buffer: Vec<u8>,
}

impl<R: Source> Pipe<R> {
    pub(super) fn new(reader: Option<R>) -> Self {
        Self { reader, buffer: Vec::new() }
    }

    /// Whether nothing is there to be read.
    pub(super) fn is_drained(&self) -> bool {
        self.reader.as_ref().is_none_or(Source::is_drained)
    }

    pub(super) fn is_open(&self) -> bool {
        self.reader.is_some()
    }

    pub(super) fn close(&mut self) {
        self.reader = None;
    }

    /// Reads on, and says how much: nothing at the end, after which it is closed.
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

    /// Lends what was read.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Takes the buffer back; one that was full grows.
    pub(super) fn give_back(&mut self, mut buffer: Vec<u8>, count: usize) {
        if count == buffer.len() && count < BUFFER.1 {
            buffer.resize(count * 2, 0);
        }
        self.buffer = buffer;
    }
}
