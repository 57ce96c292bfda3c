//! How a fuzz input is read: a stream, then two bytes that say how it is cut and how long a line may be.
//! They stand at the end, so that a fixture with two bytes behind it is a seed.

use serde_json::value::RawValue;
use tapline_protocol::DEFAULT_LINE_LIMIT;

/// One fuzz input.
pub struct Case<'d> {
    /// What an agent might have written.
    pub stream: &'d [u8],
    /// The size of the chunks it comes in.
    pub chunk: usize,
    /// The largest line that is read as one.
    pub limit: usize,
}

impl<'d> Case<'d> {
    /// Reads a fuzz input.
    pub fn of(data: &'d [u8]) -> Option<Self> {
        let (stream, &[chunk, limit]) = data.split_last_chunk()?;
        let limit = if limit == 0 { DEFAULT_LINE_LIMIT } else { limit.into() };
        Some(Self { stream, chunk: usize::from(chunk) + 1, limit })
    }

    /// What both ways of reading must agree on: `read` gets the stream in chunks, then whole.
    pub fn read_both_ways<T: PartialEq>(&self, read: impl Fn(&mut dyn Iterator<Item = &'d [u8]>) -> T) -> T {
        let cut = read(&mut self.stream.chunks(self.chunk));
        assert!(cut == read(&mut std::iter::once(self.stream)), "chunks of {} read otherwise than the whole", self.chunk);
        cut
    }
}

/// Whether `serde_json` takes the text for JSON.
pub fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}
