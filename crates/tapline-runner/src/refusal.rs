//! An option that a run cannot have: which one, why, and what to use instead. It names options as this library does; a program
//! with other names for them, such as a command line, gives its own.

use std::borrow::Cow;
use std::fmt;

use tapline_protocol::Agent as Kind;

macro_rules! options {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// An option of a run, by its name in this library.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum RunOption {
            $($(#[$doc])* $variant,)*
            /// An argument that is passed on unchanged ([`Agent::arg`](crate::Agent::arg)).
            Argument(Cow<'static, str>),
        }

        impl RunOption {
            /// Returns its name. For an argument, this is the argument itself.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Argument(argument) => argument,
                }
            }
        }
    };
}

options! {
    /// The prompt.
    Prompt = "prompt",
    /// The caller's own messages ([`AgentInput::Messages`](crate::AgentInput::Messages)).
    Messages = "messages",
    /// A conversation, or somebody who answers the agent's questions.
    Dialogue = "dialogue",
    /// Permission rules.
    Permissions = "permissions",
    /// The session to continue.
    Resume = "resume",
    /// Continues the last session.
    ContinueLast = "continue_last",
    /// Continues in a copy.
    Fork = "fork",
    /// Tools that run without asking.
    AllowedTools = "allowed_tools",
    /// Tools that the agent may not use.
    DisallowedTools = "disallowed_tools",
    /// What the agent may do without asking.
    PermissionMode = "permission_mode",
    /// The maximum number of requests to the model.
    MaxTurns = "max_turns",
    /// The maximum cost.
    MaxBudgetUsd = "max_budget_usd",
    /// A schema for the answer.
    JsonSchema = "json_schema",
    /// Models to use if the first is overloaded.
    FallbackModel = "fallback_model",
    /// Sub-agents.
    Agents = "agents",
    /// Which settings files are read.
    SettingSources = "setting_sources",
    /// Plugins.
    PluginDir = "plugin_dir",
    /// MCP servers.
    McpConfig = "mcp_config",
    /// Replaces the system prompt.
    SystemPrompt = "system_prompt",
    /// Adds to the system prompt.
    AppendSystemPrompt = "append_system_prompt",
    /// Replaces the system prompt with a file.
    SystemPromptFile = "system_prompt_file",
    /// Adds a file to the system prompt.
    AppendSystemPromptFile = "append_system_prompt_file",
    /// Partial messages.
    Partial = "partial",
    /// The maximum duration of the run.
    Timeout = "timeout",
}

impl fmt::Display for RunOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument(argument) => write!(f, "the argument `{argument}`"),
            option => f.write_str(option.name()),
        }
    }
}

/// What to use instead of an option that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Instead {
    /// Another option.
    Option(RunOption),
    /// Another agent.
    Agent(Kind),
}

impl fmt::Display for Instead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option(option) => option.fmt(f),
            Self::Agent(agent) => f.write_str(agent.name()),
        }
    }
}

/// An option that was refused, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// Which option.
    pub option: RunOption,
    /// Why. The text names no option.
    pub why: Cow<'static, str>,
    /// What to use instead: one of these.
    pub instead: Vec<Instead>,
}

impl Refusal {
    pub(crate) fn new(option: RunOption, why: impl Into<Cow<'static, str>>) -> Self {
        Self { option, why: why.into(), instead: Vec::new() }
    }

    /// Refuses an argument of the caller.
    pub(crate) fn argument(argument: &str, why: impl Into<Cow<'static, str>>) -> Self {
        Self::new(RunOption::Argument(argument.to_owned().into()), why)
    }

    pub(crate) fn instead(mut self, option: RunOption) -> Self {
        self.instead.push(Instead::Option(option));
        self
    }

    pub(crate) fn instead_agent(mut self, agent: Kind) -> Self {
        self.instead.push(Instead::Agent(agent));
        self
    }

    /// Returns the message, with other names for the option and for what to use instead.
    pub fn with_names(&self, option: impl Fn(&RunOption) -> String, instead: impl Fn(&Instead) -> String) -> String {
        let said = format!("{}: {}", option(&self.option), self.why);
        let instead: Vec<_> = self.instead.iter().map(instead).collect();
        if instead.is_empty() { said } else { format!("{said}; use {}", instead.join(" or ")) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with_names(RunOption::to_string, Instead::to_string))
    }
}

impl std::error::Error for Refusal {}
