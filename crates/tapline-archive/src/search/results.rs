//! How to search, and what a search returns.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::snippet::Snippet;
use crate::said::EntryKind;

/// Which hits come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SearchSort {
    /// The newest.
    #[default]
    Newest,
    /// Those where the words stand close together, then those in prompts and answers; of equals, the newest.
    Best,
}

/// How to search.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SearchOptions {
    /// Which hits come first.
    pub sort: SearchSort,
    /// The most sessions.
    pub sessions: usize,
    /// The most hits of each session.
    pub hits: usize,
    /// About how many characters of a text are shown.
    pub width: usize,
    /// Only files below these paths. Empty: all files.
    pub below: Vec<PathBuf>,
    /// Where copies of deleted files are.
    pub copies: Copies,
}

type FindCopy = dyn Fn(&Path) -> Option<PathBuf> + Send + Sync;

/// Finds the copy of a file that is no longer there.
#[derive(Clone, Default)]
pub struct Copies(Option<Arc<FindCopy>>);

impl Copies {
    /// Copies that this function finds. A copy that ends in `.zst` is compressed.
    pub fn found_by(find: impl Fn(&Path) -> Option<PathBuf> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(find)))
    }

    pub(super) fn of(&self, path: &Path) -> Option<PathBuf> {
        self.0.as_ref().and_then(|find| find(path))
    }
}

impl std::fmt::Debug for Copies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Copies" } else { "None" })
    }
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self { sort: SearchSort::Newest, sessions: 10, hits: 3, width: 160, below: Vec::new(), copies: Copies::default() }
    }
}

/// What a search found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SearchFound {
    /// The sessions, in the order of their first hits.
    pub sessions: Vec<FoundSession>,
    /// Whether there are more sessions than were asked for.
    pub more: bool,
    /// If nothing was found: words that stand nowhere, each with one that does and may be what was meant.
    pub meant: Vec<(String, String)>,
}

/// A session with hits.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FoundSession {
    /// Its id, or the path of a file that names no session.
    pub id: String,
    /// The agent.
    pub agent: String,
    /// The working folder.
    pub folder: String,
    /// Its title, or its first prompt, without secrets.
    pub title: String,
    /// The hits, the first ones only.
    pub hits: Vec<Hit>,
    /// How many more hits were seen. There can be still more.
    pub more: usize,
}

/// A text that was found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Hit {
    /// When it was said, in seconds since 1970.
    pub time: u64,
    /// What it is.
    pub kind: EntryKind,
    /// The tool, if it is of a call.
    pub tool: String,
    /// Whether it is an error.
    pub error: bool,
    /// Whether it is of a sub-agent.
    pub subagent: bool,
    /// The file that has it.
    pub path: PathBuf,
    /// Where its line begins in the file.
    pub offset: u64,
    /// A piece of it, without secrets.
    pub shown: Shown,
}

/// What there is to show of a hit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shown {
    /// A piece of it.
    Snippet(Snippet),
    /// Its file is no longer there.
    Gone,
    /// Its file is there, but says something else now, or cannot be read.
    Unreadable,
}
