//! `tapline check`: one summary line always; 0, or 3 with each violation and its line.

use tapline_testkit::{TempFolder, fixture};

use crate::run::run_command;
use crate::tapline::{ran, tapline, tapline_on};

fn tools() -> String {
    fixture("claude-2.1.325/tools.jsonl").to_str().unwrap().to_owned()
}

#[test]
fn permission_rules_are_held_against_a_run() {
    let folder = TempFolder::new();
    let rules = folder.file("rules.toml", "[[allow]]\ntool = [\"Read\", \"Bash\"]\npath = \"*.py\"\n[[allow]]\ntool = \"Bash\"\ncommand = \"ls\"\n[[deny]]\ntool = \"Bash\"\ncommand = \"cat /*\"\nreason = \"stay here\"\n");
    let ran = tapline(&["check", "--permissions", &rules, &tools()]);
    assert_eq!(ran.code, 3, "a call ran that a rule denies: {}", ran.err);
    assert!(ran.err.contains("rules.toml: allow[0]: a rule with `path` (*.py) never matches Bash"), "{}", ran.err);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(
        lines[..4],
        [
            "✓ line 5: Bash `ls`: the rules allow it (allow[1]), and it ran",
            "✓ line 6: Read `main.py`: the rules allow it (allow[0]), and it ran",
            "✗ line 10: permissions.deny: Bash `cat /nonexistent`: the rules deny it (deny[0]: stay here), but it ran",
            "· line 12: Write `out.txt`: no rule matches it, so the agent decides, and it ran",
        ],
        "{}",
        ran.out
    );
    assert!(lines.len() == 5 && ran.out.ends_with("· 1 violation\n"), "{}", ran.out);
    let json = tapline(&["check", "--json", "--permissions", &rules, &tools()]);
    let told: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((json.code, &told["ok"]), (3, &false.into()));
    assert_eq!(told["decisions"][2]["ruling"], "deny");
    assert!(told["decisions"][2]["was"].is_null(), "a stream alone does not say who let it run");
    let agree: Vec<_> = told["decisions"].as_array().unwrap().iter().map(|told| (&told["ran"], &told["agrees"])).collect();
    let [yes, no, unknown] = [&true.into(), &false.into(), &serde_json::Value::Null];
    assert_eq!(agree, [(yes, yes), (yes, yes), (yes, no), (yes, unknown)]);
    assert_eq!(told["violations"][0]["rule"], "permissions.deny");
    let kept = folder.file("kept.toml", "[[deny]]\ntool = \"Bash\"\ncommand = \"rm *\"\n");
    let ran = tapline(&["check", "--permissions", &kept, &tools()]);
    assert_eq!(ran.code, 0, "what is left open is no violation: {}", ran.out);
    assert!(ran.out.ends_with(" · rules kept\n"), "{}", ran.out);
    let wrong = folder.file("wrong.toml", "[[allow]]\ntool = \"Bash\"\ncomand = \"ls\"\n");
    let ran = tapline(&["check", "--permissions", &wrong, &tools()]);
    assert!(ran.code == 2 && ran.err.contains("line 3") && ran.err.contains("comand"), "{}", ran.err);
}

