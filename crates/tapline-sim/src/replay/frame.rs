//! A line between host and agent, as far as a replay must understand it: its kind, its ids, and whether two lines say
//! the same.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use memchr::memchr;
use memchr::memmem::{Finder, find};
use tapline_protocol::{Json, Kind, Value};

/// The kind of a host's line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Frame {
    /// A control request, with its subtype.
    Request(String),
    /// The answer to a request of the agent, with its id.
    Response(String),
    /// Another message, with its type.
    Message(String),
    /// Not an object with a type.
    Text,
}

/// A parsed line of the host.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) frame: Frame,
    /// The id that the host gave the request or message, as JSON.
    pub(super) id: Option<Json>,
    pub(super) json: Option<Json>,
}

impl Line {
    pub(super) fn read(bytes: &[u8]) -> Self {
        let json = std::str::from_utf8(bytes).ok().and_then(|text| Json::parse(text.trim()).ok());
        let read = json.as_ref().and_then(|json| json.with(Self::of).flatten());
        let (frame, id) = read.unwrap_or((Frame::Text, None));
        Self { frame, id, json }
    }

    fn of(value: Value<'_>) -> Option<(Frame, Option<Json>)> {
        let text = |value: Option<Value<'_>>| value.and_then(Value::as_str).map(Cow::into_owned);
        let kind = text(value.get("type"))?;
        Some(match kind.as_str() {
            "control_request" => {
                let asked = text(value.get("request").and_then(|request| request.get("subtype"))).unwrap_or_default();
                (Frame::Request(asked), value.get("request_id").map(Value::to_json))
            }
            "control_response" => (Frame::Response(answered_id(value).map(word).unwrap_or_default()), None),
            _ => (Frame::Message(kind), value.get("uuid").map(Value::to_json)),
        })
    }

    /// Names the line in a message.
    pub(super) fn name(&self) -> String {
        match &self.frame {
            Frame::Request(asked) => format!("the request {asked}"),
            Frame::Response(id) => format!("the answer to {id}"),
            Frame::Message(kind) => format!("a message of type {kind}"),
            Frame::Text => "text".to_owned(),
        }
    }

    /// Returns the id as plain text.
    pub(super) fn id_word(&self) -> Option<String> {
        self.id.as_ref()?.with(word)
    }
}

/// Returns the id of the request that a control response answers.
fn answered_id(value: Value<'_>) -> Option<Value<'_>> {
    value.get("response").and_then(|response| response.get("request_id"))
}

/// Returns an id as plain text, whether it is a string or a number.
fn word(id: Value<'_>) -> String {
    id.as_str().map_or_else(|| id.raw().to_owned(), Cow::into_owned)
}

/// Returns whether one of these lines may answer the host or report progress on a request.
pub(super) fn may_answer(lines: &[u8]) -> bool {
    static WORD: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("control_re"));
    WORD.find(lines).is_some()
}

/// If an agent's line is an answer: returns the id of the request that it answers.
pub(super) fn answered(line: &[u8]) -> Option<String> {
    // Few lines are answers, and most need not be parsed.
    if !may_answer(line) {
        return None;
    }
    match Line::read(line).frame {
        Frame::Response(id) => Some(id),
        Frame::Request(_) | Frame::Message(_) | Frame::Text => None,
    }
}

/// Returns whether an agent's line ends a turn.
pub(super) fn is_result(line: &[u8]) -> bool {
    let ends = ["result", "turn.completed", "turn.failed"];
    let may = ends.iter().any(|word| find(line, word.as_bytes()).is_some());
    may && matches!(Line::read(line).frame, Frame::Message(kind) if ends.contains(&kind.as_str()))
}

/// Returns whether an agent's line begins a turn.
pub(super) fn is_init(line: &[u8]) -> bool {
    let subtype = |value: Value<'_>| value.get("subtype").and_then(Value::as_str).as_deref() == Some("init");
    find(line, b"init").is_some() && Line::read(line).json.and_then(|json| json.with(subtype)) == Some(true)
}

/// Maps the recorded host's ids to those of the present host.
#[derive(Clone, Debug, Default)]
pub(super) struct Ids {
    /// Ids of requests: recorded as plain text, present as JSON.
    requests: HashMap<String, Json>,
    /// Ids of messages. They are unmistakable, and may occur anywhere in a line.
    messages: HashMap<String, Json>,
}

impl Ids {
    pub(super) fn insert(&mut self, recorded: &Line, here: &Line) {
        let (Some(word), Some(id)) = (recorded.id_word(), here.id.clone()) else { return };
        if recorded.id.as_ref().map(Json::as_str) == Some(id.as_str()) {
            return;
        }
        match recorded.frame {
            Frame::Request(_) => self.requests.insert(word, id),
            _ if is_uuid(&word) => self.messages.insert(word, id),
            _ => None,
        };
    }

    pub(super) fn has_messages(&self) -> bool {
        !self.messages.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.messages.is_empty()
    }

