//! Checks the rules for every call before it runs, whatever else allows it: the agent runs many calls without asking,
//! and other hooks rewrite calls. A call that has run is checked again.

use std::time::Duration;

use tapline_protocol::Json;
use tapline_protocol::control::{CanUseTool, HookInput, HookReply};
use tapline_session::permission::{Decision, Permissions, Ruling};

use super::answered::Answered;
use super::callback::Callback;
use super::others::{Held, Others, Rewrite, Standing, Waiting};
use super::permission::{DENIED, Permission, PermissionQuestion, nobody, settle};
use super::rules::{Places, decide, suggest};
use crate::settled::{Settled, SettledBy};

/// What decides about a call.
pub(super) struct Bench<'a> {
    pub(super) rules: Option<&'a Permissions>,
    pub(super) callback: Option<&'a Callback<PermissionQuestion, Permission>>,
    pub(super) within: Duration,
    pub(super) places: Places,
    pub(super) others: &'a Others,
}

/// Why a call that a rule allows is still asked about: only then does the agent say what it will run.
const SHOW: &str = "the permission rules want to see what will run";

impl Bench<'_> {
    async fn decide(&self, tool: &str, input: Option<&Json>) -> Decision {
        match self.rules {
            Some(rules) => decide(rules, tool, input, &self.places, self.within).await,
            None => Decision { ruling: Ruling::Ask, rule: None, reason: None },
        }
    }

    /// Returns the strictest decision about a call and its rewrites by other hooks, whether it is known what will run,
    /// and whether it was a rewrite.
    async fn strictest(&self, hook: &HookInput, waiting: Option<Waiting>) -> (Decision, bool, bool) {
        let tool = hook.tool_name.as_deref().unwrap_or_default();
        let mut decision = self.decide(tool, hook.tool_input.as_ref()).await;
        let rewrites = match &waiting {
            // Nothing overrides a deny.
            Some(waiting) if self.rules.is_some() && decision.ruling != Ruling::Deny => waiting.rewrites().await,
            _ => Some(Vec::new()),
        };
        // If the agent does not report hooks, it says what it will run only when it asks.
        let mut known = rewrites.is_some() && (self.others.are_told() || decision.ruling != Ruling::Allow);
        let mut rewritten = false;
        for rewrite in rewrites.into_iter().flatten() {
            let other = match rewrite {
                Rewrite::Input(input) => self.decide(tool, Some(&input)).await,
                Rewrite::Unreadable => {
                    let reason = Some("a hook rewrites the call, and its output cannot be read".to_owned());
                    Decision { ruling: Ruling::Deny, rule: None, reason }
                }
            };
            known &= other.ruling == Ruling::Allow;
            if other.strictness() > decision.strictness() {
                (decision, rewritten) = (other, true);
            }
        }
        (decision, known, rewritten)
    }

    /// Checks the rules for a call. It denies the call or asks for permission if they say so, and otherwise leaves the
    /// call to the agent.
    pub(super) async fn hold(&self, id: String, hook: &HookInput, waiting: Option<Waiting>) -> Answered {
        let (decision, known, rewritten) = self.strictest(hook, waiting).await;
        let tool = hook.tool_name.clone().unwrap_or_default();
        let call = hook.tool_use_id.as_ref();
        let keep = |standing| {
            let held = Held { input: hook.tool_input.clone(), cwd: self.places.cwd.clone(), standing };
            self.others.hold(call, held);
        };
        let unasked = hook.permission_mode.as_deref() == Some("bypassPermissions") && self.rules.is_some();
        let to_be_asked = match (decision.ruling, &decision.rule) {
            (Ruling::Deny, _) => {
                keep(Standing::Denied);
                let about = if rewritten { " (a hook would run it in place of this call)" } else { "" };
                let told = decision.denial() + about;
                let why = decision.reason.unwrap_or_else(|| DENIED.to_owned()) + about;
                let refused = refuse(id, tool, call, told, (SettledBy::Rule, decision.rule, rewritten));
                let settled = refused.settled.map(|settled| Settled { reason: Some(why), ..settled });
                return Answered { settled, ..refused };
            }
            (Ruling::Ask, Some(_)) => true,
            // An agent that would never ask must also ask about what no rule matches.
            (Ruling::Ask, None) => unasked || !known || self.agent_would_ask(&tool, hook),
            (Ruling::Allow, _) => !known,
        };
        if !to_be_asked {
            keep(Standing::Left);
            return Answered::with(Json::of(&HookReply::pass()));
        }
        if known && self.callback.is_none() {
            keep(Standing::Denied);
            let suggestion = match self.rules.filter(|_| !rewritten) {
                Some(rules) => suggest(rules, &tool, hook.tool_input.as_ref(), &self.places, self.within).await,
                None => None,
            };
            let mut refused = refuse(id, tool, call, nobody(&decision), (SettledBy::Nobody, decision.rule, rewritten));
            refused.settled = refused.settled.map(|settled| Settled { suggestion, ..settled });
            return refused;
        }
        let why = decision.reason.clone();
        keep(Standing::Asked);
        // Some versions that do not report hooks run commands that they misread, even if a hook wants permission for
        // them (2.0.76: `>f rm x`).
        if known && (self.others.answer_questions() || !self.others.are_told() && decision.rule.is_some()) {
            return self.ask_here(id, hook).await;
        }
        let fallback = if decision.ruling == Ruling::Allow { SHOW } else { "a permission rule requires asking" };
        Answered::with(Json::of(&HookReply::ask_tool(why.unwrap_or_else(|| fallback.to_owned()))))
    }

    /// Returns whether another hook would answer the permission request for this call before us. Then we ask first. The
    /// agent runs read-only tools in its folder without asking, and what its mode allows.
    fn agent_would_ask(&self, tool: &str, hook: &HookInput) -> bool {
        if self.callback.is_none() || !self.others.answer_questions() {
            return false;
        }
        let mode = hook.permission_mode.as_deref().unwrap_or_default();
        let edits = EDITS.contains(&tool) && mode == "acceptEdits";
        !(edits || mode == "bypassPermissions" || LOOKS.contains(&tool))
    }

    /// Asks for permission before the agent does, because another hook would answer its request.
    async fn ask_here(&self, id: String, hook: &HookInput) -> Answered {
        let request = CanUseTool {
            tool_name: hook.tool_name.clone(),
            input: hook.tool_input.clone(),
            tool_use_id: hook.tool_use_id.clone(),
            ..CanUseTool::default()
        };
        let (answer, settled) = settle(self.rules, self.callback, self.within, id, request, &self.places).await;
        let reply = if settled.ruling == Ruling::Allow {
            self.others.settle(hook.tool_use_id.as_ref(), Standing::Allowed);
            HookReply::allow_tool_with(&answer.updated_input.unwrap_or_else(|| serde_json::json!({}).into()))
        } else {
            self.others.settle(hook.tool_use_id.as_ref(), Standing::Denied);
            let why = answer.message.unwrap_or_default();
            let stop = if answer.interrupt == Some(true) { HookReply::stop(why.clone()) } else { HookReply::pass() };
            HookReply { hook_specific_output: HookReply::deny_tool(why).hook_specific_output, ..stop }
        };
        Answered::settled(Json::of(&reply), settled)
    }

    /// Returns whether a rule denies a call or wants it to be asked about.
    pub(super) async fn holds_back(&self, hook: &HookInput) -> bool {
        let tool = hook.tool_name.as_deref().unwrap_or_default();
        self.decide(tool, hook.tool_input.as_ref()).await.strictness() >= 2
    }

    /// Checks a call that has run. Only now is its input certain.
    pub(super) async fn look_back(&self, hook: &HookInput) -> Answered {
        let passed = || Answered::with(Json::of(&HookReply::pass()));
        let Some(held) = hook.tool_use_id.as_ref().and_then(|call| self.others.take(call)) else { return passed() };
        let tool = hook.tool_name.clone().unwrap_or_default();
        let same = hook.tool_input == held.input;
        let broken = match held.standing {
            Standing::Denied => Some(format!("{tool} was denied, but has run: a hook that is not tapline's allowed it")),
            Standing::Left | Standing::Allowed if same => None,
            standing => {
                let places = Places { cwd: held.cwd, ..self.places.clone() };
                let there = Bench { places, ..*self };
                there.broken(&tool, hook.tool_input.as_ref(), standing).await
            }
        };
        match broken {
            Some(why) => Answered { violated: Some(why.clone()), ..Answered::with(Json::of(&HookReply::stop(why))) },
            None => passed(),
        }
    }

    /// Says how a call that runs or has run breaks the rules, if it does.
    async fn broken(&self, tool: &str, input: Option<&Json>, standing: Standing) -> Option<String> {
        let decision = self.decide(tool, input).await;
        let is_broken = match decision.ruling {
            Ruling::Deny => true,
            Ruling::Ask => decision.rule.is_some() && standing != Standing::Allowed,
            Ruling::Allow => false,
        };
        let rule = decision.rule.unwrap_or_else(|| "a rule".to_owned());
        let why = decision.reason.map(|why| format!(": {why}")).unwrap_or_default();
        is_broken
            .then(|| format!("{tool} ran something that {rule} does not allow, because of another hook or without asking{why}"))
    }

    /// Checks a call that a hook rewrote after it was left to the agent, or whose permission request another hook
    /// answered.
    pub(super) async fn too_late(&self, tool: &str, input: Option<&Json>) -> Answered {
        let violated = self.broken(tool, input, Standing::Left).await;
        Answered { violated, ..Answered::default() }
    }
}

