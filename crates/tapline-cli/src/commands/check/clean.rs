//! What `check --redact` prints. The stream is judged unchanged, and read a second time without its secrets. So nothing that is
//! printed was cut out of a secret, and no text of the agent can hide a line of ours.

use std::collections::BTreeMap;

use tapline_protocol::{Agent, Record};
use tapline_recording::{REDACTED, Redactor};
use tapline_runner::Seen;
use tapline_session::check::{CheckReport, Checker};
use tapline_session::permission::Decided;
use tapline_session::policy::Violation;
use tapline_session::step::{Step, What};
use tapline_session::{Ending, Fold};

use crate::clean::{CleanMessages, CleanReading};

pub(super) struct CleanCheck {
    reading: CleanReading,
    checker: Checker,
    /// Tool and title of each call, by its line.
    calls: BTreeMap<u64, Vec<(String, String)>>,
}

impl CleanCheck {
    pub(super) fn new(redactor: Redactor, agent: Option<Agent>) -> Self {
        Self {
            reading: CleanReading::new(redactor, Fold::for_agent(agent)),
            checker: Checker::default(),
            calls: BTreeMap::new(),
        }
    }

    /// Takes the next record, or what the host said.
    pub(super) fn accept(&mut self, record: Option<&Record>, steps: &[Step]) {
        match record {
            Some(record) => {
                let seen = self.reading.take(record.clone());
                self.read(&seen);
            }
            None => drop(self.reading.sent(steps)),
        }
    }

    /// Notes that no more records come.
    pub(super) fn rest(&mut self) {
        let seen = self.reading.rest();
        self.read(&seen);
    }

    fn read(&mut self, seen: &[Seen]) {
        for Seen { record, steps } in seen {
            self.checker.accept(record, steps);
            for step in steps {
                if let What::Call(call) = &step.what {
                    self.calls.entry(step.line).or_default().push((call.name.clone(), call.title.clone()));
                }
            }
        }
    }

    /// Returns a whole text without secrets.
    pub(super) fn text(&self, text: &str) -> String {
        self.reading.text(text)
    }

    /// A doubt about the rules.
    pub(super) fn doubt(&mut self, checker: &mut Checker, doubt: &str) {
        for checker in [checker, &mut self.checker] {
            checker.doubt(self.reading.redactor.text(doubt).into_owned());
        }
    }

    /// Names the calls as the redacted lines do. A call that they do not have keeps its place and its ruling.
    pub(super) fn calls(&self, decided: &mut [Decided]) {
        for calls in decided.chunk_by_mut(|one, other| one.line == other.line) {
            let clean = calls.first().and_then(|call| self.calls.get(&call.line)).filter(|clean| clean.len() == calls.len());
            for (at, call) in calls.iter_mut().enumerate() {
                let unknown = || (REDACTED.to_owned(), REDACTED.to_owned());
                (call.tool, call.title) = clean.and_then(|clean| clean.get(at).cloned()).unwrap_or_else(unknown);
            }
        }
    }

    pub(super) fn violations(&self, violations: &mut [Violation]) {
        for violation in violations {
            violation.message = self.text(&violation.message);
        }
    }

    /// Puts the findings into the words of the redacted lines.
    pub(super) fn report(self, report: &mut CheckReport, ending: &Ending) {
        let summary = self.reading.finish(ending);
        let clean = self.checker.finish(&summary, Vec::new(), false);
        let mut messages = CleanMessages::default();
        for finding in clean.findings {
            messages.add(finding.code, finding.line, finding.message);
        }
        for finding in &mut report.findings {
            finding.message = messages.take(&finding.code, finding.line).unwrap_or_else(|| REDACTED.to_owned());
        }
        report.drift = clean.drift;
    }
}
