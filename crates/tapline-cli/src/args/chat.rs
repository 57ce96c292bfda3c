//! The command line of `tapline chat`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Look;
use super::run::{AgentOptions, Kept, Pushed, Whose};

/// Talk with an agent, and answer its questions with a key
///
/// At a terminal, you type the prompts. With --script, or if stdin is a pipe, every line is a prompt in one conversation.
#[derive(Debug, Args)]
#[command(after_long_help = KEYS)]
pub(crate) struct Chat {
    /// The first prompt
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// Read prompts from this file, one per line (a line that ends with `\` continues on the next line); `-` reads stdin
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    pub(crate) script: Option<PathBuf>,
    /// With a script: continue after a failed turn
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Exit with 1 if a successful chat has one of these warnings, separated by commas: denied, max-tokens, … (`tapline help report`
    /// lists them)
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = tapline_session::warning_code)]
    pub(crate) fail_on: Vec<&'static str>,
    /// With a script: what to print
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<ScriptFormat>,
    #[command(flatten)]
    pub(crate) whose: Whose,
    /// Show what the agent thinks
    #[arg(long)]
    pub(crate) thinking: bool,
    /// Do not read or write the history of prompts
    #[arg(long)]
    pub(crate) no_history: bool,
    /// Replace secrets (keys, tokens, passwords) in the output and in the recording (`tapline help redact`)
    ///
    /// Permission questions, and the history of your prompts, are not changed.
    #[arg(long)]
    pub(crate) redact: bool,
    #[command(flatten)]
    pub(crate) look: Look,
    #[command(flatten)]
    pub(crate) told: AgentOptions,
    #[command(flatten)]
    pub(crate) kept: Kept,
    #[command(flatten)]
    pub(crate) pushed: Pushed,
    /// Arguments for the agent itself, after `--`
    #[arg(last = true, value_name = "AGENT ARGS")]
    pub(crate) extra: Vec<OsString>,
}

/// What a script prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScriptFormat {
    /// The steps, as `tapline view` shows them
    View,
    /// Only the answers, with an empty line between them
    Text,
    /// The agent's own lines, unchanged, as they arrive
    StreamJson,
}

const KEYS: &str = "\
Keys: Enter sends the prompt (while the agent works, the agent reads it as soon as it can).
Alt-Enter or Ctrl-J starts a new line. Up and Down go through earlier prompts. Ctrl-C interrupts
the turn; a second Ctrl-C ends the chat. Ctrl-D at an empty prompt ends the chat.
Permission questions: y once, a always (in this chat), n no, w no and say why.
Commands: /help /model /mode /cost /context /quit. All others go to the agent.

Examples:
  tapline chat
  tapline chat --resume SESSION --permissions rules.toml
  tapline chat --push http://127.0.0.1:7770       (answer questions here or on the page of tapline serve)
  printf 'What is in src?\\nWhich file is the longest?\\n' | tapline chat --format text
  tapline chat --script steps.txt --permission-mode acceptEdits";
