//! Reads records from input in any format: lines, or one whole `--output-format json` document. The format is detected.

use std::collections::VecDeque;
use std::io::{self, BufRead, Cursor, Read as _};

use crate::decode::Decoder;
use crate::dialects::read_untyped_document;
use crate::event::LineKind;
use crate::json::{Kind, SyntaxError, Tape, Value};
use crate::reader::Reader;
use crate::record::{Record, lossy, trim};

/// More blank bytes than these come before no document.
const BLANKS: usize = 64 << 10;
/// A document is read as a whole. What is larger is read line by line.
const LARGEST: usize = 128 << 20;

/// What the caller knows about the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InputFormat {
    /// Nothing: detect the format.
    #[default]
    Auto,
    /// One event per line, of any agent.
    Lines,
    /// One document.
    Document,
}

/// The detected format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputShape {
    /// One event per line.
    Lines,
    /// One object: a result.
    Document,
    /// One array of events (`--verbose`).
    VerboseDocument,
}

/// Reads records from input of any format.
#[derive(Debug)]
pub struct Input<R> {
    lines: Option<Reader<Chained<R>>>,
    elements: VecDeque<Record>,
    shape: InputShape,
    /// With [`InputFormat::Auto`]: how many lines were not blank, and whether the first was a result.
    auto: Option<(u64, bool)>,
}

type Chained<R> = io::Chain<Cursor<Vec<u8>>, R>;

impl<R: BufRead> Input<R> {
    /// Opens the input. It reads only as much as it needs to detect the format; lines are passed on as they arrive.
    pub fn open(mut source: R, format: InputFormat, mut decoder: Decoder) -> io::Result<Self> {
        let mut head = Vec::new();
        let whole = match format {
            InputFormat::Lines => false,
            InputFormat::Document => {
                source.read_to_end(&mut head)?;
                true
            }
            InputFormat::Auto => looks_like_document(&mut source, &mut head)?,
        };
        if whole && let Some((shape, elements)) = document(&head, format, &mut decoder) {
            return Ok(Self { lines: None, elements, shape, auto: None });
        }
        let shape = if format == InputFormat::Document { InputShape::Document } else { InputShape::Lines };
        let lines = Reader::with_decoder(Cursor::new(head).chain(source), decoder);
        Ok(Self {
            lines: Some(lines),
            elements: VecDeque::new(),
            shape,
            auto: (format == InputFormat::Auto).then_some((0, false)),
        })
    }

    /// Returns the format of the input. Whether a single result is a document is known only at the end.
    pub fn shape(&self) -> InputShape {
        if self.auto == Some((1, true)) { InputShape::Document } else { self.shape }
    }

    /// Returns whether the next record is available without blocking.
    pub fn is_ready(&self) -> bool {
        self.lines.as_ref().is_none_or(Reader::is_ready)
    }
}

impl<R: BufRead> Iterator for Input<R> {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<io::Result<Record>> {
        let Some(lines) = &mut self.lines else { return self.elements.pop_front().map(Ok) };
        let record = lines.next()?;
        if let (Some((count, first)), Ok(record)) = (&mut self.auto, &record)
            && record.event.line_kind() != LineKind::Blank
        {
            *count += 1;
            *first |= *count == 1 && record.envelope.kind.as_deref() == Some("result");
        }
        Some(record)
    }
}

/// Reads on while the input may still be one document: pretty-printed, an array, or without a `type`. Returns `true` if
/// the input ended as one.
fn looks_like_document<R: BufRead>(source: &mut R, head: &mut Vec<u8>) -> io::Result<bool> {
    let mut start = None;
    let mut line_ended = false;
    let mut whole_value = None;
    let mut check_at = 1;
    loop {
        let known = head.len();
        let ended = more(source, head)?;
        // Look only at the new bytes.
        let from = if known == 0 && head.starts_with(b"\xEF\xBB\xBF") { 3 } else { known };
        start = start.or_else(|| head[from..].iter().position(|byte| !byte.is_ascii_whitespace()).map(|at| from + at));
        let Some(start) = start else {
            if ended || head.len() > BLANKS {
                return Ok(false);
            }
            continue;
        };
        if head.len() > LARGEST || !matches!(head[start], b'{' | b'[') {
            return Ok(false);
        }
        // Nothing is certain before the first line ends.
        line_ended |= head[known.max(start)..].contains(&b'\n');
        if !ended && !line_ended {
            continue;
        }
        let text = trim(&head[start..], false);
        // Something follows a complete value, so the input is lines.
        if whole_value.is_some_and(|length| text.len() > length) {
            return Ok(false);
        }
        // Parse it again only when it has doubled in size, or ended.
        if !ended && head.len() < check_at {
            continue;
        }
        check_at = head.len() * 2;
        match Tape::default().parse(&lossy(text)) {
            // This is the first line of a stream, and is passed on at once. Whether a result stays the only line is
            // known at the end.
            Ok(value) if value.kind() == Kind::Object && !text.contains(&b'\n') && !is_untyped_document(value) => {
                return Ok(false);
            }
            Ok(_) if ended => return Ok(true),
            Ok(_) => whole_value = Some(text.len()),
            Err(SyntaxError::Incomplete) if !ended => {}
            Err(_) => return Ok(false),
        }
    }
}

/// Returns whether an object may be the older kind of document, which has no `type`.
fn is_untyped_document(value: Value<'_>) -> bool {
    let typed = value.get("type").is_some_and(|kind| kind.kind() == Kind::String);
    !typed && read_untyped_document(value).is_some()
}

/// Reads the bytes that are available. Returns `true` at the end.
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

/// Returns the records of a whole document: a result, or an array of events. With [`InputFormat::Auto`] it must look
/// like one.
fn document(bytes: &[u8], format: InputFormat, decoder: &mut Decoder) -> Option<(InputShape, VecDeque<Record>)> {
    let text = lossy(trim(bytes, true));
    let mut tape = Tape::default();
    let value = tape.parse(&text).ok()?;
    if value.kind() == Kind::Object {
        return Some((InputShape::Document, [decoder.decode_document(bytes.to_vec())].into()));
    }
    let items = value.items()?;
    if format == InputFormat::Auto && items.clone().any(|item| item.kind() != Kind::Object) {
        return None;
    }
    let record = |(number, item): (u64, Value<'_>)| decoder.decode_line(number, (on_one_line(item.raw()) + "\n").into_bytes());
    Some((InputShape::VerboseDocument, (1..).zip(items).map(record).collect()))
}

/// Puts a pretty-printed value on one line, by dropping the whitespace outside of strings.
fn on_one_line(raw: &str) -> String {
    if !raw.contains('\n') {
        return raw.to_owned();
    }
    let (mut quoted, mut escaped) = (false, false);
    let keep = |c: &char| {
        let keeps = quoted || !matches!(c, ' ' | '\t' | '\r' | '\n');
        (quoted, escaped) = match (quoted, c) {
            (true, '"') if !escaped => (false, false),
            (true, '\\') => (true, !escaped),
            (true, _) => (true, false),
            (false, c) => (*c == '"', false),
        };
        keeps
    };
    raw.chars().filter(keep).collect()
}
