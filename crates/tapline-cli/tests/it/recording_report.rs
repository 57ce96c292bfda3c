//! A recording tells the same as the run it was made of: the whole report, whatever became of the run, and what the host said.

use serde_json::{Value, json};
use tapline_testkit::agent::misbehaving;
use tapline_testkit::{TempFolder, fixture};

use crate::tapline::{PATIENT, command, ran, tapline};

/// An agent that reads its prompt and then does this.
fn agent(folder: &TempFolder, name: &str, script: &str) -> String {
    folder.script(name, &format!("cat >/dev/null\n{script}"))
}

fn shows(name: &str) -> String {
    format!("cat '{}'", fixture(name).display())
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Runs an agent, recorded; returns what `run` said and what `inspect` says of the recording.
fn told_twice(folder: &TempFolder, name: &str, bin: &str, mode: &str, args: &[&str]) -> (Value, Value) {
    let record = folder.path(&format!("{name}.rec"));
    let run = ["run", "go", "--bin", bin, "--record", &record, "--grace", PATIENT, "--format", "report"];
    let mut run = command(&[&run, args].concat());
    let said = parse(&ran(run.env("FAKE", mode).output().unwrap()).out);
    let recording = said["run"]["recording"].as_str().unwrap().to_owned();
    let inspected = parse(&tapline(&["inspect", "--json", &recording]).out);
    assert_eq!(inspected, parse(&tapline_archive::report(&recording).unwrap().to_json()), "{name}: the library's one call");
    (said, inspected)
}

#[test]
fn what_goes_to_one_file_by_stdout_and_stderr_stands_there_in_order() {
    let folder = TempFolder::new();
    let text = r#"{"type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"said"}]}}"#;
    let bin =
        agent(&folder, "alternates", &format!("for i in $(seq 100); do echo '{text}' | sed s/said/said$i/; echo odd$i; done"));
    let log = folder.path("log");
    let out = std::fs::File::create(&log).unwrap();
    let mut run = command(&["run", "go", "--bin", &bin, "--no-record", "--format", "lines"]);
    run.stdout(out.try_clone().unwrap()).stderr(out).status().unwrap();
    let log = std::fs::read_to_string(log).unwrap();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("said") || line.contains("malformed")).collect();
    assert!(lines.len() >= 200, "{log}");
    let said = |number: usize| lines.iter().position(|line| line.ends_with(&format!("said{number}")));
    let odd = |number: usize| lines.iter().position(|line| line.contains(&format!("odd{number}")) && line.contains("line "));
    for number in 1..100 {
        assert!(said(number) < odd(number) && odd(number) < said(number + 1), "{number}: {log}");
    }
}

#[test]
fn the_report_of_a_recording_is_the_one_that_run_printed() {
    let folder = TempFolder::new();
    let policy = folder.file("policy.toml", "[calls]\nforbid = [\"Bash\"]\n");
    let unseen = folder.file("unseen.toml", "[limits]\ncost_usd = 1.0\n");
    let result = r#"echo '{"type":"result","subtype":"success","result":"alone","num_turns":1}'"#;
    let codex = &["--agent", "codex"][..];
    let scripts = [
        ("tools", shows("claude-2.1.325/tools.jsonl"), &["--label", "nightly"][..], "success"),
        ("denied", shows("claude-2.1.325/tools-denied.jsonl"), &[], "success"),
        ("rate", shows("claude-2.1.325/rate.jsonl") + "; exit 1", &[], "failure"),
        ("one-line", result.to_owned(), &[], "success"),
        ("question", shows("claude-2.1.325/ask.jsonl"), &[], "success"),
        ("no-heuristics", shows("claude-2.1.325/ask.jsonl"), &["--no-heuristics"], "success"),
        ("unseen", result.to_owned(), &["--policy", &unseen], "failure"),
        ("stopped", shows("claude-2.1.325/tools.jsonl"), &["--policy", &policy], "failure"),
        ("interrupt", "kill -INT $PPID; sleep 60".to_owned(), &[], "interrupted"),
        ("nothing", "exit 0".to_owned(), &[], "incomplete"),
        ("noise", "echo what; echo why >&2; exit 3".to_owned(), &[], "failure"),
        ("codex", shows("codex-0.166.0/tools.jsonl"), codex, "success"),
        ("codex-auth", shows("codex-0.166.0/auth.jsonl") + "; exit 1", codex, "failure"),
        ("codex-nothing", "echo broken >&2; exit 1".to_owned(), codex, "failure"),
        ("codex-cut", shows("codex-0.166.0/tools.jsonl") + " | head -4", codex, "incomplete"),
    ];
    for (name, script, args, outcome) in scripts {
        let (said, retold) = told_twice(&folder, name, &agent(&folder, name, &script), "", args);
        assert_eq!(said["verdict"]["outcome"], outcome, "{name}: {said}");
        assert_eq!(said["prompts"], json!(["go"]), "{name}");
        assert_eq!(said, retold, "{name}");
    }
    let modes = [
        ("dies", &[][..], "failure"),
        ("exits", &[], "failure"),
        ("exits-late", &[], "failure"),
        ("no-result", &[], "incomplete"),
        ("half-line", &[], "incomplete"),
        ("lingers", &["--linger", "100ms"], "success"),
        ("hang", &["--timeout", "500ms"], "failure"),
        ("hang-silent", &["--timeout", "500ms"], "failure"),
        ("malformed", &[], "success"),
        ("rate-limited", &["--retry", "1"], "success"),
    ];
    for (mode, args, outcome) in modes {
        let (said, retold) = told_twice(&folder, mode, &misbehaving(), mode, args);
        assert_eq!(said["verdict"]["outcome"], outcome, "{mode}: {said}");
        assert_eq!(said, retold, "{mode}");
    }
}

