//! Suggests the narrowest rule that would allow a call, to show after it was denied.

use std::fmt::{self, Write as _};

use super::{PendingCall, Permissions, Rule, Ruling, covers, obstacle, tools};
use crate::text::visible;

/// A rule that would allow a call. Each one is tested before it is suggested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// The tool.
    pub tool: String,
    /// The commands, for a tool that runs one.
    pub commands: Vec<String>,
    /// The files, for a tool that names some.
    pub paths: Vec<String>,
}

impl Suggestion {
    /// Adds what another suggestion allows, if both are for the same kind of input of the same tool.
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

    /// Returns the rule as lines of TOML: `tool = "Bash"`, `command = "git status"`.
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
        // In a rule, `*` stands for anything, so the rule would allow more than this call.
        let more = [&self.tool].into_iter().chain(&self.commands).chain(&self.paths).any(|text| text.contains('*'));
        if more {
            return None;
        }
        toml::from_str(&self.lines().join("\n")).ok()
    }
}

/// Formats a TOML string on one line that looks the same wherever it is shown.
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

/// Why no rule can allow exactly this call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoRule(String);

impl fmt::Display for NoRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoRule {}

impl Permissions {
    /// Suggests the narrowest additional rule that would allow a call, or says why no rule can.
    pub fn suggest(&self, call: &PendingCall) -> Result<Suggestion, NoRule> {
        self.narrowest(call).ok_or_else(|| {
            let decision = self.decide(call);
            NoRule(obstacle::of(call, decision.rule.as_deref().filter(|_| decision.ruling != Ruling::Allow)))
        })
    }

    fn narrowest(&self, call: &PendingCall) -> Option<Suggestion> {
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
        let open = |part: &&String| {
            self.decide(&PendingCall { command: Some((*part).clone()), ..call.clone() }).ruling != Ruling::Allow
        };
        // What is already allowed need not be repeated, unless it means something else in this place.
        let narrow = own(parts.iter().filter(open).cloned().collect());
        let whole = own(parts);
        [narrow, whole].into_iter().find(|rule| !rule.commands.is_empty() && self.allows_with(rule, call))
    }

    fn allows_with(&self, suggestion: &Suggestion, call: &PendingCall) -> bool {
        let Some(rule) = suggestion.rule() else { return false };
        let mut with = self.clone();
        with.allow.push(rule);
        with.decide(call).ruling == Ruling::Allow
    }
}

/// Returns a path as a rule names it: relative to the folder where the agent was started, if it is below that and would
/// not read as a home.
fn from_home(path: &str, call: &PendingCall) -> String {
    let below = call.home.as_ref().and_then(|home| path.strip_prefix(home.trim_end_matches('/'))?.strip_prefix('/'));
    below.filter(|below| !below.is_empty() && !below.starts_with('~')).unwrap_or(path).to_owned()
}
