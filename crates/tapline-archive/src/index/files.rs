//! The files in the index, without what they say, and how they are forgotten.

use std::collections::HashSet;
use std::path::PathBuf;

use rusqlite::TransactionBehavior;

use super::rows::count;
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

    /// Forgets what the files of these sessions said. Those that are still there are read again by the next update. Returns
    /// all of them.
    pub fn forget(&mut self, sessions: &HashSet<String>) -> Result<Vec<IndexedFile>, ArchiveError> {
        // What is deleted is written over.
        self.db.pragma_update(None, "secure_delete", true)?;
        let mut files = self.files()?;
        files.retain(|(_, session)| sessions.contains(session));
        let transaction = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for (file, _) in &files {
            transaction.execute("DELETE FROM facts WHERE file = ?", [file.id])?;
            transaction.execute("DELETE FROM files WHERE id = ?", [file.id])?;
        }
        count(&transaction)?;
        transaction.commit()?;
        // The log has what was there, too. Another process that reads may need it for a moment.
        let _ = self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        Ok(files.into_iter().map(|(file, _)| file).collect())
    }
}
