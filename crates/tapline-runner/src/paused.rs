//! Tests of the ladder, clocks and dialogue in paused time: a test plays the agent at the other end of a pair in
//! memory, and minutes pass at once.

mod clocks;
mod dialogue;
mod stop_ladder;

use std::time::Duration;

use tapline_session::{Category, Outcome, Report};

use crate::agent::Agent;
use crate::answers::Others;
use crate::epoch::Epoch;
use crate::harness::Invocation;
use crate::running::{Begun, Running};
use crate::transport::memory::{Peer, pair};

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s","model":"m"}"#;
const RESULT: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s","num_turns":1}"#;
const ALIVE: &str = r#"{"type":"keep_alive"}"#;
const TASK: &str = r#"{"type":"system","subtype":"task_started","task_id":"t","task_type":"local_bash","description":"d"}"#;

/// Starts a run of an agent that a test plays.
fn start(agent: Agent) -> (Running, Peer) {
    let (transport, peer) = pair();
    let begun = Begun {
        epoch: Epoch::now(),
        recorder: None,
        others: Others::new(false),
        no_background_tasks: false,
        invocation: Invocation::default(),
    };
    (Running::over(transport, agent, begun), peer)
}

fn agent() -> Agent {
    Agent::claude().prompt("go").grace(seconds(2))
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn verdict(report: &Report) -> (Outcome, Option<Category>) {
    (report.verdict.outcome, report.verdict.category)
}
