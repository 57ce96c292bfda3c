//! Indexes that earlier versions wrote, with what they said of transcripts that are gone, and indexes that versions in turns put
//! aside: nothing of them is lost.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use tapline_archive::search::{SearchOptions, SearchQuery, TextIndex};
use tapline_archive::{Index, Places};
use tapline_recording::Redactor;
use tapline_testkit::files::copy_folder;
use tapline_testkit::{TempFolder, fixture};

use crate::totals::{counted, transcripts, update};

const VERSIONS: [&str; 7] = ["2", "3", "4", "5", "6", "7", "8"];
/// The transcripts that are still there, as the indexes name them: seen from the folder of this crate.
const THERE: &str = "../../fixtures/transcripts/claude-models/claude";

/// A database that a program of this version wrote.
fn written(version: &str, name: &str) -> Vec<u8> {
    zstd::decode_all(&fs::read(fixture("indexes").join(version).join(format!("{name}.db.zst"))).unwrap()[..]).unwrap()
}

/// What that program said.
fn said(version: &str) -> Value {
    serde_json::from_slice(&fs::read(fixture("indexes").join(version).join("said.json")).unwrap()).unwrap()
}

/// What an index says now of all that a program said of it.
fn says(index: &Index, said: &Value) -> Value {
    let now = counted(index);
    said.as_object().unwrap().keys().map(|key| (key.clone(), now["totals"][key].clone())).collect()
}

fn put(home: &Path, name: &str, bytes: &[u8]) {
    fs::create_dir_all(home).unwrap();
    fs::write(home.join(name), bytes).unwrap();
}

fn totals(index: &Index) -> Value {
    counted(index)["totals"].clone()
}

#[test]
fn an_index_of_every_version_says_what_its_program_said() {
    for version in VERSIONS {
        let folder = TempFolder::new();
        put(&folder, "index.db", &written(version, "index"));
        let said = said(version);
        assert!(said["sessions"].as_u64() > Some(5) && said["requests"].as_u64() > Some(20), "{said}");
        let in_memory = Index::copy_in_memory(&folder).unwrap();
        assert_eq!(says(&in_memory, &said), said, "version {version} in memory");
        let mut index = Index::open(&folder).unwrap();
        assert!(!index.was_damaged(), "version {version}");
        index.check().unwrap();
        assert_eq!(says(&index, &said), said, "version {version}");
        let rows = counted(&index)["rows"].clone();
        assert!(update(&mut index, Path::new(THERE)).files > 0, "what is there is read again");
        assert_eq!(says(&index, &said), said, "version {version}, with files that are there");
        assert_eq!(update(&mut index, Path::new(THERE)).files, 0, "once");
        drop(index);
        let index = Index::open(&folder).unwrap();
        assert_eq!(says(&index, &said), said, "version {version}, opened again");
        assert_eq!(counted(&index)["rows"].as_array().unwrap().len(), rows.as_array().unwrap().len());
        assert!(!folder.join("index.db.old").exists(), "nothing had to be put aside");
    }
}

#[test]
fn a_damaged_index_of_an_earlier_version_keeps_what_can_be_read() {
    for version in VERSIONS {
        let said = said(version);
        let good = written(version, "index");
        let (mut all, mut most) = (0, 0);
        for at in (4_096..good.len()).step_by(1_501) {
            let folder = TempFolder::new();
            let mut bytes = good.clone();
            bytes[at] ^= 0x21;
            put(&folder, "index.db", &bytes);
            let index = Index::open(&folder).unwrap();
            index.check().unwrap();
            let now = says(&index, &said)["sessions"].as_u64().unwrap();
            assert!(now <= said["sessions"].as_u64().unwrap());
            if index.was_damaged() {
                assert_eq!(fs::read(folder.join("index.db.old")).unwrap(), bytes, "it stays as it was");
            }
            all += 1;
            most += usize::from(now * 2 > said["sessions"].as_u64().unwrap());
        }
        assert!(most * 10 >= all * 7, "version {version}: {most} of {all}");
    }
}

