//! A step: one thing that happened, in terms that people use. Renderers, the report and the checks see only steps,
//! so no two of them can disagree. `convert --to steps` writes them; docs/STEPS.md describes them.

pub(crate) mod pairs;
pub(crate) mod reading;
mod words;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tapline_protocol::totals::{Cost, Errors, ModelUsages, RawUsage};
use tapline_protocol::{Agent, Json, Moment, Number};

pub use words::{CallStatus, DeltaKind, Level, Phase};

use crate::ledger::Ledger;
use crate::unwritten::Unwritten;
use crate::verdict::Category;

/// One thing that happened, with its place in the stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Step {
    /// The line of the stream, from 1.
    pub line: u64,
    /// The agent's own timestamp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// When the line arrived, in milliseconds since 1970: by the clock of the run, by its recording, or as a transcript says.
    #[serde(rename = "arrived_ms", skip_serializing_if = "Option::is_none")]
    pub arrived: Option<Moment>,
    /// The call that started the sub-agent; absent for the main thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The nesting of sub-agents: 0 is the main thread.
    pub depth: usize,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What happened. New variants may be added.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "step", rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// A session (or a thread, as some agents call it) or another turn of it started.
    Session(Box<SessionInfo>),
    /// A person or program sent the agent a prompt.
    Prompt {
        /// What.
        text: String,
    },
    /// The agent wrote something.
    Text(Said),
    /// The agent thought something.
    Thinking(Said),
    /// A tool was called.
    Call(Call),
    /// A call has a result.
    Answer(Answer),
    /// A result came for a call that was never seen.
    Orphan(Answer),
    /// The API itself ran a tool.
    ServerCall(ServerCall),
    /// The result of a tool that the API ran.
    ServerAnswer(ServerAnswer),
    /// A part of a message that is still being written.
    Partial(Partial),
    /// The agent withdrew earlier messages.
    Retracted {
        /// Their uuids.
        uuids: Vec<String>,
    },
    /// A turn ended. The run may continue.
    Turn(Box<Turn>),
    /// The agent retries a request to the model.
    Retry(Retry),
    /// How much of a subscription's limit is used up.
    RateLimit(RateLimit),
    /// A background task started, changed or ended.
    Task(Task),
    /// A hook started or ended.
    Hook(Hook),
    /// A call was denied.
    Denied(Denied),
    /// The agent asks the program that started it, and waits.
    Question(Question),
    /// A tool is still running.
    Progress(Progress),
    /// An item of an agent that tells of its work in items, unchanged.
    Item(Item),
    /// An error of the agent or the model that does not end the turn by itself.
    Error {
        /// What the agent calls it, or says of it.
        text: String,
    },
    /// Something a person may want to know.
    Notice(Notice),
    /// Something that a person need not see: states, acknowledgements and similar.
    Quiet {
        /// The event's type, or `system/<subtype>`.
        kind: String,
        /// Its state or detail, in a word.
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// A line that could not be read normally.
    Odd(Odd),
}

/// The start of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SessionInfo {
    /// Whose session it is.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "reading::agent_named")]
    pub agent: Option<Agent>,
    /// The id with which it can be resumed.
    pub id: Option<String>,
    /// Whether this is the first start in the stream and not another turn.
    pub first: bool,
    /// Its configuration.
    #[serde(flatten)]
    pub setup: Setup,
}

/// The configuration of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Setup {
    /// The model.
    pub model: Option<String>,
    /// The working directory.
    pub cwd: Option<String>,
    /// The agent's version.
    pub cli_version: Option<String>,
    /// What it may do without asking.
    pub permission_mode: Option<String>,
    /// The source of its API key: a label, not a secret.
    pub api_key_source: Option<String>,
    /// Its tools.
    pub tools: Vec<String>,
    /// Its MCP servers.
    pub mcp_servers: Vec<McpServer>,
    /// Its kinds of sub-agent.
    pub agents: Vec<String>,
    /// Its skills.
    pub skills: Vec<String>,
    /// Its plugins.
    pub plugins: Vec<Plugin>,
    /// The output style.
    pub output_style: Option<String>,
    /// The state of fast mode.
    pub fast_mode_state: Option<String>,
}

/// An MCP server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct McpServer {
    /// Its name.
    pub name: Option<String>,
    /// `connected`, or why not.
    pub status: Option<String>,
}

/// A plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Plugin {
    /// Its name.
    pub name: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// A complete block of text or thinking.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Said {
    /// The text.
    pub text: String,
    /// The message it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The uuid of its event, by which it can be withdrawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Whether an interrupt cut it short.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub aborted: bool,
}