#[test]
fn a_call_that_was_denied_breaks_no_rule_whoever_denied_it() {
    let folder = TempFolder::new();
    let rules = folder.file("rules.toml", "deny = [{ tool = [\"Bash\", \"Write\"] }]\n");
    let stream = fixture("claude-2.1.325/tools-denied.jsonl").to_str().unwrap().to_owned();
    let ran = tapline(&["check", "--permissions", &rules, &stream]);
    let denied = "the rules deny it (deny[0]), and it was denied in the run (by the agent)\n";
    assert_eq!(ran.out.matches(denied).count(), 2, "the stream itself says so: {}", ran.out);
    assert!(!ran.out.contains("✗ deny"), "{}", ran.out);
    let allow = folder.file("allow.toml", "allow = [{ tool = \"*\" }]\n");
    let allowed = tapline(&["check", "--permissions", &allow, &stream]);
    assert_eq!(allowed.code, 0, "{}", allowed.out);
    let otherwise = "the rules allow it (allow[0]), but it was denied in the run (by the agent)\n";
    assert_eq!(allowed.out.matches(otherwise).count(), 2, "{}", allowed.out);
    assert!(allowed.out.ends_with(" · rules kept (2 calls would be decided differently)\n"), "{}", allowed.out);
    let json: serde_json::Value =
        serde_json::from_str(&tapline(&["check", "--json", "--permissions", &rules, &stream]).out).unwrap();
    let was: Vec<_> = json["decisions"].as_array().unwrap().iter().map(|decision| &decision["was"]["ruling"]).collect();
    assert_eq!(was.iter().filter(|ruling| **ruling == "deny").count(), 2, "{json}");
    let denied = json["decisions"].as_array().unwrap().iter().filter(|decision| decision["ruling"] == "deny").count();
    let broken = json["violations"].as_array().unwrap().len();
    assert_eq!((ran.code, broken), (if denied > 2 { 3 } else { 0 }, denied - 2), "{json}");
    // The recording keeps who decided, and by which rule.
    let recording = folder.path("recording");
    std::fs::create_dir(&recording).unwrap();
    let line = |id: &str| {
        format!(
            "{{\"type\":\"assistant\",\"message\":{{\"content\":[{{\"type\":\"tool_use\",\"id\":\"{id}\",\"name\":\"Bash\",\"input\":{{\"command\":\"git status\"}}}}]}}}}\n"
        )
    };
    std::fs::write(format!("{recording}/stdout"), line("t1") + &line("t2")).unwrap();
    std::fs::write(format!("{recording}/meta.json"), "{\"version\":1,\"agent\":\"claude\"}").unwrap();
    std::fs::write(
        format!("{recording}/decisions"),
        "{\"tool_use_id\":\"t1\",\"ruling\":\"allow\",\"by\":\"rule\",\"rule\":\"allow[0]\"}\n{\"tool_use_id\":\"t2\",\"ruling\":\"deny\",\"by\":\"nobody\",\"reason\":\"no\"}\n",
    )
    .unwrap();
    let ran = tapline(&["check", "--permissions", &rules, &recording]);
    let lines: Vec<&str> = ran.out.lines().take(2).collect();
    assert_eq!(
        lines,
        [
            "✗ line 1: permissions.deny: Bash `git status`: the rules deny it (deny[0]), but the stream does not say what happened to it",
            "✓ line 2: Bash `git status`: the rules deny it (deny[0]), and it was denied in the run (there was nobody to ask)",
        ]
    );
    // What was asked about was asked, or ran unasked.
    let ask = folder.file("ask.toml", "ask = [{ tool = \"Bash\" }]\n");
    let answered = "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t1\",\"content\":\"so\"}]}}\n";
    std::fs::write(format!("{recording}/stdout"), line("t1") + answered + &line("t2")).unwrap();
    let asked = tapline(&["check", "--permissions", &ask, &recording]);
    let lines: Vec<&str> = asked.out.lines().take(2).collect();
    assert_eq!(
        lines,
        [
            "! line 1: Bash `git status`: the rules require asking a person (ask[0]), but it ran (allowed by allow[0])",
            "✓ line 3: Bash `git status`: the rules require asking a person (ask[0]), and it was denied in the run (there was nobody to ask)",
        ]
    );
    assert_eq!(asked.code, 0, "it is no violation: {}", asked.out);
    let json: serde_json::Value =
        serde_json::from_str(&tapline(&["check", "--json", "--permissions", &rules, &recording]).out).unwrap();
    assert_eq!(json["decisions"][0]["was"], serde_json::json!({"ruling": "allow", "by": "rule", "rule": "allow[0]"}));
    assert_eq!((ran.code, json["violations"].as_array().unwrap().len()), (3, 1), "{json}");
}

