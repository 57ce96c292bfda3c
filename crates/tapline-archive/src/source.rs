//! A source: a recording, a file or any reader, as records and steps, with everything known about the run.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};

use tapline_protocol::{Agent, DEFAULT_LINE_LIMIT, Decoder, Input, InputFormat, InputShape, Moment, Record};
use tapline_recording::{Arrivals, Recording, Redactor, Stop, attempt_folder};
use tapline_session::{Collector, Ending, Fold, Ledger, Report, Run, Step, StreamFormat, Summary, Warning, What, parse_moment};

use crate::clean::Redaction;
use crate::error::SourceError;
use crate::recorded::{Note, Recorded, recorded};
use crate::sent::SentBefore;

/// Large reads mean fewer system calls. Every line is still returned at once.
const CHUNK: usize = 256 << 10;

/// The code of a line whose type streams do not have.
const UNKNOWN: &str = "unknown-type";

/// How many lines it takes at most to tell what a file is.
const SHOWS_WITHIN: u64 = 64;

/// What the caller knows better than the source.
///
/// ```
/// use tapline_archive::{Options, Source};
/// use tapline_session::{Ending, Outcome};
///
/// let failed = Options::default().with_ending(Ending { exit_code: Some(1), ..Ending::default() });
/// let stream = br#"{"type":"result","subtype":"success","is_error":false,"result":"4"}"#;
/// let report = Source::of("the stream", stream.as_slice(), failed)?.report()?;
/// assert_eq!(report.verdict.outcome, Outcome::Failure);
/// # Ok::<(), tapline_archive::SourceError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// The agent that wrote the stream. With `None`, the recording or the lines decide.
    pub agent: Option<Agent>,
    /// The format of the input. With `Auto`, the recording or the lines decide.
    pub format: InputFormat,
    /// Longer lines count as malformed.
    pub line_limit: Option<usize>,
    /// How the run ended.
    pub ending: Ending,
}

impl Options {
    /// Reads the stream as this agent's.
    #[must_use]
    pub fn with_agent(self, agent: Agent) -> Self {
        Self { agent: Some(agent), ..self }
    }

    /// Reads the input in this format.
    #[must_use]
    pub fn with_format(self, format: InputFormat) -> Self {
        Self { format, ..self }
    }

    /// Counts longer lines as malformed.
    #[must_use]
    pub fn with_line_limit(self, bytes: usize) -> Self {
        Self { line_limit: Some(bytes), ..self }
    }

    /// Says how the run ended.
    #[must_use]
    pub fn with_ending(self, ending: Ending) -> Self {
        Self { ending, ..self }
    }
}

/// A record and its steps. There is no record if the steps are about what the host sent.
pub type Advance = (Option<Record>, Vec<Step>);

/// An open stream and the fold that reads it.
///
/// ```
/// use tapline_archive::{Options, Source};
///
/// let stream = br#"{"type":"assistant","message":{"content":[{"type":"text","text":"4"}]}}"#;
/// let mut source = Source::of("the stream", stream.as_slice(), Options::default())?;
/// while let Some((_record, steps)) = source.advance()? {
///     steps.iter().for_each(|step| println!("{step:?}"));
/// }
/// assert_eq!(source.finish().summary.last_text, "4");
/// # Ok::<(), tapline_archive::SourceError>(())
/// ```
#[derive(Debug)]
pub struct Source<R> {
    name: String,
    input: Input<BufReader<R>>,
    fold: Fold,
    ending: Ending,
    run: Run,
    notes: Vec<Note>,
    /// Records that were read and not returned yet: what was sent before a record comes first, and it takes a few lines
    /// to tell what a stream is.
    held: VecDeque<Record>,
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
    /// Whether it is a session file, not a stream. Lines that streams do not have are then not reported.
    is_transcript: bool,
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

/// What is no text of ours, by its first bytes, and would be a line of garbage for each of its lines.
fn packed(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x1f, 0x8b, 0x08, ..] => Some("compressed with gzip: unpack it first (gunzip)"),
        [0xff, 0xfe, _, 0, ..] | [0xfe, 0xff, 0, _, ..] => {
            Some("UTF-16, not UTF-8: convert it first (iconv -f UTF-16 -t UTF-8)")
        }
        _ => None,
    }
}

