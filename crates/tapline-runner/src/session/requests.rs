//! Every request that a program can make of an agent, one method each.

#[allow(clippy::wildcard_imports, reason = "every request and its answer stands below")]
use tapline_protocol::control::*;
use tapline_protocol::{Json, Nullable};

use super::Session;
use crate::control::{Control, SessionError};

/// One row a request: its method, what it takes, what is sent, and what comes back.
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

        /// What can be asked of the agent between two turns, or from elsewhere by [`Session::control`].
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
    /// Ends the turn that is under way; queued messages keep their turns, and are named. Between two turns it stops the
    /// sub-agents in the background.
    interrupt() -> InterruptReply = Interrupt { cancel_queued: None };
    /// The same, and queued messages are taken back.
    interrupt_all() -> InterruptReply = Interrupt { cancel_queued: Some(true) };
    /// What it may do unasked from now on: `default`, `acceptEdits`, `plan`, …
    set_permission_mode(mode: impl Into<String>) -> ModeReply = SetPermissionMode { mode: Some(mode.into()) };
    /// The model from now on.
    set_model(model: impl Into<String>) -> ModelReply = SetModel { model: Nullable(Some(model.into())) };
    /// The default model from now on.
    reset_model() -> ModelReply = SetModel { model: Nullable(None) };
    /// How much it may think; none for the default.
    set_max_thinking_tokens(tokens: Option<u64>) -> Done = SetMaxThinkingTokens { max_thinking_tokens: Nullable(tokens), ..Default::default() };
    /// The session's title.
    rename_session(title: impl Into<String>) -> Done = RenameSession { title: Some(title.into()), ..Default::default() };
    /// The session's colour.
    set_color(color: impl Into<String>) -> Done = SetColor { color: Some(color.into()) };
    /// Its MCP servers.
    mcp_status() -> McpStatusReply = McpStatus { live_reply: None };
    /// What fills its context.
    context_usage() -> ContextUsage = GetContextUsage { detail: None };
    /// What the session has cost, in words.
    session_cost() -> SessionCost = GetSessionCost {};
    /// The models it can use.
    list_models() -> Models = ListModels {};
    /// What the session has used, and of which limits.
    usage() -> UsageReply = GetUsage { skip_behaviors: None };
    /// Its version.
    binary_version() -> BinaryVersion = GetBinaryVersion {};
    /// Files whose names fit, as for an `@` in a prompt.
    file_suggestions(query: impl Into<String>) -> FileSuggestionsReply = FileSuggestions { query: Some(query.into()) };
    /// Puts files back to what they were when this message was sent (needs `CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING=true`).
    rewind_files(message: impl Into<String>) -> Rewound = RewindFiles { user_message_id: Some(message.into()), dry_run: None };
    /// Says what that would do.
    rewind_files_dry_run(message: impl Into<String>) -> Rewound = RewindFiles { user_message_id: Some(message.into()), dry_run: Some(true) };
    /// Takes a queued message back.
    cancel_message(message: impl Into<String>) -> CancelReply = CancelAsyncMessage { message_uuid: Some(message.into()) };
    /// A file as the agent sees it.
    read_file(path: impl Into<String>) -> FileContents = ReadFile { path: Some(path.into()), ..Default::default() };
    /// Tells it that a file is known as of this time, in milliseconds.
    seed_read_state(path: impl Into<String>, mtime: u64) -> Done = SeedReadState { path: Some(path.into()), mtime: Some(mtime.into()) };
    /// Other MCP servers: an object, each under its name.
    mcp_set_servers(servers: impl Into<Json>) -> McpServersSet = McpSetServers { servers: Some(servers.into()) };
    /// Connects to a server anew.
    mcp_reconnect(server: impl Into<String>) -> Done = McpReconnect { server_name: Some(server.into()) };
    /// Turns a server on or off.
    mcp_toggle(server: impl Into<String>, enabled: bool) -> Done = McpToggle { server_name: Some(server.into()), enabled: Some(enabled) };
    /// Reads a resource of a server's.
    mcp_read_resource(server: impl Into<String>, uri: impl Into<String>) -> McpResource = McpReadResource { server_name: Some(server.into()), uri: Some(uri.into()) };
    /// Calls a tool of a server's (`mcp__SERVER__TOOL`) without the model.
    mcp_call(tool: impl Into<String>, arguments: impl Into<Json>) -> McpCallReply = McpCall { tool: Some(tool.into()), arguments: Some(arguments.into()), ..Default::default() };
    /// One more folder of the project's.
    register_repo_root(directory: impl Into<String>) -> Done = RegisterRepoRoot { directory: Some(directory.into()), ..Default::default() };
    /// Reads its plugins anew.
    reload_plugins() -> PluginsReloaded = ReloadPlugins { ..Default::default() };
    /// Reads its skills anew.
    reload_skills() -> SkillsReloaded = ReloadSkills {};
    /// Reads its output styles anew.
    reload_output_styles() -> OutputStyles = ReloadOutputStyles {};
    /// Whether somebody watches.
    set_has_subscribers(watched: Option<bool>) -> Done = SetHasSubscribers { has_subscribers: Nullable(watched) };
    /// Stops a task in the background.
    stop_task(task: impl Into<String>) -> Done = StopTask { task_id: Some(task.into()) };
    /// Sends what runs to the background: the call of this id, or all of it.
    background_tasks(call: Option<String>) -> Done = BackgroundTasks { tool_use_id: call };
    /// What a command in the background has written.
    task_output(task: impl Into<String>) -> TaskOutput = GetTaskOutput { task_id: Some(task.into()) };
    /// Settings for this session.
    apply_flag_settings(settings: impl Into<Json>) -> Done = ApplyFlagSettings { settings: Some(settings.into()) };
    /// Its settings, and where they come from.
    settings() -> Settings = GetSettings {};
    /// Writes settings: `localSettings` or `userSettings`.
    update_settings(source: impl Into<String>, settings: impl Into<Json>) -> Done = UpdateSettings { source: Some(source.into()), settings: Some(settings.into()) };
    /// Its hooks.
    hooks_listing() -> HooksListing = GetHooksListing {};
    /// Its permission rules.
    permission_rules() -> PermissionRules = ListPermissionRules {};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_has_a_method() {
        // What the agent asks, and what every session begins with.
        let not_ours = ["can_use_tool", "hook_callback", "mcp_message", "elicitation", "request_user_dialog", "initialize"];
        for subtype in Request::SUBTYPES.iter().filter(|subtype| !not_ours.contains(subtype)) {
            let upper = |word: &str| word[..1].to_uppercase() + &word[1..];
            let name: String = subtype.split('_').map(upper).collect();
            assert!(ROWS.contains(&name.as_str()), "{subtype} has no method");
        }
    }
}
