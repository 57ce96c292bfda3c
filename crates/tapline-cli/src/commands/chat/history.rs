//! The history of prompts, from chat to chat: a private file with one JSON string per line, newest last.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::PathBuf;

use crate::output::OutputFile;

/// How many entries are kept.
const KEPT: usize = 1_000;
/// Longer entries are not kept, because they are most likely pasted text.
const LONGEST: usize = 16 << 10;

/// The history.
#[derive(Debug, Default)]
pub(super) struct History {
    path: Option<PathBuf>,
    pub(super) entries: Vec<String>,
}

impl History {
    /// Reads the history. What cannot be read is left out.
    pub(super) fn open(path: Option<PathBuf>) -> Self {
        let text = path.as_ref().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
        let entries: Vec<String> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let forgotten = entries.len().saturating_sub(KEPT);
        let history = Self { path, entries: entries.into_iter().skip(forgotten).collect() };
        if forgotten > KEPT {
            // If the history cannot be written, the chat continues.
            let _ = history.shorten();
        }
        history
    }

    /// Shortens the file to the entries that are kept. It is replaced completely or not at all.
    fn shorten(&self) -> anyhow::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut file = OutputFile::open(path)?;
        file.write_all(lines(&self.entries)?.as_bytes())?;
        file.keep()
    }

    /// Adds an entry, unless it repeats the last one.
    pub(super) fn add(&mut self, text: &str) {
        if text.trim().is_empty() || self.entries.last().is_some_and(|last| last == text) {
            return;
        }
        self.entries.push(text.to_owned());
        if text.len() <= LONGEST {
            let _ = self.append(text);
        }
    }

    fn append(&self, text: &str) -> std::io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        if let Some(folder) = path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let mut file = OpenOptions::new().create(true).mode(0o600).append(true).open(path)?;
        // An existing file may be readable by others. A link may lead to a device, whose permissions are not ours to
        // change.
        if file.metadata()?.is_file() {
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        }
        file.write_all(lines(&[text.to_owned()])?.as_bytes())
    }
}

fn lines(entries: &[String]) -> serde_json::Result<String> {
    entries.iter().map(|text| Ok(serde_json::to_string(text)? + "\n")).collect()
}
