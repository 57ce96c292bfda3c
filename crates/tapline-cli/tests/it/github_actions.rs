//! In GitHub Actions: nothing that any command prints is a command to the log; groups are closed and errors annotated on every path.

use std::process::Stdio;

use tapline_testkit::agent::misbehaving;
use tapline_testkit::{TempFolder, TestProcess, agent};

use crate::run::run_command;
use crate::tapline::{Ran, command, ran, tapline_on};

const HOSTILE: &str = concat!(
    r###"{"type":"system","subtype":"init","session_id":"s","model":"m\n::error::pwn","cwd":"/##[group]x","tools":[]}"###,
    "\n",
    r###"{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"::error::pwn\n  ::set-output name=a::b\n\u00a0::warning::x\r::error::y ##[error]x"}]}}"###,
    "\n",
    "::error::not JSON ##[error]at all\n",
    r###"{"type":"result","subtype":"success","is_error":false,"result":"::error::pwn\n\ufeff::error::x ##[error]z","session_id":"s","num_turns":1}"###,
    "\n"
);

/// What the runner takes for a command: it ends lines at LF and CR, and trims blanks (ActionCommand.cs of actions/runner).
fn commands(text: &str) -> Vec<&str> {
    let is_one = |line: &&str| line.trim_start().trim_start_matches('\u{feff}').starts_with("::") || line.contains("##[");
    text.split(['\n', '\r']).filter(is_one).collect()
}

fn in_actions(args: &[&str], input: &str) -> Ran {
    let mut command = command(args);
    command.env("GITHUB_ACTIONS", "true").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
    ran(child.wait_with_output().unwrap())
}

#[test]
fn every_command_keeps_workflow_commands_out() {
    let folder = TempFolder::new();
    let all = [
        &["view"][..],
        &["view", "--partial"],
        &["inspect"],
        &["inspect", "--json"],
        &["inspect", "--get", "answer"],
        &["inspect", "--get", "answer", "--get", "session.model", "--get", "session.cwd"],
        &["inspect", "--get", "turns"],
        &["check"],
        &["check", "--json"],
        &["convert", "--to", "text"],
        &["convert", "--to", "json"],
        &["convert", "--to", "json-verbose"],
        &["convert", "--to", "stream-json"],
        &["convert", "--to", "markdown"],
        &["convert", "--to", "html"],
        &["convert", "--to", "steps"],
    ];
    for args in all {
        let shown = in_actions(args, HOSTILE);
        assert_eq!(shown.code, 0, "{args:?}: {}", shown.err);
        assert!(!shown.out.is_empty(), "{args:?}");
        assert_eq!((commands(&shown.out), commands(&shown.err)), (vec![], vec![]), "{args:?}: {}", shown.out);
        let elsewhere = tapline_on(HOSTILE.as_bytes(), args).out;
        let same = |text: &str| text.split_whitespace().collect::<String>().replace("\\u005b", "[");
        assert_eq!(same(&shown.out), same(&elsewhere), "{args:?}: nothing else is changed");
        // A file is no log: it has everything to the byte.
        let path = folder.path("out");
        let mut to_file = command(args);
        to_file.env("GITHUB_ACTIONS", "true").stdin(Stdio::piped()).stdout(std::fs::File::create(&path).unwrap());
        let mut child = to_file.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), HOSTILE.as_bytes()).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{args:?}");
        let in_file = std::fs::read_to_string(&path).unwrap();
        assert_eq!(in_file, elsewhere, "{args:?}");
    }
}

#[test]
fn a_script_that_captures_a_value_says_so_and_gets_it_exactly() {
    let exact = tapline_on(HOSTILE.as_bytes(), &["inspect", "--get", "answer"]).out;
    assert!(!commands(&exact).is_empty(), "{exact}");
    for unset in ["", "0", "false"] {
        let mut inspect = command(&["inspect", "--get", "answer"]);
        inspect.env("GITHUB_ACTIONS", unset).env("CI", "true").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = inspect.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), HOSTILE.as_bytes()).unwrap();
        assert_eq!(ran(child.wait_with_output().unwrap()).out, exact, "{unset:?}");
    }
}

#[test]
fn json_stays_the_same_json() {
    for args in [
        &["inspect", "--json"][..],
        &["inspect", "--get", "turns"],
        &["check", "--json"],
        &["convert", "--to", "json"],
        &["convert", "--to", "json-verbose"],
    ] {
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(&in_actions(args, HOSTILE).out), read(&tapline_on(HOSTILE.as_bytes(), args).out), "{args:?}");
    }
}

