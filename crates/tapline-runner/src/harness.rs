//! How each agent is told things, one file an agent: its program, its environment, options to arguments. Nothing else in this
//! crate names one. To add an agent: its file, and its row in `of`.

mod claude;
mod codex;
mod invocation;

use std::ffi::OsStr;

use tapline_protocol::Agent as Kind;

use crate::error::StartError;
pub(crate) use invocation::{Harness, Invocation, Wanted};

/// What is known of an agent.
pub(crate) fn of(kind: Kind) -> &'static Harness {
    match kind {
        Kind::Claude => &claude::HARNESS,
        Kind::Codex => &codex::HARNESS,
    }
}

/// The environment variable that names an agent's program.
pub fn bin_variable(kind: Kind) -> &'static str {
    of(kind).bin_variable
}

/// The npm package that brings it.
pub fn package(kind: Kind) -> &'static str {
    of(kind).package
}

/// The environment variable that tells an agent, if it is `1`, to run no background tasks.
pub fn no_background_tasks(kind: Kind) -> Option<&'static str> {
    of(kind).no_background_tasks
}

/// Whether agents set this variable for what they start.
pub(crate) fn is_of_another(name: &OsStr) -> bool {
    Kind::ALL.iter().any(|kind| of(*kind).sets.iter().any(|set| name == *set))
}

/// What the program is to be started with, or why it cannot be.
pub(crate) fn invocation(kind: Kind, wanted: &Wanted<'_>) -> Result<Invocation, StartError> {
    if let Some(id) = wanted.options.resume.as_ref().filter(|id| id.is_empty() || id.starts_with('-')) {
        return Err(StartError::Refused(format!("--resume: `{id}` is not a session id")));
    }
    (of(kind).invocation)(wanted)
}
