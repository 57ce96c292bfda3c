//! A database file of the archive: private, of one version, and put aside when it is damaged.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{FlockOperation, flock};

use crate::error::ArchiveError;

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

/// Opens a database, or makes it with these tables. Returns `None` if it is of another version.
pub(crate) fn open(path: &Path, version: i64, tables: &str) -> rusqlite::Result<Option<Connection>> {
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
    let found: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if found == version {
        return Ok(Some(db));
    }
    let transaction = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let found: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let is_new = transaction.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))?;
    if found != version && is_new {
        transaction.execute_batch(tables)?;
        transaction.pragma_update(None, "user_version", version)?;
    }
    transaction.commit()?;
    Ok((found == version || is_new).then_some(db))
}

/// Copies a database into memory, as far as it can be read and is of this version.
pub(crate) fn copy_in_memory(path: &Path, version: i64) -> Option<Connection> {
    // SQLite shares even the reading of such a file through another file. On a full disk it cannot make that one, but
    // if nobody has written since the last one closed it, it can be read without.
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let is_closed = fs::metadata(log).map_or(true, |log| log.len() == 0);
    for how in ["?mode=ro", "?immutable=1"].into_iter().take(1 + usize::from(is_closed)) {
        let copy = || -> rusqlite::Result<Option<Connection>> {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            let kept = Connection::open_with_flags(format!("file:{}{how}", percent_encoded(path)), flags)?;
            let mut copy = Connection::open_in_memory()?;
            Backup::new(&kept, &mut copy)?.step(-1)?;
            let found: i64 = copy.query_row("PRAGMA user_version", [], |row| row.get(0))?;
            Ok((found == version).then_some(copy))
        };
        if let Ok(copy) = copy() {
            return copy;
        }
    }
    None
}

/// Writes a path as a part of a URI.
pub(crate) fn percent_encoded(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
    let bytes = path.as_os_str().as_bytes().iter();
    bytes.map(|&byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// Puts a database aside, under its name with `.old` behind it.
pub(crate) fn put_aside(folder: &Path, name: &str) -> Result<(), ArchiveError> {
    for ending in ["", "-wal", "-shm"] {
        let file = folder.join(format!("{name}{ending}"));
        match fs::rename(&file, folder.join(format!("{name}.old{ending}"))) {
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
