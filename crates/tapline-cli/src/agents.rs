//! What the commands must know about each agent. The runner knows how to start it.

mod claude;
mod codex;

use std::ffi::OsString;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use tapline_protocol::Agent;

/// Returns what would allow calls that were denied for these reasons, in a run with these arguments.
type Advice = fn(&[&str], &[OsString]) -> String;

/// What differs between agents.
pub(crate) struct Habits {
    /// The oldest and the newest version whose streams this version was tested with.
    pub(crate) tested: (&'static str, &'static str),
    /// Whether one process serves a whole chat. Otherwise each turn is a separate run.
    pub(crate) listens: bool,
    /// Whether it can report text while it writes it.
    pub(crate) writes_partial: bool,
    /// Whether it has permission modes.
    pub(crate) has_modes: bool,
    /// Joins the prompt and the piped input as the agent does.
    pub(crate) behind: fn(&[u8], &[u8]) -> Vec<u8>,
    /// Removes the arguments that name a session, because a resumed run has its own.
    pub(crate) without_session: fn(&[OsString]) -> Vec<OsString>,
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
