//! The index: what each session file says, kept in one database, so that only what is new is read. A row depends on its
//! file alone, so several processes can write it, and what is written stays true after the file is gone.

mod copies;
mod files;
mod lookup;
mod surroundings;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use crate::database;
use crate::error::ArchiveError;
use crate::facts::{Facts, hash_of_bytes};
use crate::places::{Found, Places};
use crate::scan::{Job, Scanned, check, scan};
use crate::sealed::{sealed, unsealed};

pub(crate) use surroundings::PUSHED_HERE;
use surroundings::{end_written, with_surroundings};

/// The version of the tables and of [`Facts`]. An index of another version is built again.
const VERSION: i64 = 8;
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
}

impl Index {
    /// Opens the index in a folder, or makes it. A damaged or outdated one is built again.
    pub fn open(folder: &Path) -> Result<Self, ArchiveError> {
        database::make_folder(folder)?;
        let path = folder.join("index.db");
        match database::open(&path, VERSION, TABLES).map_err(ArchiveError::from) {
            Ok(Some(db)) => Ok(Self { db, folder: Some(folder.to_owned()), was_damaged: false }),
            Ok(None) => Self::again(folder, &path, false),
            Err(error) if error.is_damage() => Self::again(folder, &path, true),
            Err(error) => Err(error),
        }
    }

    /// Makes an index that is kept nowhere.
    pub fn in_memory() -> Result<Self, ArchiveError> {
        let db = Connection::open_in_memory()?;
        db.execute_batch(TABLES)?;
        Ok(Self { db, folder: None, was_damaged: false })
    }

    /// Makes an index that is kept nowhere, with what is kept in this folder, as far as that can be read: for when the
    /// folder can no longer be written.
    pub fn copy_in_memory(folder: &Path) -> Result<Self, ArchiveError> {
        let path = folder.join("index.db");
        // Even to read such a file, SQLite needs another file beside it, which it cannot make on a full disk. If nobody
        // has written since the last process closed the database, it can be read without that file.
        let is_closed = fs::metadata(folder.join("index.db-wal")).map_or(true, |log| log.len() == 0);
        for how in ["", "?immutable=1"] {
            if path.exists() && (how.is_empty() || is_closed) {
                let copy = Self::in_memory()?;
                if copy.take_over(&format!("file:{}{how}", database::percent_encoded(&path))).is_ok() {
                    return Ok(copy);
                }
            }
        }
        Self::in_memory()
    }

    /// Copies everything from another file.
    fn take_over(&self, uri: &str) -> rusqlite::Result<()> {
        self.db.execute("ATTACH ? AS kept", [uri])?;
        // Another version wrote its facts in another way.
        let version: i64 = self.db.query_row("PRAGMA kept.user_version", [], |row| row.get(0))?;
        if version != VERSION {
            return self.db.execute_batch("DETACH kept");
        }
        self.db.execute_batch(
            "INSERT INTO main.files SELECT * FROM kept.files; INSERT INTO main.facts SELECT * FROM kept.facts; \
             INSERT INTO main.counted SELECT * FROM kept.counted; DETACH kept;",
        )
    }

    /// Puts this index aside, because it is damaged, and makes a new one. What it said about files that are gone is lost.
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
        drop(other);
        Self::again(&folder, &folder.join("index.db"), true)
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

