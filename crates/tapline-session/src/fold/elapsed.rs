//! How long a turn takes: from its prompt, or else from the agent's first event in it, to its end.

use std::collections::VecDeque;

use tapline_protocol::Moment;

/// How many prompts may wait for their turn.
const PROMPTS: usize = 1 << 10;

#[derive(Debug, Default)]
pub(super) struct Elapsed {
    /// The agent's first event in the current turn.
    began: Option<Moment>,
    /// When prompts were sent that belong to no finished turn.
    sent: VecDeque<Moment>,
    ended: Option<Moment>,
}

impl Elapsed {
    /// Notes an event of the agent in the current turn.
    pub(super) fn begin(&mut self, at: Option<Moment>) {
        self.began = self.began.into_iter().chain(at).min();
    }

    /// Notes a sent prompt. It may be processed before or after what the agent wrote at the same time, so only its time
    /// decides which turn it belongs to. A live run and its recording then agree.
    pub(super) fn sent(&mut self, at: Option<Moment>) {
        let at = at.filter(|at| self.ended.is_none_or(|ended| *at > ended) && self.sent.len() < PROMPTS);
        self.sent.extend(at);
    }

    /// Ends the turn and returns how long it took.
    pub(super) fn end(&mut self, at: Option<Moment>) -> Option<u64> {
        let (began, end) = (self.began.take(), at?);
        let sent = self.sent.iter().copied().min().filter(|sent| *sent < end);
        self.sent.retain(|sent| *sent > end);
        self.ended = Some(end);
        end.millis_since(began.into_iter().chain(sent).min()?)
    }
}
