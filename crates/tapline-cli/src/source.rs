//! Where records come from: a file, a recording or stdin, of any shape.

mod redaction;
mod sent;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, IsTerminal as _, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tapline_protocol::{Agent, DEFAULT_LINE_LIMIT, Decoder, Input, InputFormat, InputShape, Moment, Record, StopReason};
use tapline_recording::{Arrivals, Recording, Redactor, attempt_folder};
use tapline_runner::no_background_tasks;
use tapline_session::{Ending, Fold, Format, Ledger, Run, Step, Summary, Warning, What, parse_moment};

use crate::args::{Facts, Shape};
use crate::{clock, config, output, secrets, store};
use redaction::Redaction;

pub(crate) use redaction::{CleanMessages, CleanRecords};
use sent::SentBefore;

/// Large reads: fewer system calls, and still every line at once.
const CHUNK: usize = 256 << 10;

/// An open stream and the fold that reads it.
pub(crate) struct Source {
    name: String,
    input: Input<BufReader<Box<dyn Read>>>,
    fold: Fold,
    ending: Ending,
    run: Run,
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
    /// The clock that has stopped the run.
    clock: Option<String>,
    /// When the run started, and when its lines arrived, where a recording has it.
    started: Option<Moment>,
    arrivals: Option<Arrivals>,
    /// How much was read.
    bytes: u64,
}

/// A line of a type that streams do not have.
const UNKNOWN: &str = "unknown-type";

/// What a file is shows in its first lines.
const SHOWS_WITHIN: u64 = 64;

/// Whether it can be nothing else: no transcript has such a line.
fn is_of_a_stream(record: &Record) -> bool {
    record.envelope.session_id.is_some() || record.envelope.kind.as_deref() == Some("thread.started")
}

/// Whether a path means stdin.
pub(crate) fn is_stdin(path: Option<&Path>) -> bool {
    path.is_none_or(|path| path == Path::new("-"))
}

impl Source {
    /// Opens a file, or stdin for `-` and nothing.
    pub(crate) fn open(path: Option<&PathBuf>, facts: &Facts) -> Result<Self> {
        if is_stdin(path.map(PathBuf::as_path)) {
            if io::stdin().is_terminal() {
                output::tell("reading stdin: pipe a stream into tapline, or give a FILE (see --help)");
            }
            return Self::of("stdin".to_owned(), Box::new(io::stdin().lock()), facts);
        }
        let path = store::meant(path.map_or(Path::new(""), PathBuf::as_path))?;
        let name = path.display().to_string();
        if Recording::is_one(&path) {
            return Self::of_recording(name, &path, facts);
        }
        if path.is_dir() {
            bail!("{name} is a folder but not a recording: give a recording (one of the folders in it?) or a file");
        }
        let file = File::open(&path).with_context(|| format!("cannot open {name}"))?;
        let at_rest = file.metadata().is_ok_and(|meta| meta.is_file());
        Ok(Self { at_rest, ..Self::of(name, Box::new(file), facts)? })
    }

    /// A recording says itself how it ended; what the caller knows better is taken from the caller.
    fn of_recording(name: String, path: &Path, facts: &Facts) -> Result<Self> {
        let recording = Recording::open(path)?;
        let file = File::open(recording.stdout()).with_context(|| format!("cannot open {name}"))?;
        match &recording.end {
            None => output::tell(&format!("{name} is incomplete: the program that records it was killed or is still running")),
            Some(end) => end.lost.iter().for_each(|loss| output::tell(&format!("{name}: {loss}"))),
        }
        let named = recording.meta.agent.as_deref();
        let agent = named.and_then(Agent::named);
        let format = if recording.writes_lines() { InputFormat::Lines } else { InputFormat::Auto };
        let mut source = Self::with(name, Box::new(file), facts, agent, format)?;
        let end = recording.end.clone().unwrap_or_default();
        let stopped = end.stop.map(|stop| stop.reason);
        let limit = end.stop.and_then(|stop| stop.limit_ms).map(Duration::from_millis);
        let clock = stopped.zip(limit).and_then(|(reason, limit)| clock::told(reason, limit));
        if let Some(clock) = clock.as_ref().filter(|_| stopped == Some(StopReason::Linger)) {
            output::tell(&format!("{}: {clock}: it was stopped", source.name));
        }
        source.clock = clock.filter(|_| stopped.is_some_and(StopReason::is_timeout));
        let given = source.ending;
        let stderr = recording.stderr_head(STDERR_KEPT).ok().filter(|text| !text.is_empty());
        let clean = |text: String| config::redactor().map(|(redactor, _)| redactor.text(&text).into_owned());
        let stderr = stderr.map(clean).transpose()?;
        source.ending = Ending {
            exit_code: given.exit_code.or(end.exit_code),
            signal: given.signal.or(end.signal),
            stderr: given.stderr.or(stderr),
            stopped: given.stopped.or(stopped),
            violated: end.violated,
            no_heuristics: given.no_heuristics || recording.meta.no_heuristics,
            no_background_tasks: given.no_background_tasks || recording.meta.no_background_tasks,
            ..given
        };
        source.run = Run {
            started_at: end.started_at.or_else(|| recording.meta.started_at.clone()),
            duration_ms: end.duration_ms,
            attempts: end.attempts.unwrap_or(1),
            label: recording.meta.label.clone(),
            recording: Some(path.display().to_string()),
        };
        source.whole = end.ledger.as_ref().and_then(Ledger::from_json);
        source.lost = end.lost.iter().map(ToString::to_string).collect();
        // The elements of an array were written together, whenever each of them happened.
        source.arrivals = recording.arrivals().filter(|_| source.input.shape() != InputShape::VerboseDocument);
        source.started = source.arrivals.is_some().then(|| recording.started());
        source.sent = SentBefore::of(&recording, source.arrivals.is_some());
        Ok(source)
    }

