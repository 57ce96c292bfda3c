//! Sets what answers the agent's requests.

use std::time::Duration;

use tapline_protocol::Json;
use tapline_protocol::control::{Elicitation, HookReply, RequestUserDialog};
use tapline_session::permission::Permissions;

use super::Agent;
use crate::answers::{
    ElicitationReply, Hook, HookEvent, HookQuestion, OWN_SERVER, Permission, PermissionQuestion, Tool, ToolServer, callback,
};

/// Answers to what the agent asks while it works. Each answer has its own task, so a callback that waits does not block
/// anything else.
impl Agent {
    /// Sets permission rules: deny takes precedence over ask, and ask over allow. What they leave open goes to
    /// [`on_permission`](Self::on_permission); without that, it is denied.
    pub fn permissions(mut self, rules: Permissions) -> Self {
        self.answers.permissions = Some(rules);
        self
    }

    /// Sets the callback that decides whether a tool may run.
    pub fn on_permission<F>(mut self, ask: impl Fn(PermissionQuestion) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Permission> + Send + 'static,
    {
        self.answers.permission = Some(callback(ask));
        self
    }

    /// Adds a hook: a callback that runs whenever this event happens, and can prevent it.
    pub fn hook<F>(self, event: HookEvent, told: impl Fn(HookQuestion) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = HookReply> + Send + 'static,
    {
        self.add_hook(Hook { event, matcher: None, callback: callback(told), within: None })
    }

    /// Adds a hook for some tools only: `Bash`, `Write|Edit`, or a regular expression.
    pub fn hook_for<F>(
        self,
        event: HookEvent,
        tools: impl Into<String>,
        told: impl Fn(HookQuestion) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = HookReply> + Send + 'static,
    {
        self.add_hook(Hook { event, matcher: Some(tools.into()), callback: callback(told), within: None })
    }

    fn add_hook(mut self, hook: Hook) -> Self {
        self.answers.hooks.push(hook);
        self
    }

    /// Sets how long the hook that was added last may take, in place of [`answer_within`](Self::answer_within).
    pub fn hook_within(mut self, limit: Duration) -> Self {
        if let Some(hook) = self.answers.hooks.last_mut() {
            hook.within = Some(limit);
        }
        self
    }

    /// Adds a tool of this program. The agent calls it `mcp__tapline__NAME`.
    pub fn tool(mut self, tool: Tool) -> Self {
        let servers = &mut self.answers.servers;
        let place = servers.iter().position(|server| server.name == OWN_SERVER);
        let own = place.map_or_else(|| ToolServer::new(OWN_SERVER), |place| servers.remove(place));
        servers.push(own.tool(tool));
        self
    }

    /// Adds tools of this program under a server name of their own.
    pub fn tools(mut self, server: ToolServer) -> Self {
        self.answers.servers.retain(|known| known.name != server.name);
        self.answers.servers.push(server);
        self
    }

    /// Sets the callback for when an MCP server asks the user something.
    pub fn on_elicitation<F>(mut self, ask: impl Fn(Elicitation) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ElicitationReply> + Send + 'static,
    {
        self.answers.elicitation = Some(callback(ask));
        self
    }

    /// Sets the callback that shows dialogs of this kind.
    pub fn on_dialog<F>(
        mut self,
        kind: impl Into<String>,
        show: impl Fn(RequestUserDialog) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Json> + Send + 'static,
    {
        self.answers.dialogs.insert(kind.into(), callback(show));
        self
    }

    /// Sets how long a callback may take before the answer is no. The default is ten minutes.
    pub fn answer_within(mut self, limit: Duration) -> Self {
        self.answers.within = limit;
        self
    }
}
