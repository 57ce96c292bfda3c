//! The splitter: pieces rejoin to the input, whatever the chunks and however small the limit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tapline_fuzz::Case;
use tapline_protocol::{Piece, Splitter};

fuzz_target!(|data: &[u8]| {
    let Some(case) = Case::of(data) else { return };
    let pieces = case.read_both_ways(|chunks| {
        let mut splitter = Splitter::with_limit(case.limit);
        let mut pieces = Vec::new();
        for chunk in chunks {
            splitter.push(chunk, |line| pieces.push((line.piece, line.number, line.bytes.into_owned())));
        }
        splitter.finish(|line| pieces.push((line.piece, line.number, line.bytes.into_owned())));
        pieces
    });
    assert_eq!(pieces.iter().flat_map(|(_, _, bytes)| bytes).copied().collect::<Vec<_>>(), case.stream);
    let mut line = 1;
    for (at, (piece, number, bytes)) in pieces.iter().enumerate() {
        let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        assert!(!bytes.is_empty() && body.len() <= case.limit && !body.contains(&b'\n'));
        assert_eq!(*number, line);
        line += u64::from(bytes.ends_with(b"\n"));
        match piece {
            Piece::NulRun => assert!(bytes.len() > 1 && bytes.iter().all(|&byte| byte == 0)),
            Piece::Rest => assert!(matches!(pieces[at - 1].0, Piece::TooLong | Piece::Rest)),
            Piece::TooLong => assert_eq!(pieces[at + 1].0, Piece::Rest),
            Piece::Line => {}
        }
    }
});
