//! Selects requests: by the agent that asks, the length of its conversation, and its text.

use regex_lite::Regex;
use serde::{Deserialize, Deserializer};

/// Who sends a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lane {
    /// The agent itself.
    #[default]
    Main,
    /// A sub-agent.
    Sub,
    /// The program, outside the conversation: for a title, a summary, or to check the key.
    Side,
}

impl Lane {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Sub => "sub",
            Self::Side => "side",
        }
    }
}

/// A regular expression.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// Returns whether the pattern matches somewhere in the text.
    pub fn is_in(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "/{}/", self.0.as_str())
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Regex::new(&text)
            .map(Self)
            .map_err(|error| serde::de::Error::custom(format!("`{text}` is not a valid pattern: {error}")))
    }
}

/// The facts about a request that conditions use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Who sends it.
    pub lane: Lane,
    /// How many answers the conversation has so far.
    pub count: u64,
    /// The last message: text and tool results, without the program's own reminders.
    pub last: String,
    /// The first message of the conversation.
    pub prompt: String,
    /// The system prompt.
    pub system: String,
    /// The model.
    pub model: String,
    /// The tools that the model may call.
    pub tools: Vec<String>,
}

impl Facts {
    /// Returns whether a tool can be called, as far as it can be seen: some are offered only after a search.
    pub(crate) fn may_call(&self, tool: &str) -> bool {
        let offers = |tool: &str| self.tools.iter().any(|name| name == tool);
        offers(tool) || (tool.starts_with("mcp__") && offers("ToolSearch")) || self.tools.is_empty()
    }
}

/// Conditions: which requests a turn answers, or what a request must contain. All given ones must hold.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// Who sends it: `main`, `sub` or `side`.
    pub agent: Option<Lane>,
    /// How many answers the conversation has.
    pub count: Option<u64>,
    /// Matches the last message.
    pub last: Option<Pattern>,
    /// Matches the first message. It distinguishes conversations, such as those of sub-agents.
    pub prompt: Option<Pattern>,
    /// Matches the system prompt.
    pub system: Option<Pattern>,
    /// Matches the model's name.
    pub model: Option<Pattern>,
    /// The tools that are offered.
    pub tools: Vec<String>,
}

impl When {
    /// Says which condition does not hold, or returns `None` if all do.
    pub fn departure(&self, facts: &Facts) -> Option<String> {
        if let Some(lane) = self.agent.filter(|lane| *lane != facts.lane) {
            return Some(format!("agent is {}, not {}", facts.lane.name(), lane.name()));
        }
        if let Some(count) = self.count.filter(|count| *count != facts.count) {
            return Some(format!("the conversation has {} answers, not {count}", facts.count));
        }
        let texts = [
            ("last", &self.last, &facts.last),
            ("prompt", &self.prompt, &facts.prompt),
            ("system", &self.system, &facts.system),
            ("model", &self.model, &facts.model),
        ];
        for (name, pattern, text) in texts {
            if let Some(pattern) = pattern.as_ref().filter(|pattern| !pattern.is_in(text)) {
                return Some(format!("{name} has no {pattern}: {:?}", beginning(text)));
            }
        }
        let missing = self.tools.iter().find(|tool| !facts.tools.contains(tool))?;
        Some(format!("the tool {missing} is not offered"))
    }
}

/// Returns the beginning of a text, for a message.
pub(crate) fn beginning(text: &str) -> String {
    let mut short: String = text.chars().take(120).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_is_not_offered_cannot_be_called() {
        let may = |tools: &[&str], tool: &str| {
            let tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
            Facts { tools, ..Facts::default() }.may_call(tool)
        };
        // Claude Code, and Codex with one tool or another.
        for tools in [&["Bash", "Read"][..], &["exec_command", "apply_patch"], &["shell_command", "update_plan"], &["Read"]] {
            assert!(may(tools, tools[0]) && !may(tools, "Write"), "{tools:?}");
        }
        assert!(may(&["Read", "ToolSearch"], "mcp__a__b") && !may(&["Read"], "mcp__a__b"), "found by a search");
        assert!(may(&[], "Bash"), "nobody can tell");
    }
}
