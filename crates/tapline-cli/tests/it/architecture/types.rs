//! One name per idea: no two public types of the libraries have the same name.

use std::collections::BTreeMap;

use super::sources;

/// Names that two types may have, and why.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("Agent", "the protocol's says which agent it is (`tapline::AgentKind`), the runner's starts it"),
    ("Event", "all agents' events, and in each agent's folder its own"),
    ("Progress", "the session's is of a run, the archive's of reading files"),
    ("Reader", "the protocol's reads records, the archive's takes requests and sessions"),
    ("SessionFacts", "the session's is what one stream says about it, the archive's what all files say"),
    ("Speed", "the archive's has a price, the simulator's a pace"),
];

/// Modules that are a name of their own: `claude::Message`, `facts::Message`.
const MODULES: &[&str] = &["tapline-protocol/src/claude", "tapline-protocol/src/codex", "tapline-archive/src/facts"];

/// The public types that a file defines, also those inside a macro.
fn defined(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let (kind, rest) = line.trim_start().strip_prefix("pub ")?.split_once(' ')?;
        let is_type = ["struct", "enum", "trait", "type"].contains(&kind);
        let name = rest.split(|c: char| !c.is_alphanumeric()).next()?;
        (is_type && !name.is_empty()).then_some(name)
    })
}

#[test]
fn a_type_is_found_however_it_is_written() {
    let text =
        "pub struct A;\n    pub enum B {\npub trait C: D {\npub type E<T> = F;\npub(crate) struct G;\npub fn h() {}\nstruct I;";
    assert_eq!(defined(text).collect::<Vec<_>>(), ["A", "B", "C", "E"]);
}

#[test]
fn public_types_have_names_of_their_own() {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in sources() {
        let name = path.to_str().unwrap().rsplit_once("/crates/").unwrap().1.to_owned();
        // The command line is no library.
        let is_library = name.contains("/src/") && !name.starts_with("tapline-cli/");
        let is_named = MODULES.iter().any(|module| name.starts_with(&format!("{module}/")) || name == format!("{module}.rs"));
        if is_library && !is_named {
            for defined in defined(&text) {
                all.entry(defined.to_owned()).or_default().push(name.clone());
            }
        }
    }
    assert!(all.contains_key("Report") && all.contains_key("Session"), "{all:?}");
    all.retain(|name, files| files.len() > 1 && !EXCEPTIONS.iter().any(|(known, _)| known == name));
    assert!(all.is_empty(), "{all:#?}");
}
