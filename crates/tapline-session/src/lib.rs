//! What happened in an agent's run, and how it is shown: events to steps to a report.
//!
//! [`Fold`] turns records into [`Step`]s in bounded memory; each step is one thing that happened. It is the only place
//! that interprets events. A [`Collector`] adds steps up to a [`Report`], renderers show them, and checks judge them.
//! Nothing here reads files, clocks or terminals.
//!
//! ```
//! use tapline_protocol::Reader;
//! use tapline_session::{Collector, Ending, Fold, StreamFormat, Run};
//!
//! let stream = br#"{"type":"assistant","message":{"content":[{"type":"text","text":"4"}]}}
//! {"type":"result","subtype":"success","is_error":false,"result":"4","total_cost_usd":0.01,"num_turns":1}
//! "#;
//! let (mut fold, mut collector) = (Fold::default(), Collector::default());
//! for record in Reader::new(stream.as_slice()) {
//!     for step in fold.apply(&record?) {
//!         collector.accept(&step);
//!     }
//! }
//! let ending = Ending { exit_code: Some(0), ..Ending::default() };
//! let report = collector.report(fold.finish(&ending), StreamFormat::StreamJson, Run::default(), &ending);
//! assert_eq!(report.answer.as_deref(), Some("4"));
//! assert_eq!(report.ledger.cost_usd, Some(0.01));
//! assert!(report.verdict.clean);
//! # Ok::<(), std::io::Error>(())
//! ```

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

mod agents;
mod call;
pub mod check;
pub mod exit;
mod fold;
mod format;
mod host;
mod inquiry;
mod ledger;
pub mod otlp;
mod pattern;
pub mod permission;
pub mod plausible;
pub mod policy;
mod recent;
pub mod render;
mod report;
pub mod rulefile;
pub mod schema;
mod signals;
mod state;
pub mod step;
pub mod text;
mod time;
mod unwritten;
mod verdict;
mod words;

pub use agents::{denied_by_words, is_of_person, needs_a_person, resumes};
pub use fold::{CodexPart, Fold, ItemEntry, LineCounts, Rejected, SessionFacts, StreamStats, Summary, TurnCounts};
pub use format::StreamFormat;
pub use host::{Host, earlier_run};
pub use inquiry::{Inquiry, InquiryAnswers, InquiryOption};
pub use ledger::{Basis, Ledger, ModelTotals, Pricing, SessionTotals, cost_text};
pub use report::{
    CallEntry, Collector, GetError, OrphanEntry, PartialTexts, Report, ResultEntry, Run, SessionEntry, TaskEntry, Tools,
    check_path, get, took_ms,
};
pub use signals::{parse_signal, signal_name};
pub use state::{Patience, SessionPhase, SessionState};
pub use step::{Step, What};
pub use tapline_protocol::Tokens;
pub use time::{duration, parse_duration, parse_moment, parse_rfc3339, plain_duration, rfc3339, short_duration};
pub use unwritten::Unwritten;
pub use verdict::{
    Advice, Category, Clock, Ending, Exit, ExitClass, Outcome, RetryAdvice, UNCLEAN_CODES, UnknownWarning, Verdict,
    WARNING_CODES, Warned, Warning, warning_code,
};
pub use words::UnknownWord;

/// Checks that the README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
