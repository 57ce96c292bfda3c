//! What is explained where people have stumbled: two verdicts, checks that pass for a typo, waits that are none, and scripts that stop
//! without a word.

use std::process::Stdio;

use tapline_testkit::agent::misbehaving;
use tapline_testkit::{TempFolder, fixture};

use crate::run::run_command;
use crate::tapline::{PATIENT, Ran, command, ran, tapline, tapline_on};

fn run(mode: &str, args: &[&str]) -> Ran {
    ran(run_command(mode, args).output().unwrap())
}

/// A program that is this shell script.
#[test]
fn a_rate_limit_that_names_no_time_is_waited_for_longer_than_the_agent_itself_did() {
    // 30 s would be waited: less than that is left, however slow the machine is.
    let tried = run("limited-unnamed", &["--retry", "2", "--timeout", "30s", "--format", "report"]);
    assert!(tried.out.contains(r#""delay_ms":554"#), "{}", tried.out);
    assert!(tried.err.contains("no retry: the wait would exceed --timeout"), "{}", tried.err);
    assert!(tried.out.contains(r#""attempts":1"#), "{}", tried.out);
}

/// The lines that say how it ended.
fn verdicts(text: &str) -> Vec<&str> {
    let is_one = |line: &&str| ["success", "failure", "incomplete", "interrupted"].iter().any(|word| line.contains(word));
    text.lines().filter(is_one).filter(|line| line.contains(" turn")).collect()
}

#[test]
fn a_result_of_another_agent_is_not_called_a_success_and_then_none() {
    let folder = TempFolder::new();
    let lines = r#"{"type":"init","session_id":"s","model":"auto"}
{"type":"result","status":"success","stats":{"total_tokens":300}}
"#;
    let file = folder.file("gemini.jsonl", lines);
    for input in [tapline(&["view", "--agent", "claude", &file]), tapline_on(lines.as_bytes(), &["view", "--agent", "claude"])]
    {
        assert_eq!(verdicts(&input.out), ["✗ incomplete (no_result) · 1 turn"], "{}", input.out);
    }
}

#[test]
fn a_success_with_a_doubt_has_one_verdict_and_the_doubt() {
    let shown = tapline(&["view", &fixture("claude-2.1.325/ask.jsonl").display().to_string()]).out;
    let verdict = "✓ success · 1 turn · 250 ms · 12 in · 40 out · 2.0k cached · $0.0017";
    assert_eq!(verdicts(&shown), [verdict], "{shown}");
    let doubt = "! success (interactive): the agent asked a question, and there was nobody to answer it";
    assert!(shown.ends_with(&format!("{verdict}\n{doubt}\n")), "{shown}");
}

#[test]
fn what_a_sub_agent_was_told_is_not_the_prompt_of_the_session() {
    let told = |parent: &str, text: &str| {
        format!(
            "{{\"type\":\"user\",\"session_id\":\"s\",\"parent_tool_use_id\":{parent},\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
        )
    };
    let init = "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\",\"model\":\"m\"}\n";
    let inside = [init, &told("\"t1\"", "look at this file")].concat();
    let shown = tapline_on(inside.as_bytes(), &["inspect"]).out;
    assert!(!shown.contains("look at this file"), "{shown}");
    let both = [&*inside, &told("null", "fix the bug")].concat();
    let shown = tapline_on(both.as_bytes(), &["inspect"]).out;
    assert!(shown.contains("\nprompt      fix the bug\n") && !shown.contains("more prompt"), "{shown}");
    // Scripts get all of them, as the report says.
    let all = tapline_on(both.as_bytes(), &["inspect", "--get", "prompts"]).out;
    assert_eq!(all, "[\"look at this file\",\"fix the bug\"]\n");
}

#[test]
fn where_there_is_nothing_people_are_told_where_tapline_looked() {
    let folder = TempFolder::new();
    for args in [&["stats"][..], &["search", "zebra"], &["sessions", "--list"]] {
        let mut command = command(args);
        let ran = ran(command.env("HOME", folder.path("h")).env("TAPLINE_HOME", folder.path("t")).output().unwrap());
        assert_eq!((ran.code, ran.err.as_str()), (i32::from(args[0] == "search"), ""), "{args:?}");
        assert!(ran.out.starts_with("No sessions found. tapline looked here:\n"), "{args:?}: {}", ran.out);
        for place in ["h/.claude/projects", "h/.codex/sessions", "t/recordings"] {
            assert!(ran.out.contains(&format!("\n  {}\n", folder.path(place))), "{args:?}: {}", ran.out);
        }
        assert!(ran.out.contains(&format!("\nTo look elsewhere: tapline {} ", args[0])), "{args:?}: {}", ran.out);
    }
    std::fs::create_dir(folder.path("empty")).unwrap();
    let ran = tapline(&["stats", &folder.path("empty")]);
    assert!(ran.out.contains(&format!("looked here:\n  {}\n", folder.path("empty"))), "{}{}", ran.out, ran.err);
}

#[test]
fn a_rule_that_is_most_likely_a_mistake_fails_a_strict_check() {
    let folder = TempFolder::new();
    let stream = fixture("claude-2.1.325/text.jsonl").display().to_string();
    let typo = folder.file("typo.toml", "[calls]\nforbid = [\"Bsh\"]\n");
    let empty = folder.file("empty.toml", "");
    let rules = folder.file("rules.toml", "[[deny]]\ntool = \"Bsh\"\n");
    for (option, file, said) in [
        ("--policy", &typo, "did you mean `Bash`?"),
        ("--policy", &empty, "it has no rules"),
        ("--permissions", &rules, "`Bsh`"),
    ] {
        let lax = tapline(&["check", option, file, &stream]);
        assert!(lax.code == 0 && lax.err.contains(said) && !lax.out.contains(said), "{}{}", lax.out, lax.err);
        for more in [&[][..], &["--redact"]] {
            let strict = tapline(&[&["check", "--strict", option, file, &stream][..], more].concat());
            assert_eq!(strict.code, 3, "{file} {more:?}: {}{}", strict.out, strict.err);
            assert!(strict.out.contains("doubtful-rule") && strict.out.contains(said), "{more:?}: {}", strict.out);
        }
    }
    let good = folder.file("good.toml", "[calls]\nforbid = [\"WebFetch\"]\n");
    let kept = tapline(&["check", "--strict", "--policy", &good, &stream]);
    assert_eq!(kept.code, 0, "{}{}", kept.out, kept.err);
}

#[test]
fn a_script_says_at_which_line_it_stopped() {
    let folder = TempFolder::new();
    let agent = misbehaving();
    let script = folder.file("steps.txt", "\n/mode\\\n\n/nosuch\nhello\n");
    let chat = |more: &[&str]| {
        let args = [&["chat", "--bin", &agent, "--no-record", "--script", &script, "--format", "text"][..], more].concat();
        let mut chat = command(&args);
        ran(chat.env("FAKE", "session-and-go").env("RESPONSE", r#""commands":[{"name":"compact"}]"#).output().unwrap())
    };
    let stopped = chat(&[]);
    assert_eq!(stopped.code, 1, "{}", stopped.err);
    assert!(stopped.err.contains("unknown command: /nosuch"), "{}", stopped.err);
    assert!(stopped.err.contains("line 4 of the script") && stopped.err.contains("--keep-going"), "{}", stopped.err);
    assert!(stopped.err.contains("modes: default"), "what a command says is not lost: {}", stopped.err);
    let on = chat(&["--keep-going"]);
    assert!(on.code == 1 && !on.err.contains("line 4"), "{}", on.err);
}

#[test]
fn a_script_without_a_prompt_starts_no_agent() {
    let folder = TempFolder::new();
    let agent = folder.script("claude", &format!("touch {}", folder.path("started")));
    for script in [folder.file("empty", ""), folder.file("blank", "\n  \n\n"), "/dev/null".to_owned()] {
        let refused = tapline(&["chat", "--bin", &agent, "--no-record", "--script", &script]);
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{script}: {}", refused.err);
        assert!(refused.err.contains("no prompts"), "{script}: {}", refused.err);
    }
    let piped = ran(command(&["chat", "--bin", &agent, "--no-record"]).stdin(Stdio::null()).output().unwrap());
    assert!(piped.code == 2 && piped.err.contains("no prompts"), "{}", piped.err);
    assert!(!std::path::Path::new(&folder.path("started")).exists());
    // A pipe that ends later with nothing in it has nothing either; the agent was ready by then.
    let script = format!(
        "(while [ ! -e {0} ]; do sleep 0.05; done) | {1} chat --bin {2} --no-record",
        folder.path("ready"),
        env!("CARGO_BIN_EXE_tapline"),
        folder.script("late", &format!("touch {}; FAKE=session-and-go exec {}", folder.path("ready"), misbehaving()))
    );
    let mut late = std::process::Command::new("/bin/sh");
    let late = ran(late.args(["-c", &script]).env_clear().env("PATH", "/usr/bin:/bin").output().unwrap());
    assert!(late.code == 2 && late.err.contains("no prompts"), "{}", late.err);
}

#[test]
fn what_is_added_from_stdin_is_told_where_a_person_looks() {
    let added = |input: &str, more: &[&str]| {
        let agent = misbehaving();
        // However long it takes until this test gets to write.
        let patient = if more.contains(&"--no-stdin") { &[][..] } else { &["--stdin-wait", "10m"] };
        let args = [&["run", "go", "--no-record", "--bin", &agent][..], patient, more].concat();
        tapline_on(input.as_bytes(), &args).err
    };
    assert!(added("b\n", &[]).contains("added 2 bytes from stdin after the prompt"), "{}", added("b\n", &[]));
    for (input, more) in [
        ("", &[][..]),
        ("b\n", &["--no-stdin"]),
        ("b\n", &["--format", "text"]),
        ("b\n", &["--format", "report"]),
        ("b\n", &["--get", "answer"]),
        ("b\n", &["--format", "quiet"]),
    ] {
        assert!(!added(input, more).contains("from stdin"), "{more:?}: {}", added(input, more));
    }
}

#[test]
fn the_summary_says_why_a_success_exits_with_1() {
    let folder = TempFolder::new();
    let summary = folder.path("summary.md");
    let failed = run("denied", &["--fail-on", "denied", "--summary", &summary]);
    assert_eq!(failed.code, 1, "{}", failed.err);
    let page = std::fs::read_to_string(&summary).unwrap();
    assert!(page.starts_with("### ❌ success\n\nExit code 1: permission-denied: "), "{page}");
    assert!(page.contains("--fail-on"), "{page}");
    assert_eq!(run("denied", &["--summary", &summary]).code, 0);
    let page = std::fs::read_to_string(&summary).unwrap();
    assert!(page.starts_with("### ⚠️ success\n\n|") && !page.contains("Exit code"), "{page}");
}

#[test]
fn codex_outside_of_a_git_repository_gets_advice() {
    let folder = TempFolder::new();
    let why = "Not inside a trusted directory and --skip-git-repo-check was not specified.";
    let agent = folder.script("codex", &format!("cat >/dev/null; echo '{why}' >&2; exit 1"));
    for format in ["lines", "text", "report"] {
        let failed = tapline(&["run", "go", "--agent", "codex", "--no-record", "--bin", &agent, "--format", format]);
        assert_eq!(failed.code, 1, "{}", failed.err);
        assert!(failed.err.contains("add: -- --skip-git-repo-check"), "{format}: {}", failed.err);
    }
}

#[test]
fn an_empty_input_is_called_empty() {
    let folder = TempFolder::new();
    let file = folder.file("empty.jsonl", "");
    let viewed = tapline(&["inspect", &file]);
    assert!(viewed.out.contains("no-result: there is no result: the stream is empty"), "{}", viewed.out);
    let checked = tapline(&["check", &file]);
    assert!(checked.out.contains("no-events: the input is empty"), "{}", checked.out);
}

#[test]
fn what_is_packed_is_told_in_one_line() {
    let folder = TempFolder::new();
    for (bytes, what) in [(&b"\x1f\x8b\x08\0\0\n\xff\n\xfe\n"[..], "gzip"), (b"\xff\xfe{\0\n\0}\0\n\0", "UTF-16")] {
        let path = folder.path("packed.jsonl");
        std::fs::write(&path, bytes).unwrap();
        for command in ["view", "inspect", "check"] {
            for told in [tapline(&[command, &path]), tapline_on(bytes, &[command])] {
                assert_eq!((told.code, told.out.as_str(), told.err.lines().count()), (2, "", 1), "{}", told.err);
                assert!(told.err.contains(what) && told.err.contains("first"), "{}", told.err);
            }
        }
    }
}

#[test]
fn a_duration_that_a_file_does_not_have_is_explained() {
    let file = fixture("claude-2.1.325/tools.jsonl").display().to_string();
    for path in ["tools.calls[].duration_ms", "turns[0].elapsed_ms"] {
        let none = tapline(&["inspect", "--get", path, &file]);
        assert_eq!((none.code, none.out.as_str()), (1, ""), "{path}");
        assert!(none.err.contains("the stream has no times"), "{path}: {}", none.err);
    }
}

#[test]
fn a_run_that_a_clock_stopped_says_how_long_it_ran() {
    let folder = TempFolder::new();
    let record = folder.path("r");
    let args = ["run", "go", "--bin", &misbehaving(), "--record", &record, "--timeout", "1s", "--grace", PATIENT];
    let stopped = ran(command(&args).env("FAKE", "hang").output().unwrap());
    assert_eq!(stopped.code, 124, "{}", stopped.err);
    for shown in [stopped.out, tapline(&["view", &record]).out, tapline(&["inspect", &record]).out] {
        let verdict = shown.lines().find(|line| line.contains("failure (timeout)")).unwrap();
        assert!(verdict.contains("0 turns · ") && verdict.ends_with('s') && !verdict.ends_with("turns"), "{verdict}");
    }
}
