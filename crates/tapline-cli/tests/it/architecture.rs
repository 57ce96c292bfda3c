//! The laws of ARCHITECTURE.md that tests can check.

mod circles;
mod flags;
mod names;
mod types;
mod updates;

use std::path::{Path, PathBuf};

use tapline_protocol::Agent;
use tapline_testkit::files::files_below;
use tapline_testkit::root;

/// Which crates a crate may use. Another edge is a change of the design.
const EDGES: &[(&str, &[&str])] = &[
    ("tapline-protocol", &[]),
    ("tapline-session", &["tapline-protocol"]),
    ("tapline-recording", &["tapline-protocol"]),
    ("tapline-runner", &["tapline-protocol", "tapline-recording", "tapline-session"]),
    ("tapline-sim", &["tapline-protocol", "tapline-recording"]),
    ("tapline-archive", &["tapline-protocol", "tapline-recording", "tapline-session"]),
    ("tapline-http", &[]),
    ("tapline-server", &["tapline-archive", "tapline-http", "tapline-protocol", "tapline-recording", "tapline-session"]),
    (
        "tapline-fleet",
        &["tapline-archive", "tapline-http", "tapline-protocol", "tapline-recording", "tapline-runner", "tapline-session"],
    ),
    ("tapline", &["tapline-archive", "tapline-protocol", "tapline-recording", "tapline-runner", "tapline-session"]),
    (
        "tapline-cli",
        &[
            "tapline-archive",
            "tapline-fleet",
            "tapline-http",
            "tapline-protocol",
            "tapline-recording",
            "tapline-runner",
            "tapline-server",
            "tapline-session",
            "tapline-sim",
        ],
    ),
    (TESTKIT, &[]),
];

/// What the tests of all crates share. It is in no list above: it is a dev-dependency only.
const TESTKIT: &str = "tapline-testkit";

/// No file is longer.
const LONGEST: usize = 600;

fn sources() -> Vec<(PathBuf, String)> {
    texts("crates", "rs")
}

/// The sources of the crates and of the package for Python.
fn all_sources() -> Vec<(PathBuf, String)> {
    [sources(), texts("python/src", "rs")].concat()
}

/// Whatever of the crates becomes part of a program.
pub(crate) fn shipped() -> Vec<(PathBuf, String)> {
    let mut shipped = [sources(), texts("crates", "toml")].concat();
    shipped.retain(|(path, _)| has_part(path, "src") && !has_part(path, TESTKIT));
    shipped
}

fn has_part(path: &Path, name: &str) -> bool {
    path.components().any(|part| part.as_os_str() == name)
}

fn texts(folder: &str, extension: &str) -> Vec<(PathBuf, String)> {
    let found =
        files_below(root().join(folder)).into_iter().filter(|path| path.extension().is_some_and(|found| found == extension));
    found
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            (path, text)
        })
        .collect()
}

/// The crates that a manifest names for all that is shipped, whatever the system and whatever they are called there.
fn used_by(manifest: &toml::Table) -> Vec<String> {
    let targets = manifest.get("target").and_then(|target| target.as_table()).into_iter().flat_map(|targets| targets.values());
    let tables = targets.filter_map(|target| target.as_table()).chain([manifest]);
    let kinds = tables.flat_map(|table| ["dependencies", "build-dependencies"].map(|kind| table.get(kind)));
    let dependencies = kinds.flatten().filter_map(|kind| kind.as_table()).flatten();
    let package = |wanted: &toml::Value| Some(wanted.get("package")?.as_str()?.to_owned());
    dependencies.map(|(name, wanted)| package(wanted).unwrap_or_else(|| name.clone())).collect()
}

#[test]
fn an_edge_between_crates_is_found_however_it_is_written() {
    for text in [
        "[dependencies]\ntapline-sim.workspace = true",
        "[build-dependencies]\ntapline-sim = \"1\"",
        "[target.'cfg(unix)'.dependencies]\ntapline-sim = \"1\"",
        "[dependencies]\nother = { package = \"tapline-sim\", version = \"1\" }",
    ] {
        assert_eq!(used_by(&text.parse().unwrap()), ["tapline-sim"], "{text}");
    }
    assert!(used_by(&"[dev-dependencies]\ntapline-sim = \"1\"".parse().unwrap()).is_empty());
}

#[test]
fn crates_use_what_the_design_lets_them() {
    let mut seen = 0;
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let manifest: toml::Table = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap();
        let (_, allowed) =
            EDGES.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name} is in no room of the design"));
        assert_eq!(manifest["package"]["name"].as_str(), Some(name.as_str()), "folder name = crate name");
        for used in used_by(&manifest).iter().filter(|used| used.starts_with("tapline")) {
            assert!(allowed.contains(&used.as_str()), "{name} must not use {used}");
        }
        assert_eq!(manifest["lints"]["workspace"].as_bool(), Some(true), "{name} keeps the workspace's lints");
        seen += 1;
    }
    assert_eq!(seen, EDGES.len());
}

