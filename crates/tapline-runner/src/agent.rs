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

/// An agent that can be started: what it is told, what it may do, and how long.
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
    /// Whose program it is.
    pub kind: Kind,
    /// What the agent itself is told.
    pub options: Options,
    /// What it is asked.
    pub input: Input,
    /// Where the program is, if not where it is looked for.
    pub bin: Option<PathBuf>,
    /// Where it works.
    pub cwd: Option<PathBuf>,
    /// What it finds in its environment.
    pub environment: Environment,
    /// How long it may take.
    pub limits: Limits,
    /// Who answers what it asks.
    pub answers: Answers,
    /// More is said to it later on.
    pub(crate) converses: bool,
    /// Where the run is kept.
    pub record: Option<RecordTo>,
    /// Finds secrets: in what is kept of its arguments and shown of its stderr, and in a recording that is to hold none.
    pub redactor: Redactor,
    /// Who ends what is left if this program is killed.
    pub guard: Option<GuardProgram>,
    /// A name for the run, in its report and recording.
    pub label: Option<String>,
    /// No advisory categories in the verdict.
    pub no_heuristics: bool,
}

/// What an agent is told by flags. Each agent refuses by name what it does not have.
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
    /// Ask for messages while they are written.
    pub partial: bool,
    /// Anything else, passed on as it is.
    pub extra: Vec<OsString>,
}

/// What is sent to an agent's standard input, which is closed behind it.
#[derive(Default)]
pub enum Input {
    /// Nothing: it is closed from the start.
    #[default]
    Nothing,
    /// The prompt, of any size.
    Prompt(Vec<u8>),
    /// Messages, one JSON object a line, passed on as they come; a prompt is sent before them.
    Messages {
        /// The first message's text.
        prompt: Option<Vec<u8>>,
        /// The rest.
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

/// What an agent finds in its environment.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// Nothing is inherited but what every program needs (PATH, HOME, TERM, LANG and their like).
    pub clean: bool,
    /// Set, or inherited all the same where there is no value.
    pub set: Vec<(OsString, Option<OsString>)>,
}

/// How long a run may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The whole run.
    pub timeout: Option<Duration>,
    /// Silence: nothing on stdout, not even a heartbeat.
    pub idle: Option<Duration>,
    /// After the final result, before a process that stays is stopped.
    pub linger: Duration,
    /// Between one step of the stop ladder and the next.
    pub grace: Duration,
    /// After the last turn, before tasks in the background are waited for no more; none: as long as they take.
    pub background: Option<Duration>,
    /// For the answer to a control request.
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

/// Where a run is kept.
#[derive(Clone, Debug)]
pub struct RecordTo {
    /// A folder that is not there yet.
    pub folder: PathBuf,
    /// When what was written is put on the disk.
    pub sync: Sync,
    /// It holds no secrets: they are replaced in everything that is kept.
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
        /// What it is asked. Any size, any text: it goes by standard input.
        prompt(String) => input = Input::Prompt(prompt.into_bytes());
        /// Its program, if not `TAPLINE_CLAUDE_BIN` or `TAPLINE_CODEX_BIN` or what PATH has.
        bin(PathBuf) => bin = Some(bin);
        /// Where it works.
        cwd(PathBuf) => cwd = Some(cwd);
        /// The model.
        model(String) => options.model = Some(model);
        /// The session to go on with.
        resume(String) => options.resume = Some(resume);
        /// What it may do unasked.
        permission_mode(String) => options.permission_mode = Some(permission_mode);
        /// Requests to the model.
        max_turns(u64) => options.max_turns = Some(max_turns);
        /// What it may cost, in dollars.
        max_budget_usd(f64) => options.max_budget_usd = Some(max_budget_usd);
        /// A JSON schema that the answer is to follow.
        json_schema(String) => options.json_schema = Some(json_schema);
        /// Its system prompt.
        system_prompt(String) => options.system_prompt = Some(system_prompt);
        /// More of its system prompt.
        append_system_prompt(String) => options.append_system_prompt = Some(append_system_prompt);
        /// No longer than this, whatever it does.
        timeout(Duration) => limits.timeout = Some(timeout);
        /// No longer silent than this.
        idle_timeout(Duration) => limits.idle = Some(idle_timeout);
        /// How long it may stay after its final result.
        linger(Duration) => limits.linger = linger;
        /// How long tasks in the background are waited for after the last turn; ten minutes if nothing is said.
        background_timeout(Duration) => limits.background = Some(background_timeout);
        /// How long the answer to a control request is waited for; a minute if nothing is said.
        request_timeout(Duration) => limits.request = request_timeout;
        /// How long it is given to stop, each time it is told to more firmly.
        grace(Duration) => limits.grace = grace;
        /// A name for the run, in its report and recording.
        label(String) => label = Some(label);
    }

    /// Goes on with the last session of the folder.
    #[must_use]
    pub fn continue_last(mut self) -> Self {
        self.options.continue_last = true;
        self
    }

    /// Goes on in a copy of the session.
    #[must_use]
    pub fn fork(mut self) -> Self {
        self.options.fork = true;
        self
    }

    /// Tools that need no permission.
    #[must_use]
    pub fn allowed_tools<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.options.allowed_tools.extend(tools.into_iter().map(Into::into));
        self
    }

    /// Tools that it does not have.
    #[must_use]
    pub fn disallowed_tools<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.options.disallowed_tools.extend(tools.into_iter().map(Into::into));
        self
    }

    /// Asks for messages while they are written.
    #[must_use]
    pub fn partial(mut self) -> Self {
        self.options.partial = true;
        self
    }

    /// One more folder it may work in.
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

    /// One more argument, passed on as it is.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.options.extra.push(arg.into());
        self
    }

    /// A variable in its environment.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.set.push((name.as_ref().to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// Several at once: `envs(sim.environment())`.
    #[must_use]
    pub fn envs<N: AsRef<OsStr>, V: AsRef<OsStr>>(self, variables: impl IntoIterator<Item = (N, V)>) -> Self {
        variables.into_iter().fold(self, |agent, (name, value)| agent.env(name, value))
    }

    /// Nothing of the environment is inherited but what every program needs.
    #[must_use]
    pub fn clean_env(mut self) -> Self {
        self.environment.clean = true;
        self
    }

    /// Keeps the run in this folder, which must not be there.
    #[must_use]
    pub fn record(mut self, folder: impl AsRef<Path>) -> Self {
        self.record = Some(RecordTo { folder: folder.as_ref().to_owned(), sync: Sync::default(), redact: false });
        self
    }

    /// The same once more, with nothing to do yet: to go on later, or to ask many things.
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

    /// Starts it.
    pub async fn start(self) -> Result<Running, StartError> {
        Running::start(self).await
    }
}
