//! The index: what each session file says, kept in one database, so that only what is new is read. A row depends on its
//! file alone, so several processes can write it, and what is written stays true after the file is gone.

mod carried;
mod copies;
mod files;
mod lookup;
mod rows;
mod surroundings;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rusqlite::{Connection, OptionalExtension as _, Transaction};
use tapline_session::plausible::is_cost;

use crate::database::{self, Schema};
use crate::error::ArchiveError;
use crate::facts::Facts;
use crate::places::{Found, Places};
use crate::scan::{Job, Scanned, check, scan};
use crate::sealed::unsealed;

use rows::{keep, row_hash};
pub(crate) use surroundings::PUSHED_HERE;
use surroundings::end_written;

/// The version of the tables and of [`Facts`]. An index of an earlier version is migrated.
const VERSION: i64 = 10;
const SCHEMA: Schema = Schema {
    name: "index",
    since: 8,
    version: VERSION,
    tables: TABLES,
    probe: "SELECT changed FROM files LIMIT 0",
    migrate: carried::migrate,
};
/// After this many files, what was read is kept, even if the rest is interrupted.
const KEPT_EVERY: usize = 256;

/// Fewer files than this are looked up one by one.
const FEW: usize = 8;
/// So many nanoseconds after it was written, an end may still be amended: a day.
const AMENDED: i64 = 86_400_000_000_000;

const TABLES: &str = "
CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    path BLOB NOT NULL UNIQUE,
    recording BLOB,          -- the folder of the recording, if it is one
    len INTEGER NOT NULL,
    mtime INTEGER NOT NULL,  -- nanoseconds since 1970
    changed INTEGER NOT NULL, -- a hash of its inode and of when that changed
    offset INTEGER NOT NULL, -- up to where it was read
    chk INTEGER NOT NULL,    -- a hash of its first bytes, and of the last ones before the offset
    session TEXT,            -- none: it is no session
    last INTEGER NOT NULL,   -- when it was last heard of, in milliseconds since 1970
    ended INTEGER NOT NULL,  -- when the end of a recording was written, in ns since 1970; 0: never
    gone INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX files_by_session ON files (session);
CREATE INDEX files_by_last ON files (last);
CREATE TABLE counted (
    one INTEGER PRIMARY KEY,
    sessions INTEGER NOT NULL, -- how many files are of sessions
    stamp INTEGER NOT NULL     -- another number after every change
);
CREATE TABLE facts (file INTEGER PRIMARY KEY, ids BLOB NOT NULL, facts BLOB NOT NULL);
";

/// What each session file says. Only what is new is read.
///
/// ```
/// use std::sync::atomic::AtomicBool;
///
/// use tapline_archive::stats::{Query, stats};
/// use tapline_archive::{Index, Places, Prices, Selection};
///
/// # let folder = tapline_testkit::TempFolder::new();
/// # let path = folder.write("run.jsonl", r#"{"type":"assistant","message":{"id":"m","model":"claude-opus-5-5","usage":{"input_tokens":7,"output_tokens":2}},"session_id":"s"}"#);
/// let mut index = Index::in_memory()?; // or `open`, to keep it
/// index.update(&Places::below(&[path]), &AtomicBool::new(false), |_| ())?;
/// let stats = stats(&index, Prices::embedded(), &Selection::default(), &Query::default())?;
/// assert_eq!((stats.totals.sessions, stats.totals.requests), (1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Index {
    db: Connection,
    /// The folder, or none if the index is in memory only.
    folder: Option<PathBuf>,
    /// The name of its file.
    name: String,
    /// Whether a damaged index was put aside.
    was_damaged: bool,
}

/// A file in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexedFile {
    /// Its number.
    pub id: i64,
    /// Its path.
    pub path: PathBuf,
    /// The folder of the recording, if it is one.
    pub recording: Option<PathBuf>,
    /// Its length when it was read.
    pub len: u64,
    /// When it was changed last, in nanoseconds since 1970.
    pub mtime: i64,
    /// Whether it is no longer there.
    pub gone: bool,
}

/// What an update of the index did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Updated {
    /// The number of files that were read.
    pub files: usize,
    /// How many bytes of them were new.
    pub bytes: u64,
    /// Files that could not be read, and why.
    pub unreadable: Vec<(PathBuf, io::Error)>,
    /// Whether it was interrupted. The rest is read next time.
    pub interrupted: bool,
}

