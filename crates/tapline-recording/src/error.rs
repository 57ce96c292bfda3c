//! What can go wrong with a recording, with the path that it went wrong at.

use std::io;
use std::path::PathBuf;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// There is something of that name.
    #[error("{0} already exists, and a recording is never overwritten; use another path")]
    Exists(PathBuf),
    /// A folder or file could not be made.
    #[error("cannot write the recording {path}: {error}; use another folder (--record, TAPLINE_HOME) or --no-record")]
    Create {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The folder is no recording.
    #[error("{0} is not a recording: it has no stdout")]
    NotARecording(PathBuf),
    /// A file could not be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The end could not be written: the recording opens, and says that it is cut.
    #[error("cannot write the end of the recording {path}: {error}")]
    Finish {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}
