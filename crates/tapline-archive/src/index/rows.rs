//! How a file stands in the index: one row of what is known about it, and one of what it says, with a hash of both.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rusqlite::{Connection, Statement, params};

use super::surroundings::{end_written, with_surroundings};
use crate::facts::{Facts, hash_of_bytes};
use crate::places::Found;
use crate::scan::Scanned;
use crate::sealed::sealed;

/// What is kept of a file.
pub(super) struct Row<'r> {
    pub(super) path: &'r [u8],
    pub(super) recording: Option<&'r [u8]>,
    pub(super) len: i64,
    pub(super) mtime: i64,
    pub(super) changed: i64,
    /// Up to where it was read, and a hash that tells whether it only grew since then.
    pub(super) read: (u64, u64),
    pub(super) ended: i64,
    pub(super) gone: bool,
    /// What it says. `None`: it is no session.
    pub(super) facts: Option<Facts>,
}

/// Statements that write rows.
pub(super) struct Rows<'c> {
    file: Statement<'c>,
    said: Statement<'c>,
}

impl<'c> Rows<'c> {
    pub(super) fn new(db: &'c Connection) -> rusqlite::Result<Self> {
        let file = db.prepare(
            "INSERT INTO files (path, recording, len, mtime, changed, offset, chk, session, last, ended, gone) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) \
             ON CONFLICT (path) DO UPDATE SET recording = excluded.recording, len = excluded.len, mtime = excluded.mtime, changed = excluded.changed, \
             offset = excluded.offset, chk = excluded.chk, session = excluded.session, last = excluded.last, \
             ended = excluded.ended, gone = excluded.gone RETURNING id",
        )?;
        let said = db.prepare("INSERT OR REPLACE INTO facts (file, ids, facts) VALUES (?, ?, ?)")?;
        Ok(Self { file, said })
    }

    /// Writes a row in place of an earlier one.
    pub(super) fn put(&mut self, row: Row<'_>) -> rusqlite::Result<()> {
        let Row { path, recording, len, mtime, changed, read: (offset, check), ended, gone, facts } = row;
        let session = facts.as_ref().map(|facts| facts.names.get(facts.session));
        let last = facts.as_ref().map_or(0, |facts| last_heard(mtime, facts)).cast_signed();
        let (offset, check) = (offset.cast_signed(), check.cast_signed());
        let values = params![path, recording, len, mtime, changed, offset, check, session, last, ended, gone];
        let folder = recording.map(|folder| Path::new(OsStr::from_bytes(folder)));
        let of = Path::new(OsStr::from_bytes(path));
        let row_hash = row_hash(of, folder, session.unwrap_or_default(), [len, mtime, last, ended]);
        let id: i64 = self.file.query_row(values, |row| row.get(0))?;
        let facts = facts.unwrap_or_default();
        let ids: Vec<u8> = facts.messages.iter().flat_map(|message| message.id.to_le_bytes()).collect();
        let facts = sealed(postcard::to_stdvec(&facts).unwrap_or_default(), row_hash);
        self.said.execute(params![id, sealed(ids, 0), facts]).map(drop)
    }
}

/// Keeps what files say, all of it or nothing.
pub(super) fn keep(db: &mut Connection, batch: &mut Vec<(&Found, Option<Scanned>)>) -> rusqlite::Result<()> {
    let transaction = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let mut rows = Rows::new(&transaction)?;
    for (found, scanned) in batch.drain(..) {
        // Asked before it is read: an end that comes between is read now and once more next time.
        let ended = end_written(found);
        let scanned = with_surroundings(found, scanned);
        rows.put(Row {
            path: found.path.as_os_str().as_bytes(),
            recording: found.recording.as_ref().map(|folder| folder.as_os_str().as_bytes()),
            len: found.len.cast_signed(),
            mtime: found.mtime,
            changed: found.changed,
            read: scanned.as_ref().map_or((0, 0), |scanned| (scanned.offset, scanned.check)),
            ended,
            gone: false,
            facts: scanned.map(|scanned| scanned.facts),
        })?;
    }
    drop(rows);
    count(&transaction)?;
    transaction.commit()
}

/// Counts the files of sessions, and notes that there was a change.
pub(super) fn count(db: &Connection) -> rusqlite::Result<()> {
    let count = "INSERT OR REPLACE INTO counted SELECT 1, count(*), random() FROM files NOT INDEXED WHERE session IS NOT NULL";
    db.execute(count, []).map(drop)
}

/// Returns when a file was last heard of: no request in it counts for a later time.
fn last_heard(mtime: i64, facts: &Facts) -> u64 {
    let known = [facts.first, facts.last, facts.run.map(|run| run.last)].into_iter().flatten().max();
    known.unwrap_or(mtime.cast_unsigned() / 1_000_000)
}

/// Returns a hash of everything in a row apart from its facts, and from whether its file is gone, which changes.
pub(super) fn row_hash<const N: usize>(path: &Path, recording: Option<&Path>, session: &str, numbers: [i64; N]) -> u64 {
    let recording = recording.map_or(&[][..], |folder| folder.as_os_str().as_bytes());
    let numbers = numbers.map(i64::to_le_bytes);
    let parts = [path.as_os_str().as_bytes(), recording, session.as_bytes(), numbers.as_flattened()];
    parts.into_iter().fold(0, |hash: u64, part| hash.rotate_left(1) ^ hash_of_bytes(part))
}
