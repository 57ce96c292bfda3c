//! What the agent itself would have printed in its other output modes.

mod messages;

use std::fmt;

use serde::Serialize;
use tapline_protocol::{Agent, Json, Record, without_lone_surrogates};

use crate::agents::profile;
use crate::report::Report;
use crate::step::{Step, Turn, What};
use crate::verdict::{Category, Outcome};
use messages::Messages;

/// Why there is nothing to print.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputError {
    /// This agent has no such mode.
    NoSuchMode(Agent),
    /// There is no result.
    NoResult,
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchMode(agent) => {
                write!(f, "{} does not have this output format", agent.name())
            }
            Self::NoResult => write!(f, "the stream has no result: {NO_RESULT}"),
        }
    }
}

impl std::error::Error for OutputError {}

const NO_RESULT: &str = "the run did not end, or its last lines are missing";

/// Keys of a `result` that only stream-json has.
const STREAM_ONLY: &[&str] = &["model_usage_since_last_result"];

/// Events that only stream-json has.
const STREAM_ONLY_EVENTS: &[&str] =
    &["stream_event", "control_request", "control_response", "control_cancel_request", "keep_alive"];

/// Keeps what the other modes print: the last result, and the messages if wanted.
#[derive(Debug, Default)]
pub struct Outputs {
    result: Option<(String, Turn)>,
    messages: Option<Messages>,
}

impl Outputs {
    /// Also keeps the messages, for a document with `messages`.
    pub fn with_messages() -> Self {
        Self { result: None, messages: Some(Messages::default()) }
    }

    /// Takes the next record and its steps. Steps without a record are of what was sent to the agent.
    pub fn accept(&mut self, record: Option<&Record>, steps: &[Step]) {
        for step in steps {
            match (&step.what, record) {
                (What::Turn(turn), Some(record)) => self.result = Some((record.text().into_owned(), (**turn).clone())),
                (What::Prompt { text }, None) => self.messages.iter_mut().for_each(|messages| messages.prompt(text)),
                _ => {}
            }
        }
        // What the agent says again is quiet.
        let is_again = !steps.is_empty() && steps.iter().all(|step| matches!(step.what, What::Quiet { .. }));
        if let (Some(messages), Some(record), false) = (&mut self.messages, record, is_again) {
            if steps.iter().any(|step| matches!(step.what, What::Item(_))) {
                messages.work(steps);
            } else {
                messages.accept(record);
            }
        }
    }

    /// Returns exactly what the agent prints as text.
    pub fn text(&self, agent: Option<Agent>, answer: Option<&str>) -> Result<String, OutputError> {
        let Some((_, turn)) = &self.result else { return Err(OutputError::NoResult) };
        // If no known agent wrote the stream, the result is shown as most agents write it.
        let text = profile(agent.unwrap_or_default()).text;
        text(turn, answer).ok_or(OutputError::NoResult)
    }

    /// Returns whether a turn has ended.
    pub fn has_result(&self) -> bool {
        self.result.is_some()
    }

    /// Returns what the agent prints as one JSON document.
    pub fn json(&self, agent: Option<Agent>) -> Result<String, OutputError> {
        has_documents(agent)?;
        let (line, _) = self.result.as_ref().ok_or(OutputError::NoResult)?;
        Ok(without_stream_keys(line, self.messages.as_ref(), None) + "\n")
    }

    /// One JSON document, however the run ended: what the agent prints. If the run failed, `category` and `error` are added unless
    /// the agent has them. If the agent printed nothing, or calls a failed run a success, the document says what the report says.
    pub fn document(&self, report: &Report) -> String {
        let failure = Failure::of(report);
        if let Some((line, _)) = self.result.as_ref().filter(|_| has_documents(report.agent).is_ok()) {
            return without_stream_keys(line, self.messages.as_ref(), failure);
        }
        let document = serde_json::to_string(&Document::of(report, failure)).unwrap_or_default();
        without_stream_keys(&without_lone_surrogates(&document), self.messages.as_ref(), None)
    }
}

/// Why a run failed, as a document says it.
#[derive(Debug, Serialize)]
struct Failure {
    is_error: bool,
    category: Option<Category>,
    error: DocumentError,
}

