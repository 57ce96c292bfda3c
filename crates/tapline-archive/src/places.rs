//! Finds session files: in the places where agents and tapline keep them, or below any path.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::num::NonZero;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::fs::{AtFlags, Dir, FileType};
use tapline_recording::{Recording, Store};

use crate::transcripts;

/// Names of files that can hold a session.
const ENDINGS: [&str; 4] = [".jsonl", ".ndjson", ".json", ".jsonl.zst"];

/// Fewer folders than this are read by one thread.
const FEW: usize = 32;

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
}

/// What was found below some paths.
#[derive(Debug, Default)]
pub struct Places {
    /// The files, in the order of their paths.
    pub files: Vec<Found>,
    /// Where was looked.
    pub roots: Vec<PathBuf>,
    /// Paths that could not be read, and why.
    pub unreadable: Vec<(PathBuf, io::Error)>,
    /// Folders that were visited: links can lead in circles.
    seen: HashSet<(u64, u64)>,
}

impl Places {
    /// Looks where agents keep their transcripts, and where tapline keeps its recordings. The environment tells where.
    pub fn of_user(environment: &dyn Fn(&str) -> Option<PathBuf>) -> Self {
        let mut places = Self::default();
        for folder in Self::roots_of_user(environment) {
            places.look(&folder, true);
        }
        places.finish()
    }

    /// Returns where [`Places::of_user`] looks, without looking.
    pub fn roots_of_user(environment: &dyn Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
        let recordings = Store::of_user().map(|store| store.folder());
        transcripts::places(environment).into_iter().chain(recordings).collect()
    }

    /// Looks below these paths. A path that is a file is taken as it is.
    pub fn below(paths: &[PathBuf]) -> Self {
        let mut places = Self::default();
        for path in paths {
            places.look(path, false);
        }
        places.finish()
    }

    fn finish(mut self) -> Self {
        // By bytes: comparing paths part by part takes ten times as long.
        self.files.sort_unstable_by(|one, other| one.path.as_os_str().cmp(other.path.as_os_str()));
        self.files.dedup_by(|one, other| one.path == other.path);
        self
    }

    /// Looks at a path. If it is optional, it need not exist.
    fn look(&mut self, path: &Path, optional: bool) {
        self.roots.push(path.to_owned());
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => self.folder(path),
            Ok(meta) => self.add(path.to_owned(), None, &meta),
            Err(error) if optional && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.unreadable.push((path.to_owned(), error)),
        }
    }

    fn folder(&mut self, path: &Path) {
        // Without recursion: a hostile tree can be deeper than the stack.
        let mut level = vec![path.to_owned()];
        while !level.is_empty() {
            let listed = list_all(&level);
            level.clear();
            for Listed { id, files, folders, unreadable } in listed {
                self.unreadable.extend(unreadable);
                // A link led to a folder that was visited before.
                if id.is_some_and(|id| !self.seen.insert(id)) {
                    continue;
                }
                self.files.extend(files);
                level.extend(folders);
            }
        }
    }

    fn add(&mut self, path: PathBuf, recording: Option<PathBuf>, meta: &Metadata) {
        self.files.push(found(path, recording, meta));
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
}

/// Lists folders, many of them on all cores: for a quick command, this is most of the work.
fn list_all(folders: &[PathBuf]) -> Vec<Listed> {
    let threads = if folders.len() < FEW { 1 } else { thread::available_parallelism().map_or(1, NonZero::get) };
    let lists = |folders: &[PathBuf]| folders.iter().map(|folder| list(folder)).collect::<Vec<_>>();
    let mut parts = folders.chunks(folders.len().div_ceil(threads));
    let Some(first) = parts.next() else { return Vec::new() };
    thread::scope(|scope| {
        let others: Vec<_> = parts.map(|part| (part, scope.spawn(move || lists(part)))).collect();
        let mut all = lists(first);
        for (part, other) in others {
            all.extend(other.join().unwrap_or_else(|_| lists(part)));
        }
        all
    })
}

/// Lists a folder. A recording is one file.
fn list(folder: &Path) -> Listed {
    let mut listed = Listed::default();
    if let Err(error) = list_into(&mut listed, folder) {
        listed.unreadable.push((folder.to_owned(), error));
    }
    listed
}

/// Asks the system as little as it can: an archive has thousands of folders, and every quick command lists them all.
fn list_into(listed: &mut Listed, folder: &Path) -> io::Result<()> {
    let opened = fs::File::open(folder)?;
    let meta = opened.metadata()?;
    listed.id = Some((meta.dev(), meta.ino()));
    let mut entries = Dir::new(opened)?;
    let mut named = Vec::new();
    let mut is_recording = false;
    for entry in entries.by_ref() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                listed.unreadable.push((folder.to_owned(), error.into()));
                break;
            }
        };
        let (name, kind) = (OsStr::from_bytes(entry.file_name().to_bytes()), entry.file_type());
        is_recording |= name == "meta.json";
        // Only the names of files say whether they matter.
        if name != "." && name != ".." && (kind != FileType::RegularFile || is_session_name(name.as_bytes())) {
            named.push((name.to_owned(), kind));
        }
    }
    if is_recording && Recording::is_one(folder) {
        let path = Recording::open(folder).map_err(io::Error::other)?.stdout();
        if let Ok(meta) = fs::metadata(&path) {
            listed.files.push(found(path, Some(folder.to_owned()), &meta));
        }
        return Ok(());
    }
    for (name, kind) in named {
        let path = folder.join(&name);
        match kind {
            FileType::Directory => listed.folders.push(path),
            FileType::RegularFile => {
                if let Ok(meta) = rustix::fs::statat(entries.fd()?, &name, AtFlags::SYMLINK_NOFOLLOW) {
                    let mtime = nanoseconds(meta.st_mtime, i64::try_from(meta.st_mtime_nsec).unwrap_or_default());
                    let len = u64::try_from(meta.st_size).unwrap_or_default();
                    listed.files.push(Found { path, recording: None, len, mtime });
                }
            }
            // A link, or a file system that does not say what it is. A link that leads nowhere is nothing.
            _ => match fs::metadata(&path) {
                Ok(meta) if meta.is_dir() => listed.folders.push(path),
                Ok(meta) if meta.is_file() && is_session_name(name.as_bytes()) => listed.files.push(found(path, None, &meta)),
                _ => {}
            },
        }
    }
    Ok(())
}

fn found(path: PathBuf, recording: Option<PathBuf>, meta: &Metadata) -> Found {
    Found { path, recording, len: meta.len(), mtime: nanoseconds(meta.mtime(), meta.mtime_nsec()) }
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
