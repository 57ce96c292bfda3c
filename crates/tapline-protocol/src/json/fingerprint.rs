//! Compares JSON by value: whitespace, key order, escapes and number notation do not matter.

use std::borrow::Cow;
use std::hash::{BuildHasher as _, Hash as _, Hasher};

use foldhash::quality::FixedState;

use super::{Kind, Value};

/// Values deeper than this are compared by their text, so nesting cannot overflow the stack.
const DEPTH: u32 = 128;

/// Returns a hash that is equal for equal JSON values. If a key is repeated, the last value counts.
pub(crate) fn fingerprint(value: Value<'_>) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    feed(value, &mut hasher);
    hasher.finish()
}

/// Every value starts with its kind, and arrays and objects also end with it, so different values never feed the same
/// bytes.
fn feed(value: Value<'_>, hasher: &mut impl Hasher) {
    if value.depth() > DEPTH {
        return value.raw().hash(hasher);
    }
    let kind = value.kind();
    hasher.write_u8(kind as u8);
    match kind {
        Kind::Null | Kind::True | Kind::False => {}
        Kind::Number => plain(value.raw()).hash(hasher),
        Kind::String => value.as_str().hash(hasher),
        Kind::Array => {
            for item in value.items().into_iter().flatten() {
                feed(item, hasher);
            }
            hasher.write_u8(kind as u8);
        }
        Kind::Object => {
            let mut entries: Vec<_> = value.entries().into_iter().flatten().collect();
            entries.sort_by(|one, other| one.0.cmp(&other.0));
            for (at, (key, value)) in entries.iter().enumerate() {
                let comes_again = entries.get(at + 1).is_some_and(|next| next.0 == *key);
                if !comes_again {
                    key.hash(hasher);
                    feed(*value, hasher);
                }
            }
            hasher.write_u8(kind as u8);
        }
    }
}

/// Writes a number in its plainest form: `1`, not `1.0` or `10e-1`.
fn plain(digits: &str) -> Cow<'_, str> {
    if !digits.contains(['.', 'e', 'E']) {
        return if digits == "-0" { "0".into() } else { digits.into() };
    }
    match digits.parse::<f64>() {
        Ok(0.0) => "0".into(),
        Ok(number) if number.is_finite() => number.to_string().into(),
        _ => digits.into(),
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
        ] {
            assert_eq!(print(one), print(other), "{other}");
        }
        let others = [
            r#"{"a":[2.5,1,true,null],"b":{"c":"é/"}}"#,
            r#"{"a":[1,2.5,true,null],"b":{"c":"é"}}"#,
            r#"{"a":[1,2.5,true,null]}"#,
            r#"{"a":["1",2.5,true,null],"b":{"c":"é/"}}"#,
            r#"{"a":[1,2.5,true,null],"b":"c"}"#,
            r#"{"a":[1,2.5,false,null],"b":{"c":"é/"}}"#,
            r#"{"a":[9007199254740993,2.5,true,null],"b":{"c":"é/"}}"#,
            r#"{"a":[9007199254740992,2.5,true,null],"b":{"c":"é/"}}"#,
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
