//! Names of tools as people write them, in permission rules and in policies: which can never be meant, and which nobody knows.

use super::tools;
use crate::pattern::matches;
use crate::text::nearest;

/// Why no tool is ever called so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WrongName {
    /// A rule as the agent writes its own: `Bash(git log:*)`. The tool, and the same as it is written here.
    OfAgent { tool: String, rule: String },
    /// Several, or with blanks around it: what they are.
    Several(String),
    /// An MCP server.
    Server,
    /// In other letters.
    Letters { meant: &'static str },
}

impl WrongName {
    /// What is wrong with a name, if anything is.
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

    /// The same in words; `write` is what stands before a name where it is written.
    pub(crate) fn told(&self, name: &str, write: &str) -> String {
        match self {
            Self::OfAgent { rule, .. } => {
                format!("`{name}` is how the agent writes its own rules; here, write {rule}")
            }
            Self::Several(names) => format!("`{name}` is the name of no tool: write {write}{names}"),
            Self::Server => format!("`{name}` is an MCP server, not a tool: for all of its tools, write {write}\"{name}__*\""),
            Self::Letters { meant } => {
                format!("no tool is called `{name}`: did you mean `{meant}`? Capital and small letters count")
            }
        }
    }
}

/// A rule of the agent's own (`Bash(git log:*)`) as it is written here.
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
        format!("tool = {tool:?} alone: rules look at nothing else of it")
    }
}

/// Why a name is most likely a mistake: nobody knows a tool of that name. One with `*` may be for tools that are yet to come.
pub(crate) fn unknown(name: &str) -> Option<String> {
    if name.contains('*') || name.starts_with("mcp__") || tools::known().any(|known| known == name) {
        return None;
    }
    let meant = nearest(name, tools::known()).map(|meant| format!(": did you mean `{meant}`?")).unwrap_or_default();
    Some(format!("no tool of the name `{name}` is known{meant}"))
}
