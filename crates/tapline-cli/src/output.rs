//! Where output goes: stdout or a file, buffered, and how it may look there.

mod file;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};

use tapline_session::text::{json_without_commands, visible, without_commands};

use crate::args::{Look, When};
pub(crate) use file::OutputFile;

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

/// The terminal's columns and rows; 80 by 24 where there is none.
pub(crate) fn size() -> (usize, usize) {
    terminal_size::terminal_size().map_or((80, 24), |(width, height)| (usize::from(width.0), usize::from(height.0)))
}

/// Writes a line to stderr, quietly if nobody reads it. File names and policies may hold anything.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(io::stderr(), "tapline: {}", visible(text));
}

/// Text of ours with the agent's in it, for people: in a CI log no line of it may be a command.
pub(crate) fn human(text: String) -> String {
    if is_ci_log() { without_commands(&text) } else { text }
}

/// A word as a shell reads it.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Whether stdout is the log of a CI run that reads commands from it.
pub(crate) fn is_ci_log() -> bool {
    std::env::var_os("GITHUB_ACTIONS").is_some()
}

/// JSON for a program to read. Where it may end in a CI log it is written so that nothing in it is a command there.
pub(crate) fn json(text: &str) -> std::borrow::Cow<'_, str> {
    if is_ci_log() && !is_file() { json_without_commands(text) } else { text.into() }
}

/// Whether stdout goes to a file: whatever stands there, no log is.
fn is_file() -> bool {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd as _;
        let clone = io::stdout().as_fd().try_clone_to_owned().map(File::from);
        clone.and_then(|file| file.metadata()).is_ok_and(|meta| meta.is_file())
    }
    #[cfg(not(unix))]
    false
}

/// stdout for what is passed on as it came: unchanged where it is no terminal, made visible where it is one.
pub(crate) fn raw_stdout() -> Box<dyn Write> {
    if is_terminal() { Box::new(Visible::new(stdout())) } else { Box::new(stdout()) }
}

/// Makes visible what is written. A character may come in pieces.
pub(crate) struct Visible<W> {
    to: W,
    piece: Vec<u8>,
}

impl<W> Visible<W> {
    pub(crate) fn new(to: W) -> Self {
        Self { to, piece: Vec::new() }
    }
}

impl<W: Write> Write for Visible<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.piece) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.piece.len(),
        };
        let rest = self.piece.split_off(whole);
        let text = String::from_utf8_lossy(&self.piece);
        self.to.write_all(visible(&text).as_bytes())?;
        self.piece = rest;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Bytes of the agent's: as they are where stdout is no terminal, made visible where it is one.
pub(crate) fn raw_bytes(bytes: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    if is_terminal() { visible(&String::from_utf8_lossy(bytes)).into_owned().into_bytes().into() } else { bytes.into() }
}

/// A raw value of the agent's: as it is where stdout is no terminal, made visible where it is one.
pub(crate) fn raw(text: &str) -> std::borrow::Cow<'_, str> {
    if is_terminal() { visible(text) } else { text.into() }
}
