//! A turn: one answer of the model.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tapline_protocol::Json;

use super::text::literal;
use super::{Fault, Repeat, Text, When};

/// One answer of the model.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Written")]
pub struct ScriptedTurn {
    /// The name in messages.
    pub name: Option<String>,
    /// Which requests it answers. Without an agent, those of the main agent.
    pub when: When,
    /// What the request must contain.
    pub expect: When,
    /// How many requests it answers.
    pub repeat: Repeat,
    /// The parts of the answer.
    pub blocks: Vec<ScriptedBlock>,
    /// Why the model stops, if that does not follow from the blocks.
    pub stop_reason: Option<String>,
    /// The usage that it reports.
    pub usage: Option<Usage>,
    /// The model that it names.
    pub model: Option<String>,
    /// How fast it is sent, and in which pieces.
    pub pace: Pace,
    /// Additional headers of the answer.
    pub headers: BTreeMap<String, String>,
    /// The faults before the answer.
    pub faults: Vec<Fault>,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ScriptedBlock {
    /// Text.
    Text(Text),
    /// Thinking.
    Thinking(Text),
    /// A tool call.
    Tool(ToolCall),
    /// Structured output: a tool call or the text of a message, depending on the API.
    Structured(Value),
    /// A whole block in the format of the API.
    Raw(Json),
}

impl ScriptedBlock {
    /// Returns the tool that it calls.
    pub(crate) fn tool(&self) -> Option<&str> {
        match self {
            Self::Tool(call) => Some(&call.name),
            Self::Text(_) | Self::Thinking(_) | Self::Structured(_) | Self::Raw(_) => None,
        }
    }
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The tool.
    pub name: String,
    /// The input.
    #[serde(default = "no_input")]
    pub input: Value,
    /// The id of the call, if it matters.
    pub id: Option<String>,
    /// The namespace, for the tools of Codex that have one (`multi_agent_v1`).
    pub namespace: Option<String>,
}

fn no_input() -> Value {
    Value::Object(serde_json::Map::new())
}

/// The usage that an answer reports, with the names of the Messages API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each is what its name says")]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_creation_input_tokens: u64,
    pub cache_read_input_tokens: u64,
    /// How many of the tokens written to the cache stay there for an hour. The others stay for five minutes. Only the
    /// Messages API reports it.
    pub ephemeral_1h_input_tokens: u64,
    /// How many web searches the model made. Only the Messages API reports it.
    pub web_search_requests: u64,
    /// How many of the output tokens were for reasoning. Only the Responses API reports it.
    pub reasoning_tokens: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self { input_tokens: 12, output_tokens: 42, ..Self::NONE }
    }
}

/// How fast an answer is sent, and in which pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The time before it begins.
    pub before: Duration,
    /// The time between its deltas.
    pub between: Duration,
    /// The number of characters in a delta.
    pub chunk: NonZeroUsize,
    /// The number of bytes in a write, to cut events in the middle.
    pub split: Option<NonZeroUsize>,
}

/// The default number of characters in a delta.
const CHUNK: NonZeroUsize = match NonZeroUsize::new(48) {
    Some(chunk) => chunk,
    None => NonZeroUsize::MIN,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: Option<String>,
    #[serde(default)]
    when: When,
    #[serde(default)]
    expect: When,
    repeat: Option<Repeat>,
    thinking: Option<Text>,
    text: Option<Text>,
    #[serde(default, deserialize_with = "literal")]
    text_json: Option<Text>,
    #[serde(default, rename = "tool", alias = "tools")]
    tools: Vec<ToolCall>,
    structured: Option<Value>,
    content: Option<Vec<Part>>,
    stop_reason: Option<String>,
    usage: Option<Usage>,
    model: Option<String>,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    pace_ms: u64,
    chunk: Option<NonZeroUsize>,
    split: Option<NonZeroUsize>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default, rename = "fault", alias = "faults")]
    faults: Vec<Fault>,
}

#[derive(Deserialize)]
#[serde(try_from = "WrittenPart")]
struct Part(ScriptedBlock);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPart {
    thinking: Option<Text>,
    text: Option<Text>,
    #[serde(default, deserialize_with = "literal")]
    text_json: Option<Text>,
    tool: Option<ToolCall>,
    structured: Option<Value>,
    raw: Option<String>,
}