/// Tools that change files.
const EDITS: &[&str] = &["Write", "Edit", "MultiEdit", "NotebookEdit"];

/// Tools that an agent asks about only if they read outside of its folder, or that ask the user themselves.
const LOOKS: &[&str] = &[
    "Read",
    "Glob",
    "Grep",
    "LS",
    "NotebookRead",
    "TodoWrite",
    "TodoRead",
    "Task",
    "Agent",
    "AskUserQuestion",
    "ExitPlanMode",
    "EnterPlanMode",
    "ToolSearch",
    "BashOutput",
    "TaskOutput",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskUpdate",
    "TaskStop",
    "KillShell",
    "KillBash",
    "ListMcpResources",
    "StructuredOutput",
];

/// Denies a call, with a reason.
fn refuse(
    id: String,
    tool: String,
    call: Option<&String>,
    why: String,
    (by, rule, rewritten): (SettledBy, Option<String>, bool),
) -> Answered {
    let settled = Settled {
        request_id: Some(id),
        tool_use_id: call.cloned(),
        tool,
        ruling: Ruling::Deny,
        by,
        rule,
        reason: Some(why.clone()),
        rewritten,
        remembered: false,
        suggestion: None,
    };
    Answered { settled: Some(settled), ..Answered::with(Json::of(&HookReply::deny_tool(why))) }
}
