//! Kept copies are read in full, made again while that is possible, put back, and forgotten.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use tapline_archive::kept::{KeepReport, Kept, Verified};
use tapline_archive::search::{SearchOptions, SearchQuery, TextIndex};
use tapline_archive::{Index, Places};
use tapline_recording::Redactor;
use tapline_testkit::files::{copy_folder, files_below, mode};
use tapline_testkit::{TempFolder, fixture};

use crate::totals::{counted, update};

/// A session with two sub-agents, and its fork, which has the lines of the first, too.
const SESSION: &str = "207f0d38-6b7e-4228-a830-88dedeea3215";
const FORK: &str = "0cfbbae1-7eca-4365-9a34-6f3e02867135";

struct User {
    folder: TempFolder,
    kept: Kept,
    index: Index,
}

impl User {
    /// With transcripts, their copies and an index.
    fn new() -> Self {
        let folder = TempFolder::new();
        for case in ["claude-subagents/claude", "codex-zst/codex"] {
            copy_folder(fixture("transcripts").join(case), folder.join("home").join(case));
        }
        let index = Index::open(&folder.join("archive")).unwrap();
        let mut user = Self { kept: Kept::of_archive(&folder.join("archive")), folder, index };
        user.update();
        assert!(user.keep().new > 4);
        user
    }

    fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    fn update(&mut self) {
        let home = self.home();
        update(&mut self.index, &home);
        self.index.note_gone(&Places::below(&[home])).unwrap();
    }

    fn keep(&self) -> KeepReport {
        self.kept.keep(&Places::below(&[self.home()]), &AtomicBool::new(false), |_, _| {}).unwrap()
    }

    fn verify(&self) -> Verified {
        let mut told = 0;
        let verified = self.kept.verify(&AtomicBool::new(false), |done, _| told = done);
        assert_eq!(told, verified.whole + verified.bad.len() + verified.aside.len());
        verified
    }

    /// Its transcripts, and what is in them.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        files_below(self.home()).into_iter().map(|path| (path.clone(), plain(&path))).collect()
    }

    fn session_of(&self, path: &Path) -> String {
        self.index.files().unwrap().into_iter().find(|(file, _)| file.path == path).unwrap().1
    }
}

fn plain(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    if path.extension().is_some_and(|ending| ending == "zst") { zstd::decode_all(&bytes[..]).unwrap() } else { bytes }
}

/// Flips one bit in the middle of what is compressed.
fn flip(copy: &Path) {
    let mut bytes = fs::read(copy).unwrap();
    bytes[20] ^= 4;
    fs::write(copy, bytes).unwrap();
}

#[test]
fn every_flipped_bit_of_a_copy_is_noticed_and_healed() {
    let user = User::new();
    let all = user.verify();
    assert!(all.bad.is_empty() && all.aside.is_empty() && all.left == 0, "{all:?}");
    let copy = user.kept.copies().copies.into_iter().min_by_key(|copy| copy.bytes).unwrap();
    let good = fs::read(&copy.path).unwrap();
    let mut noticed = 0;
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        fs::write(&copy.path, &bytes).unwrap();
        // Some bits mean nothing, and some only say how the original was.
        let is_whole = zstd::decode_all(&bytes[..]).is_ok_and(|read| read == plain(&copy.original));
        let found = user.verify().bad;
        assert!(
            is_whole && found.is_empty() || found.len() == 1 && found[0].can_heal,
            "byte {at} of {}: {found:?}",
            good.len()
        );
        noticed += found.len();
    }
    assert!(noticed * 10 > good.len() * 8, "{noticed} of {}", good.len());
    fs::write(&copy.path, &good).unwrap();
    flip(&copy.path);
    assert!(user.verify().bad[0].can_heal);
    let report = user.keep();
    assert_eq!((report.healed, report.new, report.renewed, report.failed.len()), (1, 0, 0, 0));
    assert_eq!(plain(&copy.path), plain(&copy.original));
    let healed = user.verify();
    assert!(healed.bad.is_empty() && healed.aside.is_empty(), "{healed:?}");
    assert_eq!(user.keep().healed, 0);
}

