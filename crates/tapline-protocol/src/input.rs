//! Records from any shape of input: lines, or one whole `--output-format json` document, told apart by looking.

use std::collections::VecDeque;
use std::io::{self, BufRead, Cursor, Read as _};

use crate::decode::Decoder;
use crate::json::{Kind, SyntaxError, Tape, Value};
use crate::reader::Reader;
use crate::record::{Record, trim};

/// What the caller knows of the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InputFormat {
    /// Nothing: look.
    #[default]
    Auto,
    /// One event a line, of either agent.
    Lines,
    /// One document.
    Document,
}

/// What the input turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One event a line.
    Lines,
    /// One object: a result.
    Document,
    /// One array of events (`--verbose`).
    VerboseDocument,
}

/// Reads records from input of any shape.
#[derive(Debug)]
pub struct Input<R> {
    lines: Option<Reader<Chained<R>>>,
    elements: VecDeque<Record>,
    shape: Shape,
}

type Chained<R> = io::Chain<Cursor<Vec<u8>>, R>;

impl<R: BufRead> Input<R> {
    /// Looks at the input as far as it must, and no further: lines are handed on as they come.
    pub fn open(mut source: R, format: InputFormat, decoder: Decoder) -> io::Result<Self> {
        let mut head = Vec::new();
        let whole = match format {
            InputFormat::Lines => false,
            InputFormat::Document => {
                source.read_to_end(&mut head)?;
                true
            }
            InputFormat::Auto => looks_like_document(&mut source, &mut head)?,
        };
        if whole && let Some((shape, elements)) = document(&head, format) {
            return Ok(Self { lines: None, elements, shape });
        }
        let shape = if format == InputFormat::Document { Shape::Document } else { Shape::Lines };
        let lines = Reader::with_decoder(Cursor::new(head).chain(source), decoder);
        Ok(Self { lines: Some(lines), elements: VecDeque::new(), shape })
    }

    /// What the input is.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Whether the next record is here already, so that taking it cannot block.
    pub fn is_ready(&self) -> bool {
        self.lines.as_ref().is_none_or(Reader::is_ready)
    }
}

impl<R: BufRead> Iterator for Input<R> {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<io::Result<Record>> {
        match &mut self.lines {
            Some(lines) => lines.next(),
            None => self.elements.pop_front().map(Ok),
        }
    }
}

/// Reads on while the input may still be one pretty-printed or arrayed document. `true` when it has ended as one.
fn looks_like_document<R: BufRead>(source: &mut R, head: &mut Vec<u8>) -> io::Result<bool> {
    let mut check_at = 1;
    let mut whole_value = None;
    loop {
        let ended = more(source, head)?;
        let text = trim(head, true);
        match text.first() {
            None if ended => return Ok(false),
            None => continue,
            Some(b'{' | b'[') => {}
            Some(_) => return Ok(false),
        }
        // Nothing is sure before the first line ends.
        let leading = head.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(0);
        if !ended && !head[leading..].contains(&b'\n') {
            continue;
        }
        // Something follows a value that was whole: lines.
        if whole_value.is_some_and(|length| text.len() > length) {
            return Ok(false);
        }
        // The whole of it is read again only when it has doubled, or ended.
        if !ended && head.len() < check_at {
            continue;
        }
        check_at = head.len() * 2;
        match Tape::default().parse(&String::from_utf8_lossy(text)) {
            // The first line of a stream: it is handed on at once.
            Ok(value) if value.kind() == Kind::Object && !may_be_whole(value) => return Ok(false),
            Ok(_) if ended => return Ok(true),
            Ok(_) => whole_value = Some(text.len()),
            Err(SyntaxError::Incomplete) if !ended => {}
            Err(_) => return Ok(false),
        }
    }
}

/// Whether an object may be a whole run: a result, or the older document that has no type.
fn may_be_whole(value: Value<'_>) -> bool {
    match value.get("type").and_then(Value::as_str) {
        Some(kind) => kind == "result",
        None => ["messages", "result", "is_error", "session_id"].iter().any(|key| value.get(key).is_some()),
    }
}

/// Reads what is there; `true` at the end.
fn more<R: BufRead>(source: &mut R, head: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        match source.fill_buf() {
            Ok(bytes) => {
                let taken = bytes.len();
                head.extend_from_slice(bytes);
                source.consume(taken);
                return Ok(taken == 0);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The records of a whole document: a result, or an array of events. Where nobody said that it is one, it must
/// look like one.
fn document(bytes: &[u8], format: InputFormat) -> Option<(Shape, VecDeque<Record>)> {
    let text = String::from_utf8_lossy(trim(bytes, true));
    let mut tape = Tape::default();
    let value = tape.parse(&text).ok()?;
    let mut decoder = Decoder::default();
    if value.kind() == Kind::Object {
        return Some((Shape::Document, [decoder.decode_document(bytes.to_vec())].into()));
    }
    let items = value.items()?;
    if format == InputFormat::Auto && items.clone().any(|item| item.kind() != Kind::Object) {
        return None;
    }
    let record = |(number, item): (u64, Value<'_>)| decoder.decode_line(number, [item.raw().as_bytes(), b"\n"].concat());
    Some((Shape::VerboseDocument, (1..).zip(items).map(record).collect()))
}
