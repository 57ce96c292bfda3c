//! The mark that connects a process to a run: a random word in its environment, which everything it starts inherits. A
//! run within a run has both marks.

use std::ffi::{OsStr, OsString};

use uuid::Uuid;

/// The variable with the marks.
pub const VARIABLE: &str = "TAPLINE_RUN";

/// Returns a random word that no other run has.
pub(crate) fn random() -> String {
    Uuid::new_v4().simple().to_string()
}

/// Returns the variable's value for a run with this mark, including the runs that this process itself is part of.
pub(crate) fn value(mark: &str) -> OsString {
    let mut value = std::env::var_os(VARIABLE).unwrap_or_default();
    if !value.is_empty() {
        value.push(":");
    }
    value.push(mark);
    value
}

/// Returns the marks in an environment in the format of the system: `NAME=value` entries, each ended by a zero byte.
#[cfg(target_os = "linux")]
pub(crate) fn marks(environ: &[u8]) -> impl Iterator<Item = &[u8]> {
    let value =
        environ.split(|byte| *byte == 0).filter_map(|entry| entry.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"="));
    value.flat_map(|value| value.split(|byte| *byte == b':'))
}

/// Returns whether this is the variable with the marks.
pub(crate) fn is_variable(name: &OsStr) -> bool {
    name == VARIABLE
}
