//! What was written to a store: one line for each part of a table, the last one counts. A line is added when the store has
//! the part, so after a crash a part is written once more, and never forgotten.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tapline_archive::export::PartitionContent;

/// The notes on one store.
#[derive(Debug)]
pub(super) struct Notes {
    path: PathBuf,
    file: File,
    written: HashMap<String, Note>,
}

/// A part of a table that a store has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    partition: String,
    rows: u64,
    hash: String,
}

impl Note {
    fn of(partition: &str, content: &PartitionContent) -> Self {
        Self { partition: partition.to_owned(), rows: content.rows, hash: format!("{:032x}", content.hash) }
    }
}

impl Notes {
    /// Reads the notes. Half a line at the end was never noted.
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        let mut written = HashMap::new();
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        for line in text.split(|byte| *byte == b'\n') {
            if let Ok(note) = serde_json::from_slice::<Note>(line) {
                written.insert(note.partition.clone(), note);
            }
        }
        let file = written_anew(&path, &written)?;
        Ok(Self { path, file, written })
    }

    /// Returns whether the store has exactly this.
    pub(super) fn has(&self, partition: &str, content: &PartitionContent) -> bool {
        self.written.get(partition).is_some_and(|note| *note == Note::of(partition, content))
    }

    /// Returns the parts that have rows in the store.
    pub(super) fn with_rows(&self) -> impl Iterator<Item = &str> {
        self.written.values().filter(|note| note.rows > 0).map(|note| &*note.partition)
    }

    /// Notes that the store has this.
    pub(super) fn add(&mut self, partition: &str, content: &PartitionContent) -> io::Result<()> {
        let note = Note::of(partition, content);
        self.file.write_all(&line(&note)?)?;
        self.written.insert(partition.to_owned(), note);
        Ok(())
    }

    /// Forgets everything but which parts there are, so that all of them are written again.
    pub(super) fn forget(&mut self) -> io::Result<()> {
        for note in self.written.values_mut() {
            note.hash.clear();
        }
        self.file = written_anew(&self.path, &self.written)?;
        Ok(())
    }
}

/// Writes the file without lines that no longer count, and opens it for more.
fn written_anew(path: &Path, written: &HashMap<String, Note>) -> io::Result<File> {
    let part = path.with_extension("part");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    let mut text = Vec::new();
    for note in written.values() {
        text.extend(line(note)?);
    }
    file.write_all(&text)?;
    file.sync_all()?;
    std::fs::rename(&part, path)?;
    OpenOptions::new().append(true).open(path)
}

fn line(note: &Note) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(note)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use tapline_archive::export::ExportTable;
    use tapline_testkit::TempFolder;

    use super::*;

    #[test]
    fn what_was_noted_is_known_again_and_half_a_line_is_not() -> io::Result<()> {
        let folder = TempFolder::new();
        let path = folder.join("written");
        let content = PartitionContent::empty(ExportTable::Calls);
        let mut notes = Notes::open(path.clone())?;
        notes.add("calls/date=2026-11-17", &content)?;
        notes.add("calls/date=2026-11-18", &content)?;
        drop(notes);
        let whole = std::fs::read(&path)?;
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut])?;
            let mut notes = Notes::open(path.clone())?;
            let lines = whole[..cut].split(|byte| *byte == b'\n').count() - 1;
            // A line is whole without its end, too.
            let known = ["calls/date=2026-11-17", "calls/date=2026-11-18"].map(|name| notes.has(name, &content));
            assert!(known.iter().filter(|known| **known).count() >= lines && (known[0] || !known[1]), "{cut}: {known:?}");
            notes.add("calls/date=2026-11-19", &content)?;
            assert!(Notes::open(path.clone())?.has("calls/date=2026-11-19", &content), "{cut}");
        }
        let mut notes = Notes::open(path)?;
        notes.forget()?;
        assert!(!notes.has("calls/date=2026-11-19", &content));
        Ok(())
    }
}
