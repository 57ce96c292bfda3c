//! What was in the folders of an archive when they were listed. A folder that did not change since then is not listed
//! again. It takes one question to the system to see that, instead of five.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::{ENDINGS, nanoseconds};
use crate::database::make_folder;
use crate::facts::hash_of_bytes;
use crate::sealed;

/// The number of the rule by which names are remembered. Raise it when `is_session_name` or [`Kind`] changes, other than by its endings.
const RULE: u64 = 4;
/// How many folders are remembered.
const MOST: usize = 100_000;
/// Fewer new listings than this are not worth a new file.
const ENOUGH: usize = 16;
/// Clocks of file systems are coarse: a folder that changed this short a time before it was listed may have changed again
/// right after that, at the same time as its clock tells it. In nanoseconds.
const COARSE: i64 = 2_000_000_000;

/// Where it is remembered what was in folders, so that the next look is quicker.
#[derive(Clone, Debug)]
pub struct FolderMemory {
    file: PathBuf,
    now: i64,
}

impl FolderMemory {
    /// Remembers it in the folder of the archive. `now` is the time before the look, in milliseconds since 1970.
    pub fn new(folder: &Path, now: u64) -> Self {
        Self { file: folder.join("folders"), now: i64::try_from(now).unwrap_or_default().saturating_mul(1_000_000) }
    }

    pub(super) fn read(&self) -> Vec<u8> {
        sealed::read(&self.file, version(&ENDINGS)).unwrap_or_default()
    }

    /// Returns whether what is in this folder can be remembered: not every file system tells that a folder changed.
    pub fn can_remember(folder: &Path) -> bool {
        File::open(folder).is_ok_and(|folder| is_plain(&folder))
    }
}

/// The version of the file. One of another version is written again: with another ending, other names are remembered.
fn version(endings: &[&str]) -> u64 {
    hash_of_bytes(format!("{RULE} {endings:?}").as_bytes())
}

/// What tells that a folder is the same and did not change. A program can set back the one time, but not the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    pub(super) dev: u64,
    pub(super) ino: u64,
    mtime: i64,
    ctime: i64,
}

impl Stamp {
    pub(super) fn of(meta: &fs::Metadata) -> Self {
        let mtime = nanoseconds(meta.mtime(), meta.mtime_nsec());
        Self { dev: meta.dev(), ino: meta.ino(), mtime, ctime: nanoseconds(meta.ctime(), meta.ctime_nsec()) }
    }
}

/// What was in one folder.
#[derive(Debug, Serialize, Deserialize)]
struct Listing<'m> {
    path: &'m [u8],
    stamp: Stamp,
    /// The names in order, each with a letter before it and a NUL behind it.
    names: &'m [u8],
    /// Whether the folder is still as it was.
    #[serde(skip)]
    holds: AtomicBool,
}

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct Remembered<'m> {
    listings: HashMap<&'m [u8], Listing<'m>, foldhash::fast::FixedState>,
    memory: Option<&'m FolderMemory>,
}

impl<'m> Remembered<'m> {
    /// Reads what is in the file. A damaged one says nothing.
    pub(super) fn of(memory: &'m FolderMemory, file: &'m [u8]) -> Self {
        let listings = postcard::from_bytes::<Vec<Listing<'_>>>(file).unwrap_or_default();
        let listings = listings.into_iter().map(|listing| (listing.path, listing));
        Self { listings: listings.collect(), memory: Some(memory) }
    }

    /// Returns what is in a folder, if it is remembered and still so.
    pub(super) fn names(&self, folder: &Path) -> Option<(Stamp, Names<'m>)> {
        let listing = self.listings.get(folder.as_os_str().as_bytes())?;
        let stamp = Stamp::of(&fs::metadata(folder).ok()?);
        listing.holds.store(stamp == listing.stamp, Ordering::Relaxed);
        (stamp == listing.stamp).then_some((stamp, Names(listing.names)))
    }

