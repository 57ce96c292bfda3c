//! Finds the files of sessions by the beginning of their ids.

use super::{FILES, Index, IndexedFile, facts_in, facts_of, file_of};
use crate::error::ArchiveError;
use crate::facts::Facts;

impl Index {
    /// Returns the files of all sessions whose id begins with this text, with what they say, sessions together.
    pub(crate) fn sessions_from(&self, start: &str) -> Result<Vec<(String, IndexedFile, Facts)>, ArchiveError> {
        let mut rows = self
            .db
            .prepare(&format!("{FILES} WHERE session >= ?1 AND substr(session, 1, length(?1)) = ?1 ORDER BY session, path"))?;
        let mut rows = rows.query([start])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let file = file_of(row)?;
            let facts = facts_of(facts_in(row, &file)?);
            found.push((row.get(7)?, file, facts));
        }
        Ok(found)
    }
}
