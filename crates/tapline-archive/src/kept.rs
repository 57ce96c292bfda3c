//! Copies of session files that outlive the originals: agents delete their transcripts after some time. A copy is
//! compressed, private, written as a whole or not at all, and read back before it counts.

mod agents;
mod copy;
mod restore;
mod status;
mod trailer;
mod verify;

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::num::NonZero;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use rustix::fs::{FlockOperation, flock};

pub use agents::{Lifetime, lifetimes};
pub use restore::Restored;
pub use status::{ArchiveStatus, CopyState, GoneFiles, IndexedFiles, KeptFiles, Vanishing, status};
pub use verify::{BadCopy, Verified};

use crate::error::ArchiveError;
use crate::places::{Found, Places, found};
use copy::{Copied, check, copy};
use trailer::Trailer;

/// The ending of a copy's name.
const ENDING: &str = ".zst";
/// The ending of a file's name while the file is being written.
const PART: &str = ".part";

/// The folder of kept copies. A copy has the path of its original below it.
#[derive(Clone, Debug)]
pub struct Kept {
    folder: PathBuf,
}

/// A kept copy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptCopy {
    /// The copy.
    pub path: PathBuf,
    /// What it is a copy of.
    pub original: PathBuf,
    /// Its length in bytes, compressed.
    pub bytes: u64,
    /// The length of what is in it.
    pub len: u64,
    /// The length of the original when it was copied.
    pub original_len: u64,
    /// When the original was changed last, in nanoseconds since 1970.
    pub original_mtime: i64,
    /// Whether it is an earlier state: the original was rewritten afterwards.
    pub earlier: bool,
}

/// The copies in a folder.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct KeptCopies {
    /// The copies, in the order of their paths.
    pub copies: Vec<KeptCopy>,
    /// What could not be read, and why.
    pub unreadable: Vec<(PathBuf, io::Error)>,
}

/// What was copied.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct KeepReport {
    /// How many files were copied for the first time.
    pub new: usize,
    /// How many copies were renewed, because their files had changed.
    pub renewed: usize,
    /// How many copies were made again, because they were damaged.
    pub healed: usize,
    /// How many copies were current already, and whole.
    pub current: usize,
    /// How many bytes of files were copied.
    pub bytes: u64,
    /// Files that could not be copied, and why. Their earlier copies are still there.
    pub failed: Vec<(PathBuf, io::Error)>,
    /// How many files were not tried, because the disk is full or it was interrupted.
    pub left: usize,
}

impl Kept {
    /// The kept copies of an archive in this folder.
    pub fn of_archive(archive: &Path) -> Self {
        Self { folder: archive.join("kept") }
    }

    /// Returns the folder of the copies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the copy of a file, if there is one.
    pub fn find(&self, original: &Path) -> Option<PathBuf> {
        Some(self.place(original)).filter(|copy| copy.is_file())
    }

    /// Opens the copy of a file, if there is one: as it was, not compressed.
    pub fn open(&self, original: &Path) -> io::Result<Option<Box<dyn Read + Send>>> {
        match self.find(original) {
            Some(copy) => Ok(Some(Box::new(zstd::Decoder::new(File::open(copy)?)?))),
            None => Ok(None),
        }
    }

    /// Returns where the copy of a file belongs.
    fn place(&self, original: &Path) -> PathBuf {
        let original = std::path::absolute(original).unwrap_or_else(|_| original.to_owned());
        let mut place = self.folder.clone();
        place.extend(original.components().filter(|part| matches!(part, Component::Normal(_))));
        // A file that an agent compresses later has the same copy.
        if place.extension().is_none_or(|ending| ending != "zst") {
            let mut name = place.into_os_string();
            name.push(ENDING);
            place = name.into();
        }
        place
    }

