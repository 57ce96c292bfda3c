//! The words of `run`, `view` and `batch`: a denied call is shown as one, a log can be read, and advice fits.

use tapline_testkit::TempFolder;
use tapline_testkit::agent::misbehaving;

use crate::run::run_command;
use crate::tapline::{Ran, command, ran, tapline, tapline_on};

fn run(mode: &str, args: &[&str]) -> Ran {
    ran(run_command(mode, args).output().unwrap())
}

fn program(folder: &TempFolder, script: &str) -> String {
    folder.script("agent", &format!("say() {{ printf '%s\\n' \"$1\"; }}\n{script}"))
}

/// Asks for a call, and lists it as denied only in the result, as Claude Code does.
const ASKS: &str = r#"
while IFS= read -r line; do
case $line in
*'"subtype":"initialize"'*) say '{"type":"control_response","response":{"subtype":"success","request_id":"'"$(printf %s "$line" | sed 's/.*"request_id":"\([^"]*\)".*/\1/')"'","response":{}}}' ;;
*'"type":"user"'*) say '{"type":"system","subtype":"init","session_id":"s","permissionMode":"default"}'
  say '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t0","name":"Bash","input":{"command":"make all"}}]}}'
  say '{"type":"control_request","request_id":"q0","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"make all"},"tool_use_id":"t0"}}' ;;
*'"request_id":"q0"'*) say '{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t0","is_error":true,"content":"no permission rule allows it"}]}}'
  say '{"type":"result","subtype":"success","result":"done","session_id":"s","num_turns":1,"permission_denials":[{"tool_name":"Bash","tool_use_id":"t0","tool_input":{"command":"make all"}}]}'
  exit ;;
esac
done
"#;

