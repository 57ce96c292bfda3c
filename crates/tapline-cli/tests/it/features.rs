//! What a build leaves out stands in the help, marked, and is refused with the name of its feature. What it has is not marked.

use tapline_testkit::TempFolder;

use crate::tapline::{command, ran, tapline};

/// A use of each part that a build may leave out, its feature, whether this build has it, and where the help speaks of it.
const PARTS: &[(&[&str], &str, bool, &[&str])] = &[
    (&["worker", "--engine", "nats://127.0.0.1:1"], "nats", cfg!(feature = "nats"), &["--help"]),
    (&["collect", "--engine", "nats://127.0.0.1:1"], "nats", cfg!(feature = "nats"), &["--help"]),
    (&["batch", "jobs.toml", "--engine", "nats://127.0.0.1:1"], "nats", cfg!(feature = "nats"), &["batch", "--help"]),
    (&["serve", "--no-open", "--engine", "nats://127.0.0.1:1"], "nats", cfg!(feature = "nats"), &["serve", "--help"]),
    (&["serve", "--no-open", "--otlp", "http://127.0.0.1:1"], "otlp", cfg!(feature = "otlp"), &["serve", "--help"]),
    (
        &["export", "--to", "otlp", "--endpoint", "http://127.0.0.1:1", "."],
        "otlp",
        cfg!(feature = "otlp"),
        &["export", "--help"],
    ),
    (
        &["export", "--to", "parquet", "--table", "sessions", "-o", "sessions.parquet", "."],
        "parquet",
        cfg!(feature = "parquet"),
        &["export", "--help"],
    ),
];

#[test]
fn what_is_left_out_is_marked_and_refused_and_what_is_there_is_not_marked() {
    for (args, feature, is_here, help) in PARTS {
        let help = tapline(help).out;
        let mark = format!("[not in this build: feature `{feature}`]");
        let folded = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(folded.contains(&mark), !is_here, "{mark} in {help}");
        if *is_here {
            continue;
        }
        let home = TempFolder::new();
        let refused = ran(command(args).env("TAPLINE_HOME", home.as_os_str()).env("HOME", home.as_os_str()).output().unwrap());
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{args:?}: {}", refused.err);
        for words in [&format!("built without the feature `{feature}`"), &format!("--features {feature}"), "release"] {
            assert!(refused.err.contains(words), "{words} in {}", refused.err);
        }
    }
}

#[test]
fn an_encrypted_address_needs_the_feature_https() {
    let folder = TempFolder::new();
    let mut run = command(&["run", "hi", "--bin", "/bin/true", "--push", "https://127.0.0.1:1", "--format", "quiet"]);
    let ran = ran(run.env("TAPLINE_HOME", folder.path("home")).env("TAPLINE_PUSH_TOKEN", "x").output().unwrap());
    if cfg!(feature = "https") {
        assert!(!ran.err.contains("feature"), "{}", ran.err);
    } else {
        assert_eq!(ran.code, 2);
        assert!(
            ran.err.contains("--push https://127.0.0.1:1: this tapline was built without the feature `https`"),
            "{}",
            ran.err
        );
    }
}
