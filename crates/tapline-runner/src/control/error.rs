//! Errors of a running session.

use std::time::Duration;

use crate::turn::TurnReport;

/// An error of a session. The message names the request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The agent did not answer in time. A later answer is dropped.
    #[error("{request}: the agent gave no answer within {within:?}")]
    NoAnswer {
        /// The request.
        request: String,
        /// The deadline.
        within: Duration,
    },
    /// The agent answered with an error.
    #[error("{request}: the agent refused: {error}")]
    Refused {
        /// The request.
        request: String,
        /// The agent's error message.
        error: String,
    },
    /// The agent has ended or no longer accepts input.
    #[error("{request}: the agent has ended or no longer accepts input")]
    Ended {
        /// The request.
        request: String,
    },
    /// The message got no turn: it was cancelled, its uuid was already used, or the agent no longer accepts input.
    #[error("the message got no turn: it was cancelled, its uuid was already used, or the agent no longer accepts input")]
    Cancelled,
    /// The turn was interrupted. Its report has what there is.
    #[error("the turn was interrupted")]
    Interrupted(Box<TurnReport>),
    /// The turn failed. Its report has what there is.
    #[error("{}", .0.why())]
    Failed(Box<TurnReport>),
}
