//! Where records come from: a file, a recording or stdin, of any shape. The library reads them; here is what the command line
//! says of them, and what a person is told.

mod messages;

use std::io::{self, IsTerminal as _, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tapline_archive::{Advance, Finished, Note, Options, SourceError};
use tapline_protocol::{Agent, InputFormat, Moment, Record, StopReason};
use tapline_recording::{Redactor, Stop};
use tapline_runner::no_background_tasks;
use tapline_session::{Ending, Format, Run, Step, Summary};

use crate::args::{Facts, Shape};
use crate::{clock, config, output, secrets, store};

pub(crate) use messages::CleanMessages;

/// An open stream that tells a person what there is to know about it.
pub(crate) struct Source {
    inner: tapline_archive::Source<Box<dyn Read + Send>>,
    /// It need not be an agent's stream.
    of_whomever: bool,
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
            return Self::of("stdin".to_owned(), Box::new(io::stdin()), facts);
        }
        let path = store::meant(path.map_or(Path::new(""), PathBuf::as_path))?;
        let opened = tapline_archive::Source::open(&path, options(facts)?);
        let inner = opened.map_err(|error| match error {
            SourceError::Folder(_) => anyhow!("{error}: give a recording (one of the folders in it?) or a file"),
            error => error.into(),
        })?;
        let mut source = Self { inner, of_whomever: false };
        if let Some(stderr) = source.inner.ending_mut().stderr.as_mut().filter(|_| facts.stderr.is_none()) {
            // A recording's: the user may have patterns of secrets beside those that are always taken out.
            *stderr = config::redactor()?.0.text(stderr).into_owned();
        }
        source.tell();
        Ok(source)
    }

    /// Reads from anything.
    pub(crate) fn of(name: String, reader: Box<dyn Read + Send>, facts: &Facts) -> Result<Self> {
        Ok(Self { inner: tapline_archive::Source::of(name, reader, options(facts)?)?, of_whomever: false })
    }

    /// It need not be an agent's stream: nothing is said where it is none.
    pub(crate) fn of_whomever(self) -> Self {
        Self { of_whomever: true, ..self }
    }

    /// Takes secrets out of all that is read from here on.
    pub(crate) fn redacted(self) -> Result<Self> {
        Ok(self.redacted_by(secrets::redactor()?))
    }

    pub(crate) fn redacted_by(self, redactor: Redactor) -> Self {
        Self { inner: self.inner.redacted_by(redactor), ..self }
    }

    fn tell(&mut self) {
        for note in self.inner.take_notes() {
            let name = self.inner.name();
            let told = match note {
                Note::NoEnd => {
                    Some(format!("{name} is incomplete: the program that records it was killed or is still running"))
                }
                Note::Lost(loss) => Some(format!("{name}: {loss}")),
                Note::Lingered(stop) => clock_of(stop).map(|clock| format!("{name}: {clock}: it was stopped")),
                Note::Transcript(about) => Some(format!("{name} is {about}")),
                Note::Foreign if self.of_whomever => None,
                Note::Foreign => {
                    let known: Vec<_> = Agent::ALL.iter().map(|agent| agent.name()).collect();
                    Some(format!("{name}: no agent that tapline knows ({}) wrote this stream", known.join(", ")))
                }
            };
            if let Some(told) = told {
                output::tell(&told);
            }
        }
    }

    /// The next record, for those who pass it on unread.
    #[inline]
    pub(crate) fn next_record(&mut self) -> Result<Option<Record>, SourceError> {
        let next = self.inner.next_record();
        self.tell();
        next
    }

    /// The next record and what happened in it; no record where it was the host that said something.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Advance>, SourceError> {
        let next = self.inner.advance();
        self.tell();
        next
    }

    /// The rule that the run was stopped for, which no longer counts.
    pub(crate) fn take_violation(&mut self) -> Option<String> {
        self.inner.ending_mut().violated.take()
    }

    /// How many attempts the run had; 1 where that is not known.
    pub(crate) fn attempts(&self) -> u64 {
        self.inner.run().attempts.max(1)
    }

    /// Where the attempts before this one are kept.
    pub(crate) fn earlier_attempts(&self) -> Vec<PathBuf> {
        self.inner.earlier_attempts()
    }

    /// When the run started, if a recording has its times.
    pub(crate) fn started(&self) -> Option<Moment> {
        self.inner.started()
    }

    pub(crate) fn tell_no_times(&self) {
        output::tell(&format!(
            "{} has no times, so none are shown: recordings (`tapline run`) and transcripts have them",
            self.inner.name()
        ));
    }

    /// Whether it is known that no line of it has a time.
    pub(crate) fn has_no_times(&self) -> bool {
        self.inner.has_no_times()
    }

    /// Whether it is no stream, but what an agent keeps of a session.
    pub(crate) fn is_transcript(&self) -> bool {
        self.inner.is_transcript()
    }

    /// How long the run took, if that is known.
    pub(crate) fn took(&self) -> Option<Duration> {
        self.inner.run().duration_ms.map(Duration::from_millis)
    }

    /// What a message that was never finished has said so far.
    pub(crate) fn unfinished(&self) -> Vec<Step> {
        self.inner.unfinished()
    }

    /// Whose stream it is, as far as it is known.
    pub(crate) fn agent(&self) -> Option<Agent> {
        self.inner.agent()
    }

    /// Whether taking the next record may have to wait: what was put out must be seen by then.
    pub(crate) fn may_wait(&self) -> bool {
        !self.inner.is_ready()
    }

    /// Everything that is known at the end.
    pub(crate) fn finish(self) -> (Summary, Format, Ending, Run) {
        let Finished { mut summary, format, ending, run, stop, .. } = self.inner.finish();
        *summary.verdict.clock = stop.filter(|stop| stop.reason.is_timeout()).and_then(clock_of);
        clock::measure(&mut summary, run.duration_ms);
        (summary, format, ending, run)
    }
}

/// The clock that stopped a run, in words.
fn clock_of(stop: Stop) -> Option<String> {
    clock::told(stop.reason, Duration::from_millis(stop.limit_ms?))
}

/// What the caller knows better than the source.
fn options(facts: &Facts) -> Result<Options> {
    let read = |path: &Option<PathBuf>| -> Result<Option<String>> {
        let Some(path) = path else { return Ok(None) };
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    };
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| value == "1");
    let mut options = Options::default();
    (options.agent, options.format) = match facts.input_format {
        Shape::Auto => (None, InputFormat::Auto),
        Shape::StreamJson => (Format::StreamJson.agent(), InputFormat::Lines),
        Shape::Json => (Format::StreamJson.agent(), InputFormat::Document),
        Shape::ExecJson => (Format::ExecJson.agent(), InputFormat::Lines),
    };
    options.agent = facts.agent.or(options.agent);
    options.line_limit = facts.line_limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    options.ending = Ending {
        exit_code: facts.exit_code,
        signal: facts.signal.clone(),
        stderr: read(&facts.stderr)?,
        stopped: facts.timed_out.then_some(StopReason::Timeout),
        last_message: read(&facts.last_message)?,
        no_heuristics: facts.no_heuristics,
        no_background_tasks: Agent::ALL.iter().filter_map(|agent| no_background_tasks(*agent)).any(is_set),
        ..Ending::default()
    };
    Ok(options)
}
