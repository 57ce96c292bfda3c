//! Bytes to records. Decoding never fails: what cannot be read is a record too, with its bytes.

use std::borrow::Cow;

use crate::dialect::is_claudes_result;
use crate::event::{Event, Malformed, NOTICES};
use crate::json::{Kind, SyntaxError, Tape, Value};
use crate::lines::{Line, Piece, Splitter};
use crate::record::{Envelope, Record, trim};
use crate::wire::Read;

/// Turns pushed bytes into records: for callers that do their own reading, async ones above all.
///
/// ```
/// use tapline_protocol::Decoder;
///
/// let mut decoder = Decoder::default();
/// assert!(decoder.push(b"{\"type\":\"keep_").is_empty());
/// let records = decoder.push(b"alive\"}\n");
/// assert_eq!(records[0].envelope.kind.as_deref(), Some("keep_alive"));
/// assert!(decoder.finish().is_empty());
/// ```
#[derive(Debug, Default)]
pub struct Decoder {
    splitter: Splitter,
    tape: Tape,
}

impl Decoder {
    /// A decoder with its own limit on the size of a line, in bytes.
    pub fn with_line_limit(limit: usize) -> Self {
        Self { splitter: Splitter::with_limit(limit), tape: Tape::default() }
    }

    /// Takes the next bytes and returns the records they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Record> {
        let mut records = Vec::new();
        self.push_each(bytes, |record| records.push(record));
        records
    }

    /// Takes the next bytes and hands each record they complete to `each`.
    pub fn push_each(&mut self, bytes: &[u8], mut each: impl FnMut(Record)) {
        let tape = &mut self.tape;
        self.splitter.push(bytes, |line| each(decode(tape, line)));
    }

    /// The input has ended: returns the record of an unterminated last line.
    pub fn finish(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        let tape = &mut self.tape;
        self.splitter.finish(|line| records.push(decode(tape, line)));
        records
    }

    /// Decodes a whole document: an object without a type is the older shape of a result.
    pub(crate) fn decode_document(&mut self, bytes: Vec<u8>) -> Record {
        let mut record = self.decode_line(1, bytes);
        if record.event == Event::Untyped {
            let result = record.with(Read::read).flatten().unwrap_or_default();
            record.event = Event::Document(Box::new(result));
        }
        record
    }

    /// Reads a record again whose bytes were changed on their way; a piece of a line that was too long stays one.
    pub fn decode_again(&mut self, record: Record, bytes: Vec<u8>) -> Record {
        if bytes == record.bytes {
            return record;
        }
        if matches!(record.event, Event::Document(_)) {
            return Record { line: record.line, ..self.decode_document(bytes) };
        }
        if matches!(record.event, Event::Malformed(Malformed::TooLong | Malformed::NulRun) | Event::Rest) {
            return Record { bytes, ..record };
        }
        self.decode_line(record.line, bytes)
    }

    /// Decodes one whole line that was cut elsewhere.
    pub fn decode_line(&mut self, line: u64, bytes: Vec<u8>) -> Record {
        decode(&mut self.tape, Line { piece: Piece::Line, number: line, bytes: bytes.into() })
    }
}

fn decode(tape: &mut Tape, line: Line<'_>) -> Record {
    let (envelope, event) = match line.piece {
        Piece::Line => {
            let text = trim(&line.bytes, line.number == 1);
            if text.is_empty() {
                (Envelope::default(), Event::Blank)
            } else {
                // The lossy reading is slow: only the few lines that need it take it.
                match simdutf8::basic::from_utf8(text) {
                    Ok(text) => read_text(tape, text),
                    Err(_) => read_text(tape, &String::from_utf8_lossy(text)),
                }
            }
        }
        Piece::NulRun => (Envelope::default(), Event::Malformed(Malformed::NulRun)),
        Piece::TooLong => (Envelope::default(), Event::Malformed(Malformed::TooLong)),
        Piece::Rest => (Envelope::default(), Event::Rest),
    };
    Record { line: line.number, bytes: line.bytes.into_owned(), envelope, event }
}

fn read_text(tape: &mut Tape, text: &str) -> (Envelope, Event) {
    match tape.parse(text) {
        Ok(value) if value.kind() == Kind::Object => read_object(value),
        Ok(_) => (Envelope::default(), Event::NotObject),
        Err(error) => (Envelope::default(), Event::Malformed(Malformed::Syntax(error))),
    }
}

fn read_object(value: Value<'_>) -> (Envelope, Event) {
    fn filled(value: Value<'_>) -> Option<String> {
        value.as_str().filter(|text| !text.is_empty()).map(Cow::into_owned)
    }
    let mut envelope = Envelope::default();
    let (mut kind, mut subtype) = (None, None);
    for (key, value) in value.entries().into_iter().flatten() {
        match &*key {
            "type" => kind = value.as_str(),
            "subtype" => subtype = value.as_str(),
            "session_id" => envelope.session_id = filled(value),
            "uuid" => envelope.uuid = filled(value),
            "parent_tool_use_id" => envelope.parent = filled(value),
            "timestamp" => envelope.timestamp = filled(value),
            _ => {}
        }
    }
    let event = match (kind.as_deref(), subtype.as_deref()) {
        (Some("system"), subtype) => read_system(subtype, value),
        // The type is compared whole: one that is written like `system/init` is none that we know.
        (Some(kind), _) if kind.starts_with("system/") => Event::Unknown { kind: kind.to_owned() },
        (Some("result"), _) if !is_claudes_result(value) => Event::Invalid {
            event: Box::new(Event::Result(Box::new(Read::read(value).unwrap_or_default()))),
            error: "nothing of it is as in Claude's `result`".to_owned(),
        },
        (Some(kind), _) => Event::read(kind, value).unwrap_or_else(|| Event::Unknown { kind: kind.to_owned() }),
        (None, _) => Event::Untyped,
    };
    envelope.subtype = subtype.filter(|_| kind.as_deref() == Some("system")).map(Cow::into_owned);
    envelope.kind = kind.map(|kind| match Event::known_kind(&kind) {
        Some(known) => Cow::Borrowed(known),
        None => Cow::Owned(kind.into_owned()),
    });
    (envelope, event)
}

fn read_system(subtype: Option<&str>, value: Value<'_>) -> Event {
    let Some(subtype) = subtype else {
        let notice = Event::Notice { subtype: String::new(), notice: Read::read(value).unwrap_or_default() };
        return Event::Invalid { event: Box::new(notice), error: "`subtype` is missing".to_owned() };
    };
    let tag = format!("system/{subtype}");
    Event::read(&tag, value).unwrap_or_else(|| {
        if NOTICES.contains(&subtype) {
            Event::Notice { subtype: subtype.to_owned(), notice: Read::read(value).unwrap_or_default() }
        } else {
            Event::Unknown { kind: tag }
        }
    })
}

/// Whether a text is one JSON value, the beginning of one, or neither.
pub fn check_text(text: &str) -> Result<Kind, SyntaxError> {
    Tape::default().parse(text).map(Value::kind)
}
