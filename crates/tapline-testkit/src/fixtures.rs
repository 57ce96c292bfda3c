//! The project's fixtures, and where the project is.

use std::path::{Path, PathBuf};

use crate::files::files_below;

/// Returns the folder of the project.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the folder `fixtures/`.
pub fn fixtures() -> PathBuf {
    root().join("fixtures")
}

/// Returns the path of a file or folder in `fixtures/`.
pub fn fixture(name: &str) -> PathBuf {
    fixtures().join(name)
}

/// Returns every fixture that is a stream of an agent, one event on each line, sorted.
pub fn streams() -> Vec<PathBuf> {
    // Tables of streams, and what agents wrote for themselves.
    let others = [fixture("cases"), fixture("transcripts")];
    let mut files = files_below(fixtures());
    files.retain(|path| !others.iter().any(|other| path.starts_with(other)));
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    // One document each.
    files.retain(|path| !path.ends_with("json.jsonl") && !path.ends_with("jsonverbose.jsonl"));
    assert!(files.len() > 15, "the fixtures are there");
    files
}
