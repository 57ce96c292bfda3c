//! Links in folders of sessions: what they lead to is read only if it lies in the same folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use tapline_archive::kept::Kept;
use tapline_archive::{Found, Index, Places};
use tapline_recording::{Recording, Store};
use tapline_testkit::TempFolder;

use crate::totals::{counted, fresh, tokens, transcripts, update};

/// A folder with a session, and one outside of it.
fn folder() -> (TempFolder, PathBuf) {
    let folder = TempFolder::new();
    let (inside, outside) = (&transcripts("claude-models")[0], &transcripts("claude-fork")[0]);
    fs::create_dir_all(folder.join("outside")).unwrap();
    fs::create_dir_all(folder.join("root/p")).unwrap();
    fs::copy(outside, folder.join("outside/secret.jsonl")).unwrap();
    fs::copy(inside, folder.join("root/p/one.jsonl")).unwrap();
    let root = folder.join("root");
    (folder, root)
}

fn recording(at: &Path) {
    fs::create_dir_all(at).unwrap();
    fs::copy(&transcripts("claude-models")[0], at.join("stdout")).unwrap();
    fs::write(at.join("meta.json"), "{}").unwrap();
}

/// Returns what is found, and the names of the links that are not followed.
fn look(root: &Path) -> (Vec<Found>, Vec<String>) {
    let places = Places::below(&[root.to_owned()]);
    let mut named = Vec::new();
    for (path, error) in places.unreadable {
        assert!(error.to_string().contains("a link leads out of the folder"), "{error}");
        named.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
    }
    named.sort();
    (places.files, named)
}

#[test]
fn a_link_that_leads_out_is_named_and_not_read() {
    let (folder, root) = folder();
    let wanted = look(&root).0;
    recording(&folder.join("outside/recording"));
    recording(&root.join("recording"));
    fs::remove_file(root.join("recording/stdout")).unwrap();
    recording(&root.join("described"));
    fs::rename(root.join("described/meta.json"), folder.join("outside/meta.json")).unwrap();
    symlink(folder.join("outside/secret.jsonl"), root.join("p/link.jsonl")).unwrap();
    symlink("../../outside", root.join("p/relative")).unwrap();
    symlink(folder.join("outside/recording"), root.join("linked-recording")).unwrap();
    symlink(folder.join("outside/recording/stdout"), root.join("recording/stdout")).unwrap();
    symlink(folder.join("outside/meta.json"), root.join("described/meta.json")).unwrap();
    symlink("/", root.join("everything")).unwrap();
    // Nobody would read this one.
    symlink(folder.join("outside/secret.jsonl"), root.join("p/link.txt")).unwrap();
    let (mut files, named) = look(&root);
    files.retain(|found| found.path != root.join("recording/meta.json"));
    assert_eq!(files, wanted);
    let all = ["described/meta.json", "everything", "linked-recording", "p/link.jsonl", "p/relative", "recording/stdout"];
    assert_eq!(named, all);
    assert!(!Recording::is_one(&root.join("recording")) && Recording::open(&root.join("recording")).is_err());
    assert_eq!(fresh(&root)["totals"], fresh(&root.join("p/one.jsonl"))["totals"]);
}

#[test]
fn a_link_in_the_folder_is_followed_and_counts_once() {
    let (_folder, root) = folder();
    let wanted = fresh(&root)["totals"].clone();
    symlink(root.join("p/one.jsonl"), root.join("absolute.jsonl")).unwrap();
    symlink("p/one.jsonl", root.join("relative.jsonl")).unwrap();
    symlink("p", root.join("folder")).unwrap();
    symlink(".", root.join("p/itself")).unwrap();
    symlink("../..", root.join("p/up")).unwrap();
    symlink("p/up/root/p/one.jsonl", root.join("out-and-in.jsonl")).unwrap();
    symlink("loop.jsonl", root.join("loop.jsonl")).unwrap();
    symlink("nowhere", root.join("nowhere.jsonl")).unwrap();
    let (files, named) = look(&root);
    assert_eq!(files.iter().map(|found| &found.path).collect::<Vec<_>>(), [&root.join("p/one.jsonl")]);
    assert_eq!(named, ["p/up"]);
    assert_eq!(fresh(&root)["totals"], wanted);
    // What only a link makes a session is one, too.
    fs::rename(root.join("p/one.jsonl"), root.join("p/data")).unwrap();
    symlink("p/data", root.join("data.jsonl")).unwrap();
    assert_eq!(look(&root).0.iter().map(|found| &found.path).collect::<Vec<_>>(), [&root.join("p/data")]);
    assert_eq!(fresh(&root)["totals"], wanted);
}

