//! Where output goes: stdout or a file, buffered, and how it may look there.

use std::io::{self, BufWriter, IsTerminal, Write};

use crate::args::{Look, When};

/// stdout, buffered. Who may have to wait for input flushes first.
pub(crate) fn stdout() -> BufWriter<io::StdoutLock<'static>> {
    BufWriter::with_capacity(64 << 10, io::stdout().lock())
}

/// Whether stdout is a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether to colour.
pub(crate) fn colour(look: Look) -> bool {
    match look.color {
        When::Always => true,
        When::Never => false,
        When::Auto => is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
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
