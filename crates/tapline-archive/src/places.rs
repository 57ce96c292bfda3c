//! Finds session files: in the places where agents and tapline keep them, or below any path.

mod memory;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::num::NonZero;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

pub use memory::FolderMemory;
use memory::{Kind, Names, Remembered, Stamp};
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, CWD, Dir, FileType};
use tapline_protocol::Agent;
use tapline_recording::{Beneath, Recording, Store, Stream};

use crate::facts::hash_of_bytes;
use crate::transcripts;

/// Names of files that can hold a session.
const ENDINGS: [&str; 4] = [".jsonl", ".ndjson", ".json", ".jsonl.zst"];

/// Files that make a folder a recording.
const IN_RECORDING: [&[u8]; 2] = [b"stdout", b"meta.json"];

/// Fewer folders than this are read by one thread.
const FEW: usize = 8;

/// A file that can hold a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The file that is read.
    pub path: PathBuf,
    /// The folder of the recording, if it is one.
    pub recording: Option<PathBuf>,
    /// Its length in bytes.
    pub len: u64,
    /// When it was changed last, in nanoseconds since 1970.
    pub mtime: i64,
    /// A hash of its inode and of when the system changed that last: a program can set back the time above, but not this one.
    pub changed: i64,
}

/// What was found below some paths.
#[derive(Debug, Default)]
pub struct Places {
    /// The files, in the order of their paths.
    pub files: Vec<Found>,
    /// Where was looked.
    pub roots: Vec<PathBuf>,
    /// Paths that could not be read, and why. Links that lead out of the folder they were found in are among them.
    pub unreadable: Vec<(PathBuf, io::Error)>,
    /// Folders that were visited: a folder can lie below two roots, or be mounted twice.
    seen: HashSet<(u64, u64)>,
    /// The roots, without links.
    beneath: Vec<Beneath>,
}

impl Places {
    /// Looks where agents keep their transcripts, and where tapline keeps its recordings. The environment tells where.
    pub fn of_user(environment: &dyn Fn(&str) -> Option<PathBuf>) -> Self {
        Self::look(&Self::roots_of_user(environment), true, &Remembered::default()).without_homes(environment)
    }

    /// The same, but folders that are as they are remembered are not listed again.
    pub fn of_user_with(memory: &FolderMemory, environment: &dyn Fn(&str) -> Option<PathBuf>) -> Self {
        let remembered = memory.read();
        Self::look(&Self::roots_of_user(environment), true, &Remembered::of(memory, &remembered)).without_homes(environment)
    }

    /// Names the home folders that a variable names beside others and that do not exist.
    fn without_homes(mut self, environment: &dyn Fn(&str) -> Option<PathBuf>) -> Self {
        self.unreadable.extend(transcripts::missing_homes(environment));
        self
    }

    /// Returns where [`Places::of_user`] looks, without looking.
    pub fn roots_of_user(environment: &dyn Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
        let recordings = Store::of_user().map(|store| store.folder());
        transcripts::places(environment).into_iter().chain(recordings).collect()
    }

    /// Looks where one agent keeps its transcripts.
    pub(crate) fn of_agent(agent: Agent, environment: &dyn Fn(&str) -> Option<PathBuf>) -> Self {
        Self::look(&transcripts::places_of(agent, environment), true, &Remembered::default())
    }

    /// Looks below these paths. A path that is a file is taken as it is.
    pub fn below(paths: &[PathBuf]) -> Self {
        Self::look(paths, false, &Remembered::default())
    }

    /// The same, but folders that are as they are remembered are not listed again.
    pub fn below_with(memory: &FolderMemory, paths: &[PathBuf]) -> Self {
        Self::look(paths, false, &Remembered::of(memory, &memory.read()))
    }

