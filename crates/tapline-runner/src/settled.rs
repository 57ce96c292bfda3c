//! How a permission request was decided, and by whom: for the updates and the recording.

use serde::Serialize;
use tapline_session::permission::{NoRule, Ruling, Suggestion};

/// Who decided a permission request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SettledBy {
    /// A rule.
    Rule,
    /// The callback: a program, or the person using it.
    Callback,
    /// Nobody could be asked.
    Nobody,
    /// The callback did not answer in time.
    Deadline,
    /// The callback panicked, or raised in another language.
    Panic,
    /// The agent itself: its settings, its mode, or because the tool is harmless. tapline was not asked.
    Agent,
    /// A hook that is not tapline's.
    Hook,
    /// The agent withdrew the request, because the turn was interrupted.
    Withdrawn,
}

/// How a permission request was decided, as a recording keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Settled {
    /// The id of the request. `None` if tapline was not asked.
    pub request_id: Option<String>,
    /// The id of the call.
    pub tool_use_id: Option<String>,
    /// The tool.
    pub tool: String,
    /// `allow` or `deny`.
    pub ruling: Ruling,
    /// Who decided.
    pub by: SettledBy,
    /// The rule, if there is one, such as `allow[2]`.
    pub rule: Option<String>,
    /// The reason, from the rule or the answer.
    pub reason: Option<String>,
    /// Whether the call runs with a different input.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub rewritten: bool,
    /// Whether the agent was told to remember something, so that it need not ask again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub remembered: bool,
    /// If nobody could be asked: the rule that would have allowed the call, or why no rule can.
    #[serde(skip)]
    pub suggestion: Option<Result<Suggestion, NoRule>>,
}
