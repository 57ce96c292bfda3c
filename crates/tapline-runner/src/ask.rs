//! The simplest use: a prompt, and its answer or the reason for the failure.

use std::fmt;

use tapline_protocol::{Json, JsonError};
use tapline_session::text::{one_line, with_causes};
use tapline_session::{Outcome, Report};

use crate::agent::Agent;
use crate::error::StartError;

/// An agent's answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The final answer.
    pub text: String,
    /// The report of the run.
    pub report: Box<Report>,
}

impl Answer {
    /// Returns the session id, for [`Agent::resume`].
    pub fn session_id(&self) -> Option<&str> {
        self.report.session.id.as_deref()
    }

    /// Returns the structured answer ([`Agent::json_schema`]), unchanged.
    pub fn structured(&self) -> Option<Json> {
        let said = self.report.turns.last().and_then(|turn| turn.structured_output.clone());
        // Some agents return it as their text.
        said.or_else(|| Json::parse(&self.text).ok())
    }

    /// Deserializes the structured answer into your own type. The error says what does not fit.
    pub fn to<T: serde::de::DeserializeOwned>(&self) -> Result<T, StructuredError> {
        Ok(self.structured().ok_or(StructuredError::None)?.to()?)
    }

    /// Returns the cost in dollars, if the agent reports it.
    pub fn cost_usd(&self) -> Option<f64> {
        self.report.ledger.cost_usd
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Why an answer cannot be read as a type.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StructuredError {
    /// The answer is plain text.
    #[error("the answer is plain text, not structured output")]
    None,
    /// The answer is JSON of another shape.
    #[error(transparent)]
    Misfit(#[from] JsonError),
}

/// Why there is no answer. `Debug` is what `main` prints: one line for people, with the causes. The list is exhaustive on
/// purpose: the agent did not start, or it started and failed.
#[derive(thiserror::Error)]
pub enum Failure {
    /// The agent did not start.
    #[error(transparent)]
    NotStarted(#[from] StartError),
    /// The agent started and failed. See its report.
    #[error("{}", words(.0))]
    Failed(Box<Report>),
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&with_causes(self))
    }
}

fn words(report: &Report) -> String {
    let verdict = &report.verdict;
    let category = verdict.category.map(|category| format!(" ({})", category.word())).unwrap_or_default();
    match verdict.error_for_people() {
        Some(error) => format!("{}{category}: {}", verdict.outcome, one_line(error)),
        None => format!("{}{category}", verdict.outcome),
    }
}

/// Sends a prompt to Claude, in the current folder and with its own settings, and waits for the answer.
///
/// ```no_run
/// # async fn example() -> Result<(), tapline_runner::Failure> {
/// let answer = tapline_runner::ask("What does this project do?").await?;
/// println!("{answer}");
/// # Ok(())
/// # }
/// ```
pub async fn ask(prompt: impl Into<String>) -> Result<Answer, Failure> {
    Agent::claude().prompt(prompt).ask().await
}

impl Agent {
    /// Starts the agent and waits for its answer.
    pub async fn ask(self) -> Result<Answer, Failure> {
        let report = self.start().await?.finish().await;
        match report.verdict.outcome {
            Outcome::Success => Ok(Answer { text: report.answer.clone().unwrap_or_default(), report: Box::new(report) }),
            Outcome::Failure | Outcome::Interrupted | Outcome::Incomplete => Err(Failure::Failed(Box::new(report))),
        }
    }
}
