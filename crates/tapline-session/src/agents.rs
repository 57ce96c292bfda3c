//! The known agents, one row each, and what is known about them apart from their lines: formats and tools.

mod claude;
mod codex;

use tapline_protocol::{Agent, InputShape};

use crate::format::StreamFormat;
use crate::step::{DeniedBy, Turn};

/// Returns what is known about this agent.
pub(crate) fn profile(agent: Agent) -> &'static Profile {
    match agent {
        Agent::Claude => &claude::PROFILE,
        Agent::Codex => &codex::PROFILE,
    }
}

/// Returns what is known about all agents.
pub(crate) fn profiles() -> impl Iterator<Item = &'static Profile> {
    Agent::ALL.iter().map(|agent| profile(*agent))
}

/// Returns whether the model asks a person with this tool.
pub(crate) fn asks_a_person(tool: &str) -> bool {
    profiles().any(|profile| profile.asks.contains(&tool))
}

/// Returns whether a call of this tool waits for a person: with a question, or with a proposal.
pub fn needs_a_person(tool: &str) -> bool {
    profiles().any(|profile| profile.asks.contains(&tool) || profile.proposes.contains(&tool))
}

/// Returns whether a person or a program said this to the agent. Some agents write notes of their own where prompts stand.
pub fn is_of_person(prompt: &str) -> bool {
    !profiles().any(|profile| profile.notes.iter().any(|note| prompt.trim_start().starts_with(note)))
}

/// Returns who denied a call, if this agent says with the text of its failed result that it was denied. These words change with every version:
/// they count only where no field says who decided.
pub fn denied_by_words(agent: Agent, text: &str) -> Option<DeniedBy> {
    (profile(agent).denied_by)(text)
}

/// Returns whether this agent resumes a session if it is started with these arguments.
pub fn resumes(agent: Agent, argv: &[String]) -> bool {
    let is_one = |argument: &String| {
        let name = argument.split_once('=').map_or(argument.as_str(), |(name, _)| name);
        profile(agent).resumes.contains(&name)
    };
    argv.iter().take_while(|argument| *argument != "--").any(is_one)
}

impl StreamFormat {
    /// Returns the format of input with this shape from this agent.
    pub fn of(shape: InputShape, agent: Option<Agent>) -> Self {
        match (shape, agent) {
            (_, None) => Self::Unknown,
            (InputShape::Document, _) => Self::Json,
            (InputShape::VerboseDocument, _) => Self::JsonVerbose,
            (InputShape::Lines, Some(agent)) => profile(agent).lines,
        }
    }

    /// Returns the agent that is meant if only the format of its lines is given.
    pub fn agent(self) -> Option<Agent> {
        Agent::ALL.iter().copied().find(|agent| profile(*agent).lines == self)
    }
}

/// What is known about an agent.
pub(crate) struct Profile {
    /// The name of its line format in a report.
    pub(crate) lines: StreamFormat,
    /// The plain text that the agent prints at the end of a turn, from the last turn and the answer. `None` if it
    /// prints nothing.
    pub(crate) text: fn(&Turn, Option<&str>) -> Option<String>,
    /// Whether it can also print its result as one JSON document.
    pub(crate) has_documents: bool,
    /// Its tools, as they are shown to people.
    pub(crate) tools: &'static [Tool],
    /// Its tools, as rules see them.
    pub(crate) kinds: ToolKinds,
    /// Its tools with which the model asks a person.
    pub(crate) asks: &'static [&'static str],
    /// Its tools with which the model proposes what a person has to agree to.
    pub(crate) proposes: &'static [&'static str],
    /// Whose models it asks, as OpenTelemetry's conventions name them.
    pub(crate) provider: &'static str,
    /// What stands for a model where none was asked.
    pub(crate) no_models: &'static [&'static str],
    /// Whether each of its runs numbers messages and calls anew.
    pub(crate) numbers_anew: bool,
    /// The part of a call's input that says which kind of sub-agent it starts.
    pub(crate) subagent: Option<&'static str>,
    /// Who denied a call, if the text of its failed result says that it was denied.
    pub(crate) denied_by: fn(&str) -> Option<DeniedBy>,
    /// The arguments with which it resumes a session.
    pub(crate) resumes: &'static [&'static str],
    /// How its own notes begin that stand where prompts do.
    pub(crate) notes: &'static [&'static str],
    /// The names of values in the agent's own JSON, and where they are in a report.
    pub(crate) names: &'static [(&'static str, &'static str)],
}

/// Tools by what they do, for rules and policies.
pub(crate) struct ToolKinds {
    /// Tools that run shell commands. A rule for one applies to all of them, whichever agent has them.
    pub(crate) shells: &'static [&'static str],
    /// Tools that only read.
    pub(crate) reading: &'static [&'static str],
    /// Tools that are known to write.
    pub(crate) writing: &'static [&'static str],
    /// Tools of which rules see only the name.
    pub(crate) named_only: &'static [&'static str],
    /// Old and new names of the same tool.
    pub(crate) same: &'static [&'static [&'static str]],
}

/// Ends a text with a newline, as programs print it.
pub(crate) fn line(text: &str) -> String {
    if text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

/// A tool: its name, its verb in both tenses, and which part of its input describes a call.
pub(crate) struct Tool(pub(crate) &'static str, pub(crate) &'static str, pub(crate) &'static str, pub(crate) Key);

/// Which part of a call's input describes it.
pub(crate) enum Key {
    /// Shown in backticks: commands, paths, patterns.
    Code(&'static [&'static str]),
    /// Shown as plain text: descriptions, questions, queries.
    Plain(&'static [&'static str]),
    /// A list of tasks, shown as how many are done.
    Todos(&'static str),
    /// The first of a list of questions.
    Questions,
}
