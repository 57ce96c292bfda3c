//! Everything between programs and their headless coding agents.
//!
//! `claude --output-format stream-json` and `codex exec --json` write a line of JSON for everything they do.
//! tapline reads those lines without losing one, says what happened, and shows it.
//!
//! * [`Reader`], [`Decoder`], [`Input`]: bytes to [`Record`]s. Decoding never fails; a record keeps its exact bytes.
//! * [`Fold`]: records to [`Step`]s, in bounded memory, live.
//! * [`Collector`], [`Report`]: what it all adds up to: [`Verdict`], [`Ledger`], answer, calls.
//!
//! ```
//! use std::io::BufReader;
//! use tapline::{Ending, Outcome, read_report};
//!
//! # let file: &[u8] = br#"{"type":"result","subtype":"success","is_error":true,"result":"API Error: 429","session_id":"s"}"#;
//! // let file = std::fs::File::open("run.jsonl")?;
//! let report = read_report(BufReader::new(file), &Ending::default())?;
//! assert_eq!(report.verdict.outcome, Outcome::Failure); // whatever the subtype says
//! assert_eq!(report.verdict.category, Some(tapline::Category::RateLimit));
//! assert_eq!(report.session.id.as_deref(), Some("s"));
//! # Ok::<(), std::io::Error>(())
//! ```

use std::io::{self, BufRead};

pub use tapline_protocol as protocol;
pub use tapline_session as session;

pub use tapline_protocol::{
    Agent, Decoder, Envelope, Event, Input, InputFormat, InputShape, Json, Number, Reader, Record, Value,
};
pub use tapline_session::{
    Advice, Category, Collector, Ending, Fold, Format, Ledger, Outcome, Report, Run, Step, Summary, TokenCounts, Verdict,
    Warning, What, get,
};

/// Reads a whole stream, of either agent and any shape, and says what happened.
pub fn read_report(source: impl BufRead, ending: &Ending) -> io::Result<Report> {
    let mut input = Input::open(source, InputFormat::Auto, Decoder::default())?;
    let (mut fold, mut collector) = (Fold::default(), Collector::default());
    for record in &mut input {
        for step in fold.apply(&record?) {
            collector.accept(&step);
        }
    }
    let summary = fold.finish(ending);
    let format = Format::of(input.shape(), summary.agent);
    Ok(collector.report(summary, format, Run::default(), ending))
}
