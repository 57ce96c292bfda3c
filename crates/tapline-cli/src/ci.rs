//! The log of GitHub Actions, which runs commands (`::error::…`, `##[group]…`) in anything that a program prints. One
//! filter covers everything that tapline prints, in every command. tapline's own commands are here, too: groups and
//! annotations.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tapline_recording::Redactor;
use tapline_session::text::one_line;

use crate::config;

/// Returns whether this is a job of GitHub Actions.
pub(crate) fn is_job() -> bool {
    is_set("GITHUB_ACTIONS")
}

/// Returns whether this is the log of any CI system.
pub(crate) fn is_log() -> bool {
    is_set("CI") || is_job()
}

/// Removes secrets from text for the log of a CI system, which many people can read. Errors in the configuration are
/// reported elsewhere.
pub(crate) fn in_public(text: &str) -> Cow<'_, str> {
    if is_log() { redactor().text(text) } else { Cow::Borrowed(text) }
}

/// What takes secrets out of such a log.
pub(crate) fn redactor() -> &'static Redactor {
    static REDACTOR: OnceLock<Redactor> = OnceLock::new();
    REDACTOR.get_or_init(|| config::redactor().unwrap_or_default().0)
}

/// Returns whether a variable is set and not empty, `0` or `false`.
fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !matches!(value.to_str(), Some("" | "0" | "false")))
}

/// Returns whether a stream goes to a file, which is not a log.
fn is_file(stream: BorrowedFd<'_>) -> bool {
    stream.try_clone_to_owned().and_then(|own| File::from(own).metadata()).is_ok_and(|meta| meta.is_file())
}

/// The kind of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// For people: a space breaks up a command.
    Text,
    /// JSON stays the same JSON: an escape breaks up a command.
    Json,
}

/// Breaks up commands in what is written to one stream, however it is cut into pieces. If nothing reads commands, as in
/// a regular file, everything passes unchanged; a pipe may be the log.
///
/// The runner ends a line at LF or CR. A command is `::` at the start of a line, after any whitespace, or `##[`
/// anywhere.
#[derive(Debug)]
pub(crate) struct Filter {
    in_job: bool,
    to_file: bool,
    stream: usize,
    place: Place,
    /// The start of a multi-byte character, if the line has only whitespace so far.
    part: Vec<u8>,
    /// How many `#` came last.
    hashes: u8,
    /// Whether nothing was written, or a newline was written last.
    at_start: bool,
}

/// What was written of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Only whitespace.
    Start,
    /// Then a colon.
    Colon,
    /// Something that no command starts with.
    Inside,
}

/// The number of filters so far, and the one that was used last.
static FILTERS: AtomicUsize = AtomicUsize::new(1);
static LAST: AtomicUsize = AtomicUsize::new(0);

impl Filter {
    pub(crate) fn of(stream: BorrowedFd<'_>) -> Self {
        Self::new(is_job(), is_file(stream))
    }

    fn new(in_job: bool, to_file: bool) -> Self {
        let stream = FILTERS.fetch_add(1, Ordering::Relaxed);
        Self { in_job, to_file, stream, place: Place::Start, part: Vec::new(), hashes: 0, at_start: true }
    }

