//! Which warnings make a success count as a failure: `--fail-on` and `--require-clean`, wherever they stand.

use std::fmt;

use super::{UNCLEAN_CODES, Verdict, WARNING_CODES, Warning};
use crate::text::{nearest, one_line};

/// Why a success counts as a failure.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Warned<'v> {
    /// The first warning that makes it one.
    pub first: &'v Warning,
    /// How many others there are.
    pub more: usize,
    /// The flag that wants it so.
    pub flag: &'static str,
}

impl<'v> Warned<'v> {
    /// Looks for one of these warnings, or with `require_clean` for one that makes a success not clean.
    pub fn of(verdict: &'v Verdict, fail_on: &[&str], require_clean: bool) -> Option<Self> {
        let unclean = if require_clean { UNCLEAN_CODES } else { &[] };
        let listed = |warning: &&Warning| fail_on.iter().chain(unclean).any(|code| *code == warning.code);
        let mut found = verdict.warnings.iter().filter(listed);
        let first = found.next()?;
        let flag = if fail_on.contains(&&*first.code) { "--fail-on" } else { "--require-clean" };
        Some(Self { first, more: found.count(), flag })
    }
}

impl fmt::Display for Warned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, more, flag } = self;
        let more = if *more > 0 { format!(", and {more} more") } else { String::new() };
        write!(f, "{}: {}{more} ({flag})", first.code, one_line(&first.message))
    }
}

/// A code that no warning has. It says which codes there are, and which was probably meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWarning(String);

impl fmt::Display for UnknownWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnknownWarning {}

/// Returns the code of a warning that a person names; `denied` is short for `permission-denied`.
pub fn warning_code(text: &str) -> Result<&'static str, UnknownWarning> {
    let text = if text == "denied" { "permission-denied" } else { text };
    let codes = WARNING_CODES.iter().copied();
    codes.clone().find(|code| *code == text).ok_or_else(|| {
        let begun = || codes.clone().find(|code| !text.is_empty() && code.starts_with(text));
        let meant = nearest(text, codes.clone().chain(["denied"])).or_else(begun);
        let meant = meant.map(|meant| format!("did you mean `{meant}`? ")).unwrap_or_default();
        UnknownWarning(format!("{meant}The codes are denied (short for permission-denied), {}", WARNING_CODES.join(", ")))
    })
}
