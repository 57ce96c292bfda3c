//! What the agent is answered, and what follows from it.

use tapline_protocol::control::{HookCallback, HookInput, Request};
use tapline_protocol::{Json, Read as _};

use super::callback::Failed;
use super::others::Others;
use super::rules::Places;
use crate::settled::{Settled, SettledBy};

/// The hook that holds the rules against every call.
pub(super) const RULES: &str = "rules";

/// What is answered: a payload, or why there is none.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    /// What the agent gets; nothing if the protocol wants it left unanswered.
    pub(crate) reply: Option<Result<Json, String>>,
    /// How a permission question was settled.
    pub(crate) settled: Option<Settled>,
    /// A callback failed: which, and how.
    pub(crate) trouble: Option<String>,
    /// What the rules do not let run runs: the run is stopped at once.
    pub(crate) violated: Option<String>,
}

/// Where a question is asked: what is known there besides.
#[derive(Clone)]
pub(crate) struct Around {
    pub(crate) places: Places,
    pub(crate) others: Others,
}

impl Answered {
    pub(super) fn with(reply: Json) -> Self {
        Self { reply: Some(Ok(reply)), ..Self::default() }
    }

    /// The answer to a permission question, and how it came about.
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

/// What a hook is told. Earlier versions say beside it which call it is about.
pub(super) fn hook_input(request: &HookCallback) -> HookInput {
    let input = request.input.as_ref().and_then(|input| input.with(HookInput::read).flatten()).unwrap_or_default();
    HookInput { tool_use_id: input.tool_use_id.clone().or_else(|| request.tool_use_id.clone()), ..input }
}

/// Whether a request is the one that holds the rules against a call: of which tool, and which call.
pub(crate) fn holds(request: &Request) -> Option<(String, Option<String>)> {
    let Request::HookCallback(request) = request else { return None };
    let input = hook_input(request);
    let is_one = request.callback_id.as_deref() == Some(RULES) && input.hook_event_name.as_deref() == Some("PreToolUse");
    is_one.then(|| (input.tool_name.unwrap_or_default(), input.tool_use_id))
}
