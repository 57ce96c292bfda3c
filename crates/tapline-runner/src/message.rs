//! A message to an agent: text, images, documents; its priority and its uuid.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tapline_protocol::Json;
use tapline_protocol::control::{Block, Content, InputMessage, UserInput};
use uuid::Uuid;

/// When the agent reads a message during a turn. Without a priority it reads the message after the current tool call,
/// in the same turn, or after the turn.
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
#[must_use = "a message says nothing until it is sent"]
pub struct Message {
    blocks: Vec<Json>,
    text: Option<String>,
    priority: Option<Priority>,
    uuid: Option<String>,
    query: bool,
}

impl Message {
    /// Creates a text message.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::empty() }
    }

    /// Creates a message of content blocks, as in the Messages API.
    pub fn blocks(blocks: impl IntoIterator<Item = Json>) -> Self {
        Self { blocks: blocks.into_iter().collect(), ..Self::empty() }
    }

    fn empty() -> Self {
        Self { blocks: Vec::new(), text: None, priority: None, uuid: None, query: true }
    }

    /// Adds a content block.
    pub fn block(mut self, block: impl Into<Json>) -> Self {
        self.blocks.push(block.into());
        self
    }

    /// Adds an image: its type (`image/png`, `image/jpeg`, …) and its bytes.
    pub fn image(self, media_type: &str, bytes: &[u8]) -> Self {
        let source = serde_json::json!({"type": "base64", "media_type": media_type, "data": STANDARD.encode(bytes)});
        self.block(serde_json::json!({"type": "image", "source": source}))
    }

    /// Sets when the agent reads it during a turn.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Sets the uuid with which the agent acknowledges it. The default is random. A uuid that was already used in the
    /// session is rejected.
    pub fn uuid(mut self, uuid: impl Into<String>) -> Self {
        self.uuid = Some(uuid.into());
        self
    }

    /// Adds the message to the conversation without a request to the model.
    pub fn without_query(mut self) -> Self {
        self.query = false;
        self
    }

    /// Returns the message's uuid, and its line.
    pub(crate) fn to_line(&self) -> (String, String) {
        let uuid = self.uuid.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
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
