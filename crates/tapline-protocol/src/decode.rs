//! Decodes bytes into records. Decoding never fails: a line that cannot be read becomes a record with its bytes.

use crate::agent::Agent;
use crate::dialect::Dialect;
use crate::event::{Event, Malformed};
use crate::json::{Kind, SyntaxError, Tape, Value};
use crate::lines::{Line, Piece, Splitter};
use crate::record::{Envelope, Record, lossy, trim};

/// Decodes bytes that are pushed to it. It is for callers that read the stream themselves, such as async code.
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
    lines: LineReader,
}

/// The state that reading a line needs from earlier lines.
#[derive(Debug, Default)]
struct LineReader {
    tape: Tape,
    dialect: Dialect,
}

impl Decoder {
    /// Creates a decoder with this line limit, in bytes.
    pub fn with_line_limit(limit: usize) -> Self {
        Self { splitter: Splitter::with_limit(limit), lines: LineReader::default() }
    }

    /// Reads the stream as this agent's, whatever its lines look like. With `None`, the agent is detected.
    #[must_use]
    pub fn for_agent(mut self, agent: Option<Agent>) -> Self {
        self.lines.dialect = Dialect::of(agent);
        self
    }

    /// Takes the next bytes and returns the records that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Record> {
        let mut records = Vec::new();
        self.push_each(bytes, |record| records.push(record));
        records
    }

    /// Takes the next bytes and passes each record that they complete to `each`.
    pub fn push_each(&mut self, bytes: &[u8], mut each: impl FnMut(Record)) {
        let lines = &mut self.lines;
        self.splitter.push(bytes, |line| each(lines.line(line)));
    }

    /// Ends the input and returns the record of an unterminated last line.
    pub fn finish(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        let lines = &mut self.lines;
        self.splitter.finish(|line| records.push(lines.line(line)));
        records
    }

    /// Decodes a whole document. An object without a `type` is the older shape of a result.
    pub(crate) fn decode_document(&mut self, bytes: Vec<u8>) -> Record {
        let mut record = self.decode_line(1, bytes);
        if record.event == Event::Untyped {
            let mut dialect = record.dialect;
            let event = record.with(|value| dialect.read_untyped_document(value)).flatten();
            (record.dialect, record.event) = (dialect, event.unwrap_or(Event::Untyped));
        }
        record
    }

    /// Decodes a record again after its bytes were changed. A part of an overlong line stays a part.
    pub fn decode_again(&mut self, record: Record, bytes: Vec<u8>) -> Record {
        if bytes == record.bytes {
            return record;
        }
        // Without a `type`, only a whole document is an agent's event.
        if record.envelope.kind.is_none() && record.event.agent().is_some() {
            return Record { line: record.line, arrived: record.arrived, ..self.decode_document(bytes) };
        }
        if matches!(record.event, Event::Malformed(Malformed::TooLong | Malformed::NulRun) | Event::Rest) {
            return Record { bytes, ..record };
        }
        // The agent was decided when the record was first read.
        self.lines.dialect = record.dialect;
        Record { dialect: record.dialect, arrived: record.arrived, ..self.decode_line(record.line, bytes) }
    }

    /// Decodes one complete line.
    pub fn decode_line(&mut self, line: u64, bytes: Vec<u8>) -> Record {
        self.lines.line(Line { piece: Piece::Line, number: line, bytes: bytes.into() })
    }
}

impl LineReader {
    fn line(&mut self, line: Line<'_>) -> Record {
        let (envelope, event) = match line.piece {
            Piece::Line => {
                let text = trim(&line.bytes, line.number == 1);
                if text.is_empty() { (Envelope::default(), Event::Blank) } else { self.text(&lossy(text)) }
            }
            Piece::NulRun => (Envelope::default(), Event::Malformed(Malformed::NulRun)),
            Piece::TooLong => (Envelope::default(), Event::Malformed(Malformed::TooLong)),
            Piece::Rest => (Envelope::default(), Event::Rest),
        };
        Record { line: line.number, bytes: line.bytes.into_owned(), envelope, event, dialect: self.dialect, arrived: None }
    }

    fn text(&mut self, text: &str) -> (Envelope, Event) {
        match self.tape.parse(text) {
            Ok(value) if value.kind() == Kind::Object => object(&mut self.dialect, value),
            Ok(_) => {
                self.dialect.pass();
                (Envelope::default(), Event::NotObject)
            }
            Err(error) => {
                self.dialect.pass();
                (Envelope::default(), Event::Malformed(Malformed::Syntax(error)))
            }
        }
    }
}

fn object(dialect: &mut Dialect, value: Value<'_>) -> (Envelope, Event) {
    let envelope = Envelope::read(value);
    let event = if let Some(kind) = envelope.kind.as_deref() {
        dialect.read(kind, envelope.subtype.as_deref(), value)
    } else {
        dialect.pass_foreign();
        Event::Untyped
    };
    (envelope, event)
}

/// Checks whether a text is one JSON value, the beginning of one, or neither.
pub fn check_text(text: &str) -> Result<Kind, SyntaxError> {
    Tape::default().parse(text).map(Value::kind)
}
