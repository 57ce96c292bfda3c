//! How each agent is started, one file per agent: its program, its environment, and its arguments. Nothing else in this
//! crate names an agent. To add one: its file, and its row in `of`.

mod claude;
mod codex;
mod invocation;

use std::ffi::OsStr;

use tapline_protocol::Agent as Kind;

use crate::error::StartError;
use crate::refusal::{Refusal, RunOption};
pub(crate) use invocation::{Harness, Invocation, Wanted};

/// Returns what is known about an agent.
pub(crate) fn of(kind: Kind) -> &'static Harness {
    match kind {
        Kind::Claude => &claude::HARNESS,
        Kind::Codex => &codex::HARNESS,
    }
}

/// Returns the environment variable that names an agent's program.
pub fn bin_variable(kind: Kind) -> &'static str {
    of(kind).bin_variable
}

/// Returns the agent's npm package.
pub fn package(kind: Kind) -> &'static str {
    of(kind).package
}

/// Returns the environment variable that, set to `1`, tells an agent to run no background tasks.
pub fn no_background_tasks(kind: Kind) -> Option<&'static str> {
    of(kind).no_background_tasks
}

/// Returns whether agents set this variable for the processes that they start.
pub(crate) fn is_of_another(name: &OsStr) -> bool {
    Kind::ALL.iter().any(|kind| of(*kind).sets.iter().any(|set| name == *set))
}

/// Returns how to start the program, or why it cannot be started.
pub(crate) fn invocation(kind: Kind, wanted: &Wanted<'_>) -> Result<Invocation, StartError> {
    if let Some(id) = wanted.options.resume.as_ref().filter(|id| id.is_empty() || id.starts_with('-')) {
        return Err(Refusal::new(RunOption::Resume, format!("`{id}` is not a session id")).into());
    }
    (of(kind).invocation)(wanted)
}
