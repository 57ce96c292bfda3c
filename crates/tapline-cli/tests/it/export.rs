//! `tapline export`, `tapline archive keep` and `tapline archive status`, as people use them.

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use tapline_testkit::files::{copy_folder, files_below, mode};
use tapline_testkit::{Home, TestProcess, fixture};

use crate::tapline::{Ran, command, ran};

/// A user with transcripts of both agents.
struct User(Home);

impl User {
    fn new() -> Self {
        let user = Self(Home::new());
        copy_folder(fixture("transcripts/claude-subagents/claude"), user.path("home/.claude"));
        copy_folder(fixture("transcripts/codex-fork/codex"), user.path("home/.codex"));
        user
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        command.envs(self.0.environment()).current_dir(&self.0);
        command
    }

    fn tapline(&self, args: &[&str]) -> Ran {
        ran(self.command(args).output().unwrap())
    }

    fn json(&self, args: &[&str]) -> Value {
        let ran = self.tapline(args);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
        serde_json::from_str(&ran.out).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

#[test]
fn all_tables_go_into_a_folder_that_only_its_owner_can_read() {
    let user = User::new();
    for format in ["parquet", "csv", "ndjson"] {
        let ran = user.tapline(&["export", "--to", format, "-o", format]);
        assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{}", ran.err);
        assert!(ran.err.starts_with("tapline: wrote ") && ran.err.contains(" sessions, "), "{}", ran.err);
        let written = files_below(user.path(format));
        let names: Vec<_> = written.iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
        assert_eq!(names, ["calls", "costs", "messages", "sessions"].map(|table| format!("{table}.{format}")));
        assert!(written.iter().all(|path| mode(path) == 0o600) && mode(user.path(format)) == 0o700);
    }
    let stats = user.json(&["stats", "--json"]);
    let rows = fs::read_to_string(user.path("ndjson/costs.ndjson")).unwrap();
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for column in ["input", "output", "cache_read", "cache_write"] {
        let sum: u64 = rows.iter().map(|row| row[column].as_u64().unwrap()).sum();
        assert!(sum > 0 || column != "input");
        assert_eq!(stats["totals"][column], sum, "{column}");
    }
    let cost: f64 = rows.iter().map(|row| row["cost_usd"].as_f64().unwrap_or(0.0)).sum();
    assert!((cost - stats["totals"]["cost_usd"].as_f64().unwrap()).abs() < 1e-9);
}

#[test]
fn one_table_goes_to_stdout_or_a_file_and_several_need_a_folder() {
    let user = User::new();
    let csv = user.tapline(&["export", "--to", "csv", "--table", "sessions"]);
    assert_eq!((csv.code, csv.err.as_str()), (0, ""));
    assert!(csv.out.starts_with("session,agent,version,title,") && csv.out.ends_with("\r\n"), "{}", csv.out);
    let parquet = user.command(&["export", "--to", "parquet", "--table", "costs"]).output().unwrap().stdout;
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    assert_eq!(user.tapline(&["export", "--to", "csv", "--table", "sessions", "-o", "s.csv", "-q"]).err, "");
    assert_eq!(fs::read_to_string(user.path("s.csv")).unwrap(), csv.out);
    for args in [&["export", "--to", "csv"][..], &["export", "--to", "csv", "-o", "s.csv"], &["export"]] {
        let ran = user.tapline(args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}");
        assert!(ran.err.contains("--t"), "{args:?}: {}", ran.err);
    }
    fs::create_dir(user.path("there")).unwrap();
    user.tapline(&["export", "--to", "csv", "--table", "sessions", "-o", "there"]);
    assert_eq!(fs::read_to_string(user.path("there/sessions.csv")).unwrap(), csv.out);
}

#[test]
fn an_export_that_fails_leaves_the_old_file_and_nothing_else() {
    let user = User::new();
    fs::write(user.path("old.csv"), "old").unwrap();
    let before = files_below(user.path(""));
    let ran = user.tapline(&["export", "--to", "csv", "--table", "calls", "-o", "old.csv", "nowhere"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("nowhere"), "{}", ran.err);
    assert_eq!(fs::read_to_string(user.path("old.csv")).unwrap(), "old");
    assert_eq!(files_below(user.path("")), before);
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let user = User::new();
    for format in ["csv", "ndjson", "parquet"] {
        let mut command = user.command(&["export", "--to", format, "--table", "messages"]);
        let mut child = TestProcess::from(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        drop(child.stdout.take());
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert!(child.wait().unwrap().success() && err.is_empty(), "{format}: {err}");
    }
}

#[test]
fn a_key_in_a_title_is_not_in_a_redacted_export() {
    let user = User::new();
    let key = "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKlMnOp-QrStUvAA";
    let file =
        files_below(user.path("home/.claude")).into_iter().find(|path| path.extension().is_some_and(|end| end == "jsonl"));
    let file = file.unwrap();
    let line = format!(
        "{{\"type\":\"custom-title\",\"customTitle\":\"my {key}\",\"sessionId\":\"{}\"}}\n",
        file.file_stem().unwrap().to_str().unwrap()
    );
    fs::write(&file, fs::read_to_string(&file).unwrap() + &line).unwrap();
    let open = user.tapline(&["export", "--to", "ndjson", "--table", "sessions"]).out;
    let closed = user.tapline(&["export", "--to", "ndjson", "--table", "sessions", "--redact"]).out;
    assert!(open.contains(key), "{open}");
    assert!(closed.contains("\"my ") && !closed.contains("sk-ant") && !closed.contains("AbCdEf"), "{closed}");
}

#[test]
fn kept_transcripts_outlive_their_originals_and_the_index() {
    let user = User::new();
    let before = user.json(&["stats", "--json", "--by", "session"]);
    let nothing = user.tapline(&["archive", "status"]);
    assert!(nothing.code == 0 && nothing.out.contains("kept      nothing: `tapline archive keep`"), "{}", nothing.out);
    fs::write(user.path("home/.codex/sessions/no-session.json"), "{\"name\":\"x\"}").unwrap();
    let first = user.json(&["archive", "keep", "--json"]);
    fs::remove_file(user.path("home/.codex/sessions/no-session.json")).unwrap();
    let originals = files_below(user.path("home"));
    assert_eq!((first["new"].as_u64(), first["current"].as_u64()), (Some(originals.len() as u64), Some(0)));
    let copies: Vec<_> = files_below(user.path("tapline/archive/kept"))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "zst"))
        .collect();
    assert_eq!(copies.len(), originals.len());
    assert!(files_below(user.path("tapline")).iter().all(|path| mode(path) == 0o600));
    let again = user.tapline(&["archive", "keep"]);
    assert!(again.code == 0 && again.out.starts_with("Copied 0 files (0 new, 0 changed, 0 B); "), "{}", again.out);
    assert_eq!(user.json(&["stats", "--json", "--by", "session"]), before, "copies are not counted");

    let seen = user.tapline(&["view", "207f0d38"]);
    assert!(seen.out.contains("delegate two deep") && seen.out.lines().count() > 25, "{seen:?}");
    let report = user.json(&["inspect", "207f0d38", "--json"]);
    let subagents = user.json(&["stats", "--json", "--by", "subagent"]);
    fs::remove_dir_all(user.path("home/.claude")).unwrap();
    let kept = user.tapline(&["view", "207f0d38"]);
    assert_eq!((kept.code, &kept.out), (seen.code, &seen.out), "sub-agents are shown, too");
    assert_eq!(user.json(&["inspect", "207f0d38", "--json"])["ledger"], report["ledger"]);
    assert_eq!(user.json(&["stats", "--json", "--by", "session"]), before, "what was indexed stays counted");
    let status = user.json(&["archive", "status", "--json"]);
    assert_eq!(status["gone"]["files"], status["gone"]["kept"]);
    assert!(status["gone"]["files"].as_u64() > Some(1) && status["gone"]["lost"] == 0, "{status}");
    assert_eq!(status["vanishing"], Value::Array(Vec::new()));
    let told = user.tapline(&["archive", "status"]).out;
    assert!(told.contains("files, all of them kept\n"), "{told}");

    for file in files_below(user.path("tapline/archive")).iter().filter(|path| path.to_str().unwrap().contains("index.db")) {
        fs::remove_file(file).unwrap();
    }
    assert_eq!(user.json(&["stats", "--json", "--by", "session"])["totals"], before["totals"], "copies take their place");
    assert_eq!(user.json(&["stats", "--json", "--by", "session"])["totals"], before["totals"]);
    assert_eq!(
        user.json(&["stats", "--json", "--by", "subagent"]),
        subagents,
        "what is kept beside them says of what kind they are"
    );
    assert_eq!(user.tapline(&["view", "207f0d38"]).out, seen.out);
    assert_eq!(user.json(&["inspect", "207f0d38", "--json"])["ledger"], report["ledger"]);
}

#[test]
fn the_status_counts_what_stats_counts() {
    let user = User::new();
    let agree = |when: &str| {
        let (counted, status) = (user.json(&["stats", "--json"]), user.json(&["archive", "status", "--json"]));
        assert_eq!(status["indexed"]["sessions"], counted["totals"]["sessions"], "{when}");
        status["indexed"].clone()
    };
    let before = agree("at first");
    let other = fixture("transcripts/claude-error/stream.jsonl");
    assert_eq!(user.json(&["stats", "--json", other.to_str().unwrap()])["totals"]["sessions"], 1);
    assert_eq!(agree("after another file was counted"), before);
}

#[test]
fn the_status_says_when_files_vanish_and_how_to_keep_them() {
    let user = User::new();
    let status = user.json(&["archive", "status", "--json"]);
    let vanishing = status["vanishing"].as_array().unwrap();
    assert!(vanishing.len() > 2 && vanishing.iter().all(|file| file["agent"] == "claude" && file["copy"] == "missing"));
    assert_eq!(status["lifetimes"][0]["days"], 30);
    fs::write(user.path("home/.claude/settings.json"), "{\"cleanupPeriodDays\": 3}").unwrap();
    let told = user.tapline(&["archive", "status"]).out;
    assert!(told.contains("deletes transcripts 3 days after their last change ("), "{told}");
    assert!(told.contains(&format!("{} files within 7 days, the first on ", vanishing.len())), "{told}");
    assert!(told.contains("`tapline archive keep` copies them"), "{told}");
    assert!(told.contains("Codex deletes nothing"), "{told}");
    user.tapline(&["archive", "keep", "-q"]);
    let told = user.tapline(&["archive", "status"]).out;
    assert!(!told.contains("copies them"), "{told}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named_and_earlier_copies_stay() {
    let user = User::new();
    user.tapline(&["archive", "keep", "-q"]);
    let kept = || {
        files_below(user.path("tapline/archive/kept"))
            .into_iter()
            .map(|path| (fs::read(&path).unwrap(), path))
            .collect::<Vec<_>>()
    };
    let before = kept();
    for file in files_below(user.path("home")).iter().filter(|path| path.extension().is_some_and(|end| end == "jsonl")) {
        fs::write(file, fs::read_to_string(file).unwrap() + "{\"type\":\"summary\"}\n").unwrap();
    }
    // A copy gets its name with this call, or fails.
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=linkat", "-e", "inject=linkat:error=ENOSPC"]);
    strace.arg(env!("CARGO_BIN_EXE_tapline")).args(["archive", "keep"]);
    strace.env_clear().env("PATH", "/usr/bin:/bin").envs(user.0.environment());
    let full = ran(strace.stdin(Stdio::null()).output().expect("strace is here: scripts/test installs it"));
    assert_eq!(full.code, 2, "{}", full.err);
    assert!(full.err.contains("cannot keep ") && full.err.contains("No space left on device"), "{}", full.err);
    assert_eq!(kept(), before);
    assert_eq!(user.tapline(&["archive", "keep", "-q"]).code, 0, "and next time it works");
}

#[test]
fn what_cannot_be_sent_over_otlp_is_refused_before_anything_is_read() {
    let user = User::new();
    let otlp = ["export", "--to", "otlp"];
    for (args, words) in [
        (&["--endpoint", "127.0.0.1:4318"][..], "http://HOST:PORT"),
        (&[], "OTEL_EXPORTER_OTLP_ENDPOINT"),
        (&["--endpoint", "http://127.0.0.1:1", "--table", "costs"], "--table"),
        (&["--endpoint", "http://127.0.0.1:1", "-o", "x"], "-o"),
    ] {
        let ran = user.tapline(&[&otlp[..], args].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(words), "{args:?}: {}", ran.err);
    }
    let tables = user.tapline(&["export", "--to", "csv", "--table", "costs", "--content"]);
    assert!(tables.code == 2 && tables.err.contains("--to otlp"), "{}", tables.err);
    let secret = "a-secret-header";
    let refused = user
        .command(&["export", "--to", "otlp", "--endpoint", "http://127.0.0.1:1"])
        .env("OTEL_EXPORTER_OTLP_HEADERS", secret)
        .output();
    let refused = ran(refused.unwrap());
    assert!(
        refused.code == 2 && refused.err.contains("OTEL_EXPORTER_OTLP_HEADERS") && !refused.err.contains(secret),
        "{}",
        refused.err
    );
}
