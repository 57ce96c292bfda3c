//! How a dialogue begins: the agent is told what is answered here, and then gets its prompt. An agent that does not
//! follow the protocol is stopped.

use tapline_protocol::control::{GetHooksListing, HooksListing, Initialize, InitializeReply, Request};
use tokio::sync::oneshot;

use crate::agent::Agent;
use crate::answers::Others;
use crate::control::{Control, SessionError};
use crate::spec::AgentInput;
use crate::stopper::Stopper;

/// What the agent is sent first.
#[derive(Debug)]
pub(super) struct Opening {
    initialize: Initialize,
    /// With permission rules or a callback: where to note hooks of others.
    others: Option<Others>,
    prompt: Option<String>,
    /// Whether more messages follow.
    converses: bool,
}

impl Opening {
    /// Returns what an agent in a dialogue is sent first.
    pub(super) fn of(agent: &Agent, others: &Others) -> Self {
        let prompt = match &agent.input {
            AgentInput::Prompt(prompt) => Some(String::from_utf8_lossy(prompt).into_owned()),
            AgentInput::Nothing | AgentInput::Messages { .. } => None,
        };
        Self {
            initialize: agent.answers.initialize(),
            others: agent.answers.asks_permission().then(|| others.clone()),
            prompt,
            converses: agent.converses,
        }
    }

    /// Sends it.
    pub(super) async fn say(self, control: Control, stopper: Stopper, began: oneshot::Sender<InitializeReply>) {
        match control.initialize(self.initialize).await {
            Ok(reply) => {
                // Versions that do not report their version do not answer this either.
                if let Some(others) = self.others.filter(|_| reply.version().is_some()) {
                    tokio::spawn(look_for_hooks(control.clone(), others));
                }
                let _ = began.send(reply);
            }
            // The report says how it ended.
            Err(SessionError::Ended { .. }) => return,
            Err(error) => return stopper.not_talking(error.to_string()),
        }
        if let Some(prompt) = self.prompt {
            let _ = control.send(prompt);
        }
        if !self.converses {
            control.finish();
        }
    }
}

/// Finds out whether hooks of others answer permission requests. This is known long before the first call.
async fn look_for_hooks(control: Control, others: Others) {
    let Ok(listing) = control.in_passing().ask::<HooksListing>(Request::GetHooksListing(GetHooksListing {})).await else {
        return;
    };
    let events = listing.events.and_then(|events| events.to::<Vec<serde_json::Value>>().ok()).unwrap_or_default();
    if events.iter().any(|event| event["name"] == "PermissionRequest") {
        others.set_answer_questions();
    }
}
