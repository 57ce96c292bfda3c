//! Runs the binary in an empty environment, and finds the fixtures.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::signals;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub(crate) fn fixture(name: &str) -> PathBuf {
    root().join("fixtures").join(name)
}

/// Every fixture that is a stream: lines of Claude's or Codex's.
pub(crate) fn streams() -> Vec<PathBuf> {
    let folders = std::fs::read_dir(root().join("fixtures")).unwrap().map(|entry| entry.unwrap().path());
    let folders = folders.filter(|path| path.is_dir() && !path.ends_with("cases"));
    let files = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).collect();
    files.retain(|path| !path.ends_with("json.jsonl") && !path.ends_with("jsonverbose.jsonl"));
    files.sort();
    assert!(files.len() > 15, "the fixtures are there");
    files
}

/// Whoever takes longer hangs. No speed is tested by it: a busy machine may be slow.
pub(crate) const HANG: Duration = Duration::from_secs(120);

/// The `--grace` of an agent that ends at the first signal, where the recording must have its end: a stopped run waits for
/// the disk no longer than this, and the disk of a busy machine may be slow.
pub(crate) const PATIENT: &str = "60s";

/// Waits until this is so.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + HANG;
    while !is_so() {
        assert!(Instant::now() < until, "it never came to this: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn command(args: &[&str]) -> Command {
    signals::catch_ignored();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tapline"));
    command.args(args).env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
    command
}

/// What a run gave.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().expect("no signal"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

pub(crate) fn tapline(args: &[&str]) -> Ran {
    ran(command(args).output().unwrap())
}

/// Runs it with this on stdin.
pub(crate) fn tapline_on(input: &[u8], args: &[&str]) -> Ran {
    let mut child = command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    ran(output)
}

/// A child that does not outlive its test.
pub(crate) struct Bounded(pub(crate) Child);

impl Drop for Bounded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder of a test's own, gone afterwards.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tapline-test-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
