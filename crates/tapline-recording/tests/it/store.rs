//! Recordings are found again: the newest, by their names, and by the session's id.

use std::path::PathBuf;

use tapline_recording::{FindError, Meta, Recorder, Store, Stream, Sync, attempt_folder, recording_name};
use tapline_testkit::TempFolder;

struct Kept {
    _folder: TempFolder,
    store: Store,
}

impl Kept {
    fn new() -> Self {
        let folder = TempFolder::new();
        Self { store: Store::at(folder.join("home")), _folder: folder }
    }

    /// A recording of this name, in which the agent wrote this.
    fn record(&self, name: &str, line: &str) -> PathBuf {
        let path = self.store.folder().join(name);
        let mut recorder = Recorder::create(&path, &Meta::default(), Sync::Always).unwrap();
        recorder.write_at(Stream::Stdout, line.as_bytes(), std::time::Duration::ZERO);
        path
    }

    fn find(&self, id: &str) -> Option<PathBuf> {
        self.store.find(id).ok()
    }
}

#[test]
fn a_recording_is_found_by_last_by_its_name_and_by_its_session() {
    let kept = Kept::new();
    assert!(matches!(kept.store.find("last"), Err(FindError::Empty(_))));
    let session = |id: &str| format!("{{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"{id}\"}}\n");
    let first = kept.record("2026-11-15T10-00-00Z-0a1b2c3d4e", &session("aaaa-1"));
    let resumed = kept.record("2026-11-15T11-00-00Z-1a1b2c3d4e", &session("aaaa-1"));
    let other = kept.record("2026-11-16T10-00-00Z-2a1b2c3d4e", "{\"type\":\"thread.started\",\"thread_id\":\"bbbb-2\"}\n");
    std::fs::create_dir(kept.store.folder().join("2026-11-17-no-recording")).unwrap();
    assert_eq!(kept.store.list().unwrap(), [other.clone(), resumed.clone(), first.clone()]);
    for (id, expected) in [
        ("last", &other),
        ("2026-11-15T10-00-00Z-0a1b2c3d4e", &first),
        ("2026-11-15T10", &first),
        ("0a1b", &first),
        ("aaaa", &resumed),
        ("bbbb-2", &other),
    ] {
        assert_eq!(kept.find(id).as_ref(), Some(expected), "{id}");
    }
    let error = kept.store.find("2026-11-15").unwrap_err();
    let FindError::Ambiguous { names, .. } = &error else { panic!("{error}") };
    assert_eq!(names, &["2026-11-15T11-00-00Z-1a1b2c3d4e", "2026-11-15T10-00-00Z-0a1b2c3d4e"]);
    for unknown in ["cccc", "0a1", "", "no-recording"] {
        assert!(matches!(kept.store.find(unknown), Err(FindError::Unknown { .. })), "{unknown}");
    }
}

#[test]
fn the_attempts_of_a_run_are_one_and_the_last_counts() {
    let kept = Kept::new();
    let first = kept.record(&recording_name(), "{}\n");
    let second = attempt_folder(first.clone(), 2);
    assert_eq!(attempt_folder(first.clone(), 1), first);
    kept.record(second.file_name().unwrap().to_str().unwrap(), "{}\n");
    let name = first.file_name().unwrap().to_str().unwrap();
    assert_eq!(kept.find(&name[..12]), Some(second), "of the start of both names");
    assert_eq!(kept.find(name), Some(first), "its own name is one recording's");
}

#[test]
fn the_tenth_attempt_is_newer_than_the_ninth() {
    let kept = Kept::new();
    let run = "2026-11-16T06-46-57Z-0a1b2c3d4e";
    let mut made = vec![kept.record(run, "{}\n")];
    made.extend((2..=11).map(|attempt| kept.record(&format!("{run}-{attempt}"), "{}\n")));
    assert_eq!(kept.find("last"), made.last().cloned());
    assert_eq!(kept.find("0a1b"), made.last().cloned());
    let other = kept.record("2026-11-16T06-46-58Z-0000000000", "{}\n");
    // A name without a time says nothing about when it was made.
    made.insert(0, kept.record("zz-imported", "{}\n"));
    made.push(other);
    made.reverse();
    assert_eq!(kept.store.list().unwrap(), made);
}

#[test]
fn of_an_id_that_fits_many_recordings_some_are_named_and_the_rest_counted() {
    let kept = Kept::new();
    for day in 1..=7 {
        kept.record(&format!("2026-11-0{day}T06-46-57Z-0a1b2c3d4{day}"), "{}\n");
    }
    let error = kept.store.find("2026").unwrap_err().to_string();
    assert!(error.starts_with("`2026` is the start of several recordings: 2026-11-07"), "{error}");
    assert!(error.ends_with("2026-11-03T06-46-57Z-0a1b2c3d43 and 2 more"), "{error}");
}

#[test]
fn names_sort_by_time() {
    let (one, other) = (recording_name(), recording_name());
    assert!(one <= other && one.len() == "2026-11-16T06-46-57Z-0a1b2c3d4e".len(), "{one} {other}");
}
