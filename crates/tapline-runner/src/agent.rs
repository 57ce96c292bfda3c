//! What to start: an agent, its prompt, its permissions and its limits.

mod answering;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tapline_protocol::Agent as Kind;
use tapline_recording::{Redactor, Sync};
use tapline_session::{Fold, Pricing, resumes};

use crate::answers::Answers;
use crate::environment;
use crate::guard::GuardProgram;
use crate::spec::{AgentInput, Environment, Limits, Options, RecordTo};
use crate::subagent::{SettingSource, SubAgent};

/// An agent to start: its prompt, options and limits.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use tapline_runner::Agent;
///
/// let mut run = Agent::claude()
///     .prompt("Fix the failing test")
///     .allowed_tools(["Read", "Edit", "Bash(cargo test:*)"])
///     .timeout(Duration::from_secs(600))
///     .start()
///     .await?;
/// while let Some(record) = run.next().await {
///     println!("{}", record.text());
/// }
/// let report = run.finish().await;
/// println!("{}: {:?}", report.verdict.outcome, report.answer);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "an agent does nothing until it is started"]
pub struct Agent {
    /// The kind of agent.
    pub kind: Kind,
    /// The agent's own options.
    pub options: Options,
    /// What is sent to the agent's standard input.
    pub input: AgentInput,
    /// The program, if it is not the default one.
    pub bin: Option<PathBuf>,
    /// The working directory.
    pub cwd: Option<PathBuf>,
    /// The environment variables.
    pub environment: Environment,
    /// The time limits.
    pub limits: Limits,
    /// What answers the agent's requests.
    pub answers: Answers,
    /// Whether more messages follow.
    pub(crate) converses: bool,
    /// Where to record the run.
    pub record: Option<RecordTo>,
    /// Finds secrets: in recorded arguments, in stderr when it is shown, and in a recording with [`RecordTo::redact`].
    pub redactor: Redactor,
    /// Stops remaining processes if this program is killed.
    pub guard: Option<GuardProgram>,
    /// A name for the run in its report and recording.
    pub label: Option<String>,
    /// Prices requests that the agent does not count, such as those of a run that was interrupted.
    pub pricing: Option<Pricing>,
    /// Turns off the advisory categories of the verdict.
    pub no_heuristics: bool,
}

/// Builder methods that set one value.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($kind:ty) => $($field:ident).+ = $value:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(mut self, $name: impl Into<$kind>) -> Self {
            let $name: $kind = $name.into();
            self.$($field).+ = $value;
            self
        }
    )*};
}