#[test]
fn the_last_attempt_of_several_knows_them_all() {
    let folder = TempFolder::new();
    let (said, retold) = told_twice(&folder, "retried", &misbehaving(), "rate-limited", &["--retry", "1"]);
    assert_eq!((&said["run"]["attempts"], &said["ledger"]["cost_usd"]), (&json!(2), &json!(0.03)), "{said}");
    assert_eq!(said, retold);
    // The first is a recording of its own.
    let first = parse(&tapline(&["inspect", "--json", &folder.path("retried.rec")]).out);
    assert_eq!((&first["run"]["attempts"], &first["verdict"]["category"]), (&json!(1), &json!("rate_limit")), "{first}");
}

#[test]
fn what_the_host_sent_is_part_of_the_conversation() {
    let folder = TempFolder::new();
    let record = folder.path("rec");
    let agent = agent(&folder, "agent", &shows("codex-0.166.0/tools.jsonl"));
    let run = ["run", "what is 6 times 7?", "--agent", "codex", "--bin", &agent, "--record", &record, "--format", "quiet"];
    assert_eq!(tapline(&run).code, 0);
    assert_eq!(tapline(&["inspect", "--get", "prompts[]", &record]).out, "what is 6 times 7?\n");
    let view = tapline(&["view", &record]).out;
    assert!(view.trim_start().lines().next().unwrap().contains("what is 6 times 7?"), "{view}");
    for format in ["markdown", "html", "steps"] {
        let shown = tapline(&["convert", "--to", format, &record]).out;
        let (prompt, answer) = (shown.find("what is 6 times 7?"), shown.find("command_execution").or(shown.find("ran")));
        assert!(prompt.is_some() && prompt < answer, "{format}: {shown}");
    }
    // The agent's own bytes stay as they are.
    let bytes = tapline(&["convert", "--to", "stream-json", &record]).out;
    assert_eq!(bytes, std::fs::read_to_string(fixture("codex-0.166.0/tools.jsonl")).unwrap());
}

#[test]
fn prompts_that_the_agent_says_again_are_told_once() {
    let folder = TempFolder::new();
    // It says each message again, some with an id, and asks for permission in between.
    let script = r#"
echo '{"type":"system","subtype":"init","session_id":"s","permissionMode":"default"}'
echo '{"type":"user","isReplay":true,"uuid":"u1","session_id":"s","message":{"role":"user","content":"one"}}'
echo '{"type":"user","isReplay":true,"uuid":"u2","session_id":"s","message":{"role":"user","content":[{"type":"text","text":"two"}]}}'
echo '{"type":"user","session_id":"s","message":{"role":"user","content":"[Request interrupted by user]"}}'
echo '{"type":"result","subtype":"success","result":"ok","session_id":"s","num_turns":1}'"#;
    let bin = agent(&folder, "agent", script);
    let messages = [
        r#"{"type":"control_request","request_id":"r","request":{"subtype":"initialize"}}"#,
        r#"{"type":"user","uuid":"u1","message":{"role":"user","content":"one"}}"#,
        r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"two"}]}}"#,
        r#"{"type":"user","message":{"role":"user","content":"one"}}"#,
        r#"{"type":"keep_alive"}"#,
    ];
    let record = folder.path("rec");
    let run = ["run", "--input", "stream-json", "--bin", &bin, "--record", &record, "--format", "report"];
    let ran = crate::tapline::tapline_on((messages.join("\n") + "\n").as_bytes(), &run);
    let said = parse(&ran.out);
    let mut prompts: Vec<_> = said["prompts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    assert_eq!(prompts, ["one", "two", "one", "[Request interrupted by user]"], "{}", ran.err);
    assert_eq!(said, parse(&tapline(&["inspect", "--json", &record]).out));
    // A tee between any host and the agent has it, too.
    let teed = folder.path("teed");
    let tee = ["tee", "--record", &teed, "--bin", &bin, "--agent", "claude", "--", "-p", "--input-format", "stream-json"];
    assert_eq!(crate::tapline::tapline_on((messages.join("\n") + "\n").as_bytes(), &tee).code, 0);
    let retold = tapline(&["inspect", "--get", "prompts[]", &teed]).out;
    let mut retold: Vec<_> = retold.lines().collect();
    prompts.sort_unstable();
    retold.sort_unstable();
    assert_eq!(retold, prompts);
}

