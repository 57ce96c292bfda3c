//! The command line of `tapline run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use tapline_protocol::Agent;
use tapline_runner::{SettingSource, UnknownSource};
use tapline_session::Category;
pub(crate) use tapline_session::plain_duration as span;

use super::Look;
use crate::{agents, exit};

/// Run an agent headless: show its progress, report how it ended, record everything, leave no process behind
///
/// Give the prompt as PROMPT, with --prompt-file, or on stdin (`-`). Without any of these, tapline reads the prompt from stdin if stdin
/// is a pipe or a file. If there is a prompt, tapline adds a pipe or file on stdin after it, as the agents do. Arguments after `--` go
/// to the agent unchanged.
#[derive(Debug, Args)]
#[command(after_help = exit::codes(), after_long_help = format!("{EXAMPLES}{}", exit::codes()))]
pub(crate) struct Run {
    /// What to ask the agent, in quotes; `-` reads it from stdin
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// The prompt; use this if it starts with `-`
    #[arg(long = "prompt", short = 'p', value_name = "PROMPT", conflicts_with = "prompt", allow_hyphen_values = true)]
    pub(crate) any_prompt: Option<String>,
    /// Read the prompt from a file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt", "any_prompt"])]
    pub(crate) prompt_file: Option<PathBuf>,
    /// Put an earlier run before the prompt: a stream, a recording or text; `-` reads stdin
    #[arg(long, value_name = "FILE|-")]
    pub(crate) context: Option<PathBuf>,
    /// Pass messages (one JSON object per line) from stdin to the agent as they arrive
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) input: Option<InputKind>,
    /// Do not read stdin (by default, tapline adds a pipe or file on stdin after the prompt)
    #[arg(long, conflicts_with_all = ["input", "stdin_wait"])]
    pub(crate) no_stdin: bool,
    /// Wait this long for the first byte on stdin, then continue without it
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "3s")]
    pub(crate) stdin_wait: Duration,
    #[command(flatten)]
    pub(crate) whose: Whose,
    #[command(flatten)]
    pub(crate) told: AgentOptions,
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) ending: Ending,
    #[command(flatten)]
    pub(crate) kept: Kept,
    #[command(flatten)]
    pub(crate) pushed: Pushed,
    /// Arguments for the agent itself, after `--`
    #[arg(last = true, value_name = "AGENT ARGS")]
    pub(crate) extra: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  tapline run \"fix the failing test\"
  SESSION=$(tapline run \"start\" --get session.id) && tapline run \"go on\" --resume \"$SESSION\"
  git diff | tapline run \"review this\" --format text --timeout 10m --retry 2 > review.txt
  tapline run \"fix it\" --fail-on denied
  tapline run \"A\" --format stream-json | tapline run \"Summarize\" --context -
  tapline run \"…\" --policy rules.toml --allowed-tools Read,Grep -- --betas NAME

";

/// Which agent, and where.
#[derive(Debug, Args)]
pub(crate) struct Whose {
    /// The agent to run
    #[arg(long, value_parser = agents::named(), default_value = Agent::default().name())]
    pub(crate) agent: Agent,
    #[arg(long, value_name = "PATH", help = agents::about_program())]
    pub(crate) bin: Option<PathBuf>,
    /// Run the agent in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
}

/// Options of the agent.
#[derive(Debug, Args)]
#[command(next_help_heading = "Agent options")]
pub(crate) struct AgentOptions {
    /// The model to use
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// A model to use if the first is overloaded, or several, separated by commas
    #[arg(long, value_name = "MODEL")]
    pub(crate) fallback_model: Option<String>,
    /// How much the model thinks: low, medium, high, xhigh or max, if the model and the agent's version have it
    #[arg(long, value_name = "LEVEL")]
    pub(crate) effort: Option<String>,
    /// Continue this session
    #[arg(long, value_name = "ID", conflicts_with = "continue_last", allow_hyphen_values = true)]
    pub(crate) resume: Option<String>,
    /// Continue the last session in this folder
    #[arg(long = "continue")]
    pub(crate) continue_last: bool,
    /// Continue in a copy; the original session stays unchanged
    #[arg(long)]
    pub(crate) fork: bool,
    /// Tools that the agent may use without asking, separated by commas; can be repeated
    #[arg(long, value_name = "TOOLS")]
    pub(crate) allowed_tools: Vec<String>,
    /// Tools that the agent may not use, separated by commas; can be repeated
    #[arg(long, value_name = "TOOLS")]
    pub(crate) disallowed_tools: Vec<String>,
    /// What the agent may do without asking: default, acceptEdits, plan, dontAsk, auto, manual or bypassPermissions (not every version
    /// of the agent has all of these)
    #[arg(long, value_name = "MODE")]
    pub(crate) permission_mode: Option<String>,
    /// Let the rules in this file decide which tool calls the agent may make (TOML; `tapline help permissions`)
    ///
    /// If no rule matches a call, the agent's own settings decide. If the agent then asks for permission, `run` denies the call, and
    /// `chat` asks you.
    #[arg(long, value_name = "FILE")]
    pub(crate) permissions: Option<PathBuf>,
    /// Stop after at most N requests to the model
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<u64>,
    /// Stop once the run has cost this many dollars (the agent checks between requests, so the run can cost slightly more)
    #[arg(long, value_name = "USD")]
    pub(crate) max_budget_usd: Option<f64>,
    /// Make the answer follow this JSON schema: a file, or the schema itself
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) json_schema: Option<String>,
    /// MCP servers: a file, or JSON; can be repeated
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) mcp_config: Vec<String>,
    /// Sub-agents: a JSON object with a description and a prompt for each, or a file with it
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) agents: Option<String>,
    /// Which of its settings files the agent reads: user, project, local, separated by commas; '' means none [default: all]
    #[arg(long, value_name = "SOURCES", value_parser = setting_sources)]
    pub(crate) setting_sources: Option<Sources>,
    /// A plugin: its folder or .zip file; can be repeated
    #[arg(long, value_name = "PATH")]
    pub(crate) plugin_dir: Vec<PathBuf>,
    /// Another folder that the agent may use; can be repeated
    #[arg(long, value_name = "DIR")]
    pub(crate) add_dir: Vec<PathBuf>,
    /// Replace the system prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) system_prompt: Option<String>,
    /// Replace the system prompt with this file
    #[arg(long, value_name = "FILE", conflicts_with = "system_prompt")]
    pub(crate) system_prompt_file: Option<PathBuf>,
    /// Add to the system prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) append_system_prompt: Option<String>,
    /// Add this file to the system prompt
    #[arg(long, value_name = "FILE", conflicts_with = "append_system_prompt")]
    pub(crate) append_system_prompt_file: Option<PathBuf>,
    /// Ask the agent for partial messages (the default for the format live on a terminal)
    #[arg(long)]
    pub(crate) partial: bool,
    /// Set an environment variable of the agent (NAME=VALUE) or, with --clean-env, keep one (NAME); can be repeated
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// Keep only the environment variables that every program needs (PATH, HOME, TERM, LANG …)
    #[arg(long)]
    pub(crate) clean_env: bool,
}