/// Returns whether a record can only be from a stream. No transcript has such a line.
fn is_of_a_stream(record: &Record) -> bool {
    record.envelope.session_id.is_some() || record.envelope.kind.as_deref() == Some("thread.started")
}

impl Source<Box<dyn Read + Send>> {
    /// Opens a recording or a file.
    pub fn open(path: &Path, options: Options) -> Result<Self, SourceError> {
        let name = path.display().to_string();
        let open = |path: &Path| File::open(path).map_err(|error| SourceError::Open { name: name.clone(), error });
        if Recording::is_one(path) {
            let recording = Recording::open(path)?;
            let file = open(&recording.stdout())?;
            return Self::of_recording(name, path, &recording, Box::new(file), options);
        }
        if path.is_dir() {
            return Err(SourceError::Folder(path.to_owned()));
        }
        let file = open(path)?;
        let at_rest = file.metadata().is_ok_and(|meta| meta.is_file());
        Ok(Self { at_rest, ..Self::of(name, Box::new(file), options)? })
    }
}

impl<R: Read> Source<R> {
    /// Reads from any reader. Errors use this name for it.
    pub fn of(name: impl Into<String>, reader: R, options: Options) -> Result<Self, SourceError> {
        let Options { agent, format, line_limit, ending } = options;
        let name = name.into();
        let decoder = Decoder::with_line_limit(line_limit.unwrap_or(DEFAULT_LINE_LIMIT)).for_agent(agent);
        let mut reader = BufReader::with_capacity(CHUNK, reader);
        let head = if format == InputFormat::Auto { reader.fill_buf().unwrap_or_default() } else { &[] };
        if let Some(what) = packed(head) {
            return Err(SourceError::Packed { name, what });
        }
        let input = match Input::open(reader, format, decoder) {
            Ok(input) => input,
            Err(error) => return Err(SourceError::Read { name, error }),
        };
        Ok(Self {
            name,
            input,
            fold: Fold::for_agent(agent),
            ending,
            run: Run::default(),
            notes: Vec::new(),
            held: VecDeque::new(),
            looked: agent.is_some(),
            at_rest: false,
            sent: None,
            whole: None,
            lost: Vec::new(),
            redaction: None,
            unsure: true,
            is_transcript: false,
            heard: false,
            stop: None,
            started: None,
            arrivals: None,
            clock: None,
            bytes: 0,
        })
    }

    /// Opens a recording, which says itself how it ended. What the caller knows takes precedence.
    fn of_recording(
        name: String,
        path: &Path,
        recording: &Recording,
        stdout: R,
        mut options: Options,
    ) -> Result<Self, SourceError> {
        options.agent = options.agent.or_else(|| recording.meta.agent.as_deref().and_then(Agent::named));
        if options.format == InputFormat::Auto && recording.writes_lines() {
            options.format = InputFormat::Lines;
        }
        let Recorded { ending, run, notes } = recorded(recording, path, std::mem::take(&mut options.ending));
        let mut source = Self { ending, run, notes, ..Self::of(name, stdout, options)? };
        if let Some(end) = &recording.end {
            source.stop = end.stop;
            source.whole = end.ledger.as_ref().and_then(|ledger| ledger.to().ok());
            source.lost = end.lost.iter().map(ToString::to_string).collect();
        }
        // The elements of an array were written together, whenever each of them happened.
        source.arrivals = recording.arrivals().filter(|_| source.input.shape() != InputShape::VerboseDocument);
        source.started = source.arrivals.is_some().then(|| recording.started());
        source.sent = SentBefore::of(recording, source.arrivals.is_some());
        Ok(source)
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
        if self.held.is_empty() {
            self.hold_next()?;
        }
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
        let Some(record) = self.held.front() else { return Ok(None) };
        let mut steps = self.fold.apply(record);
        if self.is_transcript {
            steps.retain(|step| !matches!(&step.what, What::Odd(odd) if odd.code == UNKNOWN));
        }
        Ok(Some((self.held.pop_front(), steps)))
    }