    /// Returns whether what is in this folder now will be so for as long as its stamp is.
    pub(super) fn can_remember(&self, folder: &File, stamp: Stamp) -> bool {
        self.memory.is_some_and(|memory| stamp.ctime.max(stamp.mtime) <= memory.now.saturating_sub(COARSE)) && is_plain(folder)
    }

    /// Remembers new listings as well. What cannot be written is not remembered. What was remembered of folders elsewhere
    /// stays while these are there; what no longer holds goes.
    pub(super) fn add(&self, new: &[(PathBuf, Stamp, Vec<u8>)], roots: &[PathBuf]) {
        let Some(memory) = self.memory.filter(|_| new.len() >= ENOUGH) else { return };
        let new = new.iter().map(|(path, stamp, names)| Listing {
            path: path.as_os_str().as_bytes(),
            stamp: *stamp,
            names,
            holds: AtomicBool::new(true),
        });
        let is_elsewhere = |path: &[u8]| {
            let path = Path::new(std::ffi::OsStr::from_bytes(path));
            !roots.iter().any(|root| path.starts_with(root)) && path.is_dir()
        };
        let kept = self.listings.values().filter(|old| old.holds.load(Ordering::Relaxed) || is_elsewhere(old.path));
        let kept = kept.map(|&Listing { path, stamp, names, .. }| Listing { path, stamp, names, holds: AtomicBool::default() });
        let all: Vec<Listing<'_>> = new.chain(kept).take(MOST).collect();
        let Ok(bytes) = postcard::to_stdvec(&all) else { return };
        if memory.file.parent().is_some_and(|folder| make_folder(folder).is_ok()) {
            let _ = sealed::write(&memory.file, bytes, version(&ENDINGS));
        }
    }
}

/// What an entry of a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Folder,
    File,
    /// The output of a recording, which is all that counts of its folder.
    Recording,
    /// A link, or what the file system does not tell.
    Other,
}

/// The names in a folder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<'n>(&'n [u8]);

impl<'n> Names<'n> {
    /// Packs names. They are in order from then on.
    pub(super) fn packed(mut entries: Vec<(Vec<u8>, Kind)>) -> Vec<u8> {
        entries.sort_unstable();
        let mut packed = Vec::with_capacity(entries.iter().map(|(name, _)| name.len() + 2).sum());
        for (name, kind) in entries {
            packed.push(match kind {
                Kind::Folder => b'd',
                Kind::File => b'f',
                Kind::Recording => b'r',
                Kind::Other => b'o',
            });
            packed.extend(name);
            packed.push(0);
        }
        packed
    }

    pub(super) fn new(names: &'n [u8]) -> Self {
        Self(names)
    }

    /// Returns the names and what they are of.
    pub(super) fn iter(self) -> impl Iterator<Item = (&'n [u8], Kind)> {
        let named = self.0.split(|byte| *byte == 0).filter_map(|named| named.split_first());
        named.map(|(kind, name)| match kind {
            b'd' => (name, Kind::Folder),
            b'f' => (name, Kind::File),
            b'r' => (name, Kind::Recording),
            _ => (name, Kind::Other),
        })
    }
}

/// Returns whether a folder is in a file system of this machine that notes the time of every change of a folder, and whether
/// its names do not depend on a key.
#[cfg(target_os = "linux")]
fn is_plain(folder: &File) -> bool {
    use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, fstatfs, statx};
    // ext2 to ext4, xfs, btrfs, tmpfs, f2fs, bcachefs, zfs, and overlays of these.
    const PLAIN: [u64; 8] = [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0xf2f5_2010, 0xca45_1a4e, 0x2fc1_2fc1, 0x794c_7630];
    let is_readable = || {
        let asked = statx(folder, "", AtFlags::EMPTY_PATH, StatxFlags::TYPE);
        asked.is_ok_and(|said| !said.stx_attributes.contains(StatxAttributes::ENCRYPTED))
    };
    fstatfs(folder).is_ok_and(|system| u64::try_from(system.f_type).is_ok_and(|kind| PLAIN.contains(&kind))) && is_readable()
}

