//! What the commands must know about each agent. The runner knows how to start it.

mod claude;
mod codex;

use std::ffi::OsString;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use tapline_protocol::Agent;
use tapline_runner::{bin_variable, package};

/// Returns what would allow calls that were denied for these reasons, in a run with these arguments.
type Advice = fn(&[&str], &[OsString]) -> String;

/// What differs between agents.
pub(crate) struct Habits {
    /// The command that runs it headless.
    pub(crate) headless: &'static str,
    /// The variable that it reads an API key from.
    pub(crate) key: &'static str,
    /// The commands that write the streams that tapline reads, in Markdown.
    pub(crate) streams: &'static str,
    /// The oldest version that tapline supports.
    pub(crate) supported: &'static str,
    /// The oldest and the newest version whose streams this version was tested with.
    pub(crate) tested: (&'static str, &'static str),
    /// Whether one process serves a whole chat. Otherwise each turn is a separate run.
    pub(crate) listens: bool,
    /// What makes it repeat in its stream what it is told, while it listens.
    pub(crate) repeats: &'static [&'static str],
    /// Whether it can report text while it writes it.
    pub(crate) writes_partial: bool,
    /// Whether it has permission modes.
    pub(crate) has_modes: bool,
    /// Joins the prompt and the piped input as the agent does.
    pub(crate) behind: fn(&[u8], &[u8]) -> Vec<u8>,
    /// The command that resumes a session, for a person at a terminal.
    pub(crate) resume: fn(&str) -> Vec<String>,
    /// What to do about a failure with these words, where that is known.
    pub(crate) after: fn(&str) -> Option<&'static str>,
    /// Returns what would allow denied calls, if that is not a matter of flags and rules for tools.
    pub(crate) advice: Option<Advice>,
}

pub(crate) fn habits(agent: Agent) -> &'static Habits {
    match agent {
        Agent::Claude => &claude::HABITS,
        Agent::Codex => &codex::HABITS,
    }
}

/// Reads an agent's name on the command line.
pub(crate) fn named() -> impl TypedValueParser<Value = Agent> {
    let names = Agent::ALL.iter().map(|agent| agent.name());
    PossibleValuesParser::new(names).map(|name| Agent::named(&name).unwrap_or_default())
}

/// Describes the whole program for `--help`, with every agent.
pub(crate) fn about() -> String {
    let started = listed(" or ", |agent| format!("`{}`", habits(agent).headless));
    let streams = listed(" and ", |agent| habits(agent).streams.to_owned());
    let supported = listed(", and ", |agent| format!("{} {} and newer", agent.title(), habits(agent).supported));
    format!(
        "Run headless coding agents; read, convert, query and check what they write.\n\n\
         tapline starts {started}, shows what the agent does, reports how it ended, records everything, and leaves no process behind. \
         It also reads the streams of {streams}, live from a pipe or from a file, without losing a line. It supports {supported}."
    )
}

/// Says what to do about a program that cannot be started with this exit code. `named` is what names its path, if something does.
pub(crate) fn how_to_get(agent: Agent, code: u8, named: Option<&str>) -> String {
    let (variable, package) = (bin_variable(agent), package(agent));
    match (code, named) {
        (crate::exit::NOT_FOUND, Some(named)) => {
            format!("check the path that {named} gives; without it, tapline takes {variable} or the `{}` on PATH", agent.name())
        }
        (crate::exit::NOT_FOUND, None) => format!(
            "install it (npm install -g {package}), or give its path with --bin PATH or {variable}; `tapline doctor` checks your setup"
        ),
        _ => format!("check the file, or give another one with --bin PATH or {variable}"),
    }
}

/// Says the same of a batch that is resumed. Its jobs keep the program that was named for them, and `--bin` is for new batches.
pub(crate) fn how_to_get_again(agent: Agent, code: u8, names_program: bool) -> String {
    let (variable, package) = (bin_variable(agent), package(agent));
    match (names_program, code) {
        (true, crate::exit::NOT_FOUND) => {
            "put the program there again (a resumed batch keeps its programs), or start a new batch with another --bin PATH"
                .to_owned()
        }
        (true, _) => {
            "correct the file (a resumed batch keeps its programs), or start a new batch with another --bin PATH".to_owned()
        }
        (false, crate::exit::NOT_FOUND) => {
            format!("install it (npm install -g {package}), or set {variable} to its path; `tapline doctor` checks your setup")
        }
        (false, _) => format!("check the file, or set {variable} to the path of another one"),
    }
}

/// Describes `--bin`: where tapline finds the agent's program.
pub(crate) fn about_program() -> String {
    let variables = listed(" or ", |agent| format!("${}", bin_variable(agent)));
    format!("The agent's program [default: {variables}, else on PATH]")
}

/// Writes something about every agent as one list: `a, b or c`.
fn listed(last: &str, about: impl Fn(Agent) -> String) -> String {
    let all: Vec<String> = Agent::ALL.iter().map(|agent| about(*agent)).collect();
    match all.split_last() {
        Some((end, start)) if !start.is_empty() => format!("{}{last}{end}", start.join(", ")),
        _ => all.concat(),
    }
}
