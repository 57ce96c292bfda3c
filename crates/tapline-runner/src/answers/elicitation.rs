//! The user's answer to a question of an MCP server.

use serde::Serialize;
use tapline_protocol::Json;

/// The answer to an elicitation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum ElicitationReply {
    /// The user gave the answer.
    Accept {
        /// The answer, which follows the given schema.
        content: Json,
    },
    /// The user said no.
    Decline,
    /// The user did neither and left.
    Cancel,
}
