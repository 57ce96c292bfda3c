//! `tapline archive verify`, `restore` and `forget`, as people use them.

use std::fs;

use serde_json::Value;
use tapline_testkit::files::files_below;

use crate::stats::Home;

const SESSION: &str = "207f0d38";

fn json(home: &Home, args: &[&str]) -> Value {
    let ran = home.run(args);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
    serde_json::from_str(&ran.out).unwrap()
}

/// A user with copies of all transcripts.
fn home() -> Home {
    let home = Home::new(&["claude-subagents", "codex-fork"]);
    assert_eq!(home.run(&["archive", "keep", "-q"]).code, 0);
    home
}

#[test]
fn a_damaged_copy_is_told_and_made_again() {
    let home = home();
    let whole = home.run(&["archive", "verify"]);
    assert!(
        whole.code == 0 && whole.out.starts_with("Read all copies: ") && whole.out.ends_with(" 0 damaged.\n"),
        "{}",
        whole.out
    );
    let copies = files_below(home.path("tapline/archive/kept"));
    let copy = copies.iter().find(|path| path.to_str().unwrap().contains(SESSION)).unwrap();
    let mut bytes = fs::read(copy).unwrap();
    bytes[30] ^= 1;
    fs::write(copy, bytes).unwrap();
    let bad = home.run(&["archive", "verify"]);
    assert!(bad.code == 2 && bad.out.contains("`tapline archive keep` makes the copy again"), "{}", bad.out);
    let ran = home.run(&["archive", "verify", "--json"]);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &told["damaged"][0]["path"]), (2, &Value::from(copy.to_str().unwrap())));
    let kept = home.run(&["archive", "keep"]);
    assert!(kept.code == 0 && kept.out.contains("1 file had a damaged copy, which was made again.\n"), "{}", kept.out);
    assert_eq!(json(&home, &["archive", "verify", "--json"])["damaged"], Value::Array(Vec::new()));
}

#[test]
fn a_session_whose_transcript_was_deleted_is_restored_and_resumed() {
    let home = home();
    let resume = home.run(&["sessions", "--resume-command", SESSION]);
    assert!(resume.code == 0 && resume.out.contains("claude --resume 207f0d38"), "{}", resume.err);
    let before: Vec<_> =
        files_below(home.path("home/.claude")).into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect();
    let session = resume.out.trim().rsplit(' ').next().unwrap().to_owned();
    fs::remove_dir_all(home.path("home/.claude")).unwrap();
    let gone = home.run(&["sessions", "--resume-command", SESSION]);
    assert_eq!((gone.code, gone.out.as_str()), (2, ""));
    let advice = format!("`tapline archive restore {session}`");
    assert!(gone.err.contains(&advice), "{}", gone.err);
    let restored = home.run(&["archive", "restore", SESSION]);
    assert!(restored.code == 0 && restored.out.contains("restored  "), "{}", restored.err);
    assert_eq!(home.run(&["sessions", "--resume-command", SESSION]).out, resume.out);
    let again = home.run(&["archive", "restore", SESSION]);
    assert!(again.code == 0 && again.out.starts_with("Nothing to do: "), "{}", again.out);
    for path in files_below(home.path("home/.claude")) {
        assert!(before.contains(&(fs::read(&path).unwrap(), path)));
    }
    fs::remove_dir_all(home.path("home/.claude")).unwrap();
    fs::remove_dir_all(home.path("tapline/archive/kept")).unwrap();
    let lost = home.run(&["sessions", "--resume-command", SESSION]);
    assert!(lost.code == 2 && lost.err.contains("there is no copy"), "{}", lost.err);
    let lost = home.run(&["archive", "restore", SESSION]);
    assert!(lost.code == 2 && lost.err.contains("no file of session"), "{}", lost.err);
}

#[test]
fn a_session_and_a_project_are_forgotten() {
    let home = home();
    let sessions = |home: &Home| home.stats(&[])["totals"]["sessions"].as_u64().unwrap();
    let all = sessions(&home);
    let there = home.run(&["archive", "forget", SESSION, "--dry-run"]);
    assert!(
        there.code == 0 && there.out.starts_with("would forget  207f0d38") && there.err.contains("is still there"),
        "{}",
        there.out
    );
    assert_eq!(sessions(&home), all);
    fs::remove_dir_all(home.path("home/.claude")).unwrap();
    assert_eq!(sessions(&home), all);
    assert!(home.run(&["search", "delegate"]).out.contains("delegate"));
    let forgot = home.run(&["archive", "forget", SESSION]);
    assert!(
        forgot.code == 0 && forgot.out.starts_with("forgot  207f0d38") && forgot.err.is_empty(),
        "{} {}",
        forgot.out,
        forgot.err
    );
    assert_eq!(sessions(&home), all - 1);
    let none = home.run(&["archive", "forget", SESSION]);
    assert!(none.code == 2 && none.err.contains("no session has an id"), "{}", none.err);
    let project = json(&home, &["archive", "forget", "--project", "codex-fork", "--json"]);
    assert!(project["sessions"].as_array().unwrap().len() > 1, "{project}");
    assert!(!project["there"].as_array().unwrap().is_empty(), "they are counted again");
    assert_eq!(home.run(&["archive", "forget", "--project", "codex"]).code, 2, "a part of a name is no project");
    assert_eq!(home.run(&["archive", "forget"]).code, 2);
}
