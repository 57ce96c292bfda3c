//! What a recording keeps when tapline is killed or its disk fails, at every write. Needs strace and unshare (scripts/test
//! installs them).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tapline_testkit::agent::misbehaving;
use tapline_testkit::{TempFolder, TestProcess, signal, wait_until};

use crate::tapline::{Ran, ran, tapline};

const FILES: &[&str] = &["meta.json.part", "stdout", "stderr", "stdin", "times", "end.json.part"];

/// `tapline run` with this recording, under strace with these injections into its system calls on these files of it.
fn traced(recording: &str, mode: &str, files: &[&str], injections: &[String]) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null"]);
    for file in files {
        command.args(["-P", &format!("{recording}/{file}")]);
    }
    for injection in injections {
        command.args(["-e", injection]);
    }
    command.args([
        env!("CARGO_BIN_EXE_tapline"),
        "run",
        "go",
        "--bin",
        &misbehaving(),
        "--record",
        recording,
        "--format",
        "stream-json",
    ]);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("FAKE", mode).env("LINES_WANTED", "300").stdin(Stdio::null());
    command
}

fn run(mut command: Command) -> std::process::Output {
    command.output().expect("strace is here: scripts/test installs it")
}

/// What the agent writes, undisturbed.
fn whole(mode: &str) -> Vec<u8> {
    let output =
        Command::new(misbehaving()).env("FAKE", mode).env("LINES_WANTED", "300").stdin(Stdio::null()).output().unwrap();
    output.stdout
}

#[test]
fn killed_at_every_write_it_opens_and_nothing_that_was_passed_on_is_missing() {
    let folder = TempFolder::new();
    let whole = whole("lines");
    let mut killed = 0;
    for at in 1.. {
        let recording = folder.path(&format!("r{at}"));
        // When it comes to writing, it is dead.
        let injection = format!("inject=write:signal=SIGKILL:when={at}");
        let output = run(traced(&recording, "lines", FILES, &["trace=write".to_owned(), injection]));
        let kept = std::fs::read(format!("{recording}/stdout")).unwrap_or_default();
        assert!(whole.starts_with(&kept), "write {at}: what is kept is what was written");
        assert!(kept.starts_with(&output.stdout), "write {at}: {} passed on, {} kept", output.stdout.len(), kept.len());
        if Path::new(&recording).join("meta.json").exists() && Path::new(&recording).join("stdout").exists() {
            let opened = tapline(&["inspect", "--json", &recording]);
            assert_eq!(opened.code, 0, "write {at}: {}", opened.err);
        }
        if output.status.success() {
            assert_eq!(kept, whole);
            break;
        }
        killed += 1;
        assert!(at < 500, "it never comes through");
    }
    assert!(killed >= 6, "killed {killed} times");
}

#[test]
fn an_io_error_ends_no_run_and_is_said() {
    let folder = TempFolder::new();
    let whole = whole("lines");
    for (name, file, injections) in [
        ("write", "stdout", "inject=write:error=EIO:when=2+"),
        ("times", "times", "inject=write:error=EIO:when=1+"),
        ("sync", "stdout", "inject=fdatasync:error=EIO"),
    ] {
        let recording = folder.path(name);
        let trace = "trace=write,fdatasync".to_owned();
        let output = run(traced(&recording, "lines", &[file], &[trace, injections.to_owned()]));
        assert!(output.stdout == whole, "{name}: the run goes on");
        let Ran { code, err, .. } = ran(output);
        assert_eq!(code, 0, "{name}: {err}");
        assert!(err.contains(&format!("WARNING: the recording's {file} is incomplete from byte")), "{name}: {err}");
        let opened = tapline(&["inspect", "--get", "verdict.outcome", &recording]);
        assert_eq!(opened.code, 0);
        assert!(opened.err.contains(&format!("the recording's {file} is incomplete from byte")), "{name}: {}", opened.err);
        let kept = std::fs::read(format!("{recording}/stdout")).unwrap();
        assert!(whole.starts_with(&kept), "{name}: no hole");
    }
}

