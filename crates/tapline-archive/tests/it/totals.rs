//! What an index adds up to, and the transcripts of the real programs. Shared by the tests here.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use tapline_archive::stats::{By, Query, stats};
use tapline_archive::{Index, Places, Prices, Selection, Updated};
use tapline_testkit::files::files_below;
use tapline_testkit::fixture;

/// A folder of `fixtures/transcripts/`.
pub(crate) fn case(name: &str) -> PathBuf {
    fixture("transcripts").join(name)
}

/// The transcripts of a case, without its streams.
pub(crate) fn transcripts(name: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = ["claude", "codex"].iter().flat_map(|agent| files_below(case(name).join(agent))).collect();
    found.retain(|path| path.extension().is_some_and(|end| end == "jsonl"));
    found.sort();
    assert!(!found.is_empty(), "{name}");
    found
}

/// Reads what is new below a path.
pub(crate) fn update(index: &mut Index, path: &Path) -> Updated {
    index.update(&Places::below(&[path.to_owned()]), &AtomicBool::new(false), |_| {}).unwrap()
}

/// What everything in an index adds up to, by session.
pub(crate) fn counted(index: &Index) -> Value {
    by(index, By::Session)
}

pub(crate) fn by(index: &Index, by: By) -> Value {
    let mut query = Query::default();
    query.by = by;
    serde_json::to_value(stats(index, Prices::embedded(), &Selection::default(), &query).unwrap()).unwrap()
}

/// The same for a file or folder, read at once.
pub(crate) fn fresh(path: &Path) -> Value {
    let mut index = Index::in_memory().unwrap();
    let updated = update(&mut index, path);
    assert!(updated.unreadable.is_empty(), "{updated:?}");
    counted(&index)
}

/// The tokens of `totals`: input, output, cache reads, cache writes.
pub(crate) fn tokens(counted: &Value) -> [u64; 4] {
    ["input", "output", "cache_read", "cache_write"].map(|key| counted["totals"][key].as_u64().unwrap())
}