#[test]
fn check_counts_the_attempts_before() {
    let folder = TempFolder::new();
    let call =
        r#"echo '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t'$$'","name":"Bash","input":{}}]}}'"#;
    let script = format!(
        r#"{call}
case "$*" in *resume*) echo '{{"type":"result","subtype":"success","result":"ok","session_id":"s"}}' ;; *)
  echo '{{"type":"result","subtype":"success","is_error":true,"result":"API Error: 500","session_id":"s"}}'; exit 1 ;; esac"#
    );
    let (bin, policy) = (agent(&folder, "agent", &script), folder.file("policy.toml", "[limits]\ncalls = 1\n"));
    let (said, retold) = told_twice(&folder, "rec", &bin, "", &["--retry", "1", "--policy", &policy]);
    assert_eq!(said["verdict"]["category"], "policy", "{said}");
    assert_eq!(said, retold);
    let check = tapline(&["check", "--json", "--policy", &policy, &folder.path("rec.rec-2")]);
    assert_eq!(check.code, 3, "{}", check.out);
    assert_eq!(parse(&check.out)["violations"][0]["rule"], "limits.calls");
}

#[test]
fn check_finds_what_run_found_over_several_attempts() {
    let folder = TempFolder::new();
    // Its first attempt ends in an error of the server, after a call that was denied; the second succeeds.
    let script = r#"
id=$$
echo '{"type":"system","subtype":"init","session_id":"s","model":"fake-1","permissionMode":"default","tools":["Bash"],"mcp_servers":[]}'
echo '{"type":"assistant","session_id":"s","message":{"id":"m'$id'","content":[{"type":"tool_use","id":"t'$id'","name":"Bash","input":{"command":"make"}}]}}'
echo '{"type":"user","session_id":"s","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t'$id'","is_error":true,"content":"no"}]}}'
denied='"permission_denials":[{"tool_name":"Bash","tool_use_id":"t'$id'","tool_input":{}}]'
case "$*" in
*resume*) echo '{"type":"result","subtype":"success","result":"ok","session_id":"s","num_turns":2,"duration_ms":10,"total_cost_usd":0.05,'"$denied"'}' ;;
*) echo '{"type":"result","subtype":"success","is_error":true,"result":"API Error: 500","session_id":"s","num_turns":2,"duration_ms":10,"total_cost_usd":0.02,'"$denied"'}'; exit 1 ;;
esac"#;
    let bin = agent(&folder, "agent", script);
    let rules = [
        ("[limits]\ncalls = 0", 3, 1),
        ("[limits]\ncalls = 1", 3, 2),
        ("[limits]\ncalls = 2", 0, 2),
        ("[limits]\ndenials = 1", 3, 2),
        ("[limits]\ndenials = 2", 0, 2),
        ("[limits]\nturns = 1", 3, 1),
        ("[limits]\nturns = 2", 0, 2),
        ("[limits]\ncost_usd = 0.03", 3, 2),
        ("[limits]\ncost_usd = 1.0", 0, 2),
        // The first attempt fits in, however busy the machine is; the wait before the second does not.
        ("[limits]\nseconds = 4", 3, 2),
        ("[limits]\nseconds = 600", 0, 2),
        ("[session]\nmodel = [\"claude-*\"]", 3, 1),
        ("[session]\nmodel = [\"fake-*\"]\n[mcp]\nall_connected = true\n[limits]\ncalls = 1\ndenials = 1", 3, 2),
    ];
    for (at, (rule, code, attempts)) in rules.into_iter().enumerate() {
        let (policy, record) = (folder.file("policy.toml", rule), folder.path(&format!("rec{at}")));
        let run = ["run", "go", "--bin", &bin, "--record", &record, "--grace", PATIENT, "--format", "report", "--retry", "1"];
        let delay = if rule.contains("seconds = 4") { "5s" } else { "1s" };
        let ran = tapline(&[&run[..], &["--policy", &policy, "--retry-delay", delay]].concat());
        let report = parse(&ran.out);
        assert_eq!((ran.code, report["run"]["attempts"].as_u64()), (code, Some(attempts)), "{rule}: {} {}", ran.err, ran.out);
        let recording = report["run"]["recording"].as_str().unwrap();
        let check = tapline(&["check", "--json", "--policy", &policy, recording]);
        assert_eq!(check.code, code, "{rule}: {} {}", ran.err, check.out);
        let mut found: Vec<String> = parse(&check.out)["violations"].as_array().unwrap().iter().map(violation).collect();
        // The failure itself says the first of them again.
        let said = ran.err.lines().filter_map(|line| line.split_once("tapline: policy violated: "));
        let mut said: Vec<_> = said.map(|(_, rule)| rule.trim_end_matches(" (policy)")).collect();
        said.sort_unstable();
        said.dedup();
        found.sort_unstable();
        assert_eq!(said, found, "{rule}");
    }
    // Without the recordings of the others it cannot be known, which is said.
    let policy = folder.file("policy.toml", "[limits]\ncalls = 1");
    std::fs::rename(folder.path("rec2-2"), folder.path("alone")).unwrap();
    let check = tapline(&["check", "--policy", &policy, &folder.path("alone")]);
    assert!(check.err.contains("1 earlier attempt"), "{} {}", check.err, check.out);
}

