//! An agent is a folder: outside its own files nothing names it. What code, names and texts of tapline's say is looked at, not
//! comments (which may give an agent as an example) and not tests.

use std::path::{Path, PathBuf};

use tapline_protocol::Agent;
use tapline_testkit::root;

/// Where an agent may be named anyway: the file or folder, a part of the line, and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("tapline-protocol/src/agent.rs", " = \"", "the table of agents: their names"),
    ("tapline-protocol/src/dialects.rs", "use crate::{", "the table of their dialects"),
    ("tapline-protocol/src/dialects.rs", " => of!(", "the table of their dialects"),
    ("tapline-protocol/src/event.rs", "use crate::{", "an event is one agent's: a variant each"),
    ("tapline-protocol/src/event.rs", "::Event),", "an event is one agent's: a variant each"),
    ("tapline-protocol/src/event.rs", "Self::", "an event is one agent's: a variant each"),
    (
        "tapline-protocol/src/lib.rs",
        "pub use crate::claude::",
        "shapes of one agent that others use too, under names that are not specific to one agent",
    ),
    ("tapline-protocol/src/event/accessors.rs", "use crate::claude", "finds events of the one agent that can be talked with"),
    ("tapline-protocol/src/event/accessors.rs", "claude::Event::", "finds events of the one agent that can be talked with"),
    ("tapline-session/src/agents.rs", "::PROFILE", "the table of their profiles"),
    ("tapline-session/src/fold/sides.rs", "use super::{", "the table of their sides of the fold"),
    ("tapline-session/src/fold/sides.rs", "::State,", "the table of their sides of the fold"),
    ("tapline-session/src/fold/sides.rs", " => ", "the table of their sides of the fold"),
    ("tapline-session/src/fold/sides.rs", "codex::Co", "the report's `codex` key"),
    ("tapline-session/src/fold/sides.rs", "wants(\"codex\")", "the report's `codex` key"),
    ("tapline-session/src/fold/sides.rs", "self.codex.", "the report's `codex` key"),
    ("tapline-session/src/fold.rs", "pub use codex::", "the type of the report's `codex` key"),
    ("tapline-session/src/lib.rs", "CodexPart", "the type of the report's `codex` key"),
    ("tapline-session/src/report.rs", "CodexPart", "the report's `codex` key"),
    ("tapline-session/src/report/collector.rs", "codex: part", "the report's `codex` key"),
    ("tapline-session/src/report/shape.rs", "\"codex\": {", "the report's `codex` key"),
    ("tapline-session/src/policy/read.rs", "claude-opus-*", "a model's name, in an example"),
    ("tapline-session/src/permission/unasked.rs", "\".", "files of many programs that run code, agents among them"),
    ("tapline-archive/src/transcripts.rs", "::FORMAT,", "the table of how they write transcripts"),
    ("tapline-runner/src/harness.rs", "::HARNESS", "the table of how they are started"),
    ("tapline-runner/src/harness/codex.rs", "Kind::Claude", "names who can do what Codex cannot"),
    ("tapline-runner/src/agent.rs", "() -> Self {", "`Agent::claude()` and others: what Rust programs write"),
    ("tapline-runner/src/agent.rs", "        Self::new(Kind::", "`Agent::claude()` and others: what Rust programs write"),
    ("tapline-runner/src/ask.rs", "Agent::claude()", "the simplest use names no agent: this one is meant"),
    ("tapline-sim/src/agents.rs", "::GUEST", "the table of the scripted model's guests"),
    ("tapline-archive/src/kept/agents.rs", "        Agent::", "the table of how long they keep their files"),
    ("tapline-cli/src/agents.rs", "::HABITS", "the table of what commands know of them"),
    ("tapline-archive/src/retelling.rs", " => Box::", "the table of how their transcripts are told"),
    ("tapline-cli/src/args/sessions.rs", "/// ", "help: which agents there are"),
    ("tapline-cli/src/args/offline.rs", "  tapline sim ", "help: commands that people copy"),
    ("tapline-cli/src/args/offline.rs", "  ln -s ", "help: commands that people copy"),
    ("tapline-cli/src/args/offline.rs", "  CLAUDE=$(tapline shim ", "help: commands that people copy"),
    ("tapline-cli/src/args.rs", "/// The file that `codex exec", "help: an option for one agent's file"),
    ("tapline-cli/src/args.rs", "/// One ", "help: formats, by the flags that give them"),
    ("tapline-cli/src/args/offline.rs", "/// ", "help: an agent as an example, or as the default"),
    ("tapline-cli/src/args/stats.rs", "/// Without PATH, tapline counts", "help: which agents there are"),
    ("tapline-cli/src/args/stats.rs", "/// Print one line for", "help: the one agent that has a status line"),
    ("tapline-cli/src/args/stats.rs", "/// It reads the JSON that", "help: the one agent that has a status line"),
    ("tapline-cli/src/args/run.rs", "/// The result, as `claude", "help: a format, by the flag that gives it"),
    ("python/src/report.rs", "background_launches codex", "the report's `codex` key"),
    ("tapline-cli/src/commands/sim.rs", "like `-- claude -p", "an example of a command"),
];

/// Whether an agent has this file: it bears its name, or stands in a folder that does.
fn is_of(path: &Path, agent: &str) -> bool {
    path.components().any(|part| Path::new(part.as_os_str()).file_stem().is_some_and(|stem| stem == agent))
}