    /// Reads and holds one more record, unless the stream has ended. A record is large, so it is moved as seldom as
    /// possible.
    fn hold_next(&mut self) -> Result<bool, SourceError> {
        // The redaction is taken out while it reads, because it may need several lines.
        let Some(mut redaction) = self.redaction.take() else {
            let Some(record) = self.read()? else { return Ok(false) };
            self.hold(record.bytes.len(), record);
            return Ok(true);
        };
        let next = redaction.next(|| self.read());
        self.redaction = Some(redaction);
        let next = next?;
        let is_one = next.is_some();
        if let Some((record, bytes)) = next {
            self.hold(bytes, record);
        }
        Ok(is_one)
    }

    #[inline]
    fn hold(&mut self, bytes: usize, record: Record) {
        if let Some(sent) = &mut self.sent {
            sent.received(bytes);
        }
        self.held.push_back(record);
    }

    /// Returns the next record of the stream, with its secrets.
    #[inline]
    fn read(&mut self) -> Result<Option<Record>, SourceError> {
        let mut record = match self.input.next() {
            None => {
                self.unsure = false;
                return Ok(None);
            }
            Some(Err(error)) => return Err(self.cannot_read(error)),
            Some(Ok(record)) => record,
        };
        self.bytes += record.bytes.len() as u64;
        record.arrived = match &mut self.arrivals {
            Some(arrivals) => arrivals.at(self.bytes),
            None => self.clock.map(|clock| clock()),
        };
        if self.unsure {
            if let Some(about) = record.in_transcript() {
                self.is_transcript = true;
                self.notes.push(Note::Transcript(about));
            }
            self.unsure = !self.is_transcript && record.line < SHOWS_WITHIN && !is_of_a_stream(&record);
        }
        if self.is_transcript {
            record.arrived = record.envelope.timestamp.as_deref().and_then(parse_moment);
        }
        Ok(Some(record))
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
            let shows = !dialect.is_open() || is_too_old || self.held.len() as u64 >= SHOWS_WITHIN;
            let is_over = shows || self.sent.is_some() || !self.is_ready() && !self.at_rest;
            if dialect.agent().is_none() && dialect.is_foreign() && is_over && !is_too_old && !self.is_transcript {
                self.notes.push(Note::Foreign);
            }
            if is_over {
                return Ok(());
            }
        }
        if self.held.back().is_some_and(|record| record.dialect.agent().is_none()) && !self.is_transcript {
            self.notes.push(Note::Foreign);
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
        self.arrivals.is_none() && self.clock.is_none() && !self.is_transcript && !self.unsure
    }

    /// Returns whether this is not a stream, but a session file that an agent keeps for itself.
    pub fn is_transcript(&self) -> bool {
        self.is_transcript
    }

    /// Returns the text so far of messages that were never finished.
    pub fn unfinished(&self) -> Vec<Step> {
        self.fold.unfinished()
    }

    /// Returns the agent that wrote the stream, if it is known.
    pub fn agent(&self) -> Option<Agent> {
        self.fold.agent()
    }

    /// Returns whether the next record is available without waiting.
    pub fn is_ready(&self) -> bool {
        self.input.is_ready() || self.redaction.as_ref().is_some_and(Redaction::is_ready)
    }

    /// Ends the source and returns everything that is known.
    pub fn finish(self) -> Finished {
        let mut summary = self.fold.finish(&self.ending);
        if let Some(whole) = self.whole {
            summary.ledger = whole;
        }
        if self.is_transcript {
            summary.verdict.warnings.retain(|warning| warning.code != UNKNOWN);
        }
        summary.verdict.warnings.extend(self.lost.into_iter().map(|loss| Warning::new("recording-incomplete", loss)));
        let format = StreamFormat::of(self.input.shape(), summary.agent);
        Finished { summary, format, ending: self.ending, run: self.run, stop: self.stop }
    }

    /// Reads to the end and returns the report.
    pub fn report(mut self) -> Result<Report, SourceError> {
        let mut collector = Collector::default();
        while let Some((_, steps)) = self.advance()? {
            for step in &steps {
                collector.accept(step);
            }
        }
        let Finished { summary, format, ending, run, .. } = self.finish();
        Ok(collector.report(summary, format, run, &ending))
    }
}
