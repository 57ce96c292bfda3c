//! The JSON Schemas of the report and of steps hold for everything that tapline writes, and describe every key of it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use jsonschema::Validator;
use serde_json::{Value, json};
use tapline_testkit::files::files_below;
use tapline_testkit::{fixture, streams};

use crate::run::run_command;
use crate::tapline::{Ran, ran, tapline};

fn schema(of: &str) -> Value {
    let printed = tapline(&["schema", of]);
    assert_eq!((printed.code, printed.err.as_str()), (0, ""));
    serde_json::from_str(&printed.out).unwrap()
}

/// The same schema without room for keys that it does not describe. Other versions may write more; this one may not.
fn strict(mut schema: Value) -> Validator {
    close(&mut schema, "");
    jsonschema::validator_for(&schema).unwrap()
}

fn close(schema: &mut Value, name: &str) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(|item| close(item, "")),
        Value::Object(keys) => {
            for (key, value) in keys.iter_mut() {
                match (key.as_str(), value) {
                    ("$defs" | "properties", Value::Object(named)) => {
                        named.iter_mut().for_each(|(name, value)| close(value, name));
                    }
                    (_, value) => close(value, ""),
                }
            }
            // A usage has further keys of the agent's. What a kind of step has comes beside what all have.
            let is_open = name == "usage" || name.starts_with("step_");
            if keys.contains_key("properties") && keys.contains_key("type") && !is_open {
                keys.insert("unevaluatedProperties".to_owned(), json!(false));
            }
        }
        _ => {}
    }
}

fn errors(validator: &Validator, value: &Value) -> Vec<String> {
    validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The transcripts of the fixtures, and the streams of the runs that wrote them.
fn transcripts() -> Vec<PathBuf> {
    let mut found = files_below(fixture("transcripts"));
    found.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl" || extension == "zst"));
    assert!(found.len() > 50, "the transcripts are there");
    found
}

#[test]
fn every_report_and_every_step_is_what_its_schema_says() {
    let (report, step) = (strict(schema("report")), strict(schema("steps")));
    let documents = ["claude-2.1.325/json.jsonl", "claude-2.1.325/jsonverbose.jsonl"].map(fixture);
    for path in streams().into_iter().chain(documents).chain(transcripts()) {
        let name = path.to_str().unwrap();
        let inspected = tapline(&["inspect", "--json", name]);
        assert_eq!(errors(&report, &parsed(&inspected.out)), Vec::<String>::new(), "{name}");
        for line in tapline(&["convert", "--to", "steps", name]).out.lines() {
            assert_eq!(errors(&step, &parsed(line)), Vec::<String>::new(), "{name}: {line}");
        }
    }
}

#[test]
fn so_are_those_of_a_run_however_it_ends() {
    let (report, step) = (strict(schema("report")), strict(schema("steps")));
    let run = |mode: &str, args: &[&str]| -> Ran { ran(run_command(mode, args).output().unwrap()) };
    for (mode, more) in [
        ("ok", &[][..]),
        ("no-result", &[]),
        ("malformed", &[]),
        ("denied", &[]),
        ("two-turns", &[]),
        ("hang", &["--timeout", "300ms"]),
    ]
    .into_iter()
    .chain([("declined", &["--agent", "codex"][..])])
    {
        let ended = run(mode, &[&["--format", "steps"], more].concat());
        let mut lines: Vec<_> = ended.out.lines().map(parsed).collect();
        assert_eq!(errors(&report, &lines.pop().unwrap()), Vec::<String>::new(), "{mode}");
        for line in lines {
            assert_eq!(errors(&step, &line), Vec::<String>::new(), "{mode}: {line}");
        }
    }
}

#[test]
fn a_mistake_is_found() {
    let (report, step) = (strict(schema("report")), strict(schema("steps")));
    let inspected = tapline(&["inspect", "--json", fixture("claude-2.1.325/multi.jsonl").to_str().unwrap()]);
    let good = parsed(&inspected.out);
    for (pointer, wrong) in [
        ("/verdict/outcome", json!("fine")),
        ("/ledger/tokens/input", json!("3")),
        ("/session", json!({})),
        ("/verdict/retry", json!({"advice": "no", "at": null, "news": 1})),
        ("/turns/0/usage", json!(null)),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = wrong;
        assert!(!errors(&report, &bad).is_empty(), "{pointer}");
    }
    for bad in [
        json!({"line": 1, "depth": 0}),
        json!({"line": 1, "depth": 0, "step": "text"}),
        json!({"line": 1, "depth": 0, "step": "prompt", "text": "x", "news": 1}),
        json!({"line": 1, "depth": 0, "step": "answer", "id": null, "status": "fine", "text": "", "is_error": false, "block": 0}),
    ] {
        assert!(!errors(&step, &bad).is_empty(), "{bad}");
    }
    // Another version's step is no mistake.
    let other = jsonschema::validator_for(&schema("steps")).unwrap();
    assert!(other.is_valid(&json!({"line": 1, "depth": 0, "step": "dance", "with": "wolves"})));
}

/// The keys that a schema describes, each with those it is in.
fn keys(schema: &Value, at: &str, found: &mut BTreeSet<String>) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| keys(item, at, found)),
        Value::Object(parts) => {
            for (part, value) in parts {
                match (part.as_str(), value) {
                    ("$defs" | "properties", Value::Object(named)) => {
                        for (name, value) in named {
                            let below = format!("{at} {name}");
                            keys(value, &below, found);
                            found.insert(below);
                        }
                    }
                    (_, value) => keys(value, at, found),
                }
            }
        }
        _ => {}
    }
}

#[test]
fn no_key_vanishes() {
    let mut now = BTreeSet::new();
    for of in ["report", "steps"] {
        keys(&schema(of), of, &mut now);
    }
    let known: BTreeSet<String> = include_str!("schemas/keys.txt").lines().map(ToOwned::to_owned).collect();
    assert!(known.len() > 300, "the keys are there");
    let gone: Vec<_> = known.difference(&now).collect();
    assert!(gone.is_empty(), "the schemas are stable by semver; these keys are gone: {gone:#?}");
    let new: Vec<_> = now.difference(&known).map(String::as_str).collect();
    assert!(new.is_empty(), "these keys are new; add them to tests/it/schemas/keys.txt:\n{}", new.join("\n"));
}
