//! An answer of the model in the format of an API: events of a stream, or one document.

use serde_json::{Value, json};

use crate::asked::Api;
use crate::scenario::{ScriptedBlock, ScriptedTurn, Text, Usage};

/// The body of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// One document.
    Document(String),
    /// Server-sent events.
    Events(Vec<String>),
}

/// An answer before it is formatted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer<'t> {
    pub(crate) turn: &'t ScriptedTurn,
    pub(crate) model: &'t str,
    pub(crate) usage: Usage,
    /// The id, which differs from that of other answers.
    pub(crate) id: &'t str,
}

impl Answer<'_> {
    /// Returns the id of a call: the given one, or one made from its position.
    pub(crate) fn call_id(self, prefix: &str, given: Option<&str>, at: usize) -> String {
        given.map_or_else(|| format!("{prefix}_{}_{at}", self.id), str::to_owned)
    }

    pub(crate) fn calls_tools(self) -> bool {
        self.turn.blocks.iter().any(|block| matches!(block, ScriptedBlock::Tool(_) | ScriptedBlock::Structured(_)))
    }
}

/// Formats a server-sent event.
pub(crate) fn event(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// Formats an error of the API.
pub(crate) fn error_document(api: Api, kind: &str, message: &str) -> Value {
    match api {
        Api::Messages => json!({ "type": "error", "error": { "type": kind, "message": message } }),
        Api::Responses => json!({ "error": { "message": message, "type": kind, "param": null, "code": kind } }),
    }
}

/// Formats an error in the middle of a stream.
pub(crate) fn error_event(api: Api, kind: &str, message: &str) -> String {
    match api {
        Api::Messages => event("error", &error_document(api, kind, message).to_string()),
        Api::Responses => {
            let response = json!({ "id": "resp_sim_failed", "object": "response", "status": "failed", "error": { "code": kind, "message": message } });
            event("response.failed", &json!({ "type": "response.failed", "response": response }).to_string())
        }
    }
}

/// Makes a block of one short text.
pub(crate) fn short(text: &str) -> ScriptedBlock {
    ScriptedBlock::Text(Text::plain(text))
}
