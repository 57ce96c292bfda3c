//! Why an agent did not start, and what to do about it.

use std::io;
use std::path::PathBuf;

use tapline_recording::RecordingError;
use tapline_session::exit;

/// Why an agent did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The program was not found. The message is the same as in the report.
    #[error("{agent}: not found: {path}")]
    NotFound {
        /// The agent's name.
        agent: &'static str,
        /// The path or name that was tried.
        path: PathBuf,
    },
    /// The program exists but cannot be executed.
    #[error("{agent}: not executable: {path}")]
    NotExecutable {
        /// The agent's name.
        agent: &'static str,
        /// Its path.
        path: PathBuf,
        /// Why not.
        #[source]
        error: io::Error,
    },
    /// An option that the agent does not have, or that would break the stream.
    #[error("{0}")]
    Refused(String),
    /// The working directory does not exist or cannot be used.
    #[error("cannot use the folder {path}")]
    Cwd {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The recording could not be started.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The system has no more processes, descriptors or memory.
    #[error("cannot start {agent}")]
    System {
        /// The agent's name.
        agent: &'static str,
        /// Why.
        #[source]
        error: io::Error,
    },
}

impl StartError {
    /// The exit code that tapline uses for this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound { .. } => exit::NOT_FOUND,
            Self::NotExecutable { .. } | Self::System { .. } => exit::NOT_EXECUTABLE,
            Self::Refused(_) | Self::Cwd { .. } | Self::Recording(_) => exit::USAGE,
        }
    }
}
