//! Tables in a folder, in parts: only what has changed is written, and what failed is written the next time.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use tapline_archive::export::{Export, ExportFormat};
use tapline_archive::stats::Query;
use tapline_archive::{Index, Places, Prices, Selection};
use tapline_fleet::{PartitionedStore, PartitionsError, PartitionsWritten};
use tapline_recording::Store;
use tapline_testkit::files::files_below;
use tapline_testkit::{TempFolder, wait_for};
use tokio::sync::watch;

/// A folder with sessions, a data folder, and a place for tables.
struct Stage {
    folder: TempFolder,
    index: Index,
}

impl Stage {
    fn new() -> Self {
        let folder = TempFolder::new();
        std::fs::create_dir(folder.join("sessions")).unwrap();
        Self { folder, index: Index::in_memory().unwrap() }
    }

    /// Writes a session with an answer on each of these days.
    fn session(&self, session: &str, days: &[&str]) {
        let line = |(number, day): (usize, &&str)| {
            format!(
                r#"{{"type":"assistant","sessionId":"{session}","cwd":"/w","version":"2.1.0","timestamp":"{day}T10:00:{number:02}.000Z","uuid":"u{number}","requestId":"r{number}","message":{{"id":"{session}-{number}","type":"message","role":"assistant","model":"claude-opus-5-5","content":[{{"type":"text","text":"hi"}}],"stop_reason":"end_turn","usage":{{"input_tokens":10,"output_tokens":5}}}}}}
"#
            )
        };
        let text: String = days.iter().enumerate().map(line).collect();
        self.folder.write(&format!("sessions/{session}.jsonl"), text);
    }

    fn open(&self) -> Result<PartitionedStore, PartitionsError> {
        PartitionedStore::open(&Store::at(self.folder.join("data")), self.tables().to_str().unwrap())
    }

    /// Opens what was closed just now. Another test may have forked a process, which has the lock until it is another program.
    fn open_again(&self) -> PartitionedStore {
        wait_for("nobody has the lock", || match self.open() {
            Err(PartitionsError::Busy { .. }) => None,
            opened => Some(opened.unwrap()),
        })
    }

    fn tables(&self) -> PathBuf {
        self.folder.join("tables")
    }

    fn write(&mut self, to: &mut PartitionedStore, stop: bool) -> Result<PartitionsWritten, PartitionsError> {
        self.index.update(&Places::below(&[self.folder.join("sessions")]), &AtomicBool::new(false), |_| {}).unwrap();
        let query = Query::default();
        let (_sender, stop) = watch::channel(stop);
        let export = Export::new(ExportFormat::Parquet, &query);
        to.write(&export, &self.index, Prices::embedded(), &Selection::default(), &stop)
    }

    /// The files of the tables, and the number of each: a file that takes the place of another has its own.
    fn files(&self) -> BTreeMap<String, u64> {
        let mut files = BTreeMap::new();
        for path in files_below(self.tables()) {
            let name = path.parent().unwrap().strip_prefix(self.tables()).unwrap().display().to_string();
            assert_eq!(path.extension().unwrap(), "parquet");
            assert!(files.insert(name, path.metadata().unwrap().ino()).is_none(), "one file in each folder");
        }
        files
    }
}

#[test]
fn only_what_has_changed_is_written_again() {
    let mut stage = Stage::new();
    stage.session("one", &["2026-11-14"]);
    stage.session("two", &["2026-11-15"]);
    let mut to = stage.open().unwrap();
    let first = stage.write(&mut to, false).unwrap();
    assert_eq!((first.written, first.unchanged, first.rows), (7, 0, 6));
    let before = stage.files();
    let tables = ["costs", "messages", "sessions"];
    let folders = |days: &[&str]| -> Vec<String> {
        tables.iter().flat_map(|table| days.iter().map(move |day| format!("{table}/date={day}"))).collect()
    };
    // A table without rows has a file, too.
    let no_calls = ["calls/date=2026-11-14".to_owned()].into_iter();
    let expected: Vec<_> = no_calls.chain(folders(&["2026-11-14", "2026-11-15"])).collect();
    assert_eq!(before.keys().cloned().collect::<Vec<_>>(), expected);
    let second = stage.write(&mut to, false).unwrap();
    assert_eq!((second.written, second.unchanged, second.bytes), (0, 7, 0));
    // Another process knows it, too.
    drop(to);
    let mut to = stage.open_again();
    stage.session("two", &["2026-11-15", "2026-11-16"]);
    let third = stage.write(&mut to, false).unwrap();
    assert_eq!((third.written, third.unchanged), (3, 6));
    let after = stage.files();
    let same: Vec<&str> = before.iter().filter(|(name, file)| after[*name] == **file).map(|(name, _)| &**name).collect();
    assert_eq!(same.len(), 6, "{same:?}");
    assert!(!same.contains(&"sessions/date=2026-11-15"));
    // A file that somebody removed is written again, and all of them if that is asked for.
    std::fs::remove_dir_all(stage.tables().join("costs/date=2026-11-14")).unwrap();
    assert_eq!(stage.write(&mut to, false).unwrap().written, 1);
    to.forget().unwrap();
    assert_eq!(stage.write(&mut to, false).unwrap().written, 9);
}

#[test]
fn a_part_whose_rows_are_gone_is_written_without_rows() {
    let mut stage = Stage::new();
    stage.session("one", &["2026-11-14"]);
    let mut to = stage.open().unwrap();
    assert_eq!(stage.write(&mut to, false).unwrap().written, 4);
    // The archive was made anew, and the session is no longer there.
    stage.index = Index::in_memory().unwrap();
    std::fs::remove_file(stage.folder.join("sessions/one.jsonl")).unwrap();
    stage.session("two", &["2026-11-15"]);
    let second = stage.write(&mut to, false).unwrap();
    assert_eq!((second.written, second.rows), (7, 3));
    assert_eq!(stage.files().len(), 8);
    assert_eq!(stage.write(&mut to, false).unwrap().written, 0);
}

#[test]
fn what_failed_is_written_the_next_time_and_nothing_is_half_written() {
    let mut stage = Stage::new();
    stage.session("one", &["2026-11-14"]);
    let mut to = stage.open().unwrap();
    std::fs::create_dir_all(stage.tables()).unwrap();
    std::fs::write(stage.tables().join("messages"), "in the way").unwrap();
    let failed = stage.write(&mut to, false).unwrap_err();
    assert!(
        matches!(&failed, PartitionsError::File { path, .. } if path.starts_with(stage.tables().join("messages"))),
        "{failed}"
    );
    std::fs::remove_file(stage.tables().join("messages")).unwrap();
    // Sessions were written before it.
    assert_eq!(stage.files().into_keys().collect::<Vec<_>>(), ["sessions/date=2026-11-14"]);
    let written = stage.write(&mut to, false).unwrap();
    assert_eq!((written.written, written.unchanged), (3, 1));
}

#[test]
fn who_is_stopped_goes_on_the_next_time_and_two_cannot_write_to_one_place() {
    let mut stage = Stage::new();
    stage.session("one", &["2026-11-14"]);
    let mut to = stage.open().unwrap();
    assert!(matches!(stage.write(&mut to, true), Err(PartitionsError::Stopped)));
    assert!(!stage.tables().exists());
    assert!(matches!(stage.open(), Err(PartitionsError::Busy { .. })));
    assert_eq!(stage.write(&mut to, false).unwrap().written, 4);
}
