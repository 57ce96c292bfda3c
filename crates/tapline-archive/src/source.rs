//! A source: a recording, a file or anything that can be read, as records and steps with all that is known of the run.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};

use tapline_protocol::{Agent, DEFAULT_LINE_LIMIT, Decoder, Input, InputFormat, InputShape, Moment, Record};
use tapline_recording::{Arrivals, Recording, Redactor, Stop, attempt_folder};
use tapline_session::{Collector, Ending, Fold, Format, Ledger, Report, Run, Step, Summary, Warning, What, parse_moment};

use crate::clean::Redaction;
use crate::error::SourceError;
use crate::recorded::{Note, Recorded, recorded};
use crate::sent::SentBefore;

/// Large reads: fewer system calls, and still every line at once.
const CHUNK: usize = 256 << 10;

/// A line of a type that streams do not have.
const UNKNOWN: &str = "unknown-type";

/// What a file is shows in its first lines.
const SHOWS_WITHIN: u64 = 64;

/// What the caller knows better than the source.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Which agent wrote the stream; `None`: the recording or the lines say it.
    pub agent: Option<Agent>,
    /// The format of the input; `Auto`: the recording or the lines say it.
    pub format: InputFormat,
    /// Longer lines count as malformed.
    pub line_limit: Option<usize>,
    /// How the run ended.
    pub ending: Ending,
}

/// A record and what happened in it; no record where it was the host that said something.
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
    /// Records that were read and not handed out: what was sent before one is told first, and what a stream is shows in its first lines.
    held: VecDeque<Record>,
    /// It was looked whose stream it is.
    looked: bool,
    /// It is a file, and no line of it is waited for.
    at_rest: bool,
    /// What was sent to the agent, where a recording has it.
    sent: Option<SentBefore>,
    /// Of a run that was tried more than once: what all attempts cost.
    whole: Option<Ledger>,
    /// Where the recording is incomplete.
    lost: Vec<String>,
    redaction: Option<Redaction>,
    /// It may still turn out to be no stream.
    unsure: bool,
    /// It is none: of lines that streams do not have, nothing more is said.
    is_transcript: bool,
    /// The fold knows what stands on stderr.
    heard: bool,
    /// Why the run was stopped.
    stop: Option<Stop>,
    /// When the run started, and when its lines arrived, where a recording has it.
    started: Option<Moment>,
    arrivals: Option<Arrivals>,
    /// Where lines arrive as they are read: the time.
    clock: Option<fn() -> Moment>,
    /// How much was read.
    bytes: u64,
}

/// Everything that is known at the end of a source.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finished {
    /// What happened.
    pub summary: Summary,
    /// The format of the input.
    pub format: Format,
    /// How the run ended.
    pub ending: Ending,
    /// What only the program that ran the agent knows.
    pub run: Run,
    /// Why the run was stopped, and by what clock, as a recording says it.
    pub stop: Option<Stop>,
}

/// What is no text of ours, by its first bytes, and would be a line of garbage for each of its lines.
fn packed(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x1f, 0x8b, ..] => Some("compressed with gzip: unpack it first (gunzip)"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("UTF-16, not UTF-8: convert it first (iconv -f UTF-16 -t UTF-8)"),
        _ => None,
    }
}

/// Whether it can be nothing else: no transcript has such a line.
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
    /// Reads from anything; errors call it by this name.
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

    /// A recording says itself how it ended; what the caller knows better is taken from the caller.
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

    /// Takes secrets out of all that is read from here on.
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

    /// What it is called in errors: a path, as a rule.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What there is to tell a person, and was not taken yet. Some of it shows only while it is read.
    #[inline]
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// The next record, for those who pass it on unread.
    pub fn next_record(&mut self) -> Result<Option<Record>, SourceError> {
        if self.held.is_empty() {
            self.hold_next()?;
        }
        Ok(self.held.pop_front())
    }

    /// The next record and what happened in it; no record where it was the host that said something.
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

    /// Reads one more record and holds it, unless the stream is over. A record is large: it is moved as seldom as can be.
    fn hold_next(&mut self) -> Result<bool, SourceError> {
        // Taken out for as long as it reads on: it may want several lines.
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

    /// The next record as it stands in the stream.
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

    /// Notes first of all that nobody's stream this is, as far as that shows in the lines that are there. What was sent between the
    /// lines of a recording stays between them: there only the first is looked at.
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

    /// How the run ended, as far as that is known outside of the stream.
    pub fn ending_mut(&mut self) -> &mut Ending {
        &mut self.ending
    }

    /// What only the program that ran the agent knows.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Where the attempts before this one are kept, if it is the last of several: `PATH`, `PATH-2` before `PATH-3`.
    pub fn earlier_attempts(&self) -> Vec<PathBuf> {
        let last = format!("-{}", self.run.attempts);
        let first = self.run.recording.as_ref().and_then(|path| path.trim_end_matches('/').strip_suffix(&last));
        first.map_or_else(Vec::new, |first| {
            (1..self.run.attempts).map(|attempt| attempt_folder(first.into(), attempt)).collect()
        })
    }

    /// When the run started, if a recording has its times.
    pub fn started(&self) -> Option<Moment> {
        self.started
    }

    /// Whether it is known that no line of it has a time.
    pub fn has_no_times(&self) -> bool {
        self.arrivals.is_none() && self.clock.is_none() && !self.is_transcript && !self.unsure
    }

    /// Whether it is no stream, but what an agent keeps of a session.
    pub fn is_transcript(&self) -> bool {
        self.is_transcript
    }

    /// What a message that was never finished has said so far.
    pub fn unfinished(&self) -> Vec<Step> {
        self.fold.unfinished()
    }

    /// Whose stream it is, as far as it is known.
    pub fn agent(&self) -> Option<Agent> {
        self.fold.agent()
    }

    /// Whether the next record is there without waiting for it.
    pub fn is_ready(&self) -> bool {
        self.input.is_ready() || self.redaction.as_ref().is_some_and(Redaction::is_ready)
    }

    /// Everything that is known at the end.
    pub fn finish(self) -> Finished {
        let mut summary = self.fold.finish(&self.ending);
        if let Some(whole) = self.whole {
            summary.ledger = whole;
        }
        if self.is_transcript {
            summary.verdict.warnings.retain(|warning| warning.code != UNKNOWN);
        }
        summary.verdict.warnings.extend(self.lost.into_iter().map(|loss| Warning::new("recording-incomplete", loss)));
        let format = Format::of(self.input.shape(), summary.agent);
        Finished { summary, format, ending: self.ending, run: self.run, stop: self.stop }
    }

    /// Reads to the end, and reports.
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
