//! `tapline export --to otlp`: recorded sessions as spans, and what they used as metrics, sent to a receiver.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use tapline_archive::telemetry::{MeasuredUsage, measure};
use tapline_archive::{Prices, Source, SourceError, SourceOptions};
use tapline_protocol::Moment;
use tapline_recording::{Recording, Redactor};
use tapline_server::{OtlpError, OtlpSender};
use tapline_session::otlp::{AgentSpan, Measures, Spans};
use tapline_session::text::count_of;

use super::query;
use crate::args::export::Export;
use crate::{archive, otlp, output, prices, secrets};

/// How long a receiver that is busy or away may take to come back.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn run(args: &Export) -> Result<u8> {
    ensure!(
        args.table.is_empty() && args.output.is_none(),
        "--table and -o are for tables: `--to otlp` sends to --endpoint URL"
    );
    let redactor = (args.content || args.redact).then(secrets::redactor).transpose()?;
    let mut options = otlp::options(args.endpoint.as_deref(), "--endpoint URL")?;
    options.content = redactor.clone().filter(|_| args.content);
    let prices = Prices::embedded().clone().with(&prices::own(&args.prices)?);
    let query = query(args)?;
    let usage =
        archive::read(&args.paths, args.quiet, |archive| Ok(measure(&archive.index, &prices, &archive.selection, &query)?))?;
    let MeasuredUsage { measures, span, sessions, .. } = usage;
    let host = options.target.host();
    let builder = || options.spans();
    let sender = OtlpSender::new(options.clone(), PATIENCE);
    let mut export = Sending { sender, measures, span, untimed: 0, unread: 0 };
    for files in &sessions {
        export.session(files, builder(), redactor.as_ref()).map_err(|error| failed(&export, error))?;
    }
    export.sender.flush().map_err(|error| failed(&export, error))?;
    if let Some((start, end)) = export.span.filter(|_| !export.measures.is_empty()) {
        export.sender.measures(&export.measures, start, end).map_err(|error| failed(&export, error))?;
    }
    if let Some((count, why)) = &export.sender.refused {
        output::tell(&format!("{host} refused {} of it: {}", count, tapline_session::text::one_line(why)));
    }
    if export.untimed > 0 {
        let what = count_of(export.untimed, "session");
        output::tell(&format!(
            "{what} with steps that have no time, which cannot be spans: streams have times only in recordings"
        ));
    }
    if !args.quiet {
        let spans = count_of(usize::try_from(export.sender.taken).unwrap_or(usize::MAX), "span");
        let sessions = count_of(sessions.len() - export.unread, "session");
        output::tell(&format!("sent {spans} of {sessions}, and what they used, to {host}"));
    }
    Ok(0)
}

fn failed(export: &Sending, error: OtlpError) -> anyhow::Error {
    let sent = export.sender.taken;
    let error = anyhow!(error);
    if sent == 0 { error.context("cannot send anything") } else { error.context(format!("cannot send more than {sent} spans")) }
}

/// An export under way.
struct Sending {
    sender: OtlpSender,
    measures: Measures,
    span: Option<(Moment, Moment)>,
    /// How many sessions have steps without a time.
    untimed: usize,
    /// How many sessions could not be read.
    unread: usize,
}

impl Sending {
    /// Sends a session, all of its runs.
    fn session(&mut self, files: &[PathBuf], mut spans: Spans, redactor: Option<&Redactor>) -> Result<(), OtlpError> {
        // Two recordings may have the same run: one of `run`, one of `tee`.
        let mut sent = HashSet::new();
        let mut error = None;
        for path in files {
            spans.begin_run();
            match self.file(path, &mut spans, redactor, &mut sent) {
                Ok(class) => error = class,
                Err(Failed::Sending(error)) => return Err(error),
                Err(Failed::Reading(error)) => {
                    self.unread += 1;
                    output::tell(&format!("{}: {}", path.display(), tapline_session::text::with_causes(&error)));
                }
            }
        }
        spans.finish(error);
        self.untimed += usize::from(spans.lacks_times());
        self.send(&mut spans, &mut sent)
    }

    /// Sends a run. Returns the class of its error.
    fn file(
        &mut self,
        path: &Path,
        spans: &mut Spans,
        redactor: Option<&Redactor>,
        sent: &mut HashSet<[u8; 8]>,
    ) -> Result<Option<&'static str>, Failed> {
        let mut source = Source::open(path, SourceOptions::default())?;
        if let Some(redactor) = redactor {
            source = source.redacted_by(redactor.clone());
        }
        while let Some((_, steps)) = source.advance()? {
            spans.note_agent(source.agent());
            spans.note_fork(source.goes_on());
            for step in &steps {
                spans.accept(step);
            }
            self.send(spans, sent)?;
        }
        // How a transcript ends, its steps say.
        if !Recording::is_one(path) {
            return Ok(None);
        }
        let summary = source.finish().summary;
        spans.note_cost(summary.ledger.cost_usd);
        Ok(summary.verdict.error_class())
    }

    fn send(&mut self, spans: &mut Spans, sent: &mut HashSet<[u8; 8]>) -> Result<(), OtlpError> {
        for span in spans.take() {
            if sent.insert(span.span_id) {
                self.note(&span);
                self.sender.span(&span)?;
            }
        }
        Ok(())
    }

    fn note(&mut self, span: &AgentSpan) {
        self.measures.duration(span);
        let (start, end) = self.span.unwrap_or((span.start, span.end));
        self.span = Some((start.min(span.start), end.max(span.end)));
    }
}

/// Why a session is not sent.
enum Failed {
    Reading(SourceError),
    Sending(OtlpError),
}

impl From<SourceError> for Failed {
    fn from(error: SourceError) -> Self {
        Self::Reading(error)
    }
}

impl From<OtlpError> for Failed {
    fn from(error: OtlpError) -> Self {
        Self::Sending(error)
    }
}
