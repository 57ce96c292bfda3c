//! When two texts are the same JSON: blanks, the order of keys, escapes and the way a number is written do not count.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Kind, Value};

/// Deeper values are compared by their text, so that no nesting is too deep.
const DEPTH: u32 = 128;

/// A fingerprint of anything.
pub(crate) fn fingerprint_of(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// The same for two texts that are the same JSON value; of a repeated key the last counts.
pub(crate) fn fingerprint(value: Value<'_>) -> u64 {
    if value.depth() > DEPTH {
        return fingerprint_of(value.raw());
    }
    match value.kind() {
        Kind::Null => 0,
        Kind::True => 1,
        Kind::False => 2,
        Kind::Number => fingerprint_of(plain(value.raw())),
        Kind::String => fingerprint_of(("string", value.as_str())),
        Kind::Array => fingerprint_of(("array", value.items().into_iter().flatten().map(fingerprint).collect::<Vec<_>>())),
        Kind::Object => {
            let entries: BTreeMap<_, _> = value.entries().into_iter().flatten().collect();
            let entries = entries.into_iter().map(|(key, value)| (key, fingerprint(value)));
            fingerprint_of(("object", entries.collect::<Vec<_>>()))
        }
    }
}

/// A number as it would be written most plainly: `1`, not `1.0` or `10e-1`.
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
