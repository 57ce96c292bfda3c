//! `assistant` and `user` events, and the token counts of a message.

use super::content::Content;
use crate::json::{Json, Value};
use crate::tokens::Tokens;
use crate::wire::{Count, Field, Read, last_entries, read_back, wire};

wire! {
    /// `assistant`: one content block of a message from the model. Several events share a `message.id`.
    Assistant {
        message: Option<Message> = "message",
        error: Option<String> = "error",
        request_id: Option<String> = "request_id",
        supersedes: Vec<String> = "supersedes",
        aborted: bool = "aborted",
        agent_id: Option<String> = "agent_id",
        subagent_type: Option<String> = "subagent_type",
        task_description: Option<String> = "task_description",
        is_api_error_message: bool = "is_api_error_message",
        api_error_status: Option<u64> = "api_error_status",
        api_error_type: Option<String> = "api_error_type",
        resume_reason: Option<String> = "resume_reason",
        resumed_from_incomplete_thinking: bool = "resumed_from_incomplete_thinking",
        user_message_uuid: Option<String> = "user_message_uuid",
        user_message_uuids: Vec<String> = "user_message_uuids",
        thinking_duration_ms: Option<u64> = "thinking_duration_ms",
        thinking_display: Option<String> = "thinking_display",
        content: Content = "content",
        model: Option<String> = "model";
        also "context_usage", "usage_report", "tool_use_meta"
    }

    /// `user`: a prompt, or tool results.
    User {
        message: Option<Message> = "message",
        is_synthetic: bool = "isSynthetic",
        is_replay: bool = "isReplay",
        should_query: Option<bool> = "shouldQuery",
        priority: Option<String> = "priority",
        origin: Option<Json> = "origin",
        agent_id: Option<String> = "agent_id",
        subagent_type: Option<String> = "subagent_type",
        task_description: Option<String> = "task_description",
        client_composed: bool = "client_composed",
        tool_result_meta: Vec<ToolResultMeta> = "tool_result_meta",
        content: Content = "content";
        also "tool_use_result", "pasted_content", "inline_pastes", "file_attachments"
    }

    /// The outcome of one tool call.
    ToolResultMeta {
        id: Option<String> = "id",
        non_execution_kind: Option<String> = "non_execution_kind",
        permission_decision: Option<PermissionDecision> = "permission_decision",
    }

    /// Who allowed or denied a tool call.
    PermissionDecision {
        decision: Option<String> = "decision",
        source: Option<String> = "source",
        reason_type: Option<String> = "reason_type",
    }

    /// A message of the Messages API.
    Message {
        id: Option<String> = "id",
        role: Option<String> = "role",
        model: Option<String> = "model",
        content: Content = "content",
        stop_reason: Option<String> = "stop_reason",
        stop_sequence: Option<String> = "stop_sequence",
        usage: Option<WholeUsage> = "usage";
        also "type", "container", "context_management", "diagnostics", "stop_details"
    }

    /// Token counts of the Messages API. On an `assistant` event the output count is only a placeholder.
    Usage {
        input_tokens: Count = "input_tokens",
        output_tokens: Count = "output_tokens",
        cache_read_input_tokens: Count = "cache_read_input_tokens",
        cache_creation_input_tokens: Count = "cache_creation_input_tokens",
        cache_creation: Option<CacheCreation> = "cache_creation",
        output_tokens_details: Option<OutputDetails> = "output_tokens_details",
        server_tool_use: Option<ServerToolCounts> = "server_tool_use",
        service_tier: Option<String> = "service_tier";
        also "inference_geo", "iterations", "speed", "fallback_credit"
    }

    /// For how long tokens were written to the cache.
    CacheCreation {
        ephemeral_5m_input_tokens: Count = "ephemeral_5m_input_tokens",
        ephemeral_1h_input_tokens: Count = "ephemeral_1h_input_tokens",
    }

    /// What the output tokens were spent on.
    OutputDetails { thinking_tokens: Count = "thinking_tokens" }

    /// How many calls the API ran itself.
    ServerToolCounts {
        web_search_requests: Count = "web_search_requests",
        web_fetch_requests: Count = "web_fetch_requests",
    }
}

impl Usage {
    /// Returns the tokens. What has no duration was written to the cache for five minutes, the API's default.
    pub fn tokens(&self) -> Tokens {
        let hour = self.cache_creation.as_ref().map_or(0, |written| written.ephemeral_1h_input_tokens.0);
        let written = self.cache_creation_input_tokens.0;
        Tokens {
            input: self.input_tokens.0,
            output: self.output_tokens.0,
            cache_read: self.cache_read_input_tokens.0,
            cache_write_5m: written.saturating_sub(hour),
            cache_write_1h: hour.min(written),
            reasoning: self.output_tokens_details.as_ref().map_or(0, |details| details.thinking_tokens.0),
        }
    }
}

impl Assistant {
    /// Returns the model, which is in `message` or at the top level.
    pub fn model(&self) -> Option<&String> {
        self.message.as_ref().and_then(|message| message.model.as_ref()).or(self.model.as_ref())
    }

    /// Returns the content, which is in `message` or at the top level.
    pub fn body(&self) -> &Content {
        self.message.as_ref().map_or(&self.content, |message| &message.content)
    }
}

impl User {
    /// Returns the content, which is in `message` or at the top level.
    pub fn body(&self) -> &Content {
        self.message.as_ref().map_or(&self.content, |message| &message.content)
    }
}

/// The token counts of a message, and its exact JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct WholeUsage {
    /// The counts.
    pub counts: Usage,
    /// The exact JSON.
    pub json: Json,
}

impl Read for WholeUsage {
    fn read(value: Value<'_>) -> Option<Self> {
        Some(Self { counts: Usage::read(value)?, json: value.to_json() })
    }
}

impl std::ops::Deref for WholeUsage {
    type Target = Usage;
    fn deref(&self) -> &Usage {
        &self.counts
    }
}

/// A usage object: its counts are parsed, its other keys are kept unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawUsage {
    /// The counts.
    pub counts: Usage,
    /// Every key that is not in [`Self::COUNTED`], unchanged.
    pub others: Vec<(String, Json)>,
}

impl RawUsage {
    /// The keys that are always written, and always as numbers.
    pub const COUNTED: [&'static str; 4] =
        ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
}

read_back!(RawUsage);

impl Read for RawUsage {
    fn read(value: Value<'_>) -> Option<Self> {
        let others = last_entries(value, |key| !Self::COUNTED.contains(&key))?;
        Some(Self { counts: Usage::read(value)?, others })
    }
}

impl serde::Serialize for RawUsage {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let Usage { input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens, .. } = &self.counts;
        let counts = [input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens];
        let mut map = serializer.serialize_map(None)?;
        for (key, count) in Self::COUNTED.iter().zip(counts) {
            map.serialize_entry(key, count)?;
        }
        for (key, value) in &self.others {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl Field for RawUsage {
    fn field(value: Value<'_>) -> Self {
        Self::read(value).unwrap_or_default()
    }
    fn present(&self) -> bool {
        true
    }
}
