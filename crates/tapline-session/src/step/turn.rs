//! The end of a turn, and the totals of all turns up to it.

use serde::{Deserialize, Serialize};
use tapline_protocol::totals::{Cost, Errors, ModelUsages, RawUsage};
use tapline_protocol::{Json, Number};

use super::{pairs, reading};
use crate::ledger::Ledger;
use crate::verdict::Category;

/// A turn that has ended, from its `result`. It is an entry of the report's `turns[]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Turn {
    /// The index among the turns, from 0.
    pub index: usize,
    /// `success`, `error_max_turns`, … (other agents: `completed`, `failed`)
    pub subtype: Option<String>,
    /// Whether `is_error` was literally true.
    pub is_error: bool,
    /// The agent's final text.
    pub result: Option<String>,
    /// The errors, if the agent lists them.
    pub errors: Option<Errors>,
    /// Why the model stopped.
    pub stop_reason: Option<String>,
    /// Why the turn ended.
    pub terminal_reason: Option<String>,
    /// The API's HTTP status.
    pub api_error_status: Option<Number>,
    /// The number of requests to the model, as the agent counts them.
    pub num_turns: Option<Number>,
    /// The duration of the turn.
    pub duration_ms: Option<Number>,
    /// The time spent waiting for the model.
    pub duration_api_ms: Option<Number>,
    /// Denied calls, unchanged.
    pub permission_denials: Vec<Json>,
    /// The structured answer.
    pub structured_output: Option<Json>,
    /// A deferred call.
    pub deferred_tool_use: Option<Json>,
    /// The uuid of the result.
    pub uuid: Option<String>,
    /// What started the turn.
    pub origin: Option<Json>,
    /// `error`, unchanged.
    pub error: Option<Json>,
    /// Whether the turn failed.
    pub failed: bool,
    /// The tokens of this turn's main thread. Other keys are unchanged.
    pub usage: RawUsage,
    /// The total cost that the agent reported.
    pub total_cost_usd: Option<Cost>,
    /// What the agent reported for each model.
    pub model_usage: Option<ModelUsages>,
    /// What this turn cost.
    pub cost_usd: Option<f64>,
    /// The time from the turn's prompt or first event to its end, by arrival. `duration_ms` is the agent's own figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
    /// What else the agent says of the turn, unchanged: keys that this version does not know, too.
    #[serde(skip_serializing_if = "reading::is_default", serialize_with = "pairs::write", deserialize_with = "pairs::read")]
    pub own: Vec<(String, Json)>,
    /// The error message for people. This and what follows are in steps alone: a report says it elsewhere.
    #[serde(skip_serializing_if = "reading::is_default")]
    pub message: Option<String>,
    /// Whether the result repeats the last text of the main thread.
    #[serde(skip_serializing_if = "reading::is_default")]
    pub repeats_text: bool,
    /// Why the turn failed.
    #[serde(skip_serializing_if = "reading::is_default")]
    pub category: Option<Category>,
    /// The totals of all turns up to this one.
    #[serde(skip_serializing_if = "reading::is_default")]
    pub so_far: SoFar,
    /// What the turn's thread has used so far, unchanged, if the agent counts by thread.
    #[serde(skip_serializing_if = "reading::is_default")]
    pub thread_usage: Option<Json>,
}

/// The totals of all turns up to one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SoFar {
    /// The number of requests to the model, as the agent counts them, or else of turns.
    pub turns: u64,
    /// The duration.
    pub duration_ms: Option<f64>,
    /// The usage and cost, without the list of models.
    pub ledger: Ledger,
    /// The number of denied calls.
    pub denials: u64,
    /// Whether something went wrong on the way: see [`Verdict::clean`](crate::Verdict).
    pub blemished: bool,
    /// Whether the turn's result is not of the agent's own shape, so that it does not say how the turn ended.
    pub foreign: bool,
}

impl Turn {
    /// Returns whether the turn failed because it was interrupted.
    pub fn is_aborted(&self) -> bool {
        self.failed && self.terminal_reason.as_deref().is_some_and(|reason| reason.starts_with("aborted_"))
    }

    /// Returns how long the turn took, in milliseconds: as the agent says, or else by arrival.
    #[expect(clippy::cast_precision_loss, reason = "nobody waits that long")]
    pub fn took_ms(&self) -> Option<f64> {
        self.duration_ms.as_ref().map(Number::as_f64).or(self.elapsed_ms.map(|ms| ms as f64))
    }

    /// Returns the agent's answer: the text of the result, or else `said`.
    pub fn answer_or(&self, said: Option<String>) -> String {
        self.result.clone().filter(|text| !text.is_empty()).or(said).unwrap_or_default()
    }

    /// Returns the text of the result, unless it repeats an earlier text.
    pub fn news(&self) -> Option<&str> {
        self.result.as_deref().map(str::trim).filter(|text| !text.is_empty() && !self.repeats_text && !self.failed)
    }
}
