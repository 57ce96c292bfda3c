//! `result`: the end of a turn.

use std::collections::BTreeMap;

use super::message::RawUsage;
use crate::json::{Json, Kind, Number, Value};
use crate::tokens::Tokens;
use crate::wire::{Count, Field, Read, read_back, wire};

wire! {
    /// `result`, of every subtype. `total_cost_usd` and `modelUsage` are cumulative over the process.
    TurnResult {
        subtype: Option<String> = "subtype",
        is_error: Option<bool> = "is_error",
        result: Option<String> = "result",
        errors: Option<Errors> = "errors",
        error: Option<Json> = "error",
        api_error_status: Option<Number> = "api_error_status",
        api_error_type: Option<String> = "api_error_type",
        stop_reason: Option<String> = "stop_reason",
        terminal_reason: Option<String> = "terminal_reason",
        startup_failure_reason: Option<String> = "startup_failure_reason",
        num_turns: Option<Number> = "num_turns",
        duration_ms: Option<Number> = "duration_ms",
        duration_api_ms: Option<Number> = "duration_api_ms",
        ttft_ms: Option<Number> = "ttft_ms",
        total_cost_usd: Option<Cost> = "total_cost_usd",
        cost_usd: Option<Cost> = "cost_usd",
        cost: Option<Cost> = "cost",
        usage: Option<RawUsage> = "usage",
        model_usage: Option<ModelUsages> = "modelUsage",
        model_usage_since_last_result: Option<ModelUsages> = "model_usage_since_last_result",
        permission_denials: Vec<Json> = "permission_denials",
        structured_output: Option<Json> = "structured_output",
        deferred_tool_use: Option<Json> = "deferred_tool_use",
        queued_turn_count: Option<u64> = "queued_turn_count",
        result_index: Option<u64> = "result_index",
        origin: Option<Json> = "origin",
        resume_reason: Option<String> = "resume_reason",
        local_command: Option<String> = "local_command",
        fast_mode_state: Option<String> = "fast_mode_state",
        user_message_uuid: Option<String> = "user_message_uuid",
        user_message_uuids: Vec<String> = "user_message_uuids",
        messages: Vec<Json> = "messages",
        plugin_errors: Vec<PluginError> = "plugin_errors",
        safety_stops: Option<Json> = "safety_stops";
        also "ttft_stream_ms", "time_to_request_ms",
        "request_sent_wall_ms", "first_content_frame_ms", "first_stream_post_ms", "first_stream_post_ack_ms",
        "first_stream_post_queue_wait_ms", "first_stream_post_queued_behind", "first_stream_post_wall_ms",
        "first_text_post_ms", "first_text_post_queue_wait_ms", "first_text_post_queued_behind",
        "first_text_post_wall_ms", "time_to_request_from_spawn_ms", "warm_spare_claimed", "time_origin_ms",
        "credential_expires_at", "fast_mode_disabled_reason", "invalid_config_file", "subagent_stats",
        "first_request_input_tokens",
        "first_request_cache_read_input_tokens";
        fingerprint fingerprint
    }

    /// What one model used. The counts are cumulative over the process.
    ModelUsage {
        input_tokens: Count = "inputTokens",
        output_tokens: Count = "outputTokens",
        thinking_tokens: Count = "thinkingTokens",
        cache_read_input_tokens: Count = "cacheReadInputTokens",
        cache_creation_input_tokens: Count = "cacheCreationInputTokens",
        cache_creation_1h_input_tokens: Count = "cacheCreationEphemeral1hInputTokens",
        web_search_requests: Count = "webSearchRequests",
        cost_usd: Option<Cost> = "costUSD",
        context_window: Option<u64> = "contextWindow",
        max_output_tokens: Option<u64> = "maxOutputTokens",
        canonical_model: Option<String> = "canonicalModel",
        provider: Option<String> = "provider",
        cost_basis: Option<String> = "costBasis";
        also "cacheCreationEphemeral5mInputTokens"
    }

    /// A plugin that could not be used.
    PluginError {
        plugin: Option<String> = "plugin",
        kind: Option<String> = "type",
        message: Option<String> = "message";
        also "path", "managed_lock", "plugin_enabled", "name", "marketplace"
    }

    /// A tool call that was denied.
    PermissionDenial {
        tool_name: Option<String> = "tool_name",
        tool_use_id: Option<String> = "tool_use_id",
        tool_input: Option<Json> = "tool_input",
    }
}

