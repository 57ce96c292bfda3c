//! Permission requests: rules decide first, then the callback; without one, the answer is no.

use std::time::Duration;

use tapline_protocol::control::{CanUseTool, PermissionReply, PermissionUpdate};
use tapline_protocol::{Json, Read};
use tapline_session::Inquiry;
use tapline_session::permission::{Decision, Permissions, Ruling};

use super::callback::{Callback, Failed, guarded};
use super::rules::{Places, decide, suggest};
use crate::settled::{Settled, SettledBy};

/// The agent asks whether a tool may run, and no rule decides it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PermissionQuestion {
    /// The id of the agent's request.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// The input of the call.
    pub input: Json,
    /// What the rules say: that permission is needed, and why.
    pub decision: Decision,
    /// Everything else that the agent says about the call.
    pub request: CanUseTool,
}

impl PermissionQuestion {
    /// Returns what the agent asks the user, if its tool does that: questions with options. Answer them with
    /// [`PermissionQuestion::answered`]; a plain [`Permission::allow`] would tell the agent that nobody answered.
    pub fn inquiries(&self) -> Vec<Inquiry> {
        Inquiry::of(&self.tool, &self.input).unwrap_or_default()
    }

    /// Answers what the agent asks the user: each question, and what was chosen or said.
    ///
    /// ```
    /// # async fn pick(question: tapline_runner::PermissionQuestion) -> tapline_runner::Permission {
    /// let asked = question.inquiries();
    /// let first = |asked: &tapline_session::Inquiry| (asked.question.clone(), vec![asked.options[0].label.clone()]);
    /// if asked.is_empty() {
    ///     tapline_runner::Permission::deny("only questions are answered")
    /// } else {
    ///     question.answered(&asked.iter().map(first).collect::<Vec<_>>())
    /// }
    /// # }
    /// ```
    pub fn answered(&self, answers: &[(String, Vec<String>)]) -> Permission {
        Permission::allow_with(Inquiry::answered(&self.input, answers))
    }

    /// Returns what the agent suggests to remember, so that it need not ask again.
    pub fn suggestions(&self) -> Vec<PermissionUpdate> {
        self.request.permission_suggestions.iter().filter_map(|json| json.with(PermissionUpdate::read).flatten()).collect()
    }
}

/// The answer to a permission request.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "it decides only as the answer of a callback"]
pub enum Permission {
    /// The call may run.
    Allow {
        /// A different input for the call.
        input: Option<Json>,
        /// What the agent should remember.
        remember: Vec<PermissionUpdate>,
    },
    /// The call may not run.
    Deny {
        /// The reason, for the model to read.
        message: String,
        /// Whether the turn ends, too.
        interrupt: bool,
    },
}

impl Permission {
    /// Allows the call, this once.
    pub fn allow() -> Self {
        Self::Allow { input: None, remember: Vec::new() }
    }

    /// Allows the call with a different input.
    pub fn allow_with(input: impl Into<Json>) -> Self {
        Self::Allow { input: Some(input.into()), remember: Vec::new() }
    }

    /// Allows the call and lets the agent remember these updates (from [`PermissionQuestion::suggestions`]).
    pub fn allow_and_remember(updates: impl IntoIterator<Item = PermissionUpdate>) -> Self {
        Self::Allow { input: None, remember: updates.into_iter().collect() }
    }

    /// Denies the call. The model reads the reason and continues.
    pub fn deny(message: impl Into<String>) -> Self {
        Self::Deny { message: message.into(), interrupt: false }
    }

    /// Denies the call and ends the turn.
    pub fn deny_and_stop(message: impl Into<String>) -> Self {
        Self::Deny { message: message.into(), interrupt: true }
    }
}