/// A tool call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Call {
    /// The id that its result refers to.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// What it does, as a verb: running, reading, …
    pub doing: Cow<'static, str>,
    /// The same in the past tense: ran, read, …
    pub done: Cow<'static, str>,
    /// Its main input, on one line.
    pub title: String,
    /// Its input, if that is an object.
    pub input: Option<Json>,
    /// The message it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
}

/// The result of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Answer {
    /// The call's id.
    pub id: Option<String>,
    /// The call's tool, if the call was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The call's title, if the call was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the call did: ran, read, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<Cow<'static, str>>,
    /// How it ended.
    pub status: CallStatus,
    /// The result, as text.
    pub text: String,
    /// Whether `is_error` was literally true.
    pub is_error: bool,
    /// Its index in the event.
    pub block: usize,
    /// The time from the call to this result, including what it waited for (a permission, for example).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// A call that the API ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ServerCall {
    /// The id that its result refers to.
    pub id: Option<String>,
    /// The tool.
    pub name: Option<String>,
    /// Its input.
    pub input: Option<Json>,
}

/// The result of a tool that the API ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ServerAnswer {
    /// The call's id.
    pub tool_use_id: Option<String>,
    /// The result.
    pub content: Option<Json>,
}

/// A part of a message that is still being written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Partial {
    /// A message starts.
    MessageStart {
        /// Its id.
        message_id: Option<String>,
    },
    /// A block starts.
    BlockStart {
        /// Its place in the message.
        #[serde(default)]
        index: u64,
        /// `text`, `thinking`, `tool_use`, …
        #[serde(default)]
        kind: String,
        /// The tool, where it is a call.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Text is added to a block.
    Delta {
        /// The block's place in the message.
        #[serde(default)]
        index: u64,
        /// What is added to.
        #[serde(default)]
        kind: DeltaKind,
        /// What is added.
        #[serde(default)]
        text: String,
    },
    /// A block ends.
    BlockStop {
        /// Its place in the message.
        #[serde(default)]
        index: u64,
    },
    /// The reason why the message ends, and its usage.
    MessageDelta {
        /// Why it ended.
        stop_reason: Option<String>,
        /// The tokens it took.
        output_tokens: Option<u64>,
    },
    /// The message ends.
    MessageStop,
}

/// A turn that has ended, from its `result`. An entry of the report's `turns[]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Turn {
    /// Its index among the turns, from 0.
    pub index: usize,
    /// `success`, `error_max_turns`, … (other agents: `completed`, `failed`)
    pub subtype: Option<String>,
    /// Whether `is_error` was literally true.
    pub is_error: bool,
    /// The agent's final text.
    pub result: Option<String>,
    /// The errors, if the agent lists them.
    pub errors: Option<Errors>,
    /// Why the model stopped.
    pub stop_reason: Option<String>,
    /// Why the turn ended.
    pub terminal_reason: Option<String>,
    /// The API's HTTP status.
    pub api_error_status: Option<Number>,
    /// Requests to the model, as the agent counts them.
    pub num_turns: Option<Number>,
    /// The duration of the turn.
    pub duration_ms: Option<Number>,
    /// The time spent waiting for the model.
    pub duration_api_ms: Option<Number>,
    /// Denied calls, unchanged.
    pub permission_denials: Vec<Json>,
    /// The structured answer.
    pub structured_output: Option<Json>,
    /// A deferred call.
    pub deferred_tool_use: Option<Json>,
    /// The uuid of the result.
    pub uuid: Option<String>,
    /// What started the turn.
    pub origin: Option<Json>,
    /// `error`, unchanged.
    pub error: Option<Json>,
    /// Whether the turn failed.
    pub failed: bool,
    /// The tokens of this turn's main thread; further keys are unchanged.
    pub usage: RawUsage,
    /// The total the agent reported.
    pub total_cost_usd: Option<Cost>,
    /// What the agent reported for each model.
    pub model_usage: Option<ModelUsages>,
    /// What this turn cost.
    pub cost_usd: Option<f64>,
    /// The time from the turn's prompt or first event to its end, as it arrived; `duration_ms` is the agent's own count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
    /// The error message for people.
    #[serde(skip)]
    pub message: Unwritten<Option<String>>,
    /// Whether the result repeats the last text of the main thread.
    #[serde(skip)]
    pub repeats_text: Unwritten<bool>,
    /// Why it failed.
    #[serde(skip)]
    pub category: Unwritten<Option<Category>>,
    /// The sum of all turns up to this one.
    #[serde(skip)]
    pub so_far: Unwritten<SoFar>,
    /// What the turn's thread has used so far, unchanged, where the agent counts by thread.
    #[serde(skip)]
    pub thread_usage: Unwritten<Option<Json>>,
}