impl TurnResult {
    /// Returns the total cost so far, under any of the names it has had.
    pub fn total_cost(&self) -> Option<&Cost> {
        self.total_cost_usd.as_ref().or(self.cost_usd.as_ref()).or(self.cost.as_ref())
    }

    /// Whether the turn failed: `is_error` is literally true, or the subtype says so. An `error` beside a success changes
    /// nothing. The older document without a type has neither key: it failed if it has an error in place of a result.
    pub fn failed(&self) -> bool {
        let subtype = self.subtype.as_deref().unwrap_or_default();
        let is_bare = self.is_error.is_none() && self.subtype.is_none() && self.result.is_none() && !self.messages.is_empty();
        self.is_error == Some(true) || subtype == "error" || subtype.starts_with("error_") || is_bare && self.error.is_some()
    }

    /// Returns the tool calls that were denied.
    pub fn denials(&self) -> impl Iterator<Item = PermissionDenial> {
        self.permission_denials.iter().filter_map(|denial| denial.with(PermissionDenial::read).flatten())
    }
}

read_back!(Cost, ModelUsages);

/// An amount in dollars: the exact digits and their value. A value that is not a finite number counts as absent.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    digits: Number,
    /// The amount as a float.
    pub usd: f64,
}

impl Read for Cost {
    fn read(value: Value<'_>) -> Option<Self> {
        let digits = Number::read(value)?;
        let usd = digits.as_f64();
        usd.is_finite().then_some(Self { digits, usd })
    }
}

impl serde::Serialize for Cost {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.digits.serialize(serializer)
    }
}

/// `errors`: a list of texts, or a bare string.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum Errors {
    /// A list, as documented.
    List(Vec<String>),
    /// A bare string, which counts as a list of one.
    One(String),
}

impl Errors {
    /// Returns the texts.
    pub fn texts(&self) -> &[String] {
        match self {
            Self::List(texts) => texts,
            Self::One(text) => std::slice::from_ref(text),
        }
    }
}

impl Read for Errors {
    fn read(value: Value<'_>) -> Option<Self> {
        String::read(value).map(Self::One).or_else(|| Vec::read(value).map(Self::List))
    }
}

/// `modelUsage`: its exact JSON. The counts are read when they are asked for: every turn of a report has them, and only the ledger adds them up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelUsages {
    /// The exact JSON.
    pub json: Option<Json>,
}

impl ModelUsage {
    /// Returns the tokens.
    pub fn tokens(&self) -> Tokens {
        let (written, hour) = (self.cache_creation_input_tokens.0, self.cache_creation_1h_input_tokens.0);
        Tokens {
            input: self.input_tokens.0,
            output: self.output_tokens.0,
            cache_read: self.cache_read_input_tokens.0,
            cache_write_5m: written.saturating_sub(hour),
            cache_write_1h: hour.min(written),
            reasoning: self.thinking_tokens.0,
        }
    }
}

impl ModelUsages {
    /// Returns the counts of each model.
    pub fn by_model(&self) -> BTreeMap<String, ModelUsage> {
        self.json.as_ref().and_then(|json| json.with(BTreeMap::read).flatten()).unwrap_or_default()
    }

    /// Returns whether there is a count for each model, which may be 0.
    pub fn are_counted(&self) -> bool {
        let counts = |usage: Value<'_>| ["inputTokens", "outputTokens"].iter().any(|key| usage.get(key).is_some());
        let all = |models: Value<'_>| models.entries().is_some_and(|mut models| models.all(|(_, usage)| counts(usage)));
        self.json.as_ref().is_some_and(|json| json.with(all) == Some(true))
    }
}

impl Read for ModelUsages {
    fn read(value: Value<'_>) -> Option<Self> {
        (value.kind() == Kind::Object).then(|| Self { json: Some(value.to_json()) })
    }
}

impl Field for ModelUsages {
    fn field(value: Value<'_>) -> Self {
        Self::read(value).unwrap_or_default()
    }
    fn present(&self) -> bool {
        self.json.is_some()
    }
}

impl serde::Serialize for ModelUsages {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}