#[test]
fn the_testkit_is_for_tests_alone() {
    let manifest = |path: PathBuf| std::fs::read_to_string(path).unwrap().parse::<toml::Table>().unwrap();
    let own = manifest(root().join("crates").join(TESTKIT).join("Cargo.toml"));
    assert_eq!(own["package"]["publish"].as_bool(), Some(false));
    let all = manifest(root().join("Cargo.toml"));
    let wanted = &all["workspace"]["dependencies"][TESTKIT];
    assert!(wanted.get("version").is_none(), "a dev-dependency without a version is no part of a package");
    // Its own tests need no other crate either.
    let uses = own.get("dev-dependencies").and_then(|uses| uses.as_table()).into_iter().flat_map(|uses| uses.keys());
    assert!(uses.into_iter().all(|name| !name.starts_with("tapline")));
}

#[test]
fn temporary_folders_of_tests_are_the_testkits() {
    let own = ["temp_dir", "()"].concat();
    for (path, text) in sources().into_iter().filter(|(path, _)| !has_part(path, TESTKIT)) {
        let tests = if has_part(&path, "tests") { text.as_str() } else { &text[shipped_code(&text).len()..] };
        assert!(!tests.contains(&own), "{}: `TempFolder` is removed after its test, and private", path.display());
    }
}

#[test]
fn files_are_short_and_say_why_they_exist() {
    for (path, text) in all_sources() {
        let name = path.display();
        assert!(text.lines().count() <= LONGEST, "{name} has {} lines", text.lines().count());
        let about = text.lines().take_while(|line| line.starts_with("//!")).count();
        let most = if path.ends_with("lib.rs") { 60 } else { 5 };
        assert!((1..=most).contains(&about), "{name} starts with {about} lines of //!");
        assert_ne!(path.file_name().unwrap(), "mod.rs", "{name}: foo.rs + foo/");
    }
}

/// Whether a text names variants of `Event`, or gives it a name under which it could.
fn names_variants(text: &str) -> bool {
    // Markdown and the broker's client have events of their own.
    let others = ["use pulldown_cmark::", "use async_nats::"];
    let is_other = |line: &&str| line.trim_start().starts_with("//") || others.iter().any(|other| line.starts_with(other));
    let code: String = text.lines().filter(|line| !is_other(line)).collect::<Vec<_>>().join("\n");
    let code = code.replace("HookEvent", "");
    let is_alias = |line: &str| {
        let line = line.trim_start().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
        line.starts_with("type ") && line.trim_end_matches(';').ends_with("Event")
    };
    code.contains("Event::") || code.contains("Event as ") || code.lines().any(is_alias)
}

/// Ways to write code that the compiler does not check.
const UNSAFE: &[&str] = &["unsafe {", "unsafe fn", "unsafe impl", "unsafe trait", "unsafe extern", "unsafe("];

#[test]
fn laws_about_texts_are_not_evaded() {
    for text in ["Event::Claude(_) => 1", "use tapline_protocol::Event as E;", "    type E = tapline_protocol::Event;"] {
        assert!(names_variants(text), "{text}");
    }
    for text in ["use tapline_protocol::Event;", "// Event::Claude", "HookEvent::Stop", "type Question = HookEvent;"] {
        assert!(!names_variants(text), "{text}");
    }
    for text in ["unsafe { f() }", "pub unsafe fn f()", "unsafe impl Send for X {}"] {
        assert!(UNSAFE.iter().any(|way| text.contains(way)), "{text}");
    }
    assert_eq!(shipped_code("a\n#[cfg(test)]\nuse b;\nc\n\n#[cfg(test)]\nmod tests {\nd"), "a\n#[cfg(test)]\nuse b;\nc\n\n");
}

