//! `system/*` events and the other events around the conversation.

use crate::json::{Json, Number, Value};
use crate::wire::{Read, wire};

wire! {
    /// `system/init`: the session's settings. It is written once per turn, and is not always the first line.
    Init {
        cwd: Option<String> = "cwd",
        model: Option<String> = "model",
        permission_mode: Option<String> = "permissionMode",
        api_key_source: Option<String> = "apiKeySource",
        claude_code_version: Option<String> = "claude_code_version",
        tools: Vec<String> = "tools",
        mcp_servers: Vec<McpServer> = "mcp_servers",
        agents: Vec<String> = "agents",
        skills: Vec<String> = "skills",
        plugins: Vec<Plugin> = "plugins",
        output_style: Option<String> = "output_style",
        fast_mode_state: Option<String> = "fast_mode_state",
        effort: Option<String> = "effort";
        also "plugin_errors", "slash_commands", "betas", "capabilities", "terminal_slash_commands", "fast_mode_disabled_reason", "view_mode", "additional_directories",
        "analytics_disabled", "memory_paths", "messaging_socket_path", "original_cwd", "per_turn_effort_active",
        "product_feedback_disabled", "ultrathink_available", "ultrathink_typed_raises", "user_message_uuids"
    }

    /// An MCP server and its status.
    McpServer { name: Option<String> = "name", status: Option<String> = "status", source: Option<String> = "source" }

    /// `system/compact_boundary`
    CompactBoundary { compact_metadata: Option<CompactMetadata> = "compact_metadata" }

    /// How the conversation was shortened.
    CompactMetadata {
        trigger: Option<String> = "trigger",
        pre_tokens: Option<u64> = "pre_tokens",
        post_tokens: Option<u64> = "post_tokens",
        duration_ms: Option<u64> = "duration_ms";
        also "preserved_segment", "preserved_messages"
    }

    /// `system/status`
    Status {
        status: Option<String> = "status",
        permission_mode: Option<String> = "permissionMode",
        compact_result: Option<String> = "compact_result",
        compact_error: Option<String> = "compact_error",
    }

    /// `system/api_retry`
    ApiRetry {
        attempt: Option<Number> = "attempt",
        max_retries: Option<Number> = "max_retries",
        retry_delay_ms: Option<Number> = "retry_delay_ms",
        error_status: Option<Number> = "error_status",
        error: Option<String> = "error",
        no_response: Option<Json> = "no_response",
    }

    /// `system/control_request_progress`
    ControlRequestProgress {
        request_id: Option<String> = "request_id",
        status: Option<String> = "status",
        attempt: Option<u64> = "attempt",
        max_retries: Option<u64> = "max_retries",
        retry_delay_ms: Option<u64> = "retry_delay_ms",
        error_status: Option<u64> = "error_status",
    }

    /// `system/model_refusal_fallback`, `system/model_refusal_no_fallback`
    ModelRefusal {
        trigger: Option<String> = "trigger",
        direction: Option<String> = "direction",
        scope: Option<String> = "scope",
        original_model: Option<String> = "original_model",
        fallback_model: Option<String> = "fallback_model",
        request_id: Option<String> = "request_id",
        api_refusal_category: Option<String> = "api_refusal_category",
        api_refusal_explanation: Option<String> = "api_refusal_explanation",
        retracted_message_uuids: Vec<String> = "retracted_message_uuids",
        refused_user_message_uuid: Option<String> = "refused_user_message_uuid",
        content: Option<String> = "content",
    }

    /// `system/local_command_output`
    LocalCommandOutput { content: Option<String> = "content" }

    /// `system/hook_started`, `system/hook_progress`, `system/hook_response`
    Hook {
        hook_id: Option<String> = "hook_id",
        hook_name: Option<String> = "hook_name",
        hook_event: Option<String> = "hook_event",
        output: Option<String> = "output",
        stdout: Option<String> = "stdout",
        stderr: Option<String> = "stderr",
        exit_code: Option<Number> = "exit_code",
        outcome: Option<String> = "outcome";
        also "tool_name"
    }

    /// `system/plugin_install`
    PluginInstall { status: Option<String> = "status", name: Option<String> = "name", error: Option<String> = "error" }

    /// `system/task_started`
    TaskStarted {
        task_id: Option<String> = "task_id",
        run_id: Option<String> = "run_id",
        tool_use_id: Option<String> = "tool_use_id",
        description: Option<String> = "description",
        subagent_type: Option<String> = "subagent_type",
        is_backgrounded: Option<bool> = "is_backgrounded",
        spawn_depth: Option<u64> = "spawn_depth",
        parent_task_id: Option<String> = "parent_task_id",
        task_type: Option<String> = "task_type",
        workflow_name: Option<String> = "workflow_name",
        prompt: Option<String> = "prompt";
        also "skip_transcript", "ambient"
    }

    /// `system/task_updated`
    TaskUpdated { task_id: Option<String> = "task_id", run_id: Option<String> = "run_id", patch: Option<TaskPatch> = "patch" }

    /// What changed about a task.
    TaskPatch {
        status: Option<String> = "status",
        description: Option<String> = "description",
        error: Option<String> = "error",
        is_backgrounded: Option<bool> = "is_backgrounded";
        also "end_time", "total_paused_ms"
    }

    /// `system/task_progress`
    TaskProgress {
        task_id: Option<String> = "task_id",
        run_id: Option<String> = "run_id",
        tool_use_id: Option<String> = "tool_use_id",
        description: Option<String> = "description",
        subagent_type: Option<String> = "subagent_type",
        usage: Option<TaskUsage> = "usage",
        last_tool_name: Option<String> = "last_tool_name",
        summary: Option<String> = "summary",
    }

    /// What a task has used so far.
    TaskUsage {
        total_tokens: Option<u64> = "total_tokens",
        tool_uses: Option<u64> = "tool_uses",
        duration_ms: Option<u64> = "duration_ms",
    }

    /// `system/task_notification`
    TaskNotification {
        task_id: Option<String> = "task_id",
        run_id: Option<String> = "run_id",
        tool_use_id: Option<String> = "tool_use_id",
        status: Option<String> = "status",
        reason: Option<String> = "reason",
        output_file: Option<String> = "output_file",
        summary: Option<String> = "summary",
        usage: Option<TaskUsage> = "usage";
        also "resource_links", "skip_transcript", "ambient"
    }

    /// `system/background_tasks_changed`: the full list, each time.
    BackgroundTasksChanged { tasks: Vec<BackgroundTask> = "tasks" }

    /// A background task.
    BackgroundTask {
        task_id: Option<String> = "task_id",
        task_type: Option<String> = "task_type",
        subagent_type: Option<String> = "subagent_type",
        description: Option<String> = "description";
        also "run_id", "parent_task_id", "ambient"
    }

    /// `system/thinking_tokens`
    ThinkingTokens {
        estimated_tokens: Option<u64> = "estimated_tokens",
        estimated_tokens_delta: Option<u64> = "estimated_tokens_delta";
        also "user_message_uuid"
    }

    /// `system/session_state_changed`: `idle` is the only sure sign that a turn is over.
    SessionStateChanged { state: Option<String> = "state", sdk_host_only: bool = "sdk_host_only" }

    /// `system/worker_shutting_down`
    WorkerShuttingDown { reason: Option<String> = "reason" }

    /// `system/commands_changed`
    CommandsChanged { commands: Vec<Json> = "commands" }

    /// `system/notification`
    Notification {
        key: Option<String> = "key",
        text: Option<String> = "text",
        priority: Option<String> = "priority",
        color: Option<String> = "color",
        timeout_ms: Option<u64> = "timeout_ms",
    }

    /// `system/files_persisted`
    FilesPersisted { files: Vec<Json> = "files", failed: Vec<Json> = "failed", processed_at: Option<String> = "processed_at" }

    /// `system/memory_recall`
    MemoryRecall { mode: Option<String> = "mode", memories: Vec<Json> = "memories" }

    /// `system/elicitation_complete`
    ElicitationComplete { mcp_server_name: Option<String> = "mcp_server_name", elicitation_id: Option<String> = "elicitation_id" }

    /// `system/permission_denied`
    PermissionDenied {
        tool_name: Option<String> = "tool_name",
        tool_use_id: Option<String> = "tool_use_id",
        agent_id: Option<String> = "agent_id",
        decision_reason_type: Option<String> = "decision_reason_type",
        decision_reason: Option<String> = "decision_reason",
        message: Option<String> = "message",
    }

    /// `system/mirror_error`
    MirrorError { error: Option<String> = "error", key: Option<Json> = "key" }

    /// `system/informational`
    Informational {
        content: Option<String> = "content",
        level: Option<String> = "level",
        tool_use_id: Option<String> = "tool_use_id",
        prevent_continuation: bool = "prevent_continuation",
        tag: Option<String> = "tag",
    }

    /// `system/session_writes_lost`
    SessionWritesLost {
        error_code: Option<String> = "error_code",
        lost: Vec<String> = "lost",
        transcript_session_ids: Vec<String> = "transcript_session_ids",
    }

    /// `tool_progress`: a tool is still running.
    ToolProgress {
        tool_use_id: Option<String> = "tool_use_id",
        tool_name: Option<String> = "tool_name",
        elapsed_time_seconds: Option<f64> = "elapsed_time_seconds",
        task_id: Option<String> = "task_id",
        heartbeat: bool = "heartbeat",
        subagent_type: Option<String> = "subagent_type",
        subagent_retry: Option<Json> = "subagent_retry",
    }

    /// `auth_status`
    AuthStatus {
        is_authenticating: bool = "isAuthenticating",
        output: Vec<String> = "output",
        error: Option<String> = "error",
    }

    /// `tool_use_summary`
    ToolUseSummary { summary: Option<String> = "summary", preceding_tool_use_ids: Vec<String> = "preceding_tool_use_ids" }

    /// `rate_limit_event`: only sent for subscriptions.
    RateLimitEvent { rate_limit_info: Option<RateLimitInfo> = "rate_limit_info"; also "header_utilization" }

    /// `prompt_suggestion`
    PromptSuggestion { suggestion: Option<String> = "suggestion" }

    /// `conversation_reset`
    ConversationReset {
        new_conversation_id: Option<String> = "new_conversation_id",
        trigger: Option<String> = "trigger";
        also "user_message_uuid"
    }

    /// `active_goal`
    ActiveGoal { value: Option<Json> = "value" }

    /// `command_lifecycle`: what happens to a prompt that was sent with a uuid.
    CommandLifecycle {
        command_uuid: Option<String> = "command_uuid",
        state: Option<String> = "state",
        ran_ahead: Option<bool> = "ran_ahead",
        scheduled_for: Option<Json> = "scheduled_for",
        wakeup_source: Option<Json> = "wakeup_source",
    }

    /// `transcript_mirror`
    TranscriptMirror { file_path: Option<String> = "filePath"; also "entries" }

    /// `keep_alive`
    KeepAlive {; also "startup_mark" }

    /// A `system` event known only by its name.
    SystemNotice { content: Option<String> = "content" }

    /// A top-level `error`.
    StreamError { message: Option<String> = "message", error: Option<Json> = "error" }
}

