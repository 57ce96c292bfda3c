//! The events that Codex writes: one row for each in the tag table below.

use super::{ItemEvent, StreamError, ThreadStarted, TurnCompleted, TurnFailed, TurnStarted, transcript};
use crate::json::{Kind, Value};
use crate::tags::{Fit, Reading, Wire, tag_table};

tag_table! {
    "thread.started" => ThreadStarted(ThreadStarted);
    "turn.started" => TurnStarted(TurnStarted);
    "turn.completed" => TurnCompleted(TurnCompleted);
    "turn.failed" => TurnFailed(TurnFailed);
    "item.started" => ItemStarted(ItemEvent) core item;
    "item.updated" => ItemUpdated(ItemEvent) core item;
    "item.completed" => ItemCompleted(ItemEvent) core item;
    "error" => Error(StreamError);
    beyond
}

/// The message for output of old versions: its lines have no `type`, and none of them says how a turn ended.
const BEFORE_0_44: &str = "this is the output of Codex before 0.44, which tapline does not read: use Codex 0.44 or newer";

impl Wire for Event {
    fn read_line(kind: &str, _subtype: Option<&str>, value: Value<'_>) -> Option<Reading<Self>> {
        Self::read(kind, value)
    }

    fn fit(reading: &Reading<Self>) -> Fit {
        match &reading.event {
            // Many agents write an `error` with a message.
            Self::Error(error) if error.message.is_some() => Fit::Possible,
            Self::Error(_) => Fit::Open,
            // A bare type is easily somebody else's, too.
            Self::ThreadStarted(thread) if thread.thread_id.is_none() => Fit::Likely,
            Self::TurnCompleted(turn) if turn.usage.is_none() => Fit::Likely,
            Self::TurnStarted(_) => Fit::Likely,
            Self::ThreadStarted(_)
            | Self::TurnCompleted(_)
            | Self::TurnFailed(_)
            | Self::ItemStarted(_)
            | Self::ItemUpdated(_)
            | Self::ItemCompleted(_) => {
                if reading.error.is_some() {
                    Fit::Likely
                } else {
                    Fit::Sure
                }
            }
        }
    }

    /// Recognises `{"id":"0","msg":{"type":…}}`, which Codex wrote before 0.44.
    fn too_old(value: Value<'_>) -> Option<&'static str> {
        let kind = value.get("msg").and_then(|message| message.get("type")).map(Value::kind);
        (value.get("id").is_some() && kind == Some(Kind::String)).then_some(BEFORE_0_44)
    }

    fn in_transcript(value: Value<'_>) -> Option<&'static str> {
        transcript::is_line(value).then_some(transcript::ABOUT)
    }
}
