//! `tapline chat`: a conversation with an agent, at a terminal or from a script.

mod choices;
mod clean;
mod editor;
mod file;
mod history;
mod interactive;
pub(super) mod keys;
mod questions;
mod screen;
mod script;
mod slash;
mod spent;
mod talk;
pub(super) mod terminal;

use std::io::IsTerminal as _;

use anyhow::{Context as _, Result, ensure};
use tapline_runner::{Agent, Failure, StartError, bin_variable, package};

use tapline_session::Report;
use tapline_session::text::one_line;

use crate::agents::habits;
use crate::args::chat::Chat;
use crate::commands::check::read_permissions;
use crate::commands::guard_program;
use crate::commands::run::prepare;
use crate::{ci, config, errors, exit, output, secrets, store};

pub(crate) fn run(args: &Chat) -> Result<u8> {
    let typed = args.script.is_none() && std::io::stdin().is_terminal();
    ensure!(!typed || output::is_capable(), "chat needs a terminal for its output; for a pipe, use --script FILE");
    ensure!(!typed || args.format.is_none(), "--format needs a script (--script FILE, or a pipe on stdin)");
    let agent = agent(args, typed)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start a thread")?;
    let code = if typed {
        runtime.block_on(Box::pin(interactive::run(args, agent)))
    } else {
        runtime.block_on(Box::pin(script::run(args, agent)))
    };
    // A pending read of the terminal must not delay the exit.
    runtime.shutdown_background();
    code
}

/// Returns the agent for the chat.
fn agent(args: &Chat, typed: bool) -> Result<Agent> {
    let kind = args.whose.agent;
    let mut agent = Agent::new(kind);
    let partial = args.told.partial || typed && habits(kind).writes_partial;
    prepare::doubt_mode(&args.told, kind);
    agent.options = prepare::options(&args.told, &args.extra, partial)?;
    agent.answers.permissions = args.told.permissions.as_deref().map(read_permissions).transpose()?;
    agent.environment = prepare::environment(&args.told);
    agent.bin.clone_from(&args.whose.bin);
    agent.cwd.clone_from(&args.whose.cwd);
    agent.record = store::folder(&args.kept)?.map(|folder| store::record_to(&args.kept, folder, args.redact));
    agent.redactor = if args.redact || ci::is_log() { secrets::redactor()? } else { config::redactor()?.0 };
    agent.guard = guard_program();
    Ok(agent)
}

/// Returns whether the chat continues a session that already has costs.
fn is_resumed(args: &Chat) -> bool {
    args.told.resume.is_some() || args.told.continue_last
}

/// Says how to continue later.
fn go_on(kind: tapline_protocol::Agent, id: &str) -> String {
    let agent = if kind == tapline_protocol::Agent::default() { String::new() } else { format!(" --agent {}", kind.name()) };
    format!("continue with: tapline chat{agent} --resume {}", one_line(id))
}

/// Returns the exit code of a chat. A success with a warning that `--fail-on` names counts as a failure.
fn fail_on(args: &Chat, report: &Report, code: u8, denials_told: bool) -> u8 {
    match exit::warning(&report.verdict, &args.fail_on, false).filter(|_| code == 0) {
        Some(warning) => {
            let is_told = denials_told && warning.first.code == "permission-denied";
            output::tell(&if is_told { exit::warned_after(&warning) } else { exit::warned(&warning) });
            ci::annotate(&exit::warned(&warning));
            exit::FAILED
        }
        None => code,
    }
}

/// Says why the agent did not start and what to do about it, and returns the exit code.
fn not_started(kind: tapline_protocol::Agent, failure: &Failure) -> u8 {
    let mut text = errors::told(failure);
    if let Failure::NotStarted(StartError::NotFound { .. }) = failure {
        let (package, variable) = (package(kind), bin_variable(kind));
        text = format!("{text}; install it (npm install -g {package}), or give its path with --bin PATH or {variable}");
    }
    output::fail(&text);
    match failure {
        Failure::NotStarted(error) => error.exit_code(),
        Failure::Failed(report) => report.verdict.exit_code(),
    }
}
