//! The contract, case by case: what a stream holds, and what the report must say of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tapline_protocol::{Agent, InputFormat, StopReason};
use tapline_session::Ending;
use tapline_testkit::fixture;

use crate::read_stream::tell;

#[test]
fn every_case_holds() {
    let cases = std::fs::read_to_string(fixture("cases/contract.jsonl")).unwrap();
    let mut wrong = Vec::new();
    for line in cases.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let report = report_of(&case);
        for (path, expected) in case["expect"].as_object().unwrap() {
            let found = match path.strip_suffix("#len") {
                Some(path) => lengths(&at(&report, path)),
                None => at(&report, path),
            };
            if !same(expected, &found) {
                wrong.push(format!("{}: {path}: expected {expected}, found {found}", case["name"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} departures:\n{}", wrong.len(), wrong.join("\n"));
    assert!(cases.lines().count() > 400, "the cases are there");
}

fn report_of(case: &Value) -> Value {
    let mut input = match case["input"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => STANDARD.decode(case["input_b64"].as_str().unwrap()).unwrap(),
    };
    for (token, spec) in case["expand"].as_object().into_iter().flatten() {
        let count = usize::try_from(spec[1].as_u64().unwrap()).unwrap();
        let text = String::from_utf8(input).unwrap();
        input = text.replace(token.as_str(), &spec[0].as_str().unwrap().repeat(count)).into_bytes();
    }
    let ending = &case["ending"];
    let text = |key: &str| ending[key].as_str().map(str::to_owned);
    let flag = |key: &str| ending[key].as_bool().unwrap_or(false);
    let ending = Ending {
        exit_code: ending["exit_code"].as_i64().map(|code| i32::try_from(code).unwrap()),
        signal: text("signal"),
        stderr: text("stderr"),
        last_message: text("last_message"),
        stopped: flag("timed_out").then_some(StopReason::Timeout),
        limit_ms: ending["limit_ms"].as_u64(),
        no_heuristics: flag("no_heuristics"),
        no_background_tasks: flag("no_background_tasks"),
        ..Ending::default()
    };
    let agent = match case["agent"].as_str().unwrap() {
        "claude" => Some(Agent::Claude),
        "codex" => Some(Agent::Codex),
        _ => None,
    };
    let format = match case["format"].as_str().unwrap() {
        "json" => InputFormat::Document,
        "auto" => InputFormat::Auto,
        _ => InputFormat::Lines,
    };
    let chunk = case["chunk"].as_u64().map_or(1 << 16, |size| usize::try_from(size).unwrap());
    serde_json::from_str(&tell(&input, chunk, format, agent, &ending).report.to_json()).unwrap()
}

/// The value at a path; `[]` maps over a list.
fn at(value: &Value, path: &str) -> Value {
    path.split('.')
        .fold((value.clone(), 0), |(value, depth), part| {
            let (key, maps) = part.strip_suffix("[]").map_or((part, false), |key| (key, true));
            (get(&value, key, depth), depth + usize::from(maps))
        })
        .0
}

fn get(value: &Value, key: &str, depth: usize) -> Value {
    match value {
        Value::Array(items) if depth > 0 => items.iter().map(|item| get(item, key, depth - 1)).collect(),
        value => value[key].clone(),
    }
}

fn lengths(value: &Value) -> Value {
    match value {
        Value::String(text) => text.chars().count().into(),
        Value::Array(items) if items.iter().all(Value::is_string) => items.iter().map(lengths).collect(),
        Value::Array(items) => items.len().into(),
        other => other.clone(),
    }
}

/// Numbers within 1e-9, everything else alike; the report may have keys that a case does not name.
fn same(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || (one.as_f64().unwrap_or(f64::NAN) - other.as_f64().unwrap_or(f64::NAN)).abs() < 1e-9
        }
        (Value::Array(ones), Value::Array(others)) => {
            ones.len() == others.len() && ones.iter().zip(others).all(|(one, other)| same(one, other))
        }
        (Value::Object(ones), Value::Object(_)) => ones.iter().all(|(key, one)| same(one, &found[key])),
        (one, other) => one == other,
    }
}
