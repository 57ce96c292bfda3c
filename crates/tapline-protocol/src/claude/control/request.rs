//! Every control request as a type. The set is open: a new request is kept as [`Request::Other`], with its text.

use std::collections::BTreeMap;

use crate::json::{Json, Number, Value};
use crate::wire::{Nullable, Read, frame, tagged};

macro_rules! requests {
    ($( $(#[$meta:meta])* $tag:literal => $name:ident { $( $field:ident : $ty:ty = $key:literal ),* $(,)? $(; also $($also:literal),+)? } )+) => {
        frame! { $( #[doc = concat!("`", $tag, "`")] $(#[$meta])* $name { $($field : $ty = $key),*; also "subtype" $($(, $also)+)? } )+ }

        /// A control request.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Request {
            $( #[doc = concat!("`", $tag, "`")] $name($name), )+
            /// A request this version does not model: its subtype and its text.
            Other(Option<String>, Json),
        }

        impl Request {
            /// The subtypes that this version models.
            pub const SUBTYPES: &'static [&'static str] = &[$($tag),+];

            /// Returns the request's `subtype`.
            pub fn subtype(&self) -> &str {
                match self {
                    $( Self::$name(_) => $tag, )+
                    Self::Other(subtype, _) => subtype.as_deref().unwrap_or_default(),
                }
            }
        }

        impl Read for Request {
            fn read(value: Value<'_>) -> Option<Self> {
                value.entries()?;
                let subtype = value.get("subtype").and_then(String::read);
                match subtype.as_deref() {
                    $( Some($tag) => $name::read(value).map(Self::$name), )+
                    _ => Some(Self::Other(subtype, value.to_json())),
                }
            }
        }

        impl serde::Serialize for Request {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $( Self::$name(request) => tagged(serializer, "subtype", $tag, request), )+
                    Self::Other(_, json) => json.serialize(serializer),
                }
            }
        }
    };
}

requests! {
    "interrupt" => Interrupt { cancel_queued: Option<bool> = "cancel_queued" }

    /// The agent asks whether a tool may run.
    "can_use_tool" => CanUseTool {
        tool_name: Option<String> = "tool_name",
        mcp_server: Option<Json> = "mcp_server",
        input: Option<Json> = "input",
        permission_suggestions: Vec<Json> = "permission_suggestions",
        blocked_path: Option<String> = "blocked_path",
        decision_reason: Option<String> = "decision_reason",
        decision_reason_type: Option<String> = "decision_reason_type",
        classifier_approvable: Option<bool> = "classifier_approvable",
        suppress_always_allow_rule: Option<bool> = "suppress_always_allow_rule",
        default_to_no: Option<bool> = "default_to_no",
        matched_ask_rule: Option<Json> = "matched_ask_rule",
        title: Option<String> = "title",
        display_name: Option<String> = "display_name",
        tool_use_id: Option<String> = "tool_use_id",
        agent_id: Option<String> = "agent_id",
        description: Option<String> = "description",
        requires_user_interaction: Option<bool> = "requires_user_interaction",
        server_policy_ask_only: Option<bool> = "server_policy_ask_only",
    }

    "initialize" => Initialize {
        hooks: Option<Json> = "hooks",
        sdk_mcp_servers: Vec<String> = "sdkMcpServers",
        sdk_mcp_server_configs: Option<Json> = "sdkMcpServerConfigs",
        sdk_mcp_server_manifests: Option<Json> = "sdkMcpServerManifests",
        sdk_mcp_server_manifests_origin: Option<String> = "sdkMcpServerManifestsOrigin",
        json_schema: Option<Json> = "jsonSchema",
        system_prompt: Vec<String> = "systemPrompt",
        append_system_prompt: Option<String> = "appendSystemPrompt",
        system_prompt_snapshot: Option<bool> = "systemPromptSnapshot",
        plan_mode_instructions: Option<String> = "planModeInstructions",
        tool_aliases: BTreeMap<String, String> = "toolAliases",
        exclude_dynamic_sections: Option<bool> = "excludeDynamicSections",
        agents: Option<Json> = "agents",
        title: Option<String> = "title",
        skills: Vec<String> = "skills",
        prompt_suggestions: Option<bool> = "promptSuggestions",
        agent_progress_summaries: Option<bool> = "agentProgressSummaries",
        forward_subagent_text: Option<bool> = "forwardSubagentText",
        supported_dialog_kinds: Vec<String> = "supportedDialogKinds",
        per_task_stop_affordance: Option<bool> = "perTaskStopAffordance",
        plugins: Vec<Json> = "plugins",
    }

    "set_permission_mode" => SetPermissionMode { mode: Option<String> = "mode" }
    "set_model" => SetModel { model: Nullable<String> = "model" }
    "set_max_thinking_tokens" => SetMaxThinkingTokens {
        max_thinking_tokens: Nullable<u64> = "max_thinking_tokens",
        thinking_display: Option<String> = "thinking_display",
    }
    "rename_session" => RenameSession {
        title: Option<String> = "title",
        source: Option<String> = "source",
        session_id: Option<String> = "session_id",
    }
    "set_color" => SetColor { color: Option<String> = "color" }
    "mcp_status" => McpStatus { live_reply: Option<bool> = "liveReply" }
    "get_context_usage" => GetContextUsage { detail: Option<String> = "detail" }
    "get_session_cost" => GetSessionCost {}
    "list_models" => ListModels {}
    "get_usage" => GetUsage { skip_behaviors: Option<bool> = "skip_behaviors" }
    "get_binary_version" => GetBinaryVersion {}
    "mcp_call" => McpCall {
        tool: Option<String> = "tool",
        arguments: Option<Json> = "arguments",
        expires_at: Option<String> = "expires_at",
        timeout_ms: Option<u64> = "timeout_ms",
        result_not_for_model: Option<bool> = "result_not_for_model",
        check_permissions: Option<bool> = "check_permissions",
        input_files: Vec<Json> = "input_files",
        output_files: Vec<Json> = "output_files",
    }
    "file_suggestions" => FileSuggestions { query: Option<String> = "query" }

    /// The agent runs one of the host's hooks.
    "hook_callback" => HookCallback {
        callback_id: Option<String> = "callback_id",
        input: Option<Json> = "input",
        tool_use_id: Option<String> = "tool_use_id",
    }

    /// The agent sends a message to one of the host's MCP servers.
    "mcp_message" => McpMessage { server_name: Option<String> = "server_name", message: Option<Json> = "message" }

    "rewind_files" => RewindFiles { user_message_id: Option<String> = "user_message_id", dry_run: Option<bool> = "dry_run" }
    "cancel_async_message" => CancelAsyncMessage { message_uuid: Option<String> = "message_uuid" }
    "read_file" => ReadFile {
        path: Option<String> = "path",
        max_bytes: Option<u64> = "max_bytes",
        encoding: Option<String> = "encoding",
    }
    "seed_read_state" => SeedReadState { path: Option<String> = "path", mtime: Option<Number> = "mtime" }
    "mcp_set_servers" => McpSetServers { servers: Option<Json> = "servers" }
    "register_repo_root" => RegisterRepoRoot {
        directory: Option<String> = "directory",
        reload_claude_md: Option<bool> = "reload_claude_md",
        reload_plugins: Option<bool> = "reload_plugins",
        reload_skills: Option<bool> = "reload_skills",
    }
    "reload_plugins" => ReloadPlugins {
        hold_on_cache_impact: Option<bool> = "hold_on_cache_impact",
        add_plugins: Vec<Json> = "add_plugins",
        refuse_if_busy: Option<bool> = "refuse_if_busy",
    }
    "reload_skills" => ReloadSkills {}
    "reload_output_styles" => ReloadOutputStyles {}
    "mcp_reconnect" => McpReconnect { server_name: Option<String> = "serverName" }
    "mcp_toggle" => McpToggle { server_name: Option<String> = "serverName", enabled: Option<bool> = "enabled" }
    "set_has_subscribers" => SetHasSubscribers { has_subscribers: Nullable<bool> = "has_subscribers" }
    "stop_task" => StopTask { task_id: Option<String> = "task_id" }
    "background_tasks" => BackgroundTasks { tool_use_id: Option<String> = "tool_use_id" }
    "get_task_output" => GetTaskOutput { task_id: Option<String> = "task_id" }
    "apply_flag_settings" => ApplyFlagSettings { settings: Option<Json> = "settings" }
    "get_settings" => GetSettings {}
    "get_hooks_listing" => GetHooksListing {}
    "update_settings" => UpdateSettings { source: Option<String> = "source", settings: Option<Json> = "settings" }

    /// An MCP server asks the user something.
    "elicitation" => Elicitation {
        mcp_server_name: Option<String> = "mcp_server_name",
        message: Option<String> = "message",
        mode: Option<String> = "mode",
        url: Option<String> = "url",
        elicitation_id: Option<String> = "elicitation_id",
        requested_schema: Option<Json> = "requested_schema",
        property_order: Vec<String> = "property_order",
        title: Option<String> = "title",
        display_name: Option<String> = "display_name",
        description: Option<String> = "description",
    }

    /// The agent asks the host to show a dialog. The host leaves a kind that it did not declare unanswered.
    "request_user_dialog" => RequestUserDialog {
        dialog_kind: Option<String> = "dialog_kind",
        payload: Option<Json> = "payload",
        tool_use_id: Option<String> = "tool_use_id",
    }

    "list_permission_rules" => ListPermissionRules {}
    "mcp_read_resource" => McpReadResource { server_name: Option<String> = "serverName", uri: Option<String> = "uri" }
}