#[test]
fn a_full_disk_ends_no_run_and_the_recording_says_where_it_is_incomplete() {
    let folder = TempFolder::new();
    let (mount, out, end) = (folder.path("disk"), folder.path("out"), folder.path("end"));
    std::fs::create_dir_all(&mount).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=64k none '{mount}' || exit 99
         '{tapline}' run go --bin '{fake}' --record '{mount}/r' --format stream-json > '{out}'
         code=$?
         '{tapline}' inspect '{mount}/r' --get verdict.outcome > '{end}' 2>&1; cat '{mount}/r/end.json' >> '{end}'
         cmp -n $(stat -c %s '{mount}/r/stdout') '{mount}/r/stdout' '{out}' || exit 98
         exit $code",
        tapline = env!("CARGO_BIN_EXE_tapline"),
        fake = misbehaving(),
    );
    let mut command = Command::new("unshare");
    command.args(["-rm", "bash", "-c", &script]).env("FAKE", "lines").env("LINES_WANTED", "5000").stdin(Stdio::null());
    let done = ran(command.output().unwrap());
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.err.contains("WARNING: the recording's stdout is incomplete from byte"), "{}", done.err);
    let lines = std::fs::read_to_string(&out).unwrap().lines().count();
    assert_eq!(lines, 5_002, "every line was passed on");
    let end = std::fs::read_to_string(&end).unwrap();
    assert!(end.contains(r#""lost":[{"file":"stdout","from":"#), "{end}");
    assert!(end.contains(r#""outcome":"success""#), "what the run was is known: {end}");
}

/// `strace` that holds up the first write to a recording's stdout for twelve seconds, with this command in it. (It holds the thread
/// for so long even if the program has ended meanwhile. What tells the two apart is what the program has said.)
fn stalled(recording: &str, args: &[&str]) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-P", &format!("{recording}/stdout"), "-e", "trace=write"]);
    command.args(["-e", "inject=write:delay_enter=12000000:when=1", env!("CARGO_BIN_EXE_tapline")]).args(args);
    command.env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

const MISSING: &str = "the recording's stdout is incomplete from byte 0 on: the disk did not respond";

#[test]
fn a_stalled_disk_holds_up_no_clock_and_the_run_says_what_is_missing() {
    let folder = TempFolder::new();
    // Ended by its clock, and by itself: both end although nothing can be written.
    // The clock leaves it time to say something first.
    for (mode, timeout, code) in [("hang", "4s", 124), ("ok", "10m", 0)] {
        let recording = folder.path(mode);
        let args = ["run", "go", "--bin", &misbehaving(), "--record", &recording, "--timeout", timeout, "--grace", "300ms"];
        let done = ran(stalled(&recording, &args).env("FAKE", mode).output().unwrap());
        assert_eq!(done.code, code, "{mode}: {}", done.err);
        assert!(done.err.contains(MISSING), "{mode}: {}", done.err);
        assert!(done.out.contains("session started"), "{mode}: what was said is shown: {}", done.out);
    }
}

#[test]
fn a_stalled_disk_under_stdout_holds_up_no_clock() {
    let folder = TempFolder::new();
    let path = folder.path("out.txt");
    let out = std::fs::File::create(&path).unwrap();
    let mut command = held(Some(&path), "write", &["--no-record", "--timeout", "4s"]);
    let done = ran(command.env("FAKE", "hang").stdout(out).output().unwrap());
    assert_eq!(done.code, 124, "{}", done.err);
    assert!(done.err.contains("stopping the agent"), "the clock was heard: {}", done.err);
    assert!(done.err.contains("bytes were not written to stdout: its reader, or the disk, did not respond"), "{}", done.err);
}

/// Waits until a thread of tapline's, which strace has started, is held up; its number.
fn held_up(strace: &TestProcess) -> u32 {
    let children = format!("/proc/{0}/task/{0}/children", strace.id());
    let mut tapline = String::new();
    // One of its threads is held where it writes: strace stops threads all the time, but none for so long.
    let is_held = |thread: &Path| {
        let stat = std::fs::read_to_string(thread.join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('t'))
    };
    let mut held: HashMap<PathBuf, u32> = HashMap::new();
    wait_until("a write is held up", || {
        // Strace tries itself out on a child before it starts tapline.
        tapline = std::fs::read_to_string(&children).unwrap();
        let tasks = std::fs::read_dir(format!("/proc/{}/task", tapline.trim()));
        for thread in tasks.into_iter().flatten().map(|entry| entry.unwrap().path()) {
            let times = held.entry(thread.clone()).or_default();
            *times = if is_held(&thread) { *times + 1 } else { 0 };
        }
        held.values().any(|times| *times == 100)
    });
    tapline.trim().parse().unwrap()
}

#[test]
fn a_stalled_disk_holds_up_no_signal() {
    let folder = TempFolder::new();
    let recording = folder.path("r");
    let args = ["run", "go", "--bin", &misbehaving(), "--record", &recording, "--grace", "300ms"];
    let child = TestProcess::from(stalled(&recording, &args).env("FAKE", "hang").spawn().unwrap());
    let tapline = held_up(&child);
    signal(tapline, "TERM");
    let mut child = child;
    let mut err = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut err).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143), "{err}");
    assert!(err.contains("stopping the agent") && err.contains(MISSING), "{err}");
}

