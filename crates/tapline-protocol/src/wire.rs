//! How a typed shape is read from and written to the wire: one macro row per field, lenient both ways.
//! A field of the wrong type is absent; of a repeated key the last one counts; unknown keys are passed over
//! (the record's text still has them).

use std::collections::{BTreeMap, HashMap};

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize};

use crate::json::{Json, Kind, Number, Value};

/// A value that can be read where the JSON has the right type.
pub trait Read: Sized {
    /// Reads the value, or `None` where it is of another type.
    fn read(value: Value<'_>) -> Option<Self>;
}

impl Read for String {
    fn read(value: Value<'_>) -> Option<Self> {
        value.as_str().map(std::borrow::Cow::into_owned)
    }
}

impl Read for bool {
    fn read(value: Value<'_>) -> Option<Self> {
        value.as_bool()
    }
}

impl Read for u64 {
    fn read(value: Value<'_>) -> Option<Self> {
        value.as_number()?.parse().ok()
    }
}

impl Read for f64 {
    fn read(value: Value<'_>) -> Option<Self> {
        value.as_number()?.parse().ok().filter(|number: &f64| number.is_finite())
    }
}

impl Read for Number {
    fn read(value: Value<'_>) -> Option<Self> {
        Number::read(value)
    }
}

/// Any value but `null`.
impl Read for Json {
    fn read(value: Value<'_>) -> Option<Self> {
        (value.kind() != Kind::Null).then(|| value.to_json())
    }
}

impl<T: Read> Read for Vec<T> {
    fn read(value: Value<'_>) -> Option<Self> {
        value.items().map(|items| items.filter_map(T::read).collect())
    }
}

/// In order of appearance; of a repeated key the last value counts.
impl<T: Read> Read for BTreeMap<String, T> {
    fn read(value: Value<'_>) -> Option<Self> {
        Some(value.entries()?.filter_map(|(key, value)| Some((key.into_owned(), T::read(value)?))).collect())
    }
}

/// An object's entries as they came, each key once: of a repeated one the last value, at its first place.
pub(crate) fn last_entries(value: Value<'_>) -> Option<Vec<(String, Json)>> {
    let mut places = HashMap::new();
    let mut entries: Vec<(String, Json)> = Vec::new();
    for (key, value) in value.entries()? {
        let place = *places.entry(key.clone()).or_insert(entries.len());
        match entries.get_mut(place) {
            Some((_, known)) => *known = value.to_json(),
            None => entries.push((key.into_owned(), value.to_json())),
        }
    }
    Some(entries)
}

/// A count of tokens: absent and unusable is 0; floats and numeric strings are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Tokens(pub u64);

impl Read for Tokens {
    fn read(value: Value<'_>) -> Option<Self> {
        let text = match value.kind() {
            Kind::Number => value.raw().into(),
            Kind::String => value.as_str()?,
            Kind::Null | Kind::True | Kind::False | Kind::Array | Kind::Object => return None,
        };
        let text = text.trim();
        if let Ok(count) = text.parse() {
            return Some(Self(count));
        }
        let float: f64 = text.parse().ok()?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates, NaN is 0")]
        Some(Self(float as u64))
    }
}

/// Reads back what was written: from `serde_json` alone, because its text is read as a line of the wire is.
pub(crate) fn from_text<'de, T: Read, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let json = Json::deserialize(deserializer)?;
    json.with(T::read).flatten().ok_or_else(|| serde::de::Error::custom(format_args!("unexpected value: {json}")))
}

/// Types of the wire that can be read back.
macro_rules! read_back {
    ($($name:ty),+ $(,)?) => { $(
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::wire::from_text(deserializer)
            }
        }
    )+ };
}
pub(crate) use read_back;

read_back!(Number, Tokens);

