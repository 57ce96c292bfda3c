//! Where a command writes: into what is no regular file, through links, and a regular file whole or not at all.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use tapline_testkit::{TempFolder, TestProcess, fixture, wait_until};

use crate::run::run_command;
use crate::tapline::{command, ran, tapline};

const ANSWER: &str = "Hello from the mock model.\n";

/// The answer of a fixture, written there.
fn convert(to: &str) {
    let ran = tapline(&["convert", "--to", "text", "-o", to, fixture("claude-2.1.325/text.jsonl").to_str().unwrap()]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""), "{to}");
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Nothing but these is in a folder.
fn holds(folder: &TempFolder, names: &[&str]) {
    let entries = std::fs::read_dir(folder.path("")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut found: Vec<String> = entries.collect();
    found.sort();
    assert_eq!(found, names);
}

fn make_fifo(path: &str) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// What is read from a FIFO until its end.
fn reader(path: &str) -> std::thread::JoinHandle<String> {
    let path = path.to_owned();
    std::thread::spawn(move || read(&path))
}

/// Runs a shell script in mounts of its own.
fn with_mounts(script: &str) {
    let script = format!(
        "set -e\nconvert() {{ '{tapline}' convert --to text -o \"$1\" '{from}'; }}\n{script}",
        tapline = env!("CARGO_BIN_EXE_tapline"),
        from = fixture("claude-2.1.325/text.jsonl").display()
    );
    let done = ran(Command::new("unshare").args(["-rm", "bash", "-c", &script]).stdin(Stdio::null()).output().unwrap());
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
}

/// Waits until a program has something open in a folder that is not one of its files: what is to become one.
fn wait_for_part(child: &TestProcess, folder: &TempFolder) {
    let descriptors = format!("/proc/{}/fd", child.id());
    let is_part = |file: &Path| file.starts_with(folder.path("")) && file.file_name().is_some_and(|name| name != "out");
    wait_until("the output is open", || {
        let mut open = std::fs::read_dir(&descriptors).unwrap().map(|entry| std::fs::read_link(entry.unwrap().path()));
        open.any(|file| file.is_ok_and(|file| is_part(&file)))
    });
}

#[test]
fn convert_that_is_killed_leaves_no_half_of_a_file() {
    let folder = TempFolder::new();
    let to = folder.path("out.html");
    let mut child = command(&["convert", "--to", "html", "-o", &to]);
    let mut child = TestProcess::from(child.stdin(Stdio::piped()).spawn().unwrap());
    // It has its output open, and waits for the rest of its input.
    child.stdin.as_mut().unwrap().write_all(b"{}\n").unwrap();
    wait_for_part(&child, &folder);
    child.kill().unwrap();
    child.wait().unwrap();
    holds(&folder, &[]);
}

#[test]
fn a_device_is_written_into_and_stays_a_device() {
    let folder = TempFolder::new();
    let device = folder.file("device", "");
    // A device that nothing can replace: it is mounted there.
    with_mounts(&format!("mount --bind /dev/null '{device}'; convert '{device}'; test -c '{device}'; test ! -s '{device}'"));
    holds(&folder, &["device"]);
}

#[test]
fn a_fifo_is_written_into_and_stays_a_fifo() {
    let folder = TempFolder::new();
    let (fifo, link) = (folder.path("fifo"), folder.path("link"));
    make_fifo(&fifo);
    symlink("fifo", &link).unwrap();
    for path in [&fifo, &link] {
        let reader = reader(&fifo);
        convert(path);
        assert_eq!(reader.join().unwrap(), ANSWER);
    }
    assert!(std::fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
    holds(&folder, &["fifo", "link"]);
}

#[test]
fn a_socket_is_written_into_and_stays_a_socket() {
    let folder = TempFolder::new();
    let path = folder.path("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        text
    });
    convert(&path);
    assert_eq!(reader.join().unwrap(), ANSWER);
    assert!(std::fs::symlink_metadata(&path).unwrap().file_type().is_socket());
    holds(&folder, &["socket"]);
}

#[test]
fn links_are_followed_and_stay_links() {
    let folder = TempFolder::new();
    let target = folder.file("target", "old");
    std::fs::create_dir(folder.path("below")).unwrap();
    for (link, to) in [("one", "target"), ("two", "below/three"), ("below/three", "../target")] {
        symlink(to, folder.path(link)).unwrap();
    }
    for link in ["one", "two"] {
        folder.file("target", "old");
        convert(&folder.path(link));
        assert_eq!(read(&target), ANSWER, "{link}");
    }
    // One that leads to what is not there makes it.
    symlink("new", folder.path("dangling")).unwrap();
    convert(&folder.path("dangling"));
    assert_eq!(read(&folder.path("new")), ANSWER);
    for link in ["one", "two", "below/three", "dangling"] {
        assert!(std::fs::symlink_metadata(folder.path(link)).unwrap().is_symlink(), "{link}");
    }
    // One that leads to itself leads nowhere.
    symlink("round", folder.path("round")).unwrap();
    let ran = tapline(&["convert", "-o", &folder.path("round"), fixture("claude-2.1.325/text.jsonl").to_str().unwrap()]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    holds(&folder, &["below", "dangling", "new", "one", "round", "target", "two"]);
}

#[test]
fn a_regular_file_is_replaced_as_a_whole_and_keeps_its_mode() {
    let folder = TempFolder::new();
    let path = folder.file("out", "old and longer than what comes, so that a rest would be seen");
    for mode in [0o600, 0o640, 0o755] {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        let before = std::fs::metadata(&path).unwrap();
        convert(&path);
        let after = std::fs::metadata(&path).unwrap();
        assert_eq!(after.mode() & 0o7777, mode);
        assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
        assert_ne!(after.ino(), before.ino(), "another file took its place");
        assert_eq!(read(&path), ANSWER);
    }
    // Of several names none is left behind.
    let other = folder.path("other");
    std::fs::hard_link(&path, &other).unwrap();
    std::fs::write(&other, "old").unwrap();
    convert(&path);
    assert_eq!((read(&path), read(&other)), (ANSWER.to_owned(), ANSWER.to_owned()));
    // A name may be as long as a name can be.
    let long = "n".repeat(255);
    convert(&folder.path(&long));
    holds(&folder, &[&long, "other", "out"]);
}

#[test]
fn a_file_whose_place_cannot_be_taken_is_written_over() {
    let folder = TempFolder::new();
    let (file, place) =
        (folder.file("file", "old and longer than what comes, so that a rest would be seen"), folder.path("place"));
    std::fs::create_dir(&place).unwrap();
    let is_answer = |path: &str| format!("test \"$(cat '{path}')\" = '{}'", ANSWER.trim_end());
    // A file that is mounted there; then one in a folder that takes no other.
    with_mounts(&format!(
        "touch '{place}/out'; mount --bind '{file}' '{place}/out'; convert '{place}/out'; {same}
         echo old and longer than what comes, so that a rest would be seen > '{file}'
         mount -t tmpfs none '{place}'; touch '{place}/out'; mount --bind '{file}' '{place}/out'; mount -o remount,ro '{place}'
         ! touch '{place}/new' 2>/dev/null
         convert '{place}/out'; {same}",
        same = is_answer(&file),
    ));
    assert_eq!(read(&file), ANSWER);
}

#[test]
fn stdout_and_other_descriptors_by_their_names() {
    let folder = TempFolder::new();
    let from = fixture("claude-2.1.325/text.jsonl");
    for name in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        // A pipe; a file from its start; a file where others have written before.
        let ran = tapline(&["convert", "--to", "text", "-o", name, from.to_str().unwrap()]);
        assert_eq!((ran.code, ran.out.as_str()), (0, ANSWER), "{name}: {}", ran.err);
        let out = folder.path("out");
        let script = format!(
            "(echo before; '{tapline}' convert --to text -o {name} '{from}'; echo after) > '{out}'",
            tapline = env!("CARGO_BIN_EXE_tapline"),
            from = from.display()
        );
        assert!(Command::new("bash").args(["-c", &script]).status().unwrap().success());
        assert_eq!(read(&out), format!("before\n{ANSWER}after\n"), "{name}");
    }
    let (out, link) = (folder.path("third"), folder.path("link"));
    symlink("/dev/fd/3", &link).unwrap();
    for name in ["/dev/fd/3", &link] {
        let script = format!(
            "echo before > '{out}'; '{tapline}' convert --to text -o {name} '{from}' 3>> '{out}'",
            tapline = env!("CARGO_BIN_EXE_tapline"),
            from = from.display()
        );
        assert!(Command::new("bash").args(["-c", &script]).status().unwrap().success());
        assert_eq!(read(&out), format!("before\n{ANSWER}"), "{name}");
    }
    holds(&folder, &["link", "out", "third"]);
}

#[test]
fn what_fails_or_is_interrupted_leaves_the_old_file_and_nothing_else() {
    let folder = TempFolder::new();
    let path = folder.file("out", "old");
    for (args, code) in [
        (["--to", "text", fixture("claude-2.1.325/sigterm.jsonl").to_str().unwrap()], 4),
        (["--to", "json", fixture("codex-0.166.0/tools.jsonl").to_str().unwrap()], 2),
    ] {
        assert_eq!(tapline(&[&["convert", "-o", &path], &args[..]].concat()).code, code);
    }
    holds(&folder, &["out"]);
    // Half of it is written when the signal comes.
    let mut child =
        TestProcess::from(command(&["convert", "--to", "markdown", "-o", &path]).stdin(Stdio::piped()).spawn().unwrap());
    let stream = std::fs::read(fixture("claude-2.1.325/text.jsonl")).unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&stream).unwrap();
    wait_for_part(&child, &folder);
    child.signal("TERM");
    let status = child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
    holds(&folder, &["out"]);
    assert_eq!(read(&path), "old");
}

