//! What a run reports to its reader: its updates, and how it ended.

use std::time::Duration;

use tapline_protocol::{Record, StopReason};
use tapline_session::step::{Turn, What};
use tapline_session::{Ending, Step, Summary};

use crate::settled::Settled;

/// An update of a running agent. The list is exhaustive on purpose: whoever reads updates decides about each kind, and a new
/// kind is a new major version.
#[derive(Debug)]
pub enum Update {
    /// A line that the agent wrote, and its steps.
    Record(Box<Seen>),
    /// A prompt was sent to the agent.
    Sent(Vec<Step>),
    /// A line that the agent wrote to stderr, without secrets.
    Stderr(String),
    /// The recording is incomplete from here on. The text names the file and the cause.
    Lost(String),
    /// The run is being stopped.
    Stopping(StopReason),
    /// This many processes could not be killed, because the kernel does not let them exit.
    Left(usize),
    /// A turn of a conversation ended. It names the messages that the turn answered.
    Over(Box<Over>),
    /// A permission request was decided.
    Settled(Box<Settled>),
    /// A callback panicked or missed its deadline, so the call was denied. The text says which, and why.
    Trouble(String),
}

impl Update {
    /// What happened in it.
    pub fn steps(&self) -> &[Step] {
        match self {
            Self::Record(seen) => &seen.steps,
            Self::Sent(steps) => steps,
            Self::Stderr(_)
            | Self::Lost(_)
            | Self::Stopping(_)
            | Self::Left(_)
            | Self::Over(_)
            | Self::Settled(_)
            | Self::Trouble(_) => &[],
        }
    }

    /// Returns roughly how much memory it takes.
    pub(crate) fn size(&self) -> usize {
        let held = match self {
            Self::Record(seen) => 2 * seen.record.bytes.len(),
            Self::Sent(steps) => steps.iter().map(said).sum(),
            Self::Over(over) => over.turn.as_deref().map_or(0, size_of_turn),
            Self::Stderr(text) | Self::Lost(text) | Self::Trouble(text) => text.len(),
            Self::Settled(settled) => settled.reason.as_ref().map_or(0, String::len),
            Self::Stopping(_) | Self::Left(_) => 0,
        };
        size_of::<Seen>() + held
    }
}

/// Returns the length of what was sent.
fn said(step: &Step) -> usize {
    if let What::Prompt { text } = &step.what { text.len() } else { 0 }
}

/// Returns the length of the texts that a turn ended with.
fn size_of_turn(turn: &Turn) -> usize {
    let texts = [turn.result.as_ref(), turn.message.as_ref()].into_iter().flatten().map(String::len);
    let values = turn.structured_output.iter().chain(&turn.permission_denials).map(|json| json.as_str().len());
    texts.chain(values).sum()
}

/// A line and its steps.
#[derive(Debug)]
pub struct Seen {
    /// The line.
    pub record: Record,
    /// The steps.
    pub steps: Vec<Step>,
}

/// What happened to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// It waits for its turn.
    Queued,
    /// Its turn has begun.
    Started,
    /// It was handled.
    Completed,
    /// It was cancelled, or its turn was aborted.
    Cancelled,
    /// The agent repeated it (`--replay-user-messages`).
    Replayed,
    /// A state that this version does not know.
    Other(String),
}

/// The end of a turn.
#[derive(Clone, Debug)]
pub struct Over {
    /// The uuids of the messages that it answered. Empty if the agent started it by itself, after a background task
    /// ended.
    pub messages: Vec<String>,
    /// How the turn ended. `None` for a message that was cancelled before it had a turn.
    pub turn: Option<Box<Turn>>,
}

/// How a run ended.
#[derive(Debug)]
#[must_use = "it says whether the run succeeded"]
pub struct Conclusion {
    /// The summary, without texts.
    pub summary: Summary,
    /// Facts that the stream does not contain.
    pub ending: Ending,
    /// How long the run took.
    pub duration: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_long_counts_towards_what_may_wait() {
        let text = "x".repeat(1 << 20);
        let mut turn = Turn::default();
        turn.result = Some(text.clone());
        let over = Over { messages: Vec::new(), turn: Some(Box::new(turn)) };
        let sent = serde_json::from_str(&format!("{{\"step\":\"prompt\",\"text\":\"{text}\"}}")).unwrap();
        for update in [Update::Sent(vec![sent]), Update::Over(Box::new(over)), Update::Stderr(text)] {
            assert!(update.size() > 1 << 20, "{}", update.size());
        }
    }
}
