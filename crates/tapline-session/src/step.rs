//! A step: one thing that happened, as a person would tell it. Renderers, the report and the checks see steps
//! alone, so that no two of them can disagree. `convert --to steps` writes them; docs/STEPS.md describes them.

use serde::Serialize;
use tapline_protocol::claude::message::RawUsage;
use tapline_protocol::claude::result::{Cost, Errors, ModelUsages};
use tapline_protocol::codex::CodexUsage;
use tapline_protocol::{Json, Number};

use crate::ledger::Ledger;
use crate::verdict::Category;

/// One thing that happened, where, and in whose name.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// The line it was read from, from 1.
    pub line: u64,
    /// When, as the agent wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The call whose sub-agent did it; absent for the main thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// How deep in sub-agents: 0 is the main thread.
    pub depth: usize,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// What happened. The set grows.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "step", rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// A session (Codex: a thread) started, or a further turn of it.
    Session(Box<SessionInfo>),
    /// A person or program said something to the agent.
    Prompt {
        /// What.
        text: String,
    },
    /// The agent said something.
    Text(Said),
    /// The agent thought something.
    Thinking(Said),
    /// A tool was called.
    Call(Call),
    /// A call was answered.
    Answer(Answer),
    /// An answer came to a call that was never seen.
    Orphan(Answer),
    /// The API itself ran a tool.
    ServerCall(ServerCall),
    /// The API itself answered one.
    ServerAnswer(ServerAnswer),
    /// A part of a message that is still being written.
    Partial(Partial),
    /// Earlier messages no longer count.
    Retracted {
        /// Their uuids.
        uuids: Vec<String>,
    },
    /// A turn ended. The run may go on.
    Turn(Box<Turn>),
    /// The agent tries a request to its model again.
    Retry(Retry),
    /// How much of a subscription's limit is used.
    RateLimit(RateLimit),
    /// A task started, changed or ended.
    Task(Task),
    /// A hook started or ended.
    Hook(Hook),
    /// A tool was not permitted.
    Denied(Denied),
    /// The agent asks its host something and waits.
    Question(Question),
    /// A sign of life from a tool at work.
    Progress(Progress),
    /// A Codex item, as it came.
    Item(Item),
    /// An error of the agent's or its model's that does not end the turn by itself.
    Error {
        /// What the agent calls it, or says of it.
        text: String,
    },
    /// Something a person may want to know.
    Notice(Notice),
    /// Something that a person need not see: states, acknowledgements, bookkeeping.
    Quiet {
        /// The event's type, or `system/<subtype>`.
        kind: String,
        /// Its state or detail, in a word.
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// A line that could not be read as it should be.
    Odd(Odd),
}

/// A session that starts.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SessionInfo {
    /// To resume it with.
    pub id: Option<String>,
    /// Whether it is new in the stream, not a further turn.
    pub first: bool,
    /// What it has.
    #[serde(flatten)]
    pub setup: Setup,
}

/// What a session is started with.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Setup {
    /// The model.
    pub model: Option<String>,
    /// Where it works.
    pub cwd: Option<String>,
    /// The agent's version.
    pub cli_version: Option<String>,
    /// What it may do unasked.
    pub permission_mode: Option<String>,
    /// Which kind of key it uses: a label, not a secret.
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
    /// How it is told to write.
    pub output_style: Option<String>,
    /// Fast mode.
    pub fast_mode_state: Option<String>,
}

/// An MCP server.
#[derive(Clone, Debug, Serialize)]
pub struct McpServer {
    /// Its name.
    pub name: Option<String>,
    /// `connected`, or why not.
    pub status: Option<String>,
}

/// A plugin.
#[derive(Clone, Debug, Serialize)]
pub struct Plugin {
    /// Its name.
    pub name: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// A whole block of text or thought.
#[derive(Clone, Debug, Serialize)]
pub struct Said {
    /// What.
    pub text: String,
    /// The message it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The event it came in, by which it may be retracted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Cut short by an interrupt.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub aborted: bool,
}

/// A tool call.
#[derive(Clone, Debug, Serialize)]
pub struct Call {
    /// By which its answer is found.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// What it does, in a word: running, reading, …
    pub doing: &'static str,
    /// The same, done: ran, read, …
    pub done: &'static str,
    /// Its key input, on one line.
    pub title: String,
    /// Its input, where that is an object.
    pub input: Option<Json>,
    /// The message it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// It did what it should.
    Ok,
    /// It failed.
    Error,
    /// It was not permitted.
    Denied,
    /// No answer yet.
    Pending,
}

/// The answer to a tool call.
#[derive(Clone, Debug, Serialize)]
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
    pub done: Option<&'static str>,
    /// How it ended.
    pub status: CallStatus,
    /// What came back, as text.
    pub text: String,
    /// Whether `is_error` was literally true.
    pub is_error: bool,
    /// The answer's place in its event.
    pub block: usize,
}

