//! A source: a recording, a file or any reader, as records and steps, with everything known about the run.

mod options;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, Read, Seek as _};
use std::path::{Path, PathBuf};

pub use options::SourceOptions;
use tapline_protocol::{Agent, DEFAULT_LINE_LIMIT, Decoder, Input, InputFormat, InputShape, Moment, Record, StopReason};
use tapline_recording::{Arrivals, Chunks, Recording, Redactor, Stop, Stream, attempt_folder};
use tapline_session::{
    Collector, Ending, Fold, Ledger, Report, Run, SessionPhase, Step, StreamFormat, Summary, Warning, parse_moment,
};

use crate::clean::Redaction;
use crate::cost::list_price;
use crate::earlier::fold_resumes;
use crate::error::SourceError;
use crate::growing::Growing;
use crate::packed;
use crate::recorded::{Note, Recorded, recorded};
use crate::retelling::Retelling;
use crate::sent::SentBefore;
use crate::sessions;
use crate::transcripts::recognise;

/// Large reads mean fewer system calls, but the records of one read live at the same time, and should fit into the processor's cache. Every line
/// is still returned at once.
const CHUNK: usize = 64 << 10;
/// Of a file that is followed, little comes at once, and many may be followed at the same time.
const GROWTH: usize = 8 << 10;

/// How a file that zstd has packed begins.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Decide after at most this many lines what kind of file it is.
const SHOWS_WITHIN: u64 = 64;

/// A record and its steps. There is no record if the steps are about what the host sent.
pub type Advance = (Option<Record>, Vec<Step>);

/// An open stream and the fold that reads it.
///
/// ```
/// use tapline_archive::{SourceOptions, Source};
///
/// let stream = br#"{"type":"assistant","message":{"content":[{"type":"text","text":"4"}]}}"#;
/// let mut source = Source::of("the stream", stream.as_slice(), SourceOptions::default())?;
/// while let Some((_record, steps)) = source.advance()? {
///     steps.iter().for_each(|step| println!("{step:?}"));
/// }
/// assert_eq!(source.finish().summary.last_text, "4");
/// # Ok::<(), tapline_archive::SourceError>(())
/// ```
#[derive(Debug)]
pub struct Source<R> {
    name: String,
    input: Input<Chunks<R>>,
    fold: Fold,
    ending: Ending,
    run: Run,
    notes: Vec<Note>,
    /// Records that were read and not returned yet: what was sent before a record comes first, and it takes a few lines
    /// to tell what a stream is.
    held: VecDeque<Record>,
    /// More bytes than these are not held to tell what a stream is. A line can be as long.
    hold_at_most: usize,
    /// Whether the first lines were checked for a known agent.
    looked: bool,
    /// Whether it is a file, so that reading it never waits.
    at_rest: bool,
    /// What was sent to the agent, if a recording has it.
    sent: Option<SentBefore>,
    /// If a run had several attempts: what all of them cost.
    whole: Option<Ledger>,
    /// Where the recording is incomplete.
    lost: Vec<String>,
    redaction: Option<Redaction>,
    /// Whether it may still turn out not to be a stream.
    unsure: bool,
    /// Turns a session file, which is not a stream, into one.
    retelling: Option<Retelling>,
    /// Whether the first lines of a session file were looked at.
    looked_into: bool,
    /// Where the file is.
    path: Option<PathBuf>,
    /// Whether the fold has been given stderr.
    heard: bool,
    /// Why the run was stopped.
    stop: Option<Stop>,
    /// When the run started, if a recording has its times.
    started: Option<Moment>,
    arrivals: Option<Arrivals>,
    /// Where lines arrive as they are read: the time.
    clock: Option<fn() -> Moment>,
    /// How many bytes were read.
    bytes: u64,
    /// The recording that is still written, if it is one.
    growing: Option<PathBuf>,
}

/// Everything that is known at the end of a source.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finished {
    /// The summary of all steps.
    pub summary: Summary,
    /// The format of the input.
    pub format: StreamFormat,
    /// How the run ended.
    pub ending: Ending,
    /// What only the program that ran the agent knows.
    pub run: Run,
    /// Why the run was stopped, and by which clock, if a recording says so.
    pub stop: Option<Stop>,
}

/// Returns whether a record can only be from a stream. No transcript has such a line.
fn is_of_a_stream(record: &Record) -> bool {
    record.envelope.session_id.is_some() || record.envelope.kind.as_deref() == Some("thread.started")
}

