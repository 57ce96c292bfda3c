//! Starts headless coding agents, passes on what they write as they write it, reports how they end, and leaves no
//! process behind.
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

// The layers, from the ground up; a file uses its own layer and those above it in this list.
// What a run is to be, and when it began:
mod epoch;
mod error;
mod marker;
mod message;
mod refusal;
mod schema;
mod spec;
mod subagent;
// What it tells:
mod settled;
mod turn;
mod update;
// Agents, each in a file of its own:
mod environment;
mod harness;
mod locate;
// Processes, of whichever agent:
mod guard;
mod process;
mod spawn;
mod tee;
mod transport;
mod tree;
// Who answers what the agent asks:
mod agent;
mod answers;
// What is said both ways, and what the agent does:
mod activity;
mod control;
mod dialogue;
// What drives it:
mod clocks;
mod driver;
mod input;
mod journal;
mod stopper;
// What a program starts:
mod ask;
mod conversation;
mod running;
mod session;
mod start;

#[cfg(test)]
mod paused;

pub use agent::Agent;
pub use answers::{
    Answers, ElicitationReply, HookEvent, HookQuestion, Permission, PermissionQuestion, Tool, ToolResult, ToolServer,
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
pub use running::{Running, report, report_not_started};
pub use session::{RunningTurn, Session};
pub use settled::{Settled, SettledBy};
pub use spec::{Environment, Input, Limits, Options, RecordTo};
pub use stopper::Stopper;
pub use subagent::{SettingSource, SubAgent, UnknownSource};
pub use tapline_protocol::StopReason;
pub use tee::{Host, Tee, Teed};
pub use turn::TurnReport;
pub use update::{Conclusion, Delivery, Over, Seen, Update};

/// Whether every process that an agent starts is found and stopped on this system; otherwise only its process group is.
pub fn reaches_all() -> bool {
    tree::reaches_all()
}

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
