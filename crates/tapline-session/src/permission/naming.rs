//! Names of tools in permission rules and policies: which ones are certainly wrong, and which ones are unknown.

use super::tools;
use crate::pattern::matches;
use crate::text::nearest;

/// Why no tool can have this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WrongName {
    /// The agent's own notation for rules: `Bash(git log:*)`. With the tool, and the rule in our notation.
    OfAgent { tool: String, rule: String },
    /// Several names, or spaces around a name. With the names.
    Several(String),
    /// The name of an MCP server.
    Server,
    /// The wrong case.
    Letters { meant: &'static str },
}

impl WrongName {
    /// Returns what is wrong with a name, if anything is.
    pub(crate) fn of(name: &str) -> Option<Self> {
        if let Some((tool, rest)) = name.split_once('(') {
            let tool = tools::known().find(|known| known.eq_ignore_ascii_case(tool.trim())).unwrap_or(tool.trim());
            let rule = translated(tool, rest.trim_end().trim_end_matches(')').trim());
            return Some(Self::OfAgent { tool: tool.to_owned(), rule });
        }
        if name.contains([',', ' ', '|']) {
            let names = name.split([',', ' ', '|']).filter(|name| !name.is_empty()).map(|name| format!("{name:?}"));
            let names: Vec<_> = names.collect();
            return Some(Self::Several(if let [one] = &names[..] { one.clone() } else { format!("[{}]", names.join(", ")) }));
        }
        if name.strip_prefix("mcp__").is_some_and(|rest| !rest.contains('*') && !rest.contains("__")) {
            return Some(Self::Server);
        }
        if tools::known().any(|known| matches(name, known)) {
            return None;
        }
        let meant = tools::known().find(|known| matches(&name.to_lowercase(), &known.to_lowercase()))?;
        Some(Self::Letters { meant })
    }

    /// Says what is wrong. `write` is the text in front of a name where it is written.
    pub(crate) fn told(&self, name: &str, write: &str) -> String {
        match self {
            Self::OfAgent { rule, .. } => {
                format!("`{name}` is how the agent writes its own rules; here, write {rule}")
            }
            Self::Several(names) => format!("`{name}` is not the name of a tool: write {write}{names}"),
            Self::Server => format!("`{name}` is an MCP server, not a tool: for all of its tools, write {write}\"{name}__*\""),
            Self::Letters { meant } => {
                format!("no tool is called `{name}`: did you mean `{meant}`? Names are case-sensitive")
            }
        }
    }
}

/// Converts a rule in the agent's own notation (`Bash(git log:*)`) to ours.
fn translated(tool: &str, inside: &str) -> String {
    if inside.is_empty() || inside == "*" {
        format!("tool = {tool:?}")
    } else if tools::runs_commands(tool) {
        let command = inside.strip_suffix(":*").map_or(inside.to_owned(), |start| format!("{start} *"));
        format!("tool = {tool:?} and command = {command:?}")
    } else if tools::names_files(tool) {
        let path = if inside.starts_with("//") { &inside[1..] } else { inside };
        format!("tool = {tool:?} and path = {path:?}")
    } else {
        format!("tool = {tool:?} alone: rules see nothing else of it")
    }
}

/// Says why a name is most likely a mistake: no known tool has it. A name with `*` may be for future tools.
pub(crate) fn unknown(name: &str) -> Option<String> {
    if name.contains('*') || name.starts_with("mcp__") || tools::known().any(|known| known == name) {
        return None;
    }
    let meant = nearest(name, tools::known()).map(|meant| format!(": did you mean `{meant}`?")).unwrap_or_default();
    Some(format!("no tool named `{name}` is known{meant}"))
}
