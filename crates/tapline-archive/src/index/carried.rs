//! What an index of another version says, and one that was put aside: it is carried over row by row, because nobody else
//! knows what deleted files said.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::rows::{Row, Rows, count, row_hash};
use super::{Index, SCHEMA, TABLES};
use crate::database;
use crate::error::ArchiveError;
use crate::facts::{Facts, earlier, hash_of_bytes};
use crate::sealed::unsealed;

/// Where rows come from.
struct Origin<'f> {
    db: &'f Connection,
    /// The tables of files and of what they say.
    tables: [&'f str; 2],
    version: i64,
    /// Whether a row that is not what was written means that the index is damaged. Otherwise it is left out.
    is_whole: bool,
}

/// Brings the tables of an earlier version up to this one, with all that they say.
pub(super) fn migrate(db: &Transaction<'_>, version: i64) -> Result<bool, ArchiveError> {
    db.execute_batch(
        "ALTER TABLE files RENAME TO earlier_files; ALTER TABLE facts RENAME TO earlier_facts; \
         DROP INDEX files_by_session; DROP INDEX files_by_last; DROP TABLE counted;",
    )?;
    db.execute_batch(TABLES)?;
    carry(db, &Origin { db, tables: ["earlier_files", "earlier_facts"], version, is_whole: true })?;
    db.execute_batch("DROP TABLE earlier_files; DROP TABLE earlier_facts")?;
    Ok(true)
}

impl Index {
    /// Takes over what other files of the index say and this one does not.
    pub(super) fn absorb(&mut self, folder: &Path) -> Result<(), ArchiveError> {
        SCHEMA.absorb(&mut self.db, folder, &self.name, |db, other| {
            // What is not a database is damaged, and says nothing.
            let Ok((other, version)) = database::open_read_only(other) else { return Ok(true) };
            let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            carry(&transaction, &Origin { db: &other, tables: ["files", "facts"], version, is_whole: false })?;
            transaction.commit()?;
            Ok(true)
        })
    }
}

/// Carries rows over, in the present form. Files that are still there will be read again.
fn carry(db: &Transaction<'_>, from: &Origin<'_>) -> Result<(), ArchiveError> {
    let [files, facts] = from.tables;
    // Since version 8 there is one more number, under two names.
    let columns = ["ended", "open", "0"];
    let rows = columns.into_iter().find_map(|ended| {
        let asked = format!(
            "SELECT path, recording, len, mtime, session, last, facts, {ended} FROM {files} AS f JOIN {facts} ON file = f.id \
             WHERE session IS NOT NULL"
        );
        from.db.prepare(&asked).ok().map(|rows| (ended, rows))
    });
    let Some((ended, mut rows)) = rows else { return if from.is_whole { Err(ArchiveError::Damaged) } else { Ok(()) } };
    // All rows are read: a damaged list of paths says of a file that is known that it is not.
    let mut known = HashMap::<Vec<u8>, i64>::new();
    let mut paths = db.prepare("SELECT path, mtime FROM files NOT INDEXED")?;
    for row in paths.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))? {
        known.extend(row.ok());
    }
    let mut put = Rows::new(db)?;
    let mut rows = rows.query([])?;
    loop {
        let row = match rows.next() {
            Ok(Some(row)) => row,
            Err(error) if from.is_whole => return Err(error.into()),
            Ok(None) | Err(_) => break,
        };
        let Some(row) = Carried::read(row, from.version, ended).ok().flatten() else {
            if from.is_whole {
                return Err(ArchiveError::Damaged);
            }
            continue;
        };
        let path = Path::new(OsStr::from_bytes(&row.path));
        let is_there = path.exists();
        if known.get(&row.path).is_some_and(|known| is_there || *known >= row.mtime) {
            continue;
        }
        put.put(Row {
            path: &row.path,
            recording: row.recording.as_deref(),
            len: row.len,
            mtime: if is_there { 0 } else { row.mtime },
            changed: 0,
            read: (0, 0),
            ended: if ended == "ended" { row.ended } else { 0 },
            gone: !is_there,
            facts: Some(row.facts),
        })?;
    }
    Ok(count(db)?)
}

/// A row that is carried over.
struct Carried {
    path: Vec<u8>,
    recording: Option<Vec<u8>>,
    len: i64,
    mtime: i64,
    ended: i64,
    facts: Facts,
}

impl Carried {
    /// Reads a row. Returns `None` if it is not what was written.
    fn read(row: &rusqlite::Row<'_>, version: i64, ended_in: &str) -> rusqlite::Result<Option<Self>> {
        let (path, recording): (Vec<u8>, Option<Vec<u8>>) = (row.get(0)?, row.get(1)?);
        let [len, mtime, last, ended] = [row.get(2)?, row.get(3)?, row.get(5)?, row.get(7)?];
        let session: String = row.get(4)?;
        let (of, folder) =
            (Path::new(OsStr::from_bytes(&path)), recording.as_deref().map(|folder| Path::new(OsStr::from_bytes(folder))));
        let hashes = if ended_in == "0" {
            [row_hash(of, folder, &session, [len, mtime, last]), hash_of_version_2(&path, &session, last)]
        } else {
            [row_hash(of, folder, &session, [len, mtime, last, ended]); 2]
        };
        let facts = row.get_ref(6)?.as_blob()?;
        let Some(facts) = hashes.into_iter().find_map(|hash| unsealed(facts, hash)) else { return Ok(None) };
        let read = if ended_in == "0" { earlier::of_version(version, facts) } else { earlier::present(facts) };
        // What cannot be read in any form is a session all the same.
        let facts = read.filter(|facts| facts.names.get(facts.session) == session).unwrap_or_else(|| {
            let mut facts = Facts { last: u64::try_from(last).ok().filter(|last| *last > 0), ..Facts::default() };
            facts.session = facts.names.add(&session);
            facts
        });
        Ok(Some(Self { path, recording, len, mtime, ended, facts }))
    }
}

/// Returns the hash that version 2 had of a row.
fn hash_of_version_2(path: &[u8], session: &str, last: i64) -> u64 {
    hash_of_bytes(path).rotate_left(1) ^ hash_of_bytes(session.as_bytes()).rotate_left(2) ^ last.cast_unsigned().rotate_left(3)
}