#[test]
fn what_another_version_puts_aside_is_taken_over_once_and_stays() {
    let folder = TempFolder::new();
    let wanted = said("5");
    // As an earlier version left it: it put the history aside, and began anew.
    let history = written("5", "index");
    put(&folder, "index.db.old", &history);
    let files = folder.join("files");
    for path in transcripts("claude-retry") {
        put(&files, path.file_name().unwrap().to_str().unwrap(), &fs::read(&path).unwrap());
    }
    let home = folder.to_owned();
    let mut index = Index::open(&home).unwrap();
    assert_eq!(says(&index, &wanted), wanted);
    update(&mut index, &files);
    let all = totals(&index);
    assert_eq!(all["sessions"].as_u64(), wanted["sessions"].as_u64().map(|count| count + 1));
    fs::remove_dir_all(&files).unwrap();
    drop(index);
    for turn in 0..3 {
        // An earlier version puts ours aside, over what it had put there, and begins anew with another one.
        fs::rename(home.join("index.db"), home.join("index.db.old")).unwrap();
        for ending in ["-wal", "-shm"] {
            let _ = fs::remove_file(home.join(format!("index.db{ending}")));
        }
        put(&home, "index.db", &written("7", "index"));
        let before = fs::read(home.join("index.db.old")).unwrap();
        let index = Index::open(&home).unwrap();
        assert_eq!(totals(&index), all, "turn {turn}");
        drop(index);
        assert_eq!(totals(&Index::open(&home).unwrap()), all, "turn {turn}, again");
        assert_eq!(fs::read(home.join("index.db.old")).unwrap(), before, "it is not written");
    }
    let names: Vec<String> =
        fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names.iter().filter(|name| name.contains("old")).count(), 1, "{names:?}");
}

#[test]
fn what_was_put_aside_is_never_overwritten() {
    let folder = TempFolder::new();
    let mut asides = Vec::new();
    for at in 0..3 {
        let bytes = format!("this is no database, but a text that somebody put there {at}").repeat(20).into_bytes();
        put(&folder, "index.db", &bytes);
        assert!(Index::open(&folder).unwrap().was_damaged());
        asides.push(bytes);
    }
    for (bytes, name) in asides.iter().zip(["index.db.old", "index.db.old.2", "index.db.old.3"]) {
        assert_eq!(&fs::read(folder.join(name)).unwrap(), bytes, "{name}");
    }
}

/// The version is a number in the header of the file.
fn with_version(mut bytes: Vec<u8>, version: u32) -> Vec<u8> {
    bytes[60..64].copy_from_slice(&version.to_be_bytes());
    bytes
}

#[test]
fn an_index_of_a_newer_version_stays_and_what_can_be_read_of_it_counts() {
    let folder = TempFolder::new();
    put(&folder, "index.db", &written("8", "index"));
    let index = Index::open(&folder).unwrap();
    let all = totals(&index);
    drop(index);
    let newer = with_version(fs::read(folder.join("index.db")).unwrap(), 9_999);
    put(&folder, "index.db", &newer);
    for _ in 0..2 {
        let mut index = Index::open(&folder).unwrap();
        assert!(!index.was_damaged());
        assert_eq!(totals(&index), all);
        update(&mut index, Path::new(THERE));
        assert_eq!(totals(&index), all);
    }
    assert_eq!(fs::read(folder.join("index.db")).unwrap(), newer, "it is as it was");
    // What only this version saw is not lost when the other one is gone.
    let path = folder.join("more.jsonl");
    fs::copy(&transcripts("claude-retry")[0], &path).unwrap();
    let mut index = Index::open(&folder).unwrap();
    update(&mut index, &path);
    let more = totals(&index);
    assert_ne!(more, all);
    drop(index);
    fs::remove_file(&path).unwrap();
    fs::remove_file(folder.join("index.db")).unwrap();
    assert_eq!(totals(&Index::open(&folder).unwrap()), more);
}

