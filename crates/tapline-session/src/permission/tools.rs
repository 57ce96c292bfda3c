//! Names of tools: which ones mean the same, and what they do, from the agents' profiles.

use crate::agents::{ToolKinds, profiles};

/// Returns whether one of these lists has the tool.
fn is(tool: &str, list: fn(&ToolKinds) -> &'static [&'static str]) -> bool {
    profiles().any(|profile| list(&profile.kinds).contains(&tool))
}

fn is_shell(tool: &str) -> bool {
    is(tool, |kinds| kinds.shells)
}

/// Returns the names that a rule about commands may use for any tool that runs one.
pub(super) fn of_commands() -> impl Iterator<Item = &'static str> {
    profiles().flat_map(|profile| profile.kinds.shells).copied()
}

/// Returns all names of a tool.
pub(super) fn names<'t>(tool: &'t str) -> impl Iterator<Item = &'t str> {
    let same = profiles().flat_map(|profile| profile.kinds.same).find(|names| names.contains(&tool));
    let shells = of_commands().filter(move |_| is_shell(tool));
    let others = same.into_iter().copied().flatten().copied().chain(shells).filter(move |name| *name != tool);
    [tool].into_iter().chain(others.map(|name| -> &'t str { name }))
}

/// Returns all known tools, under all their names.
pub(super) fn known() -> impl Iterator<Item = &'static str> {
    let same = profiles().flat_map(|profile| profile.kinds.same.iter().copied().flatten().copied());
    crate::call::names().chain(same).chain(of_commands())
}

/// Returns whether a tool runs commands of any shell.
pub(super) fn runs_commands(tool: &str) -> bool {
    is_shell(tool) || is_powershell(tool)
}

/// Returns whether a tool names its files and runs no command.
pub(super) fn names_files(tool: &str) -> bool {
    !has_neither(tool) && (only_reads(tool) || is(tool, |kinds| kinds.writing))
}

pub(super) fn has_neither(tool: &str) -> bool {
    is(tool, |kinds| kinds.named_only)
}

pub(super) fn only_reads(tool: &str) -> bool {
    is(tool, |kinds| kinds.reading)
}

/// Returns whether a tool runs commands that are not in the language of a Unix shell.
pub(super) fn is_powershell(tool: &str) -> bool {
    tool == "PowerShell"
}