/// A call without a result may have run; one that the agent refused as wrong did not.
#[test]
fn what_is_said_of_a_denied_call_is_what_is_known_of_it() {
    let folder = TempFolder::new();
    let rules = folder.file("rules.toml", "deny = [{ tool = \"Bash\" }]\n");
    let answers = [
        ("ran", Some("so"), Some(true), 1),
        ("failed", Some("Exit code 2"), Some(true), 1),
        ("none", None, None, 1),
        (
            "wrong",
            Some("<tool_use_error>InputValidationError: Bash failed due to the following issue</tool_use_error>"),
            Some(false),
            0,
        ),
        ("no-tool", Some("<tool_use_error>Error: No such tool available: Bash</tool_use_error>"), Some(false), 0),
        ("cut", Some("<tool_use_error>Cancelled: parallel tool call errored</tool_use_error>"), None, 1),
    ];
    for (id, answer, ran, violations) in answers {
        let call = serde_json::json!({"type": "assistant", "message": {"content": [{"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "ls"}}]}});
        let answer = answer.map(|text| {
            let result =
                serde_json::json!({"type": "tool_result", "tool_use_id": id, "is_error": id != "ran", "content": text});
            serde_json::json!({"type": "user", "message": {"role": "user", "content": [result]}}).to_string() + "\n"
        });
        let stream = folder.file("stream.jsonl", format!("{call}\n{}", answer.unwrap_or_default()));
        let checked = tapline(&["check", "--json", "--permissions", &rules, &stream]);
        let told: serde_json::Value = serde_json::from_str(&checked.out).unwrap();
        let denied: Vec<_> =
            told["violations"].as_array().unwrap().iter().filter(|broken| broken["rule"] == "permissions.deny").collect();
        assert_eq!((told["decisions"][0]["ran"].as_bool(), denied.len()), (ran, violations), "{id}: {told}");
        let said = if ran.is_some() {
            "Bash `ls` ran, and deny[0] denies it"
        } else {
            "Bash `ls` was called (whether it ran is not known), and deny[0] denies it"
        };
        assert!(denied.iter().all(|broken| broken["message"] == said), "{id}: {told}");
        let shown = tapline(&["check", "--permissions", &rules, &stream]).out;
        let did_not = "the rules deny it (deny[0]), and it did not run: the agent rejected it as invalid\n";
        assert_eq!(shown.contains(did_not), ran == Some(false), "{id}: {shown}");
    }
}

#[test]
fn a_good_stream_is_one_line() {
    let ran = tapline(&["check", "--strict", &tools()]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "✓ 15 lines · 0 findings · no drift\n"));
}

#[test]
fn a_violation_is_named_with_its_line() {
    let folder = TempFolder::new();
    let policy = folder.file("policy.toml", "[calls]\nforbid = [\"Write\"]\n\n[limits]\ncost_usd = 0.001\n");
    let ran = tapline(&["check", "--policy", &policy, &tools()]);
    assert_eq!(ran.code, 3);
    assert_eq!(
        ran.out,
        "✗ line 12: calls.forbid: Write was called\n✗ line 15: limits.cost_usd: $0.0070 so far, $0.0010 allowed\n✗ 15 lines · 0 findings · no drift · 2 violations\n"
    );
    let kept = folder.file("kept.toml", "[limits]\ncost_usd = 1\n");
    let ran = tapline(&["check", "--policy", &kept, &tools()]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "✓ 15 lines · 0 findings · no drift · policy kept\n"));
}

#[test]
fn odd_things_count_when_strict() {
    let stream =
        b"{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false}\nnonsense\n{\"type\":\"from_the_future\"}\n";
    let ran = tapline_on(stream, &["check"]);
    assert_eq!(ran.code, 0);
    assert!(ran.out.contains("! line 2: malformed-line: not JSON: nonsense\n"), "{}", ran.out);
    assert!(
        ran.out.contains("~ line 3: drift: from_the_future: tapline does not know this type yet (unknown version, once)"),
        "{}",
        ran.out
    );
    assert!(ran.out.ends_with("! 3 lines · 1 finding · drift in 1 event type\n"), "{}", ran.out);
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
    let folder = TempFolder::new();
    let policy = folder.file("policy.toml", "[limits]\ncosts = 1\n");
    let ran = tapline(&["check", "--policy", &policy, &tools()]);
    assert_eq!(ran.code, 2);
    for part in ["policy.toml", "line 2", "costs"] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    assert_eq!(tapline(&["check", "--policy", "/no/such/policy", &tools()]).code, 2);
}

#[test]
fn a_policy_with_a_tool_that_nobody_knows_is_doubted_by_check_and_by_run() {
    let folder = TempFolder::new();
    let policy = folder.file("policy.toml", "[calls]\nforbid = [\"Bsh\"]\n");
    let said = "policy.toml: calls.forbid: no tool named `Bsh` is known: did you mean `Bash`?\n";
    let checked = tapline(&["check", "--policy", &policy, &tools()]);
    assert_eq!((checked.code, checked.err.matches(said).count()), (0, 1), "{}", checked.err);
    let run = ran(run_command("ok", &["--policy", &policy, "--format", "text"]).output().unwrap());
    assert_eq!((run.code, run.err.matches(said).count()), (0, 1), "{}", run.err);
    let init = "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\",\"tools\":[\"Bsh\"]}\n{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"x\"}\n";
    let own = tapline_on(init.as_bytes(), &["check", "--policy", &policy]);
    assert_eq!((own.code, own.err.as_str()), (0, ""), "the session has such a tool");
    for (text, said) in [
        ("[calls]\nforbid = [\"bash\"]\n", "line 2: `calls.forbid`: no tool is called `bash`: did you mean `Bash`?"),
        ("[[deny]]\ntool = \"Bash\"\n", "a permission file is given with --permissions"),
    ] {
        let policy = folder.file("wrong.toml", text);
        let checked = tapline(&["check", "--policy", &policy, &tools()]);
        let run = ran(run_command("ok", &["--policy", &policy]).output().unwrap());
        assert_eq!((checked.code, run.code), (2, 2), "{text}");
        assert!(checked.err.contains(said) && checked.err == run.err, "{} {}", checked.err, run.err);
    }
    let policy = folder.file("limits.toml", "[limits]\nturns = 5\n");
    let told = tapline(&["check", "--permissions", &policy, &tools()]);
    assert!(told.code == 2 && told.err.contains("a policy is given with --policy"), "{}", told.err);
}

#[test]
fn who_names_rules_that_do_not_exist_is_told_where_examples_are() {
    for (flag, what, topic) in [("--policy", "policy", "policy"), ("--permissions", "permission file", "permissions")] {
        let ran = tapline(&["check", flag, "/no/such.toml", "-"]);
        let told =
            format!("cannot read the {what} /no/such.toml: there is no such file (`tapline help {topic}` has an example");
        assert!(ran.code == 2 && ran.err.contains(&told), "{}", ran.err);
    }
}