impl Source<Box<dyn Read + Send>> {
    /// Opens a recording or a file.
    pub fn open(path: &Path, options: SourceOptions) -> Result<Self, SourceError> {
        let name = path.display().to_string();
        let open = |path: &Path| File::open(path).map_err(|error| SourceError::Open { name: name.clone(), error });
        if Recording::is_one(path) {
            let recording = Recording::open(path)?;
            let file = recording.open_file(Stream::Stdout).map_err(|error| SourceError::Open { name: name.clone(), error })?;
            return Self::of_recording(name, path, &recording, Box::new(file), options, CHUNK);
        }
        if path.is_dir() {
            return Err(SourceError::Folder(path.to_owned()));
        }
        let mut file = open(path)?;
        let at_rest = file.metadata().is_ok_and(|meta| meta.is_file());
        // Agents pack old sessions.
        let mut head = [0; ZSTD.len()];
        let is_packed = at_rest && file.read_exact(&mut head).is_ok() && head == ZSTD;
        let unpacked = match if at_rest { file.rewind() } else { Ok(()) } {
            Ok(()) if is_packed => zstd::Decoder::new(file).map(|file| Box::new(file) as Box<dyn Read + Send>),
            rewound => rewound.map(|()| Box::new(file) as Box<dyn Read + Send>),
        };
        let reader = unpacked.map_err(|error| SourceError::Read { name: name.clone(), error })?;
        Ok(Self { at_rest, path: Some(path.to_owned()), ..Self::of(name, reader, options)? })
    }

    /// Opens a recording or a file of lines that is still written. Reading never waits: where there is nothing more yet, it is an error
    /// that [is pending](SourceError::is_pending), and reading goes on later. A recording ends when its writer says so; a file never
    /// does. Of its texts only the last 64 can be retracted.
    pub fn follow(path: &Path, options: SourceOptions) -> Result<Self, SourceError> {
        let name = path.display().to_string();
        let options = options.with_format(InputFormat::Lines);
        let open = |opened: io::Result<File>, end: Option<PathBuf>| match opened {
            Ok(file) => Ok(Box::new(Growing::new(file, end)) as Box<dyn Read + Send>),
            Err(error) => Err(SourceError::Open { name: name.clone(), error }),
        };
        if Recording::is_one(path) {
            let recording = Recording::open(path)?;
            let file = open(recording.open_file(Stream::Stdout), Some(path.join("end.json")))?;
            let source = Self::of_recording(name.clone(), path, &recording, file, options, GROWTH)?;
            let sent = SentBefore::of(&recording, source.arrivals.is_some(), true);
            return Ok(Self { sent, growing: Some(path.to_owned()), fold: source.fold.with_few_texts(), ..source });
        }
        let source = Self::in_chunks(name.clone(), open(File::open(path), None)?, options, GROWTH)?;
        Ok(Self { path: Some(path.to_owned()), fold: source.fold.with_few_texts(), ..source })
    }
}

impl<R: Read> Source<R> {
    /// Reads from any reader. Errors use this name for it.
    pub fn of(name: impl Into<String>, reader: R, options: SourceOptions) -> Result<Self, SourceError> {
        Self::in_chunks(name, reader, options, CHUNK)
    }

    fn in_chunks(name: impl Into<String>, reader: R, options: SourceOptions, chunk: usize) -> Result<Self, SourceError> {
        let SourceOptions { agent, format, line_limit, ending } = options;
        let name = name.into();
        let line_limit = line_limit.unwrap_or(DEFAULT_LINE_LIMIT);
        let decoder = Decoder::with_line_limit(line_limit).for_agent(agent);
        let mut reader = Chunks::new(chunk, reader);
        let head = if format == InputFormat::Auto { reader.fill_buf().unwrap_or_default() } else { &[] };
        if let Some(what) = packed::not_text(head) {
            return Err(SourceError::Packed { name, what });
        }
        let input = match Input::open(reader, format, decoder) {
            Ok(input) => input,
            Err(error) => return Err(SourceError::Read { name, error }),
        };
        Ok(Self {
            name,
            input,
            fold: Fold::for_agent(agent).priced_by(list_price),
            ending,
            run: Run::default(),
            notes: Vec::new(),
            held: VecDeque::new(),
            hold_at_most: line_limit,
            looked: agent.is_some(),
            at_rest: false,
            sent: None,
            whole: None,
            lost: Vec::new(),
            redaction: None,
            unsure: true,
            retelling: None,
            looked_into: false,
            path: None,
            heard: false,
            stop: None,
            started: None,
            arrivals: None,
            clock: None,
            bytes: 0,
            growing: None,
        })
    }

