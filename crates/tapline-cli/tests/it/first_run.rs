//! What people meet in their first runs: options that are nearly right, prompts without quotes, places where nothing seems to happen.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};

use tapline_testkit::agent::misbehaving;
use tapline_testkit::{TempFolder, TestProcess, fixture};

use crate::run::run_command;
use crate::tapline::{PATIENT, Ran, command, ran, tapline, tapline_on};

fn run(mode: &str, args: &[&str]) -> Ran {
    ran(run_command(mode, args).output().unwrap())
}

#[test]
fn a_prompt_without_quotes_is_told_where_they_belong() {
    for (args, tip) in [
        (&["run", "fix", "the", "bug"][..], "put the prompt in quotes: tapline run 'fix the bug'"),
        (&["run", "fix", "it", "--format", "text"], "tapline run 'fix it'"),
        (&["chat", "hello", "there"], "tapline chat 'hello there'"),
    ] {
        let refused = tapline(args);
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{args:?}");
        assert!(refused.err.contains("unexpected argument") && refused.err.contains(tip), "{args:?}: {}", refused.err);
    }
    for (args, tip) in [
        (
            &["run", "fix", "--nope"][..],
            "to pass '--nope' to the agent, put it at the end, after `--`: tapline run … -- --nope",
        ),
        (&["chat", "--nope"], "to pass '--nope' to the agent"),
        (&["sim", "a.toml", "--nope"], "to pass '--nope' to the command"),
    ] {
        let refused = tapline(args);
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{args:?}");
        assert!(refused.err.contains(tip) && !refused.err.contains("as a value"), "{args:?}: {}", refused.err);
    }
    for args in [&["run", "fix", "--no-such-option"][..], &["view", "--nope"], &["completions", "bash", "zsh"]] {
        let refused = tapline(args);
        assert!(refused.code == 2 && !refused.err.contains("quotes"), "{args:?}: {}", refused.err);
    }
    let hostile = tapline(&["run", "a", "\u{1b}[31mb"]);
    assert!(!hostile.err.contains('\u{1b}'), "{:?}", hostile.err);
    let mut no_text = command(&["run", "a"]);
    no_text.arg(std::ffi::OsStr::from_bytes(b"\xff\xfe"));
    assert_eq!(ran(no_text.output().unwrap()).code, 2);
}

#[test]
fn a_clock_that_is_set_to_nothing_is_refused() {
    for option in ["--timeout", "--idle-timeout"] {
        for time in ["0", "0s", "0ms", "0h0m"] {
            let refused = run("ok", &[option, time]);
            assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{option} {time}");
            assert!(refused.err.contains("90s") && refused.err.contains("leave it out"), "{}", refused.err);
        }
    }
    assert_eq!(run("ok", &["--timeout", "90s", "--grace", "0s", "--linger", "0s"]).code, 0, "these may be nothing");
}

/// What the agent says of a mode that there is not comes once, and last; before it, which modes there are.
#[test]
fn a_permission_mode_that_there_is_not_is_told_with_those_that_there_are() {
    let folder = TempFolder::new();
    let why = "error: option '--permission-mode <mode>' argument 'yolo' is invalid. Allowed choices are acceptEdits, plan.";
    let bin = folder.script("claude", &format!("echo \"{why}\" >&2\nexit 1"));
    let run =
        |format: &str| tapline(&["run", "go", "--no-record", "--bin", &bin, "--permission-mode", "yolo", "--format", format]);
    let modes = "tapline: --permission-mode: no mode named `yolo` is known (there are default, acceptEdits, plan, dontAsk, auto, manual, delegate, bypassPermissions)";
    let text = run("text");
    assert_eq!(text.code, 1, "{}", text.err);
    assert_eq!(text.err.lines().collect::<Vec<_>>(), [modes, &format!("Error: {} (startup)", &why[7..])], "{}", text.err);
    for format in ["lines", "live", "report", "stream-json"] {
        let told = run(format);
        assert!(told.err.starts_with(modes), "{format}: {}", told.err);
        assert!(!told.err.contains("ended without a result"), "{format}: {}", told.err);
    }
    let chatted = tapline_on(b"go\n", &["chat", "--no-record", "--bin", &bin, "--permission-mode", "acceptedits"]);
    assert!(chatted.err.contains("did you mean `acceptEdits`?"), "{}", chatted.err);
    assert!(!tapline(&["run", "go", "--no-record", "--bin", &bin, "--permission-mode", "dontAsk"]).err.contains("is known"));
    assert_eq!(run("quiet").err, "", "quiet is quiet");
    for command in ["run", "chat"] {
        let codex =
            tapline_on(b"go\n", &[command, "--agent", "codex", "--no-record", "--bin", &bin, "--permission-mode", "yolo"]);
        assert!(
            !codex.err.contains("is known") && codex.err.contains("--permission-mode"),
            "codex has no modes: {}",
            codex.err
        );
    }
}

