//! Why a source cannot be read.

use std::io;
use std::path::PathBuf;

use tapline_recording::RecordingError;

/// Why a source cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// It is a folder, but no recording.
    #[error("{0} is a folder but not a recording")]
    Folder(PathBuf),
    /// The recording cannot be opened.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The file cannot be opened.
    #[error("cannot open {name}")]
    Open {
        /// Which.
        name: String,
        /// Why.
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
        /// What.
        name: String,
        /// Why.
        #[source]
        error: io::Error,
    },
}
