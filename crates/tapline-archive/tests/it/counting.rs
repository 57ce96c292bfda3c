//! What the other tests share: a folder of their own, the real transcripts, and what an index adds up to.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::Value;
use tapline_archive::stats::{By, Query, stats};
use tapline_archive::{Index, Places, Prices, Selection, Updated};

/// A folder of a test's own, gone afterwards.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tapline-archive-{}-{number}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A folder of `fixtures/transcripts/`.
pub(crate) fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/transcripts").join(name)
}

/// The transcripts of a case, without its streams.
pub(crate) fn transcripts(name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = ["claude", "codex"].map(|agent| case(name).join(agent)).into();
    folders.retain(|folder| folder.exists());
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "jsonl") {
                found.push(path);
            }
        }
    }
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
