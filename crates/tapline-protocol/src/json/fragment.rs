//! JSON that outlives its line: fragments that are kept and passed on unchanged.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
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

/// Why a value does not fit a type.
#[derive(Debug)]
pub struct JsonError(serde_json::Error);

/// One line: the message can repeat a key as the agent wrote it, so what cannot be printed is escaped.
impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.to_string().chars().try_for_each(|c| match c {
            '\'' | '"' | '\\' => f.write_char(c),
            c => c.escape_debug().fmt(f),
        })
    }
}

impl std::error::Error for JsonError {}

impl Value<'_> {
    /// A copy that stands on its own.
    pub fn to_json(self) -> Json {
        Json::checked(self.raw())
    }
}

impl Json {
    /// Checks a text. Whitespace around the value is dropped.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        Tape::default().parse(text).map(Value::to_json)
    }

    /// Returns JSON's `null`.
    pub fn null() -> Self {
        Self("null".into())
    }

    /// Writes a value as JSON. Returns `null` for what JSON cannot represent, such as a map whose keys are not strings.
    pub fn of(value: &impl Serialize) -> Self {
        serde_json::to_string(value).map_or_else(|_| Self::null(), |text| Self(text.into()))
    }

    /// Deserializes the value into your own type. Lone surrogates become U+FFFD. The error says what does not fit.
    pub fn to<T: serde::de::DeserializeOwned>(&self) -> Result<T, JsonError> {
        serde_json::from_str(&without_lone_surrogates(&self.0)).map_err(JsonError)
    }

    pub(super) fn checked(raw: &str) -> Self {
        Self(raw.into())
    }

    /// Returns the exact text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Passes a view of the value to `read` and returns its result.
    pub fn with<T>(&self, read: impl FnOnce(Value<'_>) -> T) -> Option<T> {
        Tape::for_one(&self.0).parse(&self.0).ok().map(read)
    }

    /// Returns the string at this key, if the value is an object that has one there.
    pub fn text_of(&self, key: &str) -> Option<String> {
        self.with(|value| Some(value.get(key)?.as_str()?.into_owned())).flatten()
    }

    /// Returns the value at this key, if the value is an object that has it.
    pub fn get(&self, key: &str) -> Option<Self> {
        self.with(|value| value.get(key).map(Value::to_json)).flatten()
    }
}

/// Works only with `serde_json`: from text (which is kept exactly), from a reader, or from a `Value`.
impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| Self(raw.into()))
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        Self::of(&value)
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

/// Makes JSON readable for any parser: an escaped lone surrogate becomes `\ufffd`.
///
/// Fragments are passed on unchanged; use this for what other programs will read.
pub fn without_lone_surrogates(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut kept = 0;
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &text.as_bytes()[at..]) {
        let escape = at + found;
        at = escape + 2;
        let Some(first) = surrogate(text, escape) else { continue };
        let second = surrogate(text, escape + 6);
        if first < 0xDC00 && second.is_some_and(|second| second >= 0xDC00) {
            at = escape + 12;
            continue;
        }
        out.push_str(&text[kept..escape]);
        out.push_str("\\ufffd");
        at = escape + 6;
        kept = at;
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[kept..]);
    Cow::Owned(out)
}

/// Returns the escaped surrogate at this position, if there is one.
fn surrogate(text: &str, at: usize) -> Option<u32> {
    let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
    u32::from_str_radix(digits, 16).ok().filter(|unit| (0xD800..0xE000).contains(unit))
}

/// A number with its exact digits: `9007199254740993` is not rounded.
#[derive(Clone, PartialEq, Eq)]
pub struct Number(Json);

impl Number {
    pub(crate) fn read(value: Value<'_>) -> Option<Self> {
        value.as_number().map(|_| Self(value.to_json()))
    }

    /// Returns the nearest float.
    pub fn as_f64(&self) -> f64 {
        self.0.as_str().parse().unwrap_or(f64::NAN)
    }

    /// Returns the integer, if it is written as one and fits.
    pub fn as_u64(&self) -> Option<u64> {
        self.0.as_str().parse().ok()
    }

    /// Returns the whole number, in any notation: `529`, `529.0`, `5.29e2`.
    pub fn as_whole(&self) -> Option<u64> {
        let float = self.as_f64();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole, and within the range that floats hold exactly"
        )]
        let whole = || (float.fract() == 0.0 && (0.0..9e15).contains(&float)).then_some(float as u64);
        self.as_u64().or_else(whole)
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
