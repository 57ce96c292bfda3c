//! JSON that outlives its line: fragments kept and passed on exactly as they came.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::{SyntaxError, Tape, Value};

/// A checked JSON value with its exact text.
///
/// ```
/// use tapline_protocol::Json;
///
/// let input = Json::parse(r#"{"command":"ls","timeout":1e3}"#)?;
/// assert_eq!(input.text_of("command").as_deref(), Some("ls"));
/// assert_eq!(input.as_str(), r#"{"command":"ls","timeout":1e3}"#);
/// # Ok::<(), tapline_protocol::SyntaxError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Json(Box<str>);

impl Json {
    /// Checks a text; blanks around the value are dropped.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        Tape::default().parse(text).map(Value::to_json)
    }

    /// JSON's `null`.
    pub fn null() -> Self {
        Self("null".into())
    }

    pub(super) fn checked(raw: &str) -> Self {
        Self(raw.into())
    }

    /// The text as it came.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads the value: `read` gets the view.
    pub fn with<T>(&self, read: impl FnOnce(Value<'_>) -> T) -> Option<T> {
        Tape::default().parse(&self.0).ok().map(read)
    }

    /// The string at this key, if the value is an object that has one there.
    pub fn text_of(&self, key: &str) -> Option<String> {
        self.with(|value| Some(value.get(key)?.as_str()?.into_owned())).flatten()
    }

    /// The value at this key, if the value is an object that has it.
    pub fn get(&self, key: &str) -> Option<Self> {
        self.with(|value| value.get(key).map(Value::to_json)).flatten()
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// A number with its exact digits: `9007199254740993` stays what it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Number(Json);

impl Number {
    pub(crate) fn read(value: Value<'_>) -> Option<Self> {
        value.as_number().map(|_| Self(value.to_json()))
    }

    /// The nearest float.
    pub fn as_f64(&self) -> f64 {
        self.0.as_str().parse().unwrap_or(f64::NAN)
    }

    /// The whole number, if it is one that fits.
    pub fn as_u64(&self) -> Option<u64> {
        self.0.as_str().parse().ok()
    }
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self(Json(value.to_string().into()))
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}
