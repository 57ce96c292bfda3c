//! The payloads of control responses, and what a host writes: replies and prompts.

use std::collections::BTreeMap;

use crate::claude::content::Content;
use crate::json::{Json, Number};
use crate::wire::frame;

frame! {
    /// The answer to `initialize`.
    InitializeReply {
        commands: Vec<CommandInfo> = "commands",
        agents: Vec<AgentInfo> = "agents",
        output_style: Option<String> = "output_style",
        available_output_styles: Vec<String> = "available_output_styles",
        models: Vec<ModelInfo> = "models",
        account: Option<Account> = "account",
        pid: Option<u64> = "pid",
        claude_code_version: Option<String> = "claude_code_version",
        current_permission_mode: Option<String> = "current_permission_mode",
        session_state: Option<String> = "session_state",
        hooks_applied: Option<Json> = "hooks_applied",
        hook_on_failure_supported: Option<bool> = "hook_on_failure_supported",
        plugins_applied: Option<Json> = "plugins_applied",
        capabilities: Vec<String> = "capabilities",
        fast_mode_state: Option<String> = "fast_mode_state",
    }

    /// A slash command.
    CommandInfo {
        name: Option<String> = "name",
        description: Option<String> = "description",
        argument_hint: Option<String> = "argumentHint",
        aliases: Vec<String> = "aliases",
        builtin: Option<bool> = "builtin",
    }

    /// A kind of sub-agent.
    AgentInfo {
        name: Option<String> = "name",
        description: Option<String> = "description",
        model: Option<String> = "model",
    }

    /// The account that the agent uses.
    Account {
        email: Option<String> = "email",
        organization: Option<String> = "organization",
        subscription_type: Option<String> = "subscriptionType",
        token_source: Option<String> = "tokenSource",
        api_key_source: Option<String> = "apiKeySource",
        api_provider: Option<String> = "apiProvider",
    }

    /// The answer to `can_use_tool`: `behavior` is `allow` or `deny`.
    PermissionReply {
        behavior: Option<String> = "behavior",
        updated_input: Option<Json> = "updatedInput",
        updated_permissions: Vec<Json> = "updatedPermissions",
        message: Option<String> = "message",
        interrupt: Option<bool> = "interrupt",
        tool_use_id: Option<String> = "toolUseID",
        decision_classification: Option<String> = "decisionClassification",
    }

    /// A change to the permission rules, in a suggestion or a reply.
    PermissionUpdate {
        kind: Option<String> = "type",
        rules: Vec<PermissionRule> = "rules",
        behavior: Option<String> = "behavior",
        mode: Option<String> = "mode",
        directories: Vec<String> = "directories",
        destination: Option<String> = "destination",
    }

    /// One permission rule.
    PermissionRule { tool_name: Option<String> = "toolName", rule_content: Option<String> = "ruleContent" }

    /// The answer to `hook_callback`.
    HookReply {
        proceed: Option<bool> = "continue",
        suppress_output: Option<bool> = "suppressOutput",
        stop_reason: Option<String> = "stopReason",
        decision: Option<String> = "decision",
        system_message: Option<String> = "systemMessage",
        terminal_sequence: Option<String> = "terminalSequence",
        reason: Option<String> = "reason",
        hook_specific_output: Option<Json> = "hookSpecificOutput",
        is_async: Option<bool> = "async",
        async_timeout: Option<u64> = "asyncTimeout",
    }

    /// The fields that every hook receives.
    HookInput {
        hook_event_name: Option<String> = "hook_event_name",
        session_id: Option<String> = "session_id",
        transcript_path: Option<String> = "transcript_path",
        cwd: Option<String> = "cwd",
        prompt_id: Option<String> = "prompt_id",
        permission_mode: Option<String> = "permission_mode",
        agent_id: Option<String> = "agent_id",
        agent_type: Option<String> = "agent_type",
        tool_name: Option<String> = "tool_name",
        tool_input: Option<Json> = "tool_input",
        tool_use_id: Option<String> = "tool_use_id",
    }

    /// The answer to `mcp_message`.
    McpMessageReply { mcp_response: Option<Json> = "mcp_response" }

    /// The answer to `interrupt`.
    InterruptReply { still_queued: Vec<String> = "still_queued", cancelled: Vec<String> = "cancelled" }

    /// The answer to `get_context_usage`.
    ContextUsage {
        model: Option<String> = "model",
        total_tokens: Option<u64> = "totalTokens",
        max_tokens: Option<u64> = "maxTokens",
        raw_max_tokens: Option<u64> = "rawMaxTokens",
        percentage: Option<Number> = "percentage",
        auto_compact_threshold: Option<u64> = "autoCompactThreshold",
        is_auto_compact_enabled: Option<bool> = "isAutoCompactEnabled",
        categories: Vec<ContextCategory> = "categories",
        memory_files: Vec<Json> = "memoryFiles",
        mcp_tools: Vec<Json> = "mcpTools",
        agents: Vec<Json> = "agents",
        skills: Option<Json> = "skills",
        slash_commands: Option<Json> = "slashCommands",
        message_breakdown: Option<Json> = "messageBreakdown",
        api_usage: Option<Json> = "apiUsage";
        also "autocompactSource", "gridRows"
    }

    /// How much of the context one category takes up.
    ContextCategory {
        id: Option<String> = "id",
        name: Option<String> = "name",
        tokens: Option<u64> = "tokens",
        kind: Option<String> = "kind",
        is_deferred: Option<bool> = "isDeferred",
        color: Option<String> = "color",
    }

    /// The answer to `get_usage`.
    UsageReply {
        session: Option<SessionUsage> = "session",
        subscription_type: Option<String> = "subscription_type",
        rate_limits_available: Option<bool> = "rate_limits_available",
        rate_limits: Option<Json> = "rate_limits",
        behaviors: Option<Json> = "behaviors",
    }

    /// What the session has cost so far.
    SessionUsage {
        total_cost_usd: Option<Number> = "total_cost_usd",
        total_api_duration_ms: Option<Number> = "total_api_duration_ms",
        total_duration_ms: Option<Number> = "total_duration_ms",
        total_lines_added: Option<u64> = "total_lines_added",
        total_lines_removed: Option<u64> = "total_lines_removed",
        model_usage: Option<Json> = "model_usage",
    }

    /// The answer to `get_session_cost`.
    SessionCost { text: Option<String> = "text" }

    /// The answer to `get_binary_version`.
    BinaryVersion { version: Option<String> = "version", build_time: Option<String> = "buildTime" }

    /// The answer to `list_models`.
    Models { models: Vec<ModelInfo> = "models" }

    /// A model that the agent can use.
    ModelInfo {
        value: Option<String> = "value",
        resolved_model: Option<String> = "resolvedModel",
        display_name: Option<String> = "displayName",
        description: Option<String> = "description",
        supports_effort: Option<bool> = "supportsEffort",
        supported_effort_levels: Vec<String> = "supportedEffortLevels",
        supports_adaptive_thinking: Option<bool> = "supportsAdaptiveThinking",
        supports_fast_mode: Option<bool> = "supportsFastMode",
        supports_auto_mode: Option<bool> = "supportsAutoMode",
        supports_thinking_off: Option<bool> = "supportsThinkingOff",
    }

    /// The answer to `get_settings`.
    Settings { effective: Option<Json> = "effective", sources: Option<Json> = "sources", applied: Option<Json> = "applied" }

    /// The answer to `mcp_status`.
    McpStatusReply { mcp_servers: Vec<McpServerStatus> = "mcpServers" }

    /// An MCP server and its current state.
    McpServerStatus {
        name: Option<String> = "name",
        status: Option<String> = "status",
        error: Option<String> = "error",
        server_info: Option<Json> = "serverInfo",
        config: Option<Json> = "config",
        transport: Option<String> = "transport",
        scope: Option<String> = "scope",
        source: Option<String> = "source",
        tools: Vec<McpToolInfo> = "tools",
    }

    /// A tool of an MCP server.
    McpToolInfo {
        name: Option<String> = "name",
        description: Option<String> = "description",
        annotations: Option<Json> = "annotations",
    }

    /// The answer to `list_permission_rules`.
    PermissionRules { state: Option<Json> = "state" }

    /// The answer to `get_hooks_listing`.
    HooksListing {
        events: Option<Json> = "events",
        hooks: Option<Json> = "hooks",
        event_catalog: Option<Json> = "eventCatalog",
        policy: Option<Json> = "policy",
    }

    /// The answer to `get_task_output`.
    TaskOutput {
        output: Option<String> = "output",
        total_bytes: Option<u64> = "total_bytes",
        truncated: Option<bool> = "truncated",
    }

    /// The answer to `rewind_files`.
    Rewound {
        can_rewind: Option<bool> = "canRewind",
        error: Option<String> = "error",
        files_changed: Vec<String> = "filesChanged",
        insertions: Option<u64> = "insertions",
        deletions: Option<u64> = "deletions",
        skipped_links: Option<Json> = "skippedLinks",
    }

    /// The answer to `read_file`.
    FileContents {
        contents: Option<String> = "contents",
        abs_path: Option<String> = "absPath",
        truncated: Option<bool> = "truncated",
        encoding: Option<String> = "encoding",
        lossy: Option<bool> = "lossy",
        requested_path: Option<String> = "requested_path",
    }

    /// An answer without a payload: the request was carried out.
    Done {}

    /// The answer to `set_permission_mode`.
    ModeReply { mode: Option<String> = "mode" }

    /// The answer to `set_model`.
    ModelReply { model: Option<String> = "model" }

    /// The answer to `file_suggestions`.
    FileSuggestionsReply { suggestions: Vec<Json> = "suggestions", cwd: Option<String> = "cwd" }

    /// The answer to `cancel_async_message`.
    CancelReply { cancelled: Option<bool> = "cancelled" }

    /// The answer to `mcp_set_servers`.
    McpServersSet {
        added: Vec<String> = "added",
        removed: Vec<String> = "removed",
        errors: BTreeMap<String, String> = "errors",
    }

    /// The answer to `mcp_read_resource`.
    McpResource { contents: Vec<Json> = "contents" }

    /// The answer to `mcp_call`: the tool's output.
    McpCallReply {
        content: Vec<Json> = "content",
        is_error: Option<bool> = "isError",
        structured_content: Option<Json> = "structuredContent",
    }

    /// The answer to `reload_plugins`.
    PluginsReloaded {
        commands: Vec<Json> = "commands",
        agents: Vec<Json> = "agents",
        plugins: Vec<Json> = "plugins",
        mcp_servers: Vec<McpServerStatus> = "mcpServers",
        error_count: Option<u64> = "error_count",
    }

    /// The answer to `reload_skills`.
    SkillsReloaded { skills: Vec<Json> = "skills" }

    /// The answer to `reload_output_styles`.
    OutputStyles { available_output_styles: Vec<String> = "available_output_styles" }

    /// A prompt as written to the agent's standard input, with `"type":"user"` in front.
    UserInput {
        message: Option<InputMessage> = "message",
        parent_tool_use_id: Option<String> = "parent_tool_use_id",
        uuid: Option<String> = "uuid",
        session_id: Option<String> = "session_id",
        priority: Option<String> = "priority",
        should_query: Option<bool> = "shouldQuery",
        is_synthetic: bool = "isSynthetic",
        client_composed: bool = "client_composed",
        pasted_content: Option<Json> = "pasted_content",
        inline_pastes: Vec<String> = "inline_pastes",
        origin: Option<Json> = "origin",
    }

    /// The message of a prompt.
    InputMessage { role: Option<String> = "role", content: Content = "content" }
}

