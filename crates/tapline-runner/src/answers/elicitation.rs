//! What a person says to a question of an MCP server's.

use serde::Serialize;
use tapline_protocol::Json;

/// The answer to an elicitation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum ElicitationReply {
    /// What was asked for, by the schema that was given.
    Accept {
        /// It.
        content: Json,
    },
    /// No.
    Decline,
    /// Neither: the person went away.
    Cancel,
}
