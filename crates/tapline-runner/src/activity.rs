//! Which turns and background tasks a run has, as its lines tell of them: kept once, for the clocks and for the dialogue. Pure: it
//! is told what came, and when.

use std::collections::BTreeSet;

use tapline_protocol::Record;
use tapline_session::{Step, What};
use tokio::time::Instant;

/// What the agent does.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// A turn has begun that has not ended.
    pub(crate) in_turn: bool,
    /// How many turns have ended.
    pub(crate) turns: u64,
    /// Since when nothing is done: the last turn has ended, and nothing was said since.
    pub(crate) rests: Option<Instant>,
    /// When the last turn ended, or a task that may begin another.
    pub(crate) ended: Option<Instant>,
    /// Tasks that may begin a turn when they end.
    pub(crate) tasks: BTreeSet<String>,
    /// One has ended, and the turn that it begins has not begun.
    pub(crate) waking: bool,
    /// What the agent says of itself.
    pub(crate) state: Option<AgentState>,
}

/// What an agent says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgentState {
    Idle,
    Busy,
}

impl Activity {
    /// An agent that begins at once, or waits from now on until somebody speaks.
    pub(crate) fn new(waits: bool, now: Instant) -> Self {
        Self { rests: waits.then_some(now), ..Self::default() }
    }

    /// A line came.
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
            // All that there are: what ended without a word is gone, too.
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
                (self.ended, self.rests) = (Some(now), Some(now));
            }
            What::Task(task) if task.terminal => {
                // It is about to wake the agent, unless it was stopped: the time to do so starts now.
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
            // A turn has begun. What a sub-agent does in the background is no turn.
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

    /// Something was sent to the agent: it is its turn.
    pub(crate) fn sent(&mut self) {
        self.rests = None;
    }

    /// Nothing more will be sent to the agent: whatever it waits for, it waits from now on.
    pub(crate) fn input_closed(&mut self, now: Instant) {
        self.rests = self.rests.map(|_| now);
    }

    /// Tasks in the background were waited for long enough.
    pub(crate) fn forget_tasks(&mut self) {
        self.tasks.clear();
    }
}
