//! The events of both agents: one row each in the tag table below.

use crate::claude::content::{ToolResult, ToolUse};
use crate::claude::control::{ControlCancelRequest, ControlRequest, ControlResponse};
use crate::claude::message::{Assistant, User};
use crate::claude::partial::StreamEvent;
use crate::claude::result::TurnResult;
#[allow(clippy::wildcard_imports, reason = "one row per shape stands below")]
use crate::claude::system::*;
use crate::codex::{ItemEvent, ThreadStarted, TurnCompleted, TurnFailed, TurnStarted};
use crate::json::{Kind, SyntaxError, Value};
use crate::wire::{Read, Shape};

/// Which agent a stream comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Agent {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
}

impl Agent {
    /// Its name, as people type it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }
}

/// What kind of line an event was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// A JSON object.
    Object,
    /// JSON, but no object.
    NotObject,
    /// Not JSON, or too long.
    Malformed,
    /// Blanks alone.
    Blank,
    /// A further part of a line above the limit.
    Rest,
}

/// Keys that any event may carry (read into [`Envelope`](crate::Envelope)).
const COMMON: &[&str] = &["type", "subtype", "uuid", "session_id", "parent_tool_use_id", "timestamp"];

macro_rules! events {
    ($( $agent:ident $tag:literal => $variant:ident($shape:ty) $(core $core:literal: $kind:ident)? ; )+) => {
        /// What one line says. `Event` is matched exhaustively in the session's fold, and nowhere else.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Event {
            $( #[doc = concat!("`", $tag, "`")] $variant(Box<$shape>), )+
            /// A known type whose shape changed: what could be read is in `event`.
            Invalid {
                /// What could be read.
                event: Box<Event>,
                /// What is not as it was.
                error: String,
            },
            /// A `system` event that is known by name alone.
            Notice {
                /// Its subtype.
                subtype: String,
                /// What it says, if it says something.
                notice: SystemNotice,
            },
            /// An object of a type this version does not model.
            Unknown {
                /// `type`, or `system/<subtype>`.
                kind: String,
            },
            /// An object without a `type` that is a string.
            Untyped,
            /// A whole `--output-format json` document of the older, untyped shape.
            Document(Box<TurnResult>),
            /// Valid JSON that is no object.
            NotObject,
            /// Not JSON.
            Malformed(Malformed),
            /// Blanks alone.
            Blank,
            /// A further part of a line above the limit.
            Rest,
        }

        impl Event {
            /// Every tag this version models: a type, or `system/<subtype>`.
            pub const TAGS: &'static [&'static str] = &[$($tag),+];

            /// The one copy of a known `type`: most lines need none of their own.
            pub(crate) fn known_kind(kind: &str) -> Option<&'static str> {
                match kind {
                    "system" => Some("system"),
                    $( $tag => Some($tag), )+
                    _ => None,
                }
            }

            /// Reads a known event.
            pub(crate) fn read(tag: &str, value: Value<'_>) -> Option<Self> {
                match tag {
                    $( $tag => {
                        let event = Self::$variant(Box::new(<$shape as Read>::read(value)?));
                        $( if let Some(error) = misshapen(value, $core, Kind::$kind) {
                            return Some(Self::Invalid { event: Box::new(event), error });
                        } )?
                        Some(event)
                    } )+
                    _ => None,
                }
            }

            /// The keys that events of this tag are known to have, beside those that all have.
            pub fn known_keys(tag: &str) -> Option<impl Iterator<Item = &'static str>> {
                let keys: &'static [&'static str] = match tag {
                    $( $tag => <$shape as Shape>::KEYS, )+
                    _ => return None,
                };
                Some(keys.iter().chain(COMMON).copied())
            }

            /// What kind of line it is.
            pub fn line_kind(&self) -> LineKind {
                match self {
                    Self::NotObject => LineKind::NotObject,
                    Self::Malformed(_) => LineKind::Malformed,
                    Self::Blank => LineKind::Blank,
                    Self::Rest => LineKind::Rest,
                    $( Self::$variant(_) )|+ | Self::Invalid { .. } | Self::Notice { .. } | Self::Unknown { .. }
                    | Self::Untyped | Self::Document(_) => LineKind::Object,
                }
            }

            /// The agent that writes such events, where only one does.
            pub fn agent(&self) -> Option<Agent> {
                match self {
                    $( Self::$variant(_) => Some(Agent::$agent), )+
                    Self::Invalid { event, .. } => event.agent(),
                    Self::Notice { .. } | Self::Document(_) => Some(Agent::Claude),
                    Self::Unknown { .. } | Self::Untyped | Self::NotObject | Self::Malformed(_) | Self::Blank | Self::Rest => None,
                }
            }
        }
    };
}