impl InitializeReply {
    /// Returns the agent's version, if the reply has it.
    pub fn version(&self) -> Option<&str> {
        self.claude_code_version.as_deref()
    }
}

impl HookReply {
    /// Denies the tool call, with a reason (`PreToolUse`).
    pub fn deny_tool(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::specific(&serde_json::json!({
            "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason,
        }))
    }

    /// Asks for permission to run the tool, with a reason (`PreToolUse`).
    pub fn ask_tool(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::specific(&serde_json::json!({
            "hookEventName": "PreToolUse", "permissionDecision": "ask", "permissionDecisionReason": reason,
        }))
    }

    /// Allows the tool call without asking (`PreToolUse`).
    pub fn allow_tool() -> Self {
        Self::specific(&serde_json::json!({"hookEventName": "PreToolUse", "permissionDecision": "allow"}))
    }

    /// Makes no decision: everything goes on as it would without the hook.
    pub fn pass() -> Self {
        Self::default()
    }

    /// Changes the tool's input. Whether the call is allowed is decided as usual (`PreToolUse`).
    pub fn rewrite_tool(input: &Json) -> Self {
        Self::specific(&Rewritten { hook_event_name: "PreToolUse", permission_decision: None, updated_input: input })
    }

    /// Changes the tool's input and allows the call without asking (`PreToolUse`).
    pub fn allow_tool_with(input: &Json) -> Self {
        Self::specific(&Rewritten { hook_event_name: "PreToolUse", permission_decision: Some("allow"), updated_input: input })
    }

    /// Denies the permission request (`PermissionRequest`).
    pub fn deny_permission(message: impl Into<String>) -> Self {
        let decision = serde_json::json!({"behavior": "deny", "message": message.into()});
        Self::specific(&serde_json::json!({"hookEventName": "PermissionRequest", "decision": decision}))
    }

    /// Blocks what was about to happen, with a reason. If it blocks `Stop`, the agent continues.
    pub fn block(reason: impl Into<String>) -> Self {
        Self { decision: Some("block".to_owned()), reason: Some(reason.into()), ..Self::default() }
    }

    /// Stops the agent.
    pub fn stop(reason: impl Into<String>) -> Self {
        Self { proceed: Some(false), stop_reason: Some(reason.into()), ..Self::default() }
    }

    /// Adds context for the model. `event` is the hook event that this replies to.
    pub fn add_context(event: impl AsRef<str>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self::specific(&serde_json::json!({"hookEventName": event.as_ref(), "additionalContext": text}))
    }

    fn specific(output: &impl serde::Serialize) -> Self {
        Self { hook_specific_output: Some(Json::of(output)), ..Self::default() }
    }
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Rewritten<'a> {
    hook_event_name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    permission_decision: Option<&'static str>,
    updated_input: &'a Json,
}