#[test]
fn an_index_with_the_wrong_number_is_read_as_what_it_is() {
    for (version, number) in [("5", 4), ("7", 5), ("8", 7), ("8", 3), ("4", 6)] {
        let folder = TempFolder::new();
        put(&folder, "index.db", &with_version(written(version, "index"), number));
        assert_eq!(says(&Index::open(&folder).unwrap(), &said(version)), said(version), "{version} as {number}");
    }
}

/// How many sessions have texts with this word.
fn found(index: &TextIndex, words: &str) -> usize {
    let query = SearchQuery::parse(words, |_| Err(String::new())).unwrap();
    let mut options = SearchOptions::default();
    options.sessions = 50;
    index.search(&query, &options, &Redactor::default()).unwrap().sessions.len()
}

const WORDS: [&str; 6] = ["delegate", "tool:Bash", "tool:exec_command", "agent:claude", "agent:codex", "\"delegate two deep\""];

/// What is found when everything is read that the old programs read.
fn found_afresh() -> Vec<usize> {
    let folder = TempFolder::new();
    for case in ["claude-fork", "claude-subagents", "claude-denied", "claude-models", "codex-fork", "codex-limits"] {
        for agent in ["claude", "codex"].into_iter().filter(|agent| fixture("transcripts").join(case).join(agent).exists()) {
            copy_folder(fixture("transcripts").join(case).join(agent), folder.join(case).join(agent));
        }
    }
    fs::copy(fixture("transcripts/claude-error/stream.jsonl"), folder.join("stream.jsonl")).unwrap();
    let mut index = TextIndex::in_memory().unwrap();
    index.update(&Places::below(&[folder.to_owned()]), &AtomicBool::new(false), |_| {}).unwrap();
    found_all(&index)
}

fn found_all(index: &TextIndex) -> Vec<usize> {
    let counts: Vec<usize> = WORDS.iter().map(|words| found(index, words)).collect();
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    counts
}

fn text_folder(name: &str, bytes: &[u8]) -> (TempFolder, PathBuf) {
    let folder = TempFolder::new();
    put(&folder, name, bytes);
    let home = folder.to_owned();
    (folder, home)
}

#[test]
fn a_text_index_of_every_version_finds_what_is_gone() {
    let wanted = found_afresh();
    for version in ["1", "2", "3"] {
        let (_folder, home) = text_folder("text.db", &written(version, "text"));
        let mut index = TextIndex::open(&home).unwrap();
        assert!(!index.was_damaged());
        assert_eq!(found_all(&index), wanted, "version {version}");
        let places = Places::below(&[THERE.into()]);
        let updated = index.update(&places, &AtomicBool::new(false), |_| {}).unwrap();
        assert!(updated.files > 0, "what is there is read again");
        assert_eq!(found_all(&index), wanted, "version {version}, with files that are there");
        drop(index);
        let index = TextIndex::open(&home).unwrap();
        assert_eq!(found_all(&index), wanted, "version {version}, opened again");
        assert_eq!(found_all(&TextIndex::copy_in_memory(&home).unwrap()), wanted);
    }
}

#[test]
fn a_text_index_that_was_put_aside_is_taken_over() {
    for version in ["1", "2", "3"] {
        let history = written(version, "text");
        let (_folder, home) = text_folder("text.db.old", &history);
        let mut index = TextIndex::open(&home).unwrap();
        let places = Places::below(&[THERE.into()]);
        index.update(&places, &AtomicBool::new(false), |_| {}).unwrap();
        let wanted = found_afresh();
        assert_eq!(found_all(&index), wanted, "version {version}");
        drop(index);
        assert_eq!(found_all(&TextIndex::open(&home).unwrap()), wanted, "version {version}, opened again");
        assert_eq!(fs::read(home.join("text.db.old")).unwrap(), history, "it stays as it was");
        assert!(!home.join("text.db.carried").exists());
    }
}

