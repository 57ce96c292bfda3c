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
    /// The file is compressed or packed; it is not a stream itself.
    #[error("{name} is {what}")]
    Packed {
        /// The name of the file.
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

impl SourceError {
    /// Returns whether nothing failed, but there is nothing more to read yet: see
    /// [`Source::follow`](crate::Source::follow).
    pub fn is_pending(&self) -> bool {
        matches!(self, Self::Read { error, .. } if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// Why the archive cannot be read or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The folder of the index cannot be used.
    #[error("cannot use {folder}")]
    Folder {
        /// The folder or file.
        folder: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The database failed.
    #[error("the index failed")]
    Database(#[from] rusqlite::Error),
    /// Another version of tapline makes the index anew at the same time.
    #[error("another version of tapline uses the index at the same time")]
    Outdated,
    /// The index is damaged: it does not contain what was written to it.
    #[error("the index is damaged")]
    Damaged,
}

impl ArchiveError {
    /// Returns whether the index is damaged. [`Index::rebuild`](crate::Index::rebuild) makes a new one.
    pub fn is_damage(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        match self {
            Self::Damaged => true,
            Self::Database(error) => {
                matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase)) || is_nonsense(error)
            }
            Self::Folder { .. } | Self::Outdated => false,
        }
    }
}

/// Returns whether a value does not have the type that was written, or a table is missing: a page was overwritten.
fn is_nonsense(error: &rusqlite::Error) -> bool {
    use rusqlite::Error as E;
    match error {
        E::FromSqlConversionFailure(..)
        | E::IntegralValueOutOfRange(..)
        | E::InvalidColumnType(..)
        | E::Utf8Error(..)
        | E::SqlInputError { .. } => true,
        // No statement of ours is wrong, so the tables are.
        E::SqliteFailure(failure, _) => failure.extended_code == rusqlite::ffi::SQLITE_ERROR,
        _ => false,
    }
}
