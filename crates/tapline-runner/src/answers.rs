//! Who answers when the agent asks: permission rules and a callback, hooks, tools of this program's, elicitations, dialogs.
//! What nobody is there for is answered with an error at once, so that the agent never waits for us.

mod builder;
mod callback;
mod elicitation;
mod hook;
mod permission;
#[cfg(feature = "rmcp")]
mod rmcp;
mod rules;
mod server;
mod tool;

use std::collections::BTreeMap;
use std::time::Duration;

use tapline_protocol::claude::control::{
    Elicitation, HookCallback, HookInput, Initialize, McpMessage, McpMessageReply, Request, RequestUserDialog,
};
use tapline_protocol::{Json, Read as _};
use tapline_session::permission::Permissions;

pub(crate) use callback::{Callback, Failed, callback, guarded};
pub use elicitation::ElicitationReply;
pub use hook::{HookEvent, HookQuestion};
pub use permission::{Permission, PermissionQuestion, Settled, SettledBy};
pub(crate) use rules::Places;
pub use server::ToolServer;
pub use tool::{Tool, ToolResult};

/// The hook that holds the rules against every call.
const RULES: &str = "rules";
/// The server of tools that name none.
const OWN_SERVER: &str = "tapline";

/// Who answers what the agent asks.
#[derive(Clone)]
pub struct Answers {
    /// Rules that decide without asking anybody.
    pub permissions: Option<Permissions>,
    /// How long a callback may take; then the answer is no.
    pub within: Duration,
    permission: Option<Callback<PermissionQuestion, Permission>>,
    hooks: Vec<hook::Hook>,
    servers: Vec<ToolServer>,
    elicitation: Option<Callback<Elicitation, ElicitationReply>>,
    dialogs: BTreeMap<String, Callback<RequestUserDialog, Json>>,
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            permissions: None,
            within: Duration::from_secs(600),
            permission: None,
            hooks: Vec::new(),
            servers: Vec::new(),
            elicitation: None,
            dialogs: BTreeMap::new(),
        }
    }
}

impl std::fmt::Debug for Answers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { permissions, within, permission, hooks, servers, elicitation, dialogs } = self;
        f.debug_struct("Answers")
            .field("permissions", permissions)
            .field("within", within)
            .field("permission", &permission.is_some())
            .field("hooks", &hooks.iter().map(|hook| hook.event.name()).collect::<Vec<_>>())
            .field("servers", servers)
            .field("elicitation", &elicitation.is_some())
            .field("dialogs", &dialogs.keys())
            .finish()
    }
}

/// What is answered: a payload, or why there is none.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    /// What the agent gets; nothing if the protocol wants it left unanswered.
    pub(crate) reply: Option<Result<Json, String>>,
    /// How a permission question was settled.
    pub(crate) settled: Option<Settled>,
    /// A callback failed: which, and how.
    pub(crate) trouble: Option<String>,
}

impl Answered {
    fn with(reply: Json) -> Self {
        Self { reply: Some(Ok(reply)), ..Self::default() }
    }

    fn error(text: impl Into<String>) -> Self {
        Self { reply: Some(Err(text.into())), ..Self::default() }
    }

    fn troubled(self, who: &str, failed: &Failed) -> Self {
        Self { trouble: Some(format!("{who} {failed}")), ..self }
    }
}

impl Answers {
    /// Whether somebody is here to answer anything.
    pub(crate) fn is_anybody(&self) -> bool {
        self.asks_permission()
            || !self.hooks.is_empty()
            || !self.servers.is_empty()
            || self.elicitation.is_some()
            || !self.dialogs.is_empty()
    }

    /// Whether permission questions are to come here.
    pub(crate) fn asks_permission(&self) -> bool {
        self.permissions.is_some() || self.permission.is_some()
    }

    /// The servers of this program's, as a configuration of MCP.
    pub(crate) fn mcp_config(&self) -> Option<String> {
        if self.servers.is_empty() {
            return None;
        }
        let server = |server: &ToolServer| (server.name.clone(), serde_json::json!({"type": "sdk", "name": server.name}));
        let servers: serde_json::Map<_, _> = self.servers.iter().map(server).collect();
        Some(serde_json::json!({"mcpServers": servers}).to_string())
    }

    /// What the agent is told at the start: which hooks and dialogs there are.
    pub(crate) fn initialize(&self) -> Initialize {
        let mut hooks = BTreeMap::<&str, Vec<serde_json::Value>>::new();
        if self.permissions.is_some() {
            // Of all calls, not only those that are asked about.
            hooks.insert("PreToolUse", vec![serde_json::json!({"hookCallbackIds": [RULES], "onFailure": "block"})]);
        }
        for (place, hook) in self.hooks.iter().enumerate() {
            let mut matcher = serde_json::json!({"hookCallbackIds": [hook::id(place)]});
            if let Some(tools) = &hook.matcher {
                matcher["matcher"] = tools.as_str().into();
            }
            // Where it cannot be asked, the tool does not run.
            if hook.event == HookEvent::PreToolUse {
                matcher["onFailure"] = "block".into();
            }
            hooks.entry(hook.event.name()).or_default().push(matcher);
        }
        Initialize {
            hooks: (!hooks.is_empty()).then(|| Json::of(&hooks)),
            supported_dialog_kinds: self.dialogs.keys().cloned().collect(),
            ..Initialize::default()
        }
    }

