//! `tapline tee` and `tapline shim`: between a host and the real agent.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use tapline_protocol::Agent;
use tapline_recording::{Meta, Recorder, Recording, Sync, create_private_folder, redact_args};
use tapline_runner::{Host, StartError, locate_other};

use super::sim::{Signals, code_of};
use crate::args::AgentName;
use crate::args::offline::{Shim, Tee};
use crate::plain::Plain;
use crate::{exit, output, store};

/// The second line of a stand-in that is a script; by it one is known.
const MARK: &str = "# a stand-in made by tapline shim";

pub(crate) fn run(args: &Tee) -> Result<u8> {
    let named = args.bin.as_deref().and_then(Path::file_name).and_then(agent_of);
    let kind = args.agent.map(Agent::from).or(named).unwrap_or(Agent::Claude);
    let path = std::env::var_os("PATH");
    let program = match locate_other(kind, args.bin.as_deref(), path.as_deref(), stands_in) {
        Ok(program) => program,
        Err(error) => {
            output::tell(&error.to_string());
            return Ok(if matches!(error, StartError::NotFound { .. }) { 127 } else { 126 });
        }
    };
    // Whoever only asks for the version starts no session.
    if args.args.len() == 1 && is_question(&args.args[0]) {
        use std::os::unix::process::CommandExt as _;
        let error = Command::new(&program).args(&args.args).exec();
        output::tell(&format!("cannot start {}: {error}", program.display()));
        return Ok(126);
    }
    let recorder = match begin(args, kind, &program) {
        Ok(recorder) => Some(recorder),
        // A host that knows nothing of us gets its agent all the same.
        Err(error) if args.record.is_none() => {
            output::tell(&format!("not recorded: {error:#}"));
            None
        }
        Err(error) => return Err(error),
    };
    let mut command = Command::new(&program);
    command.args(&args.args);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let teed = runtime.block_on(pass(command, recorder)).with_context(|| format!("cannot start {}", program.display()))?;
    for loss in &teed.losses {
        output::tell(loss);
    }
    die_as(teed.status);
    Ok(code_of(teed.status))
}

/// Whether a program is asked about itself alone.
pub(super) fn is_question(argument: &OsStr) -> bool {
    ["-v", "-V", "--version", "-h", "--help"].iter().any(|known| argument == *known)
}

fn agent_of(name: &OsStr) -> Option<Agent> {
    [Agent::Claude, Agent::Codex].into_iter().find(|kind| name == kind.name())
}

/// Passes everything until the agent has ended.
async fn pass(command: Command, recorder: Option<Recorder>) -> std::io::Result<tapline_runner::Teed> {
    let mut signals = Signals::listen().map_err(std::io::Error::other)?;
    let host = Host { stdin: Box::new(Plain::stdin()?), stdout: Box::new(Plain::stdout()?), stderr: Box::new(Plain::stderr()?) };
    let mut tee = tapline_runner::Tee::start(command, recorder, host).await?;
    let status = loop {
        let number = tokio::select! {
            status = tee.ended() => break status?,
            number = signals.next() => number,
        };
        tee.signal(number);
    };
    Ok(tee.finish(status))
}

/// Ends as the agent did, if a signal ended it: the host is to see the same.
pub(super) fn die_as(status: std::process::ExitStatus) {
    use std::os::unix::process::ExitStatusExt as _;
    if let Some(number) = status.signal() {
        exit::die_of(number);
    }
}