    /// Returns what to write for these bytes.
    pub(crate) fn pass<'b>(&mut self, bytes: &'b [u8], kind: Kind) -> Cow<'b, [u8]> {
        if let Some(last) = bytes.last() {
            self.at_start = *last == b'\n';
        }
        if !self.in_job || self.to_file || bytes.is_empty() {
            return bytes.into();
        }
        // If stdout and stderr are the same, the other stream may have ended the line.
        if LAST.swap(self.stream, Ordering::Relaxed) != self.stream && self.place == Place::Inside {
            self.place = Place::Start;
        }
        let (mut out, mut done) = (Vec::new(), 0);
        for (at, &byte) in bytes.iter().enumerate() {
            if let Some(instead) = self.step(byte, kind) {
                out.extend_from_slice(&bytes[done..at]);
                out.extend_from_slice(instead);
                done = at + 1;
            }
        }
        if done == 0 {
            return bytes.into();
        }
        out.extend_from_slice(&bytes[done..]);
        out.into()
    }

    /// Returns what to write instead of this byte.
    fn step(&mut self, byte: u8, kind: Kind) -> Option<&'static [u8]> {
        let opens = byte == b'[' && self.hashes >= 2;
        self.hashes = if byte == b'#' { self.hashes.saturating_add(1) } else { 0 };
        let twice = byte == b':' && self.place == Place::Colon;
        self.place = match (self.place, byte) {
            (_, b'\n' | b'\r') => {
                self.part.clear();
                Place::Start
            }
            (Place::Start, b' ' | b'\t' | 0x0b | 0x0c) => Place::Start,
            (Place::Start, b':') if self.part.is_empty() => Place::Colon,
            (Place::Start, 0x80..) => self.start(byte),
            (Place::Start | Place::Colon | Place::Inside, _) => Place::Inside,
        };
        match (opens, twice, kind) {
            (true, _, Kind::Json) => Some(b"\\u005b"),
            (true, _, Kind::Text) => Some(b" ["),
            // No line of JSON starts like that, so this one is not JSON.
            (_, true, _) => Some(b" :"),
            _ => None,
        }
    }

    /// Takes a byte of a character that may be whitespace. A reader ignores a byte order mark at the start of a stream.
    fn start(&mut self, byte: u8) -> Place {
        self.part.push(byte);
        let blank = match std::str::from_utf8(&self.part) {
            Ok(text) => text.chars().all(|c| c.is_whitespace() || c == '\u{feff}'),
            Err(error) if error.error_len().is_none() => return Place::Start,
            Err(_) => false,
        };
        self.part.clear();
        if blank { Place::Start } else { Place::Inside }
    }
}

/// A writer with a filter.
pub(crate) struct Filtered<W> {
    to: W,
    filter: Filter,
    kind: Kind,
}

impl<W: AsFd> Filtered<W> {
    pub(crate) fn new(to: W, kind: Kind) -> Self {
        let filter = Filter::of(to.as_fd());
        Self { to, filter, kind }
    }
}

impl<W: Write> Write for Filtered<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write_all(&self.filter.pass(bytes, self.kind))?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Returns a command of our own, on a line of its own.
fn command(filter: &Filter, name: &str, properties: &str, data: &str) -> Option<String> {
    let gap = if filter.at_start { "" } else { "\n" };
    filter.in_job.then(|| format!("{gap}::{name}{properties}::{}\n", escaped(data)))
}

/// Escapes text in a command: one line, without a command of the older kind.
fn escaped(text: &str) -> String {
    one_line(text).replace("##[", "## [").replace('%', "%25")
}

/// How bad it is what an annotation says.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Level {
    Error,
    Warning,
}

/// Returns what is shown beside the job, not only in its log.
pub(crate) fn annotation(filter: &Filter, level: Level, title: &str, text: &str) -> String {
    let title = escaped(title).replace(':', "%3A").replace(',', "%2C");
    let name = match level {
        Level::Error => "error",
        Level::Warning => "warning",
    };
    command(filter, name, &format!(" title={title}"), text).unwrap_or_default()
}

/// Writes an annotation, from wherever an error is reported.
pub(crate) fn annotate(text: &str) {
    annotate_as(Level::Error, text);
}

/// Writes an annotation of this level.
pub(crate) fn annotate_as(level: Level, text: &str) {
    let mut stderr = io::stderr();
    let line = annotation(&Filter::of(stderr.as_fd()), level, "tapline", &in_public(text));
    let _ = stderr.write_all(line.as_bytes());
}

/// Whether a group is open.
static GROUP: AtomicBool = AtomicBool::new(false);

/// Starts a group with this name. What is printed from here on can be folded.
pub(crate) fn group(filter: &Filter, name: &str) -> String {
    let line = command(filter, "group", "", name).unwrap_or_default();
    GROUP.store(!line.is_empty(), Ordering::Release);
    line
}

