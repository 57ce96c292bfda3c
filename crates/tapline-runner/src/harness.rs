//! How each agent is told things: options to arguments. To add an agent: one file here.

mod claude;
mod codex;

pub(crate) use claude::{TELL_OF_HOOKS, tells_of_hooks};

use std::ffi::OsString;

use tapline_protocol::Agent as Kind;

use crate::agent::{Agent, Input};
use crate::error::StartError;
use crate::schema::SchemaFile;

/// What a program is started with.
#[derive(Debug, Default)]
pub(crate) struct Invocation {
    /// Its arguments.
    pub(crate) args: Vec<OsString>,
    /// The schema's file, which lives as long as the run.
    pub(crate) _schema: Option<SchemaFile>,
}

/// The variable that names its program.
pub fn bin_variable(kind: Kind) -> &'static str {
    match kind {
        Kind::Claude => "TAPLINE_CLAUDE_BIN",
        Kind::Codex => "TAPLINE_CODEX_BIN",
    }
}

/// The npm package that brings it.
pub fn package(kind: Kind) -> &'static str {
    match kind {
        Kind::Claude => "@anthropic-ai/claude-code",
        Kind::Codex => "@openai/codex",
    }
}

/// What the program is to be started with, or why it cannot be.
pub(crate) fn invocation(agent: &Agent) -> Result<Invocation, StartError> {
    if let Some(id) = agent.options.resume.as_ref().filter(|id| id.is_empty() || id.starts_with('-')) {
        return Err(StartError::Refused(format!("--resume: `{id}` is not a session id")));
    }
    let messages = matches!(agent.input, Input::Messages { .. });
    match agent.kind {
        Kind::Claude => {
            let mut invocation = claude::invocation(&agent.options, messages || agent.is_dialogue())?;
            claude::answering(&agent.answers, &agent.options, &mut invocation)?;
            Ok(invocation)
        }
        Kind::Codex if agent.answers.permissions.is_some() => {
            let why = "--permissions: codex asks nobody before it runs a command, so rules cannot hold it; its sandbox decides: \
                       -- -s read-only or -- -s workspace-write (tapline check --permissions shows afterwards what rules \
                       would have decided)";
            Err(StartError::Refused(why.to_owned()))
        }
        Kind::Codex if agent.is_dialogue() => {
            let why = "codex exec takes one prompt and asks nothing: it has no messages, permission questions, hooks, tools of yours or \
                       control requests (a chat, or a Conversation in Rust, starts one run per turn); use claude";
            Err(StartError::Refused(why.to_owned()))
        }
        Kind::Codex => codex::invocation(&agent.options, messages),
    }
}

/// Refuses the first of these that was given.
fn refuse(agent: &str, flags: &[(&str, bool, &str)]) -> Result<(), StartError> {
    match flags.iter().find(|(_, given, _)| *given) {
        Some((flag, _, instead)) => Err(StartError::Refused(format!("{flag}: {agent} has no such option; {instead}"))),
        None => Ok(()),
    }
}

/// The flag of an argument: what stands before its value.
fn flag_of(arg: &str) -> &str {
    arg.split('=').next().unwrap_or(arg)
}