/// What is shown.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Shown {
    /// What to print [default: live on a terminal, else lines]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<RunFormat>,
    /// Print one value of the report, such as session.id, answer or ledger.cost_usd; can be repeated
    ///
    /// Each value starts on its own line. In GitHub Actions, tapline changes text that the runner would take for a command
    /// (`::error::` becomes `: :error::`). A script that needs the exact value can use `x=$(GITHUB_ACTIONS= tapline …)`.
    #[arg(long, value_name = "PATH", conflicts_with = "format")]
    pub(crate) get: Vec<String>,
    /// Pass on only these, separated by commas: types of lines (assistant, result, system/init; the format is stream-json), or
    /// steps (text, call, turn; with the format steps)
    #[arg(long, value_name = "TYPE", value_delimiter = ',', conflicts_with = "get")]
    pub(crate) only: Vec<String>,
    /// Add the conversation to the result as `messages`, the prompt included; the format is json
    #[arg(long, conflicts_with_all = ["get", "only"])]
    pub(crate) messages: bool,
    /// Show what the agent thinks
    #[arg(long)]
    pub(crate) thinking: bool,
    /// A name for this run in messages, the report and the recording
    #[arg(long, value_name = "NAME")]
    pub(crate) label: Option<String>,
    /// Replace secrets (keys, tokens, passwords) in all output and in the recording (`tapline help redact`)
    ///
    /// If CI or GITHUB_ACTIONS is set, tapline always replaces secrets on stderr, in summaries and in the formats live, lines and text.
    #[arg(long)]
    pub(crate) redact: bool,
    /// Write a summary in Markdown to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) summary: Option<PathBuf>,
    /// Write the report to this file, however the run ends, whatever the format is (`tapline help report` describes it)
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunFormat {
    /// The steps, as `tapline view` shows them, with a status line
    Live,
    /// One line per step, each with its time; what the agent writes to you keeps its own lines
    Lines,
    /// Only the answer; nothing on failure. With --partial, the text as the agent writes it
    Text,
    /// The result, as `claude --output-format json` prints it; always one JSON object, however the run ends
    Json,
    /// The agent's own lines, unchanged, as they arrive
    StreamJson,
    /// What happens, one JSON object per line as it happens (`tapline help steps`); the last line is the report
    Steps,
    /// The report, one JSON object, however the run ends (`tapline help report` describes it)
    Report,
    /// Nothing
    Quiet,
}

/// What stdin holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputKind {
    StreamJson,
}