#[test]
fn a_code_for_fail_on_that_is_nearly_right_is_named() {
    for (given, meant) in [
        ("denyed", "denied"),
        ("max-token", "max-tokens"),
        ("malformed", "malformed-line"),
        ("stdrr", "stderr"),
        ("interactive", "interactive-hang"),
        ("background", "background-task"),
    ] {
        for command in [&["run", "go"][..], &["inspect"]] {
            let refused = tapline(&[command, &["--fail-on", given]].concat());
            assert_eq!(refused.code, 2);
            let near = refused.err.contains(&format!("did you mean `{meant}`?"));
            assert!(near || given == "malformed" && refused.err.contains(meant), "{given}: {}", refused.err);
        }
    }
    assert!(!run("ok", &["--fail-on", "something-else"]).err.contains("did you mean"));
}

#[test]
fn inspect_fail_on_gives_the_exit_status_by_itself() {
    let code = |name: &str, args: &[&str]| tapline(&[&["inspect", fixture(name).to_str().unwrap()], args].concat()).code;
    assert_eq!(code("claude-2.1.325/tools-denied.jsonl", &["--fail-on", "denied"]), 1);
    assert_eq!(code("claude-2.1.325/tools-denied.jsonl", &["--fail-on", "max-tokens"]), 0);
    assert_eq!(code("claude-2.1.325/sigterm.jsonl", &["--fail-on", "denied"]), 4, "a run that failed keeps its own code");
    assert_eq!(code("claude-2.1.325/sigterm.jsonl", &[]), 0);
}

#[test]
fn a_denial_is_told_once_with_fail_on() {
    for format in ["text", "lines", "report"] {
        let told = run("denied", &["--fail-on", "denied", "--format", format]);
        assert_eq!(told.code, 1);
        assert_eq!(told.err.lines().filter(|line| line.contains("Edit")).count(), 2, "the call, and the flag: {}", told.err);
        assert_eq!(told.err.matches("(--fail-on)").count(), 1, "{format}: {}", told.err);
    }
    let denied = fixture("claude-2.1.325/tools-denied.jsonl");
    let told = tapline(&["inspect", "--fail-on", "denied", denied.to_str().unwrap()]);
    assert!(told.out.contains("permission-denied: "), "{}", told.out);
    assert!(!told.err.contains("was not permitted") && told.err.contains("(--fail-on)"), "the summary has it: {}", told.err);
    let json = tapline(&["inspect", "--json", "--fail-on", "denied", denied.to_str().unwrap()]);
    assert!(json.err.contains("was not permitted"), "{}", json.err);
}

/// In the log of a job stdout and stderr are one: what the view has shown is not listed again.
#[test]
fn the_log_of_a_job_has_each_denied_call_once() {
    let job = |format: &str| {
        let mut command = run_command("denied", &["--format", format]);
        let ended = ran(command.env("CI", "true").output().unwrap());
        assert_eq!(ended.code, 0, "{format}: {}", ended.err);
        ended
    };
    let log = job("lines");
    assert!(log.out.contains("denied: `src/a.rs`") && !log.err.contains("src/a.rs"), "{}{}", log.out, log.err);
    assert!(log.err.contains("tapline: 3 calls denied, as shown above\n"), "{}", log.err);
    assert!(log.err.contains("--allowed-tools"), "{}", log.err);
    assert_eq!(job("text").err.matches("denied: Edit `src/a.rs`").count(), 1, "no view has shown it");

    // A file is no part of the log.
    let folder = TempFolder::new();
    let mut command = run_command("denied", &["--format", "lines"]);
    command.stdout(std::fs::File::create(folder.path("log.txt")).unwrap());
    let ended = ran(command.env("CI", "true").output().unwrap());
    assert_eq!(ended.err.matches("denied: Edit `src/a.rs`").count(), 1, "{}", ended.err);
}

