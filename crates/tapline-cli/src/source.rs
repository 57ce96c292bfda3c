//! Where records come from: a file, a recording or stdin, of any shape. The library reads them; here is what the
//! command line says about them, and what people are told.

use std::io::{self, IsTerminal as _, Read};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tapline_archive::{Advance, Finished, Note, SourceError, SourceOptions};
use tapline_protocol::{Agent, InputFormat, Record, StopReason};
use tapline_recording::{Redactor, Stop};
use tapline_runner::no_background_tasks;
use tapline_session::{Ending, Fold, StreamFormat, Verdict, took_ms};

use crate::args::{Facts, Shape};
use crate::clean::CleanReading;
use crate::{archive, ci, clock, config, output, secrets, store};

/// Returns whether lines arrive as they are written: a pipe, not a file.
pub(crate) fn is_live(path: Option<&Path>) -> bool {
    let meta = match path.filter(|_| !is_stdin(path)) {
        Some(path) => path.metadata(),
        None => io::stdin().as_fd().try_clone_to_owned().map(std::fs::File::from).and_then(|stdin| stdin.metadata()),
    };
    meta.is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
}

/// An open stream that tells people what they need to know about it.
pub(crate) struct Source {
    pub(crate) inner: tapline_archive::Source<Box<dyn Read + Send>>,
    /// Whether it need not be an agent's stream.
    of_whomever: bool,
    /// For annotations.
    clean: Option<Box<CleanReading>>,
}

/// Returns whether a path means stdin.
pub(crate) fn is_stdin(path: Option<&Path>) -> bool {
    path.is_none_or(|path| path == Path::new("-"))
}

/// Says that somebody at a terminal is waited for, who may not know it.
pub(crate) fn tell_of_typing(what: &str) {
    if io::stdin().is_terminal() {
        output::tell(&format!("reading {what} from the terminal: end it with Ctrl-D on a line of its own"));
    }
}

impl Source {
    /// Opens a file, or stdin for `-` or no path.
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
        let mut source = Self { inner, of_whomever: false, clean: None };
        if let Some(stderr) = source.inner.ending_mut().stderr.as_mut().filter(|_| facts.stderr.is_none()) {
            // It is from a recording. The user may have patterns of secrets in addition to those that are always
            // removed.
            *stderr = config::redactor()?.0.text(stderr).into_owned();
        }
        source.tell();
        Ok(source)
    }

    /// Reads from any reader.
    pub(crate) fn of(name: String, reader: Box<dyn Read + Send>, facts: &Facts) -> Result<Self> {
        Ok(Self { inner: tapline_archive::Source::of(name, reader, options(facts)?)?, of_whomever: false, clean: None })
    }

    /// Takes the times of arrival from the clock, for lines that arrive as they are written.
    pub(crate) fn timed(self) -> Self {
        Self { inner: self.inner.timed_by(tapline_runner::moment), ..self }
    }

    /// Says nothing if it is not an agent's stream.
    pub(crate) fn of_whomever(self) -> Self {
        Self { of_whomever: true, ..self }
    }

    /// Removes secrets from everything that is read from here on.
    pub(crate) fn redacted(self) -> Result<Self> {
        Ok(self.redacted_by(secrets::redactor()?))
    }

    /// What annotations tell of its verdict has no secrets: the log of a job is read by many.
    pub(crate) fn annotated(self, is_judged: bool) -> Self {
        let clean = || Box::new(CleanReading::new(ci::redactor().clone(), Fold::for_agent(self.inner.agent())));
        let clean = (is_judged && ci::is_job()).then(clean);
        Self { clean, ..self }
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
                // It is read like a stream.
                Note::Transcript(_) => None,
                Note::Empty => Some(format!("{name} is empty")),
                Note::Foreign if self.of_whomever => None,
                Note::Foreign => {
                    let known: Vec<_> = Agent::ALL.iter().map(|agent| agent.name()).collect();
                    Some(format!("{name}: no known agent ({}) wrote this stream", known.join(", ")))
                }
            };
            if let Some(told) = told {
                output::tell(&told);
            }
        }
    }

    /// Returns the next record, for callers that pass it on unread.
    #[inline]
    pub(crate) fn next_record(&mut self) -> Result<Option<Record>, SourceError> {
        let next = self.inner.next_record();
        self.tell();
        next
    }

    /// Returns the next record and its steps. There is no record if the steps are about what the host sent.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Advance>, SourceError> {
        let next = self.inner.advance();
        self.tell();
        if let (Some(clean), Ok(Some((record, steps)))) = (&mut self.clean, &next) {
            match record {
                Some(record) => drop(clean.take(record.clone())),
                None => drop(clean.sent(steps)),
            }
        }
        next
    }

    pub(crate) fn tell_no_times(&self) {
        output::tell(&format!(
            "{} has no times, so none are shown: recordings (`tapline run`) and transcripts have them",
            self.inner.name()
        ));
    }

    /// Ends the source. Returns everything that is known, and the verdict as annotations show it.
    pub(crate) fn finish(self) -> (Finished, Verdict) {
        let transcript = self.inner.is_transcript().then(|| PathBuf::from(self.inner.name()));
        let mut finished = self.inner.finish();
        let session = finished.summary.session.info.id.as_deref();
        let counted = transcript.as_deref().zip(session).and_then(|(path, session)| archive::ledger(path, session));
        finished.summary.ledger = counted.unwrap_or(finished.summary.ledger);
        let summary = &mut finished.summary;
        summary.duration_ms = took_ms(summary.duration_ms, &summary.verdict, &finished.run);
        let mut told = finished.summary.verdict.clone();
        if let Some(mut clean) = self.clean {
            clean.rest();
            clean.clean(&mut told, &finished.ending);
        }
        (finished, told)
    }
}

/// Describes the clock that stopped a run.
fn clock_of(stop: Stop) -> Option<String> {
    clock::told(stop.reason, Duration::from_millis(stop.limit_ms?))
}

/// Returns what the caller knows better than the source.
fn options(facts: &Facts) -> Result<SourceOptions> {
    let read = |path: &Option<PathBuf>| -> Result<Option<String>> {
        let Some(path) = path else { return Ok(None) };
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    };
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| value == "1");
    let mut options = SourceOptions::default();
    (options.agent, options.format) = match facts.input_format {
        Shape::Auto => (None, InputFormat::Auto),
        Shape::StreamJson => (StreamFormat::StreamJson.agent(), InputFormat::Lines),
        Shape::Json => (StreamFormat::StreamJson.agent(), InputFormat::Document),
        Shape::ExecJson => (StreamFormat::ExecJson.agent(), InputFormat::Lines),
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