/// Returns what closes the group, if one is open.
pub(crate) fn end_group(filter: &Filter) -> String {
    if !GROUP.swap(false, Ordering::AcqRel) {
        return String::new();
    }
    command(filter, "endgroup", "", "").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether the runner would run this line: see `ActionCommand` in github.com/actions/runner.
    fn is_command(line: &str) -> bool {
        line.trim_start().trim_start_matches('\u{feff}').trim_start().starts_with("::") || line.contains("##[")
    }

    fn pass(text: &str, kind: Kind, piece: usize) -> String {
        let mut filter = Filter::new(true, false);
        let mut out = Vec::new();
        for piece in text.as_bytes().chunks(piece) {
            // No other filter writes in between.
            LAST.store(filter.stream, Ordering::Relaxed);
            out.extend_from_slice(&filter.pass(piece, kind));
        }
        String::from_utf8(out).unwrap_or_default()
    }

    #[test]
    fn no_command_passes_in_whatever_pieces() {
        let hostile = [
            "::error::x",
            "a\n::error::x",
            "a\r::error::x\r\n::set-env name=A::b",
            "  \t ::error::x",
            "\u{a0}\u{3000}\u{2028}\u{85}::error::x",
            "\u{feff}::error::x",
            "\u{feff} ::stop-commands::x",
            "text ##[group]x ###[error]y",
            ":::error::x",
            "é::not a command\n\u{a0}é::nor this",
        ];
        for text in hostile {
            let whole = pass(text, Kind::Text, text.len());
            assert!(whole.split(['\n', '\r']).all(|line| !is_command(line)), "{text:?} → {whole:?}");
            let without = |text: &str| text.replace(' ', "");
            assert_eq!(without(&whole), without(text), "only blanks are put in");
            for piece in 1..6 {
                assert_eq!(pass(text, Kind::Text, piece), whole, "{text:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn what_is_no_command_stays_as_it_is() {
        for text in ["std::io::Result\n", "a ::b\n", ": :x", "#[test]\n# [x]", "é ::x", "::"] {
            let expected = if text == "::" { ": :" } else { text };
            assert_eq!(pass(text, Kind::Text, 1), expected);
        }
        let mut off = Filter::new(false, false);
        assert_eq!(off.pass(b"::error::x ##[y]", Kind::Text).as_ref(), b"::error::x ##[y]");
        let mut file = Filter::new(true, true);
        for kind in [Kind::Json, Kind::Text] {
            assert_eq!(file.pass(b"::error::x ##[y]\n", kind).as_ref(), b"::error::x ##[y]\n", "{kind:?} in a file");
        }
    }

    #[test]
    fn json_stays_the_same_json() {
        let line = "{\"text\":\"::error::x ##[group]y ##[\"}\n";
        assert_eq!(pass("::error::no JSON\n", Kind::Json, 3), ": :error::no JSON\n");
        let passed = pass(line, Kind::Json, 3);
        assert!(passed.split('\n').all(|line| !is_command(line)), "{passed}");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap_or_default();
        assert_eq!(read(&passed), read(line));
    }

    #[test]
    fn a_line_that_another_stream_ended_is_ended() {
        let (mut out, mut err) = (Filter::new(true, false), Filter::new(true, false));
        assert_eq!(out.pass(b"half a line", Kind::Text).as_ref(), b"half a line");
        assert_eq!(err.pass(b"a line\n", Kind::Text).as_ref(), b"a line\n");
        assert_eq!(out.pass(b"::error::x\n", Kind::Text).as_ref(), b": :error::x\n");
    }

    #[test]
    fn our_own_commands_stand_on_lines_of_their_own() {
        let mut filter = Filter::new(true, false);
        assert_eq!(annotation(&filter, Level::Error, "a: b, c", "50%\nof it"), "::error title=a%3A b%2C c::50%25 of it\n");
        filter.pass(b"half a line", Kind::Text);
        assert!(annotation(&filter, Level::Warning, "t", "x").starts_with("\n::warning "));
        assert_eq!(annotation(&Filter::new(false, false), Level::Error, "t", "x"), "", "nobody reads it");
    }
}