/// The lines of code that name an agent whose file it is not.
fn naming<'t>(path: &Path, text: &'t str) -> Vec<(usize, &'t str)> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let says = |line: &str| {
        let code = line.to_lowercase();
        // To have a folder it must be declared.
        let is_declared = |name: &str| code.trim_start_matches("pub ").trim_end() == format!("mod {name};");
        let mut names = Agent::ALL.iter().map(|agent| agent.name()).filter(|name| !is_of(path, name));
        names.any(|name| code.contains(name) && !is_declared(name))
    };
    // A command's help is written as a comment, and is shipped.
    let is_help = path.starts_with("tapline-cli/src/args") || path.ends_with("tapline-cli/src/args.rs");
    let is_comment = |line: &str| {
        let line = line.trim_start();
        line.starts_with("//") && !(is_help && line.starts_with("/// "))
    };
    (1..).zip(code.lines()).filter(|(_, line)| !is_comment(line) && says(line)).collect()
}

/// The reason why a line may name an agent, by its place among the exceptions.
fn exception(path: &Path, line: &str) -> Option<usize> {
    EXCEPTIONS.iter().position(|(place, part, _)| path.starts_with(place) && line.contains(part))
}

/// The sources of all crates, by their paths below `crates` (`python/src/…` for those of the package for Python), without those of
/// tests.
pub(super) fn sources() -> Vec<(PathBuf, String)> {
    let (root, crates) = (root(), root().join("crates"));
    let below = |path: PathBuf| path.strip_prefix(&crates).or_else(|_| path.strip_prefix(&root)).unwrap().to_owned();
    let sources = super::all_sources().into_iter().map(|(path, text)| (below(path), text));
    let mut sources: Vec<_> =
        sources.filter(|(path, _)| path.components().nth(1).is_some_and(|part| part.as_os_str() == "src")).collect();
    sources.retain(|(path, _)| !path.starts_with(super::TESTKIT));
    let tests: Vec<PathBuf> = sources.iter().flat_map(|(path, text)| tests_of(path, text)).collect();
    sources.retain(|(path, _)| !tests.iter().any(|tests| path.with_extension("").starts_with(tests)));
    sources
}

/// The modules of this file that are tests, in files of their own.
fn tests_of(path: &Path, text: &str) -> Vec<PathBuf> {
    let is_root = path.ends_with("lib.rs") || path.ends_with("main.rs");
    let folder = if is_root { path.parent().unwrap().to_owned() } else { path.with_extension("") };
    let behind = text.split("#[cfg(test)]\nmod ").skip(1);
    behind.filter_map(|behind| Some(folder.join(behind.lines().next()?.strip_suffix(';')?))).collect()
}

#[test]
fn agents_are_named_in_their_own_files_alone() {
    let mut wrong = Vec::new();
    for (path, text) in &sources() {
        for (number, line) in naming(path, text) {
            if exception(path, line).is_none() {
                wrong.push(format!("{}:{number}: {}", path.display(), line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "what these know of an agent belongs into its folder:\n{}", wrong.join("\n"));
}

#[test]
fn every_exception_is_needed() {
    let sources = sources();
    let lines = sources.iter().flat_map(|(path, text)| naming(path, text).into_iter().map(move |(_, line)| (path, line)));
    let used: Vec<usize> = lines.filter_map(|(path, line)| exception(path, line)).collect();
    for (at, (place, part, _)) in EXCEPTIONS.iter().enumerate() {
        assert!(!part.is_empty(), "{place}: an exception is for a part of a line, not for a file");
        assert!(used.contains(&at), "{place} names no agent with `{part}`");
    }
}

#[test]
fn a_name_is_found_however_it_is_written() {
    let found = |path: &str, text: &str| naming(Path::new(path), text).len();
    for text in [
        "match agent { Agent::Claude => 1 }",
        "    let version = format!(\"claude {version}\");",
        "struct CodexPart;",
        "fn is_old_codex() {}",
        "use tapline_protocol::codex::Item;",
        "const KEY: &str = \"CLAUDE_CODE_SIMPLE\";",
        "let x = 1; // not Codex's",
    ] {
        assert_eq!(found("tapline-session/src/render/marks.rs", text), 1, "{text}");
    }
    assert_eq!(found("tapline-session/src/fold/codex/item.rs", "use tapline_protocol::claude::X;"), 1, "of another agent");
    for (path, text) in [
        ("tapline-session/src/fold/codex.rs", "struct CodexPart;"),
        ("tapline-session/src/fold/codex/item.rs", "struct CodexPart;"),
        ("tapline-session/src/step.rs", "/// Like Codex's.\n    //! Claude's"),
        ("tapline-session/src/step.rs", "fn agents() {}"),
        ("tapline-session/src/step.rs", "fn f() {}\n\n#[cfg(test)]\nmod tests { use crate::claude; }"),
        ("tapline-session/src/fold.rs", "mod claude;\npub mod codex;"),
    ] {
        assert_eq!(found(path, text), 0, "{text}");
    }
    assert_eq!(found("tapline-cli/src/args/run.rs", "    /// What claude does"), 1, "help is shipped");
    // A third agent in the tables needs no other exception.
    for (path, line) in [
        ("tapline-protocol/src/dialects.rs", "use crate::{claude, codex, third};"),
        ("tapline-protocol/src/event.rs", "use crate::{claude, codex, third};"),
        ("tapline-session/src/fold/sides.rs", "use super::{Fold, Steps, claude, codex, third};"),
        ("tapline-runner/src/agent.rs", "    pub fn third() -> Self {"),
        ("tapline-runner/src/agent.rs", "        Self::new(Kind::Third)"),
    ] {
        assert!(exception(Path::new(path), line).is_some(), "{path}: {line}");
    }
    let shown = "const TEXT: &str = \"claude\";";
    assert_eq!(exception(Path::new("tapline-session/src/report.rs"), shown), None, "an exception is for what it names alone");
}