#[cfg(not(target_os = "linux"))]
fn is_plain(_folder: &File) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tapline_testkit::TempFolder;

    use super::*;
    use crate::Places;

    /// Late enough that every folder of a test can be remembered.
    const LATER: u64 = 4_000_000_000_000;

    #[test]
    fn folders_that_do_not_change_are_not_listed_again() {
        let folder = TempFolder::new();
        let folders: Vec<PathBuf> = (0..2 * ENOUGH).map(|number| folder.join(format!("files/{number}"))).collect();
        for folder in &folders {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join("session.jsonl"), "{}\n").unwrap();
        }
        let memory = FolderMemory::new(&folder, LATER);
        let knows = || {
            let file = memory.read();
            let remembered = Remembered::of(&memory, &file);
            folders.iter().filter(|folder| remembered.names(folder).is_some()).count()
        };
        assert_eq!(knows(), 0);
        Places::below_with(&memory, &[folder.join("files")]);
        if !FolderMemory::can_remember(&folder) {
            assert_eq!(knows(), 0);
            return;
        }
        assert_eq!(knows(), folders.len());
        fs::remove_dir_all(&folders[0]).unwrap();
        assert_eq!(knows(), folders.len() - 1);
    }

    #[test]
    fn a_recording_is_remembered_and_seen_to_grow() {
        let folder = TempFolder::new();
        let recordings: Vec<PathBuf> = (0..ENOUGH).map(|number| folder.join(format!("recordings/{number}"))).collect();
        for recording in &recordings {
            fs::create_dir_all(recording).unwrap();
            fs::write(recording.join("meta.json"), "{}").unwrap();
            fs::write(recording.join("stdout"), "{}\n").unwrap();
        }
        let memory = FolderMemory::new(&folder, LATER);
        let look = || Places::below_with(&memory, &[folder.join("recordings")]).files;
        let lengths = || look().iter().map(|found| (found.recording.is_some(), found.len)).collect::<Vec<_>>();
        assert_eq!(lengths(), vec![(true, 3); ENOUGH]);
        if FolderMemory::can_remember(&folder) {
            let file = memory.read();
            let remembered = Remembered::of(&memory, &file);
            assert!(recordings.iter().all(|recording| remembered.names(recording).is_some()));
        }
        // The folder does not change when its file grows.
        fs::write(recordings[0].join("stdout"), "{}\n{}\n").unwrap();
        assert_eq!(lengths()[0], (true, 6));
        // Without this file it is not a recording, and its output is not a session.
        fs::remove_file(recordings[0].join("meta.json")).unwrap();
        assert_eq!(lengths(), vec![(true, 3); ENOUGH - 1]);
    }

    #[test]
    fn a_memory_has_an_end_and_forgets_folders_elsewhere_that_are_gone() {
        let folder = TempFolder::new();
        let there = folder.join("there");
        fs::create_dir_all(&there).unwrap();
        let stamp = Stamp::of(&fs::metadata(&there).unwrap());
        let memory = FolderMemory::new(&folder, LATER);
        let add = |paths: Vec<PathBuf>| {
            let new: Vec<_> = paths.into_iter().map(|path| (path, stamp, Vec::new())).collect();
            Remembered::of(&memory, &memory.read()).add(&new, &[folder.join("root")]);
            let file = memory.read();
            let known = Remembered::of(&memory, &file).listings;
            (known.len(), known.contains_key(there.as_os_str().as_bytes()))
        };
        let gone = |name: &str, count: usize| (0..count).map(|number| folder.join(format!("{name}/{number}"))).collect();
        let mut first: Vec<PathBuf> = gone("gone", ENOUGH);
        first.push(there.clone());
        assert_eq!(add(first), (ENOUGH + 1, true));
        assert_eq!(add(gone("root", ENOUGH)), (ENOUGH + 1, true));
        assert_eq!(add(gone("root", MOST + 5)), (MOST, false));
    }

    #[test]
    fn another_ending_is_another_version() {
        let more: Vec<&str> = ENDINGS.into_iter().chain([".more"]).collect();
        assert_ne!(version(&ENDINGS), version(&more));
        assert_ne!(version(&[".a", ".b"]), version(&[".a.b"]));
    }
}