fn begin(args: &Tee, kind: Agent, program: &Path) -> Result<Recorder> {
    let folder = match (&args.record, &args.record_in) {
        (Some(folder), _) => folder.clone(),
        (None, Some(folder)) => folder.join(store::recording_name()),
        (None, None) => store::new_recording()?,
    };
    let argv = std::iter::once(program.as_os_str().to_owned()).chain(args.args.iter().cloned());
    let argv: Vec<String> = argv.map(|argument| argument.to_string_lossy().into_owned()).collect();
    let meta = Meta {
        schema: 1,
        agent: Some(kind.name().to_owned()),
        argv: redact_args(argv.iter().map(String::as_str)),
        cwd: std::env::current_dir().ok().map(|path| path.display().to_string()),
        env_names: std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect(),
        started_at: tapline_runner::now(),
        label: None,
        tapline: Some(env!("CARGO_PKG_VERSION").to_owned()),
    };
    Ok(Recorder::create(&folder, &meta, Sync::EverySecond)?)
}

/// Whether a program is tapline itself, or a stand-in of its making.
fn stands_in(path: &Path) -> bool {
    let own = std::env::current_exe().ok().and_then(|own| own.canonicalize().ok());
    if own.is_some() && path.canonicalize().ok() == own {
        return true;
    }
    let mut head = [0; 128];
    let read = std::fs::File::open(path).and_then(|mut file| std::io::Read::read(&mut file, &mut head)).unwrap_or(0);
    String::from_utf8_lossy(&head[..read]).lines().nth(1) == Some(MARK)
}

/// The agent that this program was called as, if by a link of that name.
pub(crate) fn called_as() -> Option<(AgentName, Vec<OsString>)> {
    let mut args = std::env::args_os();
    let name = PathBuf::from(args.next()?);
    let agent = match agent_of(name.file_name()?)? {
        Agent::Claude => AgentName::Claude,
        Agent::Codex => AgentName::Codex,
    };
    Some((agent, args.collect()))
}

pub(crate) fn shim(args: &Shim) -> Result<u8> {
    let recorded = args.replay.as_deref().map(|path| Recording::open(path).map(|recording| recording.meta.agent)).transpose()?;
    let recorded = recorded.flatten().and_then(|name| agent_of(OsStr::new(&name)));
    let kind = args.agent.map(Agent::from).or(recorded).unwrap_or(Agent::Claude);
    let own = std::env::current_exe().context("cannot find out where tapline is")?;
    create_private_folder(&args.folder).with_context(|| format!("cannot make {}", args.folder.display()))?;
    let path = args.folder.join(kind.name());
    if path.symlink_metadata().is_ok() && !stands_in(&path) {
        anyhow::bail!("{} is there and not of tapline's making: give another folder", path.display());
    }
    let _ = std::fs::remove_file(&path);
    let made = if args.replay.is_none() && args.bin.is_none() && args.record_in.is_none() {
        std::os::unix::fs::symlink(&own, &path)
    } else {
        write_script(&path, &script(args, kind, &own)?)
    };
    made.with_context(|| format!("cannot make {}", path.display()))?;
    use std::io::Write as _;
    let mut out = output::stdout();
    writeln!(out, "{}", output::raw(&std::path::absolute(&path).unwrap_or(path).display().to_string()))?;
    out.flush()?;
    Ok(0)
}

fn script(args: &Shim, kind: Agent, own: &Path) -> Result<String> {
    let whole = |path: &Path| std::path::absolute(path).map(PathBuf::into_os_string).with_context(|| format!("no such path: {}", path.display()));
    let mut words: Vec<OsString> = vec![own.into()];
    if let Some(recording) = &args.replay {
        words.extend(["replay".into(), whole(recording)?]);
        words.extend(args.args.iter().cloned());
    } else {
        words.extend(["tee".into(), "--agent".into(), kind.name().into()]);
        for (flag, path) in [("--bin", &args.bin), ("--record-in", &args.record_in)] {
            if let Some(path) = path {
                words.extend([flag.into(), whole(path)?]);
            }
        }
    }
    let quoted: Vec<String> = words.iter().map(|word| format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"))).collect();
    Ok(format!("#!/bin/sh\n{MARK}\nexec {} -- \"$@\"\n", quoted.join(" ")))
}

fn write_script(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o700).open(path)?;
    file.write_all(text.as_bytes())
}