#[test]
fn chats_and_runs_keep_them_out_too() {
    for format in ["view", "text", "stream-json"] {
        let folder = TempFolder::new();
        let agent = folder.script("agent", &agent::answers(HOSTILE));
        let said = in_actions(&["chat", "--bin", &agent, "--no-record", "--format", format], "go\n");
        assert!(said.out.contains("pwn"), "{format}: {} {}", said.out, said.err);
        assert_eq!((commands(&said.out), commands(&said.err)), (vec![], vec![]), "{format}: {}", said.out);
    }
    for args in [
        &["--format", "text"][..],
        &["--format", "json"],
        &["--format", "stream-json"],
        &["--format", "report"],
        &["--get", "answer"],
    ] {
        let said = ran(run_command("hostile-answer", args).env("GITHUB_ACTIONS", "true").output().unwrap());
        assert_eq!((commands(&said.out), commands(&said.err)), (vec![], vec![]), "{args:?}: {}", said.out);
    }
}

#[test]
fn argument_errors_pass_through_the_same_filter_and_are_annotated() {
    let odd = "\u{1b}[31mx\u{202e}\n::error::pwn ##[error]y";
    for args in [
        &["inspect", odd][..],
        &["view", odd],
        &["check", odd],
        &["convert", odd, "--to", "text"],
        &["inspect", "--get", odd],
        &["inspect", "--agent", odd],
        &["run", "go", "--timeout", odd],
        &["run", "go", "--fail-on", odd],
        &["run", "go", "--cwd", odd, "--no-record", "--bin", "/bin/true"],
        &["run", "go", "--policy", odd],
        &["replay", odd],
        &["sim", odd, "--", "true"],
        &[odd],
    ] {
        let refused = ran(command(args).output().unwrap());
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{args:?}");
        assert!(!refused.err.contains(['\u{1b}', '\u{202e}']), "{args:?}: {}", refused.err);
        assert!(refused.err.contains("␛[31mx<U+202E>"), "{args:?}: it is shown: {}", refused.err);
        let in_a_job = in_actions(args, "");
        assert_eq!(in_a_job.code, 2, "{args:?}");
        let [annotation] = commands(&in_a_job.err)[..] else { panic!("{args:?}: {}", in_a_job.err) };
        assert!(annotation.starts_with("::error title=tapline::") && !annotation.contains("##["), "{annotation}");
    }
    assert_eq!(commands(&in_actions(&[], "").err).len(), 1);
}

#[test]
fn failures_are_annotated_whatever_the_command() {
    let folder = TempFolder::new();
    let policy = folder.file("rules.toml", "[session]\nmodel = [\"x\"]");
    let no_result = r#"{"type":"system","subtype":"init","session_id":"s","model":"m"}"#;
    for (args, code) in [
        (&["inspect", "--exit-status"][..], 4),
        (&["view", "--exit-status"], 4),
        (&["inspect", "--get", "verdict.retry.at"], 1),
        (&["convert", "--to", "json"], 4),
        (&["check", "--policy", &policy], 3),
    ] {
        let failed = in_actions(args, no_result);
        assert_eq!(failed.code, code, "{args:?}: {}", failed.err);
        assert!(commands(&failed.err).iter().any(|line| line.starts_with("::error title=")), "{args:?}: {}", failed.err);
    }
    assert_eq!(commands(&in_actions(&["inspect"], no_result).err).len(), 0, "nothing failed: it was asked what happened");
}

