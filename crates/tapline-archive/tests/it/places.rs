//! Looking for files with a memory of folders: it finds what a look without one finds, whatever changed meanwhile.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use tapline_archive::{FolderMemory, Found, Places};
use tapline_testkit::TempFolder;
use tapline_testkit::files::mode;

/// Late enough that every folder of a test can be remembered.
const LATER: u64 = 4_000_000_000_000;
/// As many folders as are worth to be remembered, and some more.
const MANY: usize = 40;

/// A tree of folders, each with a session.
fn tree(folder: &TempFolder) -> PathBuf {
    for number in 0..MANY {
        folder.write(&format!("files/{:02}/{number}/session.jsonl", number % 10), "{}\n");
    }
    folder.join("files")
}

fn found(places: Places) -> (Vec<Found>, Vec<PathBuf>) {
    (places.files, places.unreadable.into_iter().map(|(path, _)| path).collect())
}

/// Looks with the memory, and compares with a look that has none.
fn look(home: &Path, root: &Path, now: u64) -> Vec<Found> {
    let roots = [root.to_owned()];
    let without = found(Places::below(&roots));
    let with = found(Places::below_with(&FolderMemory::new(home, now), &roots));
    assert_eq!(with, without);
    with.0
}

/// Waits until a change gets a later time than what changed so far: the clock of a file system ticks a few hundred times a
/// second.
fn tick(folder: &TempFolder) {
    let changed = |path: &Path| fs::metadata(path).map(|meta| (meta.ctime(), meta.ctime_nsec())).unwrap();
    let first = changed(&folder.write("probe/first", ""));
    while changed(&folder.write("probe/next", "")) <= first {}
}

#[test]
fn a_look_with_a_memory_finds_every_change() {
    let folder = TempFolder::new();
    let (root, home) = (tree(&folder), folder.join("home"));
    let inside = |name: &str| root.join(name);
    let changes: [(&str, &dyn Fn()); 16] = [
        ("nothing", &|| {}),
        ("a file grows", &|| fs::write(inside("03/3/session.jsonl"), "{}\n{}\n").unwrap()),
        ("a file comes", &|| fs::write(inside("04/4/other.jsonl"), "{}\n").unwrap()),
        ("a file goes", &|| fs::remove_file(inside("05/5/session.jsonl")).unwrap()),
        ("a file is replaced", &|| {
            fs::write(inside("06/new"), "{}\n{}\n{}\n").unwrap();
            fs::rename(inside("06/new"), inside("06/6/session.jsonl")).unwrap();
        }),
        ("a file gets another name", &|| fs::rename(inside("07/7/session.jsonl"), inside("07/7/renamed.jsonl")).unwrap()),
        ("a file comes, and the time is set back", &|| {
            let before = fs::metadata(inside("08/8")).unwrap().modified().unwrap();
            fs::write(inside("08/8/hidden.jsonl"), "{}\n").unwrap();
            fs::File::open(inside("08/8")).unwrap().set_modified(before).unwrap();
        }),
        ("a folder comes", &|| {
            fs::create_dir_all(inside("09/deep/deeper")).unwrap();
            fs::write(inside("09/deep/deeper/session.jsonl"), "{}\n").unwrap();
        }),
        ("a folder goes", &|| fs::remove_dir_all(inside("01/11")).unwrap()),
        ("two folders change places", &|| {
            fs::write(inside("00/10/more.jsonl"), "{}\n").unwrap();
            fs::rename(inside("00/10"), inside("swap")).unwrap();
            fs::rename(inside("00/20"), inside("00/10")).unwrap();
            fs::rename(inside("swap"), inside("00/20")).unwrap();
        }),
        ("a folder becomes a file", &|| {
            fs::remove_dir_all(inside("02/12")).unwrap();
            fs::write(inside("02/12"), "{}\n").unwrap();
        }),
        ("a link makes a file a session", &|| {
            for number in ["one", "two"] {
                fs::create_dir_all(inside("data").join(number)).unwrap();
                fs::write(inside("data").join(number).join("data"), "{}\n").unwrap();
            }
            symlink(inside("data/two/data"), inside("link.jsonl")).unwrap();
            symlink(folder.write("elsewhere/data", "{}\n"), inside("out.jsonl")).unwrap();
            symlink(folder.join("elsewhere"), inside("out")).unwrap();
        }),
        ("what a link leads to changes", &|| fs::write(inside("data/two/data"), "{}\n{}\n").unwrap()),
        ("a link leads elsewhere", &|| {
            fs::rename(inside("data/two"), inside("data/three")).unwrap();
            fs::rename(inside("data/one"), inside("data/two")).unwrap();
        }),
        ("a file and a link in a circle come", &|| {
            symlink("..", inside("03/up")).unwrap();
            fs::write(inside("03/beside.jsonl"), "{}\n").unwrap();
        }),
        ("everything goes", &|| {
            fs::remove_dir_all(&root).unwrap();
            fs::create_dir(&root).unwrap();
        }),
    ];
    let mut before = look(&home, &root, LATER);
    assert_eq!(before.len(), MANY);
    for (name, change) in changes {
        // What is remembered before the clock ticks is remembered too early: only this test does so.
        tick(&folder);
        change();
        let now = look(&home, &root, LATER);
        assert_eq!(now != before, name != "nothing", "{name}");
        tick(&folder);
        // So that the memory has it all: without the file, everything is new.
        fs::remove_file(home.join("folders")).unwrap_or_default();
        before = look(&home, &root, LATER);
        assert_eq!(now, before, "{name}");
    }
    assert_eq!(before, []);
}

