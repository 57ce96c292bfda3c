//! What every agent's file here says of its agent, and what it makes of a run: arguments.

use std::ffi::OsString;

use crate::error::StartError;
use crate::schema::SchemaFile;
use crate::spec::Options;

/// What must be known of an agent to start it.
pub(crate) struct Harness {
    /// The environment variable that names its program.
    pub(crate) bin_variable: &'static str,
    /// The npm package that brings it.
    pub(crate) package: &'static str,
    /// Variables that it sets for what it starts: another agent would take itself for a part of the first.
    pub(crate) sets: &'static [&'static str],
    /// What a dialogue needs in its environment: variables to set, or without a value, to remove.
    pub(crate) dialogue: &'static [(&'static str, Option<&'static str>)],
    /// The variable that tells it, if it is `1`, to run no background tasks.
    pub(crate) no_background_tasks: Option<&'static str>,
    /// The flag that makes it tell when a hook begins and what it answered.
    pub(crate) tell_of_hooks: Option<&'static str>,
    /// What its program is to be started with, or why it cannot be.
    pub(crate) invocation: fn(&Wanted<'_>) -> Result<Invocation, StartError>,
}

/// What is wanted of an agent's command line.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) options: &'a Options,
    /// The caller's own messages are passed on to it.
    pub(crate) messages: bool,
    /// It is spoken to while it works, or somebody answers its questions.
    pub(crate) dialogue: bool,
    /// Permission rules hold for its calls.
    pub(crate) rules: bool,
    /// Its permission questions are answered.
    pub(crate) asks: bool,
    /// This program's MCP servers, as a configuration.
    pub(crate) servers: Option<String>,
}

/// What a program is started with.
#[derive(Debug, Default)]
pub(crate) struct Invocation {
    /// Its arguments.
    pub(crate) args: Vec<OsString>,
    /// The schema's file, which lives as long as the run.
    pub(crate) _schema: Option<SchemaFile>,
}

/// The flag of an argument: what stands before its value.
pub(super) fn flag_of(arg: &str) -> &str {
    arg.split('=').next().unwrap_or(arg)
}