/// A violation as `run` tells it.
fn violation(violation: &Value) -> String {
    let line = violation["line"].as_u64().map(|line| format!("line {line}: ")).unwrap_or_default();
    format!("{line}{}: {}", violation["rule"].as_str().unwrap(), violation["message"].as_str().unwrap())
}

#[test]
fn check_finds_what_run_found() {
    let folder = TempFolder::new();
    let slow =
        r#"echo '{"type":"system","subtype":"init","session_id":"s","permissionMode":"default","tools":["Bash"]}'; sleep 60"#;
    let cases = [
        ("forbidden", "[calls]\nforbid = [\"Bash\"]\n", shows("claude-2.1.325/tools.jsonl"), &[][..]),
        ("cost", "[limits]\ncost_usd = 0.0001\n", shows("claude-2.1.325/tools.jsonl"), &[]),
        ("unseen-cost", "[limits]\ncost_usd = 1.0\n", shows("codex-0.166.0/tools.jsonl"), &["--agent", "codex"]),
        ("time", "[limits]\nseconds = 0.3\n", slow.to_owned(), &[]),
        ("time-kept", "[limits]\nseconds = 600\n", shows("codex-0.166.0/tools.jsonl"), &["--agent", "codex"]),
        ("failed", "[limits]\ncost_usd = 1.0\n", "exit 1".to_owned(), &[]),
        ("denied", "[limits]\ndenials = 0\n", shows("claude-2.1.325/tools-denied.jsonl"), &[]),
        ("kept", "[calls]\nforbid = [\"Nothing\"]\n", shows("claude-2.1.325/tools.jsonl"), &[]),
    ];
    for (name, policy, script, args) in cases {
        let (policy, record) = (folder.file(&format!("{name}.toml"), policy), folder.path(&format!("{name}.rec")));
        let bin = agent(&folder, name, &script);
        let run =
            ["run", "go", "--bin", &bin, "--record", &record, "--grace", PATIENT, "--format", "report", "--policy", &policy];
        let ran = tapline(&[&run, args].concat());
        let said: Vec<_> =
            ran.err.lines().filter_map(|line| line.split_once("policy violated: ")).map(|(_, rule)| rule).collect();
        let check = tapline(&["check", "--json", "--policy", &policy, &record]);
        let checked = parse(&check.out);
        let found: Vec<_> = checked["violations"].as_array().unwrap().iter().map(violation).collect();
        assert_eq!(ran.code == 3, !found.is_empty(), "{name}: {} {found:?}", ran.err);
        let told: Vec<_> =
            said.iter().filter(|rule| !rule.starts_with("…")).map(|rule| rule.split(" (policy)").next().unwrap()).collect();
        for rule in &told {
            assert!(found.iter().any(|one| one == rule), "{name}: {rule}: {found:?}");
        }
        assert!(told.len() <= found.len() + 1, "{name}: {told:?} {found:?}");
    }
}
