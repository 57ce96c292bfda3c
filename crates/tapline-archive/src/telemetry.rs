//! What operators get of the archive: the tokens and costs of requests as measures, and what tells each session. The numbers come from the one
//! loader, so they are those of [`stats`](crate::stats).

use std::collections::HashSet;
use std::path::PathBuf;

use tapline_protocol::{Agent, Moment};
use tapline_session::otlp::{AgentSpan, Measures, Operation, RequestUsage, Spans};

use crate::error::ArchiveError;
use crate::index::Index;
use crate::load::{Reader, Request, Selection, SessionFacts, load};
use crate::prices::Prices;
use crate::runs::runs;
use crate::source::{Source, SourceOptions};
use crate::stats::Query;

/// What some requests used, and the sessions that they were made in.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MeasuredUsage {
    /// Their tokens and costs.
    pub measures: Measures,
    /// When the first of them began, and the last one.
    pub span: Option<(Moment, Moment)>,
    /// The sessions: what opens each of them, the oldest run first.
    pub sessions: Vec<Vec<PathBuf>>,
}

/// Measures the requests that a query takes. How they are grouped does not matter.
pub fn measure(index: &Index, prices: &Prices, selection: &Selection, query: &Query) -> Result<MeasuredUsage, ArchiveError> {
    let mut measuring = Measuring { query, usage: MeasuredUsage::default(), sessions: HashSet::new(), all: Vec::new() };
    load(index, prices, selection, &mut measuring)?;
    let Measuring { mut usage, sessions, mut all, .. } = measuring;
    // Requests may count for a session that came before.
    all.retain(|(id, _)| sessions.contains(id));
    usage.sessions = all.into_iter().map(|(_, files)| files).filter(|files| !files.is_empty()).collect();
    Ok(usage)
}

/// Returns the span of a session that has several runs, as [`Spans`] of all of them make it. `None` if a run cannot be read.
pub fn session_span(runs: &[PathBuf]) -> Option<AgentSpan> {
    let (mut spans, mut error) = (Spans::default(), None);
    for path in runs {
        spans.begin_run();
        let mut source = Source::open(path, SourceOptions::default()).ok()?;
        while let Some((_, steps)) = source.advance().ok()? {
            spans.note_agent(source.agent());
            spans.note_fork(source.goes_on());
            for step in &steps {
                spans.accept(step);
            }
            // Only the last span is wanted.
            drop(spans.take());
        }
        let summary = source.finish().summary;
        spans.note_cost(summary.ledger.cost_usd);
        error = summary.verdict.error_class();
    }
    spans.finish(error);
    spans.take().into_iter().rfind(|span| span.operation == Operation::Session)
}

struct Measuring<'q> {
    query: &'q Query,
    usage: MeasuredUsage,
    sessions: HashSet<String>,
    all: Vec<(String, Vec<PathBuf>)>,
}

impl Reader for Measuring<'_> {
    fn request(&mut self, request: &Request<'_>) {
        if !self.query.takes(request) {
            return;
        }
        if !self.sessions.contains(request.session) {
            self.sessions.insert(request.session.to_owned());
        }
        let tokens = &request.tokens;
        let input = tokens.input.saturating_add(tokens.cache_read).saturating_add(tokens.cache_write());
        let cost = request.cost.map(crate::money::Money::pico);
        // An error that the agent wrote as a message is no request.
        if request.error && input == 0 && tokens.output == 0 {
            return;
        }
        let time = Moment::from_millis(request.time);
        self.usage.span = Some(self.usage.span.map_or((time, time), |(first, last)| (first.min(time), last.max(time))));
        self.usage.measures.usage(&RequestUsage {
            agent: Agent::named(request.agent),
            model: request.model,
            input,
            output: tokens.output,
            pico_usd: cost,
        });
    }

    fn session(&mut self, session: SessionFacts) {
        let recordings = runs(&session);
        let files = if recordings.is_empty() { session.opens().map(PathBuf::from).into_iter().collect() } else { recordings };
        self.all.push((session.id, files));
    }
}

#[cfg(test)]
mod tests {
    use tapline_testkit::fixture;

    use super::*;

    #[test]
    fn sub_agents_in_files_of_their_own_have_spans_below_the_calls_that_started_them() {
        let folder = fixture("transcripts/codex-subagents/codex/archived_sessions");
        let path = folder.join("rollout-2026-11-16T15-22-46-01a1e4f4-202e-78b3-9357-95885bd9ca01.jsonl");
        let mut source = Source::open(&path, SourceOptions::default()).unwrap();
        let mut spans = Spans::default();
        while let Some((_, steps)) = source.advance().unwrap() {
            spans.note_agent(source.agent());
            for step in &steps {
                spans.accept(step);
            }
        }
        spans.finish(None);
        let spans = spans.take();
        let call = spans.iter().find(|span| span.text("gen_ai.tool.call.id") == Some("call_codex_subagents_2_1")).unwrap();
        let agents: Vec<_> = spans.iter().filter(|span| span.parent == Some(call.span_id)).collect();
        let [agent] = agents[..] else { panic!("{agents:?}") };
        assert_eq!(agent.operation, Operation::InvokeAgent);
        // It goes on after the call has its result.
        assert!(call.start <= agent.start && call.end < agent.end && agent.error.is_none(), "{call:?} {agent:?}");
    }
}
