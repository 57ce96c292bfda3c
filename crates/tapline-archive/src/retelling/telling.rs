//! What the tellers of all agents have in common: what they tell, and how a line of a stream is written.

use tapline_protocol::{Json, Moment, Value};
use tapline_session::{SessionPhase, parse_moment};

/// One thing that a transcript says, for the stream that is made of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum StreamPart {
    /// A line of a stream, and when it was written.
    Line(String, Option<Moment>),
    /// A turn begins, for agents whose streams do not say it.
    Turn,
    /// A prompt of a person, for agents that do not repeat prompts in their streams.
    Prompt(String, Option<Moment>),
}

/// Turns an agent's transcript into a stream, line by line.
pub(super) trait Teller: Send + std::fmt::Debug {
    /// Tells a line. `clean` removes secrets from the text of other files that belong to the transcript.
    fn line(&mut self, line: Value<'_>, clean: &dyn Fn(String) -> String, told: &mut Vec<StreamPart>);
    /// Tells what the end of the file shows.
    fn end(&mut self, clean: &dyn Fn(String) -> String, told: &mut Vec<StreamPart>);
    /// Returns whether a person interrupted the last turn.
    fn is_interrupted(&self) -> bool;
    /// Returns how the last turn ended, if it has ended and this was not told yet.
    fn untold_end(&self) -> Option<SessionPhase> {
        None
    }
    /// Returns how the ends of turns are known, if no line says them outright.
    fn infers(&self) -> Option<&'static str>;
    /// Looks at a line before the stream begins: the first lines of a stream have facts that a transcript has later.
    fn look(&mut self, line: Value<'_>);
    /// Returns whether a look at further lines can tell more.
    fn looks_on(&self) -> bool;
    /// Returns what the session was started with, as far as no line of a stream can say it.
    fn about(&self) -> About;
}

/// What a session was started with.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    pub(crate) model: Option<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) version: Option<String>,
    /// Whether its totals go on from those of the session that it was forked from.
    pub(crate) goes_on: bool,
}

/// Writes a line of a stream: keys, and values that are JSON already. A value that is missing is left out.
pub(super) fn line_of(pairs: &[(&str, Option<&str>)]) -> String {
    let pairs = pairs.iter().filter_map(|(key, value)| Some(format!("\"{key}\":{}", (*value)?)));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
}

/// Returns text as JSON.
pub(super) fn json(text: &str) -> String {
    Json::of(&text).as_str().to_owned()
}

/// Returns a string, if the value is one that is not empty.
pub(super) fn text(value: Option<Value<'_>>) -> Option<String> {
    value.and_then(Value::as_str).filter(|text| !text.is_empty()).map(std::borrow::Cow::into_owned)
}

/// Returns when a line was written.
pub(super) fn written(line: Value<'_>) -> Option<Moment> {
    parse_moment(&line.get("timestamp").and_then(Value::as_str)?)
}
