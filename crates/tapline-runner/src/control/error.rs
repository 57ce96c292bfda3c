//! What can go wrong with a session that is under way.

use std::time::Duration;

use crate::session::Turn;

/// What went wrong with a session. Each says which request, and what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The agent gave no answer. It may yet do so: the answer is dropped.
    #[error("{request}: the agent gave no answer within {within:?}")]
    NoAnswer {
        /// What was asked.
        request: String,
        /// How long it was waited for.
        within: Duration,
    },
    /// The agent answered with an error.
    #[error("{request}: the agent refused: {error}")]
    Refused {
        /// What was asked.
        request: String,
        /// Its words.
        error: String,
    },
    /// The agent has ended, or takes no more input.
    #[error("{request}: the agent has ended or no longer accepts input")]
    Ended {
        /// What was asked.
        request: String,
    },
    /// A message had no turn: it was taken back, its name was used before, or the agent takes no more.
    #[error("the message got no turn: it was cancelled, its uuid was already used, or the agent no longer accepts input")]
    Cancelled,
    /// Somebody cut the turn short: what there is of it.
    #[error("the turn was interrupted")]
    Interrupted(Box<Turn>),
    /// The turn failed: all that is known of it.
    #[error("{}", .0.why())]
    Failed(Box<Turn>),
}
