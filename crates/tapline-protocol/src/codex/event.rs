//! The events that Codex writes: one row each in the tag table below.

use super::{ItemEvent, StreamError, ThreadStarted, TurnCompleted, TurnFailed, TurnStarted};
use crate::json::{Kind, Value};
use crate::tags::{Fit, Reading, tag_table};

tag_table! {
    "thread.started" => ThreadStarted(ThreadStarted);
    "turn.started" => TurnStarted(TurnStarted);
    "turn.completed" => TurnCompleted(TurnCompleted);
    "turn.failed" => TurnFailed(TurnFailed);
    "item.started" => ItemStarted(ItemEvent) core "item": Object;
    "item.updated" => ItemUpdated(ItemEvent) core "item": Object;
    "item.completed" => ItemCompleted(ItemEvent) core "item": Object;
    "error" => Error(StreamError);
    beyond
}

/// Reads an object, unless it is of a type that Codex is not known to write.
pub(crate) fn read(kind: &str, value: Value<'_>) -> Option<Reading<Event>> {
    Event::read(kind, value)
}

/// How well a line fits that was read like this. Others write an `error` with a message, too.
pub(crate) fn fit(reading: &Reading<Event>) -> Fit {
    if let Event::Error(error) = &reading.event {
        return if error.message.is_some() { Fit::Likely } else { Fit::Open };
    }
    if reading.error.is_some() { Fit::Likely } else { Fit::Sure }
}

/// Whether Codex before 0.44 wrote this line: `{"id":"0","msg":{"type":…}}`.
pub(crate) fn is_before_0_44(value: Value<'_>) -> bool {
    let kind = value.get("msg").and_then(|message| message.get("type")).map(Value::kind);
    value.get("id").is_some() && kind == Some(Kind::String)
}
