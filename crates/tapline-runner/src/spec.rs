//! The specification of a run in plain values: the agent's options, its input, its environment, its limits, and where
//! it is recorded.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use tapline_recording::Sync;
use tapline_session::SessionTotals;
use tokio::io::AsyncRead;

use crate::subagent::{SettingSource, SubAgent};

/// The options of the agent itself. An option that the agent does not have is an error that names it.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "each is the flag of its name")]
pub struct Options {
    pub model: Option<String>,
    /// Models to try, separated by commas, if the first is overloaded.
    pub fallback_model: Option<String>,
    /// How much the model thinks: `low`, `medium`, `high`, …
    pub effort: Option<String>,
    pub resume: Option<String>,
    pub continue_last: bool,
    pub fork: bool,
    /// What the session had used before, if that is known: some agents count it again.
    pub session_before: Option<SessionTotals>,
    pub allowed_tools: Vec<String>,
    pub disallowed_tools: Vec<String>,
    pub permission_mode: Option<String>,
    pub max_turns: Option<u64>,
    pub max_budget_usd: Option<f64>,
    /// A JSON schema, as text.
    pub json_schema: Option<String>,
    pub mcp_config: Vec<String>,
    /// Sub-agents, by name.
    pub agents: BTreeMap<String, SubAgent>,
    /// The agent's settings files that are read; `None`: all of them.
    pub setting_sources: Option<Vec<SettingSource>>,
    /// Folders or archives with a plugin.
    pub plugin_dir: Vec<PathBuf>,
    pub add_dir: Vec<PathBuf>,
    pub system_prompt: Option<String>,
    pub append_system_prompt: Option<String>,
    pub system_prompt_file: Option<PathBuf>,
    pub append_system_prompt_file: Option<PathBuf>,
    /// Whether to request partial messages.
    pub partial: bool,
    /// Additional arguments, passed on unchanged.
    pub extra: Vec<OsString>,
}

/// What is sent to the agent's standard input, which is then closed.
#[derive(Default)]
pub enum AgentInput {
    /// Nothing. It is closed from the start.
    #[default]
    Nothing,
    /// The prompt, of any size.
    Prompt(Vec<u8>),
    /// Messages, one JSON object per line, passed on as they arrive. The prompt is sent before them.
    Messages {
        /// The text of the first message.
        prompt: Option<Vec<u8>>,
        /// The other messages.
        lines: Pin<Box<dyn AsyncRead + Send>>,
    },
}

impl std::fmt::Debug for AgentInput {
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
    /// Whether to inherit only the variables that every program needs (PATH, HOME, TERM, LANG and the like).
    pub clean: bool,
    /// Variables to set. Without a value: variables to inherit even if `clean` is set.
    pub set: Vec<(OsString, Option<OsString>)>,
    /// Variables that are not inherited. One in `set` with a value is set all the same.
    pub remove: Vec<OsString>,
}

/// How long a run may take.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The whole run.
    pub timeout: Option<Duration>,
    /// How much of that was used up before the agent is started.
    pub spent: Duration,
    /// Time without output on stdout, not even a heartbeat.
    pub idle: Option<Duration>,
    /// Time after the final result before a process that is still running is stopped.
    pub linger: Duration,
    /// Time between the steps of stopping a run.
    pub grace: Duration,
    /// How long to wait for background tasks after the last turn. With `None`, ten minutes; with [`Duration::MAX`], until they end.
    pub background: Option<Duration>,
    /// The time for an answer to a control request.
    pub request: Duration,
}

/// How long to wait for a background task, which may wake the agent. It is as long as the agent itself waits.
const BACKGROUND: Duration = Duration::from_secs(600);

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: None,
            spent: Duration::ZERO,
            idle: None,
            linger: Duration::from_secs(30),
            grace: Duration::from_secs(5),
            background: None,
            request: Duration::from_secs(60),
        }
    }
}

impl Limits {
    /// How long background tasks are waited for.
    pub(crate) fn for_tasks(&self) -> Duration {
        self.background.unwrap_or(BACKGROUND)
    }

    /// How long an agent may stay after its last turn while its background tasks run. Whoever lets it linger for longer than the default means
    /// that, too; a limit that was given counts as it is.
    pub(crate) fn with_tasks(&self) -> Duration {
        self.background.unwrap_or_else(|| self.linger.max(BACKGROUND))
    }
}

/// Where to record a run.
#[derive(Clone, Debug)]
pub struct RecordTo {
    /// A folder that does not exist yet.
    pub folder: PathBuf,
    /// When to flush data to the disk.
    pub sync: Sync,
    /// Whether to replace secrets in everything that is recorded.
    pub redact: bool,
}
