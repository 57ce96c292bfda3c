//! Finds session files: in the places where agents and tapline keep them, or below any path.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tapline_recording::{Recording, Store};

use crate::transcripts;

/// Names of files that can hold a session.
const ENDINGS: [&str; 4] = [".jsonl", ".ndjson", ".json", ".jsonl.zst"];

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
        let mut folders = Vec::new();
        if self.seen.insert((meta.dev(), meta.ino())) {
            folders.push(path.to_owned());
        }
        while let Some(folder) = folders.pop() {
            if Recording::is_one(&folder) {
                self.recording(folder);
                continue;
            }
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) => {
                    self.unreadable.push((folder, error));
                    continue;
                }
            };
            for entry in entries.flatten() {
                let path = entry.path();
                let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
                if is_file && !is_session_name(&path) {
                    continue;
                }
                // Follows links. One that leads nowhere is nothing.
                let meta = if is_file { entry.metadata() } else { fs::metadata(&path) };
                let Ok(meta) = meta else { continue };
                if meta.is_file() && is_session_name(&path) {
                    self.add(path, None, &meta);
                } else if meta.is_dir() && self.seen.insert((meta.dev(), meta.ino())) {
                    folders.push(path);
                }
            }
        }
    }

    fn recording(&mut self, folder: PathBuf) {
        match Recording::open(&folder) {
            Ok(recording) => {
                let path = recording.stdout();
                if let Ok(meta) = fs::metadata(&path) {
                    self.add(path, Some(folder), &meta);
                }
            }
            Err(error) => self.unreadable.push((folder, io::Error::other(error))),
        }
    }

    fn add(&mut self, path: PathBuf, recording: Option<PathBuf>, meta: &Metadata) {
        let mtime = meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec());
        self.files.push(Found { path, recording, len: meta.len(), mtime });
    }
}

fn is_session_name(path: &Path) -> bool {
    let name = path.file_name().map_or(&b""[..], |name| name.as_encoded_bytes());
    // Claude Code writes such a file beside the transcript of a sub-agent.
    ENDINGS.iter().any(|ending| name.ends_with(ending.as_bytes())) && !name.ends_with(b".meta.json")
}

/// Writes a path as text, also one that is not.
pub(crate) fn lossy<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}
