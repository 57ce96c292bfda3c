//! A database file of the archive: private, brought up to this version, and put aside when it is damaged.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use rustix::fs::{FlockOperation, flock};

use crate::error::ArchiveError;
use crate::facts::hash_of_bytes;

/// How long another process may write before this one gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// The size of a page in bytes.
const PAGE: i64 = 16 << 10;
/// How much of a database is kept in memory, in KiB.
const CACHE: i64 = 16 << 10;

/// Makes the folder, if it is not there.
pub(crate) fn make_folder(folder: &Path) -> Result<(), ArchiveError> {
    let failed = |error| ArchiveError::Folder { folder: folder.to_owned(), error };
    if folder.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)
}

/// The tables of a database.
pub(crate) struct Schema {
    /// The name of its file, without the ending. Beside a database of a newer version, the name has this version, too.
    pub(crate) name: &'static str,
    /// The first version that kept its own file beside a newer one.
    pub(crate) since: i64,
    /// The version that this program writes.
    pub(crate) version: i64,
    /// What makes the tables.
    pub(crate) tables: &'static str,
    /// What only the present tables can answer: once, a table changed and the version did not.
    pub(crate) probe: &'static str,
    /// Brings the tables of an earlier version up to this one. Returns whether it can.
    pub(crate) migrate: fn(&Transaction<'_>, i64) -> Result<bool, ArchiveError>,
}

impl Schema {
    pub(crate) fn is_of(&self, db: &Connection) -> rusqlite::Result<bool> {
        Ok(version(db)? == self.version && db.prepare(self.probe).is_ok())
    }

    /// Makes the tables, or brings those of an earlier version up to this one. Returns whether they are now of this version.
    fn bring_up(&self, db: &mut Connection) -> Result<bool, ArchiveError> {
        if self.is_of(db)? {
            return Ok(true);
        }
        let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have done so meanwhile.
        if !self.is_of(&transaction)? {
            let found = version(&transaction)?;
            if transaction.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))? {
                transaction.execute_batch(self.tables)?;
            } else if found > self.version || !(self.migrate)(&transaction, found)? {
                return Ok(false);
            }
            transaction.pragma_update(None, "user_version", self.version)?;
        }
        transaction.commit()?;
        Ok(true)
    }
}

impl Schema {
    /// Returns the name of its file.
    pub(crate) fn file(&self) -> String {
        format!("{}.db", self.name)
    }

    /// Returns the name of the file of this version beside a database that a newer program keeps.
    fn file_of(&self, version: i64) -> String {
        format!("{}.{version}.db", self.name)
    }

    /// Returns a second name of the file. Earlier programs put ours aside, and over it what they find next; this name they do
    /// not know.
    fn held(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.held.db", self.name))
    }

    /// Opens the database in a folder, or makes it, and tells the name of its file.
    pub(crate) fn open(&self, folder: &Path) -> Result<(Connection, String), ArchiveError> {
        if let Some(db) = open(&folder.join(self.file()), self)? {
            return Ok((db, self.file()));
        }
        let name = self.file_of(self.version);
        let opened = match open(&folder.join(&name), self) {
            Err(error) if error.is_damage() => {
                put_aside(folder, &name)?;
                open(&folder.join(&name), self)
            }
            opened => opened,
        };
        Ok((opened?.ok_or(ArchiveError::Outdated)?, name))
    }

    /// Takes over what other files of this database say: those that were put aside, and those that programs of other versions
    /// write. Each is read once, and again if it changes. `take` returns whether it need not be read again.
    pub(crate) fn absorb(
        &self,
        db: &mut Connection,
        folder: &Path,
        own: &str,
        mut take: impl FnMut(&mut Connection, &Path) -> Result<bool, ArchiveError>,
    ) -> Result<(), ArchiveError> {
        let names: Vec<String> =
            (self.since..=self.version).map(|version| self.file_of(version)).chain([self.file()]).collect();
        let others = names.iter().filter(|name| *name != own).map(|name| folder.join(name));
        let aside = names.iter().flat_map(|name| put_aside_names(folder, name));
        let own = folder.join(own);
        for other in others.chain(aside).chain([self.held(folder)]).filter(|other| !is_same(other, &own)) {
            let Some(stamp) = stamp(&other) else { continue };
            if !has_absorbed(db, stamp) && take(db, &other)? {
                note_absorbed(db, stamp)?;
            }
        }
        Ok(())
    }

    /// Gives the database its second name, once all that had it before was taken over. What has no other name is put aside.
    pub(crate) fn hold(&self, folder: &Path, own: &str) {
        let (path, held) = (folder.join(self.file()), self.held(folder));
        if own != self.file() || is_same(&path, &held) {
            return;
        }
        let is_only_name = fs::metadata(&held).is_ok_and(|meta| meta.nlink() == 1);
        let _ = match aside_names(folder, own).find(|aside| !aside.exists()).filter(|_| is_only_name) {
            Some(aside) => fs::rename(&held, aside),
            None => fs::remove_file(&held),
        };
        // Where files have one name only, an earlier program can still overwrite it.
        let _ = fs::hard_link(&path, &held);
    }
}

/// Returns whether two names are of one file.
fn is_same(one: &Path, other: &Path) -> bool {
    let file = |path| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    file(one).is_some_and(|one| file(other) == Some(one))
}

