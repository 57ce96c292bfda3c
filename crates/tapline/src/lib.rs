//! Run, drive and read headless coding agents (`claude -p`, `codex exec`).
//!
//! The simplest use: ask, and get an answer or the reason for the failure.
//!
//! ```no_run
//! # #[cfg(feature = "run")]
//! # async fn example() -> Result<(), tapline::Failure> {
//! let answer = tapline::ask("What does this project do?").await?;
//! println!("{answer}");
//! # Ok(())
//! # }
//! ```
//!
//! A conversation: each turn returns a value, and a callback answers the agent's permission requests.
//!
//! ```no_run
//! # #[cfg(feature = "run")]
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use tapline::{Agent, Permission};
//!
//! let mut session = Agent::claude()
//!     .on_permission(|question| async move {
//!         if question.tool == "Write" { Permission::deny("no writes today") } else { Permission::allow() }
//!     })
//!     .session()
//!     .await?;
//! println!("{}", session.turn("Look at the failing test.").await?.answer);
//! session.set_permission_mode("acceptEdits").await?;
//! println!("{}", session.turn("Make it pass.").await?.answer);
//! let report = session.finish().await;
//! # Ok(())
//! # }
//! ```
//!
//! The report on a recording or on a file with a stream, without tokio (`default-features = false`, feature `archive`):
//!
//! ```no_run
//! # #[cfg(feature = "archive")]
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let report = tapline::report("run.jsonl")?; // or the folder of a recording
//! println!("{}: {:?}", report.verdict.outcome, report.ledger.cost_usd);
//! assert_eq!(report, serde_json::from_str(&serde_json::to_string(&report)?)?); // a report is a value
//! # Ok(())
//! # }
//! ```
//!
//! The module `guide` has an example of every main type.
//!
//! * [`Agent`]: what to start, and its limits. `start` returns a run with one verdict, and `session` a conversation.
//!   However it ends, no process is left behind.
//! * [`Session`], [`Control`]: turns and control requests. [`Permissions`], [`Permission`], [`HookEvent`], [`Tool`]:
//!   answers to the agent's requests. [`Conversation`]: the same for Codex, with one run per turn.
//! * [`Reader`], [`Decoder`], [`Input`]: turn bytes into [`Record`]s. Decoding never fails; a record keeps its exact bytes.
//! * [`Fold`]: turns records into [`Step`]s, live and in bounded memory.
//! * [`Collector`], [`Report`]: the sum of all steps: [`Verdict`], [`Ledger`], answer, tool calls.

#![forbid(unsafe_code)]

#[cfg(feature = "archive")]
pub use tapline_archive as archive;
pub use tapline_protocol as protocol;
#[cfg(feature = "archive")]
pub use tapline_recording as recording;
#[cfg(feature = "run")]
pub use tapline_runner as runner;
pub use tapline_session as session;

#[cfg(feature = "archive")]
pub use tapline_archive::{Source, SourceError, report, report_of, report_of_bytes};
pub use tapline_protocol::control::{HookReply, PermissionUpdate, Request};
pub use tapline_protocol::{
    Agent as AgentKind, Decoder, Envelope, Event, Input, InputFormat, InputShape, Json, Moment, Number, Reader, Record,
    StopReason, Value,
};
#[cfg(feature = "run")]
pub use tapline_runner::{
    Agent, Answer, Answers, Control, Conversation, Delivery, ElicitationReply, Failure, HookEvent, HookQuestion, Instead,
    Message, Over, Permission, PermissionQuestion, Priority, Refusal, RunOption, Running, RunningTurn, Sent, Session,
    SessionError, SettingSource, Settled, SettledBy, StartError, Stopper, SubAgent, Tool, ToolResult, ToolServer, TurnReport,
    Update, ask,
};
pub use tapline_session::{
    Advice, Category, Collector, Ending, Fold, Inquiry, InquiryAnswers, InquiryOption, Ledger, Outcome, Report, Run, Step,
    StreamFormat, Summary, Tokens, Verdict, Warning, What, check_path, get,
};

pub use tapline_session::permission::{Permissions, Rule, Ruling};

#[cfg(feature = "run")]
#[doc = include_str!("guide.md")]
pub mod guide {}

/// Checks that the examples in the READMEs compile.
#[cfg(all(doctest, feature = "run"))]
mod readme {
    #[doc = include_str!("../README.md")]
    struct OfTheCrate;
    #[doc = include_str!("../../../README.md")]
    struct OfTheProject;
}
