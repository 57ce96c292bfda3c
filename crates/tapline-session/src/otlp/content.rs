//! Prompts, texts, arguments and results as attributes. Nobody gets them unasked, and never with secrets: whoever asks for them says how a text
//! loses its secrets.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value as JsonValue, json};
use tapline_protocol::Json;

/// How many bytes of a text are sent.
const MOST: usize = 32 << 10;
/// How many texts of one message are sent, and how many bytes of them.
const PARTS: usize = 64;
const PARTS_BYTES: usize = 128 << 10;

/// Removes the secrets of a text. A text that is JSON stays JSON.
#[derive(Clone)]
pub struct Clean(Arc<dyn Fn(&str) -> String + Send + Sync>);

impl Clean {
    /// Cleans with this function.
    pub fn new(clean: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(clean))
    }

    /// Returns a text without its secrets, and not too long. It is cut last: a secret that is cut is no longer recognised.
    pub(super) fn text(&self, text: &str) -> String {
        let clean = (self.0)(text);
        match clean.char_indices().map(|(at, _)| at).take_while(|at| *at <= MOST).last() {
            Some(end) if clean.len() > MOST => format!("{}…", &clean[..end]),
            _ => clean,
        }
    }

    /// Returns JSON without its secrets: as a text that is JSON, unless it had to be cut.
    pub(super) fn json(&self, json: &Json) -> String {
        self.text(json.as_str())
    }
}

impl fmt::Debug for Clean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clean")
    }
}

/// The parts of a message, as the conventions have them.
#[derive(Debug, Default)]
pub(super) struct Parts {
    all: Vec<JsonValue>,
    bytes: usize,
}

impl Parts {
    /// Takes a text, if there is room.
    pub(super) fn text(&mut self, kind: &str, text: &str) {
        if self.has_room(text) {
            self.all.push(json!({"type": kind, "content": text}));
        }
    }

    /// Takes a call, if there is room.
    pub(super) fn call(&mut self, id: Option<&str>, name: &str, arguments: Option<String>) {
        if self.has_room(arguments.as_deref().unwrap_or_default()) {
            let arguments = arguments.map(|text| serde_json::from_str::<JsonValue>(&text).unwrap_or(JsonValue::String(text)));
            self.all.push(json!({"type": "tool_call", "id": id, "name": name, "arguments": arguments}));
        }
    }

    fn has_room(&mut self, text: &str) -> bool {
        self.bytes = self.bytes.saturating_add(text.len());
        self.all.len() < PARTS && self.bytes <= PARTS_BYTES
    }

    /// Returns the message as JSON. One that the model wrote ended for a reason.
    pub(super) fn message(self, role: &str, finish: Option<&str>) -> Option<String> {
        if self.all.is_empty() {
            return None;
        }
        let mut message = json!({"role": role, "parts": self.all});
        if let Some(finish) = finish {
            message["finish_reason"] = finish.into();
        }
        Some(JsonValue::Array(vec![message]).to_string())
    }
}
