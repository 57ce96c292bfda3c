//! An agent's object as key and value pairs, in its order.

use serde::{Deserialize as _, Deserializer, Serializer};
use tapline_protocol::Json;

/// Writes key and value pairs as an object.
pub(crate) fn write<S: Serializer>(pairs: &[(String, Json)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

/// Reads key and value pairs back, in order.
pub(crate) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, Json)>, D::Error> {
    let object = Json::deserialize(deserializer)?;
    let read = object.with(|value| Some(value.entries()?.map(|(key, value)| (key.into_owned(), value.to_json())).collect()));
    read.flatten().ok_or_else(|| serde::de::Error::custom("not an object"))
}
