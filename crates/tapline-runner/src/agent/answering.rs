//! How an agent is given somebody who answers.

use std::time::Duration;

use tapline_protocol::Json;
use tapline_protocol::control::{Elicitation, HookReply, RequestUserDialog};
use tapline_session::permission::Permissions;

use super::Agent;
use crate::answers::{
    ElicitationReply, Hook, HookEvent, HookQuestion, OWN_SERVER, Permission, PermissionQuestion, Tool, ToolServer, callback,
};

/// What the agent asks while it works. It answers from a task of its own: what a callback waits for holds up nothing else.
impl Agent {
    /// Rules for what it may do: deny wins over ask, ask over allow. What they leave open is asked of
    /// [`on_permission`](Self::on_permission); where nobody is there, it is denied.
    pub fn permissions(mut self, rules: Permissions) -> Self {
        self.answers.permissions = Some(rules);
        self
    }

    /// Who is asked whether a tool may run.
    pub fn on_permission<F>(mut self, ask: impl Fn(PermissionQuestion) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Permission> + Send + 'static,
    {
        self.answers.permission = Some(callback(ask));
        self
    }

    /// A hook: told whenever this happens, and able to hold it back.
    pub fn hook<F>(self, event: HookEvent, told: impl Fn(HookQuestion) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = HookReply> + Send + 'static,
    {
        self.add_hook(Hook { event, matcher: None, callback: callback(told) })
    }

    /// A hook for some tools alone: `Bash`, `Write|Edit`, a regular expression.
    pub fn hook_for<F>(
        self,
        event: HookEvent,
        tools: impl Into<String>,
        told: impl Fn(HookQuestion) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = HookReply> + Send + 'static,
    {
        self.add_hook(Hook { event, matcher: Some(tools.into()), callback: callback(told) })
    }

    fn add_hook(mut self, hook: Hook) -> Self {
        self.answers.hooks.push(hook);
        self
    }

    /// A tool of this program's: the agent calls it `mcp__tapline__NAME`.
    pub fn tool(mut self, tool: Tool) -> Self {
        let servers = &mut self.answers.servers;
        let place = servers.iter().position(|server| server.name == OWN_SERVER);
        let own = place.map_or_else(|| ToolServer::new(OWN_SERVER), |place| servers.remove(place));
        servers.push(own.tool(tool));
        self
    }

    /// Tools of this program's under a name of their own.
    pub fn tools(mut self, server: ToolServer) -> Self {
        self.answers.servers.retain(|known| known.name != server.name);
        self.answers.servers.push(server);
        self
    }

    /// Who is asked when an MCP server wants something of the person.
    pub fn on_elicitation<F>(mut self, ask: impl Fn(Elicitation) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ElicitationReply> + Send + 'static,
    {
        self.answers.elicitation = Some(callback(ask));
        self
    }

    /// Who shows dialogs of this kind.
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

    /// How long a callback may take before the answer is no; ten minutes if nothing is said.
    pub fn answer_within(mut self, limit: Duration) -> Self {
        self.answers.within = limit;
        self
    }
}
