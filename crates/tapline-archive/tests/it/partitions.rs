//! Tables in parts: together they are the whole table, and each changes only when its rows do.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use tapline_archive::export::{Export, ExportFormat, ExportTable, Partition, PartitionContent};
use tapline_archive::stats::Query;
use tapline_archive::{Index, Places, Prices, Selection};
use tapline_testkit::{TempFolder, fixture, fixtures};

fn index_of(paths: &[PathBuf]) -> Index {
    let mut index = Index::in_memory().unwrap();
    update(&mut index, paths);
    index
}

fn update(index: &mut Index, paths: &[PathBuf]) {
    index.update(&Places::below(paths), &AtomicBool::new(false), |_| {}).unwrap();
}

fn contents(index: &Index, query: &Query) -> BTreeMap<Partition, PartitionContent> {
    let export = Export::new(ExportFormat::Parquet, query);
    export.partitions(index, Prices::embedded(), &Selection::default()).unwrap()
}

/// The rows of a file, as text.
fn rows(bytes: &[u8]) -> Vec<String> {
    let dir = TempFolder::new();
    let path = dir.join("part.parquet");
    std::fs::write(&path, bytes).unwrap();
    let file = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    file.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect()
}

#[test]
fn the_parts_together_are_the_whole_table() {
    let index = index_of(&[fixtures()]);
    let query = Query::default();
    let export = Export::new(ExportFormat::Parquet, &query);
    let contents = contents(&index, &query);
    assert!(contents.keys().any(|partition| partition.day.is_none()), "a stream without times");
    assert!(contents.keys().filter(|partition| partition.table == ExportTable::Messages).count() > 2, "several days");
    for table in ExportTable::ALL {
        let mut whole = Vec::new();
        export.write(&index, Prices::embedded(), &Selection::default(), [(table, &mut whole)]).unwrap();
        let of_table: Vec<Partition> = contents.keys().copied().filter(|partition| partition.table == table).collect();
        let mut files: Vec<(Partition, Vec<u8>)> = of_table.iter().map(|partition| (*partition, Vec::new())).collect();
        let outputs = files.iter_mut().map(|(partition, file)| (*partition, file));
        let written = export.write_partitions(&index, Prices::embedded(), &Selection::default(), outputs).unwrap();
        assert!(written.iter().all(|(partition, content)| contents[partition] == *content), "{table:?}");
        let mut parts = Vec::new();
        for (partition, file) in &files {
            let rows = rows(file);
            assert_eq!(rows.len() as u64, contents[partition].rows, "{partition}");
            parts.extend(rows);
        }
        let mut whole = rows(&whole);
        whole.sort();
        parts.sort();
        assert_eq!(parts, whole, "{table:?}");
    }
}

#[test]
fn only_parts_that_are_asked_for_are_written_and_one_without_rows_is_a_table() {
    let index = index_of(&[fixture("transcripts")]);
    let query = Query::default();
    let mut file = Vec::new();
    let nobody = Partition::new(ExportTable::Costs, Some(1));
    let export = Export::new(ExportFormat::Parquet, &query);
    let written = export.write_partitions(&index, Prices::embedded(), &Selection::default(), [(nobody, &mut file)]).unwrap();
    assert_eq!(written, BTreeMap::from([(nobody, PartitionContent::empty(ExportTable::Costs))]));
    assert_eq!(rows(&file), [""; 0]);
}

/// An answer in a transcript.
fn answer(session: &str, number: usize, day: &str) -> String {
    format!(
        r#"{{"type":"assistant","sessionId":"{session}","cwd":"/w","version":"2.1.0","timestamp":"{day}T10:00:{number:02}.000Z","uuid":"u{number}","requestId":"r{number}","message":{{"id":"{session}-{number}","type":"message","role":"assistant","model":"claude-opus-5-5","content":[{{"type":"text","text":"hi"}}],"stop_reason":"end_turn","usage":{{"input_tokens":10,"output_tokens":5}}}}}}
"#
    )
}

#[test]
fn a_session_that_grows_changes_its_own_parts_alone() {
    let dir = TempFolder::new();
    let path = |session: &str| dir.join(format!("{session}.jsonl"));
    std::fs::write(path("one"), answer("one", 1, "2026-11-14")).unwrap();
    std::fs::write(path("two"), answer("two", 1, "2026-11-15")).unwrap();
    let query = Query::default();
    let mut index = index_of(&[dir.to_owned()]);
    let before = contents(&index, &query);
    // Whoever reads all tables finds all of them.
    let no_calls = Partition::new(ExportTable::Calls, before.keys().next().unwrap().day);
    assert_eq!(
        (no_calls.to_string().as_str(), before[&no_calls]),
        ("calls/date=2026-11-14", PartitionContent::empty(ExportTable::Calls))
    );
    assert_eq!(contents(&index_of(&[dir.to_owned()]), &query), before, "read anew, it is the same");
    std::fs::write(path("two"), answer("two", 1, "2026-11-15") + &answer("two", 2, "2026-11-16")).unwrap();
    update(&mut index, &[dir.to_owned()]);
    let after = contents(&index, &query);
    let changed: Vec<String> = after
        .iter()
        .filter(|(partition, content)| before.get(partition) != Some(content))
        .map(|(one, _)| one.to_string())
        .collect();
    // The session is of the day on which it began; its new message is of its own day.
    assert_eq!(changed, ["sessions/date=2026-11-15", "messages/date=2026-11-16", "costs/date=2026-11-16"]);
}
