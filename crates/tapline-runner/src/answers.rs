//! Answers the agent's requests: permission rules and a callback, hooks, tools of this program, elicitations, dialogs.
//! A request without a callback gets an error at once, so the agent never waits.

mod answered;
mod callback;
mod elicitation;
mod hold;
mod hook;
mod others;
mod permission;
#[cfg(feature = "rmcp")]
mod rmcp;
mod rules;
mod server;
mod tool;

use std::collections::BTreeMap;
use std::time::Duration;

use tapline_protocol::Json;
use tapline_protocol::control::{
    Elicitation, HookCallback, HookInput, Initialize, McpMessage, McpMessageReply, Request, RequestUserDialog,
};
use tapline_session::permission::{Permissions, Ruling};

pub(crate) use answered::{Answered, Around, holds};
use answered::{RULES, hook_input};
pub use callback::Raised;
pub(crate) use callback::callback;
use callback::{Callback, guarded};
pub use elicitation::ElicitationReply;
use hold::Bench;
pub(crate) use hook::Hook;
pub use hook::{HookEvent, HookQuestion};
pub(crate) use others::{Others, Rewrite};
use others::{Standing, Waiting};
pub use permission::{Permission, PermissionQuestion};
pub(crate) use rules::Places;
pub use server::ToolServer;
pub use tool::{Tool, ToolResult};

/// The longest time for a hook, in seconds.
const WEEK: u64 = 7 * 24 * 3600;

/// Returns how many seconds the agent shall wait for a hook that may take this long.
fn patience(limit: Duration) -> u64 {
    limit.as_secs().saturating_add(60).min(WEEK)
}

/// The server of tools without one of their own.
pub(crate) const OWN_SERVER: &str = "tapline";

/// What answers the agent's requests.
#[derive(Clone)]
pub struct Answers {
    /// Rules that decide without asking.
    pub permissions: Option<Permissions>,
    /// How long a callback may take. After that, the answer is no.
    pub within: Duration,
    pub(crate) permission: Option<Callback<PermissionQuestion, Permission>>,
    pub(crate) hooks: Vec<Hook>,
    pub(crate) servers: Vec<ToolServer>,
    pub(crate) elicitation: Option<Callback<Elicitation, ElicitationReply>>,
    pub(crate) dialogs: BTreeMap<String, Callback<RequestUserDialog, Json>>,
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

impl Answers {
    /// Returns whether anything here answers requests.
    pub(crate) fn is_anybody(&self) -> bool {
        self.asks_permission()
            || !self.hooks.is_empty()
            || !self.servers.is_empty()
            || self.elicitation.is_some()
            || !self.dialogs.is_empty()
    }

    /// Returns whether permission requests come here.
    pub(crate) fn asks_permission(&self) -> bool {
        self.permissions.is_some() || self.permission.is_some()
    }

    /// Returns this program's servers as an MCP configuration.
    pub(crate) fn mcp_config(&self) -> Option<String> {
        if self.servers.is_empty() {
            return None;
        }
        let server = |server: &ToolServer| (server.name.clone(), serde_json::json!({"type": "sdk", "name": server.name}));
        let servers: serde_json::Map<_, _> = self.servers.iter().map(server).collect();
        Some(serde_json::json!({"mcpServers": servers}).to_string())
    }

