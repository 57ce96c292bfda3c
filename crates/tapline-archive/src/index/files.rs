//! The files in the index, without what they say.

use std::path::PathBuf;

use super::{Index, IndexedFile, file_of};
use crate::error::ArchiveError;

impl Index {
    /// Returns all files of sessions, each with its session.
    pub fn files(&self) -> Result<Vec<(IndexedFile, String)>, ArchiveError> {
        let columns = "SELECT id, path, recording, len, mtime, gone, session FROM files WHERE session IS NOT NULL";
        let mut rows = self.db.prepare(columns)?;
        let rows = rows.query_map([], |row| Ok((file_of(row)?, row.get(6)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Returns the paths of all files of sessions.
    pub fn paths(&self) -> Result<Vec<PathBuf>, ArchiveError> {
        Ok(self.files()?.into_iter().map(|(file, _)| file.path).collect())
    }
}
