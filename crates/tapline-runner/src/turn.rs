//! A turn that has ended: its answer, its calls, and how it ended.

use tapline_protocol::Json;
use tapline_session::step::{self, Call};
use tapline_session::text::one_line;
use tapline_session::{Step, What};

/// A turn that has ended.
#[derive(Clone)]
#[non_exhaustive]
pub struct TurnReport {
    /// The uuid of the message that started it, for [`Control::rewind_files`](crate::Control::rewind_files).
    pub message: String,
    /// The agent's answer.
    pub answer: String,
    /// How it ended: reasons, usage, duration.
    pub end: step::Turn,
    /// What happened in the turn.
    pub steps: Vec<Step>,
}

/// Shows only what matters. All of it would be pages.
impl std::fmt::Debug for TurnReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let calls: Vec<_> = self.calls().map(|call| (call.name.as_str(), call.title.as_str())).collect();
        let mut turn = f.debug_struct("TurnReport");
        turn.field("answer", &self.answer).field("calls", &calls).field("cost_usd", &self.cost_usd());
        if self.end.failed {
            turn.field("why", &self.why());
        }
        turn.finish_non_exhaustive()
    }
}

impl TurnReport {
    pub(crate) fn new(message: String, end: step::Turn, mut steps: Vec<Step>) -> Self {
        steps.retain(|step| step.turn == end.index);
        let said = steps.iter().rev().find_map(|step| match &step.what {
            What::Text(said) if step.parent.is_none() => Some(said.text.clone()),
            _ => None,
        });
        Self { message, answer: end.answer_or(said), end, steps }
    }

    /// Returns the structured answer, if a schema was set.
    pub fn structured(&self) -> Option<&Json> {
        self.end.structured_output.as_ref()
    }

    /// Returns the cost in dollars, if the agent reports it.
    pub fn cost_usd(&self) -> Option<f64> {
        self.end.cost_usd
    }

    /// Returns the tool calls.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.steps.iter().filter_map(|step| match &step.what {
            What::Call(call) => Some(call),
            _ => None,
        })
    }

    /// Returns whether the turn was interrupted.
    pub fn is_aborted(&self) -> bool {
        self.end.is_aborted()
    }

    /// Says why the turn failed, on one line.
    pub fn why(&self) -> String {
        let category = self.end.category.map(|category| format!(" ({})", category.word())).unwrap_or_default();
        match self.end.message.as_ref() {
            Some(message) => format!("the turn failed{category}: {}", one_line(message)),
            None => format!("the turn failed{category}"),
        }
    }
}
