//! Where output goes: to stdout or a file, buffered, and how it may look there.

mod file;

use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use tapline_recording::recording_name;
use tapline_session::text::visible;

use crate::ci::{self, Filtered, Kind};
pub(crate) use file::OutputFile;

/// stdout, buffered. Flush it before you wait for input.
pub(crate) type Stdout = BufWriter<Filtered<io::StdoutLock<'static>>>;

/// Returns stdout for text.
pub(crate) fn stdout() -> Stdout {
    stdout_for(Kind::Text)
}

/// Writes JSON of ours to stdout, on a line of its own. Whatever it tells of others, it is the same JSON on a terminal, in a pipe and in a CI log.
pub(crate) fn json(json: &str) -> io::Result<()> {
    let mut out = stdout_for(Kind::Json);
    writeln!(out, "{}", escaped(json))?;
    out.flush()
}

/// Returns the same JSON with escapes for what would have to be made visible: such a character can only stand in a string.
pub(crate) fn escaped(json: &str) -> Cow<'_, str> {
    let steers = |c: char| c >= '\u{7f}' && matches!(visible(c.encode_utf8(&mut [0; 4])), Cow::Owned(_));
    if matches!(visible(json), Cow::Borrowed(_)) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if steers(c) {
            out.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Returns stdout for text, or for JSON, which stays the same JSON in a CI log.
pub(crate) fn stdout_for(kind: Kind) -> Stdout {
    BufWriter::with_capacity(64 << 10, Filtered::new(io::stdout().lock(), kind))
}

/// Returns whether stdout is a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Returns whether lines on stdout can be drawn over and coloured.
pub(crate) fn is_capable() -> bool {
    is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Returns the terminal's columns and rows: 80 by 24 if there is none.
pub(crate) fn size() -> (usize, usize) {
    terminal_size::terminal_size().map_or((80, 24), |(width, height)| (usize::from(width.0), usize::from(height.0)))
}

/// Writes a line to stderr, and ignores a missing reader. File names, arguments and policies may contain anything.
pub(crate) fn tell(text: &str) {
    tell_of("tapline", text);
}

/// Writes a line to stderr that somebody else says.
pub(crate) fn tell_of(who: &str, text: &str) {
    say(&format!("{who}: {text}"));
}

/// Reports an error. In a CI log, it is an annotation, too.
pub(crate) fn fail(text: &str) {
    tell(text);
    ci::annotate(text);
}

/// Reports bad usage, in the words of the command-line parser.
pub(crate) fn refuse(text: &str, why: &str) {
    say(text.trim_end());
    ci::annotate(why);
}

fn say(text: &str) {
    let mut stderr = Filtered::new(io::stderr(), Kind::Text);
    let _ = stderr.write_all(format!("{}\n", visible(&ci::in_public(text))).as_bytes());
}

/// Makes a folder for temporary files that only the user can read.
pub(crate) fn private_folder() -> Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("tapline-{}", recording_name()));
    let made = std::fs::DirBuilder::new().mode(0o700).create(&folder);
    made.with_context(|| format!("cannot create {}: set TMPDIR to a folder that can be written", folder.display()))?;
    Ok(folder)
}

/// Quotes a word for a shell.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Returns stdout for what is passed on: unchanged, or on a terminal with control characters made visible.
pub(crate) fn raw_stdout(kind: Kind) -> Box<dyn Write> {
    let out = stdout_for(kind);
    if is_terminal() { Box::new(Visible::new(out)) } else { Box::new(out) }
}

/// The same, for a writer of another thread. It takes the lock of stdout for each piece.
pub(crate) fn shared_stdout(kind: Kind) -> Box<dyn Write + Send> {
    let out = BufWriter::with_capacity(64 << 10, Filtered::new(io::stdout(), kind));
    if is_terminal() { Box::new(Visible::new(out)) } else { Box::new(out) }
}

/// Makes control characters visible in what is written. A character may arrive in pieces.
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

/// Returns bytes of the agent: unchanged, or on a terminal with control characters made visible.
pub(crate) fn raw_bytes(bytes: &[u8]) -> Cow<'_, [u8]> {
    if is_terminal() { visible(&String::from_utf8_lossy(bytes)).into_owned().into_bytes().into() } else { bytes.into() }
}

/// Returns a raw value of the agent: unchanged, or on a terminal with control characters made visible.
pub(crate) fn raw(text: &str) -> Cow<'_, str> {
    if is_terminal() { visible(text) } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_about_others_is_the_same_json_and_steers_nothing() {
        let name = "e\u{1b}[2Jvil\u{9b}2J\u{7f}\u{202e}\u{e0041}é\u{200d}中\r";
        let json = serde_json::json!({ "name": name }).to_string() + "\r\n";
        let told = escaped(&json);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&told).unwrap()["name"], name);
        assert!(matches!(visible(told.trim_end()), Cow::Borrowed(_)), "{told:?}");
        assert!(told.contains("\\u009b2J\\u007f\\u202e\\udb40\\udc41é\u{200d}中"), "{told}");
        assert!(matches!(escaped("{\"a\":\"é\"}"), Cow::Borrowed(_)));
    }
}