#[test]
fn a_success_that_is_not_clean_says_which_flag_makes_it_fail() {
    let tip = "tapline: not a clean success: with --fail-on denied, such a run exits with 1\n";
    for format in ["text", "lines", "report"] {
        assert_eq!(run("denied", &["--format", format]).err.matches(tip).count(), 1, "{format}");
        assert!(!run("ok", &["--format", format]).err.contains("--fail-on"), "{format}: it is clean");
    }
    for flags in [&["--fail-on", "denied"][..], &["--fail-on", "max-tokens"], &["--require-clean"]] {
        assert!(!run("denied", flags).err.contains("not a clean success"), "{flags:?}: it is known");
    }
    assert_eq!(run("denied", &["--format", "quiet"]).err, "");
}

#[test]
fn among_several_values_null_is_a_value_and_lines_stay_lines() {
    let paths = ["--get", "verdict.error", "--get", "session.id", "--get", "verdict.category", "--get", "answer"];
    let good = run("ok", &paths);
    assert_eq!((good.code, good.out.as_str(), good.err.as_str()), (0, "\nfake-session\n\ndone\n", ""));
    let alone = run("ok", &["--get", "verdict.error"]);
    assert_eq!((alone.code, alone.out.as_str()), (1, ""), "alone it is what was asked for, and not there");
    let gone = run("ok", &["--get", "session.id", "--get", "turns[7].result"]);
    assert_eq!((gone.code, gone.out.as_str()), (1, "fake-session\n\n"), "{}", gone.err);
    // A value of several lines takes several lines: asked for last, all that follows the others is it.
    let stream = br#"{"type":"result","subtype":"success","result":"one\ntwo\n\nfour","session_id":"s","num_turns":1}"#;
    let lines = tapline_on(stream, &["inspect", "--get", "session.id", "--get", "answer"]);
    assert_eq!((lines.code, lines.out.as_str()), (0, "s\none\ntwo\n\nfour\n"));
}