#[test]
fn a_stalled_disk_does_not_keep_tee_from_exiting() {
    let folder = TempFolder::new();
    let recording = folder.path("r");
    let done =
        ran(stalled(&recording, &["tee", "--bin", &misbehaving(), "--record", &recording, "--", "-p"]).output().unwrap());
    assert_eq!(done.code, 0, "{}", done.err);
    assert_eq!(done.out.lines().count(), 3, "every line was passed on");
    assert!(done.err.contains(MISSING), "{}", done.err);
}

/// `tapline run` of the fake agent, under strace that holds up the first of these system calls (on this file) for twelve seconds.
fn held(file: Option<&str>, calls: &str, args: &[&str]) -> Command {
    let mut command = Command::new("strace");
    let inject = format!("inject={calls}:delay_enter=12000000:when=1");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={calls}"), "-e", &inject]);
    command.args(file.into_iter().flat_map(|file| ["-P", file]));
    command.args([env!("CARGO_BIN_EXE_tapline"), "run", "go", "--bin", &misbehaving(), "--grace", "300ms"]).args(args);
    command.env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_recording_that_cannot_be_begun_holds_up_no_clock_and_no_signal() {
    let folder = TempFolder::new();
    let recording = folder.path("late");
    let file = format!("{recording}/meta.json.part");
    let done = ran(held(Some(&file), "openat", &["--record", &recording, "--timeout", "1s"]).output().unwrap());
    assert_eq!(done.code, 124, "{}", done.err);
    assert!(done.err.contains("before the agent was started"), "{}", done.err);

    let recording = folder.path("interrupted");
    let file = format!("{recording}/meta.json.part");
    let mut child = TestProcess::from(held(Some(&file), "openat", &["--record", &recording]).spawn().unwrap());
    let tapline = held_up(&child);
    signal(tapline, "TERM");
    let mut told = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut told).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(!told.contains("session started"), "the agent was not started: {told}");
}

#[test]
fn a_summary_that_cannot_be_written_holds_up_no_clock_and_no_signal() {
    let folder = TempFolder::new();
    let summary = folder.path("summary.md");
    // Where it is looked at before the run,
    let calls = "readlink,readlinkat,statx,newfstatat";
    let done = ran(held(Some(&summary), calls, &["--no-record", "--summary", &summary, "--timeout", "1s"]).output().unwrap());
    assert_eq!(done.code, 124, "{}", done.err);
    assert!(done.err.contains("could not be opened in time"), "{}", done.err);
    // and where it is written after it.
    let calls = "rename,renameat,renameat2";
    let done = ran(held(None, calls, &["--no-record", "--summary", &summary]).output().unwrap());
    assert_eq!(done.code, 2, "{}", done.err);
    assert!(done.err.contains("summary.md: the disk did not respond"), "{}", done.err);
    // Unasked, it fails nothing.
    let job = folder.file("job.md", "");
    let done = ran(held(Some(&job), "openat", &["--no-record"]).env("GITHUB_STEP_SUMMARY", &job).output().unwrap());
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.err.contains("job.md: the disk did not respond"), "{}", done.err);
}

#[test]
fn a_recording_that_cannot_be_begun_does_not_keep_tee_from_starting() {
    let folder = TempFolder::new();
    let recording = folder.path("recordings");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-P", &recording, "-e", "trace=mkdir,mkdirat"]);
    command.args(["-e", "inject=mkdir,mkdirat:delay_enter=30000000:when=1", env!("CARGO_BIN_EXE_tapline"), "tee"]);
    command.args(["--bin", &misbehaving(), "--record-in", &recording, "--", "-p"]).stdin(Stdio::null());
    let done = ran(command.env_clear().env("PATH", "/usr/bin:/bin").output().unwrap());
    assert_eq!((done.code, done.out.lines().count()), (0, 3), "{}", done.err);
    assert!(done.err.contains("not recorded: the disk did not respond"), "{}", done.err);
}
