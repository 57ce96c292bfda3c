//! What the archive has, what it has lost, and what will vanish and when.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tapline_protocol::Agent;

use super::{Kept, KeptCopy, Lifetime};
use crate::error::ArchiveError;
use crate::index::Index;
use crate::load::Selection;
use crate::places::{Found, Places, lossy};

/// Milliseconds in a day.
const DAY: u64 = 24 * 60 * 60 * 1_000;

/// What the archive has, what it has lost, and what will vanish.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ArchiveStatus {
    /// What is counted.
    pub indexed: IndexedFiles,
    /// What is kept.
    pub kept: KeptFiles,
    /// Files that were counted and are no longer there.
    pub gone: GoneFiles,
    /// Files that their agents will delete, the first one first.
    pub vanishing: Vec<Vanishing>,
}

/// What is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IndexedFiles {
    /// The number of files, also of those that are gone.
    pub files: u64,
    /// The number of sessions in them.
    pub sessions: u64,
    /// The length of the files.
    pub bytes: u64,
}

/// What is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct KeptFiles {
    /// The folder of the copies.
    #[serde(serialize_with = "lossy")]
    pub folder: PathBuf,
    /// The number of copies.
    pub files: u64,
    /// Copies of earlier states of files that were rewritten.
    pub earlier: u64,
    /// The length of all copies.
    pub bytes: u64,
    /// The length of what is in them.
    pub original_bytes: u64,
    /// Copies that cannot be read.
    #[serde(serialize_with = "all_lossy")]
    pub unreadable: Vec<PathBuf>,
}

/// Files that were counted and are no longer there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GoneFiles {
    /// The number of files.
    pub files: u64,
    /// Those of which there is a copy.
    pub kept: u64,
    /// Those of which only the numbers are left.
    pub lost: u64,
}

/// A file that its agent will delete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Vanishing {
    /// The file.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// The agent.
    pub agent: Agent,
    /// When, in milliseconds since 1970: the agent deletes it when it starts after that.
    pub at: u64,
    /// Whether there is a copy.
    pub copy: CopyState,
}

/// How the copy of a file stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CopyState {
    /// There is no copy.
    #[default]
    Missing,
    /// The file has changed since it was copied.
    Outdated,
    /// The copy has all that the file has.
    Current,
}

/// Says how the archive stands, as far as it is of these places.
pub fn status(index: &Index, kept: &Kept, places: &Places, lifetimes: &[Lifetime]) -> Result<ArchiveStatus, ArchiveError> {
    let copies = kept.copies();
    let mut status = ArchiveStatus::default();
    kept.folder().clone_into(&mut status.kept.folder);
    status.kept.unreadable = copies.unreadable.into_iter().map(|(path, _)| path).collect();
    for copy in &copies.copies {
        status.kept.files += u64::from(!copy.earlier);
        status.kept.earlier += u64::from(copy.earlier);
        status.kept.bytes += copy.bytes;
        status.kept.original_bytes += copy.len;
    }
    let by_original: HashMap<&Path, &KeptCopy> =
        copies.copies.iter().filter(|copy| !copy.earlier).map(|copy| (&*copy.original, copy)).collect();
    let by_copy: HashMap<&Path, &KeptCopy> = copies.copies.iter().map(|copy| (&*copy.path, copy)).collect();
    // The index may know more: what other command lines named.
    let below = places.roots.iter().cloned().chain([kept.folder().to_owned()]).collect();
    let selection = Selection { below, ..Selection::default() };
    let files: Vec<_> = index.files()?.into_iter().filter(|(file, _)| selection.has(file)).collect();
    let known: HashSet<&Path> = files.iter().map(|(file, _)| &*file.path).collect();
    let mut sessions = HashSet::new();
    for (file, session) in &files {
        // A copy in the index stands for its original, unless that is there itself.
        let copy = by_copy.get(&*file.path);
        if copy.is_some_and(|copy| known.contains(&*copy.original) || copy.earlier) {
            continue;
        }
        status.indexed.files += 1;
        status.indexed.bytes += copy.map_or(file.len, |copy| copy.len);
        sessions.insert(session);
        if file.gone || copy.is_some() {
            let is_kept = copy.is_some() || by_original.contains_key(&*file.path);
            status.gone.files += 1;
            status.gone.kept += u64::from(is_kept);
            status.gone.lost += u64::from(!is_kept);
        }
    }
    status.indexed.sessions = sessions.len() as u64;
    for found in places.files.iter().filter(|found| found.recording.is_none()) {
        let of = |lifetime: &&Lifetime| lifetime.folders.iter().any(|folder| found.path.starts_with(folder));
        let Some((agent, days)) = lifetimes.iter().find(of).and_then(|of| Some((of.agent, of.days?))) else { continue };
        let changed = (found.mtime / 1_000_000).max(0).cast_unsigned();
        let at = changed.saturating_add(days.saturating_mul(DAY));
        let copy = by_original.get(&*found.path).map_or(CopyState::Missing, |copy| state(copy, found));
        status.vanishing.push(Vanishing { path: found.path.clone(), agent, at, copy });
    }
    status.vanishing.sort_by(|one, other| (one.at, &one.path).cmp(&(other.at, &other.path)));
    Ok(status)
}

fn state(copy: &KeptCopy, found: &Found) -> CopyState {
    let same = (copy.original_len, copy.original_mtime) == (found.len, found.mtime);
    if same { CopyState::Current } else { CopyState::Outdated }
}

fn all_lossy<S: serde::Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}
