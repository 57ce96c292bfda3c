//! `tapline tee`: sits between a host and the real agent.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::SendError;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tapline_protocol::Agent;
use tapline_recording::{Meta, Recorder, Sync, recording_name};
use tapline_runner::{HostStreams, StartError, locate_other};

use super::chain::{CHAIN, Chain, is_path, searches};

use crate::args::offline::Tee;
use crate::plain::Plain;
use crate::signals::Signals;
use crate::{errors, exit, output, secrets, store};

pub(crate) fn run(args: &Tee) -> Result<u8> {
    let named = args.bin.as_deref().and_then(Path::file_name).and_then(agent_of);
    let kind = args.agent.or(named).unwrap_or_default();
    let path = std::env::var_os("PATH");
    let chain = Chain::here();
    if chain.is_too_long() {
        output::tell("tee would start tapline again instead of the agent; give the agent's program with --bin");
        return Ok(exit::NOT_EXECUTABLE);
    }
    let leads_back = |path: &Path| searches(path) || chain.has(path);
    // Whoever names a program gets that one, or is told why not: another might be the real agent, and cost money.
    if let Some(bin) = args.bin.as_deref().filter(|bin| is_path(bin)) {
        ensure!(!leads_back(bin), "--bin: {} starts tapline again, not the agent; give the agent's own program", bin.display());
    }
    let program = match locate_other(kind, args.bin.as_deref(), path.as_deref(), leads_back) {
        Ok(program) => program,
        Err(error) => {
            output::fail(&errors::told(&error));
            return Ok(if matches!(error, StartError::NotFound { .. }) { exit::NOT_FOUND } else { exit::NOT_EXECUTABLE });
        }
    };
    // A call that only asks for the version starts no session, and a person at a terminal wants the agent itself.
    let at_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if at_terminal || (args.args.len() == 1 && is_question(&args.args[0])) {
        if at_terminal {
            output::tell("not recorded: this is a terminal, so there is no host to record");
        }
        let error = Command::new(&program).args(&args.args).env(CHAIN, chain.handed_on(&program)).exec();
        output::fail(&format!("cannot start {}: {error}", program.display()));
        return Ok(exit::NOT_EXECUTABLE);
    }
    let recorder = match begin(args, kind, &program) {
        Ok(recorder) => Some(recorder),
        // A host that does not know about us still gets its agent.
        Err(error) if args.record.is_none() => {
            output::tell(&format!("not recorded: {error:#}"));
            None
        }
        Err(error) => return Err(error),
    };
    let mut command = Command::new(&program);
    command.args(&args.args).env(CHAIN, chain.handed_on(&program));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let teed = runtime.block_on(pass(command, recorder)).with_context(|| format!("cannot start {}", program.display()))?;
    for loss in &teed.losses {
        output::tell(loss);
    }
    die_as(teed.status);
    Ok(exit::code_of_status(teed.status))
}

/// Returns whether an argument only asks about the program itself.
pub(super) fn is_question(argument: &OsStr) -> bool {
    ["-v", "-V", "--version", "-h", "--help"].iter().any(|known| argument == *known)
}

pub(super) fn agent_of(name: &OsStr) -> Option<Agent> {
    name.to_str().and_then(Agent::named)
}

/// Passes on everything until the agent has ended.
async fn pass(command: Command, recorder: Option<Recorder>) -> std::io::Result<tapline_runner::Teed> {
    let mut signals = Signals::listen().map_err(std::io::Error::other)?;
    let host = HostStreams {
        stdin: Box::new(Plain::stdin()?),
        stdout: Box::new(Plain::stdout()?),
        stderr: Box::new(Plain::stderr()?),
    };
    let mut tee = tapline_runner::Tee::start(command, recorder, host).await?;
    let status = loop {
        let number = tokio::select! {
            status = tee.ended() => break status?,
            number = signals.next() => number,
        };
        tee.signal(number);
    };
    // Once the agent has ended, a signal is for us: a host that does not read is not waited for.
    tokio::select! {
        biased;
        () = tee.drained() => {}
        _ = signals.next() => {}
    }
    Ok(tee.finish(status))
}

/// If a signal ended the agent, ends this process by the same signal, so that the host sees the same.
pub(super) fn die_as(status: std::process::ExitStatus) {
    use std::os::unix::process::ExitStatusExt as _;
    if let Some(number) = status.signal() {
        exit::die_of(number);
    }
}

/// How long a recording may take to start.
const DISK: Duration = Duration::from_secs(5);

fn begin(args: &Tee, kind: Agent, program: &Path) -> Result<Recorder> {
    let folder = match (&args.record, &args.record_in) {
        (Some(folder), _) => folder.clone(),
        (None, Some(folder)) => folder.join(recording_name()),
        (None, None) => store::store()?.new_recording(),
    };
    let command = std::iter::once(program.as_os_str()).chain(args.args.iter().map(OsString::as_os_str));
    let command: Vec<_> = command.map(OsStr::to_string_lossy).collect();
    let meta = Meta {
        schema: 1,
        agent: Some(kind.name().to_owned()),
        argv: secrets::redactor()?.args(command.iter().map(AsRef::as_ref)),
        cwd: std::env::current_dir().ok().map(|path| path.display().to_string()),
        env_names: std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect(),
        started_at: tapline_runner::now(),
        started_ms: Some(tapline_runner::moment()),
        label: None,
        tapline: Some(env!("CARGO_PKG_VERSION").to_owned()),
        ..Meta::default()
    };
    // The wait for the agent must not become a wait for the disk.
    let (reply, begun) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        if let Err(SendError(Ok(late))) = reply.send(Recorder::create(&folder, &meta, Sync::EverySecond)) {
            late.discard();
        }
    });
    Ok(begun.recv_timeout(DISK).context("the disk did not respond")??)
}

/// Returns the agent whose name this program was called by, if by such a link.
pub(crate) fn called_as() -> Option<(Agent, Vec<OsString>)> {
    let mut args = std::env::args_os();
    let name = PathBuf::from(args.next()?);
    Some((agent_of(name.file_name()?)?, args.collect()))
}
