//! Redaction beside a set of regular expressions made from the same table, on the same bytes; and on hostile text, where twice
//! as much must take twice as long, not four times.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use regex::bytes::Regex;
use tapline_recording::{Redactor, SHAPES};

use crate::corpus::{Generator, Kind, recorded};
use crate::hostile::HOSTILE;

/// The best time of a few rounds, as millions of bytes a second.
fn speed(bytes: usize, rounds: usize, mut work: impl FnMut()) -> f64 {
    let times = (0..rounds).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    });
    bytes as f64 / 1e6 / times.fold(f64::INFINITY, f64::min)
}

fn tapline(redactor: &Redactor, stream: &[u8]) -> usize {
    let mut pieces = redactor.pieces();
    let mut length = 0;
    for chunk in stream.chunks(256 << 10) {
        length += pieces.push(chunk).len();
    }
    length + pieces.finish().len()
}

/// The table as one expression. It does less: it knows no escapes, no names in JSON, and no pieces.
fn expression() -> Regex {
    let shape = |start: &str, least: usize| format!("{}[A-Za-z0-9_.+/=~-]{{{least},}}", regex::escape(start));
    let mut parts: Vec<String> = SHAPES
        .iter()
        .flat_map(|row| row.starts.iter().map(|start| shape(start, row.example(start, false).len() - start.len())))
        .collect();
    parts.push(
        "(?i:[a-z0-9_.-]{0,50}(?:password|passwd|secret|token|api_?key|_key|credential)[\"']?\\s*[=:]\\s*[\"']?)[^\\s\"']+"
            .to_owned(),
    );
    parts.push("://[^/\\s:@]{0,64}:[^/\\s@]{1,64}@".to_owned());
    parts.push("-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----".to_owned());
    parts.push("(?i:authorization|cookie): [^\\r\\n]+".to_owned());
    Regex::new(&parts.join("|")).expect("the table is an expression")
}

/// Speeds on one corpus, in millions of bytes a second.
pub struct Beside {
    pub corpus: &'static str,
    /// Counting line ends: nobody who looks at every byte is faster.
    pub floor: f64,
    pub tapline: f64,
    pub regex: f64,
}

/// Redaction beside the expression, in one run.
pub fn beside(size: u64, rounds: usize) -> Vec<Beside> {
    let (redactor, expression) = (Redactor::default(), expression());
    let corpora = [
        ("recorded sessions, repeated", recorded(size)),
        ("long lines", Generator::in_memory(Kind::Long, size)),
        ("short lines", Generator::in_memory(Kind::Short, size)),
        ("mixed lines", Generator::in_memory(Kind::Mixed, size)),
    ];
    let measure = |(corpus, stream): &(&'static str, Vec<u8>)| Beside {
        corpus,
        floor: speed(stream.len(), rounds, || {
            black_box(memchr::memchr_iter(b'\n', black_box(stream)).count());
        }),
        tapline: speed(stream.len(), rounds, || {
            black_box(tapline(&redactor, black_box(stream)));
        }),
        regex: speed(stream.len(), rounds, || {
            let clean = |line: &[u8]| expression.replace_all(line, b"[redacted]".as_slice()).len();
            black_box(stream.split_inclusive(|byte| *byte == b'\n').map(clean).sum::<usize>());
        }),
    };
    corpora.iter().map(measure).collect()
}

/// Measures both, and hostile text: 4 MB of it must not be slower, byte by byte, than 1 MB.
pub fn measure(size: u64, rounds: usize) -> String {
    let redactor = Redactor::default();
    let mut text = String::new();
    for Beside { corpus, floor, tapline, regex } in beside(size, rounds) {
        let _ = writeln!(
            text,
            "redact, {corpus}: tapline {tapline:.0} MB/s, one regex of the table {regex:.0} MB/s: {:.1}× (line ends alone: {floor:.0} MB/s)",
            tapline / regex
        );
    }
    for piece in HOSTILE {
        let at = |size: usize| {
            let plain = piece.repeat(size / piece.len());
            let line = format!("{{\"a\":{}}}\n", serde_json::Value::from(plain.as_str()));
            let in_json = speed(line.len(), 3, || drop(black_box(redactor.line(black_box(line.as_bytes())))));
            (in_json, speed(plain.len(), 3, || drop(black_box(redactor.text(black_box(&plain))))))
        };
        let (one, four) = (at(1_000_000), at(4_000_000));
        let _ = writeln!(
            text,
            "redact, {piece:?}: in a line of JSON 1 MB {:.0} MB/s, 4 MB {:.0} MB/s; as text 1 MB {:.0} MB/s, 4 MB {:.0} MB/s",
            one.0, four.0, one.1, four.1
        );
    }
    text
}
