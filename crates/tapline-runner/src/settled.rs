//! How a permission question was decided, and by whom: what the updates tell and a recording keeps.

use serde::Serialize;
use tapline_session::permission::{NoRule, Ruling, Suggestion};

/// Who decided a permission question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SettledBy {
    /// A rule.
    Rule,
    /// The callback: a program, or the person using it.
    Callback,
    /// There was nobody to ask.
    Nobody,
    /// The callback did not answer in time.
    Deadline,
    /// The callback panicked.
    Panic,
    /// The agent itself: its settings, its mode, or because the tool is harmless. tapline was not asked.
    Agent,
    /// A hook that is not tapline's.
    Hook,
    /// The agent withdrew the question: the turn was interrupted.
    Withdrawn,
}

/// How a permission question was decided, as a recording keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Settled {
    /// The question's id; `None` if tapline was not asked.
    pub request_id: Option<String>,
    /// The call.
    pub tool_use_id: Option<String>,
    /// The tool.
    pub tool: String,
    /// `allow` or `deny`.
    pub ruling: Ruling,
    /// Who decided.
    pub by: SettledBy,
    /// The rule, if there is one: `allow[2]`.
    pub rule: Option<String>,
    /// The reason from the rule or the answer.
    pub reason: Option<String>,
    /// Whether the call runs with another input.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub rewritten: bool,
    /// Whether the agent was told to remember something, so that it need not ask again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub remembered: bool,
    /// The rule that would have allowed the call, if there was nobody to ask; or why no rule can.
    #[serde(skip)]
    pub suggestion: Option<Result<Suggestion, NoRule>>,
}
