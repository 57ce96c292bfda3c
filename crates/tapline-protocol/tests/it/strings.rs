//! Strings of many lengths with something in every place. The reader looks at many bytes at once, so any place can be a
//! boundary. A reader that takes one character at a time is the judge of values and errors, `serde_json` of what is JSON.

use tapline_protocol::{Event, SyntaxError, Tape, check_text};
use tapline_testkit::rounds;

use crate::read_stream::{read, read_one};

/// What stands before the string: nothing else, a short value, and several keys of a few bytes.
const BEFORE: [&str; 3] = ["[", r#"["a\n",-1,"#, r#"[{"type":"x","b":[true],"a key of forty bytes, or a few more":""},"#];

/// What the string has otherwise: characters of one to four bytes.
const FILLS: [&str; 4] = ["a", "é", "€", "😀"];

/// Lengths and places: every place from 0 to 130 of strings of 0 to 200 characters, of every third length unless all are wanted.
fn places() -> impl Iterator<Item = (usize, usize)> {
    (0..=200).step_by(rounds(3, 1)).flat_map(|length| (0..=length.min(130)).map(move |place| (length, place)))
}

/// Characters with a part inserted at a place.
fn body(length: usize, place: usize, part: &str) -> String {
    let fill = FILLS[(length + place) % FILLS.len()];
    [&fill.repeat(place), part, &fill.repeat(length - place)].concat()
}

/// Reads the string that begins at a place of a text, and returns where it ends.
fn read_slowly(text: &str, start: usize) -> Result<(String, usize), SyntaxError> {
    let wrong = |offset, expected| Err(SyntaxError::At { offset, expected });
    let mut units = Vec::new();
    let mut rest = text[start + 1..].char_indices().map(|(at, c)| (start + 1 + at, c));
    while let Some((at, c)) = rest.next() {
        let unit = match c {
            '"' => return Ok((String::from_utf16_lossy(&units), at + 1)),
            '\0'..' ' => return wrong(at, "an escaped control character"),
            '\\' => {
                let (at, code) = rest.next().ok_or(SyntaxError::Incomplete)?;
                match code {
                    '"' | '\\' | '/' => code as u16,
                    'b' => 8,
                    'f' => 12,
                    'n' => 10,
                    'r' => 13,
                    't' => 9,
                    'u' => {
                        let mut unit = 0;
                        for _ in 0..4 {
                            let (at, digit) = rest.next().ok_or(SyntaxError::Incomplete)?;
                            let Some(digit) = digit.to_digit(16) else { return wrong(at, "four hex digits") };
                            unit = unit * 16 + u16::try_from(digit).unwrap();
                        }
                        unit
                    }
                    _ => return wrong(at, "an escape"),
                }
            }
            c => {
                units.extend_from_slice(c.encode_utf16(&mut [0; 2]));
                continue;
            }
        };
        units.push(unit);
    }
    Err(SyntaxError::Incomplete)
}

/// Compares the reader with the slow one, on a string behind each of the beginnings in turn, whole and without its end.
fn compare(tape: &mut Tape, turn: usize, body: &str) {
    let before = BEFORE[turn % BEFORE.len()];
    let text = [before, "\"", body, "\"]"].concat();
    let slow = read_slowly(&text, before.len());
    let read = tape.parse(&text);
    match slow {
        Ok((string, end)) if end == text.len() - 1 => {
            let value = read.unwrap_or_else(|error| panic!("{error} in {text}")).items().unwrap().last().unwrap();
            assert_eq!(value.as_str().as_deref(), Some(string.as_str()), "{text}");
            assert_eq!(value.raw(), &text[before.len()..end]);
        }
        Ok((_, end)) => assert_eq!(read.err(), Some(SyntaxError::At { offset: end, expected: "`,` or `]`" }), "{text}"),
        Err(error) => assert_eq!(read.err(), Some(error), "{text}"),
    }
    let cut = &text[..text.len() - 2];
    let slow = read_slowly(cut, before.len());
    let expected = match slow {
        Ok((_, end)) if end < cut.len() => SyntaxError::At { offset: end, expected: "`,` or `]`" },
        Ok(_) => SyntaxError::Incomplete,
        Err(error) => error,
    };
    assert_eq!(tape.parse(cut).err(), Some(expected), "{cut}");
}

#[test]
fn a_string_ends_at_its_quote_and_has_no_control_characters() {
    let mut tape = Tape::default();
    for (length, place) in places() {
        for part in ["", "\"", "\0", "\t", "\u{1f}", " ", "!", "#", "\u{7f}", "\u{80}", "\u{a2}", "\u{2022}"] {
            compare(&mut tape, length, &body(length, place, part));
        }
    }
}

#[test]
fn escapes_are_read_in_every_place() {
    let mut tape = Tape::default();
    for (length, place) in places() {
        for part in [r"\n", r#"\""#, r"\\", r#"\\\""#, r#"\\""#, r"\u0041", r"\ud83d\ude00", r"\ud83d\\", r"\udE00\t"] {
            compare(&mut tape, length, &body(length, place, part));
        }
    }
}

#[test]
fn wrong_escapes_are_found_in_every_place() {
    let mut tape = Tape::default();
    for (length, place) in places() {
        for part in ["\\", r"\x", "\\\t", "\\é", r"\u12", r"\u12g4", "\\u\"", "\\u00\\n", r"\\\a"] {
            compare(&mut tape, length, &body(length, place, part));
        }
    }
}

#[test]
fn bytes_that_are_no_text_are_replaced_in_every_place() {
    for (length, place) in places() {
        for part in [&b"\xff"[..], b"\x80", b"\xe2\x82", b"\xc0\x80", b"\xed\xa0\x80", b"\xf0\x9f\x98"] {
            let fill = FILLS[(length + place) % FILLS.len()];
            let body = [fill.repeat(place).as_bytes(), part, fill.repeat(length - place).as_bytes()].concat();
            let line = [&br#"{"type":"result","result":""#[..], &body, b"\"}\n"].concat();
            let records = read(&line);
            assert_eq!(records.len(), 1);
            assert_eq!(records[0].bytes, line);
            let result = records[0].event.as_result().and_then(|turn| turn.result.as_deref());
            assert_eq!(result, Some(&*String::from_utf8_lossy(&body)));
        }
    }
}

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// Strings of up to some ten thousand bytes, from hardly any escapes to nothing else.
#[test]
fn long_strings_are_read_as_short_ones_are() {
    const PARTS: [&str; 14] = [
        r"\n",
        r#"\""#,
        r"\\",
        r"\t",
        r"\/",
        r"\b",
        r"\u00e9",
        r"\ud83d\ude00",
        r"\uD83D",
        r"\ude00",
        r"\u2028",
        "é",
        "€",
        "😀",
    ];
    let mut random = Random(1);
    let mut tape = Tape::default();
    for turn in 0..1500 {
        let size = random.below(10) * random.below(1200);
        let run = 1 + random.below(150);
        let mut body = String::new();
        while body.len() < size {
            body.push_str(&"plain ".repeat(run)[..random.below(run)]);
            body.push_str(PARTS[random.below(PARTS.len())]);
        }
        compare(&mut tape, turn, &body);
        // In the value of an event, too.
        let line = format!(r#"{{"result":"{body}","type":"result"}}"#);
        let Ok((string, _)) = read_slowly(&line, 10) else { panic!("{line}") };
        let event = read_one(&line);
        assert_eq!(event.as_result().and_then(|turn| turn.result.as_deref()), Some(string.as_str()), "{line}");
    }
}

/// Any change of a few bytes in a long line: what is JSON is what `serde_json` says.
#[test]
fn changed_lines_are_json_where_serde_says_so() {
    const BYTES: &[u8] = b"\"\"\"\\\\\\\n\t\x00\x1f u{}[],:01anr/\x7f";
    let mut random = Random(2);
    let text = r#"{"type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_01","type":"tool_result","content":"
        fn main() {\n\tprintln!(\"{}\\n\", \"h\u00e9llo w\ud83d\ude00rld – €\");\n}\n│ table │ of 12.5 │\n"}]},"n":[-1.5e3,true,null],"s":""}"#;
    let line: String = text.split("\n        ").collect();
    assert_eq!(check_text(&line).is_ok(), serde_accepts(&line));
    for _ in 0..20_000 {
        let mut bytes = line.clone().into_bytes();
        for _ in 0..=random.below(3) {
            let place = random.below(bytes.len());
            match random.below(4) {
                0 => bytes.truncate(place.max(1)),
                1 if bytes.len() > 1 => drop(bytes.remove(place)),
                2 => bytes.insert(place, BYTES[random.below(BYTES.len())]),
                _ => bytes[place] = BYTES[random.below(BYTES.len())],
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(check_text(&text).is_ok(), serde_accepts(&text), "{text}");
        let trimmed = text.trim_matches([' ', '\t', '\r']);
        // A line without anything is skipped, and a line end makes two of it.
        if trimmed.is_empty() || text.contains('\n') {
            continue;
        }
        let malformed = matches!(read_one(&bytes), Event::Malformed(_));
        assert_eq!(malformed, !serde_accepts(trimmed), "{text}");
    }
}

fn serde_accepts(text: &str) -> bool {
    serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok()
}
