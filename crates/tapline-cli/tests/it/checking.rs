//! `tapline check`: one summary line always; 0, or 3 with each violation and its line.

use crate::tapline::{Folder, fixture, tapline, tapline_on};

fn tools() -> String {
    fixture("claude-2.1.325/tools.jsonl").to_str().unwrap().to_owned()
}

#[test]
fn permission_rules_are_held_against_a_run() {
    let folder = Folder::new("permissions");
    let rules = folder.file("rules.toml", "[[allow]]\ntool = [\"Read\", \"Bash\"]\npath = \"*.py\"\n[[allow]]\ntool = \"Bash\"\ncommand = \"ls\"\n[[deny]]\ntool = \"Bash\"\ncommand = \"cat /*\"\nreason = \"stay here\"\n");
    let stream = fixture("claude-2.1.325/tools.jsonl");
    let ran = tapline(&["check", "--permissions", &rules, stream.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let words: Vec<&str> = ran.out.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(words[..4], ["allow", "allow", "deny", "ask"], "{}", ran.out);
    assert!(ran.out.contains("(deny[0]: stay here)") && ran.out.contains("(no rule)"), "{}", ran.out);
    let json = tapline(&["check", "--json", "--permissions", &rules, stream.to_str().unwrap()]).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["decisions"][2]["ruling"], "deny");
    let wrong = folder.file("wrong.toml", "[[allow]]\ntool = \"Bash\"\ncomand = \"ls\"\n");
    let ran = tapline(&["check", "--permissions", &wrong, stream.to_str().unwrap()]);
    assert!(ran.code == 2 && ran.err.contains("line 3") && ran.err.contains("comand"), "{}", ran.err);
}

#[test]
fn a_good_stream_is_one_line() {
    let ran = tapline(&["check", "--strict", &tools()]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "✓ 15 lines · 0 odd · 0 drifts\n"));
}

#[test]
fn a_violation_is_named_with_its_line() {
    let folder = Folder::new("policy");
    let policy = folder.file("policy.toml", "[calls]\nforbid = [\"Write\"]\n\n[limits]\ncost_usd = 0.001\n");
    let ran = tapline(&["check", "--policy", &policy, &tools()]);
    assert_eq!(ran.code, 3);
    assert_eq!(
        ran.out,
        "✗ line 12: calls.forbid: Write was called\n✗ line 15: limits.cost_usd: $0.0070 so far, $0.0010 allowed\n✗ 15 lines · 0 odd · 0 drifts · 2 violations\n"
    );
    let kept = folder.file("kept.toml", "[limits]\ncost_usd = 1\n");
    let ran = tapline(&["check", "--policy", &kept, &tools()]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "✓ 15 lines · 0 odd · 0 drifts · policy kept\n"));
}

#[test]
fn odd_things_count_when_strict() {
    let stream = b"{\"type\":\"result\",\"subtype\":\"success\"}\nnonsense\n{\"type\":\"from_the_future\"}\n";
    let ran = tapline_on(stream, &["check"]);
    assert_eq!(ran.code, 0);
    assert!(ran.out.contains("! line 2: malformed-line: not JSON (column 1: expected null): nonsense"), "{}", ran.out);
    assert!(
        ran.out.contains("~ line 3: drift: from_the_future: tapline does not know this type yet (unknown version, once)"),
        "{}",
        ran.out
    );
    assert!(ran.out.ends_with("! 3 lines · 1 odd · 1 drift\n"), "{}", ran.out);
    assert_eq!(tapline_on(stream, &["check", "--strict"]).code, 3);
}

#[test]
fn json_for_programs() {
    let ran = tapline_on(b"nonsense\n", &["check", "--json", "--strict"]);
    assert_eq!(ran.code, 3);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["ok"], false);
    assert_eq!(report["findings"][0]["code"], "malformed-line");
    assert_eq!(report["findings"][0]["line"], 1);
}

#[test]
fn a_wrong_policy_is_refused_with_line_and_reason() {
    let folder = Folder::new("wrong-policy");
    let policy = folder.file("policy.toml", "[limits]\ncosts = 1\n");
    let ran = tapline(&["check", "--policy", &policy, &tools()]);
    assert_eq!(ran.code, 2);
    for part in ["policy.toml", "line 2", "costs"] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    assert_eq!(tapline(&["check", "--policy", "/no/such/policy", &tools()]).code, 2);
}
