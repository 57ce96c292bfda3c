//! Why a turn failed: what the stream says outright, then its words.

use tapline_protocol::Number;
use tapline_protocol::claude::result::TurnResult;

use super::judge::ERROR_LIMIT;
use crate::text::head;
use crate::words::words;

words! {
    /// Why a run ended as it did. The set is open.
    #[non_exhaustive]
    #[expect(missing_docs, reason = "docs/REPORT.md describes each")]
    pub enum Category {
        RateLimit = "rate_limit",
        Overloaded = "overloaded",
        Auth = "auth",
        Billing = "billing",
        InvalidRequest = "invalid_request",
        ModelNotFound = "model_not_found",
        Context = "context",
        Server = "server",
        Network = "network",
        Api = "api",
        MaxTurns = "max_turns",
        Budget = "budget",
        StructuredOutput = "structured_output",
        Permission = "permission",
        Hook = "hook",
        Startup = "startup",
        Timeout = "timeout",
        Interrupted = "interrupted",
        /// It broke a rule, and was stopped for it.
        Policy = "policy",
        Killed = "killed",
        Exit = "exit",
        NoResult = "no_result",
        Interactive = "interactive",
        BackgroundTask = "background_task",
        /// One that only another version of tapline knows.
        Other = "other",
    } else Other
}

impl Category {
    fn of_status(status: u64) -> Option<Self> {
        Some(match status {
            429 => Self::RateLimit,
            529 => Self::Overloaded,
            401 | 403 => Self::Auth,
            402 => Self::Billing,
            404 => Self::ModelNotFound,
            413 => Self::Context,
            400 | 422 => Self::InvalidRequest,
            500..=599 => Self::Server,
            _ => return None,
        })
    }

    /// An error's name, as the API or the agent gives it.
    fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "permission_error" | "oauth_org_not_allowed" | "verification_required" | "cloud_credential_error" => Self::Auth,
            "billing_error" | "account_on_hold" => Self::Billing,
            "model_not_found" | "not_found_error" => Self::ModelNotFound,
            "request_too_large" | "prompt_too_long" | "max_output_tokens" => Self::Context,
            "server_error" | "api_error" => Self::Server,
            name if name.starts_with("rate_limit") => Self::RateLimit,
            name if name.starts_with("overloaded") => Self::Overloaded,
            name if name.starts_with("authentication") => Self::Auth,
            name if name.starts_with("invalid_request") => Self::InvalidRequest,
            _ => return None,
        })
    }
}

/// What a turn's other events said of its failure.
#[derive(Clone, Debug, Default)]
pub(crate) struct TurnFacts {
    /// `error` of an assistant event of the turn.
    pub(crate) assistant_error: Option<String>,
    /// `api_error_status` of one.
    pub(crate) status: Option<u64>,
    /// `api_error_type` of one.
    pub(crate) error_type: Option<String>,
}

impl TurnFacts {
    /// The category of a failed Claude turn; `error` is the text a person reads.
    pub(crate) fn category(&self, turn: &TurnResult, error: &str) -> Category {
        let error = head(error, ERROR_LIMIT).0;
        let status = turn.api_error_status.as_ref().and_then(Number::as_whole).or(self.status);
        let by_status = status.and_then(Category::of_status);
        let startup = turn.startup_failure_reason.as_ref().is_some_and(|reason| !reason.trim().is_empty());
        let unreached = connection_error(turn, error);
        let certain = turn.terminal_reason.as_deref() == Some("api_error");
        let names = [
            turn.api_error_type.as_deref(),
            self.error_type.as_deref(),
            self.assistant_error.as_deref(),
            turn.terminal_reason.as_deref().filter(|reason| *reason == "prompt_too_long"),
        ];
        by_status
            // A bad request says least: a name says more.
            .filter(|category| *category != Category::InvalidRequest)
            .or_else(|| names.into_iter().flatten().filter_map(Category::of_name).find(|category| says_more(*category)))
            .or_else(|| {
                by_status.and_then(|_| named_in(error).or_else(|| of_billing(error))).filter(|category| says_more(*category))
            })
            .or_else(|| names.into_iter().flatten().find_map(Category::of_name))
            .or(by_status)
            .or_else(|| startup.then_some(Category::Startup))
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

/// Whether it is more than that the request was wrong.
fn says_more(category: Category) -> bool {
    category != Category::InvalidRequest
}

/// The one cause that the API calls a bad request and names in words alone.
fn of_billing(error: &str) -> Option<Category> {
    of_words(error).filter(|category| *category == Category::Billing)
}

/// The model was not reached at all: no HTTP status, and words to that effect.
fn connection_error(turn: &TurnResult, error: &str) -> bool {
    let error = error.to_lowercase();
    turn.api_error_status.is_none() && CONNECTION.iter().any(|words| error.contains(words))
}

/// Words of those who did not reach the model.
const CONNECTION: &[&str] = &[
    "connection error",
    "connection refused",
    "connection reset",
    "unable to connect",
    "econnrefused",
    "econnreset",
    "enotfound",
    "etimedout",
    "eai_again",
    "epipe",
    "socket hang up",
    "fetch failed",
    "network error",
];

/// What the words of an error say, whichever version says it. The first row that fits counts.
const WORDS: &[(&[&str], Category)] = &[
    (&["429", "rate limit", "rate-limit"], Category::RateLimit),
    (&["529", "overloaded", "high demand"], Category::Overloaded),
    (
        &[
            "401",
            "403",
            "unauthorized",
            "authentication",
            "auth error",
            "anthropic_api_key",
            "invalid api key",
            "oauth token has expired",
            "oauth token revoked",
            "please run /login",
        ],
        Category::Auth,
    ),
    (&["credit balance", "billing_error"], Category::Billing),
    (&["usage limit", "session limit", "weekly limit", "hour limit", "hit your limit"], Category::RateLimit),
    (&["internal server error", "last status: 5", "api error: 5"], Category::Server),
];

fn of_words(error: &str) -> Option<Category> {
    let error = error.to_lowercase();
    WORDS.iter().find(|(words, _)| words.iter().any(|words| error.contains(words))).map(|(_, category)| *category)
}

/// The name that the API gave an error, where its answer stands in the text: `{"type":"error","error":{"type":"billing_error",…`
fn named_in(error: &str) -> Option<Category> {
    let (_, behind) = error.split_once("\"error\":")?;
    let (_, name) = behind.split_once("\"type\":")?;
    Category::of_name(name.trim_start().strip_prefix('"')?.split('"').next()?)
}

/// A subtype or terminal reason.
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

/// What Codex said of a failure.
#[derive(Clone, Debug)]
pub(crate) struct CodexFailure {
    pub(crate) text: String,
}

impl CodexFailure {
    pub(crate) fn category(&self) -> Category {
        let text = head(&self.text, ERROR_LIMIT).0.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|words| text.contains(words));
        let behind = |words: &str| text.split(words).nth(1).and_then(|rest| rest.get(..3)?.parse().ok());
        let status = behind("unexpected status ").or_else(|| behind("last status: "));
        if let Some(category) = status.and_then(Category::of_status) {
            return category;
        }
        if says(&["429", "rate limit", "rate-limit", "quota"]) {
            Category::RateLimit
        } else if says(&["openai_api_key", "chatgpt account"]) {
            Category::Auth
        } else if let Some(category) = of_words(&text) {
            category
        } else if says(CONNECTION) || says(&["stream disconnected before completion", "error sending request"]) {
            Category::Network
        } else {
            Category::Api
        }
    }
}