/// The sum of all turns up to one.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SoFar {
    /// Requests to the model, as the agent counts them; else turns.
    pub turns: u64,
    /// Their duration.
    pub duration_ms: Option<f64>,
    /// Their cost, without the list of models.
    pub ledger: Ledger,
    /// Denied calls.
    pub denials: u64,
    /// Whether something went wrong on the way: see [`Verdict::clean`](crate::Verdict).
    pub blemished: bool,
    /// Whether the turn's result is not of the agent's own shape, so that it does not say how the turn ended.
    pub foreign: bool,
}

impl Turn {
    /// Whether it failed because it was interrupted.
    pub fn is_aborted(&self) -> bool {
        self.failed && self.terminal_reason.as_deref().is_some_and(|reason| reason.starts_with("aborted_"))
    }

    /// The agent's answer: the text of the result, or else `said`.
    pub fn answer_or(&self, said: Option<String>) -> String {
        self.result.clone().filter(|text| !text.is_empty()).or(said).unwrap_or_default()
    }

    /// The text of the result, unless it repeats an earlier text.
    pub fn news(&self) -> Option<&str> {
        self.result.as_deref().map(str::trim).filter(|text| !text.is_empty() && !*self.repeats_text && !self.failed)
    }
}

/// A retry of a request to the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Retry {
    /// The number of the attempt.
    pub attempt: Option<Number>,
    /// The maximum number of attempts.
    pub max: Option<Number>,
    /// The wait before it.
    pub delay_ms: Option<Number>,
    /// The HTTP status.
    pub status: Option<Number>,
    /// What went wrong.
    pub error: Option<String>,
}

/// A subscription's limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RateLimit {
    /// `allowed`, `allowed_warning`, `rejected`
    pub status: Option<String>,
    /// Which limit.
    pub limit_type: Option<String>,
    /// When it resets, RFC 3339.
    pub resets_at: Option<String>,
    /// How much is used, 0 to 1.
    pub utilization: Option<f64>,
    /// The unchanged `rate_limit_info`.
    pub info: Option<Json>,
}

/// A task: a sub-agent or a command in the background.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Task {
    /// Its id.
    pub id: String,
    /// running, pending, paused, completed, failed, stopped, killed, …
    pub status: String,
    /// Whether it has ended.
    pub terminal: bool,
    /// Its description.
    pub description: Option<String>,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The call that started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    /// What it is doing, or has done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// How long it took, once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// A run of a hook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Hook {
    /// The id that its end refers to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// The event that triggered it.
    pub event: Option<String>,
    /// How it ended; `None` while it runs.
    pub outcome: Option<String>,
    /// Its exit code.
    pub exit_code: Option<Number>,
}

/// A call that was denied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Denied {
    /// The call.
    pub id: Option<String>,
    /// The tool.
    pub name: Option<String>,
    /// Its main input, on one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Why.
    pub message: Option<String>,
    /// Whether a result with the denial follows.
    #[serde(skip)]
    pub answer_follows: Unwritten<bool>,
}

/// Something that the agent asks the program that started it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Question {
    /// The request's id.
    pub request_id: Option<String>,
    /// `can_use_tool`, `hook_callback`, …
    pub kind: String,
    /// What it asks about, on one line.
    pub about: Option<String>,
}

/// A tool that is still running.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Progress {
    /// The call.
    pub id: Option<String>,
    /// The tool.
    pub name: Option<String>,
    /// For how long, in seconds.
    pub elapsed: Option<f64>,
}

/// An item, unchanged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Item {
    /// How far it is.
    pub phase: Phase,
    /// Whether a new process numbers its items anew from here.
    #[serde(skip)]
    pub thread: Unwritten<usize>,
    /// Its fields.
    #[serde(serialize_with = "pairs::write", deserialize_with = "pairs::read")]
    pub item: Vec<(String, Json)>,
}

/// Something a person may want to know.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Notice {
    /// Its importance.
    pub level: Level,
    /// The event's type, or `system/<subtype>`.
    pub kind: String,
    /// The text.
    pub text: String,
}

/// A problem with a line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Odd {
    /// The warning's code: `malformed-line`, `unknown-type`, …
    pub code: Cow<'static, str>,
    /// What is wrong.
    pub message: String,
    /// The unknown type, or `item/<type>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// The whole line, if the agent is not known yet and there is nothing else to show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}
