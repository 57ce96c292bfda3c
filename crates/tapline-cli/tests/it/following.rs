//! `tapline view --follow`: more is waited for, across truncation and rotation.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use crate::tapline::{Bounded, Folder, command};

fn said(text: &str) -> String {
    format!("{{\"type\":\"assistant\",\"message\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}}}\n")
}

#[test]
fn a_file_that_is_not_there_yet_is_waited_for() {
    let folder = Folder::new("follow-new");
    let path = folder.path("later.jsonl");
    let mut child = command(&["view", "--follow", &path]);
    let mut child = Bounded(child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut told = String::new();
    BufReader::new(child.0.stderr.take().unwrap()).read_line(&mut told).unwrap();
    assert!(told.starts_with("tapline: waiting for "), "{told}");
    std::fs::write(&path, said("here")).unwrap();
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap).filter(|line| !line.is_empty());
    assert_eq!(lines.next().unwrap(), "here");
    assert_eq!(crate::tapline::tapline(&["view", "--follow", "a", "b"]).code, 2);
}

#[test]
fn a_growing_file_is_followed() {
    let folder = Folder::new("follow");
    let path = folder.file("run.jsonl", &said("one"));
    let mut child = Bounded(command(&["view", "--follow", &path]).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap).filter(|line| !line.is_empty());
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
