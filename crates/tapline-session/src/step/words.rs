//! The fixed words in steps: a call's status, the kind of a delta, the level of a notice, the phase of an item.

use super::What;
use crate::words::words;

words! {
    /// How a call ended.
    pub enum CallStatus {
        /// It succeeded.
        Ok = "ok",
        /// It failed.
        Error = "error",
        /// It was denied.
        Denied = "denied",
        /// It has no result yet.
        Pending = "pending",
    } else Pending
}

words! {
    /// The kind of a delta.
    pub enum DeltaKind {
        /// Text.
        Text = "text",
        /// Thinking.
        Thinking = "thinking",
        /// The input of a call.
        Json = "json",
    } else Text
}

words! {
    /// The importance of a notice.
    pub enum Level {
        /// A detail.
        Info = "info",
        /// A warning.
        Warning = "warning",
        /// An error.
        Error = "error",
    } else Info
}

words! {
    /// The phase of a Codex item.
    pub enum Phase {
        /// It has started.
        Started = "started",
        /// It has changed.
        Updated = "updated",
        /// It has ended.
        Completed = "completed",
    } else Updated
}

impl What {
    /// The names of all kinds of steps, as `step` has them in JSON.
    pub const NAMES: &[&str] = &[
        "session",
        "prompt",
        "text",
        "thinking",
        "call",
        "answer",
        "orphan",
        "server_call",
        "server_answer",
        "partial",
        "retracted",
        "turn",
        "retry",
        "rate_limit",
        "task",
        "hook",
        "denied",
        "question",
        "progress",
        "item",
        "error",
        "notice",
        "quiet",
        "odd",
    ];

    /// The name of its kind, as `step` has it in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Session(_) => "session",
            Self::Prompt { .. } => "prompt",
            Self::Text(_) => "text",
            Self::Thinking(_) => "thinking",
            Self::Call(_) => "call",
            Self::Answer(_) => "answer",
            Self::Orphan(_) => "orphan",
            Self::ServerCall(_) => "server_call",
            Self::ServerAnswer(_) => "server_answer",
            Self::Partial(_) => "partial",
            Self::Retracted { .. } => "retracted",
            Self::Turn(_) => "turn",
            Self::Retry(_) => "retry",
            Self::RateLimit(_) => "rate_limit",
            Self::Task(_) => "task",
            Self::Hook(_) => "hook",
            Self::Denied(_) => "denied",
            Self::Question(_) => "question",
            Self::Progress(_) => "progress",
            Self::Item(_) => "item",
            Self::Error { .. } => "error",
            Self::Notice(_) => "notice",
            Self::Quiet { .. } => "quiet",
            Self::Odd(_) => "odd",
        }
    }
}