#[test]
fn one_is_one_line() {
    let stream = br#"{"type":"result","subtype":"success","result":"ok","session_id":"s","num_turns":1}"#;
    let out = tapline_on(stream, &["inspect"]).out;
    assert!(out.contains(" 1 line · ") && !out.contains("1 lines"), "{out}");
    let answer = "l\\n".repeat(13);
    let stream = format!(r#"{{"type":"result","subtype":"success","result":"{answer}","num_turns":1}}"#);
    let out = tapline_on(stream.as_bytes(), &["inspect"]).out;
    assert!(out.contains("… 1 more line: "), "{out}");
}

#[test]
fn inspect_shows_the_prompt_and_markdown_its_heading_first() {
    let folder = TempFolder::new();
    let record = folder.path("rec");
    let long = "why is the sky blue?\nand the sea?";
    let mut run = command(&["run", long, "--bin", &misbehaving(), "--record", &record, "--format", "quiet"]);
    assert_eq!(ran(run.env("FAKE", "ok").output().unwrap()).code, 0);
    let summary = tapline(&["inspect", &record]).out;
    assert!(summary.contains("prompt      why is the sky blue? (and 1 more line)\n"), "{summary}");
    let page = tapline(&["convert", "--to", "markdown", &record]).out;
    assert!(page.starts_with("# Session fake-session\n"), "{page}");
    assert_eq!(page.matches("why is the sky blue?").count(), 1, "{page}");
    assert!(page.find("why is the sky blue?") < page.find("done"), "{page}");
    // Where no session ever began, the prompt is there all the same.
    let broken = folder.script("broken", "cat >/dev/null; echo broken >&2; exit 1");
    assert_eq!(tapline(&["run", long, "--bin", &broken, "--record", &folder.path("none"), "--format", "quiet"]).code, 1);
    assert!(tapline(&["convert", "--to", "markdown", &folder.path("none")]).out.contains("why is the sky blue?"));
}

#[test]
fn the_verdict_is_shown_once_also_where_a_call_was_never_answered() {
    let stream = br#"{"type":"system","subtype":"init","session_id":"s"}
{"type":"assistant","session_id":"s","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"make"}}]}}
{"type":"result","subtype":"success","result":"ok","session_id":"s","num_turns":1}
"#;
    let out = tapline_on(stream, &["view"]).out;
    assert_eq!(out.matches("success").count(), 1, "{out}");
    assert_eq!(out.matches("? unanswered: ").count(), 1, "{out}");
}

#[test]
fn doctor_only_looks() {
    let folder = TempFolder::new();
    let looked = |home: &str| ran(command(&["doctor"]).env("TAPLINE_HOME", home).output().unwrap());
    let (home, below) = (folder.path("h"), folder.path("a/b/c"));
    for home in [&home, &below] {
        let found = looked(home);
        assert!(found.out.contains("✓ recordings") && found.out.contains("created by the first run"), "{}", found.out);
        assert!(!std::path::Path::new(home).exists(), "nothing was made");
    }
    std::fs::create_dir_all(folder.path("h/recordings")).unwrap();
    assert!(looked(&home).out.contains("0 so far"));
    assert_eq!(std::fs::read_dir(folder.path("h/recordings")).unwrap().count(), 0);
    let file = folder.file("file", "");
    let refused = looked(&file);
    assert!(refused.code == 1 && refused.out.contains("✗ recordings"), "{}", refused.out);
    let full = without_room(command(&["doctor"]).env("TAPLINE_HOME", &home));
    assert!(full.code == 1 && full.out.contains("✗ recordings") && full.out.contains("cannot write in"), "{full:?}");
    assert_eq!(std::fs::read_dir(folder.path("h/recordings")).unwrap().count(), 0);
}

/// Runs a command that can write to no file, as on a full disk.
fn without_room(given: &Command) -> Ran {
    let mut limited = Command::new("sh");
    // Signal 25 would end the process instead.
    limited.args(["-c", "trap '' 25; ulimit -f 0; exec \"$@\"", "sh"]).arg(given.get_program()).args(given.get_args());
    limited.env_clear().envs(given.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
    ran(limited.output().unwrap())
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let folder = TempFolder::new();
    let (stream, to) = (fixture("claude-2.1.325/tools.jsonl"), folder.path("out.html"));
    for format in ["html", "text", "steps", "stream-json"] {
        let full = without_room(&command(&["convert", "--to", format, "-o", &to, stream.to_str().unwrap()]));
        assert!(full.code == 2 && full.err.matches(&format!("cannot write {to}")).count() == 1, "{format}: {full:?}");
        assert!(!std::path::Path::new(&to).exists());
    }
}

#[test]
fn what_is_empty_or_not_set_is_named() {
    let folder = TempFolder::new();
    let empty = folder.file("empty.jsonl", "");
    for args in [&["inspect"][..], &["view"], &["convert", "--to", "markdown"]] {
        let ran = tapline(&[args, &[&empty]].concat());
        assert!(ran.err.contains(&format!("{empty} is empty\n")), "{args:?}: {ran:?}");
    }
    // Nothing is set in these tests.
    let run = tapline(&["run", "go", "--bin", &misbehaving()]);
    assert!(run.code == 2 && run.err.contains("HOME is not set"), "{run:?}");
    let stats = tapline(&["stats"]);
    assert!(stats.out.contains("No sessions found: HOME is not set"), "{stats:?}");
}

#[test]
fn a_fifo_that_nobody_reads_is_said_to_be_waited_for() {
    let folder = TempFolder::new();
    let fifo = folder.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let stream = fixture("claude-2.1.325/tools.jsonl");
    let convert = ["convert", "--to", "text", "-o", &fifo, stream.to_str().unwrap()];
    let mut child = TestProcess::from(command(&convert).stderr(Stdio::piped()).spawn().unwrap());
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("waiting for a reader") && said.contains(&fifo), "{said}");
    let mut read = String::new();
    std::fs::File::open(&fifo).unwrap().read_to_string(&mut read).unwrap();
    assert!(read.starts_with("All done"), "{read}");
    assert!(child.wait().unwrap().success());
}

#[test]
fn under_sim_it_is_said_that_the_recording_goes_and_nobody_is_billed() {
    let folder = TempFolder::new();
    let scenario = folder.file("s.toml", "turn = [{ text = \"Hello.\" }]\n");
    let tapline = env!("CARGO_BIN_EXE_tapline");
    let sim = |options: &[&str], args: &[&str]| {
        let inner = ["--env", "FAKE=key", "--", tapline, "run", "go", "--bin", &misbehaving()];
        let ended = crate::tapline::tapline(&[&["sim", &scenario][..], options, &inner, args].concat());
        assert_eq!(ended.code, 0, "{}", ended.err);
        assert!(!ended.err.contains("billed"), "{}", ended.err);
        ended.err
    };
    let gone = sim(&[], &[]);
    assert!(gone.contains("recorded in ") && gone.contains("removed when `tapline sim` ends (use --record PATH"), "{gone}");
    let kept = folder.path("kept");
    assert!(!sim(&[], &["--record", &kept]).contains("removed"), "it stays");
    assert!(std::path::Path::new(&kept).join("end.json").exists());
    assert!(!sim(&["--home", &folder.path("home")], &[]).contains("removed"), "so does a HOME that was given");
    let billed = run("key", &["--format", "lines"]);
    assert!(billed.err.contains("billed"), "elsewhere it is said: {}", billed.err);
}

#[test]
fn the_lines_of_a_transcript_are_no_noise() {
    let claude = r#"{"type":"file-history-snapshot","messageId":"m","snapshot":{}}
{"type":"queue-operation","operation":"dequeue","timestamp":"2026-11-15T21:56:14.000Z","sessionId":"s"}
{"parentUuid":null,"sessionId":"s","version":"2.1.325","type":"user","message":{"role":"user","content":"hi"},"uuid":"u1"}
{"parentUuid":"u1","sessionId":"s","attachment":{"type":"date"},"type":"attachment","uuid":"u3"}
{"type":"last-prompt","lastPrompt":"hi","sessionId":"s"}
{"parentUuid":"u1","sessionId":"s","type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"fine"}]},"uuid":"u2"}
"#;
    let codex = r#"{"timestamp":"2026-11-15T21:56:15.000Z","type":"session_meta","payload":{"id":"t","cwd":"/p"}}
{"timestamp":"2026-11-15T21:56:15.000Z","type":"event_msg","payload":{"type":"task_started"}}
{"timestamp":"2026-11-15T21:56:16.000Z","type":"response_item","payload":{"type":"message"}}
"#;
    for text in [claude, codex] {
        for args in [&["inspect"][..], &["view"], &["check"], &["convert", "--to", "markdown"], &["convert", "--to", "html"]] {
            let told = tapline_on(text.as_bytes(), args);
            assert_eq!(told.err, "", "{args:?}");
            for noise in ["does not know", "unknown-type", "drift: "] {
                assert!(!told.out.contains(noise), "{args:?}: {}", told.out);
            }
        }
        // The bytes themselves are passed on.
        assert_eq!(tapline_on(text.as_bytes(), &["convert", "--to", "stream-json"]).out, text);
    }
    let stream = b"{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\",\"permissionMode\":\"default\"}\n{\"type\":\"news\",\"session_id\":\"s\"}\n";
    assert!(tapline_on(stream, &["view"]).out.contains("does not know `news`"), "what is new in a stream is told");
}

/// A Codex that cannot do what it is asked, and says so on stderr alone: as 0.166.0 does.
pub(crate) fn rejecting_codex(folder: &TempFolder) -> String {
    let script = r#"cat >/dev/null
echo '{"type":"thread.started","thread_id":"t"}'
echo '{"type":"turn.started"}'
echo '2026-11-16T02:10:23.543012Z ERROR codex_core::tools::router: error=patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings' >&2
echo '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"Made."}}'
echo '{"type":"turn.completed","usage":{"input_tokens":24,"cached_input_tokens":0,"output_tokens":84}}'
"#;
    folder.script("codex", script)
}

#[test]
fn a_patch_that_codex_rejects_is_a_denied_call() {
    let folder = TempFolder::new();
    let bin = rejecting_codex(&folder);
    let policy = folder.file("policy.toml", "[limits]\ndenials = 0\n");
    let run = |record: &str, args: &[&str]| {
        let record = folder.path(record);
        tapline(&[&["run", "go", "--agent", "codex", "--bin", &bin, "--record", &record][..], args].concat())
    };
    let text = run("text", &["--format", "text"]);
    assert_eq!((text.code, text.out.as_str()), (0, "Made.\n"));
    let redacted = run("redacted", &["--format", "lines", "--redact", "--fail-on", "denied"]);
    assert_eq!(redacted.code, 1, "{}", redacted.err);
    assert_eq!(redacted.err.matches("denied: a patch: ").count(), 1, "{}", redacted.err);
    let stream = folder.path("text/stdout");
    let told = tapline(&["inspect", &stream, "--stderr", &folder.path("text/stderr"), "--fail-on", "denied"]);
    assert_eq!(told.code, 1, "{}", told.out);
    assert_eq!(text.err.matches("denied: a patch: writing is blocked by read-only sandbox").count(), 1, "{}", text.err);
    assert!(text.err.contains("-- -s workspace-write"), "{}", text.err);
    assert_eq!(run("fails", &["--fail-on", "denied", "--format", "text"]).code, 1);
    let report = run("report", &["--format", "report"]).out;
    let said: serde_json::Value = serde_json::from_str(&report).unwrap();
    let verdict = &said["verdict"];
    assert_eq!((verdict["outcome"].as_str(), verdict["clean"].as_bool()), (Some("success"), Some(false)), "{verdict}");
    assert!(verdict["warnings"].as_array().unwrap().iter().any(|warning| warning["code"] == "permission-denied"), "{verdict}");
    let retold: serde_json::Value = serde_json::from_str(&tapline(&["inspect", "--json", &folder.path("report")]).out).unwrap();
    assert_eq!(said, retold);
    for args in [&["view"][..], &["inspect"], &["convert", "--to", "html"], &["convert", "--to", "markdown"]] {
        let shown = tapline(&[args, &[&folder.path("report")]].concat()).out;
        assert!(shown.contains("1 call denied") && shown.contains("read-only sandbox"), "{args:?}: {shown}");
        assert!(!shown.contains("✓ success"), "{args:?}: {shown}");
    }
    assert_eq!(tapline(&["inspect", "--fail-on", "denied", &folder.path("report")]).code, 1);
    assert_eq!(run("policy", &["--policy", &policy, "--format", "text"]).code, 3);
    assert_eq!(tapline(&["check", "--policy", &policy, &folder.path("policy")]).code, 3);
}

#[test]
fn the_clock_that_stopped_a_run_is_kept() {
    let folder = TempFolder::new();
    for (name, args, words) in [
        ("timeout", &["--timeout", "1s500ms"][..], "timeout: 1s500ms passed (--timeout)"),
        ("idle-timeout", &["--idle-timeout", "700ms"], "timeout: no output for 700ms (--idle-timeout)"),
    ] {
        let record = folder.path(name);
        let page = folder.path("page.md");
        let start = ["run", "go", "--bin", &misbehaving(), "--grace", PATIENT, "--record", &record, "--summary", &page];
        let stopped = ran(command(&[&start[..], args].concat()).env("FAKE", "hang").output().unwrap());
        assert_eq!(stopped.code, 124);
        assert!(stopped.err.contains(words), "{}", stopped.err);
        let end: serde_json::Value =
            serde_json::from_slice(&std::fs::read(std::path::Path::new(&record).join("end.json")).unwrap()).unwrap();
        assert_eq!(end["clock"]["name"], name, "{end}");
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains(words), "the page says it, too: {page}");
        for args in [&["view"][..], &["inspect"], &["convert", "--to", "html"], &["convert", "--to", "markdown"]] {
            let shown = tapline(&[args, &[&record]].concat()).out.replace('\\', "");
            assert!(shown.contains(words), "{args:?}: {shown}");
        }
        let get = |path: &str| tapline(&["inspect", "--get", path, &record]).out;
        assert_eq!(get("verdict.error"), "timeout\n", "as the report words it");
    }
    let lingering = folder.path("linger");
    let start = ["run", "go", "--bin", &misbehaving(), "--grace", PATIENT, "--record", &lingering, "--linger", "300ms"];
    assert_eq!(ran(command(&start).env("FAKE", "lingers").output().unwrap()).code, 0);
    let end = std::fs::read_to_string(std::path::Path::new(&lingering).join("end.json")).unwrap();
    assert!(end.contains(r#""clock":{"name":"linger","ms":300}"#), "{end}");
    for reader in ["view", "inspect", "check"] {
        let read = tapline(&[reader, &lingering]);
        assert_eq!(read.code, 0, "{reader}");
        assert!(
            read.err.contains("the agent was still running 300ms after its final result (--linger)"),
            "{reader}: {}",
            read.err
        );
    }
}
