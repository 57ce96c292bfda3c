//! The answer to the agent, and its consequences.

use tapline_protocol::control::{HookCallback, HookInput, Request};
use tapline_protocol::{Json, Read as _};

use super::callback::Failed;
use super::others::Others;
use super::rules::Places;
use crate::settled::{Settled, SettledBy};

/// The id of the hook that checks the rules for every call.
pub(super) const RULES: &str = "rules";

/// An answer: a payload, or why there is none.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    /// The reply to the agent. `None` if the protocol wants no answer.
    pub(crate) reply: Option<Result<Json, String>>,
    /// The decision about a permission request.
    pub(crate) settled: Option<Settled>,
    /// If a callback failed: which one, and how.
    pub(crate) trouble: Option<String>,
    /// If something runs that the rules forbid: the reason. The run is then stopped at once.
    pub(crate) violated: Option<String>,
}

/// The context of a request.
#[derive(Clone)]
pub(crate) struct Around {
    pub(crate) places: Places,
    pub(crate) others: Others,
}

impl Answered {
    pub(super) fn with(reply: Json) -> Self {
        Self { reply: Some(Ok(reply)), ..Self::default() }
    }

    /// Returns the answer to a permission request, with its decision.
    pub(super) fn settled(reply: Json, settled: Settled) -> Self {
        let failed = matches!(settled.by, SettledBy::Deadline | SettledBy::Panic);
        let trouble = settled.reason.clone().filter(|_| failed);
        Self { settled: Some(settled), trouble, ..Self::with(reply) }
    }

    pub(super) fn error(text: impl Into<String>) -> Self {
        Self { reply: Some(Err(text.into())), ..Self::default() }
    }

    pub(super) fn troubled(self, who: &str, failed: &Failed) -> Self {
        Self { trouble: Some(format!("{who} {failed}")), ..self }
    }
}

/// Reads the input of a hook. Earlier versions give the id of the call outside of it.
pub(super) fn hook_input(request: &HookCallback) -> HookInput {
    let input = request.input.as_ref().and_then(|input| input.with(HookInput::read).flatten()).unwrap_or_default();
    HookInput { tool_use_id: input.tool_use_id.clone().or_else(|| request.tool_use_id.clone()), ..input }
}

/// If a request is the one that checks the rules for a call: returns the tool and the call.
pub(crate) fn holds(request: &Request) -> Option<(String, Option<String>)> {
    let Request::HookCallback(request) = request else { return None };
    let input = hook_input(request);
    let is_one = request.callback_id.as_deref() == Some(RULES) && input.hook_event_name.as_deref() == Some("PreToolUse");
    is_one.then(|| (input.tool_name.unwrap_or_default(), input.tool_use_id))
}
