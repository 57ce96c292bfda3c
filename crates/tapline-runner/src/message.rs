//! A message to an agent: text, images, documents; its priority and its uuid.

use tapline_protocol::Json;
use tapline_protocol::claude::content::{Block, Content};
use tapline_protocol::claude::control::{InputMessage, UserInput};

use crate::marker;

/// When the agent reads a message during a turn. Without a priority it reads the message after the current tool call, in the
/// same turn, or after the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Interrupts the running turn.
    Now,
    /// As soon as the agent can read it.
    Next,
    /// After the turn.
    Later,
}

/// A message to an agent.
///
/// ```
/// use tapline_runner::{Message, Priority};
///
/// let message = Message::text("What is in this picture?").image("image/png", b"\x89PNG").priority(Priority::Next);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    blocks: Vec<Json>,
    text: Option<String>,
    priority: Option<Priority>,
    uuid: Option<String>,
    query: bool,
}

impl Message {
    /// A text message.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::empty() }
    }

    /// Content blocks, as in the Messages API.
    pub fn blocks(blocks: impl IntoIterator<Item = Json>) -> Self {
        Self { blocks: blocks.into_iter().collect(), ..Self::empty() }
    }

    fn empty() -> Self {
        Self { blocks: Vec::new(), text: None, priority: None, uuid: None, query: true }
    }

    /// Adds a content block.
    #[must_use]
    pub fn block(mut self, block: impl Into<Json>) -> Self {
        self.blocks.push(block.into());
        self
    }

    /// Adds an image: `image/png`, `image/jpeg`, … and its bytes.
    #[must_use]
    pub fn image(self, media_type: &str, bytes: &[u8]) -> Self {
        let source = serde_json::json!({"type": "base64", "media_type": media_type, "data": base64(bytes)});
        self.block(serde_json::json!({"type": "image", "source": source}))
    }

    /// When the agent reads it during a turn.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// The uuid by which the agent acknowledges it; random by default. A uuid that was already used in the session is rejected.
    #[must_use]
    pub fn uuid(mut self, uuid: impl Into<String>) -> Self {
        self.uuid = Some(uuid.into());
        self
    }

    /// Adds the message to the conversation without a request to the model.
    #[must_use]
    pub fn without_query(mut self) -> Self {
        self.query = false;
        self
    }

    /// Its name, and the line that says it.
    pub(crate) fn to_line(&self) -> (String, String) {
        let uuid = self.uuid.clone().unwrap_or_else(uuid);
        let content = match &self.text {
            Some(text) if self.blocks.is_empty() => Content::Text(text.clone()),
            text => {
                let text = text.iter().map(|text| serde_json::json!({"type": "text", "text": text}).into());
                Content::Blocks(text.chain(self.blocks.iter().cloned()).map(Block::raw).collect())
            }
        };
        let priority = self.priority.map(|priority| match priority {
            Priority::Now => "now",
            Priority::Next => "next",
            Priority::Later => "later",
        });
        let message = InputMessage { role: Some("user".to_owned()), content };
        let input = UserInput {
            message: Some(message),
            uuid: Some(uuid.clone()),
            priority: priority.map(str::to_owned),
            should_query: (!self.query).then_some(false),
            ..UserInput::default()
        };
        (uuid, input.to_line())
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&String> for Message {
    fn from(text: &String) -> Self {
        Self::text(text)
    }
}

/// A random uuid, version 4.
fn uuid() -> String {
    let hex = marker::random();
    // Where the version and the variant stand.
    let variant = ["8", "9", "a", "b"][hex.as_bytes().last().map_or(0, |digit| usize::from(digit % 4))];
    format!("{}-{}-4{}-{variant}{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = BASE64[(bits >> (18 - 6 * place)) as usize & 63];
            out.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_as_base64() {
        let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("\u{ff}\u{3f}", "w78/")];
        for (bytes, text) in cases {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn names_are_uuids_and_no_two_are_alike() {
        let names: std::collections::BTreeSet<_> = (0..1000).map(|_| uuid()).collect();
        assert_eq!(names.len(), 1000);
        for name in names {
            let parts: Vec<_> = name.split('-').map(str::len).collect();
            assert_eq!(parts, [8, 4, 4, 4, 12], "{name}");
            assert!(name.as_bytes()[14] == b'4' && b"89ab".contains(&name.as_bytes()[19]), "{name}");
        }
    }
}
