//! What to start: an agent, what it is told, what it may do, and how long.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use tapline_protocol::Agent as Kind;
use tapline_recording::{Redactor, Sync};
use tokio::io::AsyncRead;

use crate::answers::Answers;
use crate::error::StartError;
use crate::guard::GuardProgram;
use crate::running::Running;

/// An agent to start: its prompt, its options, its limits.
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
pub struct Agent {
    /// Which agent.
    pub kind: Kind,
    /// The agent's own options.
    pub options: Options,
    /// What is sent to its standard input.
    pub input: Input,
    /// The program, if not the default one.
    pub bin: Option<PathBuf>,
    /// The working directory.
    pub cwd: Option<PathBuf>,
    /// Its environment variables.
    pub environment: Environment,
    /// How long it may take.
    pub limits: Limits,
    /// Who answers the agent's questions.
    pub answers: Answers,
    /// More is said to it later on.
    pub(crate) converses: bool,
    /// Where to record the run.
    pub record: Option<RecordTo>,
    /// Finds secrets: in recorded arguments, in stderr as it is shown, and in a recording with [`RecordTo::redact`].
    pub redactor: Redactor,
    /// Stops remaining processes if this program is killed.
    pub guard: Option<GuardProgram>,
    /// A name for the run in its report and recording.
    pub label: Option<String>,
    /// Turns off the advisory categories of the verdict.
    pub no_heuristics: bool,
}

/// Options of the agent itself. An option that the agent does not have is an error that names it.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "each is the flag of its name")]
pub struct Options {
    pub model: Option<String>,
    pub resume: Option<String>,
    pub continue_last: bool,
    pub fork: bool,
    pub allowed_tools: Vec<String>,
    pub disallowed_tools: Vec<String>,
    pub permission_mode: Option<String>,
    pub max_turns: Option<u64>,
    pub max_budget_usd: Option<f64>,
    /// A JSON schema, as text.
    pub json_schema: Option<String>,
    pub mcp_config: Vec<String>,
    pub add_dir: Vec<PathBuf>,
    pub system_prompt: Option<String>,
    pub append_system_prompt: Option<String>,
    pub system_prompt_file: Option<PathBuf>,
    pub append_system_prompt_file: Option<PathBuf>,
    /// Request partial messages.
    pub partial: bool,
    /// Further arguments, passed on unchanged.
    pub extra: Vec<OsString>,
}

/// What is sent to the agent's standard input, which is then closed.
#[derive(Default)]
pub enum Input {
    /// Nothing: it is closed from the start.
    #[default]
    Nothing,
    /// The prompt, of any size.
    Prompt(Vec<u8>),
    /// Messages, one JSON object per line, passed on as they arrive; the prompt is sent before them.
    Messages {
        /// The text of the first message.
        prompt: Option<Vec<u8>>,
        /// The further messages.
        lines: Pin<Box<dyn AsyncRead + Send>>,
    },
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Prompt(_) => "Prompt(..)",
            Self::Messages { .. } => "Messages(..)",
        })
    }
}

/// The agent's environment variables.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// Inherit only the variables that every program needs (PATH, HOME, TERM, LANG and similar).
    pub clean: bool,
    /// Variables to set; without a value, variables to inherit even if `clean` is set.
    pub set: Vec<(OsString, Option<OsString>)>,
}

/// How long a run may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The whole run.
    pub timeout: Option<Duration>,
    /// Time without output on stdout, not even a heartbeat.
    pub idle: Option<Duration>,
    /// Time after the final result before a process that is still running is stopped.
    pub linger: Duration,
    /// Time between the steps of stopping a run.
    pub grace: Duration,
    /// How long to wait for background tasks after the last turn; `None`: until they end.
    pub background: Option<Duration>,
    /// Time for the answer to a control request.
    pub request: Duration,
}

/// A task in the background may wake the agent: it is waited for so long, as the agent itself does.
pub(crate) const BACKGROUND: Duration = Duration::from_secs(600);

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: None,
            idle: None,
            linger: Duration::from_secs(30),
            grace: Duration::from_secs(5),
            background: Some(BACKGROUND),
            request: Duration::from_secs(60),
        }
    }
}

/// Where to record a run.
#[derive(Clone, Debug)]
pub struct RecordTo {
    /// A folder that does not exist yet.
    pub folder: PathBuf,
    /// When to flush data to the disk.
    pub sync: Sync,
    /// Replace secrets in everything that is recorded.
    pub redact: bool,
}

/// Builder methods that set one value.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($kind:ty) => $($field:ident).+ = $value:expr;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: impl Into<$kind>) -> Self {
            let $name: $kind = $name.into();
            self.$($field).+ = $value;
            self
        }
    )*};
}

