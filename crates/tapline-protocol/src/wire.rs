//! Reads typed shapes from the wire and writes them: one macro row per field, lenient in both directions. A field of
//! the wrong type is absent, the last of a repeated key counts, and unknown keys are skipped (the record's text still
//! has them).

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize};

use crate::json::{Json, Kind, Number, Value};

/// A type that can be read from a JSON value of the right kind.
pub trait Read: Sized {
    /// Reads the value, or returns `None` if it is of another kind.
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

/// Reads any value but `null`.
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

/// If a key is repeated, the last value counts.
impl<T: Read> Read for BTreeMap<String, T> {
    fn read(value: Value<'_>) -> Option<Self> {
        Some(value.entries()?.filter_map(|(key, value)| Some((key.into_owned(), T::read(value)?))).collect())
    }
}

/// So many entries are a few.
const FEW: usize = 32;

/// Returns an object's entries in order, each key once. A repeated key has its last value, in its first position.
pub(crate) fn last_entries(value: Value<'_>, wanted: impl Fn(&str) -> bool) -> Option<Vec<(String, Json)>> {
    let mut places: HashMap<String, usize, RandomState> = HashMap::default();
    let mut entries: Vec<(String, Json)> = Vec::new();
    for (key, value) in value.entries()?.filter(|(key, _)| wanted(key)) {
        // Among a few, looking at each costs less than a map.
        let place = if entries.len() < FEW {
            entries.iter().position(|(known, _)| *known == key)
        } else {
            if places.is_empty() {
                places.extend(entries.iter().zip(0..).map(|((key, _), place)| (key.clone(), place)));
            }
            places.get(&*key).copied()
        };
        if let Some(place) = place {
            entries[place].1 = value.to_json();
            continue;
        }
        if entries.len() >= FEW {
            places.insert(key.to_string(), entries.len());
        }
        entries.push((key.into_owned(), value.to_json()));
    }
    Some(entries)
}

/// A count, of tokens for example. A missing or unusable value is 0; floats and numeric strings are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Count(pub u64);

impl Read for Count {
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

/// Reads back what was written. Works only with `serde_json`, because it needs the JSON text.
pub(crate) fn from_text<'de, T: Read, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let json = Json::deserialize(deserializer)?;
    json.with(T::read).flatten().ok_or_else(|| serde::de::Error::custom(format_args!("unexpected value: {json}")))
}

/// Implements `Deserialize` for types of the wire.
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

read_back!(Number, Count);

/// A field of a struct, with a value for when the key is missing.
pub trait Field: Sized {
    /// Reads the field from the value at its key.
    fn field(value: Value<'_>) -> Self;
    /// Returns whether there is something to write.
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

/// A field that is written even if it is empty, because `null` has a meaning.
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

/// A flag is set only if the value is literally `true`.
impl Field for bool {
    fn field(value: Value<'_>) -> Self {
        value.kind() == Kind::True
    }
    fn present(&self) -> bool {
        *self
    }
}

impl Field for Count {
    fn field(value: Value<'_>) -> Self {
        Read::read(value).unwrap_or_default()
    }
    fn present(&self) -> bool {
        true
    }
}

/// A shape of the wire and its known keys, for the drift report.
pub trait WireShape: Read {
    /// Every key that this version knows, whether it is read or not.
    const KEYS: &'static [&'static str];
}

/// A shape that is also written, either as an object of its own or into one that already has a tag.
pub trait Frame: WireShape {
    /// Writes the non-empty fields into an open map.
    fn write_fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

/// Writes a frame as an object that begins with a tag.
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

/// Defines shapes that are read: `Name { field: Type = "wireKey", … }`. Keys after `also` are known but not kept; the
/// record's text has them.
macro_rules! wire {
    ($( $(#[$meta:meta])* $name:ident {
        $( $field:ident : $ty:ty = $key:literal ),* $(,)?
        $(; also $($also:literal),+ $(,)?)?
        $(; fingerprint $print:ident)?
    } )+) => { $(
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name { $( #[doc = concat!("`", $key, "`")] pub $field: $ty, )*
            $( /// A hash that is equal for equal JSON values.
            pub $print: u64, )?
        }

        impl $crate::wire::WireShape for $name {
            const KEYS: &'static [&'static str] = &[$($key,)* $($($also,)+)?];
        }

        impl $crate::wire::Read for $name {
            #[allow(unused_mut, unused_variables, clippy::needless_continue, reason = "shapes without fields")]
            fn read(value: $crate::json::Value<'_>) -> Option<Self> {
                let mut out = Self::default();
                $( out.$print = $crate::json::fingerprint(value); )?
                for (key, value) in value.fields()? {
                    $( if *key == *$key.as_bytes() { out.$field = $crate::wire::Field::field(value); continue; } )*
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
