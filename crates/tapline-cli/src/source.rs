//! Where records come from: a file, a recording or stdin, of any shape.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, IsTerminal as _, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tapline_protocol::{Agent, DEFAULT_LINE_LIMIT, Decoder, Input, InputFormat, Record};
use tapline_recording::{Meta, Recording, StreamRedactor};
use tapline_session::{Ending, Fold, Format, Run, Step, Summary};

use crate::args::{Facts, Shape};
use crate::{config, output};

/// Large reads: fewer system calls, and still every line at once.
const CHUNK: usize = 256 << 10;

/// An open stream and the fold that reads it.
pub(crate) struct Source {
    name: String,
    input: Input<BufReader<Box<dyn Read>>>,
    fold: Fold,
    ending: Ending,
    run: Run,
    redaction: Option<Redaction>,
}

/// What is read is decoded again without its secrets.
struct Redaction {
    stream: StreamRedactor,
    decoder: Decoder,
    /// What went in and has not come out.
    waiting: VecDeque<Record>,
    /// What came out and was not taken.
    ready: VecDeque<Vec<u8>>,
    ended: bool,
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
                output::tell("reading stdin: pipe a stream in, or give a FILE (--help says how)");
            }
            return Self::of("stdin".to_owned(), Box::new(io::stdin().lock()), facts);
        }
        let path = path.map_or_else(PathBuf::new, Clone::clone);
        let name = path.display().to_string();
        if Recording::is_one(&path) {
            return Self::of_recording(name, &path, facts);
        }
        if path.is_dir() {
            bail!("{name} is a folder, and no recording: give a recording (one of the folders in it?) or the stream's file");
        }
        let file = File::open(&path).with_context(|| format!("cannot open {name}"))?;
        Self::of(name, Box::new(file), facts)
    }

    /// A recording says itself how it ended; what the caller knows better is taken from the caller.
    fn of_recording(name: String, path: &Path, facts: &Facts) -> Result<Self> {
        let recording = Recording::open(path)?;
        let file = File::open(recording.stdout()).with_context(|| format!("cannot open {name}"))?;
        match &recording.end {
            None => output::tell(&format!("{name} has no end: who recorded it did not live to see it, or still does")),
            Some(end) => end.lost.iter().for_each(|loss| output::tell(&format!("{name}: {loss}"))),
        }
        let mut source = Self::of(name, Box::new(file), facts)?;
        let end = recording.end.clone().unwrap_or_default();
        let given = source.ending;
        let stderr = recording.stderr().ok().filter(|text| !text.is_empty());
        let stderr = stderr.map(|text| config::redactor().map(|redactor| redactor.text(&text).into_owned())).transpose()?;
        source.ending = Ending {
            exit_code: given.exit_code.or(end.exit_code),
            signal: given.signal.or(end.signal),
            stderr: given.stderr.or(stderr),
            timed_out: given.timed_out || end.timed_out,
            interrupted: end.interrupted,
            lingered: end.lingered,
            violated: end.violated,
            ..given
        };
        let Meta { started_at, label, .. } = recording.meta;
        let recording = Some(path.display().to_string());
        source.run = Run { started_at, duration_ms: end.duration_ms, label, recording, ..Run::default() };
        Ok(source)
    }

    /// Takes secrets out of all that is read from here on.
    pub(crate) fn redacted(mut self) -> Result<Self> {
        let redactor = config::redactor()?;
        for text in [&mut self.ending.stderr, &mut self.ending.last_message].into_iter().flatten() {
            *text = redactor.text(text).into_owned();
        }
        let (decoder, waiting, ready) = (Decoder::default(), VecDeque::new(), VecDeque::new());
        self.redaction = Some(Redaction { stream: redactor.stream(), decoder, waiting, ready, ended: false });
        Ok(self)
    }

    /// Reads from anything.
    pub(crate) fn of(name: String, reader: Box<dyn Read>, facts: &Facts) -> Result<Self> {
        let format = match facts.input_format {
            Shape::Auto => InputFormat::Auto,
            Shape::StreamJson | Shape::ExecJson => InputFormat::Lines,
            Shape::Json => InputFormat::Document,
        };
        let agent = match (facts.agent, facts.input_format) {
            (Some(name), _) => Some(Agent::from(name)),
            (None, Shape::StreamJson | Shape::Json) => Some(Agent::Claude),
            (None, Shape::ExecJson) => Some(Agent::Codex),
            (None, Shape::Auto) => None,
        };
        let limit = facts.line_limit.map_or(DEFAULT_LINE_LIMIT, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let reader = BufReader::with_capacity(CHUNK, reader);
        let input =
            Input::open(reader, format, Decoder::with_line_limit(limit)).with_context(|| format!("cannot read {name}"))?;
        let (fold, ending) = (Fold::for_agent(agent), ending(facts)?);
        Ok(Self { name, input, fold, ending, run: Run::default(), redaction: None })
    }

    /// The next record, for those who pass it on unread.
    pub(crate) fn next_record(&mut self) -> Result<Option<Record>> {
        let Self { input, name, redaction, .. } = self;
        let mut read = || input.next().transpose().with_context(|| format!("cannot read {name}"));
        match redaction {
            Some(redaction) => redaction.next(read),
            None => read(),
        }
    }

    /// The next record and what happened in it.
    pub(crate) fn next(&mut self) -> Result<Option<(Record, Vec<Step>)>> {
        let Some(record) = self.next_record()? else { return Ok(None) };
        let steps = self.fold.apply(&record);
        Ok(Some((record, steps)))
    }

    /// What a message that was never finished has said so far.
    pub(crate) fn unfinished(&self) -> Vec<Step> {
        self.fold.unfinished()
    }

    /// Whose stream it is, as far as it is known.
    pub(crate) fn agent(&self) -> Agent {
        self.fold.agent()
    }

    /// Whether taking the next record may have to wait: what was put out must be seen by then.
    pub(crate) fn may_wait(&self) -> bool {
        !self.input.is_ready() && self.redaction.as_ref().is_none_or(|redaction| redaction.ready.is_empty())
    }

    /// Everything that is known at the end.
    pub(crate) fn finish(self) -> (Summary, Format, Ending, Run) {
        let summary = self.fold.finish(&self.ending);
        let format = Format::of(self.input.shape(), summary.agent);
        (summary, format, self.ending, self.run)
    }
}

impl Redaction {
    fn next(&mut self, mut read: impl FnMut() -> Result<Option<Record>>) -> Result<Option<Record>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Ok(self.waiting.pop_front().map(|record| self.decoder.decode_again(record, bytes)));
            }
            if self.ended {
                return Ok(None);
            }
            if let Some(record) = read()? {
                self.stream.line(record.bytes.clone(), |line| self.ready.push_back(line));
                self.waiting.push_back(record);
            } else {
                self.ended = true;
                self.stream.finish(|line| self.ready.push_back(line));
            }
        }
    }
}

/// What the caller knows of the run's end.
fn ending(facts: &Facts) -> Result<Ending> {
    let read = |path: &Option<PathBuf>| -> Result<Option<String>> {
        let Some(path) = path else { return Ok(None) };
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    };
    Ok(Ending {
        exit_code: facts.exit_code,
        signal: facts.signal.clone(),
        stderr: read(&facts.stderr)?,
        timed_out: facts.timed_out,
        last_message: read(&facts.last_message)?,
        no_heuristics: facts.no_heuristics,
        no_background_tasks: std::env::var_os("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS").is_some_and(|value| value == "1"),
        ..Ending::default()
    })
}
