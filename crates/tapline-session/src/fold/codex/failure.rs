//! Why a turn of Codex's failed. Codex gives only a text.

use crate::text::head;
use crate::verdict::{CONNECTION, Category, ERROR_LIMIT, of_words};

/// Returns the category of a failure with this text.
pub(super) fn category(text: &str) -> Category {
    let text = head(text, ERROR_LIMIT).0.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|words| text.contains(words));
    let behind = |words: &str| text.split(words).nth(1).and_then(|rest| rest.get(..3)?.parse().ok());
    let status = behind("unexpected status ").or_else(|| behind("last status: "));
    if let Some(category) = status.and_then(Category::of_status) {
        return category;
    }
    // What it says of a 500, whatever the API said.
    if says(&["high demand, which may cause temporary errors"]) {
        return Category::Server;
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