    /// Copies what is new or changed, and what has a damaged copy. Recordings are not copied: nobody deletes them. Passes on how
    /// many files are done, and of how many.
    pub fn keep(
        &self,
        places: &Places,
        stop: &AtomicBool,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<KeepReport, ArchiveError> {
        let failed = |error| ArchiveError::Folder { folder: self.folder.clone(), error };
        private_folder(&self.folder).map_err(failed)?;
        let _lock = self.lock().map_err(failed)?;
        self.remove_parts();
        let files = self.wanted(places);
        let mut report = KeepReport::default();
        let (next, full) = (AtomicUsize::new(0), AtomicBool::new(false));
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(files.len());
        let (send, receive) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..threads {
                let (files, next, full, send) = (&files, &next, &full, send.clone());
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) && !full.load(Ordering::Relaxed) {
                        let Some(found) = files.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                        let copied = self.keep_one(places, found);
                        if let Err(error) = &copied {
                            // Every further copy would fail, too.
                            full.fetch_or(error.kind() == io::ErrorKind::StorageFull, Ordering::Relaxed);
                        }
                        if send.send((found, copied)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(send);
            let mut done = 0;
            for (found, copied) in receive {
                done += 1;
                match copied {
                    Ok(Copied::Current) => report.current += 1,
                    Ok(Copied::New(bytes)) => (report.new, report.bytes) = (report.new + 1, report.bytes + bytes),
                    Ok(Copied::Renewed(bytes)) => {
                        (report.renewed, report.bytes) = (report.renewed + 1, report.bytes + bytes);
                    }
                    Ok(Copied::Healed(bytes)) => (report.healed, report.bytes) = (report.healed + 1, report.bytes + bytes),
                    Err(error) => report.failed.push((found.path.clone(), error)),
                }
                progress(done, files.len());
            }
            report.left = files.len() - done;
        });
        report.failed.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(report)
    }

    /// Returns the transcripts among some files, and the notes that agents write beside them. Copies are not copied.
    fn wanted(&self, places: &Places) -> Vec<Found> {
        let own = self.folder.canonicalize().unwrap_or_else(|_| self.folder.clone());
        let is_wanted = |found: &&Found| {
            found.recording.is_none() && !found.path.starts_with(&own) && !found.path.starts_with(&self.folder)
        };
        let mut files = Vec::new();
        for file in places.files.iter().filter(is_wanted) {
            let notes = file.path.with_extension("meta.json");
            if let Ok(meta) = places.open(&notes).and_then(|notes| notes.metadata()) {
                files.push(found(notes, None, &meta));
            }
            files.push(file.clone());
        }
        files
    }

    fn keep_one(&self, places: &Places, found: &Found) -> io::Result<Copied> {
        let place = self.place(&found.path);
        let of_this = Trailer::read(&place).ok().filter(|trailer| trailer.is_of(found));
        // A disk does not say what it lost: only reading shows it.
        if of_this.as_ref().is_some_and(|trailer| check(&place, trailer).is_ok()) {
            return Ok(Copied::Current);
        }
        if let Some(folder) = place.parent() {
            private_folder(folder)?;
        }
        copy(places.open(&found.path)?, &found.path, &place, of_this.is_some())
    }

    /// Takes the lock of those who copy. Waits for another process that does.
    fn lock(&self) -> io::Result<File> {
        let file = fs::OpenOptions::new().create(true).append(true).mode(0o600).open(self.folder.join("keep.lock"))?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }

    /// Removes what an interrupted process left. Nobody else is writing: the lock is held.
    fn remove_parts(&self) {
        walk(&self.folder, &mut |path, _| {
            if path.as_os_str().as_encoded_bytes().ends_with(PART.as_bytes()) {
                let _ = fs::remove_file(path);
            }
        });
    }

    /// Returns the copies that are there.
    pub fn copies(&self) -> KeptCopies {
        let mut all = KeptCopies::default();
        walk(&self.folder, &mut |path, meta| {
            if path.extension().is_none_or(|ending| ending != "zst") {
                return;
            }
            match Trailer::read(path) {
                Ok(trailer) => all.copies.push(KeptCopy {
                    earlier: self.place(&trailer.original) != path,
                    path: path.to_owned(),
                    original: trailer.original,
                    bytes: meta.len(),
                    len: trailer.len,
                    original_len: trailer.original_len,
                    original_mtime: trailer.original_mtime,
                }),
                Err(error) => all.unreadable.push((path.to_owned(), error)),
            }
        });
        all.copies.sort_by(|one, other| one.path.cmp(&other.path));
        all
    }

    /// Returns copies that must be read to know everything: their originals are gone, and an index does not know them,
    /// because it was built again. `known` returns the files that the index knows.
    pub fn unknown_to(&self, known: impl FnOnce() -> Result<Vec<PathBuf>, ArchiveError>) -> Result<Vec<Found>, ArchiveError> {
        if !self.folder.is_dir() {
            return Ok(Vec::new());
        }
        let known: HashSet<PathBuf> = known()?.iter().map(|original| self.place(original)).collect();
        let is_unknown = |copy: &Path| {
            let name = copy.as_os_str().as_encoded_bytes();
            let is_session = name.ends_with(ENDING.as_bytes()) && !name.ends_with(b".meta.json.zst");
            is_session && !known.contains(copy)
        };
        let mut unknown = Vec::new();
        walk(&self.folder, &mut |path, meta| {
            // Only those are opened: there can be thousands of others.
            if is_unknown(path)
                && let Ok(Trailer { original, .. }) = Trailer::read(path)
                && self.place(&original) == path
                && !original.exists()
            {
                unknown.push(found(path.to_owned(), None, meta));
            }
        });
        unknown.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(unknown)
    }
}

/// Makes a folder that only its owner can read, if it is not there.
fn private_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Visits all files below a folder. Links are not followed: tapline makes none.
fn walk(folder: &Path, each: &mut dyn FnMut(&Path, &fs::Metadata)) {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => folders.push(entry.path()),
                Ok(meta) if meta.is_file() => each(&entry.path(), &meta),
                _ => {}
            }
        }
    }
}

/// Returns a name for an earlier state of a copy: `a.jsonl.zst` becomes `a.jsonl.1.zst`. No session file has such a name.
fn aside(place: &Path) -> PathBuf {
    let stem = place.with_extension("");
    let mut number = 0_u64;
    loop {
        number += 1;
        let mut name: OsString = stem.clone().into_os_string();
        name.push(format!(".{number}{ENDING}"));
        let path = PathBuf::from(name);
        if !path.exists() {
            return path;
        }
    }
}
