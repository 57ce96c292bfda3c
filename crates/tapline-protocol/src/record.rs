//! A record: the exact bytes of a line and its decoded event.

use std::borrow::Cow;

use crate::agent::Agent;
use crate::dialect::Dialect;
use crate::dialects::{in_transcript, known_keys, known_kind, too_old};
use crate::event::Event;
use crate::json::{Json, Tape, Value};
use crate::lines::BOM;
use crate::moment::Moment;
use crate::wire::Read;

/// Fields that nearly every event has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    /// `type`, if it is a string.
    pub kind: Option<Cow<'static, str>>,
    /// `subtype` of a `system` event, if it is a string.
    pub subtype: Option<String>,
    /// `session_id`, if it is a non-empty string.
    pub session_id: Option<String>,
    /// `uuid`
    pub uuid: Option<String>,
    /// `parent_tool_use_id`, if it is a non-empty string: the tool call that started the sub-agent.
    pub parent: Option<String>,
    /// `timestamp`
    pub timestamp: Option<String>,
}

impl Envelope {
    /// Reads the fields of an object. Another value has none; if a key is repeated, the last value counts.
    pub fn read(value: Value<'_>) -> Self {
        let filled = |value: Value<'_>| value.as_str().filter(|text| !text.is_empty()).map(Cow::into_owned);
        let mut envelope = Self::default();
        let (mut kind, mut subtype) = (None, None);
        for (key, value) in value.fields().into_iter().flatten() {
            match &*key {
                b"type" => kind = value.as_str(),
                b"subtype" => subtype = value.as_str(),
                b"session_id" => envelope.session_id = filled(value),
                b"uuid" => envelope.uuid = filled(value),
                b"parent_tool_use_id" => envelope.parent = filled(value),
                b"timestamp" => envelope.timestamp = filled(value),
                _ => {}
            }
        }
        envelope.subtype = subtype.filter(|_| kind.as_deref() == Some("system")).map(Cow::into_owned);
        envelope.kind = kind.map(|kind| match known_kind(&kind) {
            Some(known) => Cow::Borrowed(known),
            None => Cow::Owned(kind.into_owned()),
        });
        envelope
    }
}

/// One line: its number, its exact bytes including the terminator, and its decoded event.
///
/// The bytes of all records of a stream, joined, are the stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The line number, from 1. Blank lines count.
    pub line: u64,
    /// The exact bytes.
    pub bytes: Vec<u8>,
    /// Fields that nearly every event has.
    pub envelope: Envelope,
    /// The decoded event.
    pub event: Event,
    /// What the lines up to this one say about the stream's agent.
    pub dialect: Dialect,
    /// When the line's last byte arrived. The decoder leaves it empty; the code that reads the stream may set it.
    pub arrived: Option<Moment>,
}

impl Record {
    /// Returns the line's bytes without terminator, surrounding whitespace and byte order mark.
    pub fn trimmed(&self) -> &[u8] {
        trim(&self.bytes, self.line == 1)
    }

    /// Returns the line's text without terminator and surrounding whitespace. Invalid UTF-8 becomes U+FFFD.
    pub fn text(&self) -> Cow<'_, str> {
        line_text(&self.bytes, self.line == 1)
    }

    /// Returns a top-level field unchanged, for fields that no type has.
    pub fn field(&self, key: &str) -> Option<Json> {
        self.with(|value| value.get(key).and_then(Json::read)).flatten()
    }

    /// Parses the line again and passes its value to `read`. Returns `None` if the line is not JSON.
    pub fn with<T>(&self, read: impl FnOnce(Value<'_>) -> T) -> Option<T> {
        Tape::default().parse(&self.text()).ok().map(read)
    }

    /// Returns the event's tag: a type, or `system/<subtype>`.
    pub fn tag(&self) -> Option<String> {
        let kind = self.envelope.kind.as_deref()?;
        if kind != "system" {
            // A `type` that is literally `system/init` is not the tag `system/init`.
            return (!kind.starts_with("system/")).then(|| kind.to_owned());
        }
        Some(format!("system/{}", self.envelope.subtype.as_deref().unwrap_or_default()))
    }

    /// If a version wrote this line that is too old to read: returns its agent and what to tell the user.
    pub fn too_old(&self) -> Option<(Agent, &'static str)> {
        if self.envelope.kind.is_some() { None } else { self.with(too_old)? }
    }

    /// If this line is from a session file that an agent keeps for itself: returns what the file is, and where it is
    /// kept. Such files look much like streams, but have other lines; the archive reads them.
    ///
    /// ```
    /// let line = br#"{"parentUuid":null,"sessionId":"s","type":"user","message":{"role":"user","content":"hi"}}"#;
    /// let record = tapline_protocol::Decoder::default().decode_line(1, line.to_vec());
    /// assert!(record.in_transcript().is_some_and(|about| about.starts_with("Claude Code's own transcript")));
    /// ```
    pub fn in_transcript(&self) -> Option<&'static str> {
        self.with(in_transcript)?
    }

    /// Returns the top-level keys that this version does not know for this tag.
    pub fn unknown_keys(&self) -> Vec<String> {
        let Some(tag) = self.tag() else {
            return Vec::new();
        };
        let Some(known) = self.event.agent().and_then(|agent| known_keys(agent, &tag)) else {
            return Vec::new();
        };
        self.with(|value| {
            let keys = value.entries().into_iter().flatten().map(|(key, _)| key.into_owned());
            keys.filter(|key| !known.contains(&key.as_str())).collect()
        })
        .unwrap_or_default()
    }
}

/// Returns the text of a line without whitespace around it, and without a byte order mark in the first line. Bytes that are not UTF-8 become
/// U+FFFD.
pub fn line_text(bytes: &[u8], is_first: bool) -> Cow<'_, str> {
    lossy(trim(bytes, is_first))
}

/// Converts bytes to text. Invalid UTF-8 becomes U+FFFD. The standard library's lossy conversion is slow, so only the
/// few lines that need it use it.
pub(crate) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    simdutf8::basic::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// Strips ASCII whitespace at both ends, and the byte order mark at the start of a stream.
pub(crate) fn trim(bytes: &[u8], first: bool) -> &[u8] {
    let bytes = if first { bytes.strip_prefix(BOM).unwrap_or(bytes) } else { bytes };
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let start = bytes.iter().position(|byte| !blank(byte)).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(|byte| !blank(byte)).map_or(start, |at| at + 1);
    &bytes[start..end]
}
