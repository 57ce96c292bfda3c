//! Why a source cannot be read.

use std::io;
use std::path::PathBuf;

use tapline_recording::RecordingError;

/// Why a source cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The path is a folder, but not a recording.
    #[error("{0} is a folder but not a recording")]
    Folder(PathBuf),
    /// The recording cannot be opened.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The file cannot be opened.
    #[error("cannot open {name}")]
    Open {
        /// The name of the file.
        name: String,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// It is no stream, but something that holds one.
    #[error("{name} is {what}")]
    Packed {
        /// Which.
        name: String,
        /// What it is, and what to do about it.
        what: &'static str,
    },
    /// Reading failed.
    #[error("cannot read {name}")]
    Read {
        /// The name of the source.
        name: String,
        /// The cause.
        #[source]
        error: io::Error,
    },
}
