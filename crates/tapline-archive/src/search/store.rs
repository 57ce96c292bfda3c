//! The database of the text index. It is apart from the index of numbers, which stays small and quick.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::earlier::migrate;
use crate::database::{self, Schema};
use crate::error::ArchiveError;

/// The version of the tables and of what a word is. An index of an earlier version is migrated.
const VERSION: i64 = 5;
pub(super) const SCHEMA: Schema =
    Schema { name: "text", since: 4, version: VERSION, tables: TABLES, probe: "SELECT key FROM asked LIMIT 0", migrate };
/// The number of a text begins with its second, so that the newest come first without sorting. This many bits tell the
/// texts of one second apart; where that is not enough, the next second is used.
pub(super) const BITS: u32 = 10;

/// The text itself is kept nowhere: the table `entries` says where it stands. `detail` is full, because phrases need it.
const TABLES: &str = "
CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    path BLOB NOT NULL UNIQUE,
    recording BLOB,          -- the folder of the recording, if it is one
    len INTEGER NOT NULL,
    mtime INTEGER NOT NULL,  -- nanoseconds since 1970
    offset INTEGER NOT NULL, -- up to where it was read
    chk INTEGER NOT NULL,    -- a hash of its first bytes, and of the last ones before the offset
    agent TEXT,              -- none: it is no session
    context BLOB NOT NULL,   -- what reading needs to go on
    seal INTEGER NOT NULL    -- a hash of the row: the database does not notice a value that changed on the disk
);
CREATE TABLE names (id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, name TEXT NOT NULL, UNIQUE (kind, name));
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    folder TEXT NOT NULL,
    title TEXT NOT NULL,
    titled INTEGER NOT NULL
);
CREATE TABLE scopes (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    agent INTEGER NOT NULL,  -- this and the following are names
    folder INTEGER NOT NULL,
    branch INTEGER NOT NULL,
    UNIQUE (session, agent, folder, branch)
);
CREATE TABLE entries (
    id INTEGER PRIMARY KEY,  -- its second, and a number within it
    file INTEGER NOT NULL,
    at INTEGER NOT NULL,     -- where its line begins
    len INTEGER NOT NULL,
    part INTEGER NOT NULL,   -- which text of the line it is
    about INTEGER NOT NULL,  -- its kind, error, sub-agent and tool
    scope INTEGER NOT NULL,
    key INTEGER NOT NULL     -- the same for copies
);
CREATE INDEX entries_by_key ON entries (key);
CREATE TABLE copies (        -- other files of the same session that have a text
    entry INTEGER NOT NULL,
    file INTEGER NOT NULL,
    at INTEGER NOT NULL,
    len INTEGER NOT NULL,
    part INTEGER NOT NULL,
    PRIMARY KEY (entry, file)
) WITHOUT ROWID;
CREATE INDEX copies_by_file ON copies (file);
CREATE TABLE asked (         -- the key of each prompt, by a hash of its session and its words
    words INTEGER PRIMARY KEY,
    key INTEGER NOT NULL
);
CREATE VIRTUAL TABLE text USING fts5 (body, marks, content = '', contentless_delete = 1, tokenize = 'ascii');
CREATE VIRTUAL TABLE vocabulary USING fts5vocab (text, row);
INSERT INTO text (text, rank) VALUES ('hashsize', 33554432);
";

/// The open database, and where it is.
#[derive(Debug)]
pub(super) struct TextStore {
    pub(super) db: Connection,
    /// The folder, or none if the index is in memory only.
    folder: Option<PathBuf>,
    /// The name of its file.
    pub(super) name: String,
    pub(super) was_damaged: bool,
}

impl TextStore {
    /// Opens the index in a folder, or makes it. One of an earlier version is brought up to this one, and a damaged one is
    /// built again.
    pub(super) fn open(folder: &Path) -> Result<Self, ArchiveError> {
        database::make_folder(folder)?;
        match Self::open_file(folder) {
            Err(error) if error.is_damage() => Self::again(folder, &SCHEMA.file(), false),
            opened => opened,
        }
    }

    pub(super) fn in_memory() -> Result<Self, ArchiveError> {
        let db = Connection::open_in_memory()?;
        db.execute_batch(TABLES)?;
        Ok(Self { db, folder: None, name: SCHEMA.file(), was_damaged: false })
    }

    pub(super) fn copy_in_memory(folder: &Path) -> Result<Self, ArchiveError> {
        match database::copy_in_memory(&folder.join(SCHEMA.file()), &SCHEMA) {
            Some(db) => Ok(Self { db, ..Self::in_memory()? }),
            None => Self::in_memory(),
        }
    }

    /// Puts the damaged index of this name aside and makes a new one. If another process has done that already and it need not be
    /// done again, takes that one.
    pub(super) fn again(folder: &Path, name: &str, anyway: bool) -> Result<Self, ArchiveError> {
        let held = lock(folder);
        let was_damaged = anyway || SCHEMA.open(folder).is_err();
        if was_damaged {
            database::put_aside(folder, name)?;
        }
        drop(held);
        Ok(Self { was_damaged, ..Self::open_file(folder)? })
    }

    fn open_file(folder: &Path) -> Result<Self, ArchiveError> {
        let (db, name) = SCHEMA.open(folder)?;
        db.pragma_update(None, "cache_size", -16_384)?;
        db.pragma_update(None, "journal_size_limit", 4 << 20)?;
        let mut store = Self { db, folder: Some(folder.to_owned()), name, was_damaged: false };
        store.absorb(folder)?;
        SCHEMA.hold(folder, &store.name);
        Ok(store)
    }

    pub(super) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Waits for the lock of writers, and takes it.
    pub(super) fn lock(&self) -> Option<File> {
        lock(self.folder.as_ref()?)
    }
}

/// Waits for the lock of writers of the index in this folder, and takes it.
pub(super) fn lock(folder: &Path) -> Option<File> {
    database::lock(folder, "text.lock", true)
}
