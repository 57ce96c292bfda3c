//! The text index: which words stand in which text of which session. It keeps no text itself, only where it stands.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rusqlite::{OptionalExtension as _, TransactionBehavior};
use tapline_protocol::Agent;
use tapline_recording::Recording;

use super::reading::{Job, is_packed, read_all};
use super::store::TextStore;
use super::writing::{Writer, clear};
use crate::error::ArchiveError;
use crate::index::Progress;
use crate::places::{Found, Places};
use crate::said::Context;
use crate::scan::check;
use crate::sealed::seal;

/// The text index.
#[derive(Debug)]
pub struct TextIndex {
    pub(super) store: TextStore,
}

/// What an update of the text index did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct TextUpdated {
    /// The number of files that were read.
    pub files: usize,
    /// How many bytes of them were new.
    pub bytes: u64,
    /// How many texts are so long that only their beginning and their end can be found.
    pub cut: usize,
    /// Files that could not be read, and why.
    pub unreadable: Vec<(PathBuf, io::Error)>,
    /// Whether it was interrupted. The rest is read next time.
    pub interrupted: bool,
}

/// What is known about a file from an earlier update.
struct Known {
    len: u64,
    offset: u64,
    check: u64,
    agent: Option<Agent>,
    context: Vec<u8>,
}

impl TextIndex {
    /// Opens the text index in a folder, or makes it. One of an earlier version is brought up to this one, and a damaged one is
    /// built again.
    pub fn open(folder: &Path) -> Result<Self, ArchiveError> {
        Ok(Self { store: TextStore::open(folder)? })
    }

    /// Makes a text index that is kept nowhere.
    pub fn in_memory() -> Result<Self, ArchiveError> {
        Ok(Self { store: TextStore::in_memory()? })
    }

    /// Returns whether a damaged index was put aside when this one was opened.
    pub fn was_damaged(&self) -> bool {
        self.store.was_damaged
    }

    /// Makes a text index that is kept nowhere, with what is kept in this folder, as far as that can be read: for when the
    /// folder can no longer be written.
    pub fn copy_in_memory(folder: &Path) -> Result<Self, ArchiveError> {
        Ok(Self { store: TextStore::copy_in_memory(folder)? })
    }

    /// Puts this index aside, because it is damaged, and makes a new one. What it said about files that are gone is lost.
    pub fn rebuild(&mut self) -> Result<(), ArchiveError> {
        let (folder, name) = (self.store.folder().map(Path::to_owned), self.store.name.clone());
        // The old one is closed first: closing removes files that have the names of the new one's.
        self.store = TextStore::in_memory()?;
        if let Some(folder) = folder {
            self.store = TextStore::again(&folder, &name, true)?;
        }
        Ok(())
    }

