//! The index: incremental, private, shared by several threads and processes, and built again if it is damaged.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use serde_json::Value;
use tapline_archive::stats::{Query, stats};
use tapline_archive::{Index, Places, Prices, Selection};
use tapline_testkit::TempFolder;
use tapline_testkit::files::mode;

use crate::totals::{counted, fresh, transcripts, update};

/// A folder with the transcripts of these cases.
fn archive(folder: &TempFolder, cases: &[&str]) -> std::path::PathBuf {
    for name in cases {
        for path in transcripts(name) {
            folder
                .write(&format!("files/{name}-{}", path.file_name().unwrap().to_str().unwrap()), std::fs::read(&path).unwrap());
        }
    }
    folder.join("files")
}

#[test]
fn only_what_is_new_is_read() {
    let folder = TempFolder::new();
    let files = archive(&folder, &["claude-fork", "codex-fork"]);
    let mut index = Index::open(&folder.join("index")).unwrap();
    let all = std::fs::read_dir(&files).unwrap().count();
    assert_eq!(update(&mut index, &files).files, all);
    assert_eq!(update(&mut index, &files).files, 0);
    drop(index);
    let mut index = Index::open(&folder.join("index")).unwrap();
    assert_eq!(update(&mut index, &files).files, 0, "another process knows it, too");
    let path = std::fs::read_dir(&files).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&path).unwrap();
    let before = bytes.len() as u64;
    bytes.extend(b"{\"type\":\"summary\"}\n");
    std::fs::write(&path, &bytes).unwrap();
    let updated = update(&mut index, &files);
    assert_eq!((updated.files, updated.bytes), (1, bytes.len() as u64 - before), "only the new line");
    assert_eq!(counted(&index), fresh(&files));
}

#[test]
fn a_file_that_was_rewritten_with_the_same_size_and_time_is_read_again() {
    let folder = TempFolder::new();
    let line = |id: usize, output: usize| {
        format!(
            "{{\"type\":\"assistant\",\"sessionId\":\"s\",\"message\":{{\"id\":\"m{id}\",\"model\":\"claude-opus-5-5\",\"usage\":{{\"input_tokens\":7,\"output_tokens\":{output}}}}}}}\n"
        )
    };
    // Both ends stay as they are: only the middle is another one.
    let text = |middle: usize| (0..20).map(|id| line(id, if id == 10 { middle } else { 2 })).collect::<String>();
    let path = folder.write("files/s.jsonl", text(3));
    let time = path.metadata().unwrap().modified().unwrap();
    let mut index = Index::open(&folder.join("index")).unwrap();
    let output = |index: &Index| counted(index)["totals"]["output"].as_u64();
    update(&mut index, &path);
    assert_eq!(output(&index), Some(41));
    let with_time = |path: &Path| std::fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
    // In place. The clock of the file system is coarse.
    let inode_changed = || path.metadata().map(|meta| (meta.ctime(), meta.ctime_nsec())).unwrap();
    let before = inode_changed();
    std::fs::write(&path, text(5)).unwrap();
    while inode_changed() == before {
        with_time(&path);
    }
    with_time(&path);
    assert_eq!((update(&mut index, &path).files, output(&index)), (1, Some(43)));
    // By a new file in its place.
    let other = folder.write("other", text(9));
    with_time(&other);
    std::fs::rename(&other, &path).unwrap();
    for places in [path.clone(), folder.join("files")] {
        assert_eq!(path.metadata().unwrap().modified().unwrap(), time);
        update(&mut index, &places);
        assert_eq!(output(&index), Some(47));
        assert_eq!(update(&mut index, &places).files, 0, "the file and its folder tell the same of it");
    }
}

#[test]
fn what_was_indexed_stays_counted_after_the_files_are_gone() {
    let folder = TempFolder::new();
    let files = archive(&folder, &["claude-fork", "codex-fork"]);
    let mut index = Index::open(&folder.join("index")).unwrap();
    update(&mut index, &files);
    let wanted = counted(&index);
    let all = std::fs::read_dir(&files).unwrap().count();
    std::fs::remove_dir_all(&files).unwrap();
    std::fs::create_dir(&files).unwrap();
    let places = Places::below(std::slice::from_ref(&files));
    assert_eq!(update(&mut index, &files).files, 0);
    assert_eq!(index.note_gone(&places).unwrap(), all);
    assert_eq!(index.note_gone(&places).unwrap(), 0, "once");
    drop(index);
    let index = Index::open(&folder.join("index")).unwrap();
    assert_eq!(counted(&index), wanted);
    let mut gone = 0;
    index.each(|file, _, _| gone += usize::from(file.gone)).unwrap();
    assert_eq!(gone, all);
}

