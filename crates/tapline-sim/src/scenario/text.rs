//! Text from the model, kept escaped as in JSON, so that it can hold what a Rust string cannot: half an emoji.

use serde::{Deserialize, Deserializer};
use tapline_protocol::Json;

/// Text, escaped as in JSON, without quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(String);

impl Text {
    /// Escapes plain text.
    pub fn plain(text: &str) -> Self {
        let quoted = serde_json::Value::from(text).to_string();
        Self(quoted[1..quoted.len() - 1].to_owned())
    }

    /// Returns the text as a JSON string.
    pub fn json(&self) -> String {
        format!("\"{}\"", self.0)
    }

    /// Returns the text as JSON strings of this many characters.
    pub fn chunks(&self, size: usize) -> Vec<String> {
        let (mut chunks, mut chunk, mut count) = (Vec::new(), String::from("\""), 0);
        let mut rest = self.0.as_str();
        while let Some(first) = rest.chars().next() {
            let length = match (first, rest.as_bytes().get(1)) {
                ('\\', Some(b'u')) => 6,
                ('\\', _) => 2,
                (character, _) => character.len_utf8(),
            };
            let (unit, after) = rest.split_at(length.min(rest.len()));
            chunk += unit;
            count += 1;
            rest = after;
            if count == size || rest.is_empty() {
                chunk.push('"');
                chunks.push(std::mem::replace(&mut chunk, String::from("\"")));
                count = 0;
            }
        }
        chunks
    }
}

/// Reads a JSON string with its quotes: `"half an emoji: \ud83d"`.
pub(super) fn literal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Text>, D::Error> {
    let literal = String::deserialize(deserializer)?;
    let json = Json::parse(literal.trim()).ok().filter(|json| json.with(|value| value.as_str().is_some()) == Some(true));
    let wrong = || serde::de::Error::custom("not a JSON string: write it with its quotes, '\"like this\"'");
    let json = json.ok_or_else(wrong)?;
    let quoted = json.as_str();
    Ok(Some(Text(quoted[1..quoted.len() - 1].to_owned())))
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::plain(&String::deserialize(deserializer)?))
    }
}
