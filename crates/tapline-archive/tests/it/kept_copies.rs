//! Kept copies: whole, private, current; nothing is counted twice, and nothing is lost.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use tapline_archive::kept::{CopyState, KeepReport, Kept, lifetimes, status};
use tapline_archive::stats::{By, Query, Stats, stats};
use tapline_archive::{Index, Places, Prices, Selection};
use tapline_protocol::Agent;
use tapline_testkit::files::{copy_folder, files_below, mode};
use tapline_testkit::{TempFolder, fixture};

/// Copies fixtures into a folder, as transcripts of a user.
fn transcripts() -> TempFolder {
    let dir = TempFolder::new();
    let fixtures = fixture("transcripts");
    for case in ["claude-subagents/claude", "claude-fork/claude", "codex-fork/codex", "codex-zst/codex"] {
        copy_folder(fixtures.join(case), dir.join("home").join(case));
    }
    dir
}

fn keep(kept: &Kept, folder: &Path) -> KeepReport {
    kept.keep(&Places::below(&[folder.to_owned()]), &AtomicBool::new(false), |_, _| {}).unwrap()
}

fn counted(index: &mut Index, places: &Places) -> Stats {
    index.update(places, &AtomicBool::new(false), |_| {}).unwrap();
    let mut query = Query::default();
    query.by = By::Session;
    let mut counted = stats(index, Prices::embedded(), &Selection::default(), &query).unwrap();
    // Damaged lines are counted for each file.
    counted.damaged_lines = 0;
    counted.damaged_files.clear();
    counted
}

fn plain(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    if path.extension().is_some_and(|ending| ending == "zst") { zstd::decode_all(&bytes[..]).unwrap() } else { bytes }
}