#[test]
fn a_summary_goes_into_a_fifo_and_through_a_link() {
    let folder = TempFolder::new();
    let (fifo, link) = (folder.path("fifo"), folder.path("link"));
    make_fifo(&fifo);
    let reader = reader(&fifo);
    assert_eq!(ran(run_command("ok", &["--summary", &fifo]).output().unwrap()).code, 0);
    let summary = reader.join().unwrap();
    assert!(summary.contains("success"), "{summary}");
    symlink("target", &link).unwrap();
    assert_eq!(ran(run_command("ok", &["--summary", &link]).output().unwrap()).code, 0);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(read(&folder.path("target")).contains("success"));
    // Nobody reads this one: it was not asked for, and is not waited for.
    let ran = ran(run_command("ok", &[]).env("GITHUB_STEP_SUMMARY", &fifo).output().unwrap());
    assert_eq!(ran.code, 0);
    assert!(ran.err.contains("cannot write the job's summary"), "{}", ran.err);
    assert!(std::fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
    holds(&folder, &["fifo", "link", "target"]);
}

#[test]
fn manual_pages_go_through_links_and_a_shim_waits_for_no_fifo() {
    let folder = TempFolder::new();
    std::fs::create_dir(folder.path("pages")).unwrap();
    symlink("../kept", folder.path("pages/tapline.1")).unwrap();
    assert_eq!(tapline(&["man", &folder.path("pages")]).code, 0);
    assert!(std::fs::symlink_metadata(folder.path("pages/tapline.1")).unwrap().is_symlink());
    assert!(read(&folder.path("kept")).contains("tapline"));
    make_fifo(&folder.path("claude"));
    let ran = tapline(&["shim", &folder.path("")]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(Path::new(&folder.path("claude")).symlink_metadata().unwrap().file_type().is_fifo());
}
