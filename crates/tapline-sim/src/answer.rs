//! An answer of the model's in the words of an API: events of a stream, or one document.

use serde_json::{Value, json};

use crate::asked::Api;
use crate::scenario::{ScriptedBlock, ScriptedTurn, Text, Usage};

/// What is sent back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// One document.
    Document(String),
    /// Server-sent events, each whole.
    Events(Vec<String>),
}

/// An answer before it is put into words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer<'t> {
    pub(crate) turn: &'t ScriptedTurn,
    pub(crate) model: &'t str,
    pub(crate) usage: Usage,
    /// Tells it from other answers.
    pub(crate) id: &'t str,
}

impl Answer<'_> {
    /// The id of a call: its own, or one made of its place.
    pub(crate) fn call_id(self, prefix: &str, given: Option<&str>, at: usize) -> String {
        given.map_or_else(|| format!("{prefix}_{}_{at}", self.id), str::to_owned)
    }

    pub(crate) fn calls_tools(self) -> bool {
        self.turn.blocks.iter().any(|block| matches!(block, ScriptedBlock::Tool(_) | ScriptedBlock::Structured(_)))
    }
}

/// An event as the wire has it.
pub(crate) fn event(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// An error as the API has it.
pub(crate) fn error_document(api: Api, kind: &str, message: &str) -> Value {
    match api {
        Api::Messages => json!({ "type": "error", "error": { "type": kind, "message": message } }),
        Api::Responses => json!({ "error": { "message": message, "type": kind, "param": null, "code": kind } }),
    }
}

/// An error in mid-stream.
pub(crate) fn error_event(api: Api, kind: &str, message: &str) -> String {
    match api {
        Api::Messages => event("error", &error_document(api, kind, message).to_string()),
        Api::Responses => {
            let response = json!({ "id": "resp_sim_failed", "object": "response", "status": "failed", "error": { "code": kind, "message": message } });
            event("response.failed", &json!({ "type": "response.failed", "response": response }).to_string())
        }
    }
}

/// A turn that is one short text.
pub(crate) fn short(text: &str) -> ScriptedBlock {
    ScriptedBlock::Text(Text::plain(text))
}
