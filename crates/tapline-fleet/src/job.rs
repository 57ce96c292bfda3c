//! A job: everything that is needed to run an agent once, in plain values.

use std::path::PathBuf;
use std::time::Duration;

use tapline_protocol::Agent as Kind;
use tapline_runner::{Agent, AgentInput, Environment, Options, RetryRule};
use tapline_session::permission::Permissions;
use tapline_session::policy::Policy;

/// A job that can be run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Job {
    /// The name, unique in its batch. It can be the name of a file and of a branch.
    pub name: String,
    /// The step that it belongs to.
    pub step: String,
    /// The label of its runs in recordings and reports.
    pub label: String,
    /// Whose rate limit its runs use up.
    pub account: String,
    /// The agent.
    pub agent: Kind,
    /// The agent's program, if it is not the default one.
    pub bin: Option<PathBuf>,
    /// The prompt.
    pub prompt: String,
    /// Where the agent works, or the repository of its worktree.
    pub folder: PathBuf,
    /// Whether it works in a git worktree of its own.
    pub worktree: Option<WorktreeRule>,
    /// The agent's own options.
    pub options: Options,
    /// How long a run may take.
    pub timeout: Option<Duration>,
    /// How long the agent may write nothing.
    pub idle_timeout: Option<Duration>,
    /// What a run is checked against.
    pub policy: Option<Written<Policy>>,
    /// Which calls may run without asking.
    pub permissions: Option<Written<Permissions>>,
    /// When a run that failed is tried again.
    pub retry: RetryRule,
    /// The codes of warnings with which a success counts as a failure.
    pub fail_on: Vec<&'static str>,
    /// Whether a success that is not clean counts as a failure.
    pub require_clean: bool,
    /// What happens to a run that was cut off.
    pub cut_off: CutOff,
    /// The agent's environment. It has names only: values come from whoever runs the job.
    pub environment: Environment,
    /// What workers can ask of a job: `repo=api`. The agent is always among them: `agent=claude`.
    pub labels: Vec<String>,
    /// What the job asks of a worker.
    pub worker: Vec<String>,
}

/// Rules, and the text that they were read from: the text can travel.
#[derive(Clone, Debug)]
pub struct Written<T> {
    /// The text.
    pub text: String,
    /// What it says.
    pub rules: T,
}

/// A worktree that is made for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeRule {
    /// The commit that it begins with.
    pub base: String,
    /// How what the agent changed is kept.
    pub keep: KeepAs,
}

/// How what an agent changed in its worktree is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAs {
    /// As branch `tapline/JOB`.
    Branch,
    /// As a patch in the folder of the batch.
    Patch,
}

/// What happens to a run that was cut off, by Ctrl-C or because this program was killed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CutOff {
    /// Its session goes on, if it has one. Otherwise it is tried again.
    #[default]
    Resume,
    /// It begins again.
    Again,
    /// It has failed.
    Fail,
}

impl CutOff {
    /// Returns the word in a job file.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Resume => "resume",
            Self::Again => "again",
            Self::Fail => "fail",
        }
    }

    /// Returns what a word in a job file means.
    pub(crate) fn named(word: &str) -> Option<Self> {
        [Self::Resume, Self::Again, Self::Fail].into_iter().find(|rule| rule.word() == word)
    }
}

impl Job {
    /// Returns the agent to start, without a recording.
    pub fn agent(&self) -> Agent {
        let mut agent = Agent::new(self.agent);
        agent.options = self.options.clone();
        agent.input = AgentInput::Prompt(self.prompt.clone().into_bytes());
        agent.bin.clone_from(&self.bin);
        agent.cwd = Some(self.folder.clone());
        agent.environment = self.environment.clone();
        (agent.limits.timeout, agent.limits.idle) = (self.timeout, self.idle_timeout);
        agent.answers.permissions = self.permissions.as_ref().map(|written| written.rules.clone());
        agent.label = Some(self.label.clone());
        agent
    }
}

/// Makes a name that can be a file and a branch: letters, digits, `-`, `_` and `.`.
pub(crate) fn plain_name(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' }).collect();
    let end = (0..=LONGEST_NAME.min(plain.len())).rfind(|end| plain.is_char_boundary(*end)).unwrap_or(0);
    let mut name = plain[..end].trim_matches(['-', '.']).to_owned();
    while let Some(at) = name.find("..") {
        name.remove(at);
    }
    // Git takes such a name for a lock.
    match name.strip_suffix(".lock") {
        Some(name) => format!("{name}-lock"),
        None => name,
    }
}

/// What JSON may have before it: an agent reads it all the same.
pub(crate) fn without_blanks(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}')
}

/// Whether it is a configuration itself, and not the name of a file.
pub(crate) fn is_inline(mcp_config: &str) -> bool {
    without_blanks(mcp_config).starts_with('{')
}

/// How many bytes a name may have. A file's name has at most 255.
const LONGEST_NAME: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_be_files_and_branches() {
        for (text, name) in [
            ("migrate-a", "migrate-a"),
            ("owner/repo name", "owner-repo-name"),
            ("../../etc", "etc"),
            ("a..b", "a.b"),
            ("x.lock", "x-lock"),
            ("-x-", "x"),
            ("über", "über"),
            ("/", ""),
        ] {
            assert_eq!(plain_name(text), name, "{text}");
        }
        assert_eq!(plain_name(&"x".repeat(500)).len(), LONGEST_NAME);
        assert_eq!(plain_name(&"日".repeat(500)), "日".repeat(LONGEST_NAME / 3));
    }
}
