//! Prompts come from two sides: from the host that sends them, and from an agent that says them again. Each is told once.

use std::collections::VecDeque;

use tapline_protocol::Moment;

use super::Fold;
use crate::recent::hash;
use crate::step::{Step, What};

/// So many prompts may wait for the other side.
const WAITING: usize = 4_096;

/// Prompts that one side has told and the other has not, by their hash.
#[derive(Debug, Default)]
pub(super) struct Prompts {
    sent: VecDeque<u64>,
    replayed: VecDeque<u64>,
}

impl Prompts {
    /// The agent says a prompt again: `false` if the host's was told.
    pub(super) fn replay(&mut self, text: &str) -> bool {
        meet(&mut self.sent, &mut self.replayed, text)
    }

    /// The host sends a prompt: `false` if the agent's was told.
    fn send(&mut self, text: &str) -> bool {
        meet(&mut self.replayed, &mut self.sent, text)
    }
}

fn meet(others: &mut VecDeque<u64>, own: &mut VecDeque<u64>, text: &str) -> bool {
    let key = hash(text);
    if let Some(at) = others.iter().position(|other| *other == key) {
        others.remove(at);
        return false;
    }
    own.push_back(key);
    if own.len() > WAITING {
        own.pop_front();
    }
    true
}

impl Fold {
    /// Something of a prompt was sent at this moment.
    pub(crate) fn sends(&mut self, at: Option<Moment>) {
        self.turns.elapsed.sent(at);
    }

    /// Takes a prompt that the host sent to the agent at this moment; none if the agent has said it already.
    pub fn prompt(&mut self, text: &str, arrived: Option<Moment>) -> Option<Step> {
        self.sends(arrived);
        let what = || What::Prompt { text: text.to_owned() };
        let line = self.stats.lines.total;
        self.prompts.send(text).then(|| Step {
            line,
            at: None,
            arrived,
            parent: None,
            depth: 0,
            session_id: None,
            message: None,
            what: what(),
        })
    }
}
