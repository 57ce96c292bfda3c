//! The turns and background tasks of a run, as its lines report them. They are tracked once, for the clocks and for the
//! dialogue. Pure: it is told what arrived, and when.

use std::collections::BTreeSet;

use tapline_protocol::Record;
use tapline_session::{Step, What};
use tokio::time::Instant;

/// What the agent is doing.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Whether a turn has begun and not ended.
    pub(crate) in_turn: bool,
    /// How many turns have ended.
    pub(crate) turns: u64,
    /// Since when the agent has been at rest: the last turn has ended, and nothing was sent since.
    pub(crate) rests: Option<Instant>,
    /// When the last turn, or a task that may start another, ended.
    pub(crate) ended: Option<Instant>,
    /// Tasks that may start a turn when they end.
    pub(crate) tasks: BTreeSet<String>,
    /// Whether such a task has ended, and its turn has not begun yet.
    pub(crate) waking: bool,
    /// The state that the agent reports.
    pub(crate) state: Option<AgentState>,
}

/// The state that an agent reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgentState {
    Idle,
    Busy,
}

impl Activity {
    /// Creates the activity of an agent that starts at once, or one that waits from now on for a message.
    pub(crate) fn new(waits: bool, now: Instant) -> Self {
        Self { rests: waits.then_some(now), ..Self::default() }
    }

    /// Takes a line.
    pub(crate) fn accept(&mut self, record: &Record, steps: &[Step], now: Instant) {
        for step in steps {
            self.step(step, now);
        }
        if let Some(state) = record.event.as_session_state() {
            let idle = state.state.as_deref() == Some("idle");
            self.state = Some(if idle { AgentState::Idle } else { AgentState::Busy });
            self.ended.get_or_insert(now);
            self.waking &= !idle;
        }
        if let Some(level) = record.event.as_background_tasks() {
            // The list is complete, so tasks that ended silently are gone, too.
            let known = self.tasks.len();
            self.tasks.retain(|id| level.tasks.iter().any(|task| task.task_id.as_ref() == Some(id)));
            if self.tasks.len() < known {
                self.rests = self.rests.map(|_| now);
            }
        }
    }

    fn step(&mut self, step: &Step, now: Instant) {
        match &step.what {
            What::Turn(_) => {
                self.in_turn = false;
                self.turns += 1;
                self.ended = Some(now);
                // A result that comes again, with nothing between, prolongs nothing.
                self.rests.get_or_insert(now);
            }
            What::Task(task) if task.terminal => {
                // It is about to wake the agent, unless it was stopped. The time for that starts now.
                let known = self.tasks.remove(&task.id);
                self.rests = self.rests.map(|since| if known { now } else { since });
                if known && !["killed", "stopped"].contains(&task.status.as_str()) {
                    self.ended = Some(now);
                    self.waking = true;
                }
            }
            What::Task(task) => {
                self.tasks.insert(task.id.clone());
                self.ended.get_or_insert(now);
            }
            // A turn has begun. The work of a background sub-agent is not a turn.
            What::Session(_) if step.parent.is_none() => {
                self.in_turn = true;
                self.waking = false;
                self.rests = None;
            }
            What::Prompt { .. } | What::Text(_) | What::Thinking(_) | What::Call(_) | What::Partial(_)
                if step.parent.is_none() =>
            {
                self.rests = None;
            }
            _ => {}
        }
    }

    /// Notes that something was sent to the agent, so that it must act.
    pub(crate) fn sent(&mut self) {
        self.rests = None;
    }

    /// Notes that nothing more will be sent to the agent. Whatever it waits for, the wait starts now.
    pub(crate) fn input_closed(&mut self, now: Instant) {
        self.rests = self.rests.map(|_| now);
    }
}
