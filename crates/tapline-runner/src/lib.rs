//! Starts headless coding agents, hands on what they write as they write it, judges how they end, and leaves no
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
//! **What is left behind: nothing.** A run ends when the agent *and everything it started* has ended. Whatever outlives
//! the agent, or does not stop when the run is to stop, is told to more and more firmly: the end of its input, SIGTERM, SIGKILL. On Linux
//! every descendant is reached, also those in sessions of their own, by a random mark in the environment that is found again under
//! `/proc`; a process that clears or overwrites its environment is found while its parent lives or while it holds the agent's
//! output; one of another user's (sudo) is told of, but cannot be signalled. A run that is dropped is killed at once; if this program itself is killed, the kernel kills the agent, and a [guard](GuardProgram),
//! where there is one, the rest. On other systems
//! the process group is what is reached.

mod agent;
mod answers;
mod ask;
mod clocks;
mod control;
mod conversation;
mod dialogue;
mod driver;
mod environment;
mod error;
mod guard;
mod harness;
mod input;
mod journal;
mod locate;
mod marker;
mod message;
mod process;
mod running;
mod schema;
mod session;
mod spawn;
mod tee;
mod tree;

pub use agent::{Agent, Environment, Input, Limits, Options, RecordTo};
pub use answers::{
    Answers, ElicitationReply, HookEvent, HookQuestion, Permission, PermissionQuestion, Settled, SettledBy, Tool, ToolResult,
    ToolServer,
};
pub use ask::{Answer, Failure, ask};
pub use control::{Control, Sent, SessionError};
pub use conversation::Conversation;
pub use dialogue::{Delivery, Over};
pub use error::StartError;
pub use guard::{GuardProgram, guard};
pub use harness::{bin_variable, package};
pub use locate::{locate, locate_other};
pub use marker::VARIABLE as RUN_VARIABLE;
pub use message::{Message, Priority};
pub use process::Process;
pub use session::{Session, Turn, Turning};
pub use tee::{Host, Tee, Teed};

/// Whether everything that an agent starts is found and stopped with it on this system; else its process group is.
pub fn reaches_all() -> bool {
    tree::reaches_all()
}
pub use running::{Conclusion, Running, Seen, StopReason, Stopper, Update, now, report, report_not_started};
