//! The examples that the README lists: each does what it says, with the real program on its scenario.

use std::path::PathBuf;

use crate::stage::{Stage, newest, setting};

/// What each prints.
const PRINTED: &[(&str, &str)] = &[
    ("run", "running: `ls`\nsuccess: It taps the line.\n"),
    ("conversation", "> What does this project do?\nIt taps the line.\n> Who would use it?\nEngineers who script agents.\n"),
    ("tool", "There are 42 bolts.\n"),
    ("permission", "Bash: Deny by Rule\nWrite: Allow by Callback\nA note is there.\n"),
    ("hook", "success: It is gone.\n"),
    ("steer", "interrupted: One, "),
    ("structured", "good: no tests, a typo\n"),
    ("many", "What could go wrong? The disk fills.\nWhat is missing? A bound.\nWhat could be removed? Nothing.\n"),
];

#[test]
fn each_does_what_it_says() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tapline/examples");
    for (name, printed) in PRINTED {
        let scenario = std::fs::read_to_string(folder.join(format!("scenarios/{name}.toml"))).unwrap();
        let stage = Stage::new(&newest(), &scenario);
        std::fs::write(stage.work().join("draft.txt"), "a draft\n").unwrap();
        let mut command = stage.command(PathBuf::from(setting("TAPLINE_E2E_EXAMPLES")).join(name));
        let output = command.env("TAPLINE_CLAUDE_BIN", &stage.program.path).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with(printed), "{name}: {text}\n{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{name}");
        match *name {
            "hook" => assert!(stage.work().join("draft.txt.old").exists(), "it was kept"),
            "permission" => assert!(stage.work().join("note.txt").exists()),
            "steer" => assert!(text.ends_with("It is there.\nasked for permission 1 times\n"), "{text}"),
            "conversation" => assert!(text.contains("2 turns, $0.00"), "{text}"),
            _ => {}
        }
        assert_eq!(stage.sim.failures(), Vec::<String>::new(), "{name}");
    }
    // None is forgotten: `live` needs no agent, and `cargo test` has it.
    let all = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let names = all
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
        .map(|path| path.file_stem().unwrap().to_owned());
    for name in names.filter(|name| name != "live") {
        assert!(PRINTED.iter().any(|(known, _)| name == *known), "{} is not run", name.display());
    }
}
