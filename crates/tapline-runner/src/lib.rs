//! Starts headless coding agents, passes on their output as they write it, reports how they end, and leaves no process
//! behind.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use tapline_runner::Agent;
//!
//! let mut run = Agent::claude().prompt("What does this project do?").start().await?;
//! while let Some(record) = run.next().await {
//!     println!("{}", record.text());
//! }
//! let report = run.finish().await;
//! println!("{}: {:?} for {:?}", report.verdict.outcome, report.answer, report.ledger.cost_usd);
//! # Ok(())
//! # }
//! ```
//!
//! **No process is left behind.** A run ends when the agent *and every process that it started* has ended. A process that outlives
//! the agent, or does not stop when the run must stop, is stopped step by step: tapline closes its input, then sends SIGTERM, then SIGKILL. On Linux
//! it finds every descendant, even in other sessions, by a random mark in the environment that it looks for under
//! `/proc`. It finds a process that clears or overwrites its environment while its parent is alive or while it holds the agent's
//! output. It reports a process of another user (sudo), but cannot signal it. Dropping a run kills it at once. If this program itself is killed, the kernel kills the agent, and a [guard](GuardProgram),
//! if there is one, kills the rest. On other systems
//! only the agent's process group is stopped.

// The layers, from the ground up. A file uses its own layer and those above it in this list. The specification of a
// run, and when it began:
mod epoch;
mod error;
mod marker;
mod message;
mod refusal;
mod schema;
mod spec;
mod subagent;
// What a run reports:
mod settled;
mod turn;
mod update;
// Agents, each in its own file:
mod environment;
mod harness;
mod locate;
// Processes of any agent:
mod guard;
mod help;
mod process;
mod spawn;
mod tee;
mod transport;
mod tree;
// Answers to the agent's requests:
mod agent;
mod answers;
// The dialogue, and what the agent is doing:
mod activity;
mod control;
mod dialogue;
// The driver:
mod clocks;
mod driver;
mod input;
mod journal;
mod stopper;
// The public entry points:
mod ask;
mod conversation;
mod retry;
mod running;
mod session;
mod start;

#[cfg(test)]
mod paused;

pub use agent::Agent;
pub use answers::{
    Answers, ElicitationReply, HookEvent, HookQuestion, Permission, PermissionQuestion, Raised, Tool, ToolResult, ToolServer,
};
pub use ask::{Answer, Failure, StructuredError, ask};
pub use control::{Control, Sent, SessionError};
pub use conversation::Conversation;
pub use epoch::{moment, now};
pub use error::StartError;
pub use guard::{GuardProgram, guard};
pub use harness::{bin_variable, no_background_tasks, package};
pub use locate::{locate, locate_other};
pub use marker::VARIABLE as RUN_VARIABLE;
pub use message::{Message, Priority};
pub use process::Process;
pub use refusal::{Instead, Refusal, RunOption};
pub use retry::RetryRule;
pub use running::{Running, report, report_not_started};
pub use session::{RunningTurn, Session};
pub use settled::{Settled, SettledBy};
pub use spec::{AgentInput, Environment, Limits, Options, RecordTo};
pub use stopper::Stopper;
pub use subagent::{SettingSource, SubAgent, UnknownSource};
pub use tapline_protocol::StopReason;
pub use tee::{HostStreams, Tee, Teed};
pub use turn::TurnReport;
pub use update::{Conclusion, Delivery, Over, Seen, Update};

/// Returns whether every process that an agent starts is found and stopped on this system. Otherwise only its process
/// group is.
pub fn reaches_all() -> bool {
    tree::reaches_all()
}

/// Checks that the README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