    /// Puts the index aside and makes a new one.
    fn again(folder: &Path, path: &Path, was_damaged: bool) -> Result<Self, ArchiveError> {
        database::put_aside(folder, "index.db")?;
        let db = database::open(path, VERSION, TABLES)?.ok_or(ArchiveError::Outdated)?;
        Ok(Self { db, folder: Some(folder.to_owned()), was_damaged })
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
            let is_same = known.len == found.len && known.mtime == found.mtime;
            // An end can be amended while whoever wrote it is still there.
            let may_end = found.recording.is_some() && (known.ended == 0 || known.ended > now.saturating_sub(AMENDED));
            if !is_same || known.gone || may_end && known.ended != end_written(found) {
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
            jobs.push(Job { path: &found.path, len: found.len, earlier });
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
        let is_same = found.len == known.len && found.mtime == known.mtime;
        let goes_on = (is_same || found.len > known.len) && known.is_session && known.offset > 0;
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
const KNOWN: &str = "SELECT path, id, len, mtime, offset, chk, session IS NOT NULL, gone, ended FROM files";

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

/// Keeps what files say, all of it or nothing.
fn keep(db: &mut Connection, batch: &mut Vec<(&Found, Option<Scanned>)>) -> rusqlite::Result<()> {
    let transaction = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    {
        let mut file = transaction.prepare(
            "INSERT INTO files (path, recording, len, mtime, offset, chk, session, last, ended, gone) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0) \
             ON CONFLICT (path) DO UPDATE SET recording = excluded.recording, len = excluded.len, mtime = excluded.mtime, \
             offset = excluded.offset, chk = excluded.chk, session = excluded.session, last = excluded.last, \
             ended = excluded.ended, gone = 0 RETURNING id",
        )?;
        let mut said = transaction.prepare("INSERT OR REPLACE INTO facts (file, ids, facts) VALUES (?, ?, ?)")?;
        for (found, scanned) in batch.drain(..) {
            // Asked before it is read: an end that comes between is read now and once more next time.
            let ended = end_written(found);
            let scanned = with_surroundings(found, scanned);
            let (offset, check) = scanned.as_ref().map_or((0, 0), |scanned| (scanned.offset, scanned.check));
            let session = scanned.as_ref().map(|scanned| scanned.facts.names.get(scanned.facts.session));
            let recording = found.recording.as_ref().map(|folder| folder.as_os_str().as_bytes());
            let last = scanned.as_ref().map_or(0, |scanned| last_heard(found, &scanned.facts));
            let row = params![
                found.path.as_os_str().as_bytes(),
                recording,
                found.len.cast_signed(),
                found.mtime,
                offset.cast_signed(),
                check.cast_signed(),
                session,
                last.cast_signed(),
                ended,
            ];
            let numbers = [found.len.cast_signed(), found.mtime, last.cast_signed(), ended];
            let row_hash = row_hash(&found.path, found.recording.as_deref(), session.unwrap_or_default(), numbers);
            let id: i64 = file.query_row(row, |row| row.get(0))?;
            let facts = scanned.map(|scanned| scanned.facts).unwrap_or_default();
            let ids: Vec<u8> = facts.messages.iter().flat_map(|message| message.id.to_le_bytes()).collect();
            let facts = sealed(postcard::to_stdvec(&facts).unwrap_or_default(), row_hash);
            said.execute(params![id, sealed(ids, 0), facts])?;
        }
    }
    let count = "INSERT OR REPLACE INTO counted SELECT 1, count(*), random() FROM files NOT INDEXED WHERE session IS NOT NULL";
    transaction.execute(count, [])?;
    transaction.commit()
}

/// Returns when a file was last heard of: no request in it counts for a later time.
fn last_heard(found: &Found, facts: &Facts) -> u64 {
    let known = [facts.first, facts.last, facts.run.map(|run| run.last)].into_iter().flatten().max();
    known.unwrap_or(found.mtime.cast_unsigned() / 1_000_000)
}

/// Returns a hash of everything in a row apart from its facts, and from whether its file is gone, which changes.
fn row_hash(path: &Path, recording: Option<&Path>, session: &str, numbers: [i64; 4]) -> u64 {
    let recording = recording.map_or(&[][..], |folder| folder.as_os_str().as_bytes());
    let numbers = numbers.map(i64::to_le_bytes);
    let parts = [path.as_os_str().as_bytes(), recording, session.as_bytes(), numbers.as_flattened()];
    parts.into_iter().fold(0, |hash: u64, part| hash.rotate_left(1) ^ hash_of_bytes(part))
}

/// Reads back what a file says.
pub(crate) fn facts_of(bytes: &[u8]) -> Facts {
    postcard::from_bytes(bytes).unwrap_or_default()
}