/// A file without its tests, which stand at its end.
fn shipped_code(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

#[test]
fn events_are_matched_in_one_place() {
    let outside = |path: &Path| !has_part(path, "tapline-protocol") && !has_part(path, "tests");
    for (path, text) in sources().into_iter().filter(|(path, _)| outside(path)) {
        let matches = names_variants(&text);
        let mut folds = Agent::ALL.iter().map(|agent| agent.name()).chain(["sides"]);
        let is_fold = folds.any(|fold| path.ends_with(format!("tapline-session/src/fold/{fold}.rs")));
        assert_eq!(matches, is_fold, "{}: `Event` is matched in the fold alone, an agent's in its own file", path.display());
    }
}

#[test]
fn unsafe_code_has_one_place() {
    for (path, text) in sources().into_iter().filter(|(path, _)| !has_part(path, "tests")) {
        let allowed = path.ends_with("tapline-runner/src/spawn.rs");
        assert_eq!(UNSAFE.iter().any(|way| text.contains(way)), allowed, "{}", path.display());
        if path.ends_with("src/lib.rs") || path.ends_with("src/main.rs") {
            let forbids = text.contains("#![forbid(unsafe_code)]");
            assert_eq!(forbids, !path.to_str().unwrap().contains("tapline-runner"), "{}", path.display());
        }
    }
}

#[test]
fn libraries_are_silent_and_pure() {
    const IMPURE: &[&str] =
        &["std::fs", "std::net", "std::process", "std::env", "std::time::SystemTime", "Instant::now", "thread::spawn"];
    for (path, text) in sources() {
        let library = ["tapline-protocol/src", "tapline-session/src"].iter().any(|part| path.to_str().unwrap().contains(part));
        if library {
            let found = IMPURE.iter().find(|word| text.contains(**word));
            assert_eq!(found, None, "{}", path.display());
        }
    }
}

#[test]
fn no_clock_is_asked_below_the_runner() {
    const CLOCKS: &[&str] = &["Instant::now", "SystemTime::now", "Timestamp::now", ".elapsed()"];
    const BELOW: &[&str] = &["tapline-protocol/src", "tapline-session/src", "tapline-recording/src", "tapline-archive/src"];
    for (path, text) in sources().into_iter().filter(|(path, _)| BELOW.iter().any(|part| path.to_str().unwrap().contains(part)))
    {
        let code = shipped_code(&text);
        let asked = CLOCKS.iter().find(|clock| code.contains(**clock));
        // The name of a new recording says when it was made.
        let expected = path.ends_with("tapline-recording/src/store.rs").then_some(&"Timestamp::now");
        assert_eq!(asked, expected, "{}", path.display());
    }
}

#[test]
fn every_fixture_is_described_and_every_description_has_its_fixture() {
    let folder = root().join("fixtures");
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let paths = files_below(&folder);
    // The transcripts of one case are described together.
    let described_as = |path: &Path| {
        let name = path.strip_prefix(&folder).unwrap().to_str().unwrap();
        match name.strip_prefix("transcripts/").and_then(|rest| rest.split_once('/')) {
            Some((case, _)) => format!("transcripts/{case}/"),
            None => name.to_owned(),
        }
    };
    let mut names: Vec<_> = paths.iter().map(|path| described_as(path)).filter(|name| name != "README.md").collect();
    names.dedup();
    for name in &names {
        assert!(readme.contains(&format!("| `{name}` |")), "{name} is not described in fixtures/README.md");
    }
    let described = readme.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    for name in described {
        assert!(names.iter().any(|found| found == name), "{name} is described, but not there");
    }
}

#[test]
fn every_dependency_is_explained() {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let manifest: toml::Table = std::fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    for name in manifest["workspace"]["dependencies"].as_table().unwrap().keys().filter(|name| !name.starts_with("tapline")) {
        assert!(page.contains(&format!("`{name}`")), "ARCHITECTURE.md does not say why {name} is there");
    }
}

#[test]
fn every_crate_has_what_its_package_shows() {
    for (name, _) in EDGES.iter().filter(|(name, _)| *name != TESTKIT) {
        let folder = root().join("crates").join(name);
        let text = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
        let package = text("Cargo.toml").parse::<toml::Table>().unwrap().remove("package").unwrap();
        for key in ["description", "license", "repository", "keywords", "categories", "rust-version"] {
            assert!(package.get(key).is_some(), "{name} has no {key}");
        }
        assert_eq!(package["readme"].as_str(), Some("README.md"));
        assert!(text("README.md").starts_with(&format!("# {name}\n")), "{name}: the README says what it is");
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            assert_eq!(text(licence), std::fs::read_to_string(root().join(licence)).unwrap(), "{name}");
        }
        // The binary's crate has no documentation of its own.
        let documented = package.get("metadata").is_some_and(|metadata| metadata.get("docs").is_some());
        assert_eq!(documented, *name != "tapline-cli", "{name}");
    }
}

/// Whoever adds a command says whether it shows what a run came to. If it does, the test of the surfaces asks it.
#[test]
fn every_command_that_shows_a_run_is_asked_for_the_facts() {
    // What they show of runs is a dialogue, a search, a stream or the verdict of another command.
    const OTHERS: &[&str] = &[
        "archive", "chain", "chat", "check", "collect", "convert", "demo", "denials", "doctor", "help", "man", "replay",
        "schema", "search", "shim", "sim", "tee", "updates", "worker",
    ];
    let folder = root().join("crates/tapline-cli/src/commands");
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let commands = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let mut commands: Vec<String> = commands.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    commands.sort();
    let is_asked = |command: &str| crate::surfaces::SURFACES.iter().any(|(name, ..)| name.split(' ').next() == Some(command));
    let unknown: Vec<_> = commands.iter().filter(|command| !OTHERS.contains(&command.as_str()) && !is_asked(command)).collect();
    assert!(unknown.is_empty(), "these show runs, or say above that they do not: {unknown:?}");
    let both: Vec<_> = OTHERS.iter().filter(|other| is_asked(other) || !commands.contains(&(**other).to_owned())).collect();
    assert!(both.is_empty(), "these are surfaces, or no commands: {both:?}");
}
