//! A record: the exact bytes of a line, and the decoded event.

use std::borrow::Cow;

use crate::agent::Agent;
use crate::dialect::Dialect;
use crate::dialects::{in_transcript, known_keys, too_old};
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
    /// `parent_tool_use_id`: the call that started the sub-agent, if it is a non-empty string.
    pub parent: Option<String>,
    /// `timestamp`
    pub timestamp: Option<String>,
}

/// One line: its number, its exact bytes with their terminator, and the decoded event.
///
/// The bytes of all records of a stream, joined, are the stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The line's number, from 1; blank lines count.
    pub line: u64,
    /// The exact bytes.
    pub bytes: Vec<u8>,
    /// Fields that nearly every event has.
    pub envelope: Envelope,
    /// The decoded event.
    pub event: Event,
    /// The stream's agent, as far as the lines up to this one tell.
    pub dialect: Dialect,
    /// When the line's last byte arrived. The decoder does not know; whoever reads the stream may.
    pub arrived: Option<Moment>,
}

impl Record {
    /// The line's bytes without its terminator, whitespace and byte order mark.
    pub fn trimmed(&self) -> &[u8] {
        trim(&self.bytes, self.line == 1)
    }

    /// The line's text without its terminator and whitespace; invalid UTF-8 becomes U+FFFD.
    pub fn text(&self) -> Cow<'_, str> {
        lossy(self.trimmed())
    }

    /// A top-level field, unchanged, for fields that no type keeps.
    pub fn field(&self, key: &str) -> Option<Json> {
        self.with(|value| value.get(key).and_then(Json::read)).flatten()
    }

    /// Parses the line again and passes its value to `read`, unless the line is not JSON.
    pub fn with<T>(&self, read: impl FnOnce(Value<'_>) -> T) -> Option<T> {
        Tape::default().parse(&self.text()).ok().map(read)
    }

    /// The tag of this event: a type, or `system/<subtype>`.
    pub fn tag(&self) -> Option<String> {
        let kind = self.envelope.kind.as_deref()?;
        if kind != "system" {
            // A type that only looks like a tag is not the event of that tag.
            return (!kind.starts_with("system/")).then(|| kind.to_owned());
        }
        Some(format!("system/{}", self.envelope.subtype.as_deref().unwrap_or_default()))
    }

    /// Whose line it is, and what to say of it, if a version wrote it that is too old to be read.
    pub fn too_old(&self) -> Option<(Agent, &'static str)> {
        if self.envelope.kind.is_some() { None } else { self.with(too_old)? }
    }

    /// If it is a line of a session file that an agent keeps for itself: what that is, where it is kept, what reads it, and what to
    /// use instead. Such files look much like streams, but have no end and no totals.
    ///
    /// ```
    /// let line = br#"{"parentUuid":null,"sessionId":"s","type":"user","message":{"role":"user","content":"hi"}}"#;
    /// let record = tapline_protocol::Decoder::default().decode_line(1, line.to_vec());
    /// assert!(record.in_transcript().is_some_and(|about| about.starts_with("a transcript that Claude Code keeps")));
    /// ```
    pub fn in_transcript(&self) -> Option<&'static str> {
        self.with(in_transcript)?
    }

    /// The top-level keys that this version does not know for this tag: the drift.
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

/// The text of these bytes; invalid UTF-8 becomes U+FFFD. The standard library reads byte by byte: only the few lines that need it
/// take that way.
pub(crate) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    simdutf8::basic::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// Strips ASCII blanks and carriage returns at the ends, and the byte order mark at the start of a stream.
pub(crate) fn trim(bytes: &[u8], first: bool) -> &[u8] {
    let bytes = if first { bytes.strip_prefix(BOM).unwrap_or(bytes) } else { bytes };
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let start = bytes.iter().position(|byte| !blank(byte)).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(|byte| !blank(byte)).map_or(start, |at| at + 1);
    &bytes[start..end]
}
