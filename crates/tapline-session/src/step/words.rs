//! The fixed words in steps: a call's status, the kind of a delta, the level of a notice, the phase of an item.

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