    /// Looks below some paths. If they are optional, they need not exist.
    fn look(paths: &[PathBuf], optional: bool, remembered: &Remembered<'_>) -> Self {
        let mut places = Self { roots: paths.to_owned(), ..Self::default() };
        let mut new = Vec::new();
        for path in paths {
            match fs::metadata(path).and_then(|meta| Ok((meta, Beneath::open(path)?))) {
                Ok((meta, beneath)) => {
                    if meta.is_dir() {
                        places.folder(&beneath, remembered, &mut new);
                    } else {
                        places.files.push(found(path.clone(), None, &meta));
                    }
                    places.beneath.push(beneath);
                }
                Err(error) if optional && error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => places.unreadable.push((path.clone(), error)),
            }
        }
        remembered.add(&new, paths);
        // By bytes: comparing paths part by part takes ten times as long. Most of them are in order already. Where a link led to the output
        // of a recording, the recording comes first.
        places.files.sort_by(|one, other| {
            let by_path = one.path.as_os_str().cmp(other.path.as_os_str());
            by_path.then_with(|| one.recording.is_none().cmp(&other.recording.is_none()))
        });
        places.files.dedup_by(|one, other| one.path == other.path);
        places
    }

    /// Opens a file that was found.
    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        match self.beneath.iter().find(|beneath| path.starts_with(beneath.root())) {
            Some(beneath) => beneath.file(path),
            None => File::open(path),
        }
    }

    fn folder(&mut self, beneath: &Beneath, remembered: &Remembered<'_>, new: &mut Vec<(PathBuf, Stamp, Vec<u8>)>) {
        // Without recursion: a hostile tree can be deeper than the stack.
        let mut level = vec![beneath.root().to_owned()];
        while !level.is_empty() {
            let listed = list_all(&level, beneath, remembered);
            let mut next = Vec::new();
            for (folder, Listed { id, files, folders, unreadable, new: names }) in level.into_iter().zip(listed) {
                self.unreadable.extend(unreadable);
                new.extend(names.map(|(stamp, names)| (folder, stamp, names)));
                if id.is_some_and(|id| !self.seen.insert(id)) {
                    continue;
                }
                self.files.extend(files);
                next.extend(folders);
            }
            level = next;
        }
    }
}

/// What is in a folder.
#[derive(Debug, Default)]
struct Listed {
    /// What tells the folder apart from others. `None` if it cannot be read.
    id: Option<(u64, u64)>,
    files: Vec<Found>,
    folders: Vec<PathBuf>,
    unreadable: Vec<(PathBuf, io::Error)>,
    /// The names in it, if they can be remembered and are not yet.
    new: Option<(Stamp, Vec<u8>)>,
}

/// Lists folders, many of them on all cores: for a quick command, this is most of the work.
fn list_all(folders: &[PathBuf], beneath: &Beneath, remembered: &Remembered<'_>) -> Vec<Listed> {
    let threads = if folders.len() < FEW { 1 } else { thread::available_parallelism().map_or(1, NonZero::get) };
    let next = AtomicUsize::new(0);
    // Some folders have many files: each thread takes the next one that nobody has taken.
    let lists = || {
        let mut listed = Vec::new();
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(folder) = folders.get(at)
        {
            listed.push((at, list(folder, beneath, remembered)));
        }
        listed
    };
    let mut all = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(lists)).collect();
        let mut all = lists();
        for other in others {
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    });
    all.sort_unstable_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, listed)| listed).collect()
}

/// Lists a folder. A recording is one file.
fn list(folder: &Path, beneath: &Beneath, remembered: &Remembered<'_>) -> Listed {
    let mut listed = Listed::default();
    if let Some((stamp, names)) = remembered.names(folder) {
        listed.id = Some((stamp.dev, stamp.ino));
        listed.add(folder, beneath, names, None);
    } else if let Err(error) = list_into(&mut listed, folder, beneath, remembered) {
        listed.unreadable.push((folder.to_owned(), error));
    }
    listed
}

