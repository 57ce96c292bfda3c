//! Calls that an agent rejected and reports only on stderr.

use serde::Serialize;

/// A tool call that the agent itself rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rejected {
    /// `a patch` or `a command`.
    pub what: &'static str,
    /// The reason, in the agent's words.
    pub why: String,
}

impl std::fmt::Display for Rejected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}
