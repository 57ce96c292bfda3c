//! What a run says of itself: denied calls, clocks, keys, values; and what is no stream.

use tapline_testkit::agent::misbehaving;
use tapline_testkit::{TempFolder, fixture, streams};

use crate::run::run_command;
use crate::tapline::{PATIENT, Ran, command, ran, tapline, tapline_on};

fn run(mode: &str, args: &[&str]) -> Ran {
    ran(run_command(mode, args).output().unwrap())
}

const FORMATS: [&[&str]; 7] = [
    &["--format", "live"],
    &["--format", "lines"],
    &["--format", "text"],
    &["--format", "json"],
    &["--format", "stream-json"],
    &["--format", "report"],
    &["--get", "answer"],
];

#[test]
fn denied_calls_and_the_flag_that_would_allow_them_are_told_in_every_format_but_quiet() {
    for format in FORMATS {
        let told = run("denied", format);
        assert_eq!(told.code, 0, "{format:?}: {}", told.err);
        let count = |text: &str| told.err.matches(text).count();
        assert_eq!(count("denied: Edit `src/a.rs`: Claude requested permissions"), 1, "{format:?}: {}", told.err);
        assert_eq!(count("denied: Bash `make` (2 times)"), 1, "{format:?}: {}", told.err);
        assert_eq!(count(r#"--allowed-tools "Bash(make),Edit""#), 1, "{format:?}: {}", told.err);
        assert!(told.err.contains("--permission-mode acceptEdits"), "{}", told.err);
    }
    let quiet = run("denied", &["--format", "quiet"]);
    assert_eq!((quiet.code, quiet.out.as_str(), quiet.err.as_str()), (0, "", ""));
    assert_eq!(run("ok", &["--format", "text"]).err, "", "nothing is said where nothing was denied");
}

#[test]
fn a_success_with_denied_calls_does_not_end_like_one_without() {
    for format in ["live", "lines"] {
        let out = run("denied", &["--format", format]).out;
        let last = out.lines().next_back().unwrap();
        assert!(last.contains("! success · 3 calls denied · ") && !out.contains("✓ success"), "{out}");
    }
    let fixture = fixture("claude-2.1.325/tools-denied.jsonl");
    for command in ["view", "inspect"] {
        let out = tapline(&[command, fixture.to_str().unwrap()]).out;
        assert!(out.contains("! success · 2 calls denied · ") && !out.contains("✓ success"), "{out}");
    }
}

#[test]
fn very_many_denied_calls_are_counted() {
    let told = run("denied-often", &["--format", "text"]);
    assert_eq!(told.err.matches("denied: Write").count(), 10, "{}", told.err);
    assert!(told.err.contains("denied: 10 calls more"), "{}", told.err);
    assert!(told.err.contains(r#"--allowed-tools "Write", or --permission-mode acceptEdits"#), "{}", told.err);
}

#[test]
fn what_would_allow_it_depends_on_how_it_was_started() {
    let plan = run("denied", &["--permission-mode", "plan", "--format", "text"]);
    assert!(plan.err.contains("a --permission-mode other than plan"), "{}", plan.err);
    let codex = run("declined", &["--agent", "codex", "--format", "text"]);
    assert_eq!((codex.code, codex.out.as_str()), (0, "I could not\n"));
    assert!(codex.err.contains("denied: ") && codex.err.contains("-- -s workspace-write"), "{}", codex.err);
}

#[test]
fn fail_on_makes_a_warning_an_exit_code() {
    for (mode, codes, code) in [
        ("denied", &["--fail-on", "denied"][..], 1),
        ("denied", &["--fail-on", "permission-denied"], 1),
        ("denied", &["--fail-on", "max-tokens,denied"], 1),
        ("denied", &["--fail-on", "max-tokens", "--fail-on", "denied"], 1),
        ("denied", &["--fail-on", "max-tokens"], 0),
        ("ok", &["--fail-on", "denied"], 0),
        ("malformed", &["--fail-on", "malformed-line"], 1),
        ("no-result", &["--fail-on", "no-result"], 4),
    ] {
        let ended = run(mode, codes);
        assert_eq!(ended.code, code, "{mode} {codes:?}: {}", ended.err);
        assert_eq!(ended.err.contains("(--fail-on)"), code == 1, "{mode} {codes:?}: {}", ended.err);
    }
    for format in FORMATS {
        let ended = run("denied", &[&["--fail-on", "denied"], format].concat());
        assert_eq!((ended.code, ended.err.contains("(--fail-on)")), (1, true), "{format:?}: {}", ended.err);
    }
    assert_eq!(
        run("denied", &["--fail-on", "denied", "--format", "text"]).out,
        "I could not\n",
        "what it said is what it said"
    );
    let quiet = run("denied", &["--fail-on", "denied", "--format", "quiet"]);
    assert_eq!((quiet.code, quiet.err.as_str()), (1, ""));
    let wrong = run("ok", &["--fail-on", "denyed"]);
    assert_eq!(wrong.code, 2);
    assert!(
        wrong.err.contains("denyed") && wrong.err.contains("permission-denied") && wrong.err.contains("max-tokens"),
        "{}",
        wrong.err
    );
    let denied = fixture("claude-2.1.325/tools-denied.jsonl");
    let inspect = |args: &[&str]| tapline(&[&["inspect", denied.to_str().unwrap()], args].concat()).code;
    assert_eq!(inspect(&["--exit-status"]), 0);
    assert_eq!(inspect(&["--exit-status", "--fail-on", "denied"]), 1);
    assert_eq!(inspect(&["--fail-on", "denied"]), 1);
}

#[test]
fn every_warning_can_be_failed_on() {
    let source = tapline_testkit::root().join("crates/tapline-session/src");
    let mut folders = vec![source];
    let given = regex_lite::Regex::new(r#"warnings\s*\.add\(\s*"([a-z-]+)""#).unwrap();
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
                continue;
            }
            for code in given.captures_iter(&std::fs::read_to_string(&entry).unwrap()) {
                assert!(tapline_session::WARNING_CODES.contains(&&code[1]), "{} in {}", &code[1], entry.display());
                count += 1;
            }
        }
    }
    assert!(count > 10, "{count}: they are found");
}

#[test]
fn every_code_that_can_be_failed_on_is_documented() {
    let docs = std::fs::read_to_string(tapline_testkit::root().join("docs/REPORT.md")).unwrap();
    let listed = docs.split("## Warning codes").nth(1).unwrap();
    for code in tapline_session::WARNING_CODES {
        assert!(listed.contains(&format!("`{code}`")), "{code}");
    }
}

#[test]
fn paths_are_checked_before_the_run_starts() {
    let folder = TempFolder::new();
    let recording = folder.path("r");
    for (path, told) in [
        ("sesion.id", "did you mean `session.id`?"),
        ("verdict.outcom", "did you mean `verdict.outcome`?"),
        ("tools.calls.name", "tools.calls[].name"),
        ("session[0]", "is not a list"),
        ("a..b", "a path is like"),
    ] {
        let refused =
            tapline(&["run", "go", "--bin", &misbehaving(), "--record", &recording, "--get", "session.id", "--get", path]);
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{path}");
        assert!(refused.err.contains(told), "{path}: {}", refused.err);
        assert!(!std::path::Path::new(&recording).exists(), "nothing was started");
        let refused = tapline(&["inspect", "--get", path, "/no/such/file"]);
        assert!(refused.code == 2 && refused.err.contains(told), "{path}: {}", refused.err);
    }
}

#[test]
fn several_values_are_printed_in_order_and_one_that_is_missing_keeps_its_line() {
    let several = run("ok", &["--get", "session.id", "--get", "answer", "--get", "ledger.cost_usd"]);
    assert_eq!((several.code, several.out.as_str()), (0, "fake-session\ndone\n0.01\n"));
    let paths = ["--get", "session.id", "--get", "verdict.error", "--get", "tools.calls[].name", "--get", "answer"];
    let missing = run("ok", &paths);
    assert_eq!((missing.code, missing.out.as_str()), (0, "fake-session\n\n\ndone\n"), "{}", missing.err);
    let file = fixture("claude-2.1.325/tools.jsonl");
    let one = |path: &str| tapline(&["inspect", "--get", path, file.to_str().unwrap()]).out;
    let both = tapline(&["inspect", "--get", "tools.calls[].name", "--get", "answer", file.to_str().unwrap()]);
    assert_eq!((both.code, both.out), (0, one("tools.calls[].name") + &one("answer")));
    let nothing = tapline(&["inspect", "--get", "verdict.error", file.to_str().unwrap()]);
    assert_eq!((nothing.code, nothing.out.as_str()), (1, ""), "one value alone: nothing is printed");
}

#[test]
fn structured_output_is_reached_into() {
    for (path, value) in [
        ("structured.verdict", "good\n"),
        ("structured.list[-1]", "2\n"),
        ("structured", "{\"verdict\":\"good\",\"list\":[1,2]}\n"),
    ] {
        let found = run("structured", &["--get", path]);
        assert_eq!((found.code, found.out.as_str()), (0, value), "{path}: {}", found.err);
    }
    let both = run("structured", &["--get", "structured.verdict", "--get", "structured.nope"]);
    assert_eq!((both.code, both.out.as_str()), (1, "good\n\n"), "{}", both.err);
}

#[test]
fn every_path_of_every_report_passes_the_check() {
    fn paths(value: &serde_json::Value, path: &str, all: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(map) => {
                for (key, value) in map {
                    // Names of models, types and the agent's own keys may hold anything; what cannot be written is no path.
                    if !key.is_empty() && !key.contains(['.', '[']) {
                        paths(value, &if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, all);
                    }
                }
            }
            serde_json::Value::Array(list) => {
                for (at, value) in list.iter().enumerate() {
                    paths(value, &format!("{path}[{at}]"), all);
                }
            }
            _ => {}
        }
        if !path.is_empty() {
            all.push(path.to_owned());
        }
    }
    let mut all = Vec::new();
    for stream in streams() {
        let report = tapline(&["inspect", "--json", stream.to_str().unwrap()]).out;
        paths(&serde_json::from_str(&report).unwrap(), "", &mut all);
    }
    assert!(all.len() > 1_000);
    for path in &all {
        assert_eq!(tapline_session::check_path(path), Ok(()), "{path}");
    }
}

#[test]
fn timeouts_say_which_clock_and_how_long() {
    for (args, told) in [
        (&["--timeout", "200ms"][..], "timeout: 200ms passed (--timeout)"),
        (&["--idle-timeout", "200ms"], "timeout: no output for 200ms (--idle-timeout)"),
    ] {
        let text = run("hang", &[args, &["--format", "text"]].concat());
        assert_eq!(text.code, 124);
        assert!(text.err.contains(&format!("Error: {told}\n")), "{}", text.err);
        let lines = run("hang", args);
        assert!(lines.out.contains(told), "the view says it, too: {}", lines.out);
        let report = run("hang", &[args, &["--format", "report"]].concat());
        assert!(report.out.contains(r#""category":"timeout","error":"timeout""#), "{}", report.out);
        assert!(report.err.contains(told), "{}", report.err);
    }
    let lingers = run("lingers", &["--linger", "200ms", "--format", "text"]);
    assert_eq!((lingers.code, lingers.out.as_str()), (0, "done\n"));
    assert!(lingers.err.contains("the agent was still running 200ms after its final result (--linger)"), "{}", lingers.err);
}

#[test]
fn whose_key_is_used_is_told_only_where_it_matters() {
    for format in FORMATS {
        assert!(!run("ok", format).err.contains("key"), "no key, nothing to tell");
        let human = matches!(format[1], "live" | "lines");
        let told = run("key", format).err;
        assert_eq!(told.matches("ANTHROPIC_API_KEY").count(), usize::from(human), "{format:?}: {told}");
    }
    let given = run("key", &["--env", "ANTHROPIC_API_KEY=x"]);
    assert!(!given.err.contains("ANTHROPIC_API_KEY"), "who gave it knows it: {}", given.err);
    let wrong = run("bad-key", &["--format", "text"]);
    assert!(wrong.err.contains("it used the key from: ANTHROPIC_API_KEY"), "{}", wrong.err);
}

#[test]
fn a_chat_shows_what_this_turn_cost() {
    let chat = |mode: &str, args: &[&str]| {
        let mut command = command(&[&["chat", "--bin", &misbehaving(), "--no-record"], args].concat());
        command.env("FAKE", mode).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"one\ntwo\n").unwrap();
        ran(child.wait_with_output().unwrap())
    };
    let shown = chat("session-and-go", &[]);
    assert_eq!(shown.out.matches("· this turn: ").count(), 2, "{} {}", shown.out, shown.err);
    assert!(shown.out.contains("· this turn: $0.0100 · 3 in · 4 out\n"), "{}", shown.out);
    let resumed = chat("session-and-go", &["--resume", "fake-session"]);
    assert_eq!(resumed.out.matches("· this turn: ").count(), 1, "the first total is that of the session: {}", resumed.out);
    let text = chat("session-and-go", &["--format", "text"]);
    assert!(!text.out.contains("this turn"), "{}", text.out);
}

#[test]
fn check_agrees_with_what_the_run_said_under_the_same_policy() {
    let folder = TempFolder::new();
    let rules = [
        "[tools]\nforbid = [\"Bash\"]",
        "[tools]\nallow = [\"Bash\"]",
        "[tools]\nrequire = [\"Read\"]",
        "[calls]\nforbid = [\"Edit\"]",
        "[mcp]\nconnected = [\"db\"]",
        "[mcp]\nall_connected = true",
        "[mcp]\nallow = [\"other\"]",
        "[session]\nmodel = [\"claude-*\"]",
        "[session]\nmodel = [\"fake-*\"]",
        "[session]\ncli_version = \">=3\"",
        "[session]\nkey_source = [\"none\"]",
        "[session]\npermission_mode = [\"plan\"]",
        "[limits]\ncost_usd = 0.001",
        "[limits]\ncost_usd = 1.0",
        "[limits]\nturns = 0",
        "[limits]\nturns = 10",
        "[limits]\nseconds = 0.001",
        "[limits]\nseconds = 600",
        "[limits]\ncalls = 0",
        "[limits]\ndenials = 0",
        "[limits]\nseconds = 600\ncost_usd = 1.0\nturns = 10\n[session]\nmodel = [\"fake-*\"]",
    ];
    let mut broken = 0;
    for mode in ["ok", "denied", "no-result", "auth", "calls"] {
        for (at, rule) in rules.iter().enumerate() {
            // An agent that stays is stopped by the policy, or at last by a clock.
            let policy = folder.file("rules.toml", rule);
            let recording = folder.path(&format!("{mode}-{at}"));
            let timeout = if mode == "calls" { "1s" } else { "60s" };
            let args = ["run", "go", "--bin", &misbehaving(), "--grace", PATIENT, "--timeout", timeout];
            let mut command = command(&[&args[..], &["--policy", &policy, "--record", &recording]].concat());
            let run = ran(command.env("FAKE", mode).output().unwrap());
            let check = tapline(&["check", "--json", "--policy", &policy, &recording]);
            assert_eq!(run.code == 3, check.code == 3, "{mode}, {rule}: run: {} check: {}", run.err, check.out);
            let mut said: Vec<&str> =
                run.err.lines().filter_map(|line| line.split_once("policy violated: ")).map(|(_, said)| said).collect();
            let check: serde_json::Value = serde_json::from_str(&check.out).unwrap();
            let mut found: Vec<String> = check["violations"].as_array().unwrap().iter().map(told).collect();
            said.sort_unstable();
            found.sort_unstable();
            assert_eq!(said, found, "{mode}, {rule}");
            broken += found.len();
        }
    }
    assert!(broken > 30, "{broken}: the rules are broken often");
}

/// A violation as `run` tells it.
fn told(violation: &serde_json::Value) -> String {
    let line = violation["line"].as_u64().map(|line| format!("line {line}: ")).unwrap_or_default();
    format!("{line}{}: {}", violation["rule"].as_str().unwrap(), violation["message"].as_str().unwrap())
}

#[test]
fn a_transcript_or_rollout_without_an_end_is_no_success() {
    let claude = r#"{"type":"queue-operation","operation":"dequeue","timestamp":"2026-11-15T21:56:14.000Z","sessionId":"s"}
{"parentUuid":null,"isSidechain":false,"userType":"external","cwd":"/p","sessionId":"s","version":"2.1.325","gitBranch":"","type":"user","message":{"role":"user","content":"hi"},"uuid":"u1","timestamp":"2026-11-15T21:56:14.000Z"}
{"parentUuid":"u1","isSidechain":false,"userType":"external","cwd":"/p","sessionId":"s","version":"2.1.325","type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"fine"}]},"uuid":"u2","timestamp":"2026-11-15T21:56:15.000Z"}
"#;
    let older = "{\"type\":\"summary\",\"summary\":\"Greeting\",\"leafUuid\":\"u2\"}\n";
    let codex = r#"{"timestamp":"2026-11-15T21:56:15.000Z","ordinal":0,"type":"session_meta","payload":{"id":"t","cwd":"/p"}}
{"timestamp":"2026-11-15T21:56:15.000Z","type":"event_msg","payload":{"type":"task_started"}}
{"timestamp":"2026-11-15T21:56:16.000Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"fine"}]}}
"#;
    for (text, said) in [(claude, "fine"), (older, ""), (codex, "fine")] {
        for args in [&["inspect"][..], &["inspect", "--json"], &["view"], &["check"], &["convert", "--to", "markdown"]] {
            let told = tapline_on(text.as_bytes(), args);
            assert_eq!((told.code, told.err.as_str()), (0, ""), "{args:?}");
            assert!(args[0] == "check" || told.out.contains(said), "{args:?}: {}", told.out);
        }
        let report = tapline_on(text.as_bytes(), &["inspect", "--json"]);
        let report: serde_json::Value = serde_json::from_str(&report.out).unwrap();
        assert_eq!(report["verdict"]["outcome"], "incomplete");
    }
}