    /// Opens a recording, which says itself how it ended. What the caller knows takes precedence.
    fn of_recording(
        name: String,
        path: &Path,
        recording: &Recording,
        stdout: R,
        mut options: SourceOptions,
        chunk: usize,
    ) -> Result<Self, SourceError> {
        options.agent = options.agent.or_else(|| recording.meta.agent.as_deref().and_then(Agent::named));
        if options.format == InputFormat::Auto && recording.writes_lines() {
            options.format = InputFormat::Lines;
        }
        let Recorded { ending, run, notes } = recorded(recording, path, std::mem::take(&mut options.ending));
        let mut source = Self { ending, run, notes, ..Self::in_chunks(name, stdout, options, chunk)? };
        source.note_end(recording);
        fold_resumes(&mut source.fold, recording);
        // The elements of an array were written together, whenever each of them happened.
        source.arrivals = recording.arrivals().filter(|_| source.input.shape() != InputShape::VerboseDocument);
        source.started = source.arrivals.is_some().then(|| recording.started());
        source.sent = SentBefore::of(recording, source.arrivals.is_some(), false);
        Ok(source)
    }

    fn note_end(&mut self, recording: &Recording) {
        if let Some(end) = &recording.end {
            self.stop = end.stop;
            self.whole = end.ledger.as_ref().and_then(|ledger| ledger.to().ok());
            self.lost = end.lost.iter().map(ToString::to_string).collect();
        }
    }

    /// Notes how a recording that was followed has ended.
    fn note_growth_is_over(&mut self) {
        let Some(path) = self.growing.take() else { return };
        if let Some(sent) = &mut self.sent {
            sent.ends();
        }
        if let Ok(recording) = Recording::open(&path) {
            let Recorded { ending, run, .. } = recorded(&recording, &path, Ending::default());
            (self.ending, self.run) = (ending, run);
            self.note_end(&recording);
        }
    }

    /// Removes secrets from everything that is read from here on.
    #[must_use]
    pub fn redacted_by(mut self, redactor: Redactor) -> Self {
        let Ending { stderr, last_message, violated, .. } = &mut self.ending;
        for text in [stderr, last_message, violated, &mut self.run.label].into_iter().flatten() {
            *text = redactor.text(text).into_owned();
        }
        self.redaction = Some(Redaction::new(redactor));
        self
    }

    /// Takes the times of lines from this clock, for a stream that is read while it is written. The elements of an array arrive together,
    /// whenever each of them happened: they have none.
    #[must_use]
    pub fn timed_by(mut self, clock: fn() -> Moment) -> Self {
        self.clock = Some(clock).filter(|_| self.input.shape() != InputShape::VerboseDocument);
        self
    }

    /// Returns its name in errors, usually a path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes the notes that were not taken yet. Some arise only while the source is read.
    #[inline]
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// Returns the next record, for callers that pass it on unread.
    pub fn next_record(&mut self) -> Result<Option<Record>, SourceError> {
        if self.held.is_empty() {
            self.hold_next()?;
        }
        Ok(self.held.pop_front())
    }

    /// Returns the next record and its steps. There is no record if the steps are about what the host sent.
    #[inline]
    pub fn advance(&mut self) -> Result<Option<Advance>, SourceError> {
        if let Some(stderr) = self.ending.stderr.as_deref().filter(|_| !std::mem::replace(&mut self.heard, true)) {
            self.fold.hear_stderr(stderr);
        }
        if !std::mem::replace(&mut self.looked, true) {
            self.look_ahead()?;
        }
        let pending = match if self.held.is_empty() { self.hold_next() } else { Ok(true) } {
            Err(error) if error.is_pending() => Some(error),
            held => {
                if !held? {
                    self.note_growth_is_over();
                }
                None
            }
        };
        if let Some(sent) = &mut self.sent {
            let mut steps = sent.before(!self.held.is_empty(), &mut self.fold);
            if !steps.is_empty() {
                if let Some(redaction) = &self.redaction {
                    for step in &mut steps {
                        redaction.prompt(step);
                    }
                }
                return Ok(Some((None, steps)));
            }
        }
        if let Some(pending) = pending {
            return Err(pending);
        }
        if self.retelling.is_some() {
            return self.retell();
        }
        let Some(record) = self.held.front() else { return Ok(None) };
        let steps = self.fold.apply(record);
        Ok(Some((self.held.pop_front(), steps)))
    }