    /// Returns what the agent is told at the start: which hooks and dialogs there are.
    pub(crate) fn initialize(&self) -> Initialize {
        let mut hooks = BTreeMap::<&str, Vec<serde_json::Value>>::new();
        if self.asks_permission() {
            // The hook covers all calls, not only those that need permission. It may have to ask somebody, and to wait
            // for other hooks.
            let rules = serde_json::json!({"hookCallbackIds": [RULES], "onFailure": "block", "timeout": patience(self.within)});
            hooks.insert("PreToolUse", vec![rules]);
        }
        if self.permissions.is_some() {
            for event in ["PostToolUse", "PostToolUseFailure"] {
                hooks.insert(event, vec![serde_json::json!({"hookCallbackIds": [RULES]})]);
            }
        }
        for (place, hook) in self.hooks.iter().enumerate() {
            let mut matcher = serde_json::json!({"hookCallbackIds": [hook::id(place)]});
            if let Some(tools) = &hook.matcher {
                matcher["matcher"] = tools.as_str().into();
            }
            // The agent waits longer than the hook may take, so that it gets an answer.
            if let Some(limit) = hook.within {
                matcher["timeout"] = patience(limit).into();
            }
            // If the hook cannot be called, the tool does not run.
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

    /// Answers a request of the agent.
    pub(crate) async fn answer(&self, id: String, request: Request, around: Around, waiting: Option<Waiting>) -> Answered {
        let unsupported = format!("Unsupported control request subtype: {}", request.subtype());
        match request {
            Request::CanUseTool(request) if self.asks_permission() => {
                let (rules, callback) = (self.permissions.as_ref(), self.permission.as_ref());
                let call = request.tool_use_id.clone();
                let (reply, settled) = permission::settle(rules, callback, self.within, id, request, &around.places).await;
                let allowed = settled.ruling == Ruling::Allow;
                around.others.settle(call.as_ref(), if allowed { Standing::Allowed } else { Standing::Denied });
                Answered::settled(Json::of(&reply), settled)
            }
            Request::HookCallback(request) => self.run_hook(id, request, around, waiting).await,
            Request::McpMessage(request) => self.serve(request).await,
            Request::Elicitation(request) => self.elicit(request).await,
            Request::RequestUserDialog(request) => self.show(request).await,
            // The protocol requires an answer to every other request, known or not.
            _ => Answered::error(unsupported),
        }
    }

    /// Returns what decides about a call.
    fn bench<'a>(&'a self, places: Places, others: &'a Others) -> Bench<'a> {
        Bench { rules: self.permissions.as_ref(), callback: self.permission.as_ref(), within: self.within, places, others }
    }

    /// Checks the rules when a hook rewrote a call that was already left to the agent, or answered in our place.
    pub(crate) async fn too_late(&self, tool: &str, rewrite: &Rewrite, around: &Around) -> Answered {
        let bench = self.bench(around.places.clone(), &around.others);
        match rewrite {
            Rewrite::Input(input) => bench.too_late(tool, Some(input)).await,
            // A call that has run is checked afterwards.
            Rewrite::Unreadable => Answered::default(),
        }
    }

    async fn run_hook(&self, request_id: String, request: HookCallback, around: Around, waiting: Option<Waiting>) -> Answered {
        let input = hook_input(&request);
        let id = request.callback_id.unwrap_or_default();
        let all = request.input.unwrap_or_else(Json::null);
        let Around { places: Places { home, .. }, others } = around;
        let bench = self.bench(Places { home, cwd: input.cwd.clone() }, &others);
        if id == RULES && self.asks_permission() {
            return match input.hook_event_name.as_deref() {
                Some("PostToolUse" | "PostToolUseFailure") => bench.look_back(&input).await,
                _ => bench.hold(request_id, &input, waiting).await,
            };
        }
        let Some((_, hook)) = self.hooks.iter().enumerate().find(|(place, _)| hook::id(*place) == id) else {
            return Answered::error(format!("there is no hook `{id}`"));
        };
        let question = HookQuestion { input: input.clone(), all, tool_use_id: request.tool_use_id };
        match guarded(&hook.callback, question, hook.within.unwrap_or(self.within)).await {
            Ok(reply) => {
                // A denied call stays denied, even if a hook wrote it.
                let other = reply.hook_specific_output.as_ref().and_then(|output| output.get("updatedInput"));
                if let (Some(_), Some(other)) = (&self.permissions, other) {
                    let rewritten = HookInput { tool_input: Some(other), ..input };
                    if bench.holds_back(&rewritten).await {
                        return bench.hold(request_id, &rewritten, None).await;
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
            return Answered::error("there is nobody to answer the elicitation");
        };
        match guarded(callback, request, self.within).await {
            Ok(reply) => Answered::with(Json::of(&reply)),
            Err(failed) => Answered::with(Json::of(&ElicitationReply::Decline)).troubled("the elicitation callback", &failed),
        }
    }

    async fn show(&self, request: RequestUserDialog) -> Answered {
        let kind = request.dialog_kind.clone().unwrap_or_default();
        // Whoever declared this kind of dialog answers it.
        let Some(callback) = self.dialogs.get(&kind) else { return Answered::default() };
        match guarded(callback, request, self.within).await {
            Ok(reply) => Answered::with(reply),
            Err(failed) => {
                Answered::error(format!("the dialog `{kind}` {failed}")).troubled(&format!("the dialog `{kind}`"), &failed)
            }
        }
    }
}
