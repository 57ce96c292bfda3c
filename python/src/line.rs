//! Lines whose fields are read when they are asked for: whoever only counts or passes them on pays for no more. Documents,
//! recordings and transcripts are read by the archive, which knows their shapes and times.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::OnceLock;

use tapline::archive::Options;
use tapline::protocol::{DEFAULT_LINE_LIMIT, Kind, Piece, Splitter, Tape};
use tapline::recording::Recording;
use tapline::{Envelope, InputFormat, Moment, Source, SourceError, Value};

use crate::ahead::Feed;
use crate::source::{Opened, Stream};

/// One read asks for so much.
const CHUNK: usize = 256 << 10;
/// The first line shows what the stream is; a longer one is left to the archive.
const HEAD: usize = 1 << 20;

/// A line: its exact bytes, and what was read of them.
pub(crate) struct Line {
    pub(crate) number: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) arrived: Option<Moment>,
    envelope: OnceLock<Envelope>,
}

impl Line {
    /// The text without blanks, the line end and a byte order mark.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        text(&self.bytes, self.number == 1)
    }

    /// The fields that nearly every event has.
    pub(crate) fn envelope(&self) -> &Envelope {
        self.envelope.get_or_init(|| envelope(&self.text()))
    }
}

fn text(bytes: &[u8], first: bool) -> Cow<'_, str> {
    let bytes = if first { bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes) } else { bytes };
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let start = bytes.iter().position(|byte| !blank(byte)).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(|byte| !blank(byte)).map_or(start, |at| at + 1);
    let bytes = &bytes[start..end];
    // The lossy reading goes byte by byte: only the few lines that need it take that way.
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

fn envelope(text: &str) -> Envelope {
    thread_local! {
        /// One for all lines, so that its memory is found once.
        static TAPE: RefCell<Tape> = RefCell::default();
    }
    TAPE.with_borrow_mut(|tape| tape.parse(text).map(fields).unwrap_or_default())
}

fn fields(value: Value<'_>) -> Envelope {
    let mut envelope = Envelope::default();
    if value.kind() != Kind::Object {
        return envelope;
    }
    let filled = |value: Value<'_>| value.as_str().filter(|text| !text.is_empty()).map(Cow::into_owned);
    // Of repeated keys the last counts.
    for (key, value) in value.entries().into_iter().flatten() {
        match &*key {
            "type" => envelope.kind = value.as_str().map(|kind| Cow::Owned(kind.into_owned())),
            "subtype" => envelope.subtype = value.as_str().map(Cow::into_owned),
            "session_id" => envelope.session_id = filled(value),
            "uuid" => envelope.uuid = filled(value),
            "parent_tool_use_id" => envelope.parent = filled(value),
            "timestamp" => envelope.timestamp = filled(value),
            _ => {}
        }
    }
    if envelope.kind.as_deref() != Some("system") {
        envelope.subtype = None;
    }
    envelope
}

/// The lines of a source.
pub(crate) enum Lines {
    /// Cut, and not read.
    Cut { name: String, reader: Box<dyn Read + Send>, splitter: Splitter, chunk: Vec<u8> },
    /// Read by the archive.
    Read(Box<Stream>),
}

impl Lines {
    /// Opens a recording or a file.
    pub(crate) fn open(path: &Path, options: Options) -> Result<Self, SourceError> {
        if path.is_dir() || Recording::is_one(path) {
            return Source::open(path, options).map(Box::new).map(Self::Read);
        }
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Self::of(Opened { name, reader: Box::new(file) }, options),
            Err(error) => Err(SourceError::Open { name, error }),
        }
    }

    /// Reads from anything. A stream shows in its first line, and is cut; the rest is read.
    pub(crate) fn of(opened: Opened, options: Options) -> Result<Self, SourceError> {
        let Opened { name, mut reader } = opened;
        let mut head = Vec::new();
        while !head.contains(&b'\n') && head.len() < HEAD {
            let known = head.len();
            head.resize(known + CHUNK, 0);
            let read = match reader.read(&mut head[known..]) {
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                    head.truncate(known);
                    continue;
                }
                Err(error) => return Err(SourceError::Read { name, error }),
            };
            head.truncate(known + read);
            if read == 0 {
                break;
            }
        }
        let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let about = envelope(&text(first, true));
        let is_stream = about.kind.is_some() && about.session_id.is_some() || about.kind.as_deref() == Some("thread.started");
        let reader: Box<dyn Read + Send> = Box::new(Cursor::new(head).chain(reader));
        if options.format == InputFormat::Lines || options.format == InputFormat::Auto && is_stream {
            let splitter = Splitter::with_limit(options.line_limit.unwrap_or(DEFAULT_LINE_LIMIT));
            return Ok(Self::Cut { name, reader, splitter, chunk: vec![0; CHUNK] });
        }
        Source::of(name, reader, options).map(Box::new).map(Self::Read)
    }
}

impl Feed for Lines {
    type Item = Line;

    fn feed(&mut self, ready: &mut VecDeque<Line>) -> Result<bool, SourceError> {
        match self {
            Self::Read(stream) => {
                let Some(record) = stream.next_record()? else { return Ok(false) };
                let envelope = OnceLock::from(record.envelope);
                ready.push_back(Line { number: record.line, bytes: record.bytes, arrived: record.arrived, envelope });
                Ok(true)
            }
            Self::Cut { name, reader, splitter, chunk } => {
                let mut each = |line: tapline::protocol::Line<'_>| {
                    // What is no whole line has no fields.
                    let envelope =
                        if line.piece == Piece::Line { OnceLock::new() } else { OnceLock::from(Envelope::default()) };
                    ready.push_back(Line { number: line.number, bytes: line.bytes.into_owned(), arrived: None, envelope });
                };
                match reader.read(chunk) {
                    Ok(0) => {
                        splitter.finish(&mut each);
                        Ok(false)
                    }
                    Ok(read) => {
                        splitter.push(&chunk[..read], &mut each);
                        Ok(true)
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Ok(true),
                    Err(error) => Err(SourceError::Read { name: name.clone(), error }),
                }
            }
        }
    }

    fn is_ready(&self) -> bool {
        match self {
            Self::Read(stream) => stream.is_ready(),
            Self::Cut { .. } => false,
        }
    }
}