/// Asks the system as little as it can: an archive has thousands of folders, and every quick command looks at them all.
fn list_into(listed: &mut Listed, folder: &Path, beneath: &Beneath, remembered: &Remembered<'_>) -> io::Result<()> {
    let opened = beneath.file(folder)?;
    let stamp = Stamp::of(&opened.metadata()?);
    listed.id = Some((stamp.dev, stamp.ino));
    let mut can_remember = remembered.can_remember(&opened, stamp);
    let mut entries = Dir::new(opened)?;
    let mut inside = Vec::new();
    let mut is_recording = false;
    for entry in entries.by_ref() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                listed.unreadable.push((folder.to_owned(), error.into()));
                can_remember = false;
                break;
            }
        };
        let name = entry.file_name().to_bytes();
        let kind = match entry.file_type() {
            FileType::Directory => Kind::Folder,
            FileType::RegularFile => Kind::File,
            _ => Kind::Other,
        };
        is_recording |= name == b"meta.json";
        // Only the names of files say whether they matter.
        if name != b"." && name != b".." && (kind != Kind::File || is_session_name(name)) {
            inside.push((name.to_owned(), kind));
        }
    }
    let is_one = is_recording && Recording::is_one(folder);
    if is_one {
        inside = vec![(Stream::Stdout.file_name().into(), Kind::Recording)];
    }
    let names = Names::packed(inside);
    listed.add(folder, beneath, Names::new(&names), Some(entries.fd()?));
    // Whether `meta.json` is a file may change, while the folder does not.
    listed.new = (can_remember && (is_one || !is_recording)).then_some((stamp, names));
    Ok(())
}

impl Listed {
    /// Adds what is in a folder, by its names. The folder may be open.
    fn add(&mut self, folder: &Path, beneath: &Beneath, names: Names<'_>, open: Option<BorrowedFd<'_>>) {
        for (name, kind) in names.iter() {
            let path = folder.join(OsStr::from_bytes(name));
            match kind {
                Kind::Folder => self.folders.push(path),
                Kind::File => {
                    let asked = match open {
                        Some(open) => rustix::fs::statat(open, name, AtFlags::SYMLINK_NOFOLLOW),
                        None => rustix::fs::statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW),
                    };
                    if let Ok(meta) = asked {
                        let mtime = nanoseconds(meta.st_mtime, i64::try_from(meta.st_mtime_nsec).unwrap_or_default());
                        let len = u64::try_from(meta.st_size).unwrap_or_default();
                        let ctime = nanoseconds(meta.st_ctime, i64::try_from(meta.st_ctime_nsec).unwrap_or_default());
                        let changed = changed(meta.st_ino, ctime);
                        self.files.push(Found { path, recording: None, len, mtime, changed });
                    }
                }
                Kind::Recording => {
                    let meta = fs::metadata(&path);
                    self.files.extend(meta.map(|meta| found(path, Some(folder.to_owned()), &meta)));
                }
                Kind::Other => self.add_other(path, name, beneath),
            }
        }
    }

    /// Adds what is a link, or what the file system does not tell. A link that leads nowhere is nothing. What a link to a folder leads to is
    /// found where it lies; if it lies elsewhere, it is named.
    fn add_other(&mut self, path: PathBuf, name: &[u8], beneath: &Beneath) {
        let Ok(meta) = fs::metadata(&path) else { return };
        let is_wanted = meta.is_file() && (is_session_name(name) || IN_RECORDING.contains(&name));
        match beneath.resolve(&path) {
            Ok(to) if to == path && meta.is_dir() => self.folders.push(path),
            Ok(to) if meta.is_file() && is_session_name(name) => self.files.push(found(to, None, &meta)),
            Err(error) if meta.is_dir() || is_wanted => self.unreadable.push((path, error)),
            _ => {}
        }
    }
}

pub(crate) fn found(path: PathBuf, recording: Option<PathBuf>, meta: &Metadata) -> Found {
    let [mtime, ctime] =
        [(meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec())].map(|(s, ns)| nanoseconds(s, ns));
    Found { path, recording, len: meta.len(), mtime, changed: changed(meta.ino(), ctime) }
}

fn changed(inode: u64, ctime: i64) -> i64 {
    hash_of_bytes([inode.to_le_bytes(), ctime.to_le_bytes()].as_flattened()).cast_signed()
}

fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

fn is_session_name(name: &[u8]) -> bool {
    // Claude Code writes such a file beside the transcript of a sub-agent.
    ENDINGS.iter().any(|ending| name.ends_with(ending.as_bytes())) && !name.ends_with(b".meta.json")
}

/// Writes a path as text, also one that is not.
pub(crate) fn lossy<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}