impl Agent {
    /// Creates an agent of this kind.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            options: Options::default(),
            input: AgentInput::default(),
            bin: None,
            cwd: None,
            environment: Environment::default(),
            limits: Limits::default(),
            answers: Answers::default(),
            converses: false,
            record: None,
            redactor: Redactor::default(),
            guard: None,
            label: None,
            pricing: None,
            no_heuristics: false,
        }
    }

    /// Returns the value that an environment variable will have for the agent, unless only other agents know that variable.
    pub fn variable(&self, name: &str) -> Option<OsString> {
        environment::value(&environment::of(&self.environment, |_| false), name)
    }

    /// Creates the fold for the stream of this run. It knows whether the run resumes a session.
    pub fn fold(&self) -> Fold {
        let mut fold = Fold::for_agent(Some(self.kind));
        if let Some(pricing) = self.pricing {
            fold = fold.priced_by(pricing);
        }
        let Options { resume, continue_last, extra, session_before, .. } = &self.options;
        let extra: Vec<String> = extra.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
        if resume.is_some() || *continue_last || resumes(self.kind, &extra) {
            fold.resumes(*session_before);
        }
        fold
    }

    /// Creates an agent that runs Claude Code.
    pub fn claude() -> Self {
        Self::new(Kind::Claude)
    }

    /// Creates an agent that runs Codex.
    pub fn codex() -> Self {
        Self::new(Kind::Codex)
    }

    setters! {
        /// Sets the prompt. It can have any size and content, because it is sent on standard input.
        prompt(String) => input = AgentInput::Prompt(prompt.into_bytes());
        /// Sets the agent's program. The default is `TAPLINE_CLAUDE_BIN` or `TAPLINE_CODEX_BIN`, or else the one on
        /// PATH.
        bin(PathBuf) => bin = Some(bin);
        /// Sets the working directory.
        cwd(PathBuf) => cwd = Some(cwd);
        /// Sets the model.
        model(String) => options.model = Some(model);
        /// Sets a model to use if the first is overloaded, or several, separated by commas.
        fallback_model(String) => options.fallback_model = Some(fallback_model);
        /// Sets how much the model thinks: `low`, `medium`, `high`, or another word that the agent knows.
        effort(String) => options.effort = Some(effort);
        /// Sets the session to continue.
        resume(String) => options.resume = Some(resume);
        /// Sets what the agent may do without asking.
        permission_mode(String) => options.permission_mode = Some(permission_mode);
        /// Sets the maximum number of requests to the model.
        max_turns(u64) => options.max_turns = Some(max_turns);
        /// Sets the maximum cost in dollars.
        max_budget_usd(f64) => options.max_budget_usd = Some(max_budget_usd);
        /// Sets a JSON schema for the answer.
        json_schema(String) => options.json_schema = Some(json_schema);
        /// Replaces the system prompt.
        system_prompt(String) => options.system_prompt = Some(system_prompt);
        /// Adds to the system prompt.
        append_system_prompt(String) => options.append_system_prompt = Some(append_system_prompt);
        /// Sets the maximum duration of the run.
        timeout(Duration) => limits.timeout = Some(timeout);
        /// Sets the maximum time without output.
        idle_timeout(Duration) => limits.idle = Some(idle_timeout);
        /// Sets how long the agent may keep running after its final result.
        linger(Duration) => limits.linger = linger;
        /// Sets how long to wait for background tasks after the last turn. The default is ten minutes.
        background_timeout(Duration) => limits.background = Some(background_timeout);
        /// Sets how long to wait for the answer to a control request. The default is one minute.
        request_timeout(Duration) => limits.request = request_timeout;
        /// Sets how long to wait between the steps of stopping a run.
        grace(Duration) => limits.grace = grace;
        /// Sets a name for the run in its report and recording.
        label(String) => label = Some(label);
    }

    /// Continues the last session in the folder.
    pub fn continue_last(mut self) -> Self {
        self.options.continue_last = true;
        self
    }

    /// Continues in a copy of the session.
    pub fn fork(mut self) -> Self {
        self.options.fork = true;
        self
    }

    /// Adds tools that run without asking.
    pub fn allowed_tools<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.options.allowed_tools.extend(tools.into_iter().map(Into::into));
        self
    }

    /// Adds tools that the agent may not use.
    pub fn disallowed_tools<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.options.disallowed_tools.extend(tools.into_iter().map(Into::into));
        self
    }

    /// Requests partial messages.
    pub fn partial(mut self) -> Self {
        self.options.partial = true;
        self
    }

    /// Adds a folder that the agent may use.
    pub fn add_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.options.add_dir.push(folder.into());
        self
    }

    /// Adds MCP servers: a file, or JSON.
    pub fn mcp_config(mut self, config: impl Into<String>) -> Self {
        self.options.mcp_config.push(config.into());
        self
    }

    /// Adds a sub-agent that the agent can give work to.
    pub fn sub_agent(mut self, name: impl Into<String>, sub_agent: SubAgent) -> Self {
        self.options.agents.insert(name.into(), sub_agent);
        self
    }

    /// Lets the agent read only these of its settings files. With an empty list, it reads none.
    pub fn setting_sources(mut self, sources: impl IntoIterator<Item = SettingSource>) -> Self {
        self.options.setting_sources = Some(sources.into_iter().collect());
        self
    }

    /// Adds a plugin: its folder, or an archive of it.
    pub fn plugin_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.options.plugin_dir.push(folder.into());
        self
    }

    /// Adds an argument, which is passed on unchanged.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.options.extra.push(arg.into());
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.set.push((name.as_ref().to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// Sets several environment variables: `envs(sim.environment())`.
    pub fn envs<N: AsRef<OsStr>, V: AsRef<OsStr>>(self, variables: impl IntoIterator<Item = (N, V)>) -> Self {
        variables.into_iter().fold(self, |agent, (name, value)| agent.env(name, value))
    }

    /// Inherits only the environment variables that every program needs.
    pub fn clean_env(mut self) -> Self {
        self.environment.clean = true;
        self
    }

    /// Records the run in this folder, which must not exist yet.
    pub fn record(mut self, folder: impl AsRef<Path>) -> Self {
        self.record = Some(RecordTo { folder: folder.as_ref().to_owned(), sync: Sync::default(), redact: false });
        self
    }

    /// Copies this agent without its prompt, to continue later or to start many runs.
    pub fn again(&self) -> Self {
        Self {
            kind: self.kind,
            options: self.options.clone(),
            input: AgentInput::Nothing,
            bin: self.bin.clone(),
            cwd: self.cwd.clone(),
            environment: self.environment.clone(),
            limits: self.limits,
            answers: self.answers.clone(),
            converses: self.converses,
            record: self.record.clone(),
            redactor: self.redactor.clone(),
            guard: self.guard.clone(),
            label: self.label.clone(),
            pricing: self.pricing,
            no_heuristics: self.no_heuristics,
        }
    }

    /// Returns whether messages go in both directions while the agent works.
    pub(crate) fn is_dialogue(&self) -> bool {
        self.converses || self.answers.is_anybody()
    }
}