/// Accessors for who needs one kind of event alone: also of one whose shape changed.
macro_rules! accessors {
    ($( $name:ident => $variant:ident($shape:ty); )+) => {
        impl Event {
            $(
                #[doc = concat!("The event, if it is [`", stringify!($variant), "`](Self::", stringify!($variant), ").")]
                pub fn $name(&self) -> Option<&$shape> {
                    if let Self::$variant(event) = self.as_read() { Some(event) } else { None }
                }
            )+

            /// What could be read of it.
            fn as_read(&self) -> &Self {
                if let Self::Invalid { event, .. } = self { event } else { self }
            }
        }
    };
}

accessors! {
    as_control_request => ControlRequest(ControlRequest);
    as_control_response => ControlResponse(ControlResponse);
    as_control_cancel_request => ControlCancelRequest(ControlCancelRequest);
    as_result => Result(TurnResult);
    as_user => User(User);
    as_command_lifecycle => CommandLifecycle(CommandLifecycle);
    as_session_state => SessionStateChanged(SessionStateChanged);
    as_background_tasks => BackgroundTasksChanged(BackgroundTasksChanged);
    as_hook_started => HookStarted(Hook);
    as_hook_response => HookResponse(Hook);
}

/// What is wrong with a core field.
fn misshapen(value: Value<'_>, key: &str, kind: Kind) -> Option<String> {
    match value.get(key).map(Value::kind) {
        Some(found) if found == kind => None,
        Some(found) => Some(format!("`{key}` is {found:?}, not {kind:?}").to_lowercase()),
        None => Some(format!("`{key}` is missing")),
    }
}

/// Why a line could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Not JSON.
    Syntax(SyntaxError),
    /// Above the size limit; further parts follow as [`Event::Rest`].
    TooLong,
    /// A run of NUL bytes: the hole a crash leaves in a file.
    NulRun,
}

