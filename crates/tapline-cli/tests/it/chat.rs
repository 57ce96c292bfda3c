//! `tapline chat` by a script and `run --permissions`, against an agent that misbehaves on demand. (In a terminal, and with the real
//! programs: tests/e2e.)

use std::io::Write as _;
use std::process::Stdio;

use tapline_testkit::agent::misbehaving;
use tapline_testkit::{TempFolder, TestProcess, unique, wait_until};

use crate::run::run_command;
use crate::run_stop::left_of;
use crate::tapline::{Ran, command, ran, tapline};

/// A script's output.
fn chat(mode: &str, args: &[&str], lines: &str) -> Ran {
    let mut command = command(&[&["chat", "--bin", &misbehaving(), "--no-record"], args].concat());
    command.env("FAKE", mode).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // An agent that is gone takes no more.
    let _ = child.stdin.take().unwrap().write_all(lines.as_bytes());
    ran(child.wait_with_output().unwrap())
}

/// One that answers and goes when its input ends.
const SESSION: &str = "session-and-go";

#[test]
fn a_prompt_a_line() {
    let ran = chat(SESSION, &["--format", "text"], "one\n\ntwo\r\nthree \\\ngoes on");
    assert_eq!((ran.code, ran.out.as_str()), (0, "done\n\ndone\n\ndone\n"), "{}", ran.err);
    let ran = chat(SESSION, &["--format", "stream-json"], "one\n");
    assert!(ran.out.lines().any(|line| line.contains(r#""type":"result""#)), "{}", ran.out);
    let ran = chat(SESSION, &[], "one\n");
    assert!(ran.out.contains("› one") && ran.out.contains("✓ success"), "{}", ran.out);
    assert!(ran.err.contains("continue with: tapline chat --resume fake-session"), "{}", ran.err);
    for (nothing, code) in [("", 2), ("\n\n", 2), ("/quit\nnever\n", 0)] {
        let ran = chat(SESSION, &["--format", "text"], nothing);
        assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{nothing:?}: {}", ran.err);
    }
}

#[test]
fn what_is_not_utf_8_is_said() {
    let folder = TempFolder::new();
    let script = folder.path("script");
    std::fs::write(&script, b"caf\xe9\n").unwrap();
    let ran = chat(SESSION, &["--format", "text", "--script", &script], "");
    assert!(ran.code == 0 && ran.err.contains("not valid UTF-8"), "{}", ran.err);
    let missing = folder.path("missing");
    let ran = chat(SESSION, &["--script", &missing], "");
    assert!(
        ran.code == 2 && ran.err.contains("cannot read the script") && ran.err.contains("tapline help chatting"),
        "{}",
        ran.err
    );
}

#[test]
fn agents_that_do_not_talk() {
    // It ends at once, says nothing, or dies when it is spoken to.
    let ran = chat("nothing", &[], "one\n");
    assert_eq!(ran.code, 4, "{}", ran.err);
    let ran = chat("dies-when-asked", &["--format", "text"], "one\ntwo\n");
    assert_eq!((ran.code, ran.out.as_str()), (4, ""), "{}", ran.err);
    assert!(!ran.err.is_empty(), "why is said");
    let ran = ran_of(&["chat", "--no-record", "--bin", "/nowhere/claude"], "one\n");
    assert!(ran.code == 127 && ran.err.contains("not found") && ran.err.contains("--bin PATH"), "{}", ran.err);
}

fn ran_of(args: &[&str], lines: &str) -> Ran {
    let mut child = command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(lines.as_bytes());
    ran(child.wait_with_output().unwrap())
}

#[test]
fn what_an_agent_refuses_is_told_with_our_flags() {
    let codex = ["--agent", "codex"];
    for (args, said) in [
        (&["--fork"][..], "--fork: it needs a session to copy; use --resume ID or --continue"),
        (&["--resume", "-x"], "--resume: `-x` is not a session id"),
        (&["--json-schema", "[]"], "--json-schema: a schema must be an object"),
        (
            &["--", "--output-format=text"],
            "--output-format after `--`: tapline reads stream-json; --format chooses what you see",
        ),
        (
            &["--", "--replay-user-messages"],
            "--replay-user-messages after `--`: without messages on its stdin the agent exits; use --input stream-json",
        ),
        (&[&codex[..], &["--fork"]].concat(), "--fork: it needs a session to copy; use --resume ID"),
        (
            &[&codex[..], &["--fork", "--continue"]].concat(),
            "--fork: codex copies a session by its id, not the last one; use --resume ID",
        ),
        (&[&codex[..], &["--max-turns", "3"]].concat(), "--max-turns: codex has no such option; use --timeout"),
        (&[&codex[..], &["--system-prompt", "x"]].concat(), "--system-prompt: codex has no such option; use --agent claude"),
        (
            &[&codex[..], &["--allowed-tools", "Read"]].concat(),
            "--allowed-tools: codex has no such option, but a sandbox; use `-- -s read-only`",
        ),
        (&[&codex[..], &["--input", "stream-json"]].concat(), "--input stream-json: codex takes only one prompt"),
    ] {
        let ran = tapline(&[&["run", "go", "--no-record", "--bin", &misbehaving()], args].concat());
        assert_eq!((ran.code, ran.err.as_str()), (2, &*format!("tapline: {said}\n")), "{args:?}");
    }
}

#[test]
fn options_that_cannot_be_read_are_told_by_their_flag() {
    for (flag, given, said) in [
        ("--agents", "[]", "--agents: write it like {\"NAME\": {\"description\""),
        ("--agents", r#"{"x":{"prompt":"p"}}"#, "missing field `description`"),
        ("--agents", "/no/such", "--agents: cannot read /no/such"),
        ("--setting-sources", "user,team", "`team` is not a source of settings: use user, project or local"),
        ("--plugin-dir", "/no/such", "--plugin-dir: /no/such does not exist"),
    ] {
        let ran = tapline(&["run", "go", "--no-record", "--bin", &misbehaving(), flag, given]);
        assert!(ran.code == 2 && ran.err.contains(said), "{flag} {given}: {}", ran.err);
    }
}

#[test]
fn what_goes_with_what() {
    let folder = TempFolder::new();
    let rules = folder.file("rules.toml", "allow = [{ tool = \"Read\" }]\n");
    let bypass = ["--permissions", &rules, "--permission-mode", "bypassPermissions"];
    for args in [&bypass[..], &["--permissions", &rules, "--", "--dangerously-skip-permissions"]] {
        let ran = chat(SESSION, args, "one\n");
        assert!(ran.code == 2 && ran.err.contains("the agent would not ask for permission"), "{args:?}: {}", ran.err);
    }
    assert_eq!(chat(SESSION, &["--permission-mode", "bypassPermissions"], "one\n").code, 0);
    let ran = tapline(&["run", "go", "--no-record", "--agent", "codex", "--bin", &misbehaving(), "--permissions", &rules]);
    assert!(ran.code == 2 && ran.err.contains("--permissions: codex asks nobody"), "{}", ran.err);
    let instead = "use `-- -s read-only` or `-- -s workspace-write` (tapline check --permissions shows afterwards";
    assert!(ran.err.contains(instead), "what to use instead: {}", ran.err);
    let ran =
        tapline(&["run", "go", "--no-record", "--input", "stream-json", "--bin", &misbehaving(), "--permissions", &rules]);
    assert!(ran.code == 2 && ran.err.contains("the program that sends the messages"), "{}", ran.err);
    let wrong = folder.file("wrong.toml", "deny = [{ tool = [] }]\n");
    let ran = chat(SESSION, &["--permissions", &wrong], "one\n");
    assert!(ran.code == 2 && ran.err.contains("must be at least one name"), "{}", ran.err);
}

/// A recording is whole, also where the reader goes away.
#[test]
fn a_reader_that_goes_away() {
    let folder = TempFolder::new();
    let recording = folder.path("recording");
    let mut child = command(&["chat", "--bin", &misbehaving(), "--record", &recording])
        .env("FAKE", SESSION)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    child.stdin.take().unwrap().write_all(b"one\ntwo\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "a closed pipe is a quiet end");
    assert!(std::path::Path::new(&recording).join("end.json").exists());
}

/// An agent that never answers the first request can be stopped like any other.
#[test]
fn a_mute_agent_is_stopped() {
    let folder = TempFolder::new();
    let rules = folder.file("rules.toml", "allow = [{ tool = \"Read\" }]\n");
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let run = run_command("hang-silent", &["--permissions", &rules, "--format", "quiet"]);
        let chat = command(&["chat", "--bin", &misbehaving(), "--no-record"]);
        for mut command in [run, chat] {
            let id = unique();
            command.env("FAKE", "hang-silent").env("FAKE_ID", &id);
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = TestProcess::from(command.spawn().unwrap());
            // Tapline, who has the word too, listens for signals before the agent is there.
            wait_until("the agent was started", || left_of(&id, child.id()) > 0);
            // Held open until it has ended: the end of its input would end it, too, and `wait` closes what the child has.
            let held = child.stdin.take();
            child.signal(name);
            assert_eq!(child.wait().unwrap().code(), Some(code), "{name}");
            drop(held);
            wait_until("nothing is left", || left_of(&id, 0) == 0);
        }
    }
}