    /// Returns the paths of all files of sessions.
    pub fn paths(&self) -> Result<Vec<PathBuf>, ArchiveError> {
        let mut rows = self.store.db.prepare("SELECT path FROM files WHERE agent IS NOT NULL")?;
        let rows = rows.query_map([], |row| Ok(path_of(row.get(0)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Reads what is new in these places.
    pub fn update(
        &mut self,
        places: &Places,
        stop: &AtomicBool,
        progress: impl FnMut(Progress),
    ) -> Result<TextUpdated, ArchiveError> {
        if self.news(places)?.is_empty() {
            return Ok(TextUpdated::default());
        }
        // Another process may be reading the same files. Its work is not done twice.
        let _lock = self.store.lock();
        self.read(places, stop, progress)
    }

    /// Forgets which words stood in these files, and these sessions, if no other file has texts of them.
    pub fn forget(&mut self, files: &[PathBuf], sessions: &HashSet<String>) -> Result<(), ArchiveError> {
        let _lock = self.store.lock();
        let db = &mut self.store.db;
        db.pragma_update(None, "secure_delete", true)?;
        let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for path in files {
            let path = path.as_os_str().as_bytes();
            let mut known = transaction.prepare("SELECT id FROM files WHERE path = ?")?;
            if let Some(id) = known.query_row([path], |row| row.get(0)).optional()? {
                clear(&transaction, id)?;
                transaction.execute("DELETE FROM files WHERE id = ?", [id])?;
            }
        }
        for session in sessions {
            // Another file can have texts of it.
            transaction.execute(
                "DELETE FROM scopes WHERE session = (SELECT id FROM sessions WHERE name = ?) AND id NOT IN (SELECT scope FROM entries)",
                [session],
            )?;
            transaction.execute("DELETE FROM sessions WHERE name = ? AND id NOT IN (SELECT session FROM scopes)", [session])?;
        }
        // Otherwise the words stay in the index, marked as deleted.
        transaction.execute("INSERT INTO text (text) VALUES ('optimize')", [])?;
        transaction.commit()?;
        let _ = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        Ok(())
    }

    /// Returns the files that are new or changed.
    fn news<'p>(&self, places: &'p Places) -> Result<Vec<&'p Found>, ArchiveError> {
        let mut known = HashMap::with_capacity(places.files.len());
        let mut rows = self.store.db.prepare("SELECT path, len, mtime, offset, chk, agent, context, seal FROM files")?;
        let mut rows = rows.query([])?;
        while let Some(row) = rows.next()? {
            let numbers = [row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?];
            let agent = row.get_ref(5)?.as_str_or_null().map_err(|_| ArchiveError::Damaged)?.unwrap_or_default();
            let context = row.get_ref(6)?.as_blob().map_err(|_| ArchiveError::Damaged)?;
            let path: Vec<u8> = row.get(0)?;
            if seal(&path, numbers, agent, context) != row.get::<_, i64>(7)? {
                return Err(ArchiveError::Damaged);
            }
            known.insert(path, (numbers[0], numbers[1]));
        }
        let is_news = |found: &&Found| {
            known.get(found.path.as_os_str().as_bytes()).is_none_or(|known| *known != (found.len.cast_signed(), found.mtime))
        };
        Ok(places.files.iter().filter(is_news).collect())
    }

    fn known(&self, found: &Found) -> Result<Option<Known>, ArchiveError> {
        let mut row = self.store.db.prepare("SELECT len, offset, chk, agent, context FROM files WHERE path = ?")?;
        let known = row.query_row([found.path.as_os_str().as_bytes()], |row| {
            let agent = row.get_ref(3)?.as_str_or_null().ok().flatten();
            Ok(Known {
                len: row.get::<_, i64>(0)?.cast_unsigned(),
                offset: row.get::<_, i64>(1)?.cast_unsigned(),
                check: row.get::<_, i64>(2)?.cast_unsigned(),
                agent: agent.and_then(agent_named),
                context: row.get(4)?,
            })
        });
        Ok(known.optional()?)
    }

    fn read(
        &mut self,
        places: &Places,
        stop: &AtomicBool,
        mut progress: impl FnMut(Progress),
    ) -> Result<TextUpdated, ArchiveError> {
        let mut news = self.news(places)?;
        // The oldest first: of copies, the first one is the original.
        news.sort_by_key(|found| found.mtime);
        let (mut files, mut jobs) = (Vec::with_capacity(news.len()), Vec::with_capacity(news.len()));
        for found in news {
            let before = self.known(found)?;
            let earlier = before.as_ref().filter(|known| grew(found, known));
            let (agent, from) = earlier.map_or((None, 0), |earlier| (earlier.agent, earlier.offset));
            let context = earlier.and_then(|earlier| postcard::from_bytes(&earlier.context).ok());
            files.push((found, before.is_some() && earlier.is_none()));
            let context = context.unwrap_or_else(|| first(found));
            let (path, recording) = (&*found.path, found.recording.as_deref());
            jobs.push(Job { places, path, recording, agent, len: found.len, from, context });
        }
        let mut updated = TextUpdated::default();
        let mut so_far = Progress { read: 0, of: jobs.iter().map(|job| job.len.saturating_sub(job.from)).sum() };
        let mut reached: Vec<u64> = jobs.iter().map(|job| job.from).collect();
        let mut written = Ok(());
        let mut writer = Writer::new(&files);
        let db = &mut self.store.db;
        read_all(&jobs, stop, |job, piece| {
            match piece {
                Err(error) => updated.unreadable.push((jobs[job].path.to_owned(), error)),
                Ok(piece) => {
                    updated.files += usize::from(piece.last);
                    updated.cut += piece.cut;
                    let end = if piece.last { jobs[job].len } else { piece.end.min(jobs[job].len) };
                    so_far.read += end.saturating_sub(reached[job]);
                    reached[job] = reached[job].max(end);
                    written = writer.take(db, job, piece);
                }
            }
            progress(so_far);
            written.is_ok()
        });
        written?;
        writer.write(db)?;
        updated.bytes = so_far.read;
        updated.interrupted = updated.files + updated.unreadable.len() < jobs.len();
        Ok(updated)
    }
}

/// Returns whether a file only grew since it was read.
fn grew(found: &Found, known: &Known) -> bool {
    let longer = found.len > known.len && known.agent.is_some() && known.offset > 0 && !is_packed(&found.path);
    longer && check(&found.path, known.offset).ok() == Some(known.check)
}

/// What is known before the first line of a file: about when it was written.
fn first(found: &Found) -> Context {
    let started = found.recording.as_ref().and_then(|folder| Recording::open(folder).ok());
    let changed = || found.mtime.max(0).cast_unsigned() / 1_000_000;
    let time = started.map_or_else(changed, |recording| recording.started().as_millis());
    Context { time, ..Context::default() }
}

pub(super) fn agent_named(name: &str) -> Option<Agent> {
    Agent::ALL.iter().find(|agent| agent.name() == name).copied()
}

pub(super) fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}
