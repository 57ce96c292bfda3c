//! The message of the model that a step is a part of.

use serde::{Deserialize, Serialize};
use tapline_protocol::totals::Usage;
use tapline_protocol::{Json, Read as _, Tokens};

use super::What;
use crate::ledger::plausible;

/// What is known of a message of the model beside its id. Each of its blocks is a step, and each of these has all of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct MessageInfo {
    /// The model that wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The API's id of the request that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Why it ended; `None` if it had not ended when the agent wrote this block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// What it used, as the agent writes it. All blocks of a message repeat it, and the output is what was written so far: do not add it up, the
    /// ledger has the sums.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Json>,
}

impl MessageInfo {
    /// Returns its tokens, as far as they can be true.
    pub fn tokens(&self) -> Option<Tokens> {
        self.usage.as_ref()?.with(Usage::read).flatten().map(|usage| plausible(usage.tokens()))
    }
}

impl What {
    /// Returns whether this is a block of a message. Other steps may have a model or a usage of their own.
    pub(crate) fn is_of_message(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Thinking(_) | Self::Call(_) | Self::ServerCall(_) | Self::ServerAnswer(_))
    }
}