events! {
    Claude "assistant" => Assistant(Assistant) core "message": Object;
    Claude "user" => User(User) core "message": Object;
    Claude "result" => Result(TurnResult);
    Claude "stream_event" => StreamEvent(StreamEvent) core "event": Object;
    Claude "system/init" => Init(Init);
    Claude "system/compact_boundary" => CompactBoundary(CompactBoundary);
    Claude "system/status" => Status(Status);
    Claude "system/api_retry" => ApiRetry(ApiRetry);
    Claude "system/control_request_progress" => ControlRequestProgress(ControlRequestProgress);
    Claude "system/model_refusal_fallback" => ModelRefusalFallback(ModelRefusal);
    Claude "system/model_refusal_no_fallback" => ModelRefusalNoFallback(ModelRefusal);
    Claude "system/local_command_output" => LocalCommandOutput(LocalCommandOutput);
    Claude "system/hook_started" => HookStarted(Hook);
    Claude "system/hook_progress" => HookProgress(Hook);
    Claude "system/hook_response" => HookResponse(Hook);
    Claude "system/plugin_install" => PluginInstall(PluginInstall);
    Claude "system/task_started" => TaskStarted(TaskStarted);
    Claude "system/task_updated" => TaskUpdated(TaskUpdated);
    Claude "system/task_progress" => TaskProgress(TaskProgress);
    Claude "system/task_notification" => TaskNotification(TaskNotification);
    Claude "system/background_tasks_changed" => BackgroundTasksChanged(BackgroundTasksChanged);
    Claude "system/thinking_tokens" => ThinkingTokens(ThinkingTokens);
    Claude "system/session_state_changed" => SessionStateChanged(SessionStateChanged);
    Claude "system/worker_shutting_down" => WorkerShuttingDown(WorkerShuttingDown);
    Claude "system/commands_changed" => CommandsChanged(CommandsChanged);
    Claude "system/notification" => Notification(Notification);
    Claude "system/files_persisted" => FilesPersisted(FilesPersisted);
    Claude "system/memory_recall" => MemoryRecall(MemoryRecall);
    Claude "system/elicitation_complete" => ElicitationComplete(ElicitationComplete);
    Claude "system/permission_denied" => PermissionDenied(PermissionDenied);
    Claude "system/mirror_error" => MirrorError(MirrorError);
    Claude "system/informational" => Informational(Informational);
    Claude "system/session_writes_lost" => SessionWritesLost(SessionWritesLost);
    Claude "tool_progress" => ToolProgress(ToolProgress);
    Claude "auth_status" => AuthStatus(AuthStatus);
    Claude "tool_use_summary" => ToolUseSummary(ToolUseSummary);
    Claude "rate_limit_event" => RateLimit(RateLimitEvent);
    Claude "prompt_suggestion" => PromptSuggestion(PromptSuggestion);
    Claude "conversation_reset" => ConversationReset(ConversationReset);
    Claude "active_goal" => ActiveGoal(ActiveGoal);
    Claude "command_lifecycle" => CommandLifecycle(CommandLifecycle);
    Claude "transcript_mirror" => TranscriptMirror(TranscriptMirror);
    Claude "keep_alive" => KeepAlive(KeepAlive);
    Claude "control_request" => ControlRequest(ControlRequest) core "request": Object;
    Claude "control_response" => ControlResponse(ControlResponse) core "response": Object;
    Claude "control_cancel_request" => ControlCancelRequest(ControlCancelRequest);
    Claude "tool_use" => ToolUse(ToolUse);
    Claude "tool_result" => ToolResult(ToolResult);
    Codex "thread.started" => ThreadStarted(ThreadStarted);
    Codex "turn.started" => TurnStarted(TurnStarted);
    Codex "turn.completed" => TurnCompleted(TurnCompleted);
    Codex "turn.failed" => TurnFailed(TurnFailed);
    Codex "item.started" => ItemStarted(ItemEvent) core "item": Object;
    Codex "item.updated" => ItemUpdated(ItemEvent) core "item": Object;
    Codex "item.completed" => ItemCompleted(ItemEvent) core "item": Object;
    Codex "error" => Error(StreamError);
}

/// `system` subtypes that are known by name alone: hosted lanes, labels in the binary, an older seed's.
pub const NOTICES: &[&str] = &[
    "cloud_session_delta",
    "code_change_published",
    "dev_intent",
    "feedback_draft_queued",
    "file_attachments_missing",
    "file_snapshot",
    "hook",
    "inherited_asks_settled",
    "init_milestone",
    "instruction_size_warning",
    "memory_saved",
    "model_consent_fallback",
    "model_fallback",
    "peer_message_hold",
    "per_turn_effort_changed",
    "permission_check_status",
    "permission_retry",
    "post_turn_summary",
    "scheduled_task_fire",
    "session_metadata",
    "session_title_changed",
    "stop_hook_summary",
    "task_summary",
    "turn_duration",
    "turn_handoff_available",
    "turn_preempted",
    "turn_starting",
    "ui_focus",
    "ui_invalidate",
    "ui_log",
    "ui_panes",
    "ui_placed",
    "ui_scroll",
    "ui_status",
    "ui_toast",
    "vcs_state_changed",
];
