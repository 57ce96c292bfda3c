//! Where output goes: stdout or a file, buffered, and how it may look there.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::args::{Look, When};

/// stdout, buffered. Who may have to wait for input flushes first.
pub(crate) fn stdout() -> BufWriter<io::StdoutLock<'static>> {
    BufWriter::with_capacity(64 << 10, io::stdout().lock())
}

/// Whether stdout is a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether lines can be drawn over and coloured there.
pub(crate) fn is_capable() -> bool {
    is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether to colour.
pub(crate) fn colour(look: Look) -> bool {
    match look.color {
        When::Always => true,
        When::Never => false,
        When::Auto => is_capable() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    }
}

/// The terminal's width; 80 where there is none.
pub(crate) fn width() -> usize {
    terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0)).max(20)
}

/// Writes a line to stderr, quietly if nobody reads it.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(io::stderr(), "tapline: {text}");
}

/// A raw value of the agent's: as it is where stdout is no terminal, made visible where it is one.
pub(crate) fn raw(text: &str) -> std::borrow::Cow<'_, str> {
    if is_terminal() { tapline_session::text::visible(text) } else { text.into() }
}

/// A file that takes another's place only when all of it is written: a failure leaves what was there.
pub(crate) struct Replacement {
    path: PathBuf,
    part: PathBuf,
    file: BufWriter<File>,
    kept: bool,
}

impl Replacement {
    pub(crate) fn of(path: &Path) -> Result<Self> {
        let mut part = path.as_os_str().to_owned();
        part.push(format!(".{}.part", std::process::id()));
        let part = PathBuf::from(part);
        let file = File::create(&part).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path: path.to_owned(), part, file: BufWriter::new(file), kept: false })
    }

    pub(crate) fn keep(mut self) -> Result<()> {
        self.file.flush()?;
        std::fs::rename(&self.part, &self.path).with_context(|| format!("cannot write {}", self.path.display()))?;
        self.kept = true;
        Ok(())
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.kept {
            let _ = std::fs::remove_file(&self.part);
        }
    }
}