    /// Returns the line with the present host's ids.
    pub(super) fn apply<'l>(&self, line: &'l [u8]) -> Cow<'l, [u8]> {
        let told = self.answer_to_host(line);
        let line = told.map_or(Cow::Borrowed(line), Cow::Owned);
        if self.messages.is_empty() {
            return line;
        }
        match self.with_messages(&line) {
            Some(changed) => changed.into(),
            None => line,
        }
    }

    /// Puts the host's own id into an answer to a request, or into its progress.
    fn answer_to_host(&self, line: &[u8]) -> Option<Vec<u8>> {
        if self.requests.is_empty() || !may_answer(line) {
            return None;
        }
        let text = std::str::from_utf8(line).ok()?;
        let json = Json::parse(text.trim()).ok()?;
        let place = json.with(|value| {
            let kind = value.get("type").and_then(Value::as_str);
            let progress = value.get("subtype").and_then(Value::as_str).as_deref() == Some("control_request_progress");
            let id = match kind.as_deref() {
                Some("control_response") => answered_id(value),
                Some("system") if progress => value.get("request_id"),
                _ => None,
            }?;
            let here = self.requests.get(&word(id))?;
            // The offset: both are parts of the same text.
            let at = id.raw().as_ptr() as usize - value.raw().as_ptr() as usize;
            Some((at, id.raw().len(), here.as_str().to_owned()))
        });
        let (at, length, here) = place.flatten()?;
        let at = at + (text.len() - text.trim_start().len());
        Some([&line[..at], here.as_bytes(), &line[at + length..]].concat())
    }

    fn with_messages(&self, line: &[u8]) -> Option<Vec<u8>> {
        let mut out: Option<Vec<u8>> = None;
        let (mut done, mut at) = (0, 0);
        while let Some(open) = memchr(b'"', &line[at..]).map(|found| at + found) {
            let Some(close) = memchr(b'"', &line[open + 1..]).map(|found| open + 1 + found) else { break };
            at = close;
            let here = std::str::from_utf8(&line[open + 1..close]).ok().and_then(|word| self.messages.get(word));
            if let Some(here) = here {
                let out = out.get_or_insert_with(Vec::new);
                out.extend_from_slice(&line[done..open]);
                out.extend_from_slice(here.as_str().as_bytes());
                done = close + 1;
                at = close + 1;
            }
        }
        let mut out = out?;
        out.extend_from_slice(&line[done..]);
        Some(out)
    }
}

fn is_uuid(word: &str) -> bool {
    word.len() == 36 && word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// Keys that differ from run to run.
const PASSING: &[&str] = &["request_id", "uuid", "timestamp"];
/// Values deeper than this are compared as text.
const DEEP: usize = 64;

/// Says where two values differ, with both values.
pub(super) fn departure(recorded: &Json, sent: &Json) -> Option<String> {
    recorded.with(|recorded| sent.with(|sent| differ("", recorded, sent, 0)).flatten()).flatten()
}

fn differ(place: &str, recorded: Value<'_>, sent: Value<'_>, depth: usize) -> Option<String> {
    let tell = || {
        let place = if place.is_empty() { "it" } else { place };
        Some(format!("{place} was {} and is {}", brief(recorded), brief(sent)))
    };
    let same = match (recorded.kind(), sent.kind()) {
        (Kind::Object, Kind::Object) if depth < DEEP => return objects_differ(place, recorded, sent, depth),
        (Kind::Array, Kind::Array) if depth < DEEP => {
            let items = |value: Value<'_>| value.items().into_iter().flatten().count();
            let both = recorded.items().into_iter().flatten().zip(sent.items().into_iter().flatten());
            let mut both = both.enumerate();
            let first = both.find_map(|(at, (one, other))| differ(&format!("{place}[{at}]"), one, other, depth + 1));
            let (had, has) = (items(recorded), items(sent));
            return first.or_else(|| (had != has).then(|| format!("{place} had {had} items and has {has}")));
        }
        (Kind::String, Kind::String) => recorded.as_str() == sent.as_str(),
        (Kind::Number, Kind::Number) => {
            let number = |value: Value<'_>| value.as_number().and_then(|text| text.parse::<f64>().ok());
            number(recorded) == number(sent)
        }
        (one, other) => one == other && recorded.raw() == sent.raw(),
    };
    if same { None } else { tell() }
}

fn objects_differ(place: &str, recorded: Value<'_>, sent: Value<'_>, depth: usize) -> Option<String> {
    let keys = |value: Value<'_>| {
        let keys = value.entries().into_iter().flatten().map(|(key, _)| key.into_owned());
        keys.filter(|key| !PASSING.contains(&key.as_str())).collect::<Vec<_>>()
    };
    for key in keys(recorded) {
        let inner = format!("{place}.{key}");
        let found = match (recorded.get(&key), sent.get(&key)) {
            (Some(recorded), Some(sent)) => differ(&inner, recorded, sent, depth + 1),
            (Some(recorded), None) => Some(format!("{inner} was {} and is missing", brief(recorded))),
            (None, _) => None,
        };
        if found.is_some() {
            return found;
        }
    }
    let new = keys(sent).into_iter().find(|key| recorded.get(key).is_none())?;
    let value = sent.get(&new).map(brief).unwrap_or_default();
    Some(format!("{place}.{new} was missing and is {value}"))
}

fn brief(value: Value<'_>) -> String {
    crate::scenario::beginning(value.raw())
}
