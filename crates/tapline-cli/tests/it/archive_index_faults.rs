//! The index of the archive when tapline is killed, when the disk is full or fails, when several run at once, and when the
//! index is damaged: the numbers of the next run are right, every time. Needs strace (scripts/test installs it).

use std::process::{Command, Stdio};

use serde_json::Value;
use tapline_testkit::rounds;

use crate::stats::{Home, answer};
use crate::tapline::{Ran, command, ran};

/// `tapline stats --json` under strace, with this injection into its system calls.
fn traced(home: &Home, calls: &str, injection: &str) -> std::io::Result<std::process::Output> {
    traced_with(home, &["stats", "--json"], calls, injection)
}

/// A command under strace, with this injection into its system calls.
pub(crate) fn traced_with(home: &Home, args: &[&str], calls: &str, injection: &str) -> std::io::Result<std::process::Output> {
    tapline_testkit::catch_ignored_signals();
    let mut command = Command::new("strace");
    command.args([
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        &format!("trace={calls}"),
        "-e",
        &format!("inject={calls}:{injection}"),
    ]);
    command.arg(env!("CARGO_BIN_EXE_tapline")).args(args).env_clear().env("PATH", "/usr/bin:/bin");
    home.set(command).stdin(Stdio::null()).output()
}

fn json(out: &str) -> Value {
    serde_json::from_str(out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

pub(crate) fn forget_index(home: &Home) {
    let _ = std::fs::remove_dir_all(home.path("tapline"));
}

const CASES: &[&str] = &["claude-models", "codex-fork"];

#[test]
fn killed_at_every_write_the_next_run_is_right() {
    let home = Home::new(CASES);
    let wanted = home.stats(&[]);
    let mut killed = 0;
    // SQLite writes with pwrite64, cuts files with ftruncate, and removes its log with unlink.
    for calls in ["pwrite64", "ftruncate", "unlink"] {
        for at in (1..).step_by(rounds(4, 1)) {
            forget_index(&home);
            let output = traced(&home, calls, &format!("signal=SIGKILL:when={at}")).unwrap();
            if output.status.success() {
                break;
            }
            killed += 1;
            assert_eq!(home.stats(&[]), wanted, "killed at {calls} {at}");
            assert_eq!(home.stats(&[]), wanted, "and once more");
            assert!(at < 2_000, "it never comes through");
        }
    }
    assert!(killed >= rounds(3, 6), "killed {killed} times");
}

#[test]
fn killed_while_it_adds_to_an_index_the_next_run_is_right() {
    let home = Home::new(CASES);
    home.stats(&[]);
    for at in (1..).step_by(rounds(4, 1)) {
        home.write(
            "home/.claude/projects/more/s.jsonl",
            &(1..=at).map(|n| answer(&format!("m{n}"), "s", "2026-11-16T10:00:00Z")).collect::<String>(),
        );
        let output = traced(&home, "pwrite64", &format!("signal=SIGKILL:when={at}")).unwrap();
        let got = home.stats(&["--by", "session"]);
        let more = got["rows"].as_array().unwrap().iter().find(|row| row["key"] == "s").unwrap();
        assert_eq!(more["requests"], at, "killed at write {at}");
        if output.status.success() {
            assert!(at > 2, "{at}");
            break;
        }
        assert!(at < 500, "it never comes through");
    }
}

#[test]
fn a_full_or_failing_disk_changes_no_number_and_is_said() {
    let home = Home::new(CASES);
    let wanted = home.stats(&[]);
    let mut told = 0;
    for error in ["ENOSPC", "EIO"] {
        for from in [1, 2, 3, 5, 8, 13, 21, 34] {
            forget_index(&home);
            let Ran { code, out, err } = ran(traced(&home, "pwrite64", &format!("error={error}:when={from}+")).unwrap());
            assert_eq!(code, 0, "{error} from {from}: {err}");
            assert_eq!(json(&out), wanted, "{error} from {from}");
            told += usize::from(err.contains("the index of the archive cannot be kept"));
            assert_eq!(home.stats(&[]), wanted, "and later");
        }
    }
    assert!(told > 4, "{told}");
}

#[test]
fn on_a_full_disk_what_is_gone_stays_counted_and_what_is_new_counts() {
    let home = Home::new(CASES);
    let before = home.stats(&[]);
    std::fs::remove_dir_all(home.path("home/.codex")).unwrap();
    home.write("home/.claude/projects/more/s.jsonl", &answer("m1", "s", "2026-11-16T10:00:00Z"));
    let Ran { code, out, err } = ran(traced(&home, "pwrite64", "error=ENOSPC:when=1+").unwrap());
    assert_eq!(code, 0, "{err}");
    let requests = |counted: &Value| counted["totals"]["requests"].as_u64().unwrap();
    assert_eq!(requests(&json(&out)), requests(&before) + 1, "{err}");
    assert!(err.contains("the index of the archive cannot be kept"), "{err}");
}

#[test]
fn several_runs_at_once_agree() {
    let home = Home::new(&["claude-fork", "claude-subagents", "codex-fork", "claude-2.0.76"]);
    let wanted = home.stats(&[]);
    for _ in 0..3 {
        forget_index(&home);
        let start = |_| home.set(command(&["stats", "--json"])).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let children: Vec<_> = (0..6).map(start).collect();
        for child in children {
            let Ran { code, out, err } = ran(child.wait_with_output().unwrap());
            assert_eq!((code, err.as_str()), (0, ""));
            assert_eq!(json(&out), wanted);
        }
    }
}

/// Every command that reads the index. What they print is the same each time.
const READERS: &[&[&str]] = &[
    &["stats", "--json"],
    &["stats", "--explain", "a5e431eb", "--json"],
    &["sessions", "--json"],
    &["sessions", "--resume-command", "a5e431eb"],
    &["view", "a5e431eb"],
    &["inspect", "a5e431eb", "--json"],
    &["export", "--to", "ndjson", "--table", "messages", "-o", "-"],
    &["archive", "status", "--json"],
    &["archive", "keep", "--json"],
];

/// Flips bytes of an index at some places where something is written, one after the other, and does something with each.
fn damaged_at(home: &Home, good: &[u8], places: usize, mut then: impl FnMut(usize)) {
    let index = home.path("tapline/archive/index.db");
    let is_written = |at: &usize| good[*at..].iter().take(64).any(|byte| *byte != 0);
    let written: Vec<usize> = (0..good.len()).step_by(64).filter(is_written).collect();
    for &at in written.iter().step_by(written.len().div_ceil(places)) {
        let mut bytes = good.to_vec();
        for byte in bytes.iter_mut().skip(at).take(64) {
            *byte ^= 0x5a;
        }
        for ending in ["", "-wal", "-shm", ".old", ".old-wal", ".old-shm"] {
            let _ = std::fs::remove_file(format!("{index}{ending}"));
        }
        std::fs::write(&index, &bytes).unwrap();
        then(at);
    }
}

const REBUILT: &str = "the index of the archive was damaged: it is built again";

#[test]
fn a_damaged_index_is_built_again_by_every_command_and_that_is_said() {
    let home = Home::new(CASES);
    home.stats(&[]);
    let good = std::fs::read(home.path("tapline/archive/index.db")).unwrap();
    for args in READERS {
        let _ = std::fs::remove_dir_all(home.path("tapline/archive/kept"));
        let Ran { code, out: wanted, err } = home.run(args);
        assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
        assert!(!wanted.is_empty(), "{args:?}");
        let mut told = 0;
        damaged_at(&home, &good, rounds(10, 40), |at| {
            let _ = std::fs::remove_dir_all(home.path("tapline/archive/kept"));
            let Ran { code, out, err } = home.run(args);
            assert_eq!((code, &out), (0, &wanted), "{args:?}, damaged at {at}: {err}");
            assert!(err.lines().all(|line| line.contains(REBUILT)), "{args:?}, damaged at {at}: {err}");
            told += usize::from(err.contains(REBUILT));
            assert_eq!(home.run(&["stats", "--json"]).code, 0, "{args:?}, damaged at {at}, once more");
        });
        assert!(told > rounds(1, 5), "{args:?}: {told}");
    }
}

#[test]
fn a_damaged_index_is_built_again_with_what_is_kept_of_files_that_are_gone() {
    let home = Home::new(CASES);
    let wanted = home.stats(&["--by", "session"]);
    assert_eq!(home.run(&["archive", "keep", "--quiet"]).code, 0);
    for agent in [".claude", ".codex"] {
        std::fs::remove_dir_all(home.path(&format!("home/{agent}"))).unwrap();
    }
    assert_eq!(home.stats(&["--by", "session"]), wanted);
    let good = std::fs::read(home.path("tapline/archive/index.db")).unwrap();
    let mut told = 0;
    damaged_at(&home, &good, rounds(10, 40), |at| {
        let Ran { code, out, err } = home.run(&["stats", "--json", "--by", "session"]);
        assert_eq!((code, json(&out)), (0, wanted.clone()), "damaged at {at}: {err}");
        told += usize::from(err.contains(REBUILT));
    });
    assert!(told > rounds(1, 5), "{told}");
}

#[test]
fn a_folder_that_cannot_be_written_is_said_and_all_is_counted() {
    let home = Home::new(CASES);
    let wanted = home.stats(&[]);
    forget_index(&home);
    // A file where the folder should be: nobody can write there, not even root.
    home.write("tapline", "");
    let Ran { code, out, err } = home.run(&["stats", "--json"]);
    assert_eq!((code, json(&out)), (0, wanted), "{err}");
    assert!(err.contains("the index of the archive cannot be kept"), "{err}");
}

#[test]
fn what_cannot_be_read_is_named() {
    let home = Home::new(CASES);
    let wanted = home.stats(&[]);
    std::os::unix::fs::symlink("/proc/self/mem", home.path("home/.claude/projects/broken.jsonl")).unwrap();
    let Ran { code, out, err } = home.run(&["stats", "--json"]);
    assert_eq!((code, json(&out)), (0, wanted));
    assert!(err.contains("cannot read ") && err.contains("broken.jsonl: "), "{err}");
}

#[test]
fn files_with_damaged_lines_are_named_the_first_five_on_stderr_and_all_in_json() {
    let home = Home::new(&[]);
    let paths: Vec<String> = (1..=7)
        .map(|number| {
            let good = answer(&format!("m{number}"), &format!("s{number}"), "2026-11-16T10:00:00Z");
            home.write(
                &format!("home/.claude/projects/p/s{number}.jsonl"),
                &(good + &"{\"message\":{\"usage\":{\n".repeat(number)),
            )
        })
        .collect();
    for _ in 0..2 {
        let Ran { code, out, err } = home.run(&["stats", "--json"]);
        let counted = json(&out);
        assert_eq!((code, &counted["totals"]["requests"], &counted["damaged_lines"]), (0, &7.into(), &28.into()), "{err}");
        let named: Vec<_> = counted["damaged_files"].as_array().unwrap().iter().collect();
        assert_eq!(named.len(), 7, "{named:?}");
        for (at, path) in paths.iter().enumerate() {
            assert_eq!((&named[at]["path"], &named[at]["lines"]), (&path.as_str().into(), &(at + 1).into()));
            let lines = if at == 0 { "1 line".to_owned() } else { format!("{} lines", at + 1) };
            assert_eq!(err.contains(&format!("{lines} of {path} could not be read")), at < 5, "{err}");
        }
        assert!(err.contains("and 13 lines of 2 other files"), "{err}");
        assert_eq!(err.lines().count(), 6, "{err}");
        let table = home.run(&["stats"]);
        assert!(table.out.contains("28 lines could not be read.") && table.err == err, "{}{}", table.out, table.err);
    }
}
