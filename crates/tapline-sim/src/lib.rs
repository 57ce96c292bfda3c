//! Tests programs that drive coding agents, without an account or cost: a scripted model lets the real
//! `claude` and `codex` run offline and deterministically;
//!
//! ```no_run
//! use tapline_sim::Sim;
//!
//! let sim = Sim::start(r#"turn = [{ tool = [{ name = "Bash", input = { command = "ls" } }] }, { text = "Two files." }]"#)?;
//! let output = sim.command("claude").args(["-p", "look"]).output()?;
//! assert_eq!(sim.requests().len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! and a fake agent plays a recording to the program that starts it:
//!
//! ```no_run
//! use tapline_sim::{FakeAgent, ReplayOptions};
//!
//! let agent = FakeAgent::replaying("tests/recordings/refactoring", ReplayOptions::default())?;
//! let status = std::process::Command::new(agent.program()).arg("-p").status()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod agents;
mod answer;
mod asked;
mod error;
mod fake;
mod home;
mod journal;
mod messages;
mod replay;
mod responses;
mod scenario;
mod script;
mod server;
mod sim;

pub use error::{ScenarioError, SimError};
pub use fake::FakeAgent;
pub use journal::{Answered, Logged};
pub use replay::{HostEnds, Played, ReplayOptions, Speed, recorded_version, replay};
pub use scenario::{
    EXAMPLE, Facts, Fault, FaultKind, Lane, Pace, Pattern, Repeat, Scenario, ScriptedBlock, ScriptedTurn, Text, ToolCall,
    Usage, When, Whole,
};
pub use sim::{Sim, SimOptions};

/// Checks that the README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
