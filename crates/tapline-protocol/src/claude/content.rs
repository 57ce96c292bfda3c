//! Content blocks: the parts of a message.

use crate::json::{Json, Kind, Value};
use crate::wire::{Read, frame, tagged};

/// A message's `content`: a string, or a list of blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Content {
    /// No content, or content of another type.
    #[default]
    Absent,
    /// A plain string.
    Text(String),
    /// A list of blocks. Items that are not objects are kept as [`Block::NotObject`].
    Blocks(Vec<Block>),
}

impl Content {
    /// Returns the blocks, if the content is a list.
    pub fn blocks(&self) -> &[Block] {
        match self {
            Self::Blocks(blocks) => blocks,
            Self::Absent | Self::Text(_) => &[],
        }
    }

    /// Returns the text of a tool result: the string, or the non-empty texts of the list joined with newlines.
    pub fn joined_text(&self) -> String {
        match self {
            Self::Absent => String::new(),
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => {
                let texts = blocks.iter().filter_map(Block::as_text).filter(|text| !text.is_empty());
                texts.collect::<Vec<_>>().join("\n")
            }
        }
    }
}

impl ToolResult {
    /// Returns whether a result is a failure, by its `is_error` and the beginning of its text. Results without the flag
    /// say it in words.
    pub fn is_failure(is_error: Option<bool>, text: &str) -> bool {
        is_error.unwrap_or_else(|| says_error(text))
    }
}

fn says_error(text: &str) -> bool {
    let code = text.strip_prefix("Exit code").and_then(|rest| {
        let rest = rest.trim_start_matches([' ', ':']);
        let digits = rest.strip_prefix('-').unwrap_or(rest);
        digits.split(|c: char| !c.is_ascii_digit()).next().filter(|digits| !digits.is_empty())
    });
    text.starts_with("Error:")
        || text.starts_with("<tool_use_error>")
        || code.is_some_and(|code| code.bytes().any(|digit| digit != b'0'))
}

/// How deep nested content is read.
const DEEPEST: u32 = 64;

impl Read for Content {
    fn read(value: Value<'_>) -> Option<Self> {
        if let Some(text) = value.as_str() {
            return Some(Self::Text(text.into_owned()));
        }
        // Tool results hold content, and content holds tool results. Anything nested deeper than an agent would write
        // is not read.
        if value.depth() > DEEPEST {
            return None;
        }
        Some(Self::Blocks(value.items()?.map(Block::read).collect()))
    }
}

impl crate::wire::Field for Content {
    fn field(value: Value<'_>) -> Self {
        Self::read(value).unwrap_or_default()
    }
    fn present(&self) -> bool {
        *self != Self::Absent
    }
}

impl serde::Serialize for Content {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Absent => serializer.serialize_none(),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Blocks(blocks) => serializer.collect_seq(blocks),
        }
    }
}

/// One content block. The set is open: a block of a new kind is kept as [`Block::Other`], with its text.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// `text`
    Text(Text),
    /// `thinking`
    Thinking(Thinking),
    /// `redacted_thinking`
    RedactedThinking(RedactedThinking),
    /// `tool_use`
    ToolUse(ToolUse),
    /// `tool_result`
    ToolResult(ToolResult),
    /// `server_tool_use`, `mcp_tool_use`: a call that the API runs, not the agent.
    ServerToolUse(ServerToolUse),
    /// `web_search_tool_result` and any other `…_tool_result`.
    ServerToolResult(ServerToolResult),
    /// `image`
    Image(Media),
    /// `document`
    Document(Media),
    /// A block known only by its name, or of a kind this version does not know.
    Other(Other),
    /// An item of the list that is not an object.
    NotObject(Json),
}

/// Blocks that are known but tell a reader of the stream nothing.
const KNOWN_BY_NAME: &[&str] = &["container_upload", "search_result", "tool_reference", "compaction", "fallback"];

impl Block {
    /// Wraps JSON that is written unchanged.
    pub fn raw(json: Json) -> Self {
        Self::Other(Other { name: json.text_of("type"), known: false, json })
    }

