//! What was typed before, from chat to chat: a private file, one JSON string a line, the newest last.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::PathBuf;

use crate::output::OutputFile;

/// No more entries are kept.
const KEPT: usize = 1_000;
/// A longer one is not kept: it was pasted.
const LONGEST: usize = 16 << 10;

/// The past.
#[derive(Debug, Default)]
pub(super) struct History {
    path: Option<PathBuf>,
    pub(super) entries: Vec<String>,
}

impl History {
    /// Reads it; what cannot be read is not there.
    pub(super) fn open(path: Option<PathBuf>) -> Self {
        let text = path.as_ref().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
        let entries: Vec<String> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let forgotten = entries.len().saturating_sub(KEPT);
        let history = Self { path, entries: entries.into_iter().skip(forgotten).collect() };
        if forgotten > KEPT {
            // A history that cannot be written ends no chat.
            let _ = history.shorten();
        }
        history
    }

    /// Only what is kept stays: whole or not at all.
    fn shorten(&self) -> anyhow::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut file = OutputFile::open(path)?;
        file.write_all(lines(&self.entries)?.as_bytes())?;
        file.keep()
    }

    /// One more, unless it is the same again.
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
        // One that was there may be open to others; what a link leads to may be a device, which is not ours to close.
        if file.metadata()?.is_file() {
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        }
        file.write_all(lines(&[text.to_owned()])?.as_bytes())
    }
}

fn lines(entries: &[String]) -> serde_json::Result<String> {
    entries.iter().map(|text| Ok(serde_json::to_string(text)? + "\n")).collect()
}
