//! What the agent asks the user (`AskUserQuestion`): options to choose from, or a free answer.

use std::collections::BTreeSet;

use tapline_protocol::{Json, Value};

/// One question for the user.
pub(super) struct Thing {
    pub(super) question: String,
    pub(super) options: Vec<(String, String)>,
    pub(super) several: bool,
}

impl Thing {
    /// Returns what was typed, with numbers replaced by their options. `None` if a number has no option.
    pub(super) fn chosen(&self, words: &str) -> Option<String> {
        let parts = words.split([',', ' ']).filter(|part| !part.is_empty());
        let numbers: Option<BTreeSet<usize>> = parts.map(|part| part.parse().ok()).collect();
        let Some(numbers) = numbers else { return Some(words.to_owned()) };
        let label = |number: usize| Some(self.options.get(number.checked_sub(1)?)?.0.clone());
        Some(numbers.into_iter().map(label).collect::<Option<Vec<_>>>()?.join(", "))
    }
}

pub(super) fn things(input: &Json) -> Vec<Thing> {
    let text = |value: Value<'_>, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().into_owned();
    let thing = |value: Value<'_>| Thing {
        question: text(value, "question"),
        options: value
            .get("options")
            .and_then(Value::items)
            .map(|items| items.map(|option| (text(option, "label"), text(option, "description"))).collect())
            .unwrap_or_default(),
        several: value.get("multiSelect").and_then(Value::as_bool) == Some(true),
    };
    input.with(|input| Some(input.get("questions")?.items()?.map(thing).collect())).flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_for_what_they_number() {
        let option = |label: &str| (label.to_owned(), String::new());
        let thing = Thing { question: String::new(), options: vec![option("Red"), option("Blue")], several: true };
        let cases = [
            ("2", Some("Blue")),
            ("1, 2", Some("Red, Blue")),
            ("2 1 2", Some("Red, Blue")),
            ("3", None),
            ("0", None),
            ("1,x", Some("1,x")),
        ];
        for (typed, chosen) in cases {
            assert_eq!(thing.chosen(typed).as_deref(), chosen, "{typed}");
        }
    }
}