#[test]
fn a_copy_that_was_cut_off_is_made_again_and_put_aside() {
    let user = User::new();
    let copies = user.kept.copies().copies;
    let [cut, flipped] = [&copies[0], &copies[1]];
    let bytes = fs::read(&cut.path).unwrap();
    fs::write(&cut.path, &bytes[..bytes.len() - 1]).unwrap();
    flip(&flipped.path);
    fs::remove_file(&flipped.original).unwrap();
    let bad = user.verify().bad;
    let named: Vec<_> = bad.iter().map(|bad| (&bad.path, &bad.original, bad.can_heal)).collect();
    assert_eq!(named, [(&cut.path, &cut.original, true), (&flipped.path, &flipped.original, false)]);
    user.keep();
    let verified = user.verify();
    assert_eq!((verified.bad.len(), verified.aside.len()), (1, 1), "{verified:?}");
    assert_eq!(verified.bad[0].path, flipped.path, "its original is gone");
    assert_eq!(plain(&cut.path), plain(&cut.original));
}

#[test]
fn what_was_deleted_is_put_back_where_it_was() {
    let mut user = User::new();
    let before = user.files();
    let wanted = counted(&user.index);
    let packed = before.iter().find(|(path, _)| path.extension().is_some_and(|ending| ending == "zst")).unwrap();
    let codex = user.session_of(&packed.0);
    fs::remove_dir_all(user.home()).unwrap();
    fs::create_dir(user.home()).unwrap();
    user.update();
    let damaged = user.kept.copies().copies.into_iter().find(|copy| copy.original == packed.0).unwrap();
    let good = fs::read(&damaged.path).unwrap();
    flip(&damaged.path);
    let failed = user.kept.restore(&user.index, &codex).unwrap();
    assert!(
        failed.files.is_empty() && failed.failed.len() == 1 && !packed.0.exists(),
        "nothing damaged is put back: {failed:?}"
    );
    fs::write(&damaged.path, good).unwrap();
    for session in [SESSION, &codex] {
        let restored = user.kept.restore(&user.index, session).unwrap();
        assert!(!restored.files.is_empty() && restored.failed.is_empty() && restored.lost.is_empty(), "{restored:?}");
        assert!(restored.files.iter().all(|file| mode(file) == 0o600));
        let again = user.kept.restore(&user.index, session).unwrap();
        assert_eq!((again.files.len(), again.there), (0, restored.files), "what is there stays");
    }
    let after = user.files();
    assert!(after.iter().all(|file| before.contains(file)), "byte by byte");
    assert!(
        after.len() > 3
            && after.contains(packed)
            && after.iter().any(|(path, _)| path.to_str().unwrap().ends_with(".meta.json"))
    );
    user.update();
    assert_eq!(counted(&user.index)["totals"], wanted["totals"]);
    let gone = user.kept.restore(&user.index, "nobody").unwrap();
    assert!(gone.files.is_empty() && gone.there.is_empty() && gone.lost.is_empty());
}

#[test]
fn what_is_forgotten_is_in_no_file_of_the_archive() {
    let mut user = User::new();
    let before = counted(&user.index);
    let mut text = TextIndex::open(&user.folder.join("archive")).unwrap();
    text.update(&Places::below(&[user.home()]), &AtomicBool::new(false), |_| {}).unwrap();
    let query = SearchQuery::parse("delegate", |_| Err(String::new())).unwrap();
    let hits = |text: &TextIndex| text.search(&query, &SearchOptions::default(), &Redactor::default()).unwrap().sessions.len();
    assert_eq!(hits(&text), 1);
    fs::remove_dir_all(user.home()).unwrap();
    fs::create_dir(user.home()).unwrap();
    user.update();
    let sessions: HashSet<String> = [SESSION, FORK].map(str::to_owned).into();
    let copies = user.kept.copies().copies.len();
    let removed = user.kept.forget(&user.index, &sessions).unwrap().len();
    assert!(removed > 2 && user.kept.copies().copies.len() == copies - removed, "{removed} of {copies}");
    let files = user.index.files().unwrap().into_iter().filter(|(_, session)| sessions.contains(session));
    let files: Vec<PathBuf> = files.map(|(file, _)| file.path).collect();
    text.forget(&files, &sessions).unwrap();
    assert_eq!(hits(&text), 0);
    assert!(!user.index.forget(&sessions).unwrap().is_empty());
    user.index.check().unwrap();
    let after = counted(&user.index);
    assert_eq!(after["totals"]["sessions"].as_u64(), before["totals"]["sessions"].as_u64().map(|count| count - 2));
    drop((text, user.index));
    for file in files_below(user.folder.join("archive")) {
        let bytes = fs::read(&file).unwrap();
        for secret in [SESSION.as_bytes(), FORK.as_bytes(), b"delegate two deep"] {
            assert!(!bytes.windows(secret.len()).any(|part| part == secret), "{}", file.display());
        }
    }
}
