//! Errors of a running session.

use std::fmt;
use std::time::Duration;

use tapline_session::text::{one_line, with_causes};

use crate::turn::TurnReport;

/// An error of a session. The message names the request. `Debug` is what `main` prints: the same line as `Display`.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The agent did not answer in time. A later answer is dropped.
    #[error("{}: the agent gave no answer within {within:?}", one_line(request))]
    NoAnswer {
        /// The request.
        request: String,
        /// The deadline.
        within: Duration,
    },
    /// The agent answered with an error.
    #[error("{}: the agent refused: {}", one_line(request), one_line(error))]
    Refused {
        /// The request.
        request: String,
        /// The agent's error message.
        error: String,
    },
    /// The agent has ended or no longer accepts input.
    #[error("{}: the agent has ended or no longer accepts input", one_line(request))]
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

impl fmt::Debug for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&with_causes(self))
    }
}

#[cfg(test)]
mod tests {
    use tapline_protocol::Json;

    use super::*;

    #[test]
    fn every_error_is_one_line_that_cannot_steer_a_terminal() {
        const HOSTILE: &str = "bad\n\u{1b}[2Jnews\u{202e}";
        let turn = || {
            let end = Json::of(&serde_json::json!({ "failed": true, "message": HOSTILE })).to().unwrap();
            Box::new(TurnReport::new(String::new(), end, Vec::new()))
        };
        let (request, within) = (|| HOSTILE.to_owned(), Duration::from_secs(1));
        let seen = "bad ␛[2Jnews<U+202E>";
        for (error, said) in [
            (SessionError::NoAnswer { request: request(), within }, format!("{seen}: the agent gave no answer within 1s")),
            (
                SessionError::Refused { request: request(), error: HOSTILE.to_owned() },
                format!("{seen}: the agent refused: {seen}"),
            ),
            (SessionError::Ended { request: request() }, format!("{seen}: the agent has ended or no longer accepts input")),
            (
                SessionError::Cancelled,
                "the message got no turn: it was cancelled, its uuid was already used, or the agent no longer accepts input"
                    .into(),
            ),
            (SessionError::Interrupted(turn()), "the turn was interrupted".into()),
            (SessionError::Failed(turn()), format!("the turn failed: {seen}")),
        ] {
            assert_eq!(error.to_string(), said);
            assert_eq!(format!("{error:?}"), said);
        }
    }
}
