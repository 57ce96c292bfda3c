//! Why a turn of Claude's failed: from what the stream says explicitly, then from the error text.

use tapline_protocol::Number;
use tapline_protocol::claude::result::TurnResult;

use crate::text::head;
use crate::verdict::{CONNECTION, Category, ERROR_LIMIT, named_in, of_words};

/// What other events of a turn say about its failure.
#[derive(Clone, Debug, Default)]
pub(in crate::fold) struct TurnFacts {
    /// The `error` of an assistant event of the turn.
    pub(in crate::fold) assistant_error: Option<String>,
    /// The `api_error_status` of an assistant event.
    pub(in crate::fold) status: Option<u64>,
    /// The `api_error_type` of an assistant event.
    pub(in crate::fold) error_type: Option<String>,
    /// Whether the result has an `api_error_status` that is null: no response came.
    pub(in crate::fold) says_no_status: bool,
    /// Whether the agent ended before it began: it counts no turn, and nothing was sent to a model.
    pub(in crate::fold) never_began: bool,
}

impl TurnFacts {
    /// Returns the category of a failed turn. `error` is the text that people read.
    pub(in crate::fold) fn category(&self, turn: &TurnResult, error: &str) -> Category {
        let error = head(error, ERROR_LIMIT).0;
        let status = turn.api_error_status.as_ref().and_then(Number::as_whole).or(self.status);
        let by_status = status.and_then(Category::of_status);
        let startup = turn.startup_failure_reason.as_ref().is_some_and(|reason| !reason.trim().is_empty());
        let unreached = status.is_none() && says_unreached(error);
        let certain = self.says_no_status || turn.terminal_reason.as_deref() == Some("api_error");
        let names = [
            turn.api_error_type.as_deref(),
            self.error_type.as_deref(),
            self.assistant_error.as_deref(),
            turn.terminal_reason.as_deref().filter(|reason| *reason == "prompt_too_long"),
        ];
        by_status
            // A bad request is the least specific category, so a name takes precedence.
            .filter(|category| *category != Category::InvalidRequest)
            .or_else(|| names.into_iter().flatten().filter_map(Category::of_name).find(|category| says_more(*category)))
            .or_else(|| {
                by_status.and_then(|_| named_in(error).or_else(|| of_billing(error))).filter(|category| says_more(*category))
            })
            .or_else(|| names.into_iter().flatten().find_map(Category::of_name))
            .or(by_status)
            .or_else(|| (startup || self.never_began).then_some(Category::Startup))
            .or_else(|| (unreached && certain).then_some(Category::Network))
            .or_else(|| of_words(error))
            .or_else(|| unreached.then_some(Category::Network))
            .or_else(|| {
                let reasons = [turn.subtype.as_deref(), turn.terminal_reason.as_deref()];
                reasons.into_iter().flatten().find_map(of_reason)
            })
            .unwrap_or(Category::Api)
    }
}

/// Returns whether a category is more specific than a bad request.
fn says_more(category: Category) -> bool {
    category != Category::InvalidRequest
}

/// Returns the one cause that the API reports as a bad request and names only in its text.
fn of_billing(error: &str) -> Option<Category> {
    of_words(error).filter(|category| *category == Category::Billing)
}

/// Returns whether a text says that the model was not reached at all.
fn says_unreached(error: &str) -> bool {
    let error = error.to_lowercase();
    CONNECTION.iter().any(|words| error.contains(words))
}

/// Returns the category of a subtype or terminal reason.
fn of_reason(reason: &str) -> Option<Category> {
    const REASONS: &[(&str, Category)] = &[
        ("max_turns", Category::MaxTurns),
        ("budget", Category::Budget),
        ("structured_output", Category::StructuredOutput),
        ("context", Category::Context),
        ("prompt_too_long", Category::Context),
        ("hook", Category::Hook),
    ];
    REASONS.iter().find(|(word, _)| reason.contains(word)).map(|(_, category)| *category)
}
