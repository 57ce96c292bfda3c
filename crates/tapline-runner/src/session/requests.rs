//! Every request that a program can send to an agent, one method each.

#[allow(clippy::wildcard_imports, reason = "every request and its answer stands below")]
use tapline_protocol::control::*;
use tapline_protocol::{Json, Nullable};

use super::Session;
use crate::control::{Control, SessionError};

/// One row per request: its method, arguments, request and reply.
macro_rules! requests {
    ($( $(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) -> $reply:ty = $request:ident { $($fields:tt)* }; )+) => {
        impl Control {
            $(
                $(#[$doc])*
                #[doc = ""]
                #[doc = concat!("Request: [`", stringify!($request), "`].")]
                pub async fn $name(&self, $($arg: $ty),*) -> Result<$reply, SessionError> {
                    self.ask(Request::$request($request { $($fields)* })).await
                }
            )+
        }

        /// Requests to the agent between two turns. To send them from elsewhere, use [`Session::control`].
        impl Session {
            $(
                $(#[$doc])*
                pub async fn $name(&self, $($arg: $ty),*) -> Result<$reply, SessionError> {
                    self.control.$name($($arg),*).await
                }
            )+
        }

        #[cfg(test)]
        const ROWS: &[&str] = &[$(stringify!($request)),+];
    };
}

requests! {
    /// Ends the current turn. Queued messages keep their turns, and the reply names them. Between two turns it stops
    /// background sub-agents.
    interrupt() -> InterruptReply = Interrupt { cancel_queued: None };
    /// Ends the current turn and cancels queued messages.
    interrupt_all() -> InterruptReply = Interrupt { cancel_queued: Some(true) };
    /// Sets what the agent may do without asking from now on: `default`, `acceptEdits`, `plan`, …
    set_permission_mode(mode: impl Into<String>) -> ModeReply = SetPermissionMode { mode: Some(mode.into()) };
    /// Sets the model from now on.
    set_model(model: impl Into<String>) -> ModelReply = SetModel { model: Nullable(Some(model.into())) };
    /// Switches back to the default model.
    reset_model() -> ModelReply = SetModel { model: Nullable(None) };
    /// Sets how much the agent may think. `None` is the default.
    set_max_thinking_tokens(tokens: Option<u64>) -> Done = SetMaxThinkingTokens { max_thinking_tokens: Nullable(tokens), ..Default::default() };
    /// Sets the session's title.
    rename_session(title: impl Into<String>) -> Done = RenameSession { title: Some(title.into()), ..Default::default() };
    /// Sets the session's colour.
    set_color(color: impl Into<String>) -> Done = SetColor { color: Some(color.into()) };
    /// Returns the agent's MCP servers.
    mcp_status() -> McpStatusReply = McpStatus { live_reply: None };
    /// Returns what fills the agent's context.
    context_usage() -> ContextUsage = GetContextUsage { detail: None };
    /// Returns what the session has cost, as text.
    session_cost() -> SessionCost = GetSessionCost {};
    /// Returns the models that the agent can use.
    list_models() -> Models = ListModels {};
    /// Returns what the session has used, and how much of its limits.
    usage() -> UsageReply = GetUsage { skip_behaviors: None };
    /// Returns the agent's version.
    binary_version() -> BinaryVersion = GetBinaryVersion {};
    /// Returns files with matching names, as for an `@` in a prompt.
    file_suggestions(query: impl Into<String>) -> FileSuggestionsReply = FileSuggestions { query: Some(query.into()) };
    /// Restores files to their state when this message was sent (needs
    /// `CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING=true`).
    rewind_files(message: impl Into<String>) -> Rewound = RewindFiles { user_message_id: Some(message.into()), dry_run: None };
    /// Returns what [`rewind_files`](Self::rewind_files) would do.
    rewind_files_dry_run(message: impl Into<String>) -> Rewound = RewindFiles { user_message_id: Some(message.into()), dry_run: Some(true) };
    /// Cancels a queued message.
    cancel_message(message: impl Into<String>) -> CancelReply = CancelAsyncMessage { message_uuid: Some(message.into()) };
    /// Returns a file as the agent sees it.
    read_file(path: impl Into<String>) -> FileContents = ReadFile { path: Some(path.into()), ..Default::default() };
    /// Tells the agent that it knows a file as of this time, in milliseconds.
    seed_read_state(path: impl Into<String>, mtime: u64) -> Done = SeedReadState { path: Some(path.into()), mtime: Some(mtime.into()) };
    /// Replaces the MCP servers, given as an object by name.
    mcp_set_servers(servers: impl Into<Json>) -> McpServersSet = McpSetServers { servers: Some(servers.into()) };
    /// Reconnects to an MCP server.
    mcp_reconnect(server: impl Into<String>) -> Done = McpReconnect { server_name: Some(server.into()) };
    /// Turns an MCP server on or off.
    mcp_toggle(server: impl Into<String>, enabled: bool) -> Done = McpToggle { server_name: Some(server.into()), enabled: Some(enabled) };
    /// Reads a resource of an MCP server.
    mcp_read_resource(server: impl Into<String>, uri: impl Into<String>) -> McpResource = McpReadResource { server_name: Some(server.into()), uri: Some(uri.into()) };
    /// Calls a tool of an MCP server (`mcp__SERVER__TOOL`) without the model.
    mcp_call(tool: impl Into<String>, arguments: impl Into<Json>) -> McpCallReply = McpCall { tool: Some(tool.into()), arguments: Some(arguments.into()), ..Default::default() };
    /// Adds a folder to the project.
    register_repo_root(directory: impl Into<String>) -> Done = RegisterRepoRoot { directory: Some(directory.into()), ..Default::default() };
    /// Reloads the plugins.
    reload_plugins() -> PluginsReloaded = ReloadPlugins { ..Default::default() };
    /// Reloads the skills.
    reload_skills() -> SkillsReloaded = ReloadSkills {};
    /// Reloads the output styles.
    reload_output_styles() -> OutputStyles = ReloadOutputStyles {};
    /// Sets whether somebody is watching.
    set_has_subscribers(watched: Option<bool>) -> Done = SetHasSubscribers { has_subscribers: Nullable(watched) };
    /// Stops a background task.
    stop_task(task: impl Into<String>) -> Done = StopTask { task_id: Some(task.into()) };
    /// Moves running work to the background: the call with this id, or everything.
    background_tasks(call: Option<String>) -> Done = BackgroundTasks { tool_use_id: call };
    /// Returns the output of a background command.
    task_output(task: impl Into<String>) -> TaskOutput = GetTaskOutput { task_id: Some(task.into()) };
    /// Applies settings for this session.
    apply_flag_settings(settings: impl Into<Json>) -> Done = ApplyFlagSettings { settings: Some(settings.into()) };
    /// Returns the agent's settings and their sources.
    settings() -> Settings = GetSettings {};
    /// Writes settings to `localSettings` or `userSettings`.
    update_settings(source: impl Into<String>, settings: impl Into<Json>) -> Done = UpdateSettings { source: Some(source.into()), settings: Some(settings.into()) };
    /// Returns the agent's hooks.
    hooks_listing() -> HooksListing = GetHooksListing {};
    /// Returns the agent's permission rules.
    permission_rules() -> PermissionRules = ListPermissionRules {};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_has_a_method() {
        // Requests that the agent sends, and the one that begins every session.
        let not_ours = ["can_use_tool", "hook_callback", "mcp_message", "elicitation", "request_user_dialog", "initialize"];
        for subtype in Request::SUBTYPES.iter().filter(|subtype| !not_ours.contains(subtype)) {
            let upper = |word: &str| word[..1].to_uppercase() + &word[1..];
            let name: String = subtype.split('_').map(upper).collect();
            assert!(ROWS.contains(&name.as_str()), "{subtype} has no method");
        }
    }
}
