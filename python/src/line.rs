//! Lines whose fields are read when they are asked for: whoever only counts or passes them on pays for no more. Documents,
//! recordings and transcripts are read by the archive, which knows their shapes and times.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::OnceLock;

use tapline::archive::SourceOptions;
use tapline::protocol::{DEFAULT_LINE_LIMIT, Piece, Splitter, Tape, line_text};
use tapline::recording::Recording;
use tapline::{Envelope, InputFormat, Moment, Source, SourceError};

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
        line_text(&self.bytes, self.number == 1)
    }

    /// The fields that nearly every event has.
    pub(crate) fn envelope(&self) -> &Envelope {
        self.envelope.get_or_init(|| envelope(&self.text()))
    }
}

fn envelope(text: &str) -> Envelope {
    thread_local! {
        /// One for all lines, so that its memory is found once.
        static TAPE: RefCell<Tape> = RefCell::default();
    }
    TAPE.with_borrow_mut(|tape| tape.parse(text).map(Envelope::read).unwrap_or_default())
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
    pub(crate) fn open(path: &Path, options: SourceOptions) -> Result<Self, SourceError> {
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
    pub(crate) fn of(opened: Opened, options: SourceOptions) -> Result<Self, SourceError> {
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
        let about = envelope(&line_text(first, true));
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
                    // A line that is not complete has no fields.
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
