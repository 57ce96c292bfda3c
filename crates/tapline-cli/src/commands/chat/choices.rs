//! What was typed as the answer to a question of the agent (`AskUserQuestion`): numbers of options, or words.

use std::collections::BTreeSet;

use tapline_session::Inquiry;

/// Returns what was typed, with numbers replaced by their options. `None` if a number has no option, or if only one may be chosen.
pub(super) fn chosen(inquiry: &Inquiry, words: &str) -> Option<Vec<String>> {
    let parts = words.split([',', ' ']).filter(|part| !part.is_empty());
    let numbers: Option<BTreeSet<usize>> = parts.map(|part| part.parse().ok()).collect();
    let Some(numbers) = numbers else { return Some(vec![words.to_owned()]) };
    let label = |number: usize| Some(inquiry.options.get(number.checked_sub(1)?)?.label.clone());
    let labels = numbers.into_iter().map(label).collect::<Option<Vec<_>>>()?;
    (inquiry.several || labels.len() == 1).then_some(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_for_what_they_number() {
        let asks = |several: bool| {
            let options = [serde_json::json!({"label": "Red"}), serde_json::json!({"label": "Blue"})];
            let input = serde_json::json!({"questions": [{"question": "Which?", "multiSelect": several, "options": options}]});
            Inquiry::of("AskUserQuestion", &input.into()).unwrap().remove(0)
        };
        let typed = |several: bool, words: &str| chosen(&asks(several), words).map(|labels| labels.join("|"));
        // What several may be, and what one may be.
        let cases = [
            ("2", Some("Blue"), Some("Blue")),
            ("1, 2", Some("Red|Blue"), None),
            ("2 1 2", Some("Red|Blue"), None),
            ("3", None, None),
            ("0", None, None),
            ("1,x", Some("1,x"), Some("1,x")),
        ];
        for (words, several, one) in cases {
            assert_eq!((typed(true, words).as_deref(), typed(false, words).as_deref()), (several, one), "{words}");
        }
    }
}
