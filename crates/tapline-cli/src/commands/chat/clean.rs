//! What the agent says in a chat, without its secrets: its lines are read a second time, cleaned, by a fold of their own.

use std::collections::VecDeque;

use tapline_archive::CleanRecords;
use tapline_protocol::{Agent, Record};
use tapline_recording::{REDACTED, Redactor};
use tapline_runner::{Seen, Update};
use tapline_session::step::Turn;
use tapline_session::{Ending, Fold, Report, What};

use crate::source::CleanMessages;

pub(super) struct Clean {
    redactor: Redactor,
    kind: Agent,
    records: CleanRecords,
    fold: Fold,
    /// The last turn that ended.
    turn: Option<Box<Turn>>,
    /// What came out and was not taken.
    ready: VecDeque<Update>,
    /// What processes that have ended were warned of.
    warned: CleanMessages,
}

impl Clean {
    pub(super) fn new(redactor: Redactor, kind: Agent) -> Self {
        let (records, fold) = (CleanRecords::new(&redactor), Fold::for_agent(Some(kind)));
        Self { redactor, kind, records, fold, turn: None, ready: VecDeque::new(), warned: CleanMessages::default() }
    }

    /// Another process speaks from here on.
    pub(super) fn renew(&mut self) {
        self.rest();
        self.end_of_process(&Ending::default());
    }

    /// Keeps what the process was warned of; why it failed.
    fn end_of_process(&mut self, ending: &Ending) -> Option<String> {
        let fold = std::mem::replace(&mut self.fold, Fold::for_agent(Some(self.kind)));
        let verdict = fold.finish(ending).verdict;
        for warning in verdict.warnings {
            self.warned.add(warning.code, warning.line, warning.message);
        }
        verdict.error
    }

    /// Takes secrets out of what is told of a report: the messages come from the clean lines, because a message may be cut.
    pub(super) fn report(mut self, report: &mut Report) {
        self.rest();
        let exit = report.verdict.exit.clone();
        let ending = Ending { exit_code: exit.code, signal: exit.signal, ..Ending::default() };
        let error = self.end_of_process(&ending);
        let verdict = &mut report.verdict;
        // The clean one knows nothing of stderr, but was not cut out of a secret.
        let clean = |raw: &String| {
            if raw.ends_with("... (truncated)") { error.unwrap_or_else(|| self.text(raw)) } else { self.text(raw) }
        };
        verdict.error = verdict.error.as_ref().map(clean);
        for warning in &mut verdict.warnings {
            let clean = self.warned.take(&warning.code, warning.line);
            // A message about a line quotes it.
            let unknown =
                || if warning.line.is_some() { REDACTED.to_owned() } else { self.redactor.text(&warning.message).into_owned() };
            warning.message = clean.unwrap_or_else(unknown);
        }
    }

    pub(super) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Takes what happened.
    pub(super) fn take(&mut self, update: Update) {
        match update {
            Update::Record(seen) => {
                let mut clean = Vec::new();
                self.records.take(seen.record, |record, _| clean.push(record));
                self.read(clean);
            }
            Update::Over(mut over) => {
                self.rest();
                if let Some(turn) = &mut over.turn {
                    match self.turn.take().filter(|clean| clean.subtype == turn.subtype) {
                        Some(clean) => *turn = clean,
                        None => turn.message = turn.message.as_ref().map(|text| self.redactor.text(text).into_owned()),
                    }
                }
                self.ready.push_back(Update::Over(over));
            }
            Update::Sent(_)
            | Update::Stderr(_)
            | Update::Lost(_)
            | Update::Stopping(_)
            | Update::Left(_)
            | Update::Settled(_)
            | Update::Trouble(_) => self.ready.push_back(update),
        }
    }

    /// What can be told next.
    pub(super) fn next(&mut self) -> Option<Update> {
        self.ready.pop_front()
    }

    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Nothing more comes that could be the rest of a secret.
    pub(super) fn rest(&mut self) {
        let mut clean = Vec::new();
        let mut records = std::mem::replace(&mut self.records, CleanRecords::new(&self.redactor));
        records.finish(|record, _| clean.push(record));
        self.read(clean);
    }

    /// Text that is told, without secrets.
    pub(super) fn text(&self, text: &str) -> String {
        self.redactor.text(text).into_owned()
    }

    fn read(&mut self, records: Vec<Record>) {
        for record in records {
            let steps = self.fold.apply(&record);
            for step in &steps {
                if let What::Turn(turn) = &step.what {
                    self.turn = Some(turn.clone());
                }
            }
            self.ready.push_back(Update::Record(Box::new(Seen { record, steps })));
        }
    }
}
