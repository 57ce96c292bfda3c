//! Converts Claude Code's counts for the ledger.

use tapline_protocol::claude::message::{Message, RawUsage, Usage};
use tapline_protocol::claude::result::{ModelUsage, ModelUsages, TurnResult};
use tapline_protocol::{Count, Read as _, Record, Value};

use crate::ledger::{MessageUsage, ModelTotals, ResultUsage, TokenCounts, exact_dollars};

impl From<&Usage> for TokenCounts {
    fn from(usage: &Usage) -> Self {
        Self {
            input: usage.input_tokens.0,
            output: usage.output_tokens.0,
            cache_read: usage.cache_read_input_tokens.0,
            cache_write: usage.cache_creation_input_tokens.0,
            reasoning: usage.output_tokens_details.as_ref().map_or(0, |details| details.thinking_tokens.0),
        }
    }
}

impl From<&ModelUsage> for TokenCounts {
    fn from(usage: &ModelUsage) -> Self {
        Self {
            input: usage.input_tokens.0,
            output: usage.output_tokens.0,
            cache_read: usage.cache_read_input_tokens.0,
            cache_write: usage.cache_creation_input_tokens.0,
            reasoning: usage.thinking_tokens.0,
        }
    }
}

/// Returns the usage of a message.
pub(super) fn of_message(message: &Message) -> MessageUsage<'_> {
    MessageUsage {
        id: message.id.as_deref(),
        model: message.model.as_deref(),
        counts: message.usage.as_ref().map(TokenCounts::from),
    }
}

/// Returns whether the usage of a result has a count, which may be 0.
fn counts_tokens(result: Value<'_>) -> bool {
    let counts = |usage: Value<'_>| RawUsage::COUNTED.iter().any(|key| usage.get(key).and_then(Count::read).is_some());
    result.get("usage").is_some_and(counts)
}

/// Returns the usage of a turn, and of its process so far, from its result.
pub(super) fn of_result(turn: &TurnResult, record: &Record) -> ResultUsage {
    let counts = turn.usage.as_ref().map(|usage| &usage.counts);
    let counts = counts.filter(|counts| **counts != Usage::default() || record.with(counts_tokens) == Some(true));
    let searches = |usage: &Usage| usage.server_tool_use.as_ref().map_or(0, |counts| counts.web_search_requests.0);
    let of_model = |usage: &ModelUsage| ModelTotals {
        tokens: TokenCounts::from(usage),
        cost_usd: usage.cost_usd.as_ref().map(|cost| exact_dollars(cost.usd)),
    };
    let models = turn.model_usage.as_ref().map(ModelUsages::by_model);
    let searches_of_models = models.iter().flat_map(|models| models.values()).map(|usage| usage.web_search_requests.0);
    ResultUsage {
        total_usd: turn.total_cost().map(|cost| cost.usd),
        turn: counts.map(|usage| (TokenCounts::from(usage), searches(usage))),
        models_counted: turn.model_usage.as_ref().is_some_and(ModelUsages::are_counted),
        searches_of_models: searches_of_models.fold(0, u64::saturating_add),
        models: models.map(|models| models.into_iter().map(|(model, usage)| (model, of_model(&usage))).collect()),
        is_resumed: turn.resume_reason.is_some(),
    }
}
