//! Decoding beside peers, on the same bytes, turn by turn: the best of a few rounds of each counts.

use std::hint::black_box;
use std::time::Instant;

use claude_codes::ClaudeOutput;
use serde::Deserialize;
use serde_json::value::RawValue;
use tapline_protocol::{Decoder, Event};
use tapline_session::Fold;

use crate::row::{Figure, Promise, Row};

/// What reads a stream.
pub struct Peer {
    pub name: &'static str,
    read: fn(&[u8]) -> Counts,
}

/// What a peer made of the stream: equal counts of lines mean that all did their work.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub lines: u64,
    pub errors: u64,
    /// Something of every line, so that no reading can be left out.
    bytes: u64,
}

pub const PEERS: &[Peer] = &[
    // memchr counts the newlines.
    Peer { name: "floor", read: floor },
    // Decoder::push_each, 256 KB chunks: records with events and their bytes.
    Peer { name: "tapline", read: tapline },
    // The same, and what happened in it: steps.
    Peer { name: "tapline+fold", read: folded },
    // ClaudeOutput::parse_json_tolerant, as its clients do.
    Peer { name: "claude-codes", read: claude_codes },
    // serde_json::from_str::<ClaudeOutput>, as its Protocol does.
    Peer { name: "claude-codes (serde)", read: claude_codes_serde },
    // Type and ids; message and event unread (RawValue).
    Peer { name: "serde_json envelope", read: envelope },
];

/// The speed of a peer, and what it counted.
pub struct Measured {
    pub name: &'static str,
    /// Millions of bytes a second, the best and the worst round.
    pub best: f64,
    pub worst: f64,
    pub counts: Counts,
}

/// Measures every peer that is wanted, alternating.
pub fn measure(stream: &[u8], rounds: usize, wanted: impl Fn(&str) -> bool) -> Vec<Measured> {
    let peers: Vec<_> = PEERS.iter().filter(|peer| wanted(peer.name)).collect();
    let mut seconds = vec![Vec::new(); peers.len()];
    let mut counts = vec![Counts::default(); peers.len()];
    for _ in 0..rounds {
        for (at, peer) in peers.iter().enumerate() {
            let start = Instant::now();
            counts[at] = black_box((peer.read)(black_box(stream)));
            seconds[at].push(start.elapsed().as_secs_f64());
        }
    }
    let speed = |seconds: f64| stream.len() as f64 / 1e6 / seconds;
    let measured = |(at, peer): (usize, &&Peer)| Measured {
        name: peer.name,
        best: speed(seconds[at].iter().copied().fold(f64::INFINITY, f64::min)),
        worst: speed(seconds[at].iter().copied().fold(0.0, f64::max)),
        counts: counts[at],
    };
    peers.iter().enumerate().map(measured).collect()
}

/// The rows of one corpus.
pub fn rows(corpus: &str, measured: &[Measured]) -> Vec<Row> {
    let figure = |name: &str| {
        let peer = measured.iter().find(|peer| peer.name == name)?;
        let speed = Figure::new(peer.best, "MB/s").worst(peer.worst);
        Some(if peer.counts.errors > 0 { speed.note(format!("{} lines not read", peer.counts.errors)) } else { speed })
    };
    let mut rows = Vec::new();
    if let Some(ours) = figure("tapline") {
        let row = |peer: &Measured| {
            let name = if peer.name == "floor" { "the floor: line ends counted" } else { peer.name };
            let row = Row::new(format!("decode, {corpus} / {name}"), ours.clone());
            let row = Row { peer: figure(peer.name), ..row };
            if peer.name == "claude-codes" { row.promised(Promise::RatioAtLeast(3.0)) } else { row }
        };
        rows.extend(measured.iter().filter(|peer| !peer.name.starts_with("tapline")).map(row));
        if rows.is_empty() {
            rows.push(Row::new(format!("decode, {corpus}"), ours));
        }
    }
    rows.extend(figure("tapline+fold").map(|speed| Row::new(format!("decode and fold, {corpus}"), speed)));
    rows
}

const CHUNK: usize = 256 << 10;

fn floor(stream: &[u8]) -> Counts {
    Counts { lines: memchr::memchr_iter(b'\n', stream).count() as u64, ..Counts::default() }
}

fn tapline(stream: &[u8]) -> Counts {
    let mut counts = Counts::default();
    let mut each = |record: tapline_protocol::Record| {
        counts.lines += 1;
        counts.bytes += record.bytes.len() as u64;
        counts.errors += u64::from(matches!(record.event, Event::Malformed(_) | Event::Invalid { .. } | Event::Unknown { .. }));
        black_box(&record);
    };
    let mut decoder = Decoder::default();
    for chunk in stream.chunks(CHUNK) {
        decoder.push_each(chunk, &mut each);
    }
    decoder.finish().into_iter().for_each(each);
    assert_eq!(counts.bytes, stream.len() as u64, "every byte is in a record");
    counts
}

fn folded(stream: &[u8]) -> Counts {
    let mut counts = Counts::default();
    let mut fold = Fold::default();
    let mut each = |record: tapline_protocol::Record| {
        counts.lines += 1;
        counts.bytes += black_box(fold.apply(&record)).len() as u64;
    };
    let mut decoder = Decoder::default();
    for chunk in stream.chunks(CHUNK) {
        decoder.push_each(chunk, &mut each);
    }
    decoder.finish().into_iter().for_each(each);
    counts
}

/// The lines as text, for the peers that read lines.
fn each_line<'s>(stream: &'s [u8], mut read: impl FnMut(&'s str) -> bool) -> Counts {
    let mut counts = Counts::default();
    let mut rest = stream;
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        counts.lines += 1;
        counts.bytes += line.len() as u64;
        let good = std::str::from_utf8(line).is_ok_and(|line| read(line.trim()));
        counts.errors += u64::from(!good);
    }
    counts
}

fn claude_codes(stream: &[u8]) -> Counts {
    each_line(stream, |line| black_box(ClaudeOutput::parse_json_tolerant(line)).is_ok())
}

fn claude_codes_serde(stream: &[u8]) -> Counts {
    each_line(stream, |line| black_box(serde_json::from_str::<ClaudeOutput>(line)).is_ok())
}

/// The least that a serde reader can do and still tell one event from another.
#[derive(Deserialize)]
#[expect(dead_code, reason = "they are read to be measured")]
struct Envelope<'l> {
    #[serde(rename = "type", borrow)]
    kind: Option<std::borrow::Cow<'l, str>>,
    #[serde(borrow)]
    subtype: Option<std::borrow::Cow<'l, str>>,
    #[serde(borrow)]
    session_id: Option<std::borrow::Cow<'l, str>>,
    #[serde(borrow)]
    uuid: Option<std::borrow::Cow<'l, str>>,
    #[serde(borrow)]
    message: Option<&'l RawValue>,
    #[serde(borrow)]
    event: Option<&'l RawValue>,
}

fn envelope(stream: &[u8]) -> Counts {
    each_line(stream, |line| black_box(serde_json::from_str::<Envelope<'_>>(line)).is_ok())
}
