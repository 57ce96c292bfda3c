//! What a step takes from earlier ones: `plan.answer`, `plan.structured.files`. A step may have several jobs; then a text is all of
//! their texts, and a value is a list.

use std::path::Path;

use serde_json::Value;
use tapline_archive::{Source, SourceOptions};
use tapline_session::earlier_run;
use tapline_session::render::RenderAs;
use tapline_session::text::nearest;

use crate::result::{JobOutcome, JobResult};

/// What a result can be asked for.
const PARTS: &[&str] = &["answer", "structured", "session", "transcript", "verdict", "error", "branch", "patch", "recording"];

/// What a condition can ask for besides.
const STATES: &[&str] = &["success", "failure", "skipped"];

/// A part of an earlier result: `structured.files`, without the name of its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference<'t> {
    part: &'t str,
    path: Option<&'t str>,
}

impl<'t> Reference<'t> {
    /// Reads what stands after the name of a job.
    pub(crate) fn parse(text: &'t str) -> Result<Self, String> {
        Self::one_of(text, PARTS)
    }

    fn one_of(text: &'t str, parts: &[&str]) -> Result<Self, String> {
        let (part, path) = text.split_once('.').map_or((text, None), |(part, path)| (part, Some(path)));
        if !parts.contains(&part) {
            let meant =
                nearest(part, parts.iter().copied()).map(|meant| format!("did you mean `{meant}`? ")).unwrap_or_default();
            return Err(format!("a job has no `{part}`. {meant}It has {}", parts.join(", ")));
        }
        match path {
            Some(_) if part != "structured" => Err(format!("`{part}` has no parts; only `structured` does")),
            _ => Ok(Self { part, path }),
        }
    }

    /// The text of these results.
    pub(crate) fn text(&self, results: &[&JobResult]) -> Option<String> {
        if self.part == "structured" {
            return self.value(results).map(|value| match value {
                Value::String(text) => text,
                other => other.to_string(),
            });
        }
        let texts: Vec<String> = results.iter().filter_map(|result| self.text_of(result)).collect();
        (!texts.is_empty() || results.is_empty()).then(|| texts.join("\n\n"))
    }

    fn text_of(&self, result: &JobResult) -> Option<String> {
        match self.part {
            "answer" => result.answer.clone(),
            "session" => result.session.clone(),
            "verdict" => Some(result.outcome.word().to_owned()),
            "error" => Some(result.error.clone().unwrap_or_default()),
            "branch" => result.branch.clone(),
            "patch" => result.patch.clone(),
            "recording" => result.recording.clone(),
            "transcript" => result.recording.as_deref().map(transcript),
            _ => None,
        }
    }

    /// The structured value of these results: of one as it is, of several as a list.
    fn value(&self, results: &[&JobResult]) -> Option<Value> {
        let of = |result: &&JobResult| {
            let whole: Value = result.structured.as_ref()?.to().ok()?;
            self.path.map_or(Some(whole.clone()), |path| at(&whole, path).cloned())
        };
        match results {
            [one] => of(one),
            several => Some(Value::Array(several.iter().filter_map(of).collect())),
        }
    }

    /// The items of a list: of a structured value, or the lines of an answer.
    pub(crate) fn items(&self, results: &[&JobResult]) -> Option<Vec<Value>> {
        if self.part == "structured" {
            return match self.value(results)? {
                Value::Array(items) => Some(items),
                _ => None,
            };
        }
        let lines = |text: String| text.lines().map(str::trim).filter(|line| !line.is_empty()).map(Value::from).collect();
        self.text(results).map(lines)
    }
}

/// A value inside another one: `files`, `files.0.name`.
pub(crate) fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |value, key| match value {
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        Value::Object(map) => map.get(key),
        _ => None,
    })
}

/// A condition: `plan.success`, `not plan.structured.ok`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    /// What comes before the part: the name of a job or step.
    pub(crate) needs: String,
    part: String,
    negated: bool,
}

