//! `stream_event`: a message while it is being written (`--include-partial-messages`).

use super::message::{Message, Usage};
use crate::json::Value;
use crate::wire::{Field, Read, wire};

wire! {
    /// `stream_event`
    StreamEvent {
        event: Partial = "event",
        ttft_ms: Option<u64> = "ttft_ms",
        api_message_id: Option<String> = "api_message_id";
        also "user_message_uuid", "user_message_uuids", "resume_reason", "thinking_display", "abandoned_blocks"
    }

    /// `message_start`
    MessageStart { message: Option<Message> = "message"; also "type" }

    /// `content_block_start`
    BlockStart { index: Option<u64> = "index", content_block: Option<PartialBlock> = "content_block"; also "type" }

    /// The start of a block: its kind, and the id and name of a tool call.
    PartialBlock {
        kind: Option<String> = "type",
        id: Option<String> = "id",
        name: Option<String> = "name",
        text: Option<String> = "text",
        thinking: Option<String> = "thinking",
    }

    /// `content_block_delta`
    BlockDelta { index: Option<u64> = "index", delta: Option<Delta> = "delta"; also "type" }

    /// The text that is added to a block.
    Delta {
        text: Option<String> = "text",
        thinking: Option<String> = "thinking",
        partial_json: Option<String> = "partial_json",
        signature: Option<String> = "signature";
        also "type", "citation"
    }

    /// `content_block_stop`
    BlockStop { index: Option<u64> = "index"; also "type" }

    /// `message_delta`: the only live source of output tokens.
    MessageDelta { delta: Option<MessageEnd> = "delta", usage: Option<Usage> = "usage"; also "type", "context_management" }

    /// How the message ended.
    MessageEnd { stop_reason: Option<String> = "stop_reason", stop_sequence: Option<String> = "stop_sequence"; also "container" }
}

/// One event of the Messages API stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Partial {
    /// `message_start`
    MessageStart(Box<MessageStart>),
    /// `content_block_start`
    BlockStart(BlockStart),
    /// `content_block_delta`
    BlockDelta(BlockDelta),
    /// `content_block_stop`
    BlockStop(BlockStop),
    /// `message_delta`
    MessageDelta(Box<MessageDelta>),
    /// `message_stop`
    MessageStop,
    /// `ping`, `error`, or a kind this version does not know.
    Other(Option<String>),
    /// There is no `event` object.
    #[default]
    Absent,
}

impl Field for Partial {
    fn field(value: Value<'_>) -> Self {
        fn shape<T: Read + Default>(value: Value<'_>) -> T {
            T::read(value).unwrap_or_default()
        }
        if value.entries().is_none() {
            return Self::Absent;
        }
        let kind = value.get("type").and_then(Value::as_str);
        match kind.as_deref() {
            Some("content_block_delta") => Self::BlockDelta(shape(value)),
            Some("content_block_start") => Self::BlockStart(shape(value)),
            Some("content_block_stop") => Self::BlockStop(shape(value)),
            Some("message_start") => Self::MessageStart(shape::<MessageStart>(value).into()),
            Some("message_delta") => Self::MessageDelta(shape::<MessageDelta>(value).into()),
            Some("message_stop") => Self::MessageStop,
            other => Self::Other(other.map(str::to_owned)),
        }
    }
    fn present(&self) -> bool {
        *self != Self::Absent
    }
}
