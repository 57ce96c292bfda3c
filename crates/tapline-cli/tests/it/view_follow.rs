//! `tapline view --follow`: more is waited for, across truncation and rotation.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use tapline_testkit::{TempFolder, TestProcess};

use crate::tapline::{command, ran};

fn said(text: &str) -> String {
    format!("{{\"type\":\"assistant\",\"message\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}}}\n")
}

#[test]
fn a_file_that_is_not_there_yet_is_waited_for() {
    let folder = TempFolder::new();
    let path = folder.path("later.jsonl");
    let mut child = command(&["view", "--follow", &path]);
    let mut child = TestProcess::from(child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut told = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut told).unwrap();
    assert!(told.starts_with(&format!("tapline: waiting for {path}, which does not exist yet (Ctrl-C ")), "{told}");
    std::fs::write(&path, said("here")).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap).filter(|line| !line.is_empty());
    assert_eq!(lines.next().unwrap(), "here");
    assert_eq!(crate::tapline::tapline(&["view", "--follow", "a", "b"]).code, 2);
}

#[test]
fn a_recording_is_followed_by_its_path_its_id_and_last() {
    let folder = TempFolder::new();
    let home = folder.path("home");
    let recording = folder.path("home/recordings/2026-11-16T06-46-57Z-0a1b2c3d4e");
    std::fs::create_dir_all(&recording).unwrap();
    std::fs::write(format!("{recording}/meta.json"), "{}").unwrap();
    std::fs::write(format!("{recording}/stdout"), said("recorded")).unwrap();
    for path in ["last", "0a1b2c", &recording] {
        let mut child = command(&["view", "--follow", path]);
        let mut child = TestProcess::from(child.env("TAPLINE_HOME", &home).stdout(Stdio::piped()).spawn().unwrap());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.find(|line| !line.is_empty()).as_deref(), Some("recorded"), "{path}");
    }
    let none = ran(command(&["view", "--follow", "last"]).env("TAPLINE_HOME", folder.path("empty")).output().unwrap());
    assert!(
        none.code == 2 && none.err.contains("no recording") && none.err.contains("`tapline run` makes one"),
        "{}",
        none.err
    );

    let shim = |recording: &str| {
        let args = ["shim", &folder.path("shim"), "--replay", recording];
        ran(command(&args).env("TAPLINE_HOME", &home).output().unwrap())
    };
    for path in ["last", "0a1b2c", &recording] {
        let made = shim(path);
        assert_eq!(made.code, 0, "{path}: {}", made.err);
        let script = std::fs::read_to_string(made.out.trim()).unwrap();
        assert!(script.contains(&recording), "it stays this recording, whatever is recorded later: {script}");
        let asked = ["replay", path, "--", "--version"];
        assert_eq!(ran(command(&asked).env("TAPLINE_HOME", &home).output().unwrap()).code, 0, "{path}");
    }
}

#[test]
fn a_growing_file_is_followed() {
    let folder = TempFolder::new();
    let path = folder.file("run.jsonl", said("one"));
    let mut child = TestProcess::from(command(&["view", "--follow", &path]).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap).filter(|line| !line.is_empty());
    assert_eq!(lines.next().unwrap(), "one");

    let append = |text: &str| OpenOptions::new().append(true).open(&path).unwrap().write_all(text.as_bytes()).unwrap();
    append(&said("two"));
    assert_eq!(lines.next().unwrap(), "two");

    std::fs::write(&path, said("3")).unwrap();
    assert_eq!(lines.next().unwrap(), "3");

    std::fs::rename(&path, folder.path("run.jsonl.1")).unwrap();
    std::fs::write(&path, said("rotated")).unwrap();
    assert_eq!(lines.next().unwrap(), "rotated");
}