/// Does what an earlier program does with an index of another version: puts it aside, over what it finds there, and begins anew.
fn begin_anew(home: &Path, name: &str, version: &str) {
    let file = format!("{name}.db");
    for ending in ["", "-wal", "-shm"] {
        let _ = fs::rename(home.join(format!("{file}{ending}")), home.join(format!("{file}.old{ending}")));
    }
    put(home, &file, &written(version, name));
    let begun = rusqlite::Connection::open(home.join(&file)).unwrap();
    let rest = match name {
        "index" => "DELETE FROM facts; UPDATE counted SET sessions = 0",
        _ => "DELETE FROM text WHERE rowid IN (SELECT id FROM entries); DELETE FROM entries",
    };
    begun.execute_batch(&format!("DELETE FROM files; {rest}")).unwrap();
}

/// What is found once the files that are there have been read.
fn found_after_reading(home: &Path) -> Vec<usize> {
    let mut index = TextIndex::open(home).unwrap();
    index.update(&Places::below(&[THERE.into()]), &AtomicBool::new(false), |_| {}).unwrap();
    found_all(&index)
}

#[test]
fn two_earlier_programs_in_turns_overwrite_nothing_of_ours() {
    let folder = TempFolder::new();
    put(&folder, "index.db", &written("5", "index"));
    put(&folder, "text.db", &written("3", "text"));
    let wanted = totals(&Index::open(&folder).unwrap());
    let texts = found_after_reading(&folder);
    for turn in 0..3 {
        for versions in [["7", "2"], ["6", "1"]] {
            begin_anew(&folder, "index", versions[0]);
            begin_anew(&folder, "text", versions[1]);
        }
        let asides = || {
            let names = fs::read_dir(&*folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.filter(|name| name.contains(".old.")).count()
        };
        let before = asides();
        assert_eq!(totals(&Index::open(&folder).unwrap()), wanted, "turn {turn}");
        assert_eq!(found_after_reading(&folder), texts, "turn {turn}");
        assert_eq!(asides(), before + 2, "what had no other name was put aside");
    }
}

#[test]
fn what_was_forgotten_stays_so_when_its_file_gets_another_name() {
    let folder = TempFolder::new();
    put(&folder, "index.db", &written("5", "index"));
    drop(Index::open(&folder).unwrap());
    for version in ["7", "6"] {
        begin_anew(&folder, "index", version);
    }
    let mut index = Index::open(&folder).unwrap();
    let mut sessions = HashSet::new();
    index
        .each(|_, session, _| {
            sessions.insert(session.to_owned());
        })
        .unwrap();
    assert!(sessions.len() > 5, "{sessions:?}");
    index.forget(&sessions).unwrap();
    let left = totals(&index);
    drop(index);
    assert_eq!(totals(&Index::open(&folder).unwrap()), left);
}

/// Version 4 kept accents in words, and this one takes them away.
#[test]
fn words_of_texts_that_are_gone_are_spelled_anew() {
    let (folder, files) = (TempFolder::new(), TempFolder::new());
    let line = r#"{"type":"user","sessionId":"s","cwd":"/w","timestamp":"2026-11-14T10:00:00.000Z","uuid":"u1","message":{"role":"user","content":"die größe zählt, файл"}}"#;
    fs::write(files.join("s.jsonl"), format!("{line}\n")).unwrap();
    let mut index = TextIndex::open(&folder).unwrap();
    index.update(&Places::below(&[files.to_owned()]), &AtomicBool::new(false), |_| {}).unwrap();
    let words = ["größe", "grosse", "файл", "zahlt"];
    let wanted = words.map(|words| found(&index, words));
    assert!(wanted.iter().all(|count| *count == 1), "{wanted:?}");
    drop(index);
    let db = rusqlite::Connection::open(folder.join("text.db")).unwrap();
    let text: i64 = db.query_row("SELECT id FROM entries", [], |row| row.get(0)).unwrap();
    db.execute("DELETE FROM text WHERE rowid = ?", [text]).unwrap();
    db.execute("INSERT INTO text (rowid, body, marks) VALUES (?, 'die größe zählt файл', '')", [text]).unwrap();
    db.pragma_update(None, "user_version", 4).unwrap();
    drop(db);
    fs::remove_file(files.join("s.jsonl")).unwrap();
    let index = TextIndex::open(&folder).unwrap();
    assert!(!index.was_damaged());
    assert_eq!(words.map(|words| found(&index, words)), wanted);
}
