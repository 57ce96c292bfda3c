//! What one line says: an event of a known agent, or why it is none.

use crate::agent::Agent;
use crate::json::SyntaxError;
use crate::{claude, codex};

/// What kind of line an event was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// A JSON object.
    Object,
    /// JSON, but no object.
    NotObject,
    /// Not JSON, or too long.
    Malformed,
    /// Blanks alone.
    Blank,
    /// A further part of a line above the limit.
    Rest,
}

/// What one line says. `Event` is matched exhaustively in the session's fold, and nowhere else.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Claude Code wrote it.
    Claude(claude::Event),
    /// Codex wrote it.
    Codex(codex::Event),
    /// A known type whose shape changed: what could be read is in `event`.
    Invalid {
        /// What could be read.
        event: Box<Event>,
        /// What is not as it was.
        error: String,
    },
    /// An object of a type that this version does not model, or that the stream's agent does not write.
    Unknown {
        /// `type`, or `system/<subtype>`.
        kind: String,
    },
    /// An object without a `type` that is a string.
    Untyped,
    /// Valid JSON that is no object.
    NotObject,
    /// Not JSON.
    Malformed(Malformed),
    /// Blanks alone.
    Blank,
    /// A further part of a line above the limit.
    Rest,
}

impl Event {
    /// What kind of line it is.
    pub fn line_kind(&self) -> LineKind {
        match self {
            Self::NotObject => LineKind::NotObject,
            Self::Malformed(_) => LineKind::Malformed,
            Self::Blank => LineKind::Blank,
            Self::Rest => LineKind::Rest,
            Self::Claude(_) | Self::Codex(_) | Self::Invalid { .. } | Self::Unknown { .. } | Self::Untyped => LineKind::Object,
        }
    }

    /// The agent whose event it was read as.
    pub fn agent(&self) -> Option<Agent> {
        match self {
            Self::Claude(_) => Some(Agent::Claude),
            Self::Codex(_) => Some(Agent::Codex),
            Self::Invalid { event, .. } => event.agent(),
            Self::Unknown { .. } | Self::Untyped | Self::NotObject | Self::Malformed(_) | Self::Blank | Self::Rest => None,
        }
    }

    /// What could be read of it.
    pub(crate) fn as_read(&self) -> &Self {
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
    /// A run of NUL bytes: the hole a crash leaves in a file.
    NulRun,
}