/// A call that the API ran.
#[derive(Clone, Debug, Serialize)]
pub struct ServerCall {
    /// By which its answer is found.
    pub id: Option<String>,
    /// The tool.
    pub name: Option<String>,
    /// Its input.
    pub input: Option<Json>,
}

/// What the API answered.
#[derive(Clone, Debug, Serialize)]
pub struct ServerAnswer {
    /// The call's id.
    pub tool_use_id: Option<String>,
    /// What came back.
    pub content: Option<Json>,
}

/// A part of a message that is still being written.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum Partial {
    /// A message begins.
    MessageStart {
        /// Its id.
        message_id: Option<String>,
    },
    /// A block begins.
    BlockStart {
        /// Its place in the message.
        index: u64,
        /// `text`, `thinking`, `tool_use`, …
        kind: String,
        /// The tool, where it is a call.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Something is added to a block.
    Delta {
        /// The block's place in the message.
        index: u64,
        /// What is added to.
        kind: DeltaKind,
        /// What is added.
        text: String,
    },
    /// A block ends.
    BlockStop {
        /// Its place in the message.
        index: u64,
    },
    /// The message's end is known.
    MessageDelta {
        /// Why it ended.
        stop_reason: Option<String>,
        /// The tokens it took.
        output_tokens: Option<u64>,
    },
    /// The message ends.
    MessageStop,
}

/// What a delta adds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeltaKind {
    /// Text.
    Text,
    /// Thought.
    Thinking,
    /// A call's input.
    Json,
}

/// A turn that has ended: what `result` said. The report's `turns[]`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Turn {
    /// Its place among the turns, from 0.
    pub index: usize,
    /// `success`, `error_max_turns`, … (Codex: `completed`, `failed`)
    pub subtype: Option<String>,
    /// Whether it was literally true.
    pub is_error: bool,
    /// What the agent said at the end.
    pub result: Option<String>,
    /// What went wrong, where the agent lists it.
    pub errors: Option<Errors>,
    /// Why the model stopped.
    pub stop_reason: Option<String>,
    /// Why the turn ended.
    pub terminal_reason: Option<String>,
    /// The API's HTTP status.
    pub api_error_status: Option<Number>,
    /// Requests to the model, as the agent counts them.
    pub num_turns: Option<Number>,
    /// The turn's time.
    pub duration_ms: Option<Number>,
    /// The time spent waiting for the model.
    pub duration_api_ms: Option<Number>,
    /// Calls that were not permitted, as they came.
    pub permission_denials: Vec<Json>,
    /// The answer by schema.
    pub structured_output: Option<Json>,
    /// A call put off.
    pub deferred_tool_use: Option<Json>,
    /// The result's own id.
    pub uuid: Option<String>,
    /// What set the turn off.
    pub origin: Option<Json>,
    /// `error`, as it came.
    pub error: Option<Json>,
    /// Whether the turn failed.
    pub failed: bool,
    /// This turn's tokens, main loop alone, every further key as it came.
    pub usage: RawUsage,
    /// The total the agent reported.
    pub total_cost_usd: Option<Cost>,
    /// What the agent reported by model.
    pub model_usage: Option<ModelUsages>,
    /// What this turn cost.
    pub cost_usd: Option<f64>,
    /// What went wrong, in the words a person should read.
    #[serde(skip)]
    pub message: Option<String>,
    /// What the result says was said before, as the main thread's last text.
    #[serde(skip)]
    pub repeats_text: bool,
    /// Why it failed.
    #[serde(skip)]
    pub category: Option<Category>,
    /// All turns up to this one.
    #[serde(skip)]
    pub so_far: SoFar,
    /// Codex: the thread's usage so far.
    #[serde(skip)]
    pub thread_usage: Option<CodexUsage>,
}

/// What all turns up to one add up to.
#[derive(Clone, Debug, Default)]
pub struct SoFar {
    /// Requests to the model, as the agent counts them; else turns.
    pub turns: u64,
    /// Their time.
    pub duration_ms: Option<f64>,
    /// What they cost, without the list of models.
    pub ledger: Ledger,
    /// Calls that were not permitted.
    pub denials: u64,
    /// Something went wrong on the way: see [`Verdict::clean`](crate::Verdict).
    pub blemished: bool,
}