#[test]
fn everything_in_the_folder_is_private() {
    let folder = TempFolder::new();
    let files = archive(&folder, &["claude-models"]);
    let home = folder.join("deep/index");
    let mut index = Index::open(&home).unwrap();
    update(&mut index, &files);
    assert_eq!(mode(&home), 0o700);
    let inside: Vec<_> = std::fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(inside.len() >= 2, "{inside:?}");
    for path in &inside {
        assert_eq!(mode(path), 0o600, "{}", path.display());
    }
    drop(index);
    // Also one that was not.
    std::fs::set_permissions(home.join("index.db"), std::fs::Permissions::from_mode(0o644)).unwrap();
    drop(Index::open(&home).unwrap());
    assert_eq!(mode(home.join("index.db")), 0o600);
}

#[test]
fn several_writers_at_once_agree() {
    let folder = TempFolder::new();
    let files = archive(&folder, &["claude-fork", "claude-subagents", "codex-fork", "claude-2.0.76"]);
    let wanted = fresh(&files);
    let home = folder.join("index");
    std::thread::scope(|scope| {
        let work = || {
            let mut index = Index::open(&home).unwrap();
            update(&mut index, &files);
            counted(&index)
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), wanted);
        }
    });
    assert_eq!(counted(&Index::open(&home).unwrap()), wanted);
}

/// Opens an index as a command does: what is damaged is built again.
fn open_and_count(home: &Path, files: &Path) -> (Value, bool) {
    let mut index = Index::open(home).unwrap();
    let mut rebuilt = index.was_damaged();
    for _ in 0..2 {
        let places = Places::below(&[files.to_owned()]);
        let done = index
            .update(&places, &false.into(), |_| {})
            .and_then(|_| stats(&index, Prices::embedded(), &Selection::default(), &Query::default()));
        match done {
            Ok(counted) => return (serde_json::to_value(counted).unwrap(), rebuilt),
            Err(error) => {
                assert!(error.is_damage(), "{error:?}");
                rebuilt = true;
                index = index.rebuild().unwrap();
            }
        }
    }
    panic!("it is damaged again");
}

#[test]
fn a_damaged_index_is_built_again() {
    let folder = TempFolder::new();
    let files = archive(&folder, &["claude-fork", "codex-fork", "claude-subagents"]);
    let home = folder.join("index");
    let (wanted, _) = open_and_count(&home, &files);
    let good = std::fs::read(home.join("index.db")).unwrap();
    let reset = |bytes: &[u8]| {
        std::fs::remove_dir_all(&home).unwrap();
        std::fs::create_dir(&home).unwrap();
        std::fs::write(home.join("index.db"), bytes).unwrap();
    };
    let mut rebuilt = 0;
    // A run of bytes in every part of the file, and single ones.
    for (length, step) in [(1, 1_009), (64, 1_999), (4_096, 4_096)] {
        for at in (0..good.len()).step_by(step) {
            let mut bytes = good.clone();
            for byte in bytes.iter_mut().skip(at).take(length) {
                *byte ^= 0x5a;
            }
            reset(&bytes);
            let (got, again) = open_and_count(&home, &files);
            assert_eq!(got, wanted, "{length} bytes at {at}");
            rebuilt += usize::from(again);
        }
    }
    for length in [1, 99, 100, 4_095, 4_096, 4_097, 8_192, good.len() / 2, good.len() - 1] {
        reset(&good[..length]);
        assert_eq!(open_and_count(&home, &files).0, wanted, "cut to {length}");
    }
    reset(b"this is not a database, but a text that somebody put there");
    let (got, again) = open_and_count(&home, &files);
    assert!(again && got == wanted);
    assert!(home.join("index.db.old").exists(), "the old one is kept");
    assert!(rebuilt > 10, "{rebuilt}");
}

#[test]
fn an_index_of_another_version_is_built_again() {
    let folder = TempFolder::new();
    let files = archive(&folder, &["claude-fork"]);
    let home = folder.join("index");
    let (wanted, _) = open_and_count(&home, &files);
    let mut bytes = std::fs::read(home.join("index.db")).unwrap();
    // Where SQLite keeps the user's version.
    bytes[60..64].copy_from_slice(&9_999_u32.to_be_bytes());
    for ending in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(home.join(format!("index.db{ending}")));
    }
    std::fs::write(home.join("index.db"), bytes).unwrap();
    let (got, damaged) = open_and_count(&home, &files);
    assert_eq!(got, wanted);
    assert!(!damaged, "it was not damaged");
}

