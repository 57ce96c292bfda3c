//! What the agent itself would have printed in its other output modes.

use std::fmt;

use tapline_protocol::{Agent, Json, Kind, Record, Value};

use crate::agents::profile;
use crate::step::{Step, Turn, What};

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
            Self::NoResult => f.write_str("the stream has no result: the run did not end, or its last lines are missing"),
        }
    }
}

impl std::error::Error for OutputError {}

/// Keys that a `result` has in stream-json alone.
const STREAM_ONLY: &[&str] = &["model_usage_since_last_result"];

/// Events that exist in stream-json alone.
const STREAM_ONLY_EVENTS: &[&str] =
    &["stream_event", "control_request", "control_response", "control_cancel_request", "keep_alive"];

/// Keeps what the other modes print: the last result, and the messages if they are wanted.
#[derive(Debug, Default)]
pub struct Outputs {
    result: Option<(String, Turn)>,
    messages: Option<Vec<String>>,
}

impl Outputs {
    /// With `messages`, for seed 001's document.
    pub fn with_messages() -> Self {
        Self { result: None, messages: Some(Vec::new()) }
    }

    /// Takes the next record and its steps.
    pub fn accept(&mut self, record: &Record, steps: &[Step]) {
        for step in steps {
            if let What::Turn(turn) = &step.what {
                self.result = Some((record.text().into_owned(), (**turn).clone()));
            }
        }
        if let Some(messages) = &mut self.messages {
            messages.extend(messages_of(record));
        }
    }

    /// What the agent prints as text, to the byte.
    pub fn text(&self, agent: Option<Agent>, answer: Option<&str>) -> Result<String, OutputError> {
        let Some((_, turn)) = &self.result else { return Err(OutputError::NoResult) };
        // Of a stream that no known agent wrote, the result is shown as most write it.
        let text = profile(agent.unwrap_or_default()).text;
        text(turn, answer).ok_or(OutputError::NoResult)
    }

    /// What the agent prints as one JSON document.
    pub fn json(&self, agent: Option<Agent>) -> Result<String, OutputError> {
        has_documents(agent)?;
        let (line, _) = self.result.as_ref().ok_or(OutputError::NoResult)?;
        let messages = self.messages.as_ref().map(|messages| format!("[{}]", messages.join(",")));
        Ok(without_stream_keys(line, messages.as_deref()) + "\n")
    }
}

/// Whether the agent prints JSON documents, too.
pub fn has_documents(agent: Option<Agent>) -> Result<(), OutputError> {
    match agent.filter(|agent| !profile(*agent).has_documents) {
        Some(agent) => Err(OutputError::NoSuchMode(agent)),
        None => Ok(()),
    }
}

/// An event as it stands in the array of `--output-format json --verbose`, or nothing if it does not.
pub fn verbose_item(record: &Record) -> Option<String> {
    let kind = record.envelope.kind.as_deref()?;
    if STREAM_ONLY_EVENTS.contains(&kind) {
        return None;
    }
    let text = record.text();
    Some(if kind == "result" { without_stream_keys(&text, None) } else { text.into_owned() })
}

/// A result as the document modes print it: the same entries in the same order but for those of the stream.
fn without_stream_keys(line: &str, messages: Option<&str>) -> String {
    let kept = Json::parse(line).ok().and_then(|json| {
        json.with(|value| {
            let entries =
                value.entries()?.filter(|(key, _)| !STREAM_ONLY.contains(&&**key) && (messages.is_none() || key != "messages"));
            let mut parts: Vec<_> = entries.map(|(key, value)| format!("{}:{}", quoted(&key), value.raw())).collect();
            parts.extend(messages.map(|messages| format!("\"messages\":{messages}")));
            Some(format!("{{{}}}", parts.join(",")))
        })
    });
    kept.flatten().unwrap_or_else(|| line.to_owned())
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// A record's messages in the shape of seed 001: type, content, and the model of an answer.
fn messages_of(record: &Record) -> Vec<String> {
    let read = |value: Value<'_>| {
        if let Some(messages) = value.get("messages").and_then(Value::items) {
            return messages.map(|message| message.raw().to_owned()).collect();
        }
        let kind = record.envelope.kind.as_deref().filter(|kind| matches!(*kind, "user" | "assistant"));
        let body = value.get("message").filter(|message| message.kind() == Kind::Object).unwrap_or(value);
        let model = body.get("model").map(|model| format!(",\"model\":{}", model.raw())).unwrap_or_default();
        let content = body.get("content").map(Value::raw);
        let message = kind.zip(content).map(|(kind, content)| format!("{{\"type\":\"{kind}\",\"content\":{content}{model}}}"));
        message.into_iter().collect()
    };
    record.with(read).unwrap_or_default()
}