#[derive(Debug, Serialize)]
struct DocumentError {
    message: String,
    #[serde(rename = "type")]
    kind: &'static str,
}

impl Failure {
    fn of(report: &Report) -> Option<Self> {
        let verdict = &report.verdict;
        let kind = verdict.category.map_or(verdict.outcome.word(), Category::word);
        let message = verdict.error.clone().unwrap_or_else(|| NO_RESULT.to_owned());
        let failure = Self { is_error: true, category: verdict.category, error: DocumentError { message, kind } };
        (verdict.outcome != Outcome::Success).then_some(failure)
    }
}

/// A document in the shape of the agent's own.
#[derive(Debug, Serialize)]
struct Document<'r> {
    #[serde(rename = "type")]
    kind: &'static str,
    subtype: &'static str,
    duration_ms: Option<u64>,
    num_turns: usize,
    result: &'r str,
    session_id: Option<&'r str>,
    total_cost_usd: Option<f64>,
    usage: DocumentUsage,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_output: Option<&'r Json>,
    #[serde(flatten)]
    failure: Option<Failure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_error: Option<bool>,
}

#[derive(Debug, Serialize)]
struct DocumentUsage {
    input_tokens: u64,
    output_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
}

impl<'r> Document<'r> {
    fn of(report: &'r Report, failure: Option<Failure>) -> Self {
        let tokens = report.ledger.tokens;
        Self {
            kind: "result",
            subtype: if failure.is_some() { "error_during_execution" } else { "success" },
            duration_ms: report.run.duration_ms,
            num_turns: report.turns.len(),
            result: report.answer.as_deref().unwrap_or_default(),
            session_id: report.session.id.as_deref(),
            total_cost_usd: report.ledger.cost_usd,
            usage: DocumentUsage {
                input_tokens: tokens.input,
                output_tokens: tokens.output,
                cache_creation_input_tokens: tokens.cache_write(),
                cache_read_input_tokens: tokens.cache_read,
            },
            structured_output: report.structured.as_ref(),
            is_error: failure.is_none().then_some(false),
            failure,
        }
    }
}

/// Returns an error if the agent does not print JSON documents.
pub fn has_documents(agent: Option<Agent>) -> Result<(), OutputError> {
    match agent.filter(|agent| !profile(*agent).has_documents) {
        Some(agent) => Err(OutputError::NoSuchMode(agent)),
        None => Ok(()),
    }
}

/// Returns an event as an item of `--output-format json --verbose`, or `None` if it is not part of that.
pub fn verbose_item(record: &Record) -> Option<String> {
    let kind = record.envelope.kind.as_deref()?;
    if STREAM_ONLY_EVENTS.contains(&kind) {
        return None;
    }
    let text = record.text();
    Some(if kind == "result" { without_stream_keys(&text, None, None) } else { text.into_owned() })
}

/// Returns a result as the document modes print it: the same entries in the same order, without those that only the
/// stream has.
fn without_stream_keys(line: &str, messages: Option<&Messages>, failure: Option<Failure>) -> String {
    let failure = failure.and_then(|failure| serde_json::to_value(failure).ok());
    let failure = failure.as_ref().and_then(serde_json::Value::as_object);
    let kept = Json::parse(line).ok().and_then(|json| {
        json.with(|value| {
            // What the agent itself says of its failure stays.
            let says_so = value.get("is_error").is_some_and(|is_error| is_error.raw() == "true");
            let is_added =
                |key: &str| failure.is_some_and(|failure| failure.contains_key(key)) && !(says_so && value.get(key).is_some());
            let is_replaced =
                |key: &str| STREAM_ONLY.contains(&key) || messages.is_some() && key == "messages" || is_added(key);
            let entries = value.entries()?.filter(|(key, _)| !is_replaced(key));
            let mut parts: Vec<_> = entries.map(|(key, value)| format!("{}:{}", quoted(&key), value.raw())).collect();
            let added = failure.into_iter().flatten().filter(|(key, _)| is_added(key));
            parts.extend(added.map(|(key, value)| format!("{}:{value}", quoted(key))));
            parts.extend(messages.map(|messages| format!("\"messages\":{}", messages.to_json())));
            Some(format!("{{{}}}", parts.join(",")))
        })
    });
    kept.flatten().unwrap_or_else(|| line.to_owned())
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}
