//! Decodes the streams of Claude Code (`--output-format stream-json`) and Codex (`exec --json`): bytes to lines to
//! events.
//!
//! Decoding never fails and nothing is lost: a [`Record`] has a line's exact bytes and its decoded [`Event`]. New event
//! types, fields and values appear every week; they become [`Event::Unknown`] or are ignored, and their text is kept.
//!
//! ```
//! use tapline_protocol::{Event, Reader, claude};
//!
//! let stream = br#"{"type":"system","subtype":"init","model":"claude-opus-5-5"}
//! {"subtype":"success","result":"half an emoji: \ud83d","type":"result"}
//! {"type":"a_new_type"}
//! "#;
//! for record in Reader::new(stream.as_slice()) {
//!     match record?.event {
//!         Event::Claude(claude::Event::Init(init)) => assert_eq!(init.model.as_deref(), Some("claude-opus-5-5")),
//!         Event::Claude(claude::Event::Result(turn)) => assert_eq!(turn.result.as_deref(), Some("half an emoji: \u{fffd}")),
//!         other => assert_eq!(other, Event::Unknown { kind: "a_new_type".into() }),
//!     }
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

mod agent;
pub mod claude;
pub mod codex;
mod decode;
mod dialect;
mod dialects;
mod event;
mod input;
mod json;
mod lines;
mod moment;
mod reader;
mod record;
mod stop;
mod tags;
mod tokens;
mod wire;

/// The control protocol: the requests, questions and answers that an agent and its host exchange alongside the
/// conversation. So far, one agent has such a protocol.
pub mod control {
    pub use crate::claude::content::{Block, Content};
    pub use crate::claude::control::*;
    pub use crate::claude::system::Hook;
}

/// What a turn used and why it failed, in the types that every report uses. They are one agent's types; the others use
/// them too.
pub mod totals {
    pub use crate::claude::message::{RawUsage, Usage};
    pub use crate::claude::result::{Cost, Errors, ModelUsages};
}

pub use agent::Agent;
pub use decode::{Decoder, check_text};
pub use dialect::Dialect;
pub use event::{Event, LineKind, Malformed};
pub use input::{Input, InputFormat, InputShape};
pub use json::{Entries, Items, Json, JsonError, Kind, Number, SyntaxError, Tape, Token, Value, Walk, without_lone_surrogates};
pub use lines::{DEFAULT_LINE_LIMIT, Line, Piece, Splitter};
pub use moment::Moment;
pub use reader::Reader;
pub use record::{Envelope, Record, line_text};
pub use stop::StopReason;
pub use tokens::{Tokens, by_kind};
pub use wire::{Count, Field, Frame, Nullable, Read, WireShape};

/// Checks that the README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
