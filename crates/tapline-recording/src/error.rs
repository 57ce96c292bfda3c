//! Errors of recordings. Each names the path.

use std::io;
use std::path::PathBuf;

/// An error while writing or reading a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The path already exists.
    #[error("{0} already exists, and a recording is never overwritten; use another path")]
    Exists(PathBuf),
    /// A folder or file could not be created.
    #[error("cannot write the recording {path}")]
    Create {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// There is no such folder, or it is not a recording.
    #[error("{0} is not a recording: a recording is a folder that contains a file `stdout`")]
    NotARecording(PathBuf),
    /// The path is a file.
    #[error("{0} is a file; a recording is a folder that contains a file `stdout`")]
    File(PathBuf),
    /// A file could not be read.
    #[error("cannot read {path}")]
    Read {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The end could not be written. The recording can be opened, but is reported as incomplete.
    #[error("cannot write the end of the recording {path}")]
    Finish {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
}
