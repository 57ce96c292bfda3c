//! How long agents keep their session files: one file here for each agent that deletes them.

mod claude;

use std::path::PathBuf;

use tapline_protocol::Agent;

use crate::transcripts::{self, Environment};

/// How long an agent keeps its session files.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lifetime {
    /// The agent.
    pub agent: Agent,
    /// How many days after their last change the agent deletes them. `None` if it does not.
    pub days: Option<u64>,
    /// The file that says so. `None` if it is the agent's default.
    pub said_in: Option<PathBuf>,
    /// The folders of the files.
    pub folders: Vec<PathBuf>,
}

/// Returns how long each agent keeps its session files. The environment tells where their settings are.
pub fn lifetimes(environment: &dyn Fn(&str) -> Option<PathBuf>) -> Vec<Lifetime> {
    let lifetime = |agent: &Agent| {
        let (days, said_in) = days(*agent, environment);
        Lifetime { agent: *agent, days, said_in, folders: transcripts::places_of(*agent, environment) }
    };
    Agent::ALL.iter().map(lifetime).collect()
}

/// Returns after how many days an agent deletes a file, and which file says so.
fn days(agent: Agent, environment: Environment<'_>) -> (Option<u64>, Option<PathBuf>) {
    match agent {
        Agent::Claude => claude::days(environment),
        // It compresses old files, and deletes none.
        Agent::Codex => (None, None),
    }
}
