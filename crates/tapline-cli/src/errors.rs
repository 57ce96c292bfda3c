//! Errors of the library in the words of the commands: with their causes, and advice that names our own flags.

use std::error::Error;
use std::io;
use std::iter::successors;
use std::path::Path;

use anyhow::anyhow;
#[cfg(feature = "nats")]
use tapline_fleet::{BrokerError, EngineError, NatsError, WorkerError};
use tapline_recording::{FindError, RecordingError};
use tapline_runner::{Failure, Instead, Refusal, RunOption, StartError};
use tapline_session::permission::{RuleFile, WrongRules};
use tapline_session::render::OutputError;
use tapline_session::text::{one_line, with_causes};
use tapline_sim::SimError;

pub(crate) fn told(error: &(dyn Error + 'static)) -> String {
    let chain = || successors(Some(error), |&error| error.source());
    let advice = chain().find_map(advice).unwrap_or_default();
    let said = with_causes(error);
    let said = match chain().find_map(refusal) {
        Some(refusal) => said.replace(&one_line(&refusal.to_string()), &refusal.with_names(flag, instead)),
        None => said,
    };
    said + advice
}

/// Says that a file cannot be read and, if it does not exist, how to get one.
pub(crate) fn unreadable(error: io::Error, what: &str, path: &Path, advice: &str) -> anyhow::Error {
    let told = format!("cannot read the {what} {}", path.display());
    match error.kind() {
        io::ErrorKind::NotFound => anyhow!("{told}: there is no such file ({advice})"),
        _ => anyhow::Error::new(error).context(told),
    }
}

/// Why the agent did not start. These stand in for what they hold, and are passed over in the chain of causes.
fn start_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e StartError> {
    match error.downcast_ref() {
        Some(Failure::NotStarted(error)) => Some(error),
        Some(_) => None,
        None => error.downcast_ref(),
    }
}

fn refusal<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e Refusal> {
    match start_error(error) {
        Some(StartError::Refused(refusal)) => Some(refusal),
        _ => None,
    }
}

fn flag(option: &RunOption) -> String {
    match option {
        RunOption::Argument(argument) => format!("{argument} after `--`"),
        RunOption::Messages => "--input stream-json".to_owned(),
        RunOption::ContinueLast => "--continue".to_owned(),
        option => format!("--{}", option.name().replace('_', "-")),
    }
}

fn instead(instead: &Instead) -> String {
    match instead {
        Instead::Option(RunOption::Argument(argument)) => format!("`-- {argument}`"),
        Instead::Option(RunOption::Resume) => "--resume ID".to_owned(),
        Instead::Option(option) => flag(option),
        Instead::Agent(agent) => format!("--agent {}", agent.name()),
        other => other.to_string(),
    }
}

fn advice(error: &(dyn Error + 'static)) -> Option<&'static str> {
    match start_error(error) {
        Some(StartError::Recording(error)) => return advice(error),
        Some(StartError::Refused(refusal)) => return advice_on(&refusal.option),
        _ => {}
    }
    match error.downcast_ref() {
        Some(RecordingError::Create { .. }) => return Some("; use another folder (--record, TAPLINE_HOME) or --no-record"),
        Some(RecordingError::File(_)) => {
            return Some("; to play a stream, put it into a folder under this name: mkdir DIR && cp FILE DIR/stdout");
        }
        Some(RecordingError::NotARecording(path)) if !path.exists() => return Some("; this path does not exist"),
        _ => {}
    }
    if let Some(FindError::Empty(_)) = error.downcast_ref() {
        return Some("; `tapline run` makes one");
    }
    if let Some(OutputError::NoSuchMode(_)) = error.downcast_ref() {
        return Some(": use --to text, steps, markdown or html");
    }
    if let Some(SimError::Listen { .. }) = error.downcast_ref() {
        return Some(" (port 0 picks a free port)");
    }
    #[cfg(feature = "nats")]
    if let Some(EngineError::Gone(_)) = error.downcast_ref() {
        return Some(SETUP);
    }
    #[cfg(feature = "nats")]
    match broker_error(error) {
        Some(BrokerError::Unreachable { .. }) => {
            return Some("; is it running (`nats-server --jetstream` starts one), and is the address right?");
        }
        Some(BrokerError::Missing { .. }) => return Some(SETUP),
        Some(BrokerError::Untrusted { .. }) => {
            return Some("; --nats-ca names the authority of its certificate, --nats-cert and --nats-key are ours");
        }
        _ => {}
    }
    match error.downcast_ref::<WrongRules>()?.belongs_in()? {
        RuleFile::Policy => Some("; a policy is given with --policy"),
        RuleFile::Permissions => Some("; a permission file is given with --permissions"),
        RuleFile::Config => None,
    }
}

/// What somebody with more rights can do.
#[cfg(feature = "nats")]
const SETUP: &str = "; `tapline doctor --engine URL --setup` makes it, as a user who may (`tapline help fleet`)";

/// What is wrong with the broker. These stand in for it, too.
#[cfg(feature = "nats")]
fn broker_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e BrokerError> {
    match (error.downcast_ref(), error.downcast_ref()) {
        (Some(NatsError::Broker(error)), _) | (_, Some(WorkerError::Broker(error))) => Some(error),
        _ => error.downcast_ref(),
    }
}

fn advice_on(refused: &RunOption) -> Option<&'static str> {
    match refused {
        RunOption::Permissions => Some(" (tapline check --permissions shows afterwards what rules would have decided)"),
        RunOption::Argument(argument) if argument == "--output-format" => Some("; --format chooses what you see"),
        _ => None,
    }
}
