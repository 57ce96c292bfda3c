//! Prompts come from two sides: the host sends them, and some agents repeat them. Each is shown once.

use std::collections::VecDeque;

use tapline_protocol::Moment;

use super::Fold;
use crate::recent::hash;
use crate::step::{Step, What};

/// How many prompts may wait for the other side.
const WAITING: usize = 4_096;

/// Prompts that only one side has reported, by their hash.
#[derive(Debug, Default)]
pub(super) struct Prompts {
    sent: VecDeque<u64>,
    replayed: VecDeque<u64>,
    /// How many were shown, and how many of them the main thread's.
    shown: usize,
    pub(super) own: usize,
    /// Which one is the first of the main thread that says something. Not its text: that may have secrets.
    pub(super) first: Option<usize>,
}

impl Prompts {
    /// Notes a prompt that is shown.
    pub(super) fn note(&mut self, text: &str, is_main: bool) {
        if is_main && self.first.is_none() && !text.trim().is_empty() {
            self.first = Some(self.shown);
        }
        self.shown += 1;
        self.own += usize::from(is_main);
    }

    /// Notes that the agent repeats a prompt. Returns `false` if the host's was already shown.
    pub(super) fn replay(&mut self, text: &str) -> bool {
        meet(&mut self.sent, &mut self.replayed, text)
    }

    /// Notes that the host sends a prompt. Returns `false` if the agent's was already shown.
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
    /// Notes that part of a prompt was sent at this moment.
    pub(crate) fn sends(&mut self, at: Option<Moment>) {
        self.turns.elapsed.sent(at);
    }

    /// Notes that a turn begins, for a source that shows it where the agent's lines do not. Until the turn ends, the run
    /// has no result.
    pub fn begin_turn(&mut self) {
        self.turns.open = true;
        self.turns.failure = None;
    }

    /// Takes a prompt that the host sent to the agent at this moment. Returns `None` if the agent has already reported
    /// it.
    pub fn prompt(&mut self, text: &str, arrived: Option<Moment>) -> Option<Step> {
        self.sends(arrived);
        let what = || What::Prompt { text: text.to_owned() };
        let line = self.stats.lines.total;
        if !self.prompts.send(text) {
            return None;
        }
        self.prompts.note(text, true);
        let mut step =
            Step { line, at: None, arrived, parent: None, depth: 0, turn: 0, session_id: None, message: None, what: what() };
        step.turn = self.turns.of(&step);
        Some(step)
    }
}
