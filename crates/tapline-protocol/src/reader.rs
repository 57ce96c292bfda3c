//! Reads records from any [`Read`](std::io::Read) source.

use std::collections::VecDeque;
use std::io::{self, BufRead, ErrorKind};

use crate::decode::Decoder;
use crate::record::Record;

/// So many bytes are decoded at once. The records of all of them wait at the same time, and of a blank line a record is much larger.
const AT_ONCE: usize = 64 << 10;

/// An iterator over the records of a stream. Only reading can fail; decoding never does.
///
/// ```
/// use tapline_protocol::Reader;
///
/// let stream = b"{\"type\":\"keep_alive\"}\nnot json\n".as_slice();
/// let records = Reader::new(stream).collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(records.len(), 2);
/// assert_eq!(records[1].bytes, b"not json\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    decoder: Decoder,
    queue: VecDeque<Record>,
    ended: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads records from `source`, with the default line limit.
    pub fn new(source: R) -> Self {
        Self::with_decoder(source, Decoder::default())
    }

    /// Reads records from `source` with your own decoder.
    pub fn with_decoder(source: R, decoder: Decoder) -> Self {
        Self { source, decoder, queue: VecDeque::new(), ended: false }
    }

    /// Returns whether the next record is available without blocking.
    pub fn is_ready(&self) -> bool {
        !self.queue.is_empty()
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<io::Result<Record>> {
        loop {
            if let Some(record) = self.queue.pop_front() {
                return Some(Ok(record));
            }
            if self.ended {
                return None;
            }
            match self.source.fill_buf() {
                Ok([]) => {
                    self.ended = true;
                    self.queue.extend(self.decoder.finish());
                }
                Ok(bytes) => {
                    let taken = bytes.len().min(AT_ONCE);
                    let queue = &mut self.queue;
                    self.decoder.push_each(&bytes[..taken], |record| queue.push_back(record));
                    self.source.consume(taken);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    // There may be more later. Until then no room is needed for it.
                    self.queue = VecDeque::new();
                    return Some(Err(error));
                }
            }
        }
    }
}
