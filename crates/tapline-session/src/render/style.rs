//! Colours as a value.

/// The escape sequences that colour text. All are empty in the plain style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is what its name says")]
pub struct Style {
    pub bold: &'static str,
    pub dim: &'static str,
    pub italic: &'static str,
    pub red: &'static str,
    pub green: &'static str,
    pub yellow: &'static str,
    pub cyan: &'static str,
    pub reset: &'static str,
}

impl Style {
    /// Returns the style for terminals: the sixteen colours that every theme defines.
    pub const fn ansi() -> Self {
        Self {
            bold: "\x1b[1m",
            dim: "\x1b[2m",
            italic: "\x1b[3m",
            red: "\x1b[31m",
            green: "\x1b[32m",
            yellow: "\x1b[33m",
            cyan: "\x1b[36m",
            reset: "\x1b[0m",
        }
    }

    /// Returns the style for everything else.
    pub const fn plain() -> Self {
        Self { bold: "", dim: "", italic: "", red: "", green: "", yellow: "", cyan: "", reset: "" }
    }
}