#[test]
fn a_denied_call_is_shown_as_denied_and_once() {
    let folder = TempFolder::new();
    let (agent, rules) = (program(&folder, ASKS), folder.file("rules.toml", ""));
    let recording = folder.path("recording");
    let args = ["run", "go", "--bin", &agent, "--permissions", &rules, "--record", &recording];
    let shown = tapline(&args);
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(shown.out.contains("✗ denied: `make all`") && !shown.out.contains(" ran: "), "{}", shown.out);
    assert_eq!(shown.out.matches("denied: ").count(), 1, "{}", shown.out);
    assert!(shown.err.contains("tapline: denied: Bash `make all`"), "stderr is read alone: {}", shown.err);
    let view = tapline(&["view", &recording]);
    assert!(view.out.contains("✗ denied: `make all`") && !view.out.contains("ran: "), "{}", view.out);
    assert_eq!(view.out.matches("denied: ").count(), 1, "{}", view.out);
    let report = tapline(&["inspect", "--json", &recording]).out;
    assert_eq!(report.matches(r#""code":"permission-denied""#).count(), 1, "{report}");
    assert!(report.contains(r#""status":"denied""#), "{report}");
    // Of the stream alone it is known only at the end that the call did not fail by itself.
    let stream = tapline(&["view", &folder.path("recording/stdout")]).out;
    assert!(stream.contains("✗ denied: Bash `make all`"), "{stream}");
}

/// Older versions do not list it in the result either.
#[test]
fn a_denied_call_that_the_agent_does_not_list_is_no_clean_success() {
    let folder = TempFolder::new();
    let listed = r#"[{"tool_name":"Bash","tool_use_id":"t0","tool_input":{"command":"make all"}}]"#;
    let (agent, rules) = (program(&folder, &ASKS.replace(listed, "[]")), folder.file("rules.toml", ""));
    let recording = folder.path("recording");
    let shown = tapline(&["run", "go", "--bin", &agent, "--permissions", &rules, "--record", &recording]);
    assert_eq!(shown.out.matches("✗ denied: `make all`").count(), 1, "{}", shown.out);
    let report: serde_json::Value = serde_json::from_str(&tapline(&["inspect", "--json", &recording]).out).unwrap();
    assert_eq!((&report["verdict"]["clean"], &report["tools"]["calls"][0]["status"]), (&false.into(), &"denied".into()));
    assert_eq!(report["verdict"]["warnings"][0]["code"], "permission-denied", "{report}");
}

/// On one terminal, or with `2>&1`, stderr does not list again what the view has shown.
#[test]
fn where_the_view_has_shown_a_denied_call_stderr_only_counts_it() {
    let folder = TempFolder::new();
    let (agent, rules) = (program(&folder, ASKS), folder.file("rules.toml", ""));
    let args = ["run", "go", "--no-record", "--bin", &agent, "--permissions", &rules];
    let tapline = command(&args);
    let mut both = std::process::Command::new("/bin/sh");
    both.env_clear().env("PATH", "/usr/bin:/bin").stdin(std::process::Stdio::null());
    both.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(tapline.get_program()).args(tapline.get_args());
    let both = ran(both.output().unwrap()).out;
    assert_eq!(both.matches("denied: ").count(), 1, "{both}");
    assert!(both.contains("tapline: 1 call denied, as shown above\n"), "{both}");
}

#[test]
fn a_log_keeps_the_lines_of_what_the_agent_writes() {
    let folder = TempFolder::new();
    let text = r"Two files:\n\n| name | size |\n|---|---|\n| a | 1 |\n\n```sh\n  ls -l\n```\n";
    let agent = program(
        &folder,
        &format!(
            "cat >/dev/null\ncat <<'E'\n{{\"type\":\"assistant\",\"message\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}}}\n{{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"{text}\",\"session_id\":\"s\",\"num_turns\":1}}\nE"
        ),
    );
    let shown = tapline(&["run", "go", "--bin", &agent, "--no-record"]);
    let mut lines = Vec::new();
    for line in shown.out.lines() {
        let (time, rest) = line.split_once("  ").unwrap_or((line, ""));
        assert!(tapline_session::parse_rfc3339(time).is_some(), "each line has its time: {line}");
        lines.push(rest);
    }
    let expected = ["Two files:", "", "  | name | size |", "  |---|---|", "  | a | 1 |", "", "  ```sh", "    ls -l", "  ```"];
    assert_eq!(lines[..9], expected, "{}", shown.out);
    assert!(lines.len() == 10 && lines[9].starts_with("✓ success"), "the result is not shown again: {}", shown.out);
}

#[test]
fn what_an_agent_notes_about_an_interrupt_is_not_shown() {
    let stream = r#"{"type":"system","subtype":"init","session_id":"s","tools":[]}
{"type":"assistant","message":{"content":[{"type":"text","text":"Once"}]},"session_id":"s"}
{"type":"user","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user]"}]},"session_id":"s"}
{"type":"result","subtype":"error_during_execution","is_error":true,"num_turns":1,"session_id":"s","errors":["[ede_diagnostic] result_type=user last_content_type=n/a stop_reason=null"]}
"#;
    let folder = TempFolder::new();
    let agent = program(&folder, &format!("cat >/dev/null\ncat <<'E'\n{stream}E"));
    let shown = [tapline_on(stream.as_bytes(), &["view"]).out, tapline(&["run", "go", "--bin", &agent, "--no-record"]).out];
    for shown in shown {
        assert!(shown.contains("Once") && shown.contains("failure"), "{shown}");
        assert!(!shown.contains("Request interrupted") && !shown.contains("ede_diagnostic"), "{shown}");
    }
    let report = tapline_on(stream.as_bytes(), &["inspect", "--json"]).out;
    assert!(report.contains("Request interrupted") && report.contains("ede_diagnostic"), "{report}");
}

#[test]
fn attempts_are_counted_and_a_wait_is_what_was_asked_for() {
    let tried = run("no-result", &["--retry", "1", "--retry-delay", "1s"]);
    assert!(tried.err.contains("tapline: trying again in 1.0 s\n"), "{}", tried.err);
    assert!(tried.err.contains("tapline: the last of 2 attempts failed\n"), "{}", tried.err);
    assert!(!run("no-result", &[]).err.contains("attempts"));
}

#[test]
fn a_run_that_was_stopped_is_not_suspected_of_lost_lines() {
    let folder = TempFolder::new();
    let (summary, report) = (folder.path("summary.md"), folder.path("report.json"));
    let stopped = run("hang", &["--timeout", "300ms", "--summary", &summary, "--report", &report]);
    assert_eq!(stopped.code, 124, "{}", stopped.err);
    let [summary, report] = [summary, report].map(|path| std::fs::read_to_string(path).unwrap());
    assert!(!summary.contains("no-result") && report.contains(r#""code":"no-result""#), "{summary}{report}");
}

#[test]
fn advice_about_a_login_names_the_variable_and_no_flag_for_a_key() {
    let advised = run("auth", &[]).err;
    assert!(advised.contains("`export ANTHROPIC_API_KEY=…`") && !advised.contains("--env"), "{advised}");
}

#[test]
fn every_mistake_of_a_job_file_is_told_at_once_and_with_advice_that_fits() {
    let folder = TempFolder::new();
    let home = folder.path("home");
    let batch = |args: &[&str]| ran(command(&[&["batch"], args].concat()).env("TAPLINE_HOME", &home).output().unwrap());
    let text = "[defaults]\nbin = \"BIN\"\n[[job]]\nname = \"a\"\nprompt = \"x\"\ntimeout = \"soon\"\nfolder = \"/no/such\"\nneeds = [\"b\"]\n[[job]]\nname = \"b\"\nprompt = \"x\"\npermission_mode = \"acceptedits\"\nneeds = [\"a\"]\n[[job]]\nname = \"c\"\npromt = \"x\"\n";
    let jobs = folder.file("jobs.toml", text.replace("BIN", &misbehaving()));
    for args in [&[&*jobs][..], &[&*jobs, "--dry-run"]] {
        let told = batch(args);
        assert_eq!(told.code, 2, "{told:?}");
        for expected in [
            "job 1 (`a`): timeout: `soon` is not a time",
            "job 2 (`b`): permission_mode: no mode named `acceptedits` is known: did you mean `acceptEdits`?",
            "job 3 (`c`): `promt` is not a key of a job: did you mean `prompt`?",
            "`a` needs `b` needs `a`",
        ] {
            assert!(told.err.contains(expected), "{args:?}: {expected}: {}", told.err);
        }
        assert!(!told.err.contains("prompt: there is none"), "{}", told.err);
        let here = usize::from(args.len() == 1);
        assert_eq!(told.err.matches("cannot use the folder /no/such").count(), here, "{args:?}: {}", told.err);
        assert!(told.err.contains(&format!("jobs.toml: {} mistakes", 4 + here)), "{args:?}: {}", told.err);
    }
    let lost = folder.file("lost.toml", "[[job]]\nprompt = \"x\"\nbin = \"/no/such/claude\"\n");
    let told = batch(&[&lost]);
    assert_eq!(told.code, 127, "{told:?}");
    assert!(told.err.contains("check the path that `bin` or --bin gives") && !told.err.contains("npm"), "{}", told.err);
    assert!(batch(&[&folder.file("e.toml", "")]).err.contains("e.toml: it has no jobs"));
    let missing = batch(&[&folder.path("nosuch.toml")]);
    assert!(missing.code == 2 && missing.err.contains("`tapline batch --example > "), "{missing:?}");
}
