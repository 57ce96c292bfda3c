//! The agents that are known here, one row each, and what is known of them beside their lines: formats and tools.

mod claude;
mod codex;

use tapline_protocol::{Agent, InputShape};

use crate::format::StreamFormat;
use crate::step::Turn;

/// What is known of this agent.
pub(crate) fn profile(agent: Agent) -> &'static Profile {
    match agent {
        Agent::Claude => &claude::PROFILE,
        Agent::Codex => &codex::PROFILE,
    }
}

/// What is known of all of them.
pub(crate) fn profiles() -> impl Iterator<Item = &'static Profile> {
    Agent::ALL.iter().map(|agent| profile(*agent))
}

/// Whether this is a tool by which a model asks a person.
pub(crate) fn asks_a_person(tool: &str) -> bool {
    profiles().any(|profile| profile.asks.contains(&tool))
}

impl StreamFormat {
    /// The format of an input of this shape from this agent.
    pub fn of(shape: InputShape, agent: Option<Agent>) -> Self {
        match (shape, agent) {
            (_, None) => Self::Unknown,
            (InputShape::Document, _) => Self::Json,
            (InputShape::VerboseDocument, _) => Self::JsonVerbose,
            (InputShape::Lines, Some(agent)) => profile(agent).lines,
        }
    }

    /// The agent that is meant where somebody names only the format of its lines.
    pub fn agent(self) -> Option<Agent> {
        Agent::ALL.iter().copied().find(|agent| profile(*agent).lines == self)
    }
}

/// What is known of an agent.
pub(crate) struct Profile {
    /// What its lines are called in a report.
    pub(crate) lines: StreamFormat,
    /// What it prints as plain text when a turn has ended; the last turn, and the answer. None if that is nothing.
    pub(crate) text: fn(&Turn, Option<&str>) -> Option<String>,
    /// Whether it can print its result as one JSON document, too.
    pub(crate) has_documents: bool,
    /// Its tools, in a person's words.
    pub(crate) tools: &'static [Tool],
    /// Its tools, as rules see them.
    pub(crate) kinds: ToolKinds,
    /// Its tools by which the model asks a person.
    pub(crate) asks: &'static [&'static str],
    /// What its own JSON calls a value, and where a report has it.
    pub(crate) names: &'static [(&'static str, &'static str)],
}

/// Tools by what they do, for rules and policies.
pub(crate) struct ToolKinds {
    /// They run a shell's commands. A rule for one is for all, whichever agent's.
    pub(crate) shells: &'static [&'static str],
    /// They only look.
    pub(crate) reading: &'static [&'static str],
    /// They are known to write.
    pub(crate) writing: &'static [&'static str],
    /// Rules look at nothing but their names.
    pub(crate) named_only: &'static [&'static str],
    /// Names of one tool, old and new.
    pub(crate) same: &'static [&'static [&'static str]],
}

/// A text with a line end, as programs print it.
pub(crate) fn line(text: &str) -> String {
    if text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

/// A tool: its name, its verb in both tenses, and what of its input says what a call is about.
pub(crate) struct Tool(pub(crate) &'static str, pub(crate) &'static str, pub(crate) &'static str, pub(crate) Key);

/// What of a call's input says what it is about.
pub(crate) enum Key {
    /// In backticks: commands, paths, patterns.
    Code(&'static [&'static str]),
    /// As it is: descriptions, questions, queries.
    Plain(&'static [&'static str]),
    /// A list of tasks: how many are done.
    Todos(&'static str),
    /// The first of a list of questions.
    Questions,
}