#[test]
fn a_folder_that_changed_just_now_is_not_remembered() {
    let folder = TempFolder::new();
    let (root, home) = (tree(&folder), folder.join("home"));
    let changed = fs::metadata(root.join("00/0")).unwrap().ctime().unsigned_abs() * 1_000;
    for now in [0, changed.saturating_sub(60_000), changed, changed + 1_000] {
        look(&home, &root, now);
        assert!(!home.join("folders").exists(), "{now}");
    }
    look(&home, &root, LATER);
    assert_eq!(home.join("folders").exists(), FolderMemory::can_remember(&root));
}

#[test]
fn a_memory_is_private_and_a_damaged_one_says_nothing() {
    let folder = TempFolder::new();
    let (root, home) = (tree(&folder), folder.join("deep/home"));
    let wanted = look(&home, &root, LATER);
    let file = home.join("folders");
    if !FolderMemory::can_remember(&root) {
        assert!(!file.exists());
        return;
    }
    assert_eq!((mode(&home), mode(&file)), (0o700, 0o600));
    let good = fs::read(&file).unwrap();
    for at in (0..good.len()).step_by(97) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x21;
        fs::write(&file, bytes).unwrap();
        assert_eq!(look(&home, &root, 0), wanted, "a byte at {at}");
        fs::write(&file, &good[..at]).unwrap();
        assert_eq!(look(&home, &root, 0), wanted, "cut to {at}");
    }
    // It is written again.
    look(&home, &root, LATER);
    assert_eq!(fs::read(&file).unwrap().len(), good.len());
    // What it says about other folders stays.
    let other = folder.join("other");
    for number in 0..MANY {
        folder.write(&format!("other/{number}/session.jsonl"), "{}\n");
    }
    look(&home, &other, LATER);
    assert!(fs::read(&file).unwrap().len() > good.len());
    fs::remove_dir_all(&home).unwrap();
    // Where nothing can be written, nothing is remembered.
    fs::write(&home, "a file").unwrap();
    assert_eq!(look(&home, &root, LATER), wanted);
}

#[test]
fn a_recording_is_looked_at_each_time() {
    let folder = TempFolder::new();
    let home = folder.join("home");
    for number in 0..MANY {
        folder.write(&format!("files/{number}/meta.json"), "{}");
        folder.write(&format!("files/{number}/session.jsonl"), "{}\n");
    }
    look(&home, &folder.join("files"), LATER);
    assert!(!home.join("folders").exists());
}

#[test]
fn a_variable_may_name_several_homes() {
    let folder = TempFolder::new();
    for file in ["a/projects/p/1.jsonl", "b/projects/p/2.jsonl", "c/sessions/3.jsonl", "d,e/projects/p/4.jsonl"] {
        folder.write(file, "{}\n");
    }
    let found = |claude: &str, codex: &str| {
        let variable = |name: &str| {
            let homes = [("CLAUDE_CONFIG_DIR", claude), ("CODEX_HOME", codex)].into_iter().find(|(known, _)| *known == name)?.1;
            Some(PathBuf::from(homes.replace('@', &folder.join("").display().to_string())))
        };
        let (files, missing) = found(Places::of_user(&variable));
        let name = |path: &PathBuf| path.strip_prefix(folder.join("")).ok().map(|path| path.display().to_string());
        let files: Vec<_> = files.iter().filter_map(|file| name(&file.path)).collect();
        (files, missing.iter().filter_map(name).collect::<Vec<_>>())
    };
    let all = ["a/projects/p/1.jsonl", "b/projects/p/2.jsonl", "c/sessions/3.jsonl"].map(str::to_owned).to_vec();
    assert_eq!(found("@a,@b", "@c"), (all.clone(), vec![]));
    assert_eq!(found("@a, @b ,", "@nowhere,@c"), (all, vec!["nowhere".to_owned()]));
    assert_eq!(found("@d,e", "@c").0, ["c/sessions/3.jsonl", "d,e/projects/p/4.jsonl"], "a name with a comma");
}
