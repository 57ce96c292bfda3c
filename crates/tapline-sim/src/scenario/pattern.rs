//! Which request is meant: by the agent that asks, by how far its conversation is, by what stands in it.

use regex_lite::Regex;
use serde::{Deserialize, Deserializer};

/// Who asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lane {
    /// The agent itself.
    #[default]
    Main,
    /// A sub-agent.
    Sub,
    /// The program, beside the conversation: a title, a summary, a look whether the key is good.
    Side,
}

impl Lane {
    /// Its name.
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
    /// Whether it is found in the text.
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

/// What a request says, as far as rules ask for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Who asks.
    pub lane: Lane,
    /// The answers that the conversation has so far.
    pub count: u64,
    /// What the last message says: text and results of tools, without the program's own reminders.
    pub last: String,
    /// What the conversation began with.
    pub prompt: String,
    /// The system prompt.
    pub system: String,
    /// The model.
    pub model: String,
    /// The tools it may call.
    pub tools: Vec<String>,
}

impl Facts {
    /// Whether a tool can be called, as far as that can be seen: some are offered only when they are looked for, and Codex's newest models
    /// are offered theirs in another way.
    pub(crate) fn may_call(&self, tool: &str) -> bool {
        let offers = |tool: &str| self.tools.iter().any(|name| name == tool);
        offers(tool)
            || (tool.starts_with("mcp__") && offers("ToolSearch"))
            || !self.tools.iter().any(|name| name == "Bash" || name == "exec_command")
    }
}

/// Which requests a turn is for, or what a request must say. All that is given must hold.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// Who asks: `main`, `sub` or `side`.
    pub agent: Option<Lane>,
    /// The conversation has so many answers.
    pub count: Option<u64>,
    /// Stands in the last message.
    pub last: Option<Pattern>,
    /// Stands in the first message: tells conversations, such as those of sub-agents, from one another.
    pub prompt: Option<Pattern>,
    /// Stands in the system prompt.
    pub system: Option<Pattern>,
    /// Stands in the model's name.
    pub model: Option<Pattern>,
    /// These tools are offered.
    pub tools: Vec<String>,
}

impl When {
    /// What does not hold, in words; none if all does.
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

/// The beginning of a text, for a message.
pub(crate) fn beginning(text: &str) -> String {
    let mut short: String = text.chars().take(120).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
