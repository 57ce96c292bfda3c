//! The agent's lines, read a second time without their secrets by a fold of their own. Whatever people are told is taken from here:
//! a text that is cut first and redacted then may show half a secret. Rules and the dialogue see what the agent really said.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use tapline_archive::CleanRecords;
use tapline_protocol::Record;
use tapline_recording::{REDACTED, Redactor};
use tapline_runner::Seen;
use tapline_session::{Ending, Fold, Step, Summary, Verdict, What};

/// The second reading of a stream.
pub(crate) struct CleanReading {
    pub(crate) redactor: Redactor,
    records: CleanRecords,
    fold: Fold,
    /// What processes that have ended were warned of.
    warned: CleanMessages,
}

impl CleanReading {
    pub(crate) fn new(redactor: Redactor, fold: Fold) -> Self {
        Self { records: CleanRecords::new(&redactor), fold, redactor, warned: CleanMessages::default() }
    }

    /// Takes a line, and returns those that are clean: one waits where its end may be the beginning of a secret.
    pub(crate) fn take(&mut self, record: Record) -> Vec<Seen> {
        let (mut seen, fold) = (Vec::new(), &mut self.fold);
        self.records.take(record, |record, _| seen.push(Seen { steps: fold.apply(&record), record }));
        seen
    }

    /// Nothing more comes that could be the rest of a secret: returns the lines that waited.
    pub(crate) fn rest(&mut self) -> Vec<Seen> {
        let (mut seen, fold) = (Vec::new(), &mut self.fold);
        let mut records = std::mem::replace(&mut self.records, CleanRecords::new(&self.redactor));
        records.finish(|record, _| seen.push(Seen { steps: fold.apply(&record), record }));
        seen
    }

    /// Takes what was sent to the agent, and returns its prompts.
    pub(crate) fn sent(&mut self, steps: &[Step]) -> Vec<Step> {
        let Self { redactor, fold, .. } = self;
        let prompt = |step: &Step| match &step.what {
            What::Prompt { text } => fold.prompt(&redactor.text(text), step.arrived),
            _ => None,
        };
        steps.iter().filter_map(prompt).collect()
    }

    /// Takes a line of stderr, which is clean.
    pub(crate) fn stderr(&mut self, line: &str) {
        self.fold.hear_stderr(line);
    }

    /// A text as it may be told.
    pub(crate) fn text(&self, text: &str) -> String {
        self.redactor.text(text).into_owned()
    }

    /// What else is known at the end, as it may be told.
    pub(crate) fn ending(&self, ending: &Ending) -> Ending {
        let text = |text: &String| self.text(text);
        Ending {
            stderr: ending.stderr.as_ref().map(text),
            last_message: ending.last_message.as_ref().map(text),
            violated: ending.violated.as_ref().map(text),
            ..ending.clone()
        }
    }

    /// What became of it all.
    pub(crate) fn finish(self, ending: &Ending) -> Summary {
        let ending = self.ending(ending);
        self.fold.finish(&ending)
    }

    /// A process has ended, and another speaks from here on. What it was warned of is kept; why it failed is returned.
    pub(crate) fn end_of_process(&mut self, ending: &Ending, next: Fold) -> Option<String> {
        let fold = std::mem::replace(&mut self.fold, next);
        let verdict = fold.finish(&self.ending(ending)).verdict;
        for warning in verdict.warnings {
            self.warned.add(warning.code, warning.line, warning.message);
        }
        verdict.error
    }

    /// Takes secrets out of a verdict on the raw lines. Its messages are taken from the clean ones, because a message may be cut.
    pub(crate) fn clean(mut self, verdict: &mut Verdict, ending: &Ending) {
        let error = self.end_of_process(ending, Fold::default());
        // The clean one may not know all, but was not cut out of a secret.
        let clean = |raw: &String| error.filter(|_| raw.ends_with("... (truncated)")).unwrap_or_else(|| self.text(raw));
        verdict.error = verdict.error.as_ref().map(clean);
        for warning in &mut verdict.warnings {
            let clean = self.warned.take(&warning.code, warning.line);
            // A message about a line quotes it.
            let unknown = || if warning.line.is_some() { REDACTED.to_owned() } else { self.text(&warning.message) };
            warning.message = clean.unwrap_or_else(unknown);
        }
    }
}

/// What is odd about a stream, in words that were read from its clean lines. What was found in the raw lines is told in these.
#[derive(Debug, Default)]
pub(crate) struct CleanMessages(BTreeMap<Option<u64>, BTreeMap<Cow<'static, str>, VecDeque<String>>>);

impl CleanMessages {
    pub(crate) fn add(&mut self, code: Cow<'static, str>, line: Option<u64>, message: String) {
        self.0.entry(line).or_default().entry(code).or_default().push_back(message);
    }

    /// The next message with this code about this line.
    pub(crate) fn take(&mut self, code: &str, line: Option<u64>) -> Option<String> {
        self.0.get_mut(&line)?.get_mut(code)?.pop_front()
    }
}