impl TryFrom<WrittenPart> for Part {
    type Error = String;

    fn try_from(part: WrittenPart) -> Result<Self, String> {
        let raw = part
            .raw
            .map(|text| Json::parse(text.trim()).map(ScriptedBlock::Raw).map_err(|error| format!("raw is not JSON: {error}")));
        let blocks = [
            part.thinking.map(ScriptedBlock::Thinking),
            part.text.map(ScriptedBlock::Text),
            part.text_json.map(ScriptedBlock::Text),
            part.tool.map(ScriptedBlock::Tool),
            part.structured.map(ScriptedBlock::Structured),
            raw.transpose()?,
        ];
        let mut given = blocks.into_iter().flatten();
        match (given.next(), given.next()) {
            (Some(block), None) => Ok(Self(block)),
            _ => Err("a part is one of text, text_json, thinking, tool, structured, raw".to_owned()),
        }
    }
}

impl TryFrom<Written> for ScriptedTurn {
    type Error = String;

    fn try_from(turn: Written) -> Result<Self, String> {
        if turn.text.is_some() && turn.text_json.is_some() {
            return Err("text and text_json exclude each other: use one of them".to_owned());
        }
        let simple = [
            turn.thinking.map(ScriptedBlock::Thinking),
            turn.text.or(turn.text_json).map(ScriptedBlock::Text),
            turn.structured.map(ScriptedBlock::Structured),
        ];
        let mut blocks: Vec<ScriptedBlock> =
            simple.into_iter().flatten().chain(turn.tools.into_iter().map(ScriptedBlock::Tool)).collect();
        if let Some(content) = turn.content {
            if !blocks.is_empty() {
                return Err("a turn has either content or text, thinking, tool and structured, not both".to_owned());
            }
            blocks = content.into_iter().map(|part| part.0).collect();
        }
        if blocks.is_empty() && !turn.faults.iter().any(Fault::stays) {
            return Err(
                "the turn is empty: give it text, thinking, a tool, structured, content, or a fault with times = \"forever\""
                    .to_owned(),
            );
        }
        super::check_headers(&turn.headers)?;
        Ok(Self {
            name: turn.name,
            when: turn.when,
            expect: turn.expect,
            repeat: turn.repeat.unwrap_or(Repeat::Exactly(1)),
            blocks,
            stop_reason: turn.stop_reason,
            usage: turn.usage,
            model: turn.model,
            pace: Pace {
                before: Duration::from_millis(turn.delay_ms),
                between: Duration::from_millis(turn.pace_ms),
                chunk: turn.chunk.unwrap_or(CHUNK),
                split: turn.split,
            },
            headers: turn.headers,
            faults: turn.faults,
        })
    }
}

impl ScriptedTurn {
    /// Makes a turn of one block.
    pub(crate) fn of_block(block: ScriptedBlock) -> Self {
        Self {
            name: None,
            when: When::default(),
            expect: When::default(),
            repeat: Repeat::Exactly(1),
            blocks: vec![block],
            stop_reason: None,
            usage: None,
            model: None,
            pace: Pace { before: Duration::ZERO, between: Duration::ZERO, chunk: CHUNK, split: None },
            headers: BTreeMap::new(),
            faults: Vec::new(),
        }
    }
}

impl Usage {
    pub(crate) const NONE: Self = Self {
        input_tokens: 0,
        output_tokens: 0,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
        ephemeral_1h_input_tokens: 0,
        web_search_requests: 0,
        reasoning_tokens: 0,
    };
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_creation_input_tokens = self.cache_creation_input_tokens.saturating_add(other.cache_creation_input_tokens);
        self.cache_read_input_tokens = self.cache_read_input_tokens.saturating_add(other.cache_read_input_tokens);
        self.ephemeral_1h_input_tokens = self.ephemeral_1h_input_tokens.saturating_add(other.ephemeral_1h_input_tokens);
        self.web_search_requests = self.web_search_requests.saturating_add(other.web_search_requests);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(other.reasoning_tokens);
    }
}
