//! The report: what tapline says about one stream. It is a public interface, described in docs/REPORT.md; keys are
//! never removed or renamed within a `schema` number.

mod collector;
mod path;
mod shape;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tapline_protocol::{Agent, Json, without_lone_surrogates};

pub use collector::Collector;
pub use path::{GetError, get};
pub use shape::check_path;

use crate::fold::{CodexPart, StreamStats};
use crate::format::StreamFormat;
use crate::ledger::Ledger;
use crate::step::{CallEnd, CallStatus, Denial, Hook, Retry, ServerAnswer, ServerCall, Setup, Turn};
use crate::verdict::{Category, Verdict};

/// The report on one stream. It is a value: it can be cloned, compared, written and read back.
///
/// ```
/// use tapline_protocol::Reader;
/// use tapline_session::{Collector, Ending, Fold, Outcome, Report, Run, StreamFormat};
///
/// let stream = br#"{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s"}"#;
/// let (mut fold, mut collector) = (Fold::default(), Collector::default());
/// for record in Reader::new(stream.as_slice()) {
///     fold.apply(&record?).iter().for_each(|step| collector.accept(step));
/// }
/// let ending = Ending::default();
/// let report = collector.report(fold.finish(&ending), StreamFormat::StreamJson, Run::default(), &ending);
/// assert_eq!((report.verdict.outcome, report.answer.as_deref()), (Outcome::Success, Some("Done.")));
/// let written = serde_json::to_string(&report)?;
/// assert_eq!(serde_json::from_str::<Report>(&written)?, report);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
#[expect(missing_docs, reason = "docs/REPORT.md describes each key")]
pub struct Report {
    pub schema: u32,
    #[serde(serialize_with = "agent_name", deserialize_with = "crate::step::reading::agent_named")]
    pub agent: Option<Agent>,
    pub format: StreamFormat,
    pub run: Run,
    pub session: SessionEntry,
    pub verdict: Verdict,
    pub answer: Option<String>,
    pub text: String,
    pub main_text: String,
    pub last_text: String,
    pub thinking: Vec<String>,
    pub prompts: Vec<String>,
    pub tools: Tools,
    pub turns: Vec<Turn>,
    pub ledger: Ledger,
    pub retries: Vec<Retry>,
    pub rate_limit: Option<Json>,
    pub rate_limit_events: u64,
    pub tasks: Vec<TaskEntry>,
    pub hooks: Vec<Hook>,
    pub assistant_errors: Vec<String>,
    pub partial: PartialTexts,
    pub background_launches: u64,
    pub codex: Option<CodexPart>,
    pub structured: Option<Json>,
    pub stream: StreamStats,
}

/// Returns an agent's name, or `unknown`.
pub(crate) fn name_of(agent: Option<Agent>) -> &'static str {
    agent.map_or("unknown", Agent::name)
}

#[expect(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
fn agent_name<S: serde::Serializer>(agent: &Option<Agent>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(name_of(*agent))
}

impl Report {
    /// Returns how long the run took, in milliseconds: see [`took_ms`].
    pub fn took_ms(&self) -> Option<f64> {
        let of_turns = self.turns.iter().filter_map(Turn::took_ms).reduce(|one, other| one + other);
        took_ms(of_turns, &self.verdict, &self.run)
    }

    /// Returns the report as JSON on one line.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        match without_lone_surrogates(&text) {
            Cow::Owned(text) => text,
            Cow::Borrowed(_) => text,
        }
    }
}

/// Returns how long a run took, in milliseconds, from the time of its turns: that is what its agent worked. A run without a turn that ended, or
/// that a clock has stopped, took as long as it ran.
#[expect(clippy::cast_precision_loss, reason = "nobody waits that long")]
pub fn took_ms(of_turns: Option<f64>, verdict: &Verdict, run: &Run) -> Option<f64> {
    let ran = run.duration_ms.map(|ms| ms as f64);
    if verdict.category == Some(Category::Timeout) { ran.or(of_turns) } else { of_turns.or(ran) }
}

/// Facts that only the program that ran the agent knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    /// When the run started (RFC 3339).
    pub started_at: Option<String>,
    /// How long the run took.
    pub duration_ms: Option<u64>,
    /// The number of attempts.
    pub attempts: u64,
    /// The caller's label for the run.
    pub label: Option<String>,
    /// The path of the recording.
    pub recording: Option<String>,
}

impl Default for Run {
    fn default() -> Self {
        Self { started_at: None, duration_ms: None, attempts: 1, label: None, recording: None }
    }
}

/// The session, from its first start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
#[expect(missing_docs, reason = "docs/REPORT.md describes each key")]
pub struct SessionEntry {
    pub id: Option<String>,
    pub ids: Vec<String>,
    pub inits: u64,
    #[serde(flatten)]
    pub setup: Setup,
}

/// Tool calls and results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
#[expect(missing_docs, reason = "docs/REPORT.md describes each key")]
pub struct Tools {
    pub calls: Vec<CallEntry>,
    pub orphan_results: Vec<OrphanEntry>,
    pub server_calls: Vec<ServerCall>,
    pub server_results: Vec<ServerAnswer>,
}

/// One tool call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
#[expect(missing_docs, reason = "docs/REPORT.md describes each key")]
pub struct CallEntry {
    pub id: Option<String>,
    pub name: String,
    pub input: Option<Json>,
    pub parent: Option<String>,
    pub title: String,
    pub status: CallStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<CallEnd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denial: Option<Denial>,
    pub result: Option<ResultEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// The result of a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
#[expect(missing_docs, reason = "docs/REPORT.md describes each key")]
pub struct ResultEntry {
    pub text: String,
    pub is_error: bool,
    pub line: u64,
    pub block: usize,
}

/// A result without a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
#[expect(missing_docs, reason = "docs/REPORT.md describes each key")]
pub struct OrphanEntry {
    pub tool_use_id: Option<String>,
    pub text: String,
    pub is_error: bool,
    pub parent: Option<String>,
    pub line: u64,
    pub block: usize,
}

/// The final state of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
#[expect(missing_docs, reason = "docs/REPORT.md describes each key")]
pub struct TaskEntry {
    pub id: String,
    pub status: String,
    pub terminal: bool,
    pub description: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// The text of the partial messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
#[expect(missing_docs, reason = "docs/REPORT.md describes each key")]
pub struct PartialTexts {
    pub text: String,
    pub thinking: String,
    pub json: String,
}