/// How far an update is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// How many bytes were read.
    pub read: u64,
    /// How many bytes there are to read.
    pub of: u64,
}

/// What is known about a file from an earlier update.
struct Known {
    id: i64,
    len: u64,
    mtime: i64,
    offset: u64,
    check: u64,
    is_session: bool,
    gone: bool,
    ended: i64,
    changed: i64,
}

impl Known {
    /// Returns whether the file was not written since then.
    fn is_same(&self, found: &Found) -> bool {
        (self.len, self.mtime, self.changed) == (found.len, found.mtime, found.changed)
    }
}

impl Index {
    /// Opens the index in a folder, or makes it. One of an earlier version is brought up to this one. A damaged one is built
    /// again. What either says about files that are gone is carried over, also from one that another version of tapline put
    /// aside.
    pub fn open(folder: &Path) -> Result<Self, ArchiveError> {
        database::make_folder(folder)?;
        match Self::open_file(folder) {
            Err(error) if error.is_damage() => Self::again(folder, &SCHEMA.file()),
            opened => opened,
        }
    }

    fn open_file(folder: &Path) -> Result<Self, ArchiveError> {
        let (db, name) = SCHEMA.open(folder)?;
        let mut index = Self { db, folder: Some(folder.to_owned()), name, was_damaged: false };
        index.absorb(folder)?;
        SCHEMA.hold(folder, &index.name);
        Ok(index)
    }

    /// Makes an index that is kept nowhere.
    pub fn in_memory() -> Result<Self, ArchiveError> {
        let db = Connection::open_in_memory()?;
        db.execute_batch(TABLES)?;
        Ok(Self { db, folder: None, name: SCHEMA.file(), was_damaged: false })
    }

    /// Makes an index that is kept nowhere, with what is kept in this folder, as far as that can be read: for when the
    /// folder can no longer be written.
    pub fn copy_in_memory(folder: &Path) -> Result<Self, ArchiveError> {
        let mut copy = match database::copy_in_memory(&folder.join(SCHEMA.file()), &SCHEMA) {
            Some(db) => Self { db, ..Self::in_memory()? },
            // Of a damaged one, or one of a newer version, some can be read.
            None => Self { name: String::new(), ..Self::in_memory()? },
        };
        let _ = copy.absorb(folder);
        Ok(copy)
    }

    /// Puts this index aside, because it is damaged, and makes a new one. What it said about files that are gone is carried over,
    /// as far as it can be read.
    pub fn rebuild(self) -> Result<Self, ArchiveError> {
        let _lock = self.lock(true);
        let Some(folder) = self.folder.clone() else { return Self::in_memory() };
        drop(self);
        // Another process may have done so meanwhile.
        let other = Self::open(&folder)?;
        let is_sound = || -> rusqlite::Result<bool> {
            let said: String = other.db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
            Ok(said == "ok")
        };
        if other.was_damaged || is_sound().unwrap_or(false) && other.check().is_ok() {
            return Ok(other);
        }
        let name = other.name.clone();
        drop(other);
        Self::again(&folder, &name)
    }

    /// Reads everything that is in the index. Fails if something is not what was written: a lookup does not notice a row
    /// that it no longer finds.
    pub fn check(&self) -> Result<(), ArchiveError> {
        self.each(|_, _, _| {})?;
        self.each_id(None, |_, _| {})?;
        let mut rows = self.db.prepare(KNOWN)?;
        rows.query_map([], |row| Ok((row.get::<_, Vec<u8>>(0)?, known_of(row)?)))?.try_for_each(|row| row.map(drop))?;
        Ok(())
    }

    /// Returns whether a damaged index was put aside when this one was opened.
    pub fn was_damaged(&self) -> bool {
        self.was_damaged
    }

    /// Puts a damaged index aside and makes a new one.
    fn again(folder: &Path, name: &str) -> Result<Self, ArchiveError> {
        database::put_aside(folder, name)?;
        Ok(Self { was_damaged: true, ..Self::open_file(folder)? })
    }

    /// Takes the lock of writers. Returns `None` if another process has it and `wait` is false.
    fn lock(&self, wait: bool) -> Option<File> {
        database::lock(self.folder.as_ref()?, "index.lock", wait)
    }

