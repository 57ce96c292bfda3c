//! The narrowest rule that would allow a call: what a person is told after it was denied.

use std::fmt::{self, Write as _};

use super::{Call, Permissions, Rule, Ruling, covers, obstacle, tools};
use crate::text::visible;

/// A rule that would allow a call. Nothing is suggested that was not tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// The tool.
    pub tool: String,
    /// Its commands, for a tool that runs one.
    pub commands: Vec<String>,
    /// Its files, for a tool that names some.
    pub paths: Vec<String>,
}

impl Suggestion {
    /// Takes in what another is for, if both are about the same of the same tool.
    pub fn join(&mut self, other: &Self) -> bool {
        let same = |one: &[String], other: &[String]| one.is_empty() == other.is_empty();
        let joins = self.tool == other.tool && same(&self.commands, &other.commands) && same(&self.paths, &other.paths);
        if joins {
            for (to, from) in [(&mut self.commands, &other.commands), (&mut self.paths, &other.paths)] {
                to.extend(from.iter().filter(|text| !to.contains(text)).cloned().collect::<Vec<_>>());
            }
        }
        joins
    }

    /// Its lines in TOML: `tool = "Bash"`, `command = "git status"`.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("tool = {}", quoted(&self.tool))];
        for (key, texts) in [("command", &self.commands), ("path", &self.paths)] {
            match texts.as_slice() {
                [] => {}
                [one] => lines.push(format!("{key} = {}", quoted(one))),
                all => lines.push(format!("{key} = [{}]", all.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))),
            }
        }
        lines
    }

    fn rule(&self) -> Option<Rule> {
        // In a rule `*` stands for anything: the rule would allow more than this call.
        let more = [&self.tool].into_iter().chain(&self.commands).chain(&self.paths).any(|text| text.contains('*'));
        if more {
            return None;
        }
        toml::from_str(&self.lines().join("\n")).ok()
    }
}

/// A string of TOML on one line that looks the same wherever it is shown.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        let mut bytes = [0; 4];
        let shown: &str = c.encode_utf8(&mut bytes);
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() || visible(shown) != shown => {
                let _ = write!(out, "\\U{:08X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out + "\""
}

/// Why no rule can allow just this call, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoRule(String);

impl fmt::Display for NoRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoRule {}

impl Permissions {
    /// The narrowest rule that would allow a call beside these; where no such rule can, why.
    pub fn suggest(&self, call: &Call) -> Result<Suggestion, NoRule> {
        self.narrowest(call).ok_or_else(|| {
            let decision = self.decide(call);
            NoRule(obstacle::of(call, decision.rule.as_deref().filter(|_| decision.ruling != Ruling::Allow)))
        })
    }

    fn narrowest(&self, call: &Call) -> Option<Suggestion> {
        if call.lost_path || call.lost_command || call.is_bare() {
            return None;
        }
        let own = |commands| {
            let paths =
                if call.command.is_none() { call.paths.iter().map(|path| from_home(path, call)).collect() } else { Vec::new() };
            Suggestion { tool: call.tool.clone(), commands, paths }
        };
        let Some(command) = &call.command else { return Some(own(Vec::new())).filter(|rule| self.allows_with(rule, call)) };
        let parts = if tools::is_powershell(&call.tool) { vec![command.trim().to_owned()] } else { covers::parts(command)? };
        let open =
            |part: &&String| self.decide(&Call { command: Some((*part).clone()), ..call.clone() }).ruling != Ruling::Allow;
        // What is allowed already need not be said again, unless it is another thing in this place.
        let narrow = own(parts.iter().filter(open).cloned().collect());
        let whole = own(parts);
        [narrow, whole].into_iter().find(|rule| !rule.commands.is_empty() && self.allows_with(rule, call))
    }

    fn allows_with(&self, suggestion: &Suggestion, call: &Call) -> bool {
        let Some(rule) = suggestion.rule() else { return false };
        let mut with = self.clone();
        with.allow.push(rule);
        with.decide(call).ruling == Ruling::Allow
    }
}

/// A path as a rule names it: from the folder where the agent was started, if it is below that and does not read as a home there.
fn from_home(path: &str, call: &Call) -> String {
    let below = call.home.as_ref().and_then(|home| path.strip_prefix(home.trim_end_matches('/'))?.strip_prefix('/'));
    below.filter(|below| !below.is_empty() && !below.starts_with('~')).unwrap_or(path).to_owned()
}
