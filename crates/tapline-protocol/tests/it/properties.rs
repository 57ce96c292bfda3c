//! What holds for any input at all. `serde_json` is the judge of what is JSON, where it can read it.

use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::value::RawValue;
use tapline_protocol::{DEFAULT_LINE_LIMIT, Decoder, Event, Json, Record, check_text, without_lone_surrogates};

use crate::fixtures;
use crate::read_stream::{joined, read_chunks};

/// Bytes that mean something to the splitter or the decoder.
const PIECES: &[&[u8]] = &[
    b"\n",
    b"\r\n",
    b" ",
    b"\0",
    b"\0\0{",
    b"\xEF\xBB\xBF",
    b"\xFF",
    b"\xE2\x80",
    b"{\"type\":\"keep_alive\"}",
    b"{\"type\":\"result\",\"result\":\"\\ud83d\"}\n",
    b"{\"type\":\"assistant\",\"message\":{\"content\":[",
    b"{\"type\":\"text\",\"text\":\"hi\"}",
    b"]}}\n",
    b"[1e999]",
];

/// The parts that JSON is made of, and some that it is not.
const TOKENS: &[&str] = &[
    "{", "}", "[", "]", ",", ":", "\"", "\\", "\\\"", "\\u", "\\ud83d", "\\ude00", "d83d", "\\n", "\\x", "0", "1", "-", "+",
    ".", "e", "E", "true", "false", "null", "nul", "NaN", " ", "\t", "\r", "\u{1}", "\u{7f}", "a", "é", "\u{feff}", "\u{2028}",
    "\"k\":", "\"s\"", "{}", "[]", "-0.5e+7",
];

/// The parts of a string.
const CHARACTERS: &[&str] = &[
    "a",
    "é",
    "😀",
    " ",
    "/",
    "\\/",
    "\\\\",
    "\\\"",
    "\\b",
    "\\f",
    "\\n",
    "\\r",
    "\\t",
    "\\u0041",
    "\\u00e9",
    "\\u0000",
    "\\uFFFF",
    "\\ud83d",
    "\\uDE00",
    "\\ud83d\\ude00",
    "\u{7f}",
    "\u{2028}",
];

static LINES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let records = fixtures::all().into_iter().flat_map(|fixture| fixture.records());
    records.map(|record| record.text().into_owned()).filter(|line| line.len() < 2000).collect()
});

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![3 => select(PIECES).prop_map(<[u8]>::to_vec), 1 => vec(any::<u8>(), 1..8)];
    vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn tokens(from: &'static [&'static str], count: usize) -> impl Strategy<Value = String> {
    vec(select(from), 0..count).prop_map(|tokens| tokens.concat())
}

/// A value as it may stand in a stream, with odd strings and numbers.
fn json() -> impl Strategy<Value = String> {
    let string = || tokens(CHARACTERS, 4).prop_map(|text| format!("\"{text}\""));
    let scalar = select(&["0", "-1", "1.5", "1e999", "12E-3", "true", "false", "null"][..]).prop_map(str::to_owned);
    prop_oneof![scalar, string()].prop_recursive(4, 32, 4, move |inner| {
        let entry = (string(), inner.clone()).prop_map(|(key, value)| format!("{key} :{value}"));
        prop_oneof![
            vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(" ,"))),
            vec(entry, 0..4).prop_map(|entries| format!("{{{}}}", entries.join(",\t"))),
        ]
    })
}

/// A text with some of its characters replaced by tokens.
fn mutate(text: &str, changes: &[(Index, usize, &str)]) -> String {
    changes.iter().fold(text.to_owned(), |mut text, (place, length, token)| {
        let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let first = place.index(starts.len());
        let last = (first + length).min(starts.len() - 1);
        text.replace_range(starts[first]..starts[last], token);
        text
    })
}

fn changes() -> impl Strategy<Value = Vec<(Index, usize, &'static str)>> {
    vec((any::<Index>(), 0..3_usize, prop_oneof![select(TOKENS), Just("")]), 0..4)
}

/// Reads the stream in chunks of these sizes, over and over.
fn read_cut(stream: &[u8], sizes: &[usize], limit: usize) -> Vec<Record> {
    let mut rest = stream;
    let chunks = sizes.iter().cycle().map_while(move |&size| {
        let (chunk, behind) = rest.split_at_checked(size).unwrap_or((rest, &[]));
        rest = behind;
        (!chunk.is_empty()).then_some(chunk)
    });
    read_chunks(Decoder::with_line_limit(limit), chunks)
}

fn serde_accepts(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

proptest! {
    #[test]
    fn any_cut_of_any_stream_reads_the_same(
        stream in stream(),
        sizes in vec(1..40_usize, 1..8),
        limit in prop_oneof![1..80_usize, Just(DEFAULT_LINE_LIMIT)],
    ) {
        let whole = read_cut(&stream, &[stream.len().max(1)], limit);
        prop_assert_eq!(&joined(&whole), &stream);
        prop_assert_eq!(read_cut(&stream, &sizes, limit), whole);
    }

    #[test]
    fn a_line_is_malformed_where_serde_says_so(stream in stream()) {
        for record in read_cut(&stream, &[stream.len().max(1)], DEFAULT_LINE_LIMIT) {
            match record.event {
                Event::Blank => prop_assert_eq!(&*record.text(), ""),
                // A byte order mark alone belongs to no line.
                Event::Rest => prop_assert_eq!(&*record.bytes, b"\xEF\xBB\xBF"),
                Event::Malformed(_) => prop_assert!(!serde_accepts(&record.text())),
                _ => prop_assert!(serde_accepts(&record.text())),
            }
        }
    }

    #[test]
    fn acceptance_is_serde_jsons(text in prop_oneof![tokens(TOKENS, 12), json(), any::<String>()], changes in changes()) {
        let text = mutate(&text, &changes);
        prop_assert_eq!(check_text(&text).is_ok(), serde_accepts(&text), "{}", text);
    }

    #[test]
    fn acceptance_of_mutated_lines_is_serde_jsons(line in any::<Index>(), changes in changes()) {
        let text = mutate(&LINES[line.index(LINES.len())], &changes);
        prop_assert_eq!(check_text(&text).is_ok(), serde_accepts(&text), "{}", text);
    }

    #[test]
    fn strings_are_serde_jsons(body in tokens(CHARACTERS, 12)) {
        let text = format!("\"{body}\"");
        let ours = Json::parse(&text).unwrap().with(|value| value.as_str().unwrap().into_owned()).unwrap();
        match serde_json::from_str::<String>(&text) {
            Ok(theirs) => prop_assert_eq!(&ours, &theirs),
            Err(_) => prop_assert!(ours.contains('\u{fffd}'), "{}", text),
        }
        let for_others = without_lone_surrogates(&text);
        prop_assert_eq!(serde_json::from_str::<String>(&for_others).unwrap(), ours, "any reader can read it");
    }

    #[test]
    fn values_keep_their_text(text in json()) {
        let value = Json::parse(&text).unwrap();
        prop_assert_eq!(value.as_str(), &text);
        prop_assert_eq!(serde_json::to_string(&value).unwrap(), text);
    }
}
