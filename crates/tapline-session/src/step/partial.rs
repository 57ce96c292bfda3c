//! The parts of a message that is still being written.

use serde::{Deserialize, Serialize};

use super::DeltaKind;

/// A part of a message that is still being written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Partial {
    /// A message starts.
    MessageStart {
        /// The id of the message.
        message_id: Option<String>,
    },
    /// A block starts.
    BlockStart {
        /// The index of the block in the message.
        #[serde(default)]
        index: u64,
        /// `text`, `thinking`, `tool_use`, …
        #[serde(default)]
        kind: String,
        /// The tool, if it is a call.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Text is added to a block.
    Delta {
        /// The index of the block in the message.
        #[serde(default)]
        index: u64,
        /// The kind of delta.
        #[serde(default)]
        kind: DeltaKind,
        /// The added text.
        #[serde(default)]
        text: String,
    },
    /// A block ends.
    BlockStop {
        /// The index of the block in the message.
        #[serde(default)]
        index: u64,
    },
    /// Why the message ends, and its usage.
    MessageDelta {
        /// Why the message ended.
        stop_reason: Option<String>,
        /// The output tokens.
        output_tokens: Option<u64>,
    },
    /// The message ends.
    MessageStop,
}
