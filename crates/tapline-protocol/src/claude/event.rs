//! The events that Claude Code writes: one row for each in the tag table below.

use super::content::{ToolResult, ToolUse};
use super::control::{ControlCancelRequest, ControlRequest, ControlResponse};
use super::message::{Assistant, User};
use super::partial::StreamEvent;
use super::result::TurnResult;
#[allow(clippy::wildcard_imports, reason = "one row per shape stands below")]
use super::system::*;
use super::transcript;
use crate::json::{Kind, Value};
use crate::tags::{Fit, Reading, Wire, tag_table};
use crate::wire::Read as _;

tag_table! {
    "assistant" => Assistant(Assistant) core message;
    "user" => User(User) core message;
    "result" => Result(TurnResult);
    "stream_event" => StreamEvent(StreamEvent) core event;
    "system/init" => Init(Init);
    "system/compact_boundary" => CompactBoundary(CompactBoundary);
    "system/status" => Status(Status);
    "system/api_retry" => ApiRetry(ApiRetry);
    "system/control_request_progress" => ControlRequestProgress(ControlRequestProgress);
    "system/model_refusal_fallback" => ModelRefusalFallback(ModelRefusal);
    "system/model_refusal_no_fallback" => ModelRefusalNoFallback(ModelRefusal);
    "system/local_command_output" => LocalCommandOutput(LocalCommandOutput);
    "system/hook_started" => HookStarted(Hook);
    "system/hook_progress" => HookProgress(Hook);
    "system/hook_response" => HookResponse(Hook);
    "system/plugin_install" => PluginInstall(PluginInstall);
    "system/task_started" => TaskStarted(TaskStarted);
    "system/task_updated" => TaskUpdated(TaskUpdated);
    "system/task_progress" => TaskProgress(TaskProgress);
    "system/task_notification" => TaskNotification(TaskNotification);
    "system/background_tasks_changed" => BackgroundTasksChanged(BackgroundTasksChanged);
    "system/thinking_tokens" => ThinkingTokens(ThinkingTokens);
    "system/session_state_changed" => SessionStateChanged(SessionStateChanged);
    "system/worker_shutting_down" => WorkerShuttingDown(WorkerShuttingDown);
    "system/commands_changed" => CommandsChanged(CommandsChanged);
    "system/notification" => Notification(Notification);
    "system/files_persisted" => FilesPersisted(FilesPersisted);
    "system/memory_recall" => MemoryRecall(MemoryRecall);
    "system/elicitation_complete" => ElicitationComplete(ElicitationComplete);
    "system/permission_denied" => PermissionDenied(PermissionDenied);
    "system/mirror_error" => MirrorError(MirrorError);
    "system/informational" => Informational(Informational);
    "system/session_writes_lost" => SessionWritesLost(SessionWritesLost);
    "tool_progress" => ToolProgress(ToolProgress);
    "auth_status" => AuthStatus(AuthStatus);
    "tool_use_summary" => ToolUseSummary(ToolUseSummary);
    "rate_limit_event" => RateLimit(RateLimitEvent);
    "prompt_suggestion" => PromptSuggestion(PromptSuggestion);
    "conversation_reset" => ConversationReset(ConversationReset);
    "active_goal" => ActiveGoal(ActiveGoal);
    "command_lifecycle" => CommandLifecycle(CommandLifecycle);
    "transcript_mirror" => TranscriptMirror(TranscriptMirror);
    "keep_alive" => KeepAlive(KeepAlive);
    "control_request" => ControlRequest(ControlRequest) core request;
    "control_response" => ControlResponse(ControlResponse) core response;
    "control_cancel_request" => ControlCancelRequest(ControlCancelRequest);
    "tool_use" => ToolUse(ToolUse);
    "tool_result" => ToolResult(ToolResult);
    "error" => Error(StreamError);
    beyond
    /// A `system` event known only by its name.
    Notice(SystemNotice);
    /// A whole `--output-format json` document in the older shape without `type`.
    Document(TurnResult);
}

impl Wire for Event {
    fn read_line(kind: &str, subtype: Option<&str>, value: Value<'_>) -> Option<Reading<Self>> {
        if kind == "system" {
            return read_system(subtype, value);
        }
        // A `type` that is literally `system/init` is not the tag `system/init`.
        let reading = Self::read(kind, value).filter(|_| !kind.starts_with("system/"))?;
        if kind == "result" && !is_like_a_result(value) {
            return Some(Reading { error: Some("it has none of the keys of Claude's `result`".to_owned()), ..reading });
        }
        Some(reading)
    }

    fn fit(reading: &Reading<Self>) -> Fit {
        let changed = reading.error.is_some();
        if matches!(&reading.event, Self::Init(init) if is_claudes(init)) {
            Fit::Sure
        } else if let Self::Result(result) = &reading.event {
            match result.is_error {
                _ if changed => Fit::Not,
                Some(_) => Fit::Sure,
                // Many agents end with a `result` that shares a key or two.
                None => Fit::Likely,
            }
        } else if matches!(reading.event, Self::Error(_)) {
            Fit::Open
        } else if changed || matches!(reading.event, Self::Init(_) | Self::ToolUse(_) | Self::ToolResult(_)) {
            Fit::Likely
        } else {
            Fit::Sure
        }
    }

    fn read_untyped_document(value: Value<'_>) -> Option<Self> {
        let document = TurnResult::read(value)?;
        let failed = !document.messages.is_empty() && document.error.is_some();
        let is_claudes = document.is_error.is_some() || document.result.is_some() || failed;
        is_claudes.then(|| Self::Document(Box::new(document)))
    }

    fn in_transcript(value: Value<'_>) -> Option<&'static str> {
        transcript::is_line(value).then_some(transcript::ABOUT)
    }
}

fn read_system(subtype: Option<&str>, value: Value<'_>) -> Option<Reading<Event>> {
    let notice = |error| {
        let event = Event::Notice(Box::new(SystemNotice::read(value).unwrap_or_default()));
        Some(Reading { event, error })
    };
    let Some(subtype) = subtype else { return notice(Some("`subtype` is missing".to_owned())) };
    Event::read(&["system/", subtype].concat(), value).or_else(|| notice(None).filter(|_| NOTICES.contains(&subtype)))
}

/// Returns whether an `init` has fields that only Claude Code writes.
fn is_claudes(init: &Init) -> bool {
    init.permission_mode.is_some() || init.api_key_source.is_some() || init.claude_code_version.is_some()
}

/// Returns whether a `result` has any of the keys that every result of Claude's has had. Gemini and Copilot end their
/// streams with a `result` of their own.
fn is_like_a_result(value: Value<'_>) -> bool {
    const KEYS: &[&str] =
        &["subtype", "is_error", "result", "total_cost_usd", "cost_usd", "cost", "num_turns", "permission_denials"];
    let counts = |usage: Value<'_>| usage.get("input_tokens").is_some() || usage.get("output_tokens").is_some();
    let mut entries = value.entries().into_iter().flatten();
    let is_null = |value: Value<'_>| value.kind() == Kind::Null;
    entries.any(|(key, value)| KEYS.contains(&&*key) && !is_null(value) || key == "usage" && counts(value))
}

/// `system` subtypes known only by name: from hosted sessions, strings in the binary, or older documentation.
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