/// Decides a permission request: by the rules, or else the callback, or else with no.
pub(super) async fn settle(
    rules: Option<&Permissions>,
    callback: Option<&Callback<PermissionQuestion, Permission>>,
    within: Duration,
    id: String,
    request: CanUseTool,
    places: &Places,
) -> (PermissionReply, Settled) {
    let tool = request.tool_name.clone().unwrap_or_default();
    let input = request.input.clone();
    let decision = match rules {
        Some(rules) => decide(rules, &tool, input.as_ref(), places, within).await,
        None => Decision { ruling: Ruling::Ask, rule: None, reason: None },
    };
    let Decision { mut ruling, mut rule, mut reason } = decision.clone();
    // A rule may let the agent ask a person. It cannot answer for that person.
    if ruling == Ruling::Allow && callback.is_some() && input.as_ref().is_some_and(|input| Inquiry::of(&tool, input).is_some())
    {
        ruling = Ruling::Ask;
    }
    let tool_use_id = request.tool_use_id.clone();
    let (answer, by) = match (ruling, callback) {
        (Ruling::Allow, _) => (Permission::allow(), SettledBy::Rule),
        (Ruling::Deny, _) => (Permission::deny(decision.denial()), SettledBy::Rule),
        (Ruling::Ask, None) => (Permission::deny(nobody(&decision)), SettledBy::Nobody),
        (Ruling::Ask, Some(callback)) => {
            let asked = input.clone().unwrap_or_else(|| serde_json::json!({}).into());
            let question = PermissionQuestion { id: id.clone(), tool: tool.clone(), input: asked, decision, request };
            match guarded(callback, question, within).await {
                Ok(Permission::Allow { input: Some(other), remember }) => {
                    // A denied call stays denied, even if somebody else wrote it.
                    let again = match rules {
                        Some(rules) => Some(decide(rules, &tool, Some(&other), places, within).await),
                        None => None,
                    };
                    match again.filter(|again| again.ruling == Ruling::Deny) {
                        Some(denied) => {
                            let told = denied.denial();
                            (rule, reason) = (denied.rule, denied.reason);
                            (Permission::deny(told), SettledBy::Rule)
                        }
                        None => (Permission::Allow { input: Some(other), remember }, SettledBy::Callback),
                    }
                }
                Ok(answer) => (answer, SettledBy::Callback),
                Err(failed) => {
                    let by = if matches!(failed, Failed::Panicked(_)) { SettledBy::Panic } else { SettledBy::Deadline };
                    (Permission::deny(format!("the permission callback {failed}")), by)
                }
            }
        }
    };
    let suggestion = match rules.filter(|_| by == SettledBy::Nobody) {
        Some(rules) => suggest(rules, &tool, input.as_ref(), places, within).await,
        None => None,
    };
    let settled = |ruling, reason, rewritten, remembered| Settled {
        request_id: Some(id.clone()),
        tool_use_id: tool_use_id.clone(),
        tool: tool.clone(),
        ruling,
        by,
        rule: rule.clone(),
        reason,
        rewritten,
        remembered,
        suggestion: suggestion.clone(),
    };
    let reply = PermissionReply { tool_use_id: tool_use_id.clone(), ..PermissionReply::default() };
    match answer {
        Permission::Allow { input: other, remember } => {
            let settled = settled(Ruling::Allow, reason, other.is_some(), !remember.is_empty());
            let reply = PermissionReply {
                behavior: Some("allow".to_owned()),
                // Earlier versions require it, changed or not.
                updated_input: other.or(input),
                updated_permissions: remember.iter().map(Json::of).collect(),
                ..reply
            };
            (reply, settled)
        }
        Permission::Deny { message, interrupt } => {
            // The agent ignores an answer without a message.
            let message = if message.trim().is_empty() { "it was denied".to_owned() } else { message };
            // The rule stands beside its reason.
            let why = if by == SettledBy::Rule { reason.unwrap_or_else(|| DENIED.to_owned()) } else { message.clone() };
            let settled = settled(Ruling::Deny, Some(why), false, false);
            let interrupt = interrupt.then_some(true);
            (PermissionReply { behavior: Some("deny".to_owned()), message: Some(message), interrupt, ..reply }, settled)
        }
    }
}

/// Says why a call that needed permission was denied.
pub(super) fn nobody(decision: &Decision) -> String {
    match (&decision.reason, &decision.rule) {
        (Some(why), _) => format!("{why}, and there is nobody to ask"),
        (None, Some(rule)) => format!("{rule} requires asking a person, and there is nobody to ask"),
        (None, None) => "no permission rule allows it, and there is nobody to ask".to_owned(),
    }
}

/// The reason, if the rule has none.
pub(super) const DENIED: &str = "a permission rule denies it";
