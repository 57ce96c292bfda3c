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
    /// Auto: what the only line so far was.
    lone_result: Option<bool>,
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
            return Ok(Self { lines: None, elements, shape, lone_result: None });
        }
        let shape = if format == InputFormat::Document { Shape::Document } else { Shape::Lines };
        let lone_result = (format == InputFormat::Auto).then_some(false);
        let lines = Reader::with_decoder(Cursor::new(head).chain(source), decoder);
        Ok(Self { lines: Some(lines), elements: VecDeque::new(), shape, lone_result })
    }

    /// What the input is; a lone result is known as a document when the input has ended.
    pub fn shape(&self) -> Shape {
        if self.lone_result == Some(true) { Shape::Document } else { self.shape }
    }

    /// Whether the next record is here already, so that taking it cannot block.
    pub fn is_ready(&self) -> bool {
        self.lines.as_ref().is_none_or(Reader::is_ready)
    }
}

impl<R: BufRead> Iterator for Input<R> {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<io::Result<Record>> {
        let Some(lines) = &mut self.lines else {
            return self.elements.pop_front().map(Ok);
        };
        let record = lines.next()?;
        if let (Some(lone), Ok(record)) = (self.lone_result, &record) {
            let is_result = record.line == 1 && record.envelope.kind.as_deref().is_none_or(|kind| kind == "result");
            let blank = trim(&record.bytes, false).is_empty();
            self.lone_result = if blank { Some(lone) } else { is_result.then_some(true) };
        }
        Some(record)
    }
}

/// Reads on while the input may still be one pretty-printed or arrayed document. `true` when it has ended as one.
fn looks_like_document<R: BufRead>(source: &mut R, head: &mut Vec<u8>) -> io::Result<bool> {
    let mut check_at = 1;
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
        let leading = head.len() - head.trim_ascii_start().len();
        if !ended && !head[leading..].contains(&b'\n') {
            continue;
        }
        if !ended && head.len() < check_at {
            continue;
        }
        check_at = head.len() * 2;
        let first = text[0];
        match Tape::default().parse(&String::from_utf8_lossy(text)).map(Value::kind) {
            // One line that is an object is read as a line; what it is shows at the end.
            Ok(_) if first == b'{' && !text.contains(&b'\n') => return Ok(false),
            Ok(_) if ended => return Ok(true),
            Ok(_) | Err(SyntaxError::Incomplete) if !ended => {}
            Ok(_) | Err(_) => return Ok(false),
        }
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
        return Some((Shape::Document, [decoder.decode_line(1, bytes.to_vec())].into()));
    }
    let items = value.items()?;
    if format == InputFormat::Auto && items.clone().any(|item| item.kind() != Kind::Object) {
        return None;
    }
    let record = |(number, item): (u64, Value<'_>)| decoder.decode_line(number, [item.raw().as_bytes(), b"\n"].concat());
    Some((Shape::VerboseDocument, (1..).zip(items).map(record).collect()))
}
