//! What two versions of a program say differently: the shapes of their lines, as a diff that a person can read.
//! `scripts/e2e --drift A B` prints it.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::fixtures::say;
use crate::stage::{claude, setting};

/// Every place that a value stands at, with its kind, under what its line is: `assistant .message.content[text].text string`.
pub(crate) fn shape(stream: &str) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for line in stream.lines() {
        let Ok(value) = serde_json::from_str::<Value>(line) else {
            out.insert("(a line that is no JSON)".to_owned());
            continue;
        };
        let word = |key: &str| value[key].as_str().map(|word| format!("/{word}")).unwrap_or_default();
        let name = format!("{}{}", value["type"].as_str().unwrap_or("(no type)"), word("subtype"));
        places(&name, "", &value, &mut out);
    }
    out
}

/// Keys whose own keys are names of something, not of a shape.
const NAMES: &[&str] = &["modelUsage", "model_usage_since_last_result", "input", "tool_input", "by_type"];

fn places(name: &str, path: &str, value: &Value, out: &mut BTreeSet<String>) {
    let kind = match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let named = NAMES.contains(&path.rsplit('.').next().unwrap_or_default());
                let key = if named { "*" } else { key };
                places(name, &format!("{path}.{key}"), value, out);
            }
            return;
        }
        Value::Array(items) => {
            for item in items {
                let kind = item["type"].as_str().map_or_else(|| "[]".to_owned(), |kind| format!("[{kind}]"));
                places(name, &format!("{path}{kind}"), item, out);
            }
            return;
        }
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Null => "null",
    };
    out.insert(format!("{name} {path} {kind}"));
}

/// The lines that only one of them has, in order, each with its sign.
pub(crate) fn diff(old: &BTreeSet<String>, new: &BTreeSet<String>) -> Vec<String> {
    old.symmetric_difference(new).map(|line| format!("{} {line}", if old.contains(line) { '-' } else { '+' })).collect()
}

#[test]
fn a_drift_shows() {
    let old = shape(
        "{\"type\":\"result\",\"subtype\":\"success\",\"usage\":{\"tokens\":1},\"content\":[{\"type\":\"text\",\"text\":\"a\"}],\"modelUsage\":{\"m\":{\"cost\":1}}}\n",
    );
    let new = shape(
        "{\"type\":\"result\",\"subtype\":\"success\",\"usage\":{\"tokens\":\"1\"},\"content\":[{\"type\":\"text\",\"text\":\"b\",\"more\":null}],\"modelUsage\":{\"n\":{\"cost\":2}}}\n{\"type\":\"new\"}\n",
    );
    assert_eq!(
        diff(&old, &new),
        [
            "+ new .type string",
            "+ result/success .content[text].more null",
            "- result/success .usage.tokens number",
            "+ result/success .usage.tokens string"
        ]
    );
}

#[test]
#[ignore = "a tool: scripts/e2e --drift A B runs it"]
fn between_two_versions() {
    let versions = setting("TAPLINE_E2E_CLAUDE");
    let (old, new) = versions.split_once(' ').expect("two versions");
    let mut out = vec![format!("--- claude {old}\n+++ claude {new}")];
    for name in ["text", "tools", "tools-partial", "tools-denied", "maxturns", "multi", "rate"] {
        let [one, other] = [old, new].map(|version| shape(&String::from_utf8_lossy(&say(&claude(version), name))));
        out.push(format!("@@ {name} @@"));
        out.extend(diff(&one, &other));
    }
    std::io::Write::write_all(&mut std::io::stdout(), (out.join("\n") + "\n").as_bytes()).unwrap();
}
