//! The mark by which a process is known to belong to a run: a random word in its environment, which everything it
//! starts inherits. A run within a run carries both marks.

use std::ffi::{OsStr, OsString};

use uuid::Uuid;

/// The variable that carries the marks.
pub const VARIABLE: &str = "TAPLINE_RUN";

/// A random word that no other run has.
pub(crate) fn random() -> String {
    Uuid::new_v4().simple().to_string()
}

/// The variable's value for a run with this mark, within whatever run this process belongs to itself.
pub(crate) fn value(mark: &str) -> OsString {
    let mut value = std::env::var_os(VARIABLE).unwrap_or_default();
    if !value.is_empty() {
        value.push(":");
    }
    value.push(mark);
    value
}

/// The marks in an environment as the system keeps it: `NAME=value` behind one another, each ended by a zero byte.
#[cfg(target_os = "linux")]
pub(crate) fn marks(environ: &[u8]) -> impl Iterator<Item = &[u8]> {
    let value =
        environ.split(|byte| *byte == 0).filter_map(|entry| entry.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"="));
    value.flat_map(|value| value.split(|byte| *byte == b':'))
}

/// Whether a variable is the one that carries the marks.
pub(crate) fn is_variable(name: &OsStr) -> bool {
    name == VARIABLE
}