fn version(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Opens a database, or makes it. One of an earlier version is brought up to this one. Returns `None` if that cannot be done.
pub(crate) fn open(path: &Path, schema: &Schema) -> Result<Option<Connection>, ArchiveError> {
    // Private from the start: what agents read and wrote is in it. SQLite gives its other files the same mode.
    let private = fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    if let Ok(meta) = private.and_then(|file| file.metadata())
        && meta.permissions().mode() & 0o077 != 0
    {
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o600));
    }
    let mut db = Connection::open(path)?;
    db.busy_timeout(PATIENCE)?;
    // Fewer and larger reads: most questions are about everything. The size of pages is that of a new database only.
    db.pragma_update(None, "page_size", PAGE)?;
    db.pragma_update(None, "cache_size", -CACHE)?;
    db.pragma_update(None, "journal_mode", "wal")?;
    // A crash of the machine may cost the last update, which is then read again.
    db.pragma_update(None, "synchronous", "normal")?;
    Ok(schema.bring_up(&mut db)?.then_some(db))
}

/// Returns whether nobody has written to a database since the last one closed it.
fn is_closed(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    fs::metadata(log).map_or(true, |log| log.len() == 0)
}

/// Opens a database as it is, and tells its version. It is not written, nor is anything beside it, if nobody else writes to it.
pub(crate) fn open_read_only(path: &Path) -> rusqlite::Result<(Connection, i64)> {
    let how = if is_closed(path) { "?immutable=1" } else { "?mode=ro" };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let db = Connection::open_with_flags(format!("file:{}{how}", percent_encoded(path)), flags)?;
    let found = version(&db)?;
    Ok((db, found))
}

/// Returns a number that changes when the file does, and not when it is renamed: what was taken over from it may have been
/// forgotten since.
fn stamp(aside: &Path) -> Option<i64> {
    let meta = fs::metadata(aside).ok()?;
    let numbers = [meta.ino().cast_signed(), meta.len().cast_signed(), meta.mtime(), meta.mtime_nsec()];
    Some(hash_of_bytes(numbers.map(i64::to_le_bytes).as_flattened()).cast_signed())
}

/// Returns whether what a database that was put aside says was taken over.
fn has_absorbed(db: &Connection, stamp: i64) -> bool {
    // Without the table, nothing was.
    db.prepare("SELECT 1 FROM absorbed_files WHERE stamp = ?").and_then(|mut known| known.exists([stamp])).unwrap_or(false)
}

/// Notes that it was.
fn note_absorbed(db: &Connection, stamp: i64) -> rusqlite::Result<()> {
    db.execute_batch("CREATE TABLE IF NOT EXISTS absorbed_files (stamp INTEGER PRIMARY KEY)")?;
    db.execute("INSERT OR IGNORE INTO absorbed_files (stamp) VALUES (?)", [stamp]).map(drop)
}

/// Copies a database into memory, as far as it can be read and brought up to this version.
pub(crate) fn copy_in_memory(path: &Path, schema: &Schema) -> Option<Connection> {
    // SQLite shares even the reading of such a file through another file. On a full disk it cannot make that one, but
    // if nobody has written since the last one closed it, it can be read without.
    let copy = |how: &str| -> Result<Option<Connection>, ArchiveError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let kept = Connection::open_with_flags(format!("file:{}{how}", percent_encoded(path)), flags)?;
        let mut copy = Connection::open_in_memory()?;
        Backup::new(&kept, &mut copy)?.step(-1)?;
        Ok(schema.bring_up(&mut copy)?.then_some(copy))
    };
    let hows = ["?mode=ro", "?immutable=1"].into_iter().take(1 + usize::from(is_closed(path)));
    hows.map(copy).find_map(Result::ok).flatten()
}

/// Writes a path as a part of a URI.
fn percent_encoded(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
    let bytes = path.as_os_str().as_bytes().iter();
    bytes.map(|&byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// Returns the files of a database that were put aside under this name.
fn put_aside_names(folder: &Path, name: &str) -> impl Iterator<Item = PathBuf> {
    aside_names(folder, name).take_while(|path| path.exists())
}

/// Returns names for a database that is put aside: with `.old` behind its own, and a number if that is taken.
fn aside_names(folder: &Path, name: &str) -> impl Iterator<Item = PathBuf> {
    let number = |number: u64| if number == 1 { String::new() } else { format!(".{number}") };
    let (folder, name) = (folder.to_owned(), name.to_owned());
    (1..).map(move |at| folder.join(format!("{name}.old{}", number(at))))
}

/// Puts a database aside, under a name that nothing has.
pub(crate) fn put_aside(folder: &Path, name: &str) -> Result<(), ArchiveError> {
    let with = |path: &Path, ending: &str| {
        let mut path = path.as_os_str().to_owned();
        path.push(ending);
        PathBuf::from(path)
    };
    let endings = ["", "-wal", "-shm"];
    let is_free = |path: &PathBuf| endings.iter().all(|ending| !with(path, ending).exists());
    let Some(aside) = aside_names(folder, name).find(is_free) else { return Ok(()) };
    for ending in endings {
        let file = folder.join(format!("{name}{ending}"));
        match fs::rename(&file, with(&aside, ending)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(ArchiveError::Folder { folder: file, error });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Takes a lock of writers. Returns `None` if another process has it and `wait` is false.
pub(crate) fn lock(folder: &Path, name: &str, wait: bool) -> Option<File> {
    let file = fs::OpenOptions::new().create(true).append(true).mode(0o600).open(folder.join(name)).ok()?;
    let how = if wait { FlockOperation::LockExclusive } else { FlockOperation::NonBlockingLockExclusive };
    flock(&file, how).ok().map(|()| file)
}