impl Agent {
    /// An agent of this kind.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            options: Options::default(),
            input: Input::default(),
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
            no_heuristics: false,
        }
    }

    /// Claude Code.
    pub fn claude() -> Self {
        Self::new(Kind::Claude)
    }

    /// Codex.
    pub fn codex() -> Self {
        Self::new(Kind::Codex)
    }

    setters! {
        /// The prompt. It can have any size and content, because it is sent on standard input.
        prompt(String) => input = Input::Prompt(prompt.into_bytes());
        /// The agent's program; by default `TAPLINE_CLAUDE_BIN` or `TAPLINE_CODEX_BIN`, else the one on PATH.
        bin(PathBuf) => bin = Some(bin);
        /// The working directory.
        cwd(PathBuf) => cwd = Some(cwd);
        /// The model to use.
        model(String) => options.model = Some(model);
        /// The session to continue.
        resume(String) => options.resume = Some(resume);
        /// What the agent may do without asking.
        permission_mode(String) => options.permission_mode = Some(permission_mode);
        /// The maximum number of requests to the model.
        max_turns(u64) => options.max_turns = Some(max_turns);
        /// The maximum cost in dollars.
        max_budget_usd(f64) => options.max_budget_usd = Some(max_budget_usd);
        /// A JSON schema for the answer.
        json_schema(String) => options.json_schema = Some(json_schema);
        /// Replaces the system prompt.
        system_prompt(String) => options.system_prompt = Some(system_prompt);
        /// Adds to the system prompt.
        append_system_prompt(String) => options.append_system_prompt = Some(append_system_prompt);
        /// The maximum duration of the run.
        timeout(Duration) => limits.timeout = Some(timeout);
        /// The maximum time without output.
        idle_timeout(Duration) => limits.idle = Some(idle_timeout);
        /// How long the agent may keep running after its final result.
        linger(Duration) => limits.linger = linger;
        /// How long to wait for background tasks after the last turn; by default ten minutes.
        background_timeout(Duration) => limits.background = Some(background_timeout);
        /// How long to wait for the answer to a control request; by default one minute.
        request_timeout(Duration) => limits.request = request_timeout;
        /// How long to wait between the steps of stopping a run.
        grace(Duration) => limits.grace = grace;
        /// A name for the run in its report and recording.
        label(String) => label = Some(label);
    }

    /// Continues the last session in the folder.
    #[must_use]
    pub fn continue_last(mut self) -> Self {
        self.options.continue_last = true;
        self
    }

    /// Continues in a copy of the session.
    #[must_use]
    pub fn fork(mut self) -> Self {
        self.options.fork = true;
        self
    }

    /// Tools that run without asking.
    #[must_use]
    pub fn allowed_tools<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.options.allowed_tools.extend(tools.into_iter().map(Into::into));
        self
    }

    /// Tools that the agent may not use.
    #[must_use]
    pub fn disallowed_tools<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.options.disallowed_tools.extend(tools.into_iter().map(Into::into));
        self
    }

    /// Requests partial messages.
    #[must_use]
    pub fn partial(mut self) -> Self {
        self.options.partial = true;
        self
    }

    /// Adds a folder that the agent may use.
    #[must_use]
    pub fn add_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.options.add_dir.push(folder.into());
        self
    }

    /// MCP servers: a file, or JSON.
    #[must_use]
    pub fn mcp_config(mut self, config: impl Into<String>) -> Self {
        self.options.mcp_config.push(config.into());
        self
    }

    /// Adds an argument, passed on unchanged.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.options.extra.push(arg.into());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.set.push((name.as_ref().to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// Sets several environment variables: `envs(sim.environment())`.
    #[must_use]
    pub fn envs<N: AsRef<OsStr>, V: AsRef<OsStr>>(self, variables: impl IntoIterator<Item = (N, V)>) -> Self {
        variables.into_iter().fold(self, |agent, (name, value)| agent.env(name, value))
    }

    /// Inherits only the environment variables that every program needs.
    #[must_use]
    pub fn clean_env(mut self) -> Self {
        self.environment.clean = true;
        self
    }

    /// Records the run in this folder, which must not exist yet.
    #[must_use]
    pub fn record(mut self, folder: impl AsRef<Path>) -> Self {
        self.record = Some(RecordTo { folder: folder.as_ref().to_owned(), sync: Sync::default(), redact: false });
        self
    }

    /// Copies this agent without its prompt: to continue later, or to start many runs.
    #[must_use]
    pub fn again(&self) -> Self {
        Self {
            kind: self.kind,
            options: self.options.clone(),
            input: Input::Nothing,
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
            no_heuristics: self.no_heuristics,
        }
    }

    /// Whether something is said in both directions while it works.
    pub(crate) fn is_dialogue(&self) -> bool {
        self.converses || self.answers.is_anybody()
    }

    /// Starts the agent.
    pub async fn start(self) -> Result<Running, StartError> {
        Running::start(self).await
    }
}
