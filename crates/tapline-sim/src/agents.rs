//! What the scripted model must know about each agent that uses it.

mod claude;
mod codex;

use std::net::SocketAddr;

use tapline_protocol::Agent;

/// A dummy key.
const KEY: &str = "sk-tapline-sim-not-a-key";

/// Makes a text that contains the model's address.
type ForAddress = fn(SocketAddr) -> String;

/// An agent that uses the scripted model.
pub(crate) struct Guest {
    /// Variables through which it might find a real account or another model.
    logins: &'static [&'static str],
    /// The variables that it needs to use the model at this address.
    pub(crate) variables: fn(SocketAddr) -> Vec<(&'static str, String)>,
    /// The variable for its folder, and that folder under HOME.
    pub(crate) folder: (&'static str, &'static str),
    /// The file that it needs in its folder: the name, and the text for the model at this address.
    pub(crate) config: Option<(&'static str, ForAddress)>,
    /// The header that marks a sub-agent's request.
    pub(crate) of_sub_agents: &'static str,
    /// The prefix of its program's name, if its requests without tools are not part of a conversation.
    pub(crate) asks_aside: Option<&'static str>,
    /// The key of the agent's version in its stream.
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

/// The login variables of all agents.
pub(crate) fn logins() -> impl Iterator<Item = &'static str> {
    guests().flat_map(|guest| guest.logins).copied()
}
