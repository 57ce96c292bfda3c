//! Finds session files: in the places where agents and tapline keep them, or below any path.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::num::NonZero;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;

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
            Ok(meta) if meta.is_dir() => self.folder(path, &meta),
            Ok(meta) => self.add(path.to_owned(), None, &meta),
            Err(error) if optional && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.unreadable.push((path.to_owned(), error)),
        }
    }

    fn folder(&mut self, path: &Path, meta: &Metadata) {
        // Without recursion: a hostile tree can be deeper than the stack.
        let mut level = Vec::new();
        if self.seen.insert((meta.dev(), meta.ino())) {
            level.push(path.to_owned());
        }
        while !level.is_empty() {
            let listed = list_all(&level);
            level.clear();
            for Listed { files, folders, unreadable } in listed {
                self.files.extend(files);
                self.unreadable.extend(unreadable);
                let new = folders.into_iter().filter(|(id, _)| self.seen.insert(*id));
                level.extend(new.map(|(_, path)| path));
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
    files: Vec<Found>,
    /// The folders in it, with what tells them apart.
    folders: Vec<((u64, u64), PathBuf)>,
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
    let entries: Vec<_> = match fs::read_dir(folder) {
        Ok(entries) => entries.flatten().collect(),
        Err(error) => {
            listed.unreadable.push((folder.to_owned(), error));
            return listed;
        }
    };
    if entries.iter().any(|entry| entry.file_name() == "meta.json") && Recording::is_one(folder) {
        match Recording::open(folder) {
            Ok(recording) => {
                let path = recording.stdout();
                if let Ok(meta) = fs::metadata(&path) {
                    listed.files.push(found(path, Some(folder.to_owned()), &meta));
                }
            }
            Err(error) => listed.unreadable.push((folder.to_owned(), io::Error::other(error))),
        }
        return listed;
    }
    for entry in entries {
        let kind = entry.file_type();
        let is_file = kind.as_ref().is_ok_and(fs::FileType::is_file);
        let is_named = is_session_name(entry.file_name().as_encoded_bytes());
        if is_file && !is_named {
            continue;
        }
        // Follows links. One that leads nowhere is nothing.
        let is_link = kind.is_ok_and(|kind| kind.is_symlink());
        let meta = if is_link { fs::metadata(entry.path()) } else { entry.metadata() };
        let Ok(meta) = meta else { continue };
        if meta.is_file() && is_named {
            listed.files.push(found(entry.path(), None, &meta));
        } else if meta.is_dir() {
            listed.folders.push(((meta.dev(), meta.ino()), entry.path()));
        }
    }
    listed
}

fn found(path: PathBuf, recording: Option<PathBuf>, meta: &Metadata) -> Found {
    let mtime = meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec());
    Found { path, recording, len: meta.len(), mtime }
}

fn is_session_name(name: &[u8]) -> bool {
    // Claude Code writes such a file beside the transcript of a sub-agent.
    ENDINGS.iter().any(|ending| name.ends_with(ending.as_bytes())) && !name.ends_with(b".meta.json")
}

/// Writes a path as text, also one that is not.
pub(crate) fn lossy<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}
