//! A line between host and agent, as far as a replay must understand it: what it is, whose ids it carries, and whether two
//! say the same.

use std::collections::HashMap;

use memchr::memchr;
use tapline_protocol::{Json, Kind, Value};

/// What a host's line is. Of those that are the same, the first recorded belongs to the first sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Frame {
    /// A control request: what it asks.
    Request(String),
    /// The answer to a request of the agent's: its id.
    Response(String),
    /// Another message, by its type.
    Message(String),
    /// No object with a type.
    Text,
}

/// A host's line, read.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) frame: Frame,
    /// The id that the host has given it: of a request, or of a message.
    pub(super) id: Option<String>,
    pub(super) json: Option<Json>,
}

impl Line {
    pub(super) fn read(bytes: &[u8]) -> Self {
        let json = std::str::from_utf8(bytes).ok().and_then(|text| Json::parse(text.trim()).ok());
        let read = json.as_ref().and_then(|json| json.with(Self::of).flatten());
        let (frame, id) = read.unwrap_or((Frame::Text, None));
        Self { frame, id, json }
    }

    fn of(value: Value<'_>) -> Option<(Frame, Option<String>)> {
        let text = |value: Option<Value<'_>>| value.and_then(Value::as_str).map(std::borrow::Cow::into_owned);
        let kind = text(value.get("type"))?;
        Some(match kind.as_str() {
            "control_request" => {
                let asked = text(value.get("request").and_then(|request| request.get("subtype"))).unwrap_or_default();
                (Frame::Request(asked), text(value.get("request_id")))
            }
            "control_response" => {
                let id = text(value.get("response").and_then(|response| response.get("request_id"))).unwrap_or_default();
                (Frame::Response(id), None)
            }
            _ => (Frame::Message(kind), text(value.get("uuid"))),
        })
    }

    /// What a message calls it.
    pub(super) fn name(&self) -> String {
        match &self.frame {
            Frame::Request(asked) => format!("the request {asked}"),
            Frame::Response(id) => format!("the answer to {id}"),
            Frame::Message(kind) => format!("a message of type {kind}"),
            Frame::Text => "text".to_owned(),
        }
    }
}

/// Whose answer an agent's line is, if it is one.
pub(super) fn answered(line: &[u8]) -> Option<String> {
    // Few lines are: most need not be read.
    memchr::memmem::find(line, b"control_response")?;
    match Line::read(line).frame {
        Frame::Response(id) => Some(id),
        _ => None,
    }
}

/// Whether an agent's line ends a turn.
pub(super) fn is_result(line: &[u8]) -> bool {
    let ends = [b"result".as_slice(), b"turn.completed", b"turn.failed"];
    if !ends.iter().any(|word| memchr::memmem::find(line, word).is_some()) {
        return false;
    }
    matches!(Line::read(line).frame, Frame::Message(kind) if matches!(kind.as_str(), "result" | "turn.completed" | "turn.failed"))
}

/// Whether an agent's line begins a turn.
pub(super) fn is_init(line: &[u8]) -> bool {
    let subtype = |value: Value<'_>| value.get("subtype").and_then(Value::as_str).as_deref() == Some("init");
    memchr::memmem::find(line, b"init").is_some() && Line::read(line).json.and_then(|json| json.with(subtype)) == Some(true)
}

/// The recorded host's ids, and those of the one that is here.
#[derive(Clone, Debug, Default)]
pub(super) struct Ids(HashMap<String, String>);

impl Ids {
    pub(super) fn insert(&mut self, recorded: String, here: String) {
        if recorded != here {
            self.0.insert(recorded, here);
        }
    }

    /// The line with the ids of the host that is here.
    pub(super) fn apply<'l>(&self, line: &'l [u8]) -> std::borrow::Cow<'l, [u8]> {
        if self.0.is_empty() {
            return line.into();
        }
        let mut out: Option<Vec<u8>> = None;
        let (mut done, mut at) = (0, 0);
        while let Some(open) = memchr(b'"', &line[at..]).map(|found| at + found) {
            let Some(close) = memchr(b'"', &line[open + 1..]).map(|found| open + 1 + found) else { break };
            let here = std::str::from_utf8(&line[open + 1..close]).ok().and_then(|word| self.0.get(word));
            if let Some(here) = here {
                let out = out.get_or_insert_with(Vec::new);
                out.extend_from_slice(&line[done..open]);
                out.extend_from_slice(serde_json::Value::from(here.as_str()).to_string().as_bytes());
                done = close + 1;
                at = close + 1;
            } else {
                // What closes one string may open the next word: an escaped quote is no end.
                at = close;
            }
        }
        match out {
            Some(mut out) => {
                out.extend_from_slice(&line[done..]);
                out.into()
            }
            None => line.into(),
        }
    }
}

/// Keys that differ from run to run by themselves.
const PASSING: &[&str] = &["request_id", "uuid", "timestamp"];

/// Where two values differ: the place, and both.
pub(super) fn departure(recorded: &Json, sent: &Json) -> Option<String> {
    recorded.with(|recorded| sent.with(|sent| differ("", recorded, sent)).flatten()).flatten()
}

fn differ(place: &str, recorded: Value<'_>, sent: Value<'_>) -> Option<String> {
    let tell =
        || Some(format!("{} was {} and is {}", if place.is_empty() { "it" } else { place }, brief(recorded), brief(sent)));
    match (recorded.kind(), sent.kind()) {
        (Kind::Object, Kind::Object) => {
            let keys =
                |value: Value<'_>| value.entries().into_iter().flatten().map(|(key, _)| key.into_owned()).collect::<Vec<_>>();
            for key in keys(recorded).into_iter().filter(|key| !PASSING.contains(&key.as_str())) {
                let inner = format!("{place}.{key}");
                match (recorded.get(&key), sent.get(&key)) {
                    (Some(recorded), Some(sent)) => {
                        if let Some(found) = differ(&inner, recorded, sent) {
                            return Some(found);
                        }
                    }
                    (Some(recorded), None) => return Some(format!("{inner} was {} and is not there", brief(recorded))),
                    (None, _) => {}
                }
            }
            let new = keys(sent).into_iter().find(|key| recorded.get(key).is_none() && !PASSING.contains(&key.as_str()))?;
            let value = sent.get(&new).map(brief).unwrap_or_default();
            Some(format!("{place}.{new} was not there and is {value}"))
        }
        (Kind::Array, Kind::Array) => {
            let items = |value: Value<'_>| value.items().into_iter().flatten().count();
            let both = recorded.items().into_iter().flatten().zip(sent.items().into_iter().flatten());
            let first = both.enumerate().find_map(|(at, (recorded, sent))| differ(&format!("{place}[{at}]"), recorded, sent));
            let counts = (items(recorded), items(sent));
            let longer = || (counts.0 != counts.1).then(|| format!("{place} had {} items and has {}", counts.0, counts.1));
            first.or_else(longer)
        }
        (Kind::String, Kind::String) => {
            if recorded.as_str() == sent.as_str() {
                None
            } else {
                tell()
            }
        }
        (Kind::Number, Kind::Number) => {
            let number = |value: Value<'_>| value.as_number().and_then(|text| text.parse::<f64>().ok());
            if number(recorded) == number(sent) { None } else { tell() }
        }
        (one, other) if one == other => {
            if recorded.raw() == sent.raw() {
                None
            } else {
                tell()
            }
        }
        _ => tell(),
    }
}

fn brief(value: Value<'_>) -> String {
    let text = value.raw();
    let mut short: String = text.chars().take(80).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
