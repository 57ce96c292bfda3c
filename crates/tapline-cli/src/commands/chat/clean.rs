//! What the agent says in a chat, without secrets: its lines are redacted and folded a second time.

use std::collections::VecDeque;

use tapline_recording::Redactor;
use tapline_runner::{Seen, Update};
use tapline_session::step::Turn;
use tapline_session::{Ending, Fold, Report, What};

use crate::clean::CleanReading;

pub(super) struct Clean {
    reading: CleanReading,
    /// The last turn that ended.
    turn: Option<Box<Turn>>,
    /// Updates without secrets that nobody has taken yet.
    ready: VecDeque<Update>,
    /// The unchanged lines that nobody has taken yet, if somebody wants them.
    pub(super) raw: Option<Vec<u8>>,
}

impl Clean {
    pub(super) fn new(redactor: Redactor, fold: Fold) -> Self {
        let reading = CleanReading::new(redactor, fold);
        Self { reading, turn: None, ready: VecDeque::new(), raw: None }
    }

    /// Notes that the next lines are from another process, which this fold is for.
    pub(super) fn renew(&mut self, fold: Fold) {
        self.rest();
        self.reading.end_of_process(&Ending::default(), fold);
    }

    /// Removes secrets from the verdict of a report.
    pub(super) fn report(mut self, report: &mut Report) {
        self.rest();
        let exit = report.verdict.exit.clone();
        let ending = Ending { exit_code: exit.code, signal: exit.signal, ..Ending::default() };
        self.reading.clean(&mut report.verdict, &ending);
    }

    pub(super) fn redactor(&self) -> &Redactor {
        &self.reading.redactor
    }

    /// Takes an update of the agent.
    pub(super) fn take(&mut self, update: Update) {
        match update {
            Update::Record(seen) => {
                self.raw.iter_mut().for_each(|raw| raw.extend_from_slice(&seen.record.bytes));
                let clean = self.reading.take(seen.record);
                self.read(clean);
            }
            Update::Over(mut over) => {
                self.rest();
                if let Some(turn) = &mut over.turn {
                    match self.turn.take().filter(|clean| clean.subtype == turn.subtype) {
                        Some(clean) => *turn = clean,
                        None => turn.message = turn.message.as_ref().map(|text| self.redactor().text(text).into_owned()),
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

    /// Returns the next update without secrets.
    pub(super) fn next(&mut self) -> Option<Update> {
        self.ready.pop_front()
    }

    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Releases what was held back, because nothing more comes that could be the rest of a secret.
    pub(super) fn rest(&mut self) {
        let clean = self.reading.rest();
        self.read(clean);
    }

    /// Returns a text without secrets.
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
