//! Reads steps back, as `convert --to steps` writes them. It is written by hand, because serde's flattened and tagged
//! types go through a buffer that changes the agent's JSON.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use tapline_protocol::{Agent, Json, Moment};

use super::{MessageInfo, Step, What};

/// The fields of every step. Without a kind, it is not a step.
#[derive(Deserialize)]
struct Place {
    #[serde(default)]
    line: u64,
    #[serde(rename = "arrived_ms")]
    arrived: Option<Moment>,
    at: Option<String>,
    parent: Option<String>,
    #[serde(default)]
    depth: usize,
    #[serde(default)]
    turn: usize,
    session_id: Option<String>,
    step: String,
}

/// The fields of steps without a type of their own.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Plain {
    text: String,
    uuids: Vec<String>,
    kind: String,
    detail: Option<String>,
}

/// Works only with `serde_json`. A kind of step that this version does not know is read as a quiet step of that kind.
impl<'de> Deserialize<'de> for Step {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(deserializer)?;
        let Place { line, arrived, at, parent, depth, turn, session_id, step } =
            serde_json::from_str(json.as_str()).map_err(D::Error::custom)?;
        let what = what(step, &json).map_err(D::Error::custom)?;
        let is_block = what.is_of_message();
        let message: MessageInfo =
            if is_block { serde_json::from_str(json.as_str()).unwrap_or_default() } else { MessageInfo::default() };
        let message = (message != MessageInfo::default()).then(|| Box::new(message));
        Ok(Self { line, at, arrived, parent, depth, turn, session_id, what, message })
    }
}

/// Reads an agent by its name. An unknown name is `None`.
pub(crate) fn agent_named<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Agent>, D::Error> {
    Ok(Agent::named(&String::deserialize(deserializer)?))
}

fn what(step: String, json: &Json) -> Result<What, serde_json::Error> {
    fn fields<T: DeserializeOwned>(json: &Json) -> Result<T, serde_json::Error> {
        serde_json::from_str(json.as_str())
    }
    Ok(match step.as_str() {
        "session" => What::Session(fields(json)?),
        "text" => What::Text(fields(json)?),
        "thinking" => What::Thinking(fields(json)?),
        "call" => What::Call(fields(json)?),
        "answer" => What::Answer(fields(json)?),
        "orphan" => What::Orphan(fields(json)?),
        "server_call" => What::ServerCall(fields(json)?),
        "server_answer" => What::ServerAnswer(fields(json)?),
        "partial" => What::Partial(fields(json)?),
        "turn" => What::Turn(fields(json)?),
        "retry" => What::Retry(fields(json)?),
        "rate_limit" => What::RateLimit(fields(json)?),
        "task" => What::Task(fields(json)?),
        "hook" => What::Hook(fields(json)?),
        "denied" => What::Denied(fields(json)?),
        "question" => What::Question(fields(json)?),
        "progress" => What::Progress(fields(json)?),
        "item" => What::Item(fields(json)?),
        "notice" => What::Notice(fields(json)?),
        "odd" => What::Odd(fields(json)?),
        "prompt" => What::Prompt { text: fields::<Plain>(json)?.text },
        "retracted" => What::Retracted { uuids: fields::<Plain>(json)?.uuids },
        "error" => What::Error { text: fields::<Plain>(json)?.text },
        "quiet" => {
            let Plain { kind, detail, .. } = fields(json)?;
            What::Quiet { kind, detail }
        }
        _ => What::Quiet { kind: step, detail: None },
    })
}

/// Whether there is nothing to write.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
