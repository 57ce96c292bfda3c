//! How recordings are collected, and what is told of it.

use std::time::Duration;

/// How recordings are collected.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CollectOptions {
    /// Whether to end when nothing is left.
    pub once: bool,
    /// After this time, the broker sends a piece again that was not acknowledged.
    pub ack_wait: Duration,
    /// How long an object is looked for that the broker does not have: a server of a cluster may lag behind the others.
    pub patience: Duration,
}

impl Default for CollectOptions {
    fn default() -> Self {
        Self { once: false, ack_wait: Duration::from_secs(30), patience: Duration::from_secs(30) }
    }
}

/// What happens while recordings are collected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CollectNews {
    /// The first piece of a recording came.
    Began {
        /// Its name.
        recording: String,
    },
    /// So many bytes are on the disk.
    Took {
        /// How many.
        bytes: u64,
    },
    /// A recording is complete, or it was made here.
    Collected {
        /// Its name.
        recording: String,
        /// Whether it was made here.
        is_original: bool,
    },
    /// A recording is not as its original.
    Damaged {
        /// Its name.
        recording: String,
        /// What is wrong.
        why: String,
    },
    /// A message is no piece of a recording.
    Refused {
        /// Its subject.
        subject: String,
        /// What is wrong.
        why: String,
    },
    /// Something is tried again.
    Trouble {
        /// What is wrong.
        why: String,
    },
}
