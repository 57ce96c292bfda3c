//! How long a turn takes: from its prompt, or else from the first that the agent says in it, to its end.

use std::collections::VecDeque;

use tapline_protocol::Moment;

/// So many prompts may wait for their turn.
const PROMPTS: usize = 1 << 10;

#[derive(Debug, Default)]
pub(super) struct Elapsed {
    /// The agent's own first sign of the turn under way.
    began: Option<Moment>,
    /// What was sent and belongs to no turn that has ended.
    sent: VecDeque<Moment>,
    ended: Option<Moment>,
}

impl Elapsed {
    /// The agent said something of the turn under way.
    pub(super) fn begin(&mut self, at: Option<Moment>) {
        self.began = self.began.into_iter().chain(at).min();
    }

    /// A prompt was sent. It may be told before or after what the agent said at the same time, so its time alone decides which turn it
    /// belongs to: a run and its recording then tell the same.
    pub(super) fn sent(&mut self, at: Option<Moment>) {
        let at = at.filter(|at| self.ended.is_none_or(|ended| *at > ended) && self.sent.len() < PROMPTS);
        self.sent.extend(at);
    }

    /// The turn has ended: how long it took.
    pub(super) fn end(&mut self, at: Option<Moment>) -> Option<u64> {
        let (began, end) = (self.began.take(), at?);
        let sent = self.sent.iter().copied().min().filter(|sent| *sent < end);
        self.sent.retain(|sent| *sent > end);
        self.ended = Some(end);
        end.millis_since(began.into_iter().chain(sent).min()?)
    }
}