    /// Takes secrets out of all that is read from here on.
    pub(crate) fn redacted(self) -> Result<Self> {
        Ok(self.redacted_by(secrets::redactor()?))
    }

    pub(crate) fn redacted_by(mut self, redactor: Redactor) -> Self {
        let Ending { stderr, last_message, violated, .. } = &mut self.ending;
        for text in [stderr, last_message, violated, &mut self.run.label].into_iter().flatten() {
            *text = redactor.text(text).into_owned();
        }
        self.redaction = Some(Redaction::new(redactor));
        self
    }

    /// Reads from anything.
    pub(crate) fn of(name: String, reader: Box<dyn Read>, facts: &Facts) -> Result<Self> {
        Self::with(name, reader, facts, None, InputFormat::Auto)
    }

    /// It need not be an agent's stream: nothing is said where it is none.
    pub(crate) fn of_whomever(self) -> Self {
        Self { looked: true, ..self }
    }

    /// Reads from anything of which somebody knows the agent or the format, unless the caller knows better.
    fn with(name: String, reader: Box<dyn Read>, facts: &Facts, agent: Option<Agent>, format: InputFormat) -> Result<Self> {
        let format = match facts.input_format {
            Shape::Auto => format,
            Shape::StreamJson | Shape::ExecJson => InputFormat::Lines,
            Shape::Json => InputFormat::Document,
        };
        let agent = match (facts.agent, facts.input_format) {
            (Some(agent), _) => Some(agent),
            (None, Shape::StreamJson | Shape::Json) => Format::StreamJson.agent(),
            (None, Shape::ExecJson) => Format::ExecJson.agent(),
            (None, Shape::Auto) => agent,
        };
        let limit = facts.line_limit.map_or(DEFAULT_LINE_LIMIT, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let reader = BufReader::with_capacity(CHUNK, reader);
        let decoder = Decoder::with_line_limit(limit).for_agent(agent);
        let input = Input::open(reader, format, decoder).with_context(|| format!("cannot read {name}"))?;
        let (fold, ending) = (Fold::for_agent(agent), ending(facts)?);
        Ok(Self {
            name,
            input,
            fold,
            ending,
            run: Run::default(),
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
            clock: None,
            started: None,
            arrivals: None,
            bytes: 0,
        })
    }

    /// The next record, for those who pass it on unread.
    pub(crate) fn next_record(&mut self) -> Result<Option<Record>> {
        if self.held.is_empty() {
            self.hold_next()?;
        }
        Ok(self.held.pop_front())
    }

    /// The next record and what happened in it; no record where it was the host that said something.
    pub(crate) fn next(&mut self) -> Result<Option<(Option<Record>, Vec<Step>)>> {
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
    fn hold_next(&mut self) -> Result<bool> {
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
    fn read(&mut self) -> Result<Option<Record>> {
        let mut record = match self.input.next() {
            None => {
                self.unsure = false;
                return Ok(None);
            }
            Some(Err(error)) => return Err(error).with_context(|| format!("cannot read {}", self.name)),
            Some(Ok(record)) => record,
        };
        self.bytes += record.bytes.len() as u64;
        record.arrived = self.arrivals.as_mut().and_then(|arrivals| arrivals.at(self.bytes));
        if self.unsure {
            if let Some(about) = record.in_transcript() {
                self.is_transcript = true;
                output::tell(&format!("{} is {about}", self.name));
            }
            self.unsure = !self.is_transcript && record.line < SHOWS_WITHIN && !is_of_a_stream(&record);
        }
        if self.is_transcript {
            record.arrived = record.envelope.timestamp.as_deref().and_then(parse_moment);
        }
        Ok(Some(record))
    }

    /// Says first of all that nobody's stream this is, as far as that shows in the lines that are there. What was sent between the
    /// lines of a recording stays between them: there only the first is looked at.
    fn look_ahead(&mut self) -> Result<()> {
        while self.hold_next()? {
            let Some(record) = self.held.back() else { break };
            let (dialect, is_too_old) = (record.dialect, record.too_old().is_some());
            let shows = !dialect.is_open() || is_too_old || self.held.len() as u64 >= SHOWS_WITHIN;
            let is_over = shows || self.sent.is_some() || self.may_wait() && !self.at_rest;
            if dialect.agent().is_none() && dialect.is_foreign() && is_over && !is_too_old && !self.is_transcript {
                self.tell_nobodys();
            }
            if is_over {
                return Ok(());
            }
        }
        if self.held.back().is_some_and(|record| record.dialect.agent().is_none()) && !self.is_transcript {
            self.tell_nobodys();
        }
        Ok(())
    }

    fn tell_nobodys(&self) {
        output::tell(&format!("{}: no agent that tapline knows wrote this stream", self.name));
    }

    /// The rule that the run was stopped for, which no longer counts.
    pub(crate) fn take_violation(&mut self) -> Option<String> {
        self.ending.violated.take()
    }

    /// How many attempts the run had; 1 where that is not known.
    pub(crate) fn attempts(&self) -> u64 {
        self.run.attempts.max(1)
    }

    /// Where the attempts before this one are kept, if it is the last of several: `PATH`, `PATH-2` before `PATH-3`.
    pub(crate) fn earlier_attempts(&self) -> Vec<PathBuf> {
        let last = format!("-{}", self.run.attempts);
        let first = self.run.recording.as_ref().and_then(|path| path.trim_end_matches('/').strip_suffix(&last));
        first.map_or_else(Vec::new, |first| {
            (1..self.run.attempts).map(|attempt| attempt_folder(first.into(), attempt)).collect()
        })
    }

    /// When the run started, if a recording has its times.
    pub(crate) fn started(&self) -> Option<Moment> {
        self.started
    }

    pub(crate) fn tell_no_times(&self) {
        output::tell(&format!(
            "{} has no times, so none are shown: recordings (`tapline run`) and transcripts have them",
            self.name
        ));
    }

    /// Whether it is known that no line of it has a time.
    pub(crate) fn has_no_times(&self) -> bool {
        self.arrivals.is_none() && !self.is_transcript && !self.unsure
    }

    /// Whether it is no stream, but what an agent keeps of a session.
    pub(crate) fn is_transcript(&self) -> bool {
        self.is_transcript
    }

    /// How long the run took, if that is known.
    pub(crate) fn took(&self) -> Option<Duration> {
        self.run.duration_ms.map(Duration::from_millis)
    }

    /// What a message that was never finished has said so far.
    pub(crate) fn unfinished(&self) -> Vec<Step> {
        self.fold.unfinished()
    }

    /// Whose stream it is, as far as it is known.
    pub(crate) fn agent(&self) -> Option<Agent> {
        self.fold.agent()
    }

    /// Whether taking the next record may have to wait: what was put out must be seen by then.
    pub(crate) fn may_wait(&self) -> bool {
        !self.input.is_ready() && !self.redaction.as_ref().is_some_and(Redaction::is_ready)
    }

    /// Everything that is known at the end.
    pub(crate) fn finish(self) -> (Summary, Format, Ending, Run) {
        let mut summary = self.fold.finish(&self.ending);
        if let Some(whole) = self.whole {
            summary.ledger = whole;
        }
        if self.is_transcript {
            summary.verdict.warnings.retain(|warning| warning.code != UNKNOWN);
        }
        summary.verdict.clock = self.clock;
        let lost = self.lost.into_iter().map(|message| Warning { code: "recording-incomplete", message, line: None });
        summary.verdict.warnings.extend(lost);
        let format = Format::of(self.input.shape(), summary.agent);
        (summary, format, self.ending, self.run)
    }
}

/// What the verdict of a run looks at; a recording may have more of it.
const STDERR_KEPT: u64 = 64 << 10;

/// What the caller knows of the run's end.
fn ending(facts: &Facts) -> Result<Ending> {
    let read = |path: &Option<PathBuf>| -> Result<Option<String>> {
        let Some(path) = path else { return Ok(None) };
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    };
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| value == "1");
    Ok(Ending {
        exit_code: facts.exit_code,
        signal: facts.signal.clone(),
        stderr: read(&facts.stderr)?,
        stopped: facts.timed_out.then_some(StopReason::Timeout),
        last_message: read(&facts.last_message)?,
        no_heuristics: facts.no_heuristics,
        no_background_tasks: Agent::ALL.iter().filter_map(|agent| no_background_tasks(*agent)).any(is_set),
        ..Ending::default()
    })
}