/// A plugin. A bare string is read as its name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plugin {
    /// `name`
    pub name: Option<String>,
    /// `version`
    pub version: Option<String>,
    /// `path`
    pub path: Option<String>,
}

impl Read for Plugin {
    fn read(value: Value<'_>) -> Option<Self> {
        if let Some(name) = String::read(value) {
            return Some(Self { name: Some(name), ..Self::default() });
        }
        value.entries()?;
        let text = |key| value.get(key).and_then(String::read);
        Some(Self { name: text("name"), version: text("version"), path: text("path") })
    }
}

/// `rate_limit_info`: its exact JSON, and the fields that tapline uses.
#[derive(Clone, Debug, PartialEq)]
pub struct RateLimitInfo {
    /// The exact JSON.
    pub json: Json,
    /// `status`: allowed, `allowed_warning`, rejected, …
    pub status: Option<String>,
    /// `resetsAt`, in seconds since 1970.
    pub resets_at: Option<f64>,
    /// `rateLimitType`
    pub limit_type: Option<String>,
    /// `utilization`
    pub utilization: Option<f64>,
}

impl Read for RateLimitInfo {
    fn read(value: Value<'_>) -> Option<Self> {
        value.entries()?;
        let text = |key| value.get(key).and_then(String::read);
        let number = |key| value.get(key).and_then(f64::read);
        Some(Self {
            json: value.to_json(),
            status: text("status"),
            resets_at: number("resetsAt"),
            limit_type: text("rateLimitType"),
            utilization: number("utilization"),
        })
    }
}