#[test]
fn the_folder_itself_may_be_a_link() {
    let (folder, root) = folder();
    symlink("outside", folder.join("named")).unwrap();
    fs::rename(folder.join("outside"), folder.join("elsewhere")).unwrap();
    fs::rename(&root, folder.join("outside")).unwrap();
    symlink(folder.join("outside/p/one.jsonl"), folder.join("outside/link.jsonl")).unwrap();
    symlink(folder.join("named/p/one.jsonl"), folder.join("outside/over-the-root.jsonl")).unwrap();
    symlink(folder.join("elsewhere"), folder.join("outside/out")).unwrap();
    let named = folder.join("named");
    let (files, out) = look(&named);
    assert_eq!(files.iter().map(|found| &found.path).collect::<Vec<_>>(), [&named.join("p/one.jsonl")]);
    assert_eq!(out, ["out"]);
    assert_eq!(fresh(&named)["totals"], fresh(&transcripts("claude-models")[0])["totals"]);
    // So may a file that is named.
    symlink("elsewhere/secret.jsonl", folder.join("file.jsonl")).unwrap();
    assert_eq!(fresh(&folder.join("file.jsonl"))["totals"], fresh(&transcripts("claude-fork")[0])["totals"]);
}

/// Between the look and the reading, an agent can put a link where a file was.
#[test]
fn a_file_that_became_a_link_is_not_read_indexed_or_kept() {
    for folder_too in [false, true] {
        let (folder, root) = folder();
        let places = Places::below(std::slice::from_ref(&root));
        if folder_too {
            fs::rename(root.join("p"), folder.join("before")).unwrap();
            fs::rename(folder.join("outside/secret.jsonl"), folder.join("outside/one.jsonl")).unwrap();
            symlink(folder.join("outside"), root.join("p")).unwrap();
        } else {
            fs::remove_file(root.join("p/one.jsonl")).unwrap();
            symlink(folder.join("outside/secret.jsonl"), root.join("p/one.jsonl")).unwrap();
        }
        let mut index = Index::in_memory().unwrap();
        let updated = index.update(&places, &AtomicBool::new(false), |_| {}).unwrap();
        assert_eq!(updated.unreadable.len(), 1);
        assert_eq!(tokens(&counted(&index)), [0; 4]);
        let kept = Kept::of_archive(&folder.join("archive")).keep(&places, &AtomicBool::new(false), |_, _| {}).unwrap();
        assert_eq!((kept.new, kept.failed.len()), (0, 1));
    }
}

#[test]
fn notes_beside_a_transcript_are_kept_only_from_its_folder() {
    let (folder, root) = folder();
    folder.write("outside/note", "secret");
    symlink(folder.join("outside/note"), root.join("p/one.meta.json")).unwrap();
    let places = Places::below(std::slice::from_ref(&root));
    let kept = Kept::of_archive(&folder.join("archive"));
    assert_eq!(kept.keep(&places, &AtomicBool::new(false), |_, _| {}).unwrap().new, 1);
    assert!(kept.find(&root.join("p/one.meta.json")).is_none());
}

#[test]
fn a_store_lists_no_recording_that_a_link_brings_in() {
    let folder = TempFolder::new();
    let store = Store::at(folder.join("home"));
    recording(&store.folder().join("own"));
    recording(&folder.join("outside"));
    symlink(folder.join("outside"), store.folder().join("last")).unwrap();
    symlink("own", store.folder().join("again")).unwrap();
    assert_eq!(store.list().unwrap(), [store.folder().join("own")]);
}

#[test]
fn an_index_follows_a_file_that_becomes_a_link() {
    let (folder, root) = folder();
    let mut index = Index::in_memory().unwrap();
    update(&mut index, &root);
    let wanted = counted(&index)["totals"].clone();
    fs::remove_file(root.join("p/one.jsonl")).unwrap();
    symlink(folder.join("outside/secret.jsonl"), root.join("p/one.jsonl")).unwrap();
    update(&mut index, &root);
    assert_eq!(counted(&index)["totals"], wanted, "what was counted stays, and nothing of the other file is");
}
