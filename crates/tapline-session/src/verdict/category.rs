//! Why a turn failed: from what the stream says explicitly, then from the error text.

use crate::words::words;

words! {
    /// Why a run ended the way it did. The set is open.
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
        /// The run broke a rule and was stopped.
        Policy = "policy",
        Killed = "killed",
        Exit = "exit",
        NoResult = "no_result",
        Interactive = "interactive",
        BackgroundTask = "background_task",
        /// A category that only another version of tapline knows.
        Other = "other",
    } else Other
}

impl Category {
    pub(crate) fn of_status(status: u64) -> Option<Self> {
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

    /// Returns the category of an error's name in the API or the agent.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
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

/// Phrases in the errors of programs that did not reach the model.
pub(crate) const CONNECTION: &[&str] = &[
    "connection error",
    "connection refused",
    "connection reset",
    "connection timed out",
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

/// What phrases in an error mean, in any version. The first row that matches counts.
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
            "/login",
        ],
        Category::Auth,
    ),
    (&["credit balance", "billing_error"], Category::Billing),
    (&["usage limit", "session limit", "weekly limit", "hour limit", "hit your limit"], Category::RateLimit),
    (&["internal server error", "last status: 5", "api error: 5"], Category::Server),
];

pub(crate) fn of_words(error: &str) -> Option<Category> {
    let error = error.to_lowercase();
    WORDS.iter().find(|(words, _)| words.iter().any(|words| error.contains(words))).map(|(_, category)| *category)
}

/// Returns the category of the API's error, if its response is in the text:
/// `{"type":"error","error":{"type":"billing_error",…`
pub(crate) fn named_in(error: &str) -> Option<Category> {
    let (_, behind) = error.split_once("\"error\":")?;
    let (_, name) = behind.split_once("\"type\":")?;
    Category::of_name(name.trim_start().strip_prefix('"')?.split('"').next()?)
}