#[test]
fn errors_and_annotations_hold_no_key_whatever_the_command() {
    let key = "sk-ant-api03-AAAABBBBCCCCDDDD1111222233334444";
    let folder = TempFolder::new();
    let policy = folder.file("rules.toml", format!("[limits]\nturns = \"{key}\""));
    let failed =
        format!(r#"{{"type":"result","subtype":"success","is_error":true,"result":"API Error: 400 {key}","session_id":"s"}}"#);
    for args in [&["inspect", "--exit-status"][..], &["view", "--exit-status"], &["check", "--policy", &policy]] {
        let told = in_actions(args, &failed);
        assert!(told.code != 0 && told.err.contains("::error title="), "{args:?}: {}", told.err);
        assert!(!told.err.contains(key) && told.err.contains("[redacted]"), "{args:?}: {}", told.err);
    }
}

fn groups(out: &str) -> (usize, usize) {
    let count = |what: &str| out.lines().filter(|line| line.starts_with(what)).count();
    (count("::group::"), count("::endgroup::"))
}

#[test]
fn groups_are_closed_and_errors_annotated_on_every_path_of_a_run() {
    let folder = TempFolder::new();
    let policy = folder.file("rules.toml", "[limits]\ncalls = 0");
    for (mode, args, code) in [
        ("ok", &[][..], 0),
        ("auth", &[], 1),
        ("no-result", &[], 4),
        ("half-line", &[], 4),
        ("dies", &[], 1),
        ("hang", &["--timeout", "200ms"], 124),
        ("hang", &["--idle-timeout", "200ms"], 124),
        ("calls", &["--policy", &policy], 3),
        ("ok", &["--bin", "/no/such/agent"], 127),
        ("denied", &["--fail-on", "denied"], 1),
        ("ok", &["--cwd", "/no/such/folder"], 2),
        ("ok", &["--", "--output-format", "text"], 2),
    ] {
        let mut args = args.to_vec();
        if !args.contains(&"--bin") {
            args.splice(0..0, ["--bin", "fake"]);
        }
        let fake = misbehaving();
        let args: Vec<&str> = args.iter().map(|arg| if *arg == "fake" { fake.as_str() } else { *arg }).collect();
        let all = [&["run", "go", "--no-record", "--grace", "300ms"], args.as_slice()].concat();
        let ended = ran(command(&all).env("FAKE", mode).env("GITHUB_ACTIONS", "true").output().unwrap());
        assert_eq!(ended.code, code, "{mode} {args:?}: {}", ended.err);
        let (opened, closed) = groups(&ended.out);
        assert!(opened == closed && opened <= 1, "{mode} {args:?}: {}", ended.out);
        assert!(opened == 1 || code == 2, "{mode} {args:?}: {}", ended.out);
        assert_eq!(commands(&ended.err).len(), usize::from(code != 0), "{mode} {args:?}: {}", ended.err);
    }
}

#[test]
fn a_success_with_denied_calls_is_a_warning_unless_it_counts_as_a_failure() {
    for (args, told) in [
        (&[][..], Some("::warning title=tapline run::! success · 3 calls denied: Edit was not permitted: `src/a.rs`")),
        (&["--format", "quiet"], None),
    ] {
        let ended = ran(run_command("denied", args).env("GITHUB_ACTIONS", "true").output().unwrap());
        assert_eq!((ended.code, commands(&ended.err).first().copied()), (0, told), "{args:?}: {}", ended.err);
    }
    let failed = ran(run_command("denied", &["--require-clean"]).env("GITHUB_ACTIONS", "true").output().unwrap());
    assert!(failed.code == 1 && !failed.err.contains("::warning") && failed.err.contains("::error"), "{}", failed.err);
}

/// What the log says of denied calls, the summary of the job says, too.
#[test]
fn the_summary_of_a_job_names_the_denied_tools_and_the_flag_that_would_allow_them() {
    let folder = TempFolder::new();
    let summary = folder.path("summary.md");
    for format in ["text", "lines", "quiet"] {
        let _ = std::fs::remove_file(&summary);
        let mut command = run_command("denied", &["--format", format]);
        let told = ran(command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", &summary).output().unwrap());
        assert_eq!(told.code, 0, "{format}: {}", told.err);
        let page = std::fs::read_to_string(&summary).unwrap();
        for said in [
            "### ⚠️ success",
            "**Not everything was permitted**",
            "- denied: Edit ",
            "- denied: Bash ",
            "(2 times)",
            "--allowed-tools \"Bash(make),Edit\" (to allow only the edits, use --permission-mode acceptEdits)",
        ] {
            assert_eq!(page.matches(said).count(), 1, "{format}: {said}: {page}");
        }
        assert!(!page.contains("Failed calls"), "{page}");
    }
    let mut command = run_command("ok", &[]);
    command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", folder.path("ok.md")).output().unwrap();
    let page = std::fs::read_to_string(folder.path("ok.md")).unwrap();
    assert!(page.contains("### ✅ success") && !page.contains("permitted"), "{page}");
}

#[test]
fn an_annotation_says_how_many_more_calls_were_denied() {
    let folder = TempFolder::new();
    let agent = crate::denial_advice::denied(
        &folder,
        &["a", "b", "c", "d", "e", "f"].map(|name| ("Write", format!("{{\"file_path\":\"/w/{name}\"}}"), "no")),
    );
    let args = ["run", "go", "--no-record", "--format", "text", "--bin", &agent, "--fail-on", "denied"];
    let ended = ran(command(&args).env("GITHUB_ACTIONS", "true").output().unwrap());
    assert_eq!(ended.code, 1, "{}", ended.err);
    let annotations = commands(&ended.err);
    assert!(annotations.len() == 1 && annotations[0].contains(", and 5 more (--fail-on)"), "{}", ended.err);
}

#[test]
fn a_signal_closes_the_group_too() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let mut command = run_command("hang", &[]);
        command.env("GITHUB_ACTIONS", "true").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = TestProcess::from(command.spawn().unwrap());
        let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut seen = String::new();
        while !seen.contains("session started") {
            assert_ne!(std::io::BufRead::read_line(&mut out, &mut seen).unwrap(), 0, "{seen}");
        }
        child.signal(signal);
        std::io::Read::read_to_string(&mut out, &mut seen).unwrap();
        let mut err = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut err).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{err}");
        assert_eq!(groups(&seen), (1, 1), "{seen}");
        assert_eq!(commands(&err).len(), 1, "{err}");
    }
}
