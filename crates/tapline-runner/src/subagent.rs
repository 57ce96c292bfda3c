//! A sub-agent that a run brings along, and which of the agent's settings files it reads: values that become arguments.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A sub-agent that the agent can give work to.
///
/// ```
/// use tapline_runner::{Agent, SubAgent};
///
/// let reviewer = SubAgent::new("Reviews code for bugs", "You review code. Name only real bugs.").tools(["Read", "Grep"]).model("haiku");
/// let agent = Agent::claude().sub_agent("reviewer", reviewer);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
#[must_use = "a sub-agent is added with `Agent::sub_agent`"]
pub struct SubAgent {
    /// When to use it: the agent reads this to choose one.
    pub description: String,
    /// Its system prompt.
    pub prompt: String,
    /// The tools that it has; all of the agent's if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Tools that it may not use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    /// Its model; the agent's if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Everything else that the agent knows of a sub-agent (`skills`, `maxTurns`, `permissionMode`, …), passed on unchanged.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl SubAgent {
    /// Creates a sub-agent. The description says when to use it, and the prompt is its system prompt.
    pub fn new(description: impl Into<String>, prompt: impl Into<String>) -> Self {
        let (description, prompt) = (description.into(), prompt.into());
        Self { description, prompt, tools: None, disallowed_tools: Vec::new(), model: None, more: Map::new() }
    }

    /// Lets it use only these tools.
    pub fn tools<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.tools = Some(tools.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the tools that it may not use.
    pub fn disallowed_tools<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.disallowed_tools = tools.into_iter().map(Into::into).collect();
        self
    }

    /// Sets its model: `haiku`, `inherit`, or a full name.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets anything else that the agent knows about a sub-agent: `with("maxTurns", 3)`.
    pub fn with(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.more.insert(key.into(), value.into());
        self
    }
}

/// Settings files of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SettingSource {
    /// The user's, in the home folder.
    User,
    /// The project's, shared by everybody who works on it.
    Project,
    /// The user's own for this project.
    Local,
}

impl SettingSource {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::User, Self::Project, Self::Local];

    /// Returns the agent's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
        }
    }
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for a name that is not a source of settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a source of settings: use user, project or local")]
pub struct UnknownSource(String);

impl FromStr for SettingSource {
    type Err = UnknownSource;

    fn from_str(text: &str) -> Result<Self, UnknownSource> {
        Self::ALL.iter().copied().find(|source| source.name() == text).ok_or_else(|| UnknownSource(text.to_owned()))
    }
}
