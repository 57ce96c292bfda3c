//! Redaction beside a set of regular expressions made from the same table, on the same bytes; and on hostile text, where twice
//! as much must take twice as long, not four times.

use std::hint::black_box;
use std::time::Instant;

use regex::bytes::Regex;
use tapline_recording::{Redactor, SHAPES};

use crate::corpus::{Generator, Kind, recorded};
use crate::hostile::HOSTILE;
use crate::row::{Figure, Promise, Row};

/// How fast two kinds of work are on so many bytes, in turns: the best round of each, in millions of bytes a second.
fn speeds(bytes: [usize; 2], rounds: usize, mut works: [&mut dyn FnMut(); 2]) -> [f64; 2] {
    let mut best = [0.0_f64; 2];
    for _ in 0..rounds {
        for (at, work) in works.iter_mut().enumerate() {
            let start = Instant::now();
            work();
            best[at] = best[at].max(bytes[at] as f64 / 1e6 / start.elapsed().as_secs_f64());
        }
    }
    best
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

/// Redaction beside the expression, in one run.
pub fn beside(size: u64, rounds: usize) -> Vec<Row> {
    let (redactor, expression) = (Redactor::default(), expression());
    let corpora = [
        ("recorded sessions", recorded(size)),
        ("long lines", Generator::in_memory(Kind::Long, size)),
        ("short lines", Generator::in_memory(Kind::Short, size)),
        ("mixed lines", Generator::in_memory(Kind::Mixed, size)),
    ];
    let measure = |(corpus, stream): &(&'static str, Vec<u8>)| {
        let clean = |line: &[u8]| expression.replace_all(line, b"[redacted]".as_slice()).len();
        let works: [&mut dyn FnMut(); 2] = [&mut || _ = black_box(tapline(&redactor, black_box(stream))), &mut || {
            _ = black_box(stream.split_inclusive(|byte| *byte == b'\n').map(clean).sum::<usize>())
        }];
        let [ours, regex] = speeds([stream.len(); 2], rounds, works);
        Row::new(format!("redact, {corpus} / one regex of the table"), Figure::new(ours, "MB/s"))
            .beside(Figure::new(regex, "MB/s"))
            .promised(Promise::AtLeast(200.0))
    };
    corpora.iter().map(measure).collect()
}

/// Hostile text, in a line of JSON and as it is, whichever is slower. It must not be slower, byte by byte, than a quarter of it.
pub fn hostile(size: usize, rounds: usize) -> Vec<Row> {
    let redactor = Redactor::default();
    let measure = |piece: &&str| {
        let at = |size: usize| {
            let plain = piece.repeat(size / piece.len());
            let line = format!("{{\"a\":{}}}\n", serde_json::Value::from(plain.as_str()));
            let works: [&mut dyn FnMut(); 2] =
                [&mut || drop(black_box(redactor.line(black_box(line.as_bytes())))), &mut || {
                    drop(black_box(redactor.text(black_box(&plain))))
                }];
            let [in_json, as_text] = speeds([line.len(), plain.len()], rounds, works);
            Figure::new(in_json.min(as_text), "MB/s")
        };
        Row::new(format!("redact, {piece:?}, again and again / a quarter of it"), at(size)).beside(at(size / 4))
    };
    HOSTILE.iter().map(measure).collect()
}