#[test]
fn what_is_kept_can_be_copied_into_memory() {
    let folder = TempFolder::new();
    let files = archive(&folder, &["claude-fork"]);
    let home = folder.join("index");
    let mut index = Index::open(&home).unwrap();
    update(&mut index, &files);
    let wanted = counted(&index);
    std::fs::remove_dir_all(&files).unwrap();
    let mut copy = Index::copy_in_memory(&home).unwrap();
    drop(index);
    assert_eq!(counted(&copy), wanted);
    let more = archive(&folder, &["codex-fork"]);
    update(&mut copy, &more);
    assert_ne!(counted(&copy), wanted);
    assert_eq!(counted(&Index::open(&home).unwrap()), wanted, "nothing was written there");
    // Without anything to copy it is empty.
    assert_eq!(counted(&Index::copy_in_memory(&folder.join("none")).unwrap())["totals"]["requests"], 0);
}

#[test]
fn what_is_remembered_of_copies_is_of_this_state_of_the_index() {
    let folder = TempFolder::new();
    let home = folder.join("index");
    let mut index = Index::open(&home).unwrap();
    let mut states = vec![Vec::new()];
    for case in ["claude-models", "claude-fork", "codex-fork", "claude-subagents"] {
        let files = archive(&folder, &[case]);
        update(&mut index, &files);
        let wanted = fresh(&files);
        // What an earlier state, another program or a damage left there does not count.
        for state in &states {
            std::fs::write(home.join("copies"), state).unwrap();
            assert_eq!(counted(&index), wanted, "{case}");
        }
        let state = std::fs::read(home.join("copies")).unwrap();
        let mut damaged = state.clone();
        damaged[0] ^= 1;
        assert_eq!(counted(&index), wanted, "{case} from memory");
        states.extend([state, damaged]);
    }
    let lengths: std::collections::BTreeSet<usize> = states.iter().map(Vec::len).collect();
    assert!(lengths.len() > 2, "there are copies: {lengths:?}");
    // It was not written in vain.
    let mut index = Index::open(&home).unwrap();
    assert_eq!(update(&mut index, &folder.join("files")).files, 0);
    let written = std::fs::metadata(home.join("copies")).unwrap();
    counted(&index);
    assert_eq!(std::fs::metadata(home.join("copies")).unwrap().ino(), written.ino());
}

/// Older versions fork a session by copying its lines with another id, so nothing but the path tells the two apart.
#[test]
fn the_order_in_which_files_were_read_changes_no_row() {
    let folder = TempFolder::new();
    let line = |session: &str, id: &str, output: u64| {
        format!(
            "{{\"type\":\"assistant\",\"sessionId\":\"{session}\",\"cwd\":\"/work/{session}\",\"timestamp\":\"2026-11-16T10:00:00.000Z\",\"message\":{{\"id\":\"{id}\",\"model\":\"claude-opus-5-5\",\"usage\":{{\"input_tokens\":10,\"output_tokens\":{output}}}}}}}\n"
        )
    };
    let sessions = ["a", "b", "c", "d"];
    let paths =
        sessions.map(|session| folder.write(&format!("all/{session}.jsonl"), line(session, "m1", 5) + &line(session, "m2", 7)));
    // The same session in two files, which differ in the folder they name.
    folder.write("all/e1.jsonl", line("e", "m3", 3));
    folder.write("all/e2.jsonl", line("e", "m4", 3).replace("/work/e", "/work/other"));
    let whole = fresh(&folder.join("all"));
    assert_eq!(whole["rows"].as_array().unwrap().iter().filter(|row| row["key"] == "a").count(), 1, "{whole}");
    for first in 0..paths.len() {
        let mut index = Index::in_memory().unwrap();
        for path in
            paths.iter().cycle().skip(first).take(paths.len()).chain([&folder.join("all/e2.jsonl"), &folder.join("all")])
        {
            update(&mut index, path);
        }
        assert_eq!(counted(&index), whole, "{} was read first", paths[first].display());
    }
    for _ in 0..20 {
        assert_eq!(fresh(&folder.join("all")), whole);
    }
}
