//! What a run writes without secrets, and the report on that.

use tapline_protocol::Record;
use tapline_recording::Redactor;
use tapline_runner::{Conclusion, Seen, report};
use tapline_session::{Collector, Fold, Report, Run as RunFacts, Step, Summary};

use crate::args::run::{Run, RunFormat};
use crate::ci;
use crate::clean::CleanReading;

/// How much of what a run writes is redacted.
#[derive(Clone, Debug)]
pub(super) struct Redaction {
    pub(super) redactor: Redactor,
    /// stderr, annotations and summaries.
    pub(super) told: bool,
    /// stdout, too.
    pub(super) printed: bool,
}

impl Redaction {
    pub(super) fn new(args: &Run, format: RunFormat, redactor: Redactor) -> Self {
        let told = args.shown.redact || ci::is_log();
        let for_people = matches!(format, RunFormat::Live | RunFormat::Lines | RunFormat::Text) && args.shown.get.is_empty();
        Self { redactor, told, printed: args.shown.redact || told && for_people }
    }

    /// Returns a text as people may see it.
    pub(super) fn told(&self, text: &str) -> String {
        if self.told { self.redactor.text(text).into_owned() } else { text.to_owned() }
    }

    /// The agent's lines without secrets, if somebody wants them.
    pub(super) fn clean(&self, fold: Fold, collector: Collector) -> Option<Box<Clean>> {
        self.told.then(|| Box::new(Clean { reading: CleanReading::new(self.redactor.clone(), fold), collector }))
    }
}

/// The agent's lines without secrets, and what is known from them.
pub(super) struct Clean {
    reading: CleanReading,
    collector: Collector,
}

impl Clean {
    /// Takes a line, and returns the lines that are now clean.
    pub(super) fn take(&mut self, record: &Record) -> Vec<Seen> {
        let seen = self.reading.take(record.clone());
        self.collect(seen.iter().flat_map(|seen| &seen.steps));
        seen
    }

    /// Takes what was sent to the agent, and returns it without secrets.
    pub(super) fn sent(&mut self, steps: &[Step]) -> Vec<Step> {
        let prompts = self.reading.sent(steps);
        self.collect(&prompts);
        prompts
    }

    /// Takes a line of stderr, which has no secrets.
    pub(super) fn stderr(&mut self, line: &str) {
        self.reading.stderr(line);
    }

    /// Notes that no more lines come.
    pub(super) fn rest(&mut self) -> Vec<Seen> {
        let seen = self.reading.rest();
        self.collect(seen.iter().flat_map(|seen| &seen.steps));
        seen
    }

    fn collect<'s>(&mut self, steps: impl IntoIterator<Item = &'s Step>) {
        steps.into_iter().for_each(|step| self.collector.accept(step));
    }

    /// Returns how the run ended, without secrets.
    pub(super) fn conclude(self, conclusion: &Conclusion, run: RunFacts) -> (Summary, Report) {
        let ending = self.reading.ending(&conclusion.ending);
        let run = RunFacts { label: run.label.map(|label| self.reading.text(&label)), ..run };
        let summary = self.reading.finish(&ending);
        let conclusion = Conclusion { summary: summary.clone(), ending, duration: conclusion.duration };
        (summary, report(self.collector, &conclusion, run))
    }
}
