//! Runs the binary in an empty environment.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use tapline_testkit::catch_ignored_signals;

/// The `--grace` of an agent that ends at the first signal, where the recording must have its end: a stopped run waits for
/// the disk no longer than this, and the disk of a busy machine may be slow.
pub(crate) const PATIENT: &str = "60s";

pub(crate) fn command(args: &[&str]) -> Command {
    catch_ignored_signals();
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