    fn read(value: Value<'_>) -> Self {
        fn shape<T: Read + Default>(value: Value<'_>) -> T {
            T::read(value).unwrap_or_default()
        }
        if value.kind() != Kind::Object {
            return Self::NotObject(value.to_json());
        }
        let kind = value.get("type").and_then(Value::as_str);
        match kind.as_deref() {
            Some("text") => Self::Text(shape(value)),
            Some("thinking") => Self::Thinking(shape(value)),
            Some("redacted_thinking") => Self::RedactedThinking(shape(value)),
            Some("tool_use") => Self::ToolUse(shape(value)),
            Some("tool_result") => Self::ToolResult(shape(value)),
            Some("server_tool_use" | "mcp_tool_use") => Self::ServerToolUse(shape(value)),
            Some("image") => Self::Image(shape(value)),
            Some("document") => Self::Document(shape(value)),
            Some(name) if name.ends_with("_tool_result") => Self::ServerToolResult(shape(value)),
            name => Self::Other(Other {
                known: name.is_some_and(|name| KNOWN_BY_NAME.contains(&name)),
                name: name.map(str::to_owned),
                json: value.to_json(),
            }),
        }
    }

    /// Returns the text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(block) = self { Some(block.text.as_deref().unwrap_or_default()) } else { None }
    }
}

impl serde::Serialize for Block {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(block) => tagged(serializer, "type", "text", block),
            Self::Thinking(block) => tagged(serializer, "type", "thinking", block),
            Self::RedactedThinking(block) => tagged(serializer, "type", "redacted_thinking", block),
            Self::ToolUse(block) => tagged(serializer, "type", "tool_use", block),
            Self::ToolResult(block) => tagged(serializer, "type", "tool_result", block),
            Self::ServerToolUse(block) => block.serialize(serializer),
            Self::ServerToolResult(block) => block.serialize(serializer),
            Self::Image(block) => tagged(serializer, "type", "image", block),
            Self::Document(block) => tagged(serializer, "type", "document", block),
            Self::Other(block) => block.json.serialize(serializer),
            Self::NotObject(json) => json.serialize(serializer),
        }
    }
}

/// A block that is passed on unchanged.
#[derive(Clone, Debug, PartialEq)]
pub struct Other {
    /// The block's `type`, if it has one.
    pub name: Option<String>,
    /// Whether this version knows the name.
    pub known: bool,
    /// The block's JSON text.
    pub json: Json,
}

frame! {
    /// A text.
    Text { text: Option<String> = "text"; also "type", "citations", "cache_control" }

    /// A thought.
    Thinking { thinking: Option<String> = "thinking", signature: Option<String> = "signature"; also "type" }

    /// A thought whose text is hidden.
    RedactedThinking { data: Option<String> = "data"; also "type" }

    /// A tool call.
    ToolUse {
        id: Option<String> = "id",
        name: Option<String> = "name",
        input: Option<Json> = "input",
        caller: Option<Json> = "caller";
        also "type", "cache_control"
    }

    /// The result of a tool call.
    ToolResult {
        tool_use_id: Option<String> = "tool_use_id",
        content: Content = "content",
        is_error: Option<bool> = "is_error";
        also "type", "cache_control"
    }

    /// A tool call that the API runs itself.
    ServerToolUse {
        kind: Option<String> = "type",
        id: Option<String> = "id",
        name: Option<String> = "name",
        input: Option<Json> = "input",
        server_name: Option<String> = "server_name",
    }

    /// The result of a tool call that the API ran itself.
    ServerToolResult {
        kind: Option<String> = "type",
        tool_use_id: Option<String> = "tool_use_id",
        content: Option<Json> = "content",
        is_error: Option<bool> = "is_error",
    }

    /// An image or a document.
    Media {
        source: Option<MediaSource> = "source",
        title: Option<String> = "title";
        also "type", "context", "citations", "cache_control"
    }

    /// Where an image or a document comes from.
    MediaSource {
        kind: Option<String> = "type",
        media_type: Option<String> = "media_type",
        data: Option<String> = "data",
        url: Option<String> = "url",
        file_id: Option<String> = "file_id",
    }
}
