//! What an agent was not allowed to do and tells of on stderr alone.

use serde::Serialize;

/// A call that the agent itself rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rejected {
    /// `a patch` or `a command`.
    pub what: &'static str,
    /// Why, in the agent's words.
    pub why: String,
}

impl std::fmt::Display for Rejected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}
