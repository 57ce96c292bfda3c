//! Names with `*`, and version ranges.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

/// A list of names in which `*` stands for any characters. A single name may be given without a list.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Patterns(Vec<String>);

impl Patterns {
    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the patterns.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Replaces each pattern for which `to` returns another.
    pub(crate) fn change(&mut self, to: impl Fn(&str) -> Option<String>) {
        for pattern in &mut self.0 {
            if let Some(other) = to(pattern) {
                *pattern = other;
            }
        }
    }

    /// Adds the patterns that `also` returns for the existing ones.
    pub(crate) fn extend_with(&mut self, also: impl Fn(&str) -> Option<String>) {
        let more: Vec<_> = self.0.iter().filter_map(|pattern| also(pattern)).collect();
        self.0.extend(more);
    }

    /// Returns whether any pattern matches.
    pub fn match_any(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| matches(pattern, name))
    }
}

/// Returns whether a pattern matches a name.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

impl fmt::Display for Patterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" or "))
    }
}

impl<'de> Deserialize<'de> for Patterns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Patterns;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name or a list of names")
            }
            fn visit_str<E>(self, name: &str) -> Result<Patterns, E> {
                Ok(Patterns(vec![name.to_owned()]))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Patterns, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = list.next_element()? {
                    names.push(name);
                }
                Ok(Patterns(names))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A version range: `>=2.1.0, <3`, or `2.1` for all versions that start with it.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionRange {
    text: String,
    bounds: Vec<(Bound, Vec<u64>)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    AtLeast,
    Above,
    AtMost,
    Below,
    StartsWith,
}

/// A part of a range that is not a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongRange(String);

impl fmt::Display for WrongRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a version: write `>=2.1.0, <3` or `2.1`", self.0)
    }
}

impl std::error::Error for WrongRange {}

impl FromStr for VersionRange {
    type Err = WrongRange;

    fn from_str(text: &str) -> Result<Self, WrongRange> {
        const MARKS: &[(&str, Bound)] = &[
            (">=", Bound::AtLeast),
            ("<=", Bound::AtMost),
            (">", Bound::Above),
            ("<", Bound::Below),
            ("=", Bound::StartsWith),
        ];
        let bounds = text.split(',').map(|part| {
            let part = part.trim();
            let (bound, version) = MARKS
                .iter()
                .find_map(|(mark, bound)| Some((*bound, part.strip_prefix(mark)?)))
                .unwrap_or((Bound::StartsWith, part));
            let version = version.trim().trim_end_matches(".*");
            numbers(version).map(|version| (bound, version)).ok_or_else(|| WrongRange(part.to_owned()))
        });
        Ok(Self { text: text.to_owned(), bounds: bounds.collect::<Result<_, _>>()? })
    }
}

impl VersionRange {
    /// Returns whether a version is in the range. A suffix such as `-beta` is ignored.
    pub fn contains(&self, version: &str) -> bool {
        let digits = version.split(|c: char| c != '.' && !c.is_ascii_digit()).next().unwrap_or_default();
        let Some(version) = numbers(digits) else { return false };
        self.bounds.iter().all(|(bound, limit)| {
            let order = compare(&version, limit);
            match bound {
                Bound::AtLeast => order.is_ge(),
                Bound::Above => order.is_gt(),
                Bound::AtMost => order.is_le(),
                Bound::Below => order.is_lt(),
                Bound::StartsWith => version.starts_with(limit),
            }
        })
    }
}

/// Compares versions. Missing numbers are 0: 2.1 is 2.1.0.
fn compare(one: &[u64], other: &[u64]) -> std::cmp::Ordering {
    let at = |version: &[u64], place: usize| version.get(place).copied().unwrap_or(0);
    let places = one.len().max(other.len());
    (0..places)
        .map(|place| at(one, place).cmp(&at(other, place)))
        .find(|order| order.is_ne())
        .unwrap_or(std::cmp::Ordering::Equal)
}

fn numbers(version: &str) -> Option<Vec<u64>> {
    version.split('.').map(|part| part.parse().ok()).collect()
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for VersionRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars() {
        for (pattern, name, expected) in [
            ("Bash", "Bash", true),
            ("Bash", "BashOutput", false),
            ("mcp__github__*", "mcp__github__search", true),
            ("*", "", true),
            ("claude-*-5", "claude-opus-5", true),
            ("claude-*-5", "claude-opus-5-5x", false),
            ("a*a", "a", false),
            ("*b*c*", "abxc", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} on {name}");
        }
    }

    #[test]
    fn ranges() {
        let range = ">=2.1.74, <3".parse::<VersionRange>().unwrap();
        assert!(
            range.contains("2.1.325") && range.contains("2.1.74-beta") && !range.contains("2.0.76") && !range.contains("3.0.0")
        );
        assert!(
            "2.1".parse::<VersionRange>().unwrap().contains("2.1.9")
                && !"2.1".parse::<VersionRange>().unwrap().contains("2.10.0")
        );
        assert!(
            ">2.1".parse::<VersionRange>().unwrap().contains("2.1.1")
                && !"<=2.1".parse::<VersionRange>().unwrap().contains("2.1.1")
        );
        assert!("latest".parse::<VersionRange>().is_err());
        assert!(!range.contains("unknown"));
    }
}
