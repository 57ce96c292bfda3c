//! A step: one thing that happened, in terms that people use. Renderers, the report and the checks see only steps, so
//! they cannot disagree. `convert --to steps` writes them; docs/STEPS.md describes them.

mod message;
pub(crate) mod pairs;
mod partial;
pub(crate) mod reading;
mod turn;
mod words;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tapline_protocol::{Agent, Json, Moment, Number};

pub use message::MessageInfo;
pub use partial::Partial;
pub use turn::{SoFar, Turn};
pub use words::{CallEnd, CallStatus, DeltaKind, DeniedBy, Level, Phase};

/// One thing that happened, with its place in the stream.
///
/// ```
/// use tapline_protocol::Reader;
/// use tapline_session::{Fold, What};
///
/// let stream = br#"{"type":"assistant","message":{"content":[{"type":"text","text":"Hello."}]}}"#;
/// let mut fold = Fold::default();
/// for record in Reader::new(stream.as_slice()) {
///     for step in fold.apply(&record?) {
///         if let What::Text(said) = step.what {
///             assert_eq!((step.line, said.text.as_str()), (1, "Hello."));
///         }
///     }
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Step {
    /// The line of the stream, from 1.
    pub line: u64,
    /// The agent's own timestamp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// When the line arrived, in milliseconds since 1970: from the clock of the run, its recording, or the transcript.
    #[serde(rename = "arrived_ms", skip_serializing_if = "Option::is_none")]
    pub arrived: Option<Moment>,
    /// The call that started the sub-agent; absent for the main thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The nesting of sub-agents: 0 is the main thread.
    pub depth: usize,
    /// The index of its turn, from 0. What comes after a turn has ended belongs to it until the next one begins.
    pub turn: usize,
    /// The session's id, on the first step that knows it, and again when it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
    /// The message of the model that this is a part of, if more than its id is known.
    #[serde(flatten)]
    pub message: Option<Box<MessageInfo>>,
}

/// What happened. New variants may be added.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "step", rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// A session (some agents call it a thread) or another turn of it started.
    Session(Box<SessionInfo>),
    /// A person or program sent the agent a prompt.
    Prompt {
        /// The prompt.
        text: String,
    },
    /// The agent wrote text.
    Text(Said),
    /// The agent had a thought.
    Thinking(Said),
    /// A tool was called.
    Call(Call),
    /// A call has a result.
    Answer(CallAnswer),
    /// A result arrived for a call that was never seen.
    Orphan(CallAnswer),
    /// The API itself ran a tool.
    ServerCall(ServerCall),
    /// The result of a tool that the API ran.
    ServerAnswer(ServerAnswer),
    /// A part of a message that is still being written.
    Partial(Partial),
    /// The agent retracted earlier messages.
    Retracted {
        /// The uuids of the messages.
        uuids: Vec<String>,
    },
    /// A turn ended. The run may continue.
    Turn(Box<Turn>),
    /// The agent retries a request to the model.
    Retry(Retry),
    /// How much of a subscription's limit is used.
    RateLimit(RateLimit),
    /// A background task started, changed or ended.
    Task(Task),
    /// A hook started or ended.
    Hook(Hook),
    /// A call was denied.
    Denied(Denied),
    /// The agent asks its host something and waits for the answer.
    Question(Question),
    /// A tool is still running.
    Progress(Progress),
    /// An item, unchanged, from an agent that reports its work in items.
    Item(Item),
    /// An error of the agent or the model that does not by itself end the turn.
    Error {
        /// The name or text of the error.
        text: String,
    },
    /// Something that people may want to know.
    Notice(Notice),
    /// Something that people need not see: states, acknowledgements and the like.
    Quiet {
        /// The event's type, or `system/<subtype>`.
        kind: String,
        /// The state or detail, in one word.
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
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "reading::agent_named")]
    pub agent: Option<Agent>,
    /// The id to resume the session with.
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
    /// What the agent may do without asking.
    pub permission_mode: Option<String>,
    /// The source of the API key: a label, not a secret.
    pub api_key_source: Option<String>,
    /// The tools.
    pub tools: Vec<String>,
    /// The MCP servers.
    pub mcp_servers: Vec<McpServer>,
    /// The kinds of sub-agents.
    pub agents: Vec<String>,
    /// The skills.
    pub skills: Vec<String>,
    /// The plugins.
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
    /// The name.
    pub name: Option<String>,
    /// `connected`, or the reason why not.
    pub status: Option<String>,
}

