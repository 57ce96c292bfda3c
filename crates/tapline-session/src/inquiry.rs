//! What a model asks a person with a tool of its own: questions with options to choose from. Every surface reads them, and writes the answers, here.

use serde::Serialize;
use tapline_protocol::{Json, Value};

use crate::agents::asks_a_person;

/// One question for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Inquiry {
    /// The question.
    pub question: String,
    /// What it is about, in a word or two.
    pub header: String,
    /// What can be chosen. A person may always answer in words of their own.
    pub options: Vec<InquiryOption>,
    /// Whether several options can be chosen.
    pub several: bool,
}

/// Something that can be chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct InquiryOption {
    /// What it is called. This is the answer.
    pub label: String,
    /// What it means.
    pub description: String,
    /// What it would look like, if the model shows that.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preview: String,
}

/// What was answered: each question, and what was chosen or said.
pub type InquiryAnswers = Vec<(String, Vec<String>)>;

impl Inquiry {
    /// Returns what a call asks a person. `None` if the tool does something else, or if its input has no question.
    pub fn of(tool: &str, input: &Json) -> Option<Vec<Self>> {
        if !asks_a_person(tool) {
            return None;
        }
        let text = |value: Value<'_>, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().into_owned();
        let option = |value: Value<'_>| InquiryOption {
            label: text(value, "label"),
            description: text(value, "description"),
            preview: text(value, "preview"),
        };
        let inquiry = |value: Value<'_>| Self {
            question: text(value, "question"),
            header: text(value, "header"),
            options: value.get("options").and_then(Value::items).map(|items| items.map(option).collect()).unwrap_or_default(),
            several: value.get("multiSelect").and_then(Value::as_bool) == Some(true),
        };
        let read = input.with(|input| Some(input.get("questions")?.items()?.map(inquiry).collect::<Vec<_>>()));
        read.flatten().filter(|inquiries| !inquiries.is_empty())
    }

    /// Says what is wrong with these answers, if something is: each question needs one, and only one if not several can be chosen.
    pub fn mistake(inquiries: &[Self], answers: &[(String, Vec<String>)]) -> Option<String> {
        let answered = |inquiry: &Self| {
            let chosen: Vec<_> = answers.iter().filter(|(question, _)| *question == inquiry.question).collect();
            let [(_, chosen)] = chosen.as_slice() else { return false };
            chosen.iter().any(|one| !one.trim().is_empty()) && (inquiry.several || chosen.len() == 1)
        };
        if let Some(open) = inquiries.iter().find(|inquiry| !answered(inquiry)) {
            let wanted = if open.several { "at least one answer" } else { "one answer" };
            return Some(format!("“{}” needs {wanted}", open.question));
        }
        let is_asked = |question: &str| inquiries.iter().any(|inquiry| inquiry.question == question);
        let other = answers.iter().find(|(question, _)| !is_asked(question))?;
        Some(format!("nobody asks “{}”", other.0))
    }

    /// Returns the input with which the call runs when a person has answered. The agent reads the answers there: several are one text.
    pub fn answered(input: &Json, answers: &[(String, Vec<String>)]) -> Json {
        let mut all: serde_json::Map<String, serde_json::Value> = input.to().unwrap_or_default();
        let answers: serde_json::Map<String, serde_json::Value> =
            answers.iter().map(|(question, chosen)| (question.clone(), chosen.join(", ").into())).collect();
        all.insert("answers".to_owned(), answers.into());
        Json::of(&all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Json {
        serde_json::json!({"questions": [
            {"question": "Which colour?", "header": "Colour", "options": [{"label": "Red", "description": "warm"}, {"label": "Blue"}]},
            {"question": "Which sizes?", "multiSelect": true, "options": [{"label": "S"}, {"label": "M"}, {"label": "L"}]},
        ]})
        .into()
    }

    fn answers(of: &[(&str, &[&str])]) -> InquiryAnswers {
        let owned = |chosen: &[&str]| chosen.iter().map(|one| (*one).to_owned()).collect();
        of.iter().map(|(question, chosen)| ((*question).to_owned(), owned(chosen))).collect()
    }

    #[test]
    fn what_is_asked_is_read_and_the_answers_are_written_beside_it() {
        let inquiries = Inquiry::of("AskUserQuestion", &asked()).unwrap();
        assert_eq!((inquiries[0].header.as_str(), inquiries[0].options[0].description.as_str()), ("Colour", "warm"));
        assert!(!inquiries[0].several && inquiries[1].several && inquiries[1].options.len() == 3);
        let given = answers(&[("Which colour?", &["Blue"]), ("Which sizes?", &["S", "L"])]);
        assert_eq!(Inquiry::mistake(&inquiries, &given), None);
        let input: serde_json::Value = Inquiry::answered(&asked(), &given).to().unwrap();
        assert_eq!(input["answers"], serde_json::json!({"Which colour?": "Blue", "Which sizes?": "S, L"}));
        assert_eq!(input["questions"][0]["question"], "Which colour?");
    }

    #[test]
    fn every_question_needs_its_answer() {
        let inquiries = Inquiry::of("AskUserQuestion", &asked()).unwrap();
        for (given, wrong) in [
            (answers(&[]), "“Which colour?” needs one answer"),
            (answers(&[("Which colour?", &["Blue", "Red"]), ("Which sizes?", &["S"])]), "“Which colour?” needs one answer"),
            (answers(&[("Which colour?", &["my own"]), ("Which sizes?", &[" "])]), "“Which sizes?” needs at least one answer"),
            (answers(&[("Which colour?", &["Red"]), ("Which sizes?", &["S"]), ("Which?", &["x"])]), "nobody asks “Which?”"),
        ] {
            assert_eq!(Inquiry::mistake(&inquiries, &given).as_deref(), Some(wrong));
        }
    }

    #[test]
    fn other_tools_ask_nothing() {
        assert_eq!(Inquiry::of("Bash", &asked()), None);
        assert_eq!(Inquiry::of("AskUserQuestion", &serde_json::json!({"questions": []}).into()), None);
        assert_eq!(Inquiry::of("AskUserQuestion", &serde_json::json!({"questions": 5}).into()), None);
    }
}