/// When it ends.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Limits and failures")]
pub(crate) struct Ending {
    /// Stop the run after this long: 90s, 10m, 1h30m; a number without a unit means seconds. If the disk of the recording is
    /// frozen, the report comes in time, but the process ends only when the disk answers
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) timeout: Option<Duration>,
    /// Stop the run if the agent writes nothing for this long
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) idle_timeout: Option<Duration>,
    /// Stop the agent if it still runs this long after its final result (10 minutes while its background tasks run)
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    pub(crate) linger: Duration,
    /// How long to wait between the steps that stop the agent: a request, SIGTERM, SIGKILL
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    pub(crate) grace: Duration,
    /// Retry up to N times if that can help, in the same session; after a rate limit, wait until the limit resets
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) retry: u32,
    /// Wait this long before the first retry, and twice as long before each next one [default: 1s; 30s if the model is overloaded
    /// or a limit is reached, and neither the model nor the limit says how long to wait]. If a limit resets later than that, tapline
    /// waits until it resets
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "retry")]
    pub(crate) retry_delay: Option<Duration>,
    /// Retry only after failures of these categories, separated by commas [default: rate_limit, overloaded, server, network,
    /// no_result]
    #[arg(long, value_name = "CATEGORY", value_delimiter = ',', value_parser = super::category, requires = "retry")]
    pub(crate) retry_on: Vec<Category>,
    /// Check the run against the rules in this file (TOML; `tapline help policy`); stop it when it breaks one
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Exit with 1 if a successful run has one of these warnings, separated by commas: denied, max-tokens, … (`tapline help report`
    /// lists them)
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = tapline_session::warning_code)]
    pub(crate) fail_on: Vec<&'static str>,
    #[arg(long, help = exit::about_clean("Exit"))]
    pub(crate) require_clean: bool,
    /// Do not mark a success as `interactive` or `background_task`
    #[arg(long)]
    pub(crate) no_heuristics: bool,
}

/// What is kept.
#[derive(Debug, Args)]
#[command(next_help_heading = "Recording")]
pub(crate) struct Kept {
    /// Record into this new folder [default: a new folder under $TAPLINE_HOME]
    #[arg(long, value_name = "PATH", conflicts_with = "no_record")]
    pub(crate) record: Option<PathBuf>,
    /// Do not record
    #[arg(long)]
    pub(crate) no_record: bool,
    /// How often to flush the recording to disk, to protect it against a power failure
    #[arg(long, value_enum, default_value_t = SyncWhen::Second, value_name = "WHEN")]
    pub(crate) sync: SyncWhen,
}

/// Who else gets the stream.
#[derive(Debug, Args)]
#[command(next_help_heading = "Recording")]
pub(crate) struct Pushed {
    /// Send the stream to a `tapline serve` while it is recorded (`tapline help serving`); the token is in $TAPLINE_PUSH_TOKEN
    #[arg(long, value_name = "URL", conflicts_with = "no_record")]
    pub(crate) push: Option<String>,
    /// Read the token for --push from this file: the token alone, without the rights that it has
    #[arg(long, value_name = "FILE", requires = "push")]
    pub(crate) push_token_file: Option<PathBuf>,
    /// If the agent asks for a permission that no rule decides, wait for an answer from the page of --push (needs `tapline serve --allow-control`)
    #[arg(long, requires = "push")]
    pub(crate) ask: bool,
    /// Deny a question that nobody has answered for this long [default: 10m; in a chat at a terminal no limit]
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "push")]
    pub(crate) ask_timeout: Option<Duration>,
}

/// How long a question waits for somebody at the page.
const ASKED: Duration = Duration::from_secs(10 * 60);

impl Pushed {
    /// Returns how long a question waits for somebody at the page.
    pub(crate) fn within(&self) -> Duration {
        self.ask_timeout.unwrap_or(ASKED)
    }
}

/// When a recording is put on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SyncWhen {
    /// Once a second: a power failure costs at most the last second
    Second,
    /// After every piece of output: a power failure costs nothing, but every piece waits for the disk
    Always,
}

/// Clap would take a `Vec` for an option that can be repeated; this is one list, which may be empty.
pub(crate) type Sources = Vec<SettingSource>;

/// `user,project`, or nothing.
fn setting_sources(text: &str) -> Result<Sources, UnknownSource> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::parse).collect()
}

/// `90`, `90s`, `1.5h`, `1h30m`, `500ms`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    tapline_session::parse_duration(text).ok_or_else(|| format!("`{text}` is not a time: write it like 90s, 10m or 1h30m"))
}

/// A time that is more than none.
fn some_time(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time.is_zero() {
        Err("a limit of 0 would stop the run at once: write it like 90s or 10m, or leave it out for no limit".to_owned())
    } else {
        Ok(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (ms, text) in [(300, "300ms"), (5_000, "5s"), (300_000, "5m"), (5_400_000, "1h30m"), (1_500, "1s500ms"), (0, "0s")]
        {
            assert_eq!(span(Duration::from_millis(ms)), text);
        }
        for (text, ms) in [("90", 90_000), ("90s", 90_000), ("1.5m", 90_000), ("1h30m", 5_400_000), ("500ms", 500), ("0", 0)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["0", "0s", "0ms", "0h0m", ""] {
            assert!(some_time(text).is_err(), "{text}");
        }
        for text in ["", "s", "1x", "1h-2m", "-1s", "1e9", "1.2.3s", "99999999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
