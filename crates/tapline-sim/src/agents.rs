//! What the scripted model must know of the agents that ask it, one row each.

mod claude;
mod codex;

use std::net::SocketAddr;

use tapline_protocol::Agent;

/// Nobody's key.
const KEY: &str = "sk-tapline-sim-not-a-key";

/// A text that names the model's address.
type ForAddress = fn(SocketAddr) -> String;

/// An agent that is a guest here.
pub(crate) struct Guest {
    /// Variables by which it might find somebody's account, or another model.
    logins: &'static [&'static str],
    /// The variables that it needs to ask the model at this address.
    pub(crate) variables: fn(SocketAddr) -> Vec<(&'static str, String)>,
    /// The variable that names its folder, and that folder under HOME.
    pub(crate) folder: (&'static str, &'static str),
    /// What must stand in its folder: the file's name, and its text for the model at this address.
    pub(crate) config: Option<(&'static str, ForAddress)>,
    /// The header by which a sub-agent's request is known.
    pub(crate) of_sub_agents: &'static str,
    /// What the name of its program begins with, if what it asks without tools is beside its conversations.
    pub(crate) asks_aside: Option<&'static str>,
    /// The key of its version in its stream.
    pub(crate) version: Option<&'static str>,
}

pub(crate) fn guest(agent: Agent) -> &'static Guest {
    match agent {
        Agent::Claude => &claude::GUEST,
        Agent::Codex => &codex::GUEST,
    }
}

pub(crate) fn guests() -> impl Iterator<Item = &'static Guest> {
    Agent::ALL.iter().map(|agent| guest(*agent))
}

/// The logins of all of them.
pub(crate) fn logins() -> impl Iterator<Item = &'static str> {
    guests().flat_map(|guest| guest.logins).copied()
}
