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
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tapline_runner::{Agent, Failure, StartError, bin_variable, package};

use tapline_session::text::one_line;
use tapline_session::{Report, Warned};

use crate::agents::habits;
use crate::args::chat::Chat;
use crate::commands::check::read_permissions;
use crate::commands::guard_program;
use crate::commands::run::prepare;
use crate::push::{Asks, PageQueue, Push};
use crate::signals::Signals;
use crate::{ci, config, errors, exit, output, secrets, store};

pub(crate) fn run(args: &Chat) -> Result<u8> {
    let typed = args.script.is_none() && std::io::stdin().is_terminal();
    ensure!(!typed || output::is_capable(), "chat needs a terminal for its output; for a pipe, use --script FILE");
    ensure!(!typed || args.format.is_none(), "--format needs a script (--script FILE, or a pipe on stdin)");
    let timed = args.pushed.ask_timeout.is_some();
    ensure!(typed || args.pushed.ask || !timed, "--ask-timeout needs --ask, unless you chat at a terminal");
    let folder = store::folder(&args.kept)?;
    let agent = agent(args, typed, folder.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start a thread")?;
    let title = args.prompt.as_deref();
    let code = if typed {
        let (page, commands) = PageQueue::new();
        let push = Push::start(&args.pushed, folder.as_deref(), args.redact, agent.kind, title, &page)?;
        // Nothing else holds the sender, so that without a page its commands end at once.
        drop(page);
        runtime.block_on(Box::pin(pushed(push, interactive::run(args, agent, commands))))
    } else {
        let asks = Arc::<Asks>::default();
        let push = Push::start(&args.pushed, folder.as_deref(), args.redact, agent.kind, title, &asks)?;
        let agent = if args.pushed.ask { asks.answer(agent, args.pushed.within()) } else { agent };
        runtime.block_on(Box::pin(pushed(push, script::run(args, agent, &asks))))
    };
    // A pending read of the terminal must not delay the exit.
    runtime.shutdown_background();
    code
}

/// How long the server may take the end after a chat was stopped.
const NOT_TAKEN: Duration = Duration::from_secs(2);

/// Waits for the end of a chat, and then until it is pushed. A signal ends that wait.
async fn pushed(push: Option<Push>, chat: impl Future<Output = Result<u8>>) -> Result<u8> {
    let code = chat.await;
    let Some(push) = push else { return code };
    let mut signals = Signals::listen()?;
    let was_stopped = code.as_ref().is_ok_and(|code| *code > 128);
    let given_up = async {
        if was_stopped {
            tokio::time::sleep(NOT_TAKEN).await;
        } else {
            signals.next().await;
        }
    };
    push.finish_unless(given_up).await;
    code
}

/// Returns the agent for the chat.
fn agent(args: &Chat, typed: bool, folder: Option<&Path>) -> Result<Agent> {
    let kind = args.whose.agent;
    let mut agent = Agent::new(kind);
    let partial = args.told.partial || typed && habits(kind).writes_partial;
    prepare::doubt_mode(&args.told, kind);
    agent.options = prepare::options(&args.told, &args.extra, partial)?;
    agent.answers.permissions = args.told.permissions.as_deref().map(read_permissions).transpose()?;
    agent.environment = prepare::environment(&args.told);
    agent.bin.clone_from(&args.whose.bin);
    agent.cwd.clone_from(&args.whose.cwd);
    if args.pushed.push.is_some() {
        // The page shows what the agent is told, too.
        agent.options.extra.extend(habits(kind).repeats.iter().map(Into::into));
    }
    agent.record = folder.map(|folder| store::record_to(&args.kept, folder.to_owned(), args.redact));
    agent.redactor = if args.redact || ci::is_log() { secrets::redactor()? } else { config::redactor()?.0 };
    agent.guard = guard_program();
    prepare::note_costs(&mut agent);
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
    match Warned::of(&report.verdict, &args.fail_on, false).filter(|_| code == 0) {
        Some(warning) => {
            let is_told = denials_told && warning.first.code == "permission-denied";
            output::tell(&if is_told { exit::warned_after(&warning) } else { warning.to_string() });
            ci::annotate(&warning.to_string());
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