impl Condition {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (negated, rest) = match text.strip_prefix("not ").or_else(|| text.strip_prefix('!')) {
            Some(rest) => (true, rest.trim()),
            None => (false, text),
        };
        let (needs, part) = rest.split_once('.').ok_or("write it like plan.success or `not plan.structured.ok`")?;
        if !STATES.contains(&part) {
            let known: Vec<&str> = STATES.iter().copied().chain(["structured", "answer"]).collect();
            Reference::one_of(part, &known)?;
        }
        Ok(Self { needs: needs.to_owned(), part: part.to_owned(), negated })
    }

    pub(crate) fn holds(&self, results: &[&JobResult]) -> bool {
        let is = match self.part.as_str() {
            "success" => results.iter().all(|result| result.outcome == JobOutcome::Success),
            "failure" => results.iter().any(|result| result.is_failure()),
            "skipped" => results.iter().any(|result| result.outcome == JobOutcome::Skipped),
            part => Reference::parse(part).is_ok_and(|part| match part.part {
                "structured" => part.value(results).is_some_and(|value| is_true(&value)),
                _ => part.text(results).is_some_and(|text| !text.trim().is_empty()),
            }),
        };
        is != self.negated
    }
}

/// Whether a value says yes: not false, not nothing, not empty, not 0.
fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

/// What was said and called in a recording, to put it before a prompt. Empty if it cannot be read.
fn transcript(recording: &str) -> String {
    let mut renderer = RenderAs::Transcript.renderer();
    let mut told = String::new();
    if let Ok(mut source) = Source::open(Path::new(recording), SourceOptions::default()) {
        while let Ok(Some((_, steps))) = source.advance() {
            told.extend(steps.iter().map(|step| renderer.step(step)));
        }
    }
    earlier_run(&told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapline_protocol::Json;

    fn result(outcome: JobOutcome, answer: &str, structured: &str) -> JobResult {
        JobResult { outcome, answer: Some(answer.to_owned()), structured: Json::parse(structured).ok(), ..JobResult::default() }
    }

    #[test]
    fn parts_of_one_result_and_of_several() {
        let a = result(JobOutcome::Success, "one\ntwo\n", r#"{"files":["x",{"n":2}],"ok":true}"#);
        let b = result(JobOutcome::Failure, "three", r#"{"files":[],"ok":false}"#);
        let text =
            |part: &str, results: &[&JobResult]| Reference::parse(part).unwrap_or_else(|why| panic!("{why}")).text(results);
        assert_eq!(text("answer", &[&a]).as_deref(), Some("one\ntwo\n"));
        assert_eq!(text("answer", &[&a, &b]).as_deref(), Some("one\ntwo\n\n\nthree"));
        assert_eq!(text("structured.files.0", &[&a]).as_deref(), Some("x"));
        assert_eq!(text("structured.files.1", &[&a]).as_deref(), Some(r#"{"n":2}"#));
        assert_eq!(text("structured.ok", &[&a, &b]).as_deref(), Some("[true,false]"));
        assert_eq!(text("structured.none", &[&a]), None);
        assert_eq!(text("session", &[&a]), None);
        let items = |part: &str| Reference::parse(part).unwrap_or_else(|why| panic!("{why}")).items(&[&a]);
        assert_eq!(items("answer"), Some(vec!["one".into(), "two".into()]));
        assert_eq!(items("structured.files").map(|items| items.len()), Some(2));
        assert_eq!(items("structured.ok"), None);
        for wrong in ["anwser", "answer.x", "", "files"] {
            assert!(Reference::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn conditions() {
        let good = result(JobOutcome::Success, "x", r#"{"ok":true,"none":[]}"#);
        let bad = result(JobOutcome::Failure, "", r#"{"ok":false}"#);
        for (text, results, expected) in [
            ("a.success", &[&good][..], true),
            ("a.success", &[&good, &bad], false),
            ("a.failure", &[&good, &bad], true),
            ("not a.failure", &[&good], true),
            ("!a.skipped", &[&good], true),
            ("a.structured.ok", &[&good], true),
            ("a.structured.ok", &[&bad], false),
            ("a.structured.none", &[&good], false),
            ("not a.structured.unknown", &[&good], true),
            ("a.answer", &[&bad], false),
        ] {
            let condition = Condition::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(condition.holds(results), expected, "{text}");
        }
        for wrong in ["a", "a.sucess", "", "a.session"] {
            assert!(Condition::parse(wrong).is_err(), "{wrong}");
        }
    }
}
