//! The copies that are kept of session files.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use tapline_archive::kept::Kept;
use tapline_archive::{ArchiveError, Index, Places};

use super::folder;

/// Work that takes less time than this shows no progress.
const NOTICED: Duration = Duration::from_millis(400);

/// Returns the copies in the user's archive.
pub(crate) fn kept() -> Result<Kept> {
    Ok(Kept::of_archive(&folder()?))
}

/// Adds copies of files that are gone and that an index does not know, because it was built again.
pub(crate) fn add_to(
    places: &mut Places,
    known: impl FnOnce() -> Result<Vec<PathBuf>, ArchiveError>,
) -> Result<(), ArchiveError> {
    let Ok(kept) = kept() else { return Ok(()) };
    let unknown = kept.unknown_to(known)?;
    if !unknown.is_empty() && !places.roots.iter().any(|root| root == kept.folder()) {
        places.files.extend(unknown);
        places.roots.push(kept.folder().to_owned());
    }
    Ok(())
}

/// Returns the copy of a session whose files are gone.
pub(crate) fn of_session(id: &str) -> Option<PathBuf> {
    let kept = kept().ok()?;
    let files = Index::open(&folder().ok()?).ok()?.files().ok()?;
    let copies = || files.iter().filter(|(_, session)| session == id).filter_map(|(file, _)| kept.find(&file.path));
    // Files of sub-agents are not named after the session.
    let is_named = |copy: &PathBuf| copy.file_name().is_some_and(|name| name.to_string_lossy().contains(id));
    copies().find(is_named).or_else(|| copies().next())
}

/// A line on stderr that says how many files are done.
pub(crate) struct Counter {
    what: &'static str,
    shown: Instant,
    is_shown: bool,
    quiet: bool,
}

impl Counter {
    pub(crate) fn new(what: &'static str, quiet: bool) -> Self {
        Self { what, shown: Instant::now(), is_shown: false, quiet: quiet || !io::stderr().is_terminal() }
    }

    pub(crate) fn show(&mut self, done: usize, of: usize) {
        let due = if self.is_shown { Duration::from_millis(100) } else { NOTICED };
        if !self.quiet && self.shown.elapsed() >= due {
            (self.shown, self.is_shown) = (Instant::now(), true);
            let _ = write!(io::stderr(), "\r\x1b[K{} … {done} of {of}", self.what);
        }
    }

    pub(crate) fn clear(&mut self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