    /// Returns the next record of a session file, and its steps.
    fn retell(&mut self) -> Result<Option<Advance>, SourceError> {
        if !std::mem::replace(&mut self.looked_into, true) {
            self.look_into()?;
        }
        let Some(retelling) = &mut self.retelling else { return Ok(None) };
        let redactor = self.redaction.as_ref().map(Redaction::redactor);
        let Some(record) = self.held.pop_front() else {
            let steps = retelling.end(redactor, &mut self.fold);
            return Ok((!steps.is_empty()).then_some((None, steps)));
        };
        let steps = retelling.tell(&record, redactor, &mut self.fold);
        Ok(Some((Some(record), steps)))
    }

    /// Looks at the first lines of a session file: the first line of a stream has facts that a session file has later.
    fn look_into(&mut self) -> Result<(), SourceError> {
        let Some(mut retelling) = self.retelling.take() else { return Ok(()) };
        let mut at = 0;
        while self.held.get(at).is_none_or(|record| retelling.look(record)) {
            at += usize::from(at < self.held.len());
            let is_over = self.holds_enough() || !self.at_rest && !self.is_ready();
            if at == self.held.len() && (is_over || !self.hold_next()?) {
                break;
            }
        }
        self.retelling = Some(retelling);
        Ok(())
    }

    /// Returns whether no more may be held to tell what the stream is.
    fn holds_enough(&self) -> bool {
        let bytes = || self.held.iter().map(|record| record.bytes.len()).sum::<usize>();
        self.held.len() as u64 >= SHOWS_WITHIN || bytes() >= self.hold_at_most
    }

    /// Reads and holds one more record, unless the stream has ended.
    fn hold_next(&mut self) -> Result<bool, SourceError> {
        let bytes = match self.redaction.take() {
            None => self.read()?,
            // It is taken out while it reads, because it may need several lines.
            Some(mut redaction) => {
                let next = redaction.next(|| self.read().map(|read| read.and_then(|_| self.held.pop_back())));
                self.redaction = Some(redaction);
                next?.map(|(record, bytes)| {
                    self.held.push_back(record);
                    bytes
                })
            }
        };
        if let (Some(sent), Some(bytes)) = (&mut self.sent, bytes) {
            sent.received(bytes);
        }
        Ok(bytes.is_some())
    }

    /// Holds the next record of the stream, with its secrets, and returns its size. A record is large, so it is moved as seldom as
    /// possible.
    #[inline]
    fn read(&mut self) -> Result<Option<usize>, SourceError> {
        match self.input.next() {
            None => {
                self.unsure = false;
                return Ok(None);
            }
            Some(Err(error)) => return Err(self.cannot_read(error)),
            Some(Ok(record)) => self.held.push_back(record),
        }
        let Some(record) = self.held.back_mut() else { return Ok(None) };
        self.bytes += record.bytes.len() as u64;
        record.arrived = match &mut self.arrivals {
            Some(arrivals) => arrivals.at(self.bytes).or_else(|| self.clock.map(|clock| clock())),
            None => self.clock.map(|clock| clock()),
        };
        if self.unsure {
            if let Some(about) = record.in_transcript() {
                let agent = record.with(recognise).flatten();
                self.retelling = agent.map(|agent| Retelling::of(agent, self.path.as_deref()));
                self.notes.push(Note::Transcript(about));
            }
            self.unsure = self.retelling.is_none() && record.line < SHOWS_WITHIN && !is_of_a_stream(record);
        }
        if self.retelling.is_some() {
            record.arrived = record.envelope.timestamp.as_deref().and_then(parse_moment);
        }
        Ok(Some(record.bytes.len()))
    }

    #[cold]
    fn cannot_read(&self, error: io::Error) -> SourceError {
        SourceError::Read { name: self.name.clone(), error }
    }

    /// Notes before anything else if no known agent wrote the stream, as far as the available lines show it. In a
    /// recording only the first line is checked, so that what was sent between the lines stays between them.
    fn look_ahead(&mut self) -> Result<(), SourceError> {
        while self.hold_next()? {
            let Some(record) = self.held.back() else { break };
            let (dialect, is_too_old) = (record.dialect, record.too_old().is_some());
            let shows = !dialect.is_open() || is_too_old || self.holds_enough();
            let is_over = shows || self.sent.is_some() || !self.is_ready() && !self.at_rest;
            if dialect.agent().is_none() && dialect.is_foreign() && is_over && !is_too_old && self.retelling.is_none() {
                self.notes.push(Note::Foreign);
            }
            if is_over {
                return Ok(());
            }
        }
        if self.held.back().is_some_and(|record| record.dialect.agent().is_none()) && self.retelling.is_none() {
            self.notes.push(Note::Foreign);
        }
        if self.held.is_empty() && self.bytes == 0 && self.at_rest {
            self.notes.push(Note::Empty);
        }
        Ok(())
    }