    /// Reads what is new in these places, and keeps it.
    pub fn update(
        &mut self,
        places: &Places,
        stop: &AtomicBool,
        progress: impl FnMut(Progress),
    ) -> Result<Updated, ArchiveError> {
        if self.news(places)?.is_empty() {
            return Ok(Updated::default());
        }
        // Another process may be reading the same files. Its work is not done twice.
        let _lock = self.lock(true);
        self.read(places, stop, progress)
    }

    /// The same, but if another process is reading already, or there is more than this to read, it does nothing and
    /// returns `None`.
    pub fn update_little(&mut self, places: &Places, most: u64) -> Result<Option<Updated>, ArchiveError> {
        let news = self.news(places)?;
        if news
            .iter()
            .map(|(found, known)| found.len.saturating_sub(known.as_ref().map_or(0, |known| known.offset)))
            .sum::<u64>()
            > most
        {
            return Ok(None);
        }
        if news.is_empty() {
            return Ok(Some(Updated::default()));
        }
        let lock = self.lock(false);
        if lock.is_none() && self.folder.is_some() {
            return Ok(None);
        }
        self.read(places, &AtomicBool::new(false), |_| {}).map(Some)
    }

    /// Returns the files that are new or changed, in their order.
    fn news<'p>(&self, places: &'p Places) -> Result<Vec<(&'p Found, Option<Known>)>, ArchiveError> {
        let files = places.files.iter().enumerate();
        let mut left: HashMap<&[u8], usize, foldhash::fast::FixedState> =
            files.map(|(at, found)| (found.path.as_os_str().as_bytes(), at)).collect();
        let mut news: Vec<(usize, Option<Known>)> = Vec::new();
        // The newest file says what time it is.
        let now = places.files.iter().map(|found| found.mtime).max().unwrap_or(0);
        let mut compare = |row: &rusqlite::Row<'_>| -> Result<(), ArchiveError> {
            let path = row.get_ref(0)?.as_blob().map_err(|_| ArchiveError::Damaged)?;
            let Some(at) = left.remove(path) else { return Ok(()) };
            let (known, found) = (known_of(row)?, &places.files[at]);
            // An end can be amended while whoever wrote it is still there.
            let may_end = found.recording.is_some() && (known.ended == 0 || known.ended > now.saturating_sub(AMENDED));
            if !known.is_same(found) || known.gone || may_end && known.ended != end_written(found) {
                news.push((at, Some(known)));
            }
            Ok(())
        };
        if places.files.len() < FEW {
            // A damaged index of paths does not find what the table has.
            let mut rows = self.db.prepare(&format!("{KNOWN} NOT INDEXED WHERE path = ?"))?;
            for found in &places.files {
                let mut rows = rows.query([found.path.as_os_str().as_bytes()])?;
                while let Some(row) = rows.next()? {
                    compare(row)?;
                }
            }
        } else {
            let mut rows = self.db.prepare(KNOWN)?;
            let mut rows = rows.query([])?;
            while let Some(row) = rows.next()? {
                compare(row)?;
            }
        }
        news.extend(left.into_values().map(|at| (at, None)));
        news.sort_unstable_by_key(|(at, _)| *at);
        Ok(news.into_iter().map(|(at, known)| (&places.files[at], known)).collect())
    }

    fn read(
        &mut self,
        places: &Places,
        stop: &AtomicBool,
        mut progress: impl FnMut(Progress),
    ) -> Result<Updated, ArchiveError> {
        let mut updated = Updated::default();
        let news = self.news(places)?;
        let mut jobs = Vec::with_capacity(news.len());
        for (found, known) in &news {
            let earlier = match known {
                Some(known) => self.earlier(found, known)?,
                None => None,
            };
            jobs.push(Job { places, path: &found.path, len: found.len, earlier });
        }
        let new_bytes = |job: &Job<'_>| job.len.saturating_sub(job.earlier.as_ref().map_or(0, |earlier| earlier.offset));
        let mut so_far = Progress { read: 0, of: jobs.iter().map(new_bytes).sum() };
        let mut kept = Ok(());
        let mut batch = Vec::new();
        let db = &mut self.db;
        scan(&jobs, stop, |job, read| {
            so_far.read += new_bytes(&jobs[job]);
            progress(so_far);
            match read {
                Err(error) => updated.unreadable.push((news[job].0.path.clone(), error)),
                Ok(scanned) => {
                    updated.files += 1;
                    batch.push((news[job].0, scanned));
                    if batch.len() >= KEPT_EVERY && kept.is_ok() {
                        kept = keep(db, &mut batch);
                    }
                }
            }
        });
        kept?;
        keep(db, &mut batch)?;
        updated.bytes = so_far.read;
        updated.interrupted = updated.files + updated.unreadable.len() < jobs.len();
        Ok(updated)
    }

    /// Returns what is known about a file, if it only grew since then, or ended.
    fn earlier(&self, found: &Found, known: &Known) -> Result<Option<Scanned>, ArchiveError> {
        let goes_on = (known.is_same(found) || found.len > known.len) && known.is_session && known.offset > 0;
        if !goes_on || check(&found.path, known.offset).ok() != Some(known.check) {
            return Ok(None);
        }
        let facts = self.db.query_row(&format!("{FILES} WHERE id = ?"), [known.id], |row| {
            Ok(facts_in(row, &file_of(row)?).ok().and_then(|facts| postcard::from_bytes(facts).ok()))
        });
        let facts = facts.optional()?.flatten();
        Ok(facts.map(|facts| Scanned { facts, offset: known.offset, check: known.check }))
    }

    /// Notes which of the known files below these folders are no longer there. What they said still counts.
    pub fn note_gone(&mut self, places: &Places) -> Result<usize, ArchiveError> {
        let there: HashSet<&[u8]> = places.files.iter().map(|found| found.path.as_os_str().as_bytes()).collect();
        let mut gone = Vec::new();
        {
            let mut rows = self.db.prepare("SELECT id, path FROM files WHERE gone = 0")?;
            let mut rows = rows.query([])?;
            while let Some(row) = rows.next()? {
                let path: Vec<u8> = row.get(1)?;
                if !there.contains(&path[..]) && !Path::new(std::ffi::OsStr::from_bytes(&path)).exists() {
                    gone.push(row.get::<_, i64>(0)?);
                }
            }
        }
        for id in &gone {
            self.db.execute("UPDATE files SET gone = 1 WHERE id = ?", [id])?;
        }
        Ok(gone.len())
    }

    /// Passes on all files, with their session and what they say, sessions together.
    pub fn each(&self, each: impl FnMut(IndexedFile, &str, &[u8])) -> Result<(), ArchiveError> {
        self.each_since(None, each)
    }

    /// Keeps what is read meanwhile as it is now, whatever others write.
    pub(crate) fn snapshot(&self) -> Result<Transaction<'_>, ArchiveError> {
        Ok(self.db.unchecked_transaction()?)
    }

    /// The same for files that were heard of at this time or later, in milliseconds since 1970.
    pub(crate) fn each_since(
        &self,
        since: Option<u64>,
        mut each: impl FnMut(IndexedFile, &str, &[u8]),
    ) -> Result<(), ArchiveError> {
        let mut rows = self.db.prepare(&format!("{FILES} WHERE session IS NOT NULL AND last >= ? ORDER BY session, id"))?;
        let mut rows = rows.query([since.unwrap_or(0).cast_signed()])?;
        let mut count: i64 = 0;
        while let Some(row) = rows.next()? {
            let file = file_of(row)?;
            let facts = facts_in(row, &file)?;
            count += 1;
            each(file, session_in(row)?, facts);
        }
        // The database does not notice a row that it no longer finds.
        let wanted = self.db.query_row("SELECT sessions FROM counted", [], |row| row.get(0)).optional()?.unwrap_or(0);
        if since.is_none() && count != wanted { Err(ArchiveError::Damaged) } else { Ok(()) }
    }

    /// Passes on the id of every message of files that were heard of at this time or later, with its file.
    pub(crate) fn each_id(&self, since: Option<u64>, mut each: impl FnMut(i64, u64)) -> Result<(), ArchiveError> {
        let mut rows =
            self.db.prepare("SELECT id, ids FROM files JOIN facts ON file = id WHERE session IS NOT NULL AND last >= ?")?;
        let mut rows = rows.query([since.unwrap_or(0).cast_signed()])?;
        while let Some(row) = rows.next()? {
            let file = row.get(0)?;
            let ids = row.get_ref(1)?.as_blob().ok().and_then(|ids| unsealed(ids, 0)).ok_or(ArchiveError::Damaged)?;
            let (ids, _) = ids.as_chunks::<8>();
            for id in ids {
                each(file, u64::from_le_bytes(*id));
            }
        }
        Ok(())
    }

    /// Passes on some files, and what they say, in the order of their paths: their numbers depend on which was read first.
    pub(crate) fn each_of(
        &self,
        files: impl IntoIterator<Item = i64>,
        mut each: impl FnMut(IndexedFile, &str, &[u8]),
    ) -> Result<(), ArchiveError> {
        let mut path = self.db.prepare("SELECT path FROM files WHERE id = ?")?;
        // A damaged database does not find what it has.
        let mut path = |id: i64| {
            let path = path.query_row([id], |row| row.get(0)).optional()?;
            Ok((path.ok_or(ArchiveError::Damaged)?, id))
        };
        let mut files: Vec<(Vec<u8>, i64)> = files.into_iter().map(&mut path).collect::<Result<_, ArchiveError>>()?;
        files.sort_unstable();
        let mut rows = self.db.prepare(&format!("{FILES} WHERE id = ?"))?;
        for (_, id) in files {
            let mut rows = rows.query([id])?;
            while let Some(row) = rows.next()? {
                let file = file_of(row)?;
                let facts = facts_in(row, &file)?;
                each(file, session_in(row)?, facts);
            }
        }
        Ok(())
    }

    /// Returns the numbers of a session's files.
    pub(crate) fn numbers_of(&self, session: &str) -> Result<Vec<i64>, ArchiveError> {
        let mut rows = self.db.prepare("SELECT id FROM files WHERE session = ?")?;
        let files = rows.query_map([session], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        Ok(files)
    }
}

