//! What is wrong with a job file, and where: each mistake once, in the order of the file.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tapline_protocol::Agent as Kind;
use tapline_session::exit;

/// A place in a job file. Places are in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub(crate) struct Place {
    /// The line or the offset in the file, and the line or the number of the row.
    at: (usize, usize),
    words: String,
}

impl Place {
    pub(crate) fn new(at: usize, words: impl Into<String>) -> Self {
        Self { at: (at, 0), words: words.into() }
    }

    /// A row that fills in what stands here.
    pub(crate) fn row(&self, number: usize, words: impl Into<String>) -> Self {
        Self { at: (self.at.0, number), words: words.into() }
    }

    /// The same words for a place further on.
    pub(crate) fn moved(&self, at: usize) -> Self {
        Self { at: (at, 0), words: self.words.clone() }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.words)
    }
}

/// Only the words are written down: the order matters while the file is read.
impl From<String> for Place {
    fn from(words: String) -> Self {
        Self { at: (0, 0), words }
    }
}

impl From<Place> for String {
    fn from(place: Place) -> Self {
        place.words
    }
}

/// What is wrong with a job file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mistake {
    /// Where: `jobs.csv, line 4`.
    pub place: String,
    /// What.
    pub why: String,
    /// The agent, if its program is missing on this machine or cannot be executed. Then the file is not wrong.
    pub agent: Option<Kind>,
    /// Whether the job, or a default of the batch, has the path of that program (`bin`), and not only its name.
    pub names_program: bool,
    /// The exit code that `tapline run` has for it.
    pub exit_code: u8,
    pub(crate) at: (usize, usize),
}

impl Mistake {
    pub(crate) fn new(place: &Place, why: impl Into<String>) -> Self {
        let (place, at) = (place.words.clone(), place.at);
        Self { place, why: why.into(), agent: None, names_program: false, exit_code: exit::USAGE, at }
    }
}

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { place, why, .. } = self;
        write!(f, "{place}: {why}")
    }
}

/// Everything that is wrong with a job file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Mistakes(pub Vec<Mistake>);

impl Mistakes {
    /// Puts mistakes into the order of the file, each once.
    pub(crate) fn sorted(mut all: Vec<Mistake>) -> Self {
        let mut seen = BTreeSet::new();
        all.retain(|mistake| seen.insert((mistake.place.clone(), mistake.why.clone())));
        all.sort_by_key(|mistake| mistake.at);
        Self(all)
    }
}
