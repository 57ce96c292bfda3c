//! What the API says about a session: the shapes of its JSON.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tapline_protocol::{Json, Moment, Tokens, by_kind};
use tapline_session::{Inquiry, SessionState};

/// How many characters of a title are shown.
const TITLE: usize = 300;

/// A session in the list.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) agent: String,
    pub(crate) title: String,
    pub(crate) project: Option<String>,
    pub(crate) folder: Option<String>,
    pub(crate) branch: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) state: State,
    pub(crate) now: Option<Now>,
    pub(crate) cost_usd: Option<f64>,
    pub(crate) cost_exact: bool,
    #[serde(with = "by_kind")]
    pub(crate) tokens: Tokens,
    pub(crate) context_used: Option<f64>,
    pub(crate) started_at: Option<String>,
    pub(crate) updated_at: Option<String>,
    pub(crate) source: Origin,
    pub(crate) steps: usize,
    pub(crate) questions: Vec<OpenQuestion>,
    pub(crate) controllable: bool,
    /// Whether it takes messages from here.
    pub(crate) messages: bool,
    /// The names of the recordings of its earlier runs, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) earlier: Vec<String>,
}

impl Row {
    /// Returns whether another row of the session has only other numbers: what it costs, how far it is, and when that was.
    pub(crate) fn differs_in_numbers(&self, other: &Self) -> bool {
        let numbers =
            |row: &Self| (row.cost_usd, row.cost_exact, row.tokens, row.context_used, row.steps, row.updated_at.clone());
        let (cost_usd, cost_exact, tokens, context_used, steps, updated_at) = numbers(self);
        let alike = Self { cost_usd, cost_exact, tokens, context_used, updated_at, steps, ..other.clone() };
        alike == *self && numbers(self) != numbers(other)
    }
}

/// How a session stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct State {
    pub(crate) kind: SessionState,
    pub(crate) since: Option<String>,
    pub(crate) until: Option<String>,
    pub(crate) message: Option<String>,
}

/// What a session does now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Now {
    pub(crate) tool: String,
    pub(crate) summary: String,
    pub(crate) since: Option<String>,
}

/// A question that waits for a person.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct OpenQuestion {
    pub(crate) id: String,
    /// An answer names it, too: it says what was shown to whoever answers.
    pub(crate) digest: String,
    pub(crate) tool: String,
    /// The beginning of what it asks, on one line.
    pub(crate) summary: String,
    pub(crate) since: Option<String>,
    /// How many bytes the whole input has, and about how many lines.
    pub(crate) size: usize,
    pub(crate) lines: usize,
    /// Whether it is answered with options.
    pub(crate) has_options: bool,
    /// All of it, if it is small. A larger one is asked for.
    pub(crate) text: Option<QuestionText>,
    /// How it was answered here, until the agent goes on.
    pub(crate) answered: Option<&'static str>,
}

/// All that a question asks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct QuestionText {
    pub(crate) tool: String,
    pub(crate) input: Json,
    /// What can be chosen, if it is answered with options.
    pub(crate) options: Vec<Inquiry>,
}

/// Where a session was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Origin {
    Recording,
    #[default]
    Transcript,
    Push,
}

/// What the side panel of a session shows.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Details {
    pub(crate) turns: Vec<TurnRow>,
    pub(crate) agents: Vec<AgentRow>,
    pub(crate) spans: Vec<SpanRow>,
    pub(crate) verdict: Value,
    /// The verdict as the page shows it, once the run has ended.
    pub(crate) ending: String,
}

/// A turn.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct TurnRow {
    pub(crate) n: usize,
    pub(crate) started_at: Option<String>,
    pub(crate) duration_ms: Option<u64>,
    pub(crate) cost_usd: Option<f64>,
    #[serde(with = "by_kind")]
    pub(crate) tokens: Tokens,
}

/// A sub-agent.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct AgentRow {
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) first_step: Option<usize>,
}

/// When a call ran.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct SpanRow {
    pub(crate) step: usize,
    pub(crate) name: String,
    pub(crate) start: String,
    pub(crate) end: Option<String>,
    pub(crate) agent: Option<String>,
}

/// A step of a session.
#[derive(Debug, Serialize)]
pub(crate) struct StepRow<'a> {
    pub(crate) n: usize,
    pub(crate) kind: &'a str,
    pub(crate) time: Option<String>,
    pub(crate) agent: Option<&'a str>,
    pub(crate) html: &'a str,
}

/// Writes a time as RFC 3339.
pub(crate) fn written(moment: Moment) -> Option<String> {
    written_ms(moment.as_millis())
}

/// Writes a time in milliseconds since 1970 as RFC 3339.
pub(crate) fn written_ms(millis: u64) -> Option<String> {
    Timestamp::from_millisecond(i64::try_from(millis).ok()?).ok().map(|time| time.to_string())
}

/// Returns the time.
pub(crate) fn now() -> Moment {
    Moment::from_millis(Timestamp::now().as_millisecond().max(0).cast_unsigned())
}

/// Returns as much of a text as a row shows: whoever writes it does not decide how large the list is.
pub(crate) fn cut(text: &str) -> String {
    text.chars().take(TITLE).collect()
}