/// Asks for what is known about files.
const KNOWN: &str = "SELECT path, id, len, mtime, offset, chk, session IS NOT NULL, gone, ended, changed FROM files";

/// Reads what is known about a file.
fn known_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Known> {
    Ok(Known {
        id: row.get(1)?,
        len: row.get::<_, i64>(2)?.cast_unsigned(),
        mtime: row.get(3)?,
        offset: row.get::<_, i64>(4)?.cast_unsigned(),
        check: row.get::<_, i64>(5)?.cast_unsigned(),
        is_session: row.get(6)?,
        gone: row.get(7)?,
        ended: row.get(8)?,
        changed: row.get(9)?,
    })
}

/// Asks for files, and what they say.
const FILES: &str =
    "SELECT id, path, recording, len, mtime, gone, facts, session, last, ended FROM files JOIN facts ON file = id";

/// Reads a file from an answer whose first columns are these.
fn file_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<IndexedFile> {
    let path = |bytes: Vec<u8>| PathBuf::from(std::ffi::OsString::from_vec(bytes));
    Ok(IndexedFile {
        id: row.get(0)?,
        path: path(row.get(1)?),
        recording: row.get::<_, Option<Vec<u8>>>(2)?.map(path),
        len: row.get::<_, i64>(3)?.cast_unsigned(),
        mtime: row.get(4)?,
        gone: row.get(5)?,
    })
}

