//! Why an agent did not start, with what to do about it.

use std::io;
use std::path::PathBuf;

use tapline_recording::RecordingError;

/// Why an agent did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no such program. The words are those of the report.
    #[error("{agent}: not found: {path}")]
    NotFound {
        /// The agent's name.
        agent: &'static str,
        /// What was looked for.
        path: PathBuf,
    },
    /// It is there, but cannot be executed.
    #[error("{agent}: not executable: {path}: {error}")]
    NotExecutable {
        /// The agent's name.
        agent: &'static str,
        /// What was found.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// An option that the agent does not have, or that would break the stream.
    #[error("{0}")]
    Refused(String),
    /// The folder to work in is not there.
    #[error("cannot use the folder {path}: {error}")]
    Cwd {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The recording could not be begun.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The system has no more processes, descriptors or memory.
    #[error("cannot start {agent}: {error}")]
    System {
        /// The agent's name.
        agent: &'static str,
        /// Why.
        error: io::Error,
    },
}

impl StartError {
    /// The exit code that tapline itself gives for it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } | Self::System { .. } => 126,
            Self::Refused(_) | Self::Cwd { .. } | Self::Recording(_) => 2,
        }
    }
}
