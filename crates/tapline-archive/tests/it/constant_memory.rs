//! What was read of a stream and not passed on yet stays small, however the stream looks: a small packed file can hold gigabytes.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use tapline_archive::{Source, SourceOptions};
use tapline_recording::Redactor;

/// Counts what was read.
struct Counted<R> {
    reader: R,
    read: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.read.set(self.read.get() + read as u64);
        Ok(read)
    }
}

/// Reads to the end. Returns how many bytes were passed on, and how many waited at most.
fn passed_on(reader: impl Read, options: SourceOptions, is_redacted: bool) -> (u64, u64) {
    let read = Rc::new(Cell::new(0));
    let source = Source::of("the stream", Counted { reader, read: Rc::clone(&read) }, options).unwrap();
    let mut source = if is_redacted { source.redacted_by(Redactor::default()) } else { source };
    let (mut passed, mut most) = (0, 0);
    while let Some((record, _)) = source.advance().unwrap() {
        most = most.max(read.get() - passed);
        passed += record.map_or(0, |record| record.bytes.len() as u64);
    }
    (passed, most)
}

const RESULT: &[u8] = br#"{"type":"result","subtype":"success","is_error":false,"result":"4"}"#;

#[test]
fn blank_lines_before_a_stream_do_not_wait_for_it() {
    for blank in [b'\n', b' ', b'\r'] {
        for is_redacted in [false, true] {
            let stream = io::repeat(blank).take(4 << 20).chain(&b"\n"[..]).chain(RESULT);
            let (passed, most) = passed_on(stream, SourceOptions::default().with_line_limit(64 << 10), is_redacted);
            assert_eq!(passed, (4 << 20) + 1 + RESULT.len() as u64);
            assert!(most <= 512 << 10, "{most} bytes waited, {blank}");
        }
    }
}

#[test]
fn few_blank_lines_may_stand_before_a_document() {
    let document =
        b"\n".repeat(1_000).into_iter().chain(*b"{\n\"type\": \"result\",\n\"result\": \"4\"\n}").collect::<Vec<u8>>();
    assert_eq!(tapline_archive::report_of_bytes(&document).answer.as_deref(), Some("4"));
}

#[test]
fn the_pieces_of_a_line_that_never_ends_do_not_wait_for_each_other() {
    for is_redacted in [false, true] {
        let stream = io::repeat(b'x').take(32 << 20);
        let (passed, most) = passed_on(stream, SourceOptions::default().with_line_limit(256 << 10), is_redacted);
        assert_eq!(passed, 32 << 20);
        assert!(most <= 1 << 20, "{most} bytes waited");
    }
}
