//! What a run writes without secrets. The agent's lines are read a second time, cleaned, by a fold of their own: so nothing that
//! is shown was ever cut out of a secret, while rules and the dialogue see what the agent really said.

use tapline_archive::CleanRecords;
use tapline_protocol::{Agent, Record};
use tapline_recording::Redactor;
use tapline_runner::{Conclusion, Seen, report};
use tapline_session::{Collector, Ending, Fold, Report, Run as RunFacts, Step, Summary, What};

use crate::args::run::{Run, RunFormat};
use crate::ci;

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

    /// The agent's lines without secrets, if somebody wants them.
    pub(super) fn clean(&self, kind: Agent, collector: Collector) -> Option<Box<Clean>> {
        self.told.then(|| {
            Box::new(Clean {
                redactor: self.redactor.clone(),
                records: CleanRecords::new(&self.redactor),
                fold: Fold::for_agent(Some(kind)),
                collector,
            })
        })
    }
}

/// The agent's lines without secrets, and what is known from them.
pub(super) struct Clean {
    redactor: Redactor,
    records: CleanRecords,
    fold: Fold,
    collector: Collector,
}

impl Clean {
    /// Takes a line, and gives back those that are clean.
    pub(super) fn take(&mut self, record: &Record) -> Vec<Seen> {
        let Self { records, fold, collector, .. } = self;
        let mut seen = Vec::new();
        records.take(record.clone(), |record, _| seen.push(read(fold, collector, record)));
        seen
    }

    /// Takes prompts that were sent to the agent.
    pub(super) fn sent(&mut self, steps: &[Step]) {
        for step in steps {
            if let What::Prompt { text } = &step.what
                && let Some(step) = self.fold.prompt(&self.redactor.text(text), step.arrived)
            {
                self.collector.accept(&step);
            }
        }
    }

    /// Takes a line of stderr, which is clean.
    pub(super) fn stderr(&mut self, line: &str) {
        self.fold.hear_stderr(line);
    }

    /// No more lines come.
    pub(super) fn rest(&mut self) -> Vec<Seen> {
        let Self { records, fold, collector, .. } = self;
        let mut seen = Vec::new();
        records.finish(|record, _| seen.push(read(fold, collector, record)));
        seen
    }

    /// What became of the run, without secrets.
    pub(super) fn conclude(self, conclusion: &Conclusion, run: RunFacts) -> (Summary, Report) {
        let text = |text: &String| self.redactor.text(text).into_owned();
        let ending = Ending {
            stderr: conclusion.ending.stderr.as_ref().map(text),
            violated: conclusion.ending.violated.as_ref().map(text),
            ..conclusion.ending.clone()
        };
        let run = RunFacts { label: run.label.as_ref().map(text), ..run };
        let summary = self.fold.finish(&ending);
        let conclusion = Conclusion { summary: summary.clone(), ending, duration: conclusion.duration };
        (summary, report(self.collector, &conclusion, run))
    }
}

fn read(fold: &mut Fold, collector: &mut Collector, record: Record) -> Seen {
    let steps = fold.apply(&record);
    for step in &steps {
        collector.accept(step);
    }
    Seen { record, steps }
}