    /// Returns how the run ended, as far as it is known from outside the stream.
    pub fn ending_mut(&mut self) -> &mut Ending {
        &mut self.ending
    }

    /// Returns what only the program that ran the agent knows.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Returns the folders of the earlier attempts, if this is the last of several: `PATH` and `PATH-2` before
    /// `PATH-3`.
    pub fn earlier_attempts(&self) -> Vec<PathBuf> {
        let last = format!("-{}", self.run.attempts);
        let first = self.run.recording.as_ref().and_then(|path| path.trim_end_matches('/').strip_suffix(&last));
        first.map_or_else(Vec::new, |first| {
            (1..self.run.attempts).map(|attempt| attempt_folder(first.into(), attempt)).collect()
        })
    }

    /// Returns when the run started, if a recording has its times.
    pub fn started(&self) -> Option<Moment> {
        self.started
    }

    /// Returns whether it is certain that no line has a time.
    pub fn has_no_times(&self) -> bool {
        self.arrivals.is_none() && self.clock.is_none() && self.retelling.is_none() && !self.unsure
    }

    /// Returns whether this is not a stream, but a session file that an agent keeps for itself.
    pub fn is_transcript(&self) -> bool {
        self.retelling.is_some()
    }

    /// Returns whether its totals go on from those of the session that it was forked from.
    pub fn goes_on(&self) -> bool {
        self.retelling.as_ref().is_some_and(|retelling| retelling.about().goes_on)
    }

    /// Returns the text so far of messages that were never finished.
    pub fn unfinished(&self) -> Vec<Step> {
        self.fold.unfinished()
    }

    /// Returns the agent that wrote the stream, if it is known.
    pub fn agent(&self) -> Option<Agent> {
        self.fold.agent()
    }

    /// Returns what the run used and cost so far. Of a transcript, the archive knows it better.
    pub fn ledger(&self) -> Ledger {
        self.whole.clone().unwrap_or_else(|| self.fold.ledger())
    }

    /// Returns how the last turn ended, if the last line shows that it did and no step has told it yet.
    pub fn untold_end(&self) -> Option<SessionPhase> {
        self.retelling.as_ref().and_then(Retelling::untold_end)
    }

    /// Returns whether the next record is available without waiting.
    pub fn is_ready(&self) -> bool {
        self.input.is_ready() || self.redaction.as_ref().is_some_and(Redaction::is_ready)
    }

    /// Ends the source and returns everything that is known.
    pub fn finish(mut self) -> Finished {
        if let Some(retelling) = &self.retelling {
            // Whether a person reads along, a transcript does not say.
            self.ending.no_heuristics = true;
            let interrupted = retelling.is_interrupted().then_some(StopReason::Interrupted);
            self.ending.stopped = self.ending.stopped.or(interrupted);
        }
        let mut summary = self.fold.finish(&self.ending);
        if let Some(whole) = self.whole {
            summary.ledger = whole;
        }
        if let Some(retelling) = &self.retelling {
            let about = retelling.about();
            if let Some(how) = retelling.infers().filter(|_| summary.turns > 0) {
                summary.verdict.warnings.push(Warning::new("no-result", how));
            }
            let told = std::mem::replace(&mut summary.stream, retelling.stats());
            summary.stream.known = told.known;
            let setup = &mut summary.session.info.setup;
            setup.model = setup.model.take().or(about.model);
            setup.cwd = setup.cwd.take().or(about.cwd);
            setup.cli_version = setup.cli_version.take().or(about.version);
            let session = summary.session.info.id.as_deref();
            let counted = session.zip(self.path.as_deref()).and_then(|(id, path)| sessions::ledger_of_file(path, id));
            summary.ledger = counted.unwrap_or(summary.ledger);
        }
        summary.verdict.warnings.extend(self.lost.into_iter().map(|loss| Warning::new("recording-incomplete", loss)));
        let format = StreamFormat::of(self.input.shape(), summary.agent);
        Finished { summary, format, ending: self.ending, run: self.run, stop: self.stop }
    }

    /// Reads to the end and returns the report.
    pub fn report(mut self) -> Result<Report, SourceError> {
        let mut collector = Collector::default();
        while let Some((_, steps)) = self.advance()? {
            for step in steps {
                collector.take(step);
            }
        }
        let Finished { summary, format, ending, run, .. } = self.finish();
        Ok(collector.report(summary, format, run, &ending))
    }
}