/// A struct's field: what is there when the key is not.
pub trait Field: Sized {
    /// Reads the field from its value.
    fn field(value: Value<'_>) -> Self;
    /// Whether there is something to write.
    fn present(&self) -> bool;
}

impl<T: Read> Field for Option<T> {
    fn field(value: Value<'_>) -> Self {
        T::read(value)
    }
    fn present(&self) -> bool {
        self.is_some()
    }
}

impl<T: Read> Field for Vec<T> {
    fn field(value: Value<'_>) -> Self {
        Read::read(value).unwrap_or_default()
    }
    fn present(&self) -> bool {
        !self.is_empty()
    }
}

impl<T: Read> Field for BTreeMap<String, T> {
    fn field(value: Value<'_>) -> Self {
        Read::read(value).unwrap_or_default()
    }
    fn present(&self) -> bool {
        !self.is_empty()
    }
}

/// A field that is written even when there is nothing: `null` says something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Nullable<T>(pub Option<T>);

impl<T: Read> Field for Nullable<T> {
    fn field(value: Value<'_>) -> Self {
        Self(T::read(value))
    }
    fn present(&self) -> bool {
        true
    }
}

/// A flag counts only where it is literally `true`.
impl Field for bool {
    fn field(value: Value<'_>) -> Self {
        value.kind() == Kind::True
    }
    fn present(&self) -> bool {
        *self
    }
}

impl Field for Tokens {
    fn field(value: Value<'_>) -> Self {
        Read::read(value).unwrap_or_default()
    }
    fn present(&self) -> bool {
        true
    }
}

/// A shape of the wire and its keys, for the drift report.
pub trait Shape: Read {
    /// Every key this version knows, read or not.
    const KEYS: &'static [&'static str];
}

/// A shape that is also written: into a map of its own, or into one that has a tag already.
pub trait Frame: Shape {
    /// Writes the fields that are there into an open map.
    fn write_fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

/// Writes a frame as an object that starts with a tag.
pub(crate) fn tagged<S: serde::Serializer>(
    serializer: S,
    key: &'static str,
    tag: &str,
    frame: &impl Frame,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry(key, tag)?;
    frame.write_fields(&mut map)?;
    map.end()
}

/// Defines shapes that are read: `Name { field: Type = "wireKey", … }`, then `also "key", …` for keys that are
/// known but not kept (the record's text has them).
macro_rules! wire {
    ($( $(#[$meta:meta])* $name:ident {
        $( $field:ident : $ty:ty = $key:literal ),* $(,)?
        $(; also $($also:literal),+ $(,)?)?
        $(; fingerprint $print:ident)?
    } )+) => { $(
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name { $( #[doc = concat!("`", $key, "`")] pub $field: $ty, )*
            $( /// The same for two objects that are the same JSON value, however they are written.
            pub $print: u64, )?
        }

        impl $crate::wire::Shape for $name {
            const KEYS: &'static [&'static str] = &[$($key,)* $($($also,)+)?];
        }

        impl $crate::wire::Read for $name {
            #[allow(unused_mut, unused_variables, clippy::match_single_binding, reason = "shapes without fields")]
            fn read(value: $crate::json::Value<'_>) -> Option<Self> {
                let mut out = Self::default();
                $( out.$print = $crate::json::fingerprint(value); )?
                for (key, value) in value.entries()? {
                    match &*key {
                        $( $key => out.$field = $crate::wire::Field::field(value), )*
                        _ => {}
                    }
                }
                Some(out)
            }
        }
    )+ };
}
pub(crate) use wire;

/// Defines shapes that are read and written.
macro_rules! frame {
    ($( $(#[$meta:meta])* $name:ident {
        $( $field:ident : $ty:ty = $key:literal ),* $(,)?
        $(; also $($also:literal),+ $(,)?)?
    } )+) => { $(
        $crate::wire::wire! { $(#[$meta])* $name { $($field : $ty = $key),* $(; also $($also),+)? } }

        impl $crate::wire::Frame for $name {
            #[allow(unused_variables, reason = "shapes without fields")]
            fn write_fields<M: serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                $( if $crate::wire::Field::present(&self.$field) { map.serialize_entry($key, &self.$field)?; } )*
                Ok(())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                let mut map = serializer.serialize_map(None)?;
                $crate::wire::Frame::write_fields(self, &mut map)?;
                map.end()
            }
        }
    )+ };
}
pub(crate) use frame;
