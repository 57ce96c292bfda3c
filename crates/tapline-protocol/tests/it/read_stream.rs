//! Reading a stream in a test: whole, or in pieces.

use tapline_protocol::{Decoder, Event, Record};

/// Reads the chunks to their end.
pub(crate) fn read_chunks<'b>(mut decoder: Decoder, chunks: impl IntoIterator<Item = &'b [u8]>) -> Vec<Record> {
    let mut records: Vec<Record> = chunks.into_iter().flat_map(|chunk| decoder.push(chunk)).collect();
    records.extend(decoder.finish());
    records
}

/// Reads a whole stream.
pub(crate) fn read(stream: &[u8]) -> Vec<Record> {
    read_chunks(Decoder::default(), [stream])
}

/// What the only line of a stream says.
pub(crate) fn read_one(line: impl AsRef<[u8]>) -> Event {
    let mut records = read(line.as_ref());
    assert_eq!(records.len(), 1);
    records.remove(0).event
}

/// The records' bytes, joined.
pub(crate) fn joined(records: &[Record]) -> Vec<u8> {
    records.iter().flat_map(|record| &record.bytes).copied().collect()
}
