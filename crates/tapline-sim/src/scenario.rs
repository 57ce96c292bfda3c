//! A scenario: the model's answers, turn by turn, and faults. It is read from TOML or JSON; an error has a line and a
//! reason. docs/SIM.md describes it, and `tapline sim --example` prints one.

mod fault;
mod pattern;
mod text;
mod turn;

use std::collections::BTreeMap;

use hyper::header::{HeaderName, HeaderValue};
use serde::Deserialize;

use crate::error::ScenarioError;
pub use fault::{Fault, FaultKind};
pub(crate) use pattern::beginning;
pub use pattern::{Facts, Lane, Pattern, When};
pub use text::Text;
pub use turn::{Pace, ScriptedBlock, ScriptedTurn, ToolCall, Usage};

/// A working scenario with comments.
pub const EXAMPLE: &str = include_str!("scenario/example.toml");

/// The model's answers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// The model name in the answers. The default is the one in the request.
    pub model: Option<String>,
    /// The usage of turns without their own.
    pub usage: Usage,
    /// The answer to requests outside the conversation (such as a title or a summary) that no turn matches.
    pub side: Option<String>,
    /// Expectations at the end.
    pub expect: Whole,
    /// The answers, in order.
    #[serde(rename = "turn", alias = "turns")]
    pub turns: Vec<ScriptedTurn>,
}

/// Expectations at the end.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Whole {
    /// The number of requests of the conversation and its sub-agents.
    pub requests: Option<u64>,
    /// Whether every turn must be used.
    pub all_turns: bool,
}

/// How often something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// This many times.
    Exactly(u64),
    /// Always.
    Forever,
}

impl Scenario {
    /// Parses a scenario: as JSON if it starts with `{`, otherwise as TOML.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let text = text.trim_start_matches('\u{feff}');
        if text.trim_start().starts_with('{') {
            return serde_json::from_str(text).map_err(|error| {
                let message = error.to_string();
                let reason = message.split(" at line ").next().unwrap_or(&message).to_owned();
                ScenarioError { line: error.line(), column: error.column(), reason }
            });
        }
        toml::from_str(text).map_err(|error| {
            let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or(text);
            let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
            let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
            ScenarioError { line, column, reason: error.message().trim_end().replace('\n', " ") }
        })
    }
}

impl<'de> Deserialize<'de> for Repeat {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Repeat;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number of 1 or more, or \"forever\"")
            }
            fn visit_u64<E: serde::de::Error>(self, times: u64) -> Result<Repeat, E> {
                if times == 0 {
                    return Err(E::invalid_value(serde::de::Unexpected::Unsigned(0), &self));
                }
                Ok(Repeat::Exactly(times))
            }
            fn visit_i64<E: serde::de::Error>(self, times: i64) -> Result<Repeat, E> {
                let times = u64::try_from(times);
                times
                    .map_err(|_| E::custom("a number below 1, expected a number of 1 or more, or \"forever\""))
                    .and_then(|times| self.visit_u64(times))
            }
            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<Repeat, E> {
                if word == "forever" {
                    Ok(Repeat::Forever)
                } else {
                    Err(E::invalid_value(serde::de::Unexpected::Str(word), &self))
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Rejects headers that cannot be sent.
fn check_headers(headers: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in headers {
        let fine = HeaderName::from_bytes(name.as_bytes()).is_ok() && HeaderValue::from_str(value).is_ok();
        let own = ["content-length", "transfer-encoding", "connection"].contains(&name.to_lowercase().as_str());
        if !fine || own {
            return Err(format!("the header `{name}: {value}` cannot be set"));
        }
    }
    Ok(())
}