impl Turn {
    /// Whether it failed because somebody cut it short.
    pub fn is_aborted(&self) -> bool {
        self.failed && self.terminal_reason.as_deref().is_some_and(|reason| reason.starts_with("aborted_"))
    }

    /// What the agent said at its end: the result's words, or else these.
    pub fn answer_or(&self, said: Option<String>) -> String {
        self.result.clone().filter(|text| !text.is_empty()).or(said).unwrap_or_default()
    }

    /// What the result says, where it says something new.
    pub fn news(&self) -> Option<&str> {
        self.result.as_deref().map(str::trim).filter(|text| !text.is_empty() && !self.repeats_text && !self.failed)
    }
}

/// A retry of a request to the model.
#[derive(Clone, Debug, Serialize)]
pub struct Retry {
    /// Which try.
    pub attempt: Option<Number>,
    /// Of how many.
    pub max: Option<Number>,
    /// How long it waits first.
    pub delay_ms: Option<Number>,
    /// The HTTP status.
    pub status: Option<Number>,
    /// What went wrong.
    pub error: Option<String>,
}

/// A subscription's limit.
#[derive(Clone, Debug, Serialize)]
pub struct RateLimit {
    /// `allowed`, `allowed_warning`, `rejected`
    pub status: Option<String>,
    /// Which limit.
    pub limit_type: Option<String>,
    /// When it starts anew, RFC 3339.
    pub resets_at: Option<String>,
    /// How much is used, 0 to 1.
    pub utilization: Option<f64>,
    /// As it came.
    pub info: Option<Json>,
}

/// A task: a sub-agent or a command in the background.
#[derive(Clone, Debug, Serialize)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// running, pending, paused, completed, failed, stopped, killed, …
    pub status: String,
    /// Whether it has ended.
    pub terminal: bool,
    /// What it is for.
    pub description: Option<String>,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The call that started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    /// What it is doing, or did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// A hook's run.
#[derive(Clone, Debug, Serialize)]
pub struct Hook {
    /// By which its end is found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// What set it off.
    pub event: Option<String>,
    /// How it ended; null while it runs.
    pub outcome: Option<String>,
    /// Its exit code.
    pub exit_code: Option<Number>,
}

/// A tool that was not permitted.
#[derive(Clone, Debug, Serialize)]
pub struct Denied {
    /// The call.
    pub id: Option<String>,
    /// The tool.
    pub name: Option<String>,
    /// Its key input, on one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Why.
    pub message: Option<String>,
    /// The call waits for its answer, which will carry the refusal.
    #[serde(skip)]
    pub answer_follows: bool,
}

/// Something the agent asks its host.
#[derive(Clone, Debug, Serialize)]
pub struct Question {
    /// The request's id.
    pub request_id: Option<String>,
    /// `can_use_tool`, `hook_callback`, …
    pub kind: String,
    /// What about, on one line.
    pub about: Option<String>,
}

/// A tool at work.
#[derive(Clone, Debug, Serialize)]
pub struct Progress {
    /// The call.
    pub id: Option<String>,
    /// The tool.
    pub name: Option<String>,
    /// For how long, in seconds.
    pub elapsed: Option<f64>,
}

/// A Codex item, as it came.
#[derive(Clone, Debug, Serialize)]
pub struct Item {
    /// started, updated, completed
    pub phase: &'static str,
    /// Whether a new process numbers its items anew from here.
    #[serde(skip)]
    pub thread: usize,
    /// Its fields.
    #[serde(serialize_with = "as_map")]
    pub item: Vec<(String, Json)>,
}

/// Writes key and value pairs as an object.
pub(crate) fn as_map<S: serde::Serializer>(pairs: &[(String, Json)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

/// How loud a notice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// For those who look.
    Info,
    /// For everyone.
    Warning,
    /// Something is wrong.
    Error,
}

/// Something a person may want to know.
#[derive(Clone, Debug, Serialize)]
pub struct Notice {
    /// How loud.
    pub level: Level,
    /// The event's type, or `system/<subtype>`.
    pub kind: String,
    /// What.
    pub text: String,
}

/// Something odd about a line.
#[derive(Clone, Debug, Serialize)]
pub struct Odd {
    /// The warning's code: `malformed-line`, `unknown-type`, …
    pub code: &'static str,
    /// What.
    pub message: String,
    /// The type, or `item/<type>`, that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// The whole line, while it is not known which agent writes: then there is nothing else to show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}
