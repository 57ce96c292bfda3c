//! Compares JSON by value: whitespace, key order, escapes and number notation do not matter.

use std::hash::{BuildHasher as _, Hasher as _};

use foldhash::fast::{FixedState, FoldHasher};

use super::{Kind, Value};

/// Values deeper than this are compared by their text, so nesting cannot overflow the stack.
const DEPTH: u32 = 128;

/// Returns a hash that is equal for equal JSON values. If a key is repeated, the last value counts.
pub(crate) fn fingerprint(value: Value<'_>) -> u64 {
    print(value, &mut Vec::new())
}

/// A hasher for values of one kind, which no value of another kind shares.
#[inline]
fn hasher(kind: Kind) -> FoldHasher<'static> {
    // Any constant with many bits will do.
    FixedState::with_seed((kind as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)).build_hasher()
}

/// The hash of a text, apart from those of other kinds.
#[inline]
fn hash(kind: Kind, text: &[u8]) -> u64 {
    let mut hasher = hasher(kind);
    hasher.write(text);
    hasher.finish()
}

/// `entries` has the hashes of the objects that are being read: of their keys, and of their values.
fn print(value: Value<'_>, entries: &mut Vec<(u64, u64)>) -> u64 {
    let kind = value.kind();
    if value.depth() > DEPTH {
        return hash(kind, value.raw().as_bytes());
    }
    let mut hasher = hasher(kind);
    match kind {
        Kind::Null | Kind::True | Kind::False => {}
        Kind::Number => return number(value.raw()),
        Kind::String => return hash(kind, value.as_str().unwrap_or_default().as_bytes()),
        Kind::Array => {
            for item in value.items().into_iter().flatten() {
                hasher.write_u64(print(item, entries));
            }
        }
        Kind::Object => {
            let first = entries.len();
            for (key, value) in value.fields().into_iter().flatten() {
                let value = print(value, entries);
                entries.push((hash(Kind::String, &key), value));
            }
            // Their order in the text does not count, except among equal keys.
            entries[first..].sort_by_key(|(key, _)| *key);
            for (at, (key, value)) in entries.iter().enumerate().skip(first) {
                let comes_again = entries.get(at + 1).is_some_and(|next| next.0 == *key);
                if !comes_again {
                    hasher.write_u64(*key);
                    hasher.write_u64(*value);
                }
            }
            entries.truncate(first);
        }
    }
    hasher.finish()
}

/// The hash of a number by its value: `1`, `1.0` and `10e-1` are one.
fn number(digits: &str) -> u64 {
    let by_text = |text: &str| hash(Kind::Number, text.as_bytes());
    if !digits.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
        return by_text(if digits == "-0" { "0" } else { digits });
    }
    match digits.parse::<f64>() {
        Ok(0.0) => by_text("0"),
        Ok(number) if number.is_finite() && number.fract() == 0.0 => by_text(&number.to_string()),
        Ok(number) if number.is_finite() => hash(Kind::Number, &number.to_bits().to_be_bytes()),
        _ => by_text(digits),
    }
}

#[cfg(test)]
mod tests {
    use crate::json::Tape;

    fn print(text: &str) -> u64 {
        Tape::default().parse(text).map(super::fingerprint).unwrap()
    }

    #[test]
    fn the_same_value_has_the_same_fingerprint() {
        let one = r#"{"a":[1,2.5,true,null],"b":{"c":"é/"}}"#;
        for other in [
            r#" { "b" : {"c":"\u00e9\/"} , "a" : [1.0, 25e-1, true , null] } "#,
            r#"{"a":0,"a":[1,2.50,true,null],"b":{"c":"é/"}}"#,
            r#"{"b":7,"a":[1e0,2.5,true,null],"b":{"c":0,"c":"é/"}}"#,
        ] {
            assert_eq!(print(one), print(other), "{other}");
        }
        let others = [
            r#"{"a":[2.5,1,true,null],"b":{"c":"é/"}}"#,
            r#"{"a":[1,2.5,true,null],"b":{"c":"é"}}"#,
            r#"{"a":[1,2.5,true,null]}"#,
            r#"{"a":["1",2.5,true,null],"b":{"c":"é/"}}"#,
            r#"{"a":[1,2.5,true,null],"b":"c"}"#,
            r#"{"a":[1,2.5,true,null],"b":{"é/":"c"}}"#,
            r#"{"a":{"c":"é/"},"b":[1,2.5,true,null]}"#,
            r#"{"a":[1,[2.5],true,null],"b":{"c":"é/"}}"#,
            r#"{"a":[1,2.5,true,{}],"b":{"c":"é/"}}"#,
            r#"{"a":[1,2.5,false,null],"b":{"c":"é/"}}"#,
            r#"{"a":[9007199254740993,2.5,true,null],"b":{"c":"é/"}}"#,
            r#"{"a":[9007199254740992,2.5,true,null],"b":{"c":"é/"}}"#,
            r#"{"uuid":"u","b":{"c":1}}"#,
            r#"{"uuid":"u","b":{"c":2}}"#,
        ];
        let mut prints: Vec<_> = others.iter().map(|text| print(text)).chain([print(one)]).collect();
        prints.sort_unstable();
        prints.dedup();
        assert_eq!(prints.len(), others.len() + 1);
    }

    #[test]
    fn no_nesting_is_too_deep() {
        let text = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(print(&text), print(&text));
    }
}