fn read(kept: &Kept, original: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    kept.open(original).unwrap().unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_copy_is_what_the_file_is_and_only_its_owner_can_read_it() {
    let dir = transcripts();
    let (home, archive) = (dir.join("home"), dir.join("archive"));
    let kept = Kept::of_archive(&archive);
    let originals = files_below(&home);
    assert!(originals.iter().any(|path| path.to_str().unwrap().ends_with(".meta.json")), "notes are kept, too");
    assert!(originals.iter().any(|path| path.to_str().unwrap().ends_with(".jsonl.zst")));
    let report = keep(&kept, &home);
    assert_eq!((report.new, report.renewed, report.current, report.left), (originals.len(), 0, 0, 0));
    assert_eq!(report.failed.len(), 0, "{:?}", report.failed);
    for original in &originals {
        assert_eq!(read(&kept, original), plain(original), "{}", original.display());
        let copy = kept.find(original).unwrap();
        assert_eq!(mode(&copy), 0o600);
        assert_eq!(mode(copy.parent().unwrap()), 0o700);
        assert_eq!(zstd::decode_all(&fs::read(&copy).unwrap()[..]).unwrap(), plain(original), "any reader of zstd reads it");
    }
    let copies = kept.copies();
    assert_eq!((copies.copies.len(), copies.unreadable.len()), (originals.len(), 0));
    let bytes: u64 = originals.iter().map(|path| plain(path).len() as u64).sum();
    assert_eq!(copies.copies.iter().map(|copy| copy.len).sum::<u64>(), bytes);
    assert!(copies.copies.iter().map(|copy| copy.bytes).sum::<u64>() < bytes / 2, "they are compressed");
    assert_eq!(kept.find(&home.join("none.jsonl")), None);
}

#[test]
fn only_what_is_new_or_has_changed_is_copied() {
    let dir = transcripts();
    let (home, archive) = (dir.join("home"), dir.join("archive"));
    let kept = Kept::of_archive(&archive);
    let all = keep(&kept, &home).new;
    let before: Vec<u64> = files_below(kept.folder()).iter().map(|path| fs::metadata(path).unwrap().ino()).collect();
    // The folder of the copies is named, too.
    let again = keep(&kept, &dir);
    assert_eq!((again.new, again.renewed, again.current, again.bytes), (0, 0, all, 0));
    assert_eq!(before, files_below(kept.folder()).iter().map(|path| fs::metadata(path).unwrap().ino()).collect::<Vec<_>>());
    let grown = files_below(&home).into_iter().find(|path| path.extension().is_some_and(|ending| ending == "jsonl")).unwrap();
    let mut bytes = fs::read(&grown).unwrap();
    bytes.extend_from_slice(b"{\"type\":\"summary\"}\n");
    fs::write(&grown, &bytes).unwrap();
    let again = keep(&kept, &home);
    assert_eq!((again.new, again.renewed, again.current, again.bytes), (0, 1, all - 1, bytes.len() as u64));
    assert_eq!(read(&kept, &grown), bytes);
    assert!(kept.copies().copies.iter().all(|copy| !copy.earlier), "it began with what was kept");
}

#[test]
fn what_a_rewritten_file_said_before_is_not_lost() {
    let dir = TempFolder::new();
    let kept = Kept::of_archive(&dir.join("archive"));
    let file = dir.join("a.jsonl");
    let states: [&[u8]; 3] = [b"one\ntwo\nthree\n", b"one\n", b"other\n"];
    for state in states {
        fs::write(&file, state).unwrap();
        assert_eq!(keep(&kept, &file).failed.len(), 0);
        assert_eq!(read(&kept, &file), state);
    }
    let copies = kept.copies().copies;
    let mut earlier: Vec<Vec<u8>> = copies.iter().filter(|copy| copy.earlier).map(|copy| plain(&copy.path)).collect();
    earlier.sort();
    assert_eq!(earlier, [b"one\n".to_vec(), b"one\ntwo\nthree\n".to_vec()]);
    assert!(copies.iter().all(|copy| copy.original == file));
    // A damaged copy is put aside, too.
    let copy = kept.find(&file).unwrap();
    fs::write(&copy, b"damaged").unwrap();
    assert_eq!(kept.copies().unreadable.len(), 1);
    assert_eq!((keep(&kept, &file).renewed, read(&kept, &file)), (1, b"other\n".to_vec()));
    assert_eq!(kept.copies().unreadable.len(), 1, "it is still there");
}

#[test]
fn a_file_that_cannot_be_read_is_named_and_the_others_are_copied() {
    let dir = transcripts();
    let home = dir.join("home");
    let kept = Kept::of_archive(&dir.join("archive"));
    let places = Places::below(std::slice::from_ref(&home));
    let gone = places.files[0].path.clone();
    let damaged =
        places.files.iter().find(|found| found.path.extension().is_some_and(|end| end == "zst")).unwrap().path.clone();
    fs::remove_file(&gone).unwrap();
    fs::write(&damaged, b"not zstd").unwrap();
    let report = kept.keep(&places, &AtomicBool::new(false), |_, _| {}).unwrap();
    let mut named: Vec<_> = report.failed.iter().map(|(path, _)| path.clone()).collect();
    named.sort();
    let mut expected = vec![gone, damaged];
    expected.sort();
    assert_eq!(named, expected);
    assert!(report.new > 3 && report.left == 0);
    assert!(
        files_below(kept.folder()).iter().all(|path| path.extension().is_none_or(|end| end != "part")),
        "nothing half-written"
    );
}

#[test]
fn an_interrupted_copy_leaves_a_part_that_the_next_one_removes() {
    let dir = TempFolder::new();
    let kept = Kept::of_archive(&dir.join("archive"));
    let file = dir.join("a.jsonl");
    fs::write(&file, "x\n").unwrap();
    let stopped = kept.keep(&Places::below(std::slice::from_ref(&file)), &AtomicBool::new(true), |_, _| {}).unwrap();
    assert_eq!((stopped.new, stopped.left), (0, 1));
    let part = kept.folder().join(".tapline-1.part");
    fs::write(&part, "half").unwrap();
    keep(&kept, &file);
    assert!(!part.exists() && kept.find(&file).is_some());
}

#[test]
fn copies_are_not_counted_again_and_count_when_everything_else_is_gone() {
    let dir = transcripts();
    let (home, archive) = (dir.join("home"), dir.join("archive"));
    let kept = Kept::of_archive(&archive);
    let places = Places::below(std::slice::from_ref(&home));
    let mut index = Index::in_memory().unwrap();
    let before = counted(&mut index, &places);
    assert!(before.totals.requests > 10);
    keep(&kept, &home);
    assert_eq!(kept.unknown_to(|| index.paths()).unwrap(), [], "the originals are there");
    // Somebody names the folder of the copies.
    let both = Places::below(&[home.clone(), kept.folder().to_owned()]);
    let twice = counted(&mut Index::in_memory().unwrap(), &both);
    assert_eq!(twice.totals, before.totals);
    // What was indexed stays counted.
    fs::remove_dir_all(&home).unwrap();
    fs::create_dir(&home).unwrap();
    let nothing = Places::below(&[home]);
    index.note_gone(&nothing).unwrap();
    assert_eq!(counted(&mut index, &nothing), before);
    assert_eq!(kept.unknown_to(|| index.paths()).unwrap(), [], "the index knows them");
    // The index is lost, too.
    let mut again = Index::in_memory().unwrap();
    let mut places = nothing;
    places.files.extend(kept.unknown_to(|| again.paths()).unwrap());
    assert_eq!(counted(&mut again, &places), before);
}

#[test]
fn the_status_says_what_will_vanish_and_when() {
    let dir = transcripts();
    let home = dir.join("home/claude-fork");
    fs::rename(home.join("claude"), home.join(".claude")).unwrap();
    fs::rename(dir.join("home/codex-fork/codex"), home.join(".codex")).unwrap();
    let environment = |name: &str| (name == "HOME").then(|| home.clone());
    let days = |agent: Agent| lifetimes(&environment).into_iter().find(|lifetime| lifetime.agent == agent).unwrap();
    assert_eq!((days(Agent::Claude).days, days(Agent::Claude).said_in), (Some(30), None));
    assert_eq!(days(Agent::Codex).days, None);
    let settings = home.join(".claude/settings.json");
    for (text, period) in [
        ("{\"cleanupPeriodDays\": 0}", 30),
        ("{\"cleanupPeriodDays\": \"7\"}", 30),
        ("not json", 30),
        ("{\"cleanupPeriodDays\": 7}", 7),
    ] {
        fs::write(&settings, text).unwrap();
        assert_eq!(days(Agent::Claude).days, Some(period), "{text}");
    }
    assert_eq!(days(Agent::Claude).said_in, Some(settings));

    let places = Places::below(&[home.join(".claude/projects"), home.join(".codex")]);
    let of_claude = places.files.iter().filter(|found| found.path.starts_with(home.join(".claude"))).count();
    let kept = Kept::of_archive(&dir.join("archive"));
    let mut index = Index::in_memory().unwrap();
    counted(&mut index, &places);
    let now = |index: &Index, places: &Places| status(index, &kept, places, &lifetimes(&environment)).unwrap();
    let before = now(&index, &places);
    assert_eq!((before.indexed.files, before.kept.files, before.gone.files), (places.files.len() as u64, 0, 0));
    assert_eq!(before.vanishing.len(), of_claude);
    for file in &before.vanishing {
        let changed = fs::metadata(&file.path).unwrap();
        let changed = u64::try_from(changed.mtime() * 1_000 + changed.mtime_nsec() / 1_000_000).unwrap();
        assert_eq!((file.agent, file.at, file.copy), (Agent::Claude, changed + 7 * 86_400_000, CopyState::Missing));
    }
    assert!(before.vanishing.is_sorted_by_key(|file| file.at));

    kept.keep(&places, &AtomicBool::new(false), |_, _| {}).unwrap();
    let (deleted, grown) = (&before.vanishing[0].path, &before.vanishing[1].path);
    fs::remove_file(deleted).unwrap();
    fs::write(grown, [fs::read(grown).unwrap(), b"\n".to_vec()].concat()).unwrap();
    let places = Places::below(&[home.join(".claude/projects"), home.join(".codex")]);
    index.note_gone(&places).unwrap();
    let after = now(&index, &places);
    assert_eq!((after.indexed.sessions, after.indexed.files), (before.indexed.sessions, before.indexed.files));
    assert_eq!((after.gone.files, after.gone.kept, after.gone.lost), (1, 1, 0));
    assert_eq!(after.kept.files, before.indexed.files);
    let outdated: Vec<_> = after.vanishing.iter().filter(|file| file.copy == CopyState::Outdated).collect();
    assert_eq!(outdated.iter().map(|file| &file.path).collect::<Vec<_>>(), [grown]);
    assert!(after.vanishing.iter().filter(|file| file.path != *grown).all(|file| file.copy == CopyState::Current));
    fs::remove_file(kept.find(deleted).unwrap()).unwrap();
    assert_eq!((now(&index, &places).gone.kept, now(&index, &places).gone.lost), (0, 1));
}
