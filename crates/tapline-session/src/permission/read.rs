//! Reads rules from TOML, and says plainly what is wrong with them. A rule that can never match is a mistake; if it was
//! to deny something, it is a security hole.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use super::naming::{self, WrongName};
use super::{Permissions, Rule, covers, tools};
use crate::pattern::Patterns;
use crate::rulefile::{File, Holds, Key, RuleFile, any, filled};

/// The keys of a permission file.
pub(super) const FILE: File = File {
    kind: RuleFile::Permissions,
    keys: &[
        Key("allow", Holds::Rules(RULE), RULES),
        Key("deny", Holds::Rules(RULE), RULES),
        Key("ask", Holds::Rules(RULE), RULES),
    ],
    example: "tool = \"Bash\", below a line with [[allow]]",
    other: (&["tools", "calls", "mcp", "session", "limits"], RuleFile::Policy),
};

const RULES: &str = r#"[[allow]] with tool = "Bash" and command = "git status" on lines below it"#;

const RULE: &[Key] = &[
    Key("tool", Holds::SomeNames(filled), r#"tool = "Bash" or tool = ["Read", "Grep"]"#),
    Key("command", Holds::SomeNames(filled), r#"command = "git status" or command = ["git status", "cargo test"]"#),
    Key("path", Holds::SomeNames(filled), r#"path = "src/**" or path = ["src/**", "docs/*.md"]"#),
    Key("reason", Holds::Text(any), r#"reason = "nothing is removed here""#),
];

/// A rule as it is written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    #[serde(deserialize_with = "names")]
    tool: Patterns,
    #[serde(default, deserialize_with = "some_if_any")]
    command: Option<Patterns>,
    #[serde(default, deserialize_with = "some_paths")]
    path: Option<Patterns>,
    reason: Option<String>,
}

impl TryFrom<Written> for Rule {
    type Error = String;

    fn try_from(Written { tool, command, path, reason }: Written) -> Result<Self, String> {
        let rule = Self { tool, command, path, reason };
        let mut wrong: Vec<_> = rule.never().collect();
        if wrong.len() == rule.tool.iter().count() { Err(wrong.swap_remove(0)) } else { Ok(rule) }
    }
}

/// Reads at least one pattern. A rule for nothing is a mistake.
fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Patterns, D::Error> {
    let patterns = Patterns::deserialize(deserializer)?;
    let nothing = patterns.is_empty() || patterns.iter().any(str::is_empty);
    if nothing { Err(D::Error::custom("an empty list, or an empty pattern, matches nothing")) } else { Ok(patterns) }
}

fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Patterns, D::Error> {
    let patterns = some(deserializer)?;
    let wrong = patterns.iter().find_map(|name| Some(WrongName::of(name)?.told(name, "tool = ")));
    wrong.map_or(Ok(patterns), |wrong| Err(D::Error::custom(wrong)))
}

fn some_if_any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Patterns>, D::Error> {
    some(deserializer).map(Some)
}

fn some_paths<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Patterns>, D::Error> {
    let patterns = some(deserializer)?;
    let of_another = |pattern: &&str| pattern.starts_with('~') && *pattern != "~" && !pattern.starts_with("~/");
    let unknown = patterns.iter().find(of_another);
    let unknown = unknown.map(|pattern| format!("it is not known whose home `{pattern}` means: write the whole path"));
    unknown.map_or(Ok(Some(patterns)), |wrong| Err(D::Error::custom(wrong)))
}

impl Rule {
    /// Says why the rule never matches a tool that it names, with a sentence for each.
    fn never(&self) -> impl Iterator<Item = String> {
        self.tool.iter().filter_map(|name| {
            let files = tools::names_files(name);
            let given = |patterns: &Option<Patterns>| patterns.as_ref().map(ToString::to_string).unwrap_or_default();
            if self.command.is_some() && (files || tools::has_neither(name)) {
                let instead = if files { "write `path`" } else { "leave it out" };
                let command = given(&self.command);
                return Some(format!(
                    "{name} runs no command, so a rule with `command` ({command}) never matches it: {instead}"
                ));
            }
            if self.path.is_some() && tools::runs_commands(name) {
                let (path, why) = (given(&self.path), "paths are not looked for in commands");
                return Some(format!("a rule with `path` ({path}) never matches {name}, because {why}: write `command`"));
            }
            (self.path.is_some() && tools::has_neither(name)).then(|| {
                format!("{name} names no file, so a rule with `path` ({}) never matches it: leave it out", given(&self.path))
            })
        })
    }

    /// Lists what is most likely a mistake in the rule.
    fn doubts(&self, allows: bool) -> Vec<String> {
        let mut doubts: Vec<_> = self.never().collect();
        doubts.extend(self.tool.iter().filter_map(naming::unknown));
        for command in self.command.iter().flat_map(Patterns::iter) {
            if let Some(start) = command.strip_suffix(":*").filter(|start| !start.contains(' ')) {
                doubts.push(format!(
                    "`{command}` is how the agent writes its own rules; here, `{start} *` is any command of {start}"
                ));
            } else if !allows
                && !command.contains([' ', '*'])
                && !self.command.iter().flat_map(Patterns::iter).any(|other| other.starts_with(&format!("{command} ")))
            {
                doubts.push(format!(
                    "`{command}` matches only the command without arguments; `{command} *` matches every command of {command}"
                ));
            } else if command.trim() != command {
                doubts.push(format!("no command begins or ends with a space, as `{command}` does"));
            } else if let Some(parts) =
                covers::parts(command).filter(|parts| allows && !parts.iter().any(|part| part == command))
            {
                let parts: Vec<_> = parts.iter().map(|part| format!("`{part}`")).collect();
                doubts.push(format!(
                    "`{command}` allows nothing: each part of a command needs its own pattern ({})",
                    parts.join(", ")
                ));
            }
        }
        doubts
    }
}

impl Permissions {
    /// Lists what is most likely a mistake in the rules, each with its rule.
    pub fn doubts(&self) -> Vec<String> {
        let lists = [("allow", &self.allow), ("deny", &self.deny), ("ask", &self.ask)];
        let of_list = |(name, rules): (&'static str, &Vec<Rule>)| {
            let numbered: Vec<_> = rules.iter().enumerate().map(|(at, rule)| (at, rule.doubts(name == "allow"))).collect();
            numbered
                .into_iter()
                .flat_map(move |(at, doubts)| doubts.into_iter().map(move |doubt| format!("{name}[{at}]: {doubt}")))
        };
        lists.into_iter().flat_map(of_list).collect()
    }
}
