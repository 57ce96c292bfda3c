//! Reports on recordings and streams.
//!
//! [`report`] turns a recording or a file into a [`Report`]; [`report_of`] does it for any reader, and
//! [`report_of_bytes`] for bytes. They use everything tapline knows: which agent wrote the stream, how the run ended,
//! what was sent to the agent, and what earlier attempts cost. A [`Source`] returns the steps one by one.
//!
//! ```
//! let report = tapline_archive::report_of_bytes(
//!     br#"{"type":"result","subtype":"success","is_error":false,"result":"4","total_cost_usd":0.01,"num_turns":1}"#,
//! );
//! assert_eq!(report.answer.as_deref(), Some("4"));
//! assert_eq!(report.ledger.cost_usd, Some(0.01));
//! ```
//!
//! ```no_run
//! let report = tapline_archive::report("run.jsonl")?; // or the folder of a recording
//! println!("{}: {:?}", report.verdict.outcome, report.ledger.cost_usd);
//! # Ok::<(), tapline_archive::SourceError>(())
//! ```

#![forbid(unsafe_code)]

mod clean;
mod cost;
mod database;
mod earlier;
mod error;
pub mod export;
pub mod facts;
mod growing;
mod index;
pub mod kept;
mod lines;
mod load;
mod money;
mod packed;
mod places;
mod prices;
mod prompts;
mod recorded;
mod retelling;
pub mod runs;
mod said;
mod scan;
mod sealed;
pub mod search;
mod sent;
pub mod sessions;
mod shares;
mod source;
pub mod stats;
pub mod telemetry;
mod transcripts;

use std::io::Read;
use std::path::Path;

pub use clean::CleanRecords;
pub use cost::{CostBasis, list_price};
pub use earlier::{fold_resumes, used_before};
pub use error::{ArchiveError, SourceError};
pub use facts::project;
pub use index::{Index, IndexedFile, Progress, Updated};
pub use load::{DamagedFile, Reader, Request, Selection, SessionFacts, load};
pub use money::Money;
pub use places::{FolderMemory, Found, Places};
pub use prices::{Asked, EarlierRates, LongRates, Prices, PricesError, Rates, Speed, TokenRates};
pub use recorded::Note;
pub use source::{Advance, Finished, Source, SourceOptions};
pub use tapline_protocol::Tokens;
use tapline_session::Report;
pub use transcripts::is_of_subagent;

/// Reports on a recording, or on a file with a stream of any known agent and format.
pub fn report(path: impl AsRef<Path>) -> Result<Report, SourceError> {
    Source::open(path.as_ref(), SourceOptions::default())?.report()
}

/// Reads a stream to its end and reports on it.
pub fn report_of(reader: impl Read) -> Result<Report, SourceError> {
    Source::of("the stream", reader, SourceOptions::default())?.report()
}

/// Reports on a stream that is in memory.
pub fn report_of_bytes(bytes: &[u8]) -> Report {
    // Reading from memory cannot fail.
    report_of(bytes).unwrap_or_default()
}

/// Checks that the README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