/// Reads the session of a file from an answer to it.
fn session_in<'r>(row: &'r rusqlite::Row<'_>) -> Result<&'r str, ArchiveError> {
    row.get_ref(7)?.as_str().map_err(|_| ArchiveError::Damaged)
}

/// Reads what a file says from an answer to it, as it was written.
fn facts_in<'r>(row: &'r rusqlite::Row<'_>, file: &IndexedFile) -> Result<&'r [u8], ArchiveError> {
    let session = session_in(row)?;
    let numbers = [file.len.cast_signed(), file.mtime, row.get(8)?, row.get(9)?];
    let row_hash = row_hash(&file.path, file.recording.as_deref(), session, numbers);
    let facts = row.get_ref(6)?.as_blob().ok().and_then(|facts| unsealed(facts, row_hash));
    facts.ok_or(ArchiveError::Damaged)
}

/// Reads back what a file says. Earlier versions kept costs that cannot be true.
pub(crate) fn facts_of(bytes: &[u8]) -> Facts {
    let mut facts: Facts = postcard::from_bytes(bytes).unwrap_or_default();
    for reported in &mut facts.reported {
        for cost in reported.models.iter_mut().map(|model| &mut model.cost).chain([&mut reported.cost]) {
            *cost = cost.filter(|cost| is_cost(cost.usd()));
        }
    }
    facts
}
