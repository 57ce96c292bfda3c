//! `tapline collect --to parquet`, to a folder. A store that speaks S3 is in `scripts/operators`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tapline_testkit::files::{copy_folder, mode};
use tapline_testkit::{Home, fixture};

use crate::tapline::{Ran, command, ran};

/// A user with transcripts.
fn user() -> Home {
    let home = Home::new();
    copy_folder(fixture("transcripts/claude-subagents/claude"), home.join("home/.claude"));
    home
}

fn tapline(user: &Home, args: &[&str]) -> Ran {
    let mut command = command(args);
    command.envs(user.environment()).current_dir(user);
    ran(command.output().unwrap())
}

/// The files below a folder, by path, and the number of each: a new file has its own.
fn files(folder: &Path) -> BTreeMap<PathBuf, u64> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            let number = fs::metadata(&path).unwrap().ino();
            files.insert(path, number);
        }
    }
    files
}

#[test]
fn a_folder_has_a_private_file_for_each_table_and_day_and_is_left_alone_if_nothing_changes() {
    let user = user();
    let first = tapline(&user, &["collect", "--to", "parquet", "--once", "tables"]);
    assert_eq!((first.code, first.out.as_str()), (0, ""), "{}", first.err);
    assert!(first.err.starts_with("tapline: wrote 4 parts of 4 (") && first.err.ends_with(" to tables\n"), "{}", first.err);
    let tables = PathBuf::from(user.path("tables"));
    let before = files(&tables);
    let id = fs::read_to_string(user.path("tapline/fleet/id")).unwrap();
    for (path, table) in before.keys().zip(["calls", "costs", "messages", "sessions"]) {
        let file = format!("{}.parquet", id.trim());
        let parts: Vec<&str> = path.strip_prefix(&tables).unwrap().iter().map(|part| part.to_str().unwrap()).collect();
        let [of, date, name] = parts[..] else { panic!("{parts:?}") };
        assert_eq!((of, name), (table, file.as_str()));
        assert!(date.starts_with("date=20"), "{date}");
        let bytes = fs::read(path).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{table}");
    }
    assert_eq!(before.len(), 4);
    let second = tapline(&user, &["collect", "--to", "parquet", "--once", "tables"]);
    assert_eq!((second.code, second.err.as_str()), (0, "tapline: nothing has changed since tables was last written\n"));
    assert_eq!(files(&tables), before);
    assert_eq!(tapline(&user, &["collect", "--to", "parquet", "--once", "--quiet", "--again", "tables"]).err, "");
    let third = files(&tables);
    assert!(third.iter().all(|(path, number)| before[path] != *number), "{third:?}");
}

#[test]
fn what_makes_no_sense_is_said_before_anything_is_written() {
    let user = user();
    for (args, told) in [
        (&["collect"][..], "nothing to collect"),
        (&["collect", "--to", "parquet"], "<DEST>"),
        (&["collect", "tables"], "--to"),
        (&["collect", "--to", "parquet", "--every", "0s", "tables"], "a second is the shortest time"),
        (&["collect", "--to", "parquet", "--once", "gs://bucket/prefix"], "name a folder, or s3://BUCKET/PREFIX"),
        (&["collect", "--to", "parquet", "--once", "s3://key:secret@bucket"], "keys are never part of it"),
    ] {
        let ran = tapline(&user, args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}");
        assert!(ran.err.contains(told) && !ran.err.contains("secret"), "{args:?}: {}", ran.err);
        assert!(!Path::new(&user.path("tables")).exists(), "{args:?}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_one_line_and_the_exit_code_says_so() {
    let user = user();
    fs::write(user.path("tables"), "a file").unwrap();
    let failed = tapline(&user, &["collect", "--to", "parquet", "--once", "tables"]);
    assert_eq!((failed.code, failed.out.as_str()), (1, ""));
    assert!(failed.err.starts_with("tapline: cannot write ") && failed.err.lines().count() == 1, "{}", failed.err);
    fs::remove_file(user.path("tables")).unwrap();
    assert_eq!(tapline(&user, &["collect", "--to", "parquet", "--once", "tables"]).code, 0);
}
