//! Tracks who decided each call: we, the agent itself, or a hook of others, unless the request was withdrawn. Each
//! decision is recorded once.

use std::collections::{HashMap, HashSet};

use tapline_protocol::control::{HookInput, Request};
use tapline_protocol::{Json, Read as _, Record};
use tapline_session::permission::Ruling;
use tapline_session::step::{CallAnswer, CallStatus, DeniedBy};
use tapline_session::{Step, What};

use crate::answers::holds;
use crate::settled::{Settled, SettledBy};

/// How many decided calls are kept.
const KEPT: usize = 16_384;

/// The call that a request of the agent is about.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Question {
    /// Whether the request asks if the call may run.
    decides: bool,
    pub(super) tool: String,
    pub(super) call: Option<String>,
    pub(super) input: Option<Json>,
}

impl Question {
    /// Returns the call that a request is about, if any.
    pub(super) fn of(request: &Request) -> Option<Self> {
        match request {
            Request::CanUseTool(request) => Some(Self {
                decides: true,
                tool: request.tool_name.clone().unwrap_or_default(),
                call: request.tool_use_id.clone(),
                input: request.input.clone(),
            }),
            Request::HookCallback(hook) => {
                let input = hook.input.as_ref().and_then(|input| input.with(HookInput::read).flatten())?;
                Some(Self {
                    decides: holds(request).is_some(),
                    tool: input.tool_name?,
                    call: input.tool_use_id.or_else(|| hook.tool_use_id.clone()),
                    input: input.tool_input,
                })
            }
            _ => None,
        }
    }
}

#[derive(Default)]
pub(super) struct Calls {
    /// Whether decisions are made here at all.
    are_kept: bool,
    decided: HashSet<String>,
    withdrawn: HashMap<String, Question>,
}

impl Calls {
    pub(super) fn new(are_kept: bool) -> Self {
        Self { are_kept, ..Self::default() }
    }

    /// Notes that a request was decided here.
    pub(super) fn decide(&mut self, settled: &Settled) {
        if let Some(call) = settled.tool_use_id.as_ref().filter(|_| self.are_kept) {
            // A call without a result is never taken again.
            if self.decided.len() >= KEPT {
                self.decided.clear();
            }
            self.decided.insert(call.clone());
            self.withdrawn.remove(call);
        }
    }

    /// Notes that the agent withdrew a request: somebody else has answered it, or the answer is no longer needed.
    pub(super) fn withdraw(&mut self, question: Question) {
        let counts = |call: &String| self.are_kept && question.decides && !self.decided.contains(call);
        if let Some(call) = question.call.clone().filter(counts) {
            self.withdrawn.insert(call, question);
        }
    }

    /// Returns the decisions in a line that were not made here, and which of our requests somebody else has answered.
    pub(super) fn accept(&mut self, record: &Record, steps: &[Step]) -> (Vec<Settled>, Vec<Question>) {
        let (mut settled, mut taken) = (Vec::new(), Vec::new());
        if !self.are_kept {
            return (settled, taken);
        }
        for step in steps {
            match &step.what {
                What::Answer(answer) => {
                    let (decision, question) = self.answered(record, answer);
                    settled.extend(decision);
                    taken.extend(question);
                }
                What::Turn(_) => settled.extend(self.end()),
                _ => {}
            }
        }
        (settled, taken)
    }

    /// Finds out who decided whether a call ran, from its result.
    fn answered(&mut self, record: &Record, answer: &CallAnswer) -> (Option<Settled>, Option<Question>) {
        let Some(id) = &answer.id else { return (None, None) };
        let tool = answer.name.clone().unwrap_or_default();
        let question = self.withdrawn.remove(id);
        if self.decided.remove(id) {
            return (None, None);
        }
        let meta =
            record.event.as_user().and_then(|user| user.tool_result_meta.iter().find(|meta| meta.id.as_ref() == Some(id)));
        let decision = meta.and_then(|meta| meta.permission_decision.as_ref());
        let source = decision.and_then(|decision| decision.source.as_deref());
        let by_a_hook = source == Some("hook") || answer.denial.as_ref().is_some_and(|denial| denial.by == DeniedBy::Hook);
        let denied = answer.status == CallStatus::Denied;
        // An invalid call was never decided.
        let was_wrong = meta.is_some_and(|meta| meta.non_execution_kind.is_some() && meta.permission_decision.is_none())
            || answer.text.starts_with("<tool_use_error>");
        let ran = !denied && !was_wrong && (decision.is_some() || question.is_none() || answer.status == CallStatus::Ok);
        let by = match (&question, ran) {
            (Some(_), false) => SettledBy::Withdrawn,
            (Some(_), true) => SettledBy::Hook,
            (None, _) if was_wrong => return (None, None),
            (None, _) if by_a_hook => SettledBy::Hook,
            (None, _) => SettledBy::Agent,
        };
        let reason = denied.then(|| answer.text.clone());
        let ruling = if ran { Ruling::Allow } else { Ruling::Deny };
        (Some(elsewhere(id.clone(), tool, ruling, by, reason)), question.filter(|_| ran))
    }

    /// Ends the turn: withdrawn calls without a result did not run.
    pub(super) fn end(&mut self) -> Vec<Settled> {
        let withdrawn = self.withdrawn.drain();
        withdrawn.map(|(id, question)| elsewhere(id, question.tool, Ruling::Deny, SettledBy::Withdrawn, None)).collect()
    }
}

/// Makes a decision that was not made here.
fn elsewhere(call: String, tool: String, ruling: Ruling, by: SettledBy, reason: Option<String>) -> Settled {
    let (request_id, tool_use_id) = (None, Some(call));
    let (rewritten, remembered) = (false, false);
    Settled { request_id, tool_use_id, tool, ruling, by, rule: None, reason, rewritten, remembered, suggestion: None }
}
