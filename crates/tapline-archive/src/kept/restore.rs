//! Puts the copies of a session back where its agent finds them, and forgets what is kept of sessions.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::trailer::Trailer;
use super::verify::current_of;
use super::{Kept, copy, walk};
use crate::error::ArchiveError;
use crate::index::Index;

/// What was put back.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Restored {
    /// The files that are back.
    pub files: Vec<PathBuf>,
    /// Files that were there already.
    pub there: Vec<PathBuf>,
    /// Files of which there is no copy.
    pub lost: Vec<PathBuf>,
    /// Files that could not be put back, and why.
    pub failed: Vec<(PathBuf, io::Error)>,
}

impl Kept {
    /// Puts the files of a session back where they were, from their copies. A file that is there stays as it is.
    pub fn restore(&self, index: &Index, session: &str) -> Result<Restored, ArchiveError> {
        let mut restored = Restored::default();
        for original in self.originals(index, &|of| of == session)? {
            let place = self.place(&original);
            match Trailer::read(&place) {
                _ if original.exists() => restored.there.push(original),
                Err(error) if error.kind() == io::ErrorKind::NotFound => restored.lost.push(original),
                Err(error) => restored.failed.push((original, error)),
                // A file that its agent packed later has the same copy.
                Ok(trailer) if self.place(&trailer.original) != place => restored.lost.push(original),
                Ok(trailer) => match copy::restore(&place, &trailer) {
                    Ok(()) => restored.files.push(trailer.original),
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => restored.there.push(trailer.original),
                    Err(error) => restored.failed.push((original, error)),
                },
            }
        }
        Ok(restored)
    }

    /// Returns the files of some sessions, and the notes beside those that have any. Recordings are not copied, so they are not
    /// among them.
    fn originals(&self, index: &Index, is_wanted: &dyn Fn(&str) -> bool) -> Result<BTreeSet<PathBuf>, ArchiveError> {
        let mut originals = BTreeSet::new();
        for (file, session) in index.files()? {
            if file.recording.is_some() || !is_wanted(&session) {
                continue;
            }
            // A copy in the index stands for its original.
            let of_copy = || Trailer::read(&file.path).ok().map(|trailer| trailer.original);
            let is_copy = file.path.starts_with(self.folder());
            let Some(original) = (if is_copy { of_copy() } else { Some(file.path.clone()) }) else { continue };
            let notes = original.with_extension("meta.json");
            if self.find(&notes).is_some() {
                originals.insert(notes);
            }
            originals.insert(original);
        }
        Ok(originals)
    }

    /// Removes the copies of these sessions' files, also of their earlier states. Returns which there were.
    pub fn forget(&self, index: &Index, sessions: &HashSet<String>) -> Result<Vec<PathBuf>, ArchiveError> {
        let failed = |path: &Path| {
            let folder = path.to_owned();
            move |error| ArchiveError::Folder { folder, error }
        };
        if !self.folder().is_dir() {
            return Ok(Vec::new());
        }
        let _lock = self.lock().map_err(failed(self.folder()))?;
        let originals = self.originals(index, &|session| sessions.contains(session))?;
        let places: HashSet<PathBuf> = originals.iter().map(|original| self.place(original)).collect();
        let mut copies = Vec::new();
        walk(self.folder(), &mut |path, _| {
            let original = || Trailer::read(path).ok().map(|trailer| self.place(&trailer.original));
            let of = [Some(path.to_owned()), current_of(path), original()];
            if of.into_iter().flatten().any(|place| places.contains(&place)) {
                copies.push(path.to_owned());
            }
        });
        for copy in &copies {
            fs::remove_file(copy).map_err(failed(copy))?;
        }
        Ok(copies)
    }
}
