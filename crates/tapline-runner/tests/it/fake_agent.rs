//! The fake agent, and whether anything of it is left.

use std::time::Duration;

use tapline_runner::Agent;
use tapline_testkit::agent::misbehaving;
use tapline_testkit::{eventually, processes_with, unique};

/// A Claude that does this.
pub(crate) fn fake(mode: &str) -> Agent {
    Agent::claude().bin(misbehaving()).prompt("go").env("FAKE", mode).env("FAKE_ID", unique()).grace(Duration::from_millis(300))
}

/// The id that was given to an agent.
pub(crate) fn id_of(agent: &Agent) -> String {
    let id = agent.environment.set.iter().find(|(name, _)| name == "FAKE_ID").and_then(|(_, value)| value.clone());
    id.unwrap().into_string().unwrap()
}

/// The command lines of what is left of an agent, found by an id that the runner knows nothing of.
pub(crate) fn left_of(id: &str) -> Vec<String> {
    processes_with(&format!("FAKE_ID={id}")).into_iter().map(|process| process.command).collect()
}

/// Waits until nothing is left; whether that ever was so.
pub(crate) fn gone(id: &str) -> bool {
    eventually(|| left_of(id).is_empty())
}
