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
    /// How a call ended that did not end by itself.
    pub enum CallEnd {
        /// It was given up before or while it ran, because of another call for example.
        Cancelled = "cancelled",
        /// A person or program interrupted it.
        Interrupted = "interrupted",
        /// Its turn has ended, and its result never came.
        Unknown = "unknown",
    } else Unknown
}

impl CallEnd {
    /// Returns what a word of an agent means.
    pub(crate) fn of(word: &str) -> Option<Self> {
        match word {
            "cancelled" | "canceled" => Some(Self::Cancelled),
            "interrupted" | "aborted" => Some(Self::Interrupted),
            _ => None,
        }
    }
}

words! {
    /// Who denied a call.
    pub enum DeniedBy {
        /// A person.
        Person = "person",
        /// A rule of the agent's settings.
        Rule = "rule",
        /// The permission mode, or what decides in its place.
        Mode = "mode",
        /// A hook.
        Hook = "hook",
        /// The sandbox.
        Sandbox = "sandbox",
        /// The program that the agent asked.
        Host = "host",
        /// The stream does not say.
        Unknown = "unknown",
    } else Unknown
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
