//! Which recordings are not sent yet, and how far each is: a small file for each, in the data folder. Whoever sends a recording has its file
//! locked; if that process is killed, another one goes on. What it says of offsets is a hint: sending more again changes nothing.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tapline_recording::{Store, create_private_folder};

use super::pieces::{RecordingFile, plain};

/// How many bytes of each file that grows were sent.
pub(crate) type Offsets = [u64; RecordingFile::GROWING.len()];

/// How long the text of offsets is, with spaces after it.
const ROOM: usize = 128;

/// The recordings of a data folder that are not sent yet.
#[derive(Clone, Debug)]
pub struct Outbox {
    folder: PathBuf,
    recordings: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct About {
    batch: String,
}

/// A recording that is being sent by this process.
#[derive(Debug)]
pub(crate) struct Entry {
    file: File,
    path: PathBuf,
    /// Where the offsets are.
    at: u64,
    pub(crate) batch: String,
    pub(crate) offsets: Offsets,
}

impl Outbox {
    /// Opens the outbox of a data folder. Makes it if it is missing.
    pub fn of(store: &Store) -> io::Result<Self> {
        let folder = store.root().join("fleet").join("outbox");
        create_private_folder(&folder)?;
        Ok(Self { folder, recordings: store.folder() })
    }

    /// Lists the recordings that are not sent yet.
    pub fn waiting(&self) -> io::Result<Vec<String>> {
        let names = std::fs::read_dir(&self.folder)?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| plain(name).is_ok()).collect();
        names.sort();
        Ok(names)
    }

    /// Returns the name of a recording in this data folder.
    pub(crate) fn name_of(&self, recording: &Path) -> io::Result<String> {
        let wrong = || {
            io::Error::new(io::ErrorKind::InvalidInput, format!("{} is no recording of this data folder", recording.display()))
        };
        let name = recording.file_name().and_then(|name| name.to_str()).and_then(|name| plain(name).ok());
        name.filter(|_| recording.parent() == Some(&self.recordings)).map(str::to_owned).ok_or_else(wrong)
    }

    /// Returns the folder of a recording.
    pub(crate) fn recording(&self, name: &str) -> PathBuf {
        self.recordings.join(name)
    }

    /// Takes a recording that waits. `None` if another one is sending it, or if it was sent.
    pub(crate) fn take(&self, name: &str) -> io::Result<Option<Entry>> {
        let path = self.folder.join(name);
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        if !lock(&file)? || !is_at(&file, &path) {
            return Ok(None);
        }
        Entry::read(file, path).map(Some)
    }

    /// Returns whether a recording waits.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.folder.join(name).exists()
    }

    /// Notes a recording that is not sent yet. `None` if another one is sending it.
    pub(crate) fn add(&self, name: &str, batch: &str) -> io::Result<Option<Entry>> {
        loop {
            if self.has(name) {
                match self.take(name)? {
                    Some(entry) => return Ok(Some(entry)),
                    None if self.has(name) => return Ok(None),
                    None => continue,
                }
            }
            // It gets its name when it is complete and locked.
            let part = self.folder.join(format!(".{name}.{}", std::process::id()));
            let _ = std::fs::remove_file(&part);
            let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&part)?;
            lock(&file)?;
            let mut line = serde_json::to_vec(&About { batch: batch.to_owned() })?;
            line.push(b'\n');
            file.write_all(&line)?;
            match std::fs::hard_link(&part, self.folder.join(name)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                linked => {
                    linked?;
                    std::fs::remove_file(&part)?;
                    let (path, at) = (self.folder.join(name), line.len() as u64);
                    return Ok(Some(Entry { file, path, at, batch: batch.to_owned(), offsets: Offsets::default() }));
                }
            }
        }
    }
}

/// Locks a file for this process. The kernel unlocks it however the process ends.
fn lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether this is still the file of that name.
fn is_at(file: &File, path: &Path) -> bool {
    let inode = |about: std::fs::Metadata| (about.dev(), about.ino());
    file.metadata().ok().map(inode) == std::fs::metadata(path).ok().map(inode)
}

impl Entry {
    fn read(file: File, path: PathBuf) -> io::Result<Self> {
        let mut text = String::new();
        (&file).take(64 << 10).read_to_string(&mut text)?;
        let (line, rest) = text.split_once('\n').unwrap_or((&text, ""));
        let About { batch } = serde_json::from_str(line)?;
        let offsets = serde_json::from_str(rest.trim()).unwrap_or_default();
        Ok(Self { file, path, at: line.len() as u64 + 1, batch, offsets })
    }

    /// Notes how much was sent.
    pub(crate) fn note(&mut self, offsets: Offsets) -> io::Result<()> {
        self.offsets = offsets;
        let mut text = serde_json::to_vec(&offsets)?;
        text.resize(ROOM.max(text.len()), b' ');
        self.file.write_all_at(&text, self.at)
    }

    /// Puts the note on the disk, because the recording is sent much later.
    pub(crate) fn keep(&self) -> io::Result<()> {
        self.file.sync_all()?;
        File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()
    }

    /// The recording is sent.
    pub(crate) fn remove(self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use tapline_testkit::{TempFolder, wait_for};

    use super::*;

    #[test]
    fn an_entry_is_locked_keeps_its_offsets_and_goes_when_it_is_sent() {
        let root = TempFolder::new();
        let outbox = Outbox::of(&Store::at(&*root)).unwrap();
        let mut entry = outbox.add("a", "batch").unwrap().unwrap();
        assert!(outbox.take("a").unwrap().is_none() && outbox.add("a", "batch").unwrap().is_none());
        entry.note([u64::MAX; 5]).unwrap();
        entry.note([7, 0, 0, 1, 0]).unwrap();
        drop(entry);
        // Another test may just have forked a process, which has the lock until it is another program.
        let again = wait_for("nobody has the lock", || outbox.take("a").unwrap());
        assert_eq!((again.batch.as_str(), again.offsets), ("batch", [7, 0, 0, 1, 0]));
        assert_eq!(outbox.waiting().unwrap(), ["a"]);
        again.remove().unwrap();
        assert!(outbox.waiting().unwrap().is_empty() && outbox.take("a").unwrap().is_none());
        assert!(outbox.name_of(Path::new("/elsewhere/a")).is_err());
        assert_eq!(outbox.name_of(&root.join("recordings/a")).unwrap(), "a");
    }
}