    /// Answers a request of the agent's.
    pub(crate) async fn answer(&self, id: String, request: Request, places: Places) -> Answered {
        let unsupported = format!("Unsupported control request subtype: {}", request.subtype());
        match request {
            Request::CanUseTool(request) if self.asks_permission() => {
                let (rules, callback) = (self.permissions.as_ref(), self.permission.as_ref());
                let (reply, settled) = permission::settle(rules, callback, self.within, id, request, &places).await;
                let failed = matches!(settled.by, SettledBy::Deadline | SettledBy::Panic);
                let trouble = settled.reason.clone().filter(|_| failed);
                Answered { settled: Some(settled), trouble, ..Answered::with(Json::of(&reply)) }
            }
            Request::HookCallback(request) => self.run_hook(id, request, places.home).await,
            Request::McpMessage(request) => self.serve(request).await,
            Request::Elicitation(request) => self.elicit(request).await,
            Request::RequestUserDialog(request) => self.show(request).await,
            // The protocol wants every other one answered, known or not.
            _ => Answered::error(unsupported),
        }
    }

    async fn run_hook(&self, request_id: String, request: HookCallback, home: Option<String>) -> Answered {
        let id = request.callback_id.unwrap_or_default();
        let all = request.input.unwrap_or_else(Json::null);
        let input = all.with(HookInput::read).flatten().unwrap_or_default();
        if let (RULES, Some(rules)) = (id.as_str(), &self.permissions) {
            let (reply, settled) = permission::hold(rules, request_id, &input, home, self.within).await;
            return Answered { settled, ..Answered::with(Json::of(&reply)) };
        }
        let Some((_, hook)) = self.hooks.iter().enumerate().find(|(place, _)| hook::id(*place) == id) else {
            return Answered::error(format!("there is no hook `{id}`"));
        };
        let question = HookQuestion { input: input.clone(), all, tool_use_id: request.tool_use_id };
        match guarded(&hook.callback, question, self.within).await {
            Ok(reply) => {
                // What is denied is denied, also where a hook wrote it.
                let other = reply.hook_specific_output.as_ref().and_then(|output| output.get("updatedInput"));
                if let (Some(rules), Some(other)) = (&self.permissions, other) {
                    let rewritten = HookInput { tool_input: Some(other), ..input };
                    let (held, settled) = permission::hold(rules, request_id, &rewritten, home, self.within).await;
                    if settled.is_some() {
                        return Answered { settled, ..Answered::with(Json::of(&held)) };
                    }
                }
                Answered::with(Json::of(&reply))
            }
            Err(failed) => {
                let name = hook.event.name();
                let refusal = hook::refusal(name, &failed).map(|reply| Json::of(&reply));
                Answered { reply: Some(refusal), ..Answered::default() }.troubled(&format!("the {name} hook"), &failed)
            }
        }
    }

    async fn serve(&self, request: McpMessage) -> Answered {
        let name = request.server_name.unwrap_or_default();
        let Some(server) = self.servers.iter().find(|server| server.name == name) else {
            return Answered::error(format!("there is no MCP server `{name}`"));
        };
        let message = request.message.unwrap_or_else(Json::null);
        let (response, trouble) = server.answer(message, self.within).await;
        Answered { trouble, ..Answered::with(Json::of(&McpMessageReply { mcp_response: Some(response) })) }
    }

    async fn elicit(&self, request: Elicitation) -> Answered {
        let Some(callback) = &self.elicitation else {
            return Answered::error("nobody is here to answer an elicitation");
        };
        match guarded(callback, request, self.within).await {
            Ok(reply) => Answered::with(Json::of(&reply)),
            Err(failed) => {
                Answered::with(Json::of(&ElicitationReply::Decline)).troubled("whoever was asked by an MCP server", &failed)
            }
        }
    }

    async fn show(&self, request: RequestUserDialog) -> Answered {
        let kind = request.dialog_kind.clone().unwrap_or_default();
        // Whoever declared this kind will answer: not us.
        let Some(callback) = self.dialogs.get(&kind) else { return Answered::default() };
        match guarded(callback, request, self.within).await {
            Ok(reply) => Answered::with(reply),
            Err(failed) => {
                Answered::error(format!("the dialog `{kind}` {failed}")).troubled(&format!("the dialog `{kind}`"), &failed)
            }
        }
    }
}
