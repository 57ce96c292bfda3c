//! Converts Claude Code's counts for the ledger.

use tapline_protocol::claude::message::{Message, RawUsage, Usage};
use tapline_protocol::claude::result::{ModelUsage, ModelUsages, TurnResult};
use tapline_protocol::{Count, Read as _, Record, Tokens, Value};

use crate::fold::{Fold, Steps};
use crate::ledger::{MessageUsage, ModelTotals, ModelsUsage, ResultUsage, exact_dollars, plausible};
use crate::plausible::{MOST_SEARCHES, MOST_TOKENS, implausible, is_cost};

/// Returns what one request used, as far as that can be true.
pub(super) fn of_request(usage: &Usage) -> Tokens {
    plausible(usage.tokens())
}

/// Returns the usage of a message.
pub(super) fn of_message(message: &Message) -> MessageUsage<'_> {
    let usage = message.usage.as_deref();
    let searches = usage.map_or(0, searches_of);
    MessageUsage { id: message.id.as_deref(), model: message.model.as_deref(), counts: usage.map(of_request), searches }
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
    ResultUsage {
        total_usd: turn.total_cost().map(|cost| cost.usd).filter(|usd| is_cost(*usd)),
        turn: counts.map(|usage| (plausible(usage.tokens()), searches_of(usage))),
        models: turn.model_usage.as_ref().map(of_models),
        since_last: turn.model_usage_since_last_result.as_ref().map(of_models),
        is_resumed: turn.resume_reason.is_some(),
        is_failed: turn.failed(),
    }
}

/// Returns how many web searches the API ran.
pub(super) fn searches_of(usage: &Usage) -> u64 {
    usage.server_tool_use.as_ref().map_or(0, |used| of_searches(used.web_search_requests))
}

fn of_searches(count: Count) -> u64 {
    if count.0 > MOST_SEARCHES { 0 } else { count.0 }
}

fn of_models(usages: &ModelUsages) -> ModelsUsage {
    let models = usages.by_model();
    let of_model = |usage: &ModelUsage| ModelTotals {
        tokens: plausible(usage.tokens()),
        cost_usd: usage.cost_usd.as_ref().filter(|cost| is_cost(cost.usd)).map(|cost| exact_dollars(cost.usd)),
    };
    ModelsUsage {
        web_searches: models.values().map(|usage| of_searches(usage.web_search_requests)).fold(0, u64::saturating_add),
        are_counted: usages.are_counted(),
        models: models.iter().map(|(model, usage)| (model.clone(), of_model(usage))).collect(),
    }
}

/// Returns the counts of a turn without those that cannot be true.
pub(super) fn without_implausible(mut usage: RawUsage) -> RawUsage {
    let counts = &mut usage.counts;
    let Usage { input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens, .. } = counts;
    for count in [input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens] {
        count.0 = if count.0 > MOST_TOKENS { 0 } else { count.0 };
    }
    usage
}

impl Fold {
    /// Warns about the counts of a request that cannot be true.
    pub(super) fn warn_of_request(&mut self, usage: Option<&Usage>, out: &Steps<'_>) {
        // What is negative was read as 0. That is rare elsewhere, and the line is parsed again only then.
        let is_strange = |usage: &Usage| {
            let counts = usage.tokens();
            counts.input == 0 || counts.output == 0 || counts != of_request(usage)
        };
        if usage.is_some_and(is_strange) && !self.in_document {
            self.warn_of_figures(out);
        }
    }

    /// Warns about costs and counts of this line that cannot be true. They do not count.
    pub(in crate::fold) fn warn_of_figures(&mut self, out: &Steps<'_>) {
        for figure in out.record.with(implausible).unwrap_or_default() {
            self.ledger.refused();
            let message = format!("{figure}, which cannot be true: it does not count");
            self.warnings.add("implausible-figure", Some(out.record.line), message);
        }
    }
}