/// A plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Plugin {
    /// The name.
    pub name: Option<String>,
    /// The version.
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
    /// The id of the message that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The uuid of its event, which a retraction refers to.
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
    /// What the call does, as a verb: running, reading, …
    pub doing: Cow<'static, str>,
    /// The same verb in the past tense: ran, read, …
    pub done: Cow<'static, str>,
    /// The main input, on one line.
    pub title: String,
    /// The input, if it is an object.
    pub input: Option<Json>,
    /// The id of the message that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
}

/// The result of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CallAnswer {
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
    /// How the call ended.
    pub status: CallStatus,
    /// The result, as text.
    pub text: String,
    /// Whether `is_error` was literally true.
    pub is_error: bool,
    /// How the call ended, if the agent says that it did not end by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<CallEnd>,
    /// Who denied it, and why, if that was known by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denial: Option<Denial>,
    /// The index in the event.
    pub block: usize,
    /// The time from the call to this result, including any wait, such as for a permission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// A tool call that the API ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ServerCall {
    /// The id that its result refers to.
    pub id: Option<String>,
    /// The tool.
    pub name: Option<String>,
    /// The input.
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

/// A retry of a request to the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Retry {
    /// The number of the attempt.
    pub attempt: Option<Number>,
    /// The maximum number of attempts.
    pub max: Option<Number>,
    /// The wait before the attempt.
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
    /// The kind of limit.
    pub limit_type: Option<String>,
    /// When the limit resets (RFC 3339).
    pub resets_at: Option<String>,
    /// How much of it is used, 0 to 1.
    pub utilization: Option<f64>,
    /// The `rate_limit_info`, unchanged.
    pub info: Option<Json>,
}

/// A task: a sub-agent or a background command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Task {
    /// The id.
    pub id: String,
    /// running, pending, paused, completed, failed, stopped, killed, …
    pub status: String,
    /// Whether the task has ended.
    pub terminal: bool,
    /// The description.
    pub description: Option<String>,
    /// The type.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The call that started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    /// What the task is doing or has done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// How long the task took, once it has ended.
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
    /// The name.
    pub name: Option<String>,
    /// The event that triggered it.
    pub event: Option<String>,
    /// How it ended. `None` while it runs.
    pub outcome: Option<String>,
    /// The exit code.
    pub exit_code: Option<Number>,
}

/// A call that was denied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Denied {
    /// The id of the call.
    pub id: Option<String>,
    /// The tool.
    pub name: Option<String>,
    /// The main input, on one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The reason.
    pub message: Option<String>,
    /// Who denied it, and why.
    #[serde(skip_serializing_if = "reading::is_default")]
    pub denial: Denial,
    /// Whether a result with the denial follows.
    #[serde(skip_serializing_if = "reading::is_default")]
    pub answer_follows: bool,
}

/// Who denied a call, and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Denial {
    /// Who denied it.
    pub by: DeniedBy,
    /// The reason, as the agent gives it.
    pub reason: Option<String>,
}

/// A request of the agent to its host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Question {
    /// The id of the request.
    pub request_id: Option<String>,
    /// `can_use_tool`, `hook_callback`, …
    pub kind: String,
    /// What it is about, on one line.
    pub about: Option<String>,
    /// The tool, if it asks whether one may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The whole input of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Json>,
    /// The id of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
}

/// A tool that is still running.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Progress {
    /// The id of the call.
    pub id: Option<String>,
    /// The tool.
    pub name: Option<String>,
    /// For how long it has been running, in seconds.
    pub elapsed: Option<f64>,
}

/// An item, unchanged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Item {
    /// The phase.
    pub phase: Phase,
    /// How many times a thread had started. Each process numbers its items anew.
    #[serde(skip_serializing_if = "reading::is_default")]
    pub thread: usize,
    /// The fields.
    #[serde(serialize_with = "pairs::write", deserialize_with = "pairs::read")]
    pub item: Vec<(String, Json)>,
}

/// Something that people may want to know.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Notice {
    /// The importance.
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
