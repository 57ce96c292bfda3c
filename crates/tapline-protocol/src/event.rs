//! The content of one line: an event of a known agent, or why it is not one.

mod accessors;

use crate::agent::Agent;
use crate::json::SyntaxError;
use crate::{claude, codex};

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// A JSON object.
    Object,
    /// JSON, but not an object.
    NotObject,
    /// Not JSON, or too long.
    Malformed,
    /// Only whitespace.
    Blank,
    /// A further part of a line above the limit.
    Rest,
}

/// The content of one line. Only the session's fold matches `Event`, and it does so exhaustively.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Claude Code wrote it.
    Claude(claude::Event),
    /// Codex wrote it.
    Codex(codex::Event),
    /// A known type with an unexpected shape. `event` has what could be read.
    Invalid {
        /// What could be read.
        event: Box<Event>,
        /// How the shape differs.
        error: String,
    },
    /// An object of a type that this version does not know, or that this stream's agent does not write.
    Unknown {
        /// `type`, or `system/<subtype>`.
        kind: String,
    },
    /// An object whose `type` is missing or not a string.
    Untyped,
    /// Valid JSON that is not an object.
    NotObject,
    /// Not JSON.
    Malformed(Malformed),
    /// Only whitespace.
    Blank,
    /// A further part of a line above the limit.
    Rest,
}

impl Event {
    /// Returns the kind of the line.
    pub fn line_kind(&self) -> LineKind {
        match self {
            Self::NotObject => LineKind::NotObject,
            Self::Malformed(_) => LineKind::Malformed,
            Self::Blank => LineKind::Blank,
            Self::Rest => LineKind::Rest,
            Self::Claude(_) | Self::Codex(_) | Self::Invalid { .. } | Self::Unknown { .. } | Self::Untyped => LineKind::Object,
        }
    }

    /// Returns the agent as whose event the line was read.
    pub fn agent(&self) -> Option<Agent> {
        match self {
            Self::Claude(_) => Some(Agent::Claude),
            Self::Codex(_) => Some(Agent::Codex),
            Self::Invalid { event, .. } => event.agent(),
            Self::Unknown { .. } | Self::Untyped | Self::NotObject | Self::Malformed(_) | Self::Blank | Self::Rest => None,
        }
    }

    /// Returns the event without [`Self::Invalid`] around it.
    fn as_read(&self) -> &Self {
        if let Self::Invalid { event, .. } = self { event } else { self }
    }
}

/// Why a line could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Not JSON.
    Syntax(SyntaxError),
    /// Above the size limit; further parts follow as [`Event::Rest`].
    TooLong,
    /// A run of NUL bytes, left in a file by a crash.
    NulRun,
}
