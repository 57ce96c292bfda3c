//! What every agent's file provides, and what it makes of a run: arguments.

use std::ffi::OsString;

use crate::error::StartError;
use crate::schema::SchemaFile;
use crate::spec::Options;

/// What must be known about an agent to start it.
pub(crate) struct Harness {
    /// The environment variable that names its program.
    pub(crate) bin_variable: &'static str,
    /// The npm package.
    pub(crate) package: &'static str,
    /// Variables that it sets for the processes that it starts. With them, another agent would take itself for a part
    /// of the first.
    pub(crate) sets: &'static [&'static str],
    /// Variables that a dialogue needs: to set, or without a value, to remove.
    pub(crate) dialogue: &'static [(&'static str, Option<&'static str>)],
    /// The variable that, set to `1`, tells it to run no background tasks.
    pub(crate) no_background_tasks: Option<&'static str>,
    /// The variable with the milliseconds that it waits for its background tasks by itself, before it writes its result; 0 is for ever.
    pub(crate) waits_for_tasks: Option<&'static str>,
    /// The flag that makes it report when a hook begins and what it answered.
    pub(crate) tell_of_hooks: Option<&'static str>,
    /// Removes the arguments that name a session, because a resumed run has its own.
    pub(crate) without_session: fn(&[OsString]) -> Vec<OsString>,
    /// Returns how to start its program, or why it cannot be started.
    pub(crate) invocation: fn(&Wanted<'_>) -> Result<Invocation, StartError>,
}

/// The requirements for an agent's command line.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) options: &'a Options,
    /// Whether the caller's own messages are passed on.
    pub(crate) messages: bool,
    /// Whether messages are sent while it works, or its requests are answered.
    pub(crate) dialogue: bool,
    /// Whether permission rules apply to its calls.
    pub(crate) rules: bool,
    /// Whether its permission requests are answered.
    pub(crate) asks: bool,
    /// This program's MCP servers, as a configuration.
    pub(crate) servers: Option<String>,
}

/// How a program is started.
#[derive(Debug, Default)]
pub(crate) struct Invocation {
    /// The arguments.
    pub(crate) args: Vec<OsString>,
    /// The file of the schema, which exists as long as the run.
    pub(crate) _schema: Option<SchemaFile>,
}

/// Returns the flag of an argument: the part before its value.
pub(super) fn flag_of(arg: &str) -> &str {
    arg.split('=').next().unwrap_or(arg)
}
