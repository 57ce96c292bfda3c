//! Errors of recordings, with the path.

use std::io;
use std::path::PathBuf;

/// An error of a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The path already exists.
    #[error("{0} already exists, and a recording is never overwritten; use another path")]
    Exists(PathBuf),
    /// A folder or file could not be created.
    #[error("cannot write the recording {path}")]
    Create {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The folder is not a recording.
    #[error("{0} is not a recording: it has no stdout")]
    NotARecording(PathBuf),
    /// A file could not be read.
    #[error("cannot read {path}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The end could not be written: the recording opens, but is reported as incomplete.
    #[error("cannot write the end of the recording {path}")]
    Finish {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
}
