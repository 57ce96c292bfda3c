//! The message of the model that a step is a part of.

use serde::{Deserialize, Serialize};

use super::What;

/// What is known of a message of the model beside its id. Each of its blocks is a step, and each of these has all of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct MessageInfo {
    /// The model that wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Why it ended; `None` if it had not ended when the agent wrote this block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Its tokens. All blocks of a message repeat them, and the output is what was written so far: do not add them up, the ledger
    /// has the sums.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<MessageUsage>,
}

/// The tokens of a message, by the names that the API gives them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct MessageUsage {
    /// Input that was not cached.
    pub input_tokens: u64,
    /// Output that was written so far.
    pub output_tokens: u64,
    /// Read from the cache.
    pub cache_read_input_tokens: u64,
    /// Written to the cache.
    pub cache_creation_input_tokens: u64,
}

impl What {
    /// Returns whether this is a block of a message. Other steps may have a model or a usage of their own.
    pub(crate) fn is_of_message(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Thinking(_) | Self::Call(_) | Self::ServerCall(_) | Self::ServerAnswer(_))
    }
}
