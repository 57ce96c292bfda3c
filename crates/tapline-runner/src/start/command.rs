//! How a run is started: the agent's command, and the recording that describes it.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tapline_protocol::{Agent as Kind, Json};
use tapline_recording::{Meta, Recorder, RecordingError};
use tokio::process::Command;
use tokio::sync::oneshot;

use crate::agent::Agent;
use crate::environment;
use crate::epoch::Epoch;
use crate::error::StartError;
use crate::harness::Invocation;
use crate::marker;
use crate::spec::AgentInput;

/// Returns the command that starts the agent.
pub(super) fn command(
    agent: &Agent,
    program: &Path,
    invocation: &Invocation,
    environment: &environment::Variables,
    mark: &str,
) -> Command {
    let mut command = Command::new(program);
    command.args(&invocation.args).env_clear().envs(environment);
    command.env(marker::VARIABLE, marker::value(mark));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let talks = agent.is_dialogue() || !matches!(agent.input, AgentInput::Nothing);
    command.stdin(if talks { Stdio::piped() } else { Stdio::null() });
    if let Some(cwd) = &agent.cwd {
        command.current_dir(cwd);
    }
    command
}

/// A recording that is being created.
type BegunRecording = oneshot::Receiver<Result<Recorder, RecordingError>>;

/// Creates the recording on another thread, so that a caller can stop waiting even if the disk does not answer. Then
/// nothing of the recording is left.
pub(super) fn recorder(
    agent: &Agent,
    program: &Path,
    invocation: &Invocation,
    environment: &environment::Variables,
    (epoch, no_background_tasks): (Epoch, bool),
) -> Option<BegunRecording> {
    let to = agent.record.as_ref()?;
    let program = program.display().to_string();
    let args: Vec<_> = invocation.args.iter().map(|arg| arg.to_string_lossy()).collect();
    let args = agent.redactor.args(args.iter().map(|arg| &**arg));
    let shown = |text: String| if to.redact { agent.redactor.text(&text).into_owned() } else { text };
    let meta = Meta {
        schema: 1,
        agent: Some(agent.kind.name().to_owned()),
        argv: std::iter::once(program).chain(args).collect(),
        cwd: agent.cwd.clone().or_else(|| std::env::current_dir().ok()).map(|cwd| shown(cwd.display().to_string())),
        env_names: environment.keys().map(|name| name.to_string_lossy().into_owned()).collect(),
        started_at: epoch.stamp(),
        started_ms: Some(epoch.moment()),
        label: agent.label.clone().map(shown),
        tapline: Some(env!("CARGO_PKG_VERSION").to_owned()),
        no_heuristics: agent.no_heuristics,
        no_background_tasks,
        session_before: agent.options.session_before.as_ref().map(Json::of),
    };
    let (to, (reply, begun)) = (to.clone(), oneshot::channel());
    tokio::task::spawn_blocking(move || {
        if let Err(Ok(unwanted)) = reply.send(Recorder::create(&to.folder, &meta, to.sync)) {
            unwanted.discard();
        }
    });
    Some(begun)
}

pub(super) fn not_started(kind: Kind, path: PathBuf, error: std::io::Error) -> StartError {
    use std::io::ErrorKind::{ArgumentListTooLong, NotFound, PermissionDenied};

    let agent = kind.name();
    match error.kind() {
        // The program exists, but what is needed to run it does not.
        NotFound => {
            let error = std::io::Error::new(NotFound, "its interpreter or a library that it needs is missing");
            StartError::NotExecutable { agent, path, error }
        }
        PermissionDenied => StartError::NotExecutable { agent, path, error },
        ArgumentListTooLong => StartError::TooLong { agent, error },
        _ => StartError::System { agent, error },
    }
}
