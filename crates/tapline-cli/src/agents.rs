//! What the commands must know of an agent, one row each. How it is started is the runner's business.

mod claude;
mod codex;

use std::ffi::OsString;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use tapline_protocol::Agent;

/// What would permit calls that were denied for these reasons, in a run with these arguments of its own.
type Advice = fn(&[&str], &[OsString]) -> String;

/// What differs from agent to agent.
pub(crate) struct Habits {
    /// The versions whose streams this version was tested with, oldest and newest.
    pub(crate) tested: (&'static str, &'static str),
    /// One process listens as long as a chat lasts; else each turn is a run of its own.
    pub(crate) listens: bool,
    /// It can tell what it writes while it writes it.
    pub(crate) writes_partial: bool,
    /// It has permission modes.
    pub(crate) has_modes: bool,
    /// The prompt with what was piped behind it, joined as the agent joins them.
    pub(crate) behind: fn(&[u8], &[u8]) -> Vec<u8>,
    /// Arguments of its own without those that name a session: a resumed run has its own.
    pub(crate) without_session: fn(&[OsString]) -> Vec<OsString>,
    /// What to do about a failure with these words, where that is known.
    pub(crate) after: fn(&str) -> Option<&'static str>,
    /// What would permit denied calls, where that is not a matter of flags and rules for tools.
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
