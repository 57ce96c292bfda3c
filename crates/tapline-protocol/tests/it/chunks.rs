//! Whatever the chunks, the records are the same, and their bytes are the file.

use tapline_protocol::Decoder;

use crate::fixtures;
use crate::read_stream::{joined, read, read_chunks};

#[test]
fn every_chunk_size_gives_the_same_records() {
    for fixture in fixtures::all() {
        let whole = read(&fixture.bytes);
        for size in 1..=64 {
            let cut = read_chunks(Decoder::default(), fixture.bytes.chunks(size));
            assert!(cut == whole, "{} in chunks of {size}", fixture.name);
        }
    }
}

#[test]
fn joined_records_are_the_file() {
    for fixture in fixtures::all() {
        assert!(joined(&read(&fixture.bytes)) == fixture.bytes, "{}", fixture.name);
    }
}
