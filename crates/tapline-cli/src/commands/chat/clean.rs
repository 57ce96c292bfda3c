//! What the agent says in a chat, without its secrets: its lines are read a second time, cleaned, by a fold of their own.

use std::collections::VecDeque;

use tapline_protocol::Agent;
use tapline_recording::{REDACTED, Redactor};
use tapline_runner::{Seen, Update};
use tapline_session::step::Turn;
use tapline_session::{Ending, Report, What};

use crate::clean::{CleanMessages, CleanReading};

pub(super) struct Clean {
    reading: CleanReading,
    /// The last turn that ended.
    turn: Option<Box<Turn>>,
    /// What came out and was not taken.
    ready: VecDeque<Update>,
    /// What processes that have ended were warned of.
    warned: CleanMessages,
}

impl Clean {
    pub(super) fn new(redactor: Redactor, kind: Agent) -> Self {
        let reading = CleanReading::new(redactor, Some(kind));
        Self { reading, turn: None, ready: VecDeque::new(), warned: CleanMessages::default() }
    }

    /// Another process speaks from here on.
    pub(super) fn renew(&mut self) {
        self.rest();
        self.end_of_process(&Ending::default());
    }

    /// Keeps what the process was warned of; why it failed.
    fn end_of_process(&mut self, ending: &Ending) -> Option<String> {
        let verdict = self.reading.finish(ending).verdict;
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
            let unknown = || if warning.line.is_some() { REDACTED.to_owned() } else { self.reading.text(&warning.message) };
            warning.message = clean.unwrap_or_else(unknown);
        }
    }

    pub(super) fn redactor(&self) -> &Redactor {
        &self.reading.redactor
    }

    /// Takes what happened.
    pub(super) fn take(&mut self, update: Update) {
        match update {
            Update::Record(seen) => {
                let clean = self.reading.take(seen.record);
                self.read(clean);
            }
            Update::Over(mut over) => {
                self.rest();
                if let Some(turn) = &mut over.turn {
                    match self.turn.take().filter(|clean| clean.subtype == turn.subtype) {
                        Some(clean) => *turn = clean,
                        None => *turn.message = turn.message.as_ref().map(|text| self.text(text)),
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
        let clean = self.reading.rest();
        self.read(clean);
    }

    /// Text that is told, without secrets.
    pub(super) fn text(&self, text: &str) -> String {
        self.reading.text(text)
    }

    fn read(&mut self, seen: Vec<Seen>) {
        for seen in seen {
            let mut turns =
                seen.steps.iter().filter_map(|step| if let What::Turn(turn) = &step.what { Some(turn) } else { None });
            self.turn = turns.next_back().cloned().or(self.turn.take());
            self.ready.push_back(Update::Record(Box::new(seen)));
        }
    }
}
