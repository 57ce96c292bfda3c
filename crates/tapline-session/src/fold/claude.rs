//! Claude's side of the fold: what each of its events means.

mod around;
mod failure;
mod messages;
mod turns;
mod usage;

use tapline_protocol::claude::Event;
use tapline_protocol::claude::message::ToolResultMeta;

use super::side::Side;
use super::turns::{NO_DETAIL, words_of};
use super::{Fold, Steps};
use crate::step::{Level, What};
use around::HookPhase;
use failure::TurnFacts;

/// State that only this file needs.
#[derive(Debug, Default)]
pub(super) struct State {
    facts: TurnFacts,
    /// Whether a model was asked for anything.
    requested: bool,
    /// What the last `user` event says about its results.
    about_results: Vec<ToolResultMeta>,
}

impl Side for State {}

impl Fold {
    pub(super) fn claude(&mut self, event: &Event, out: &mut Steps<'_>) {
        match event {
            Event::Init(init) => self.init(init, out),
            Event::Assistant(event) => self.assistant(event, out),
            Event::User(event) => self.user(event, out),
            Event::ToolUse(block) => self.call(block, None, out),
            Event::ToolResult(block) => self.answer(block, 0, out),
            Event::StreamEvent(event) => self.partial(event, out),
            // A result with its conversation, as `convert --to json --messages` writes it, is a document, too.
            Event::Result(turn) if !turn.messages.is_empty() => self.document(turn, out),
            Event::Result(turn) => self.result(turn, out),

            Event::ApiRetry(retry) => {
                self.sides.claude.requested = true;
                out.push(What::Retry(around::retry(retry)));
            }
            Event::RateLimit(event) => self.rate_limit(event, out),
            Event::PermissionDenied(event) => self.permission_denied(event, out),
            Event::HookStarted(hook) => out.push(What::Hook(around::hook(hook, HookPhase::Started))),
            Event::HookResponse(hook) => out.push(What::Hook(around::hook(hook, HookPhase::Ended))),
            Event::TaskStarted(event) => self.task_started(event, out),
            Event::TaskUpdated(event) => self.task_updated(event, out),
            Event::TaskProgress(event) => self.task_progress(event, out),
            Event::TaskNotification(event) => self.task_notification(event, out),
            Event::ModelRefusalFallback(event) | Event::ModelRefusalNoFallback(event) => self.refusal(event, out),
            Event::ConversationReset(event) => {
                self.ledger.expect_new_session_id();
                out.notice(
                    Level::Info,
                    format!("the conversation was reset ({})", event.trigger.as_deref().unwrap_or("reset")),
                );
            }
            Event::CompactBoundary(event) => out.notice(Level::Info, around::compacted(event)),
            Event::ControlRequest(event) => {
                let call = self.asks(event);
                out.push(around::question(event, call));
            }
            Event::ToolProgress(event) => out.push(What::Progress(around::progress(event))),

            Event::LocalCommandOutput(event) => out.say(Level::Info, event.content.as_deref()),
            Event::Notification(event) => out.say(Level::Info, event.text.as_deref()),
            Event::Informational(event) => {
                let level = if event.level.as_deref() == Some("warning") { Level::Warning } else { Level::Info };
                out.say(level, event.content.as_deref());
            }
            Event::Notice(notice) => out.say(Level::Info, notice.content.as_deref()),
            Event::ToolUseSummary(event) => out.say(Level::Info, event.summary.as_deref()),
            Event::AuthStatus(event) => match &event.error {
                Some(error) => out.say(Level::Error, Some(error)),
                None => out.quiet(event.output.last()),
            },
            Event::PluginInstall(event) => match &event.error {
                Some(error) => out.notice(Level::Warning, format!("plugin {}: {error}", event.name.as_deref().unwrap_or("?"))),
                None => out.quiet(event.status.as_ref()),
            },
            Event::MirrorError(event) => out.say(Level::Warning, event.error.as_deref()),
            Event::WorkerShuttingDown(event) => {
                out.notice(Level::Warning, format!("shutting down: {}", event.reason.as_deref().unwrap_or("no reason given")));
            }
            Event::SessionWritesLost(event) => {
                let why = event.error_code.as_deref().unwrap_or("an error");
                out.notice(Level::Error, format!("the session file is incomplete: {why}"));
            }
            Event::Status(event) => match &event.compact_error {
                Some(error) => out.notice(Level::Warning, format!("compacting failed: {error}")),
                None => out.quiet(event.status.as_ref().or(event.permission_mode.as_ref())),
            },

            Event::SessionStateChanged(event) => out.quiet(event.state.as_ref()),
            Event::HookProgress(event) => out.quiet(event.hook_name.as_ref()),
            Event::PromptSuggestion(event) => out.quiet(event.suggestion.as_ref()),
            Event::CommandLifecycle(event) => out.quiet(event.state.as_ref()),
            Event::ControlRequestProgress(event) => out.quiet(event.status.as_ref()),
            Event::ControlCancelRequest(event) => out.quiet(event.request_id.as_ref()),
            Event::ControlResponse(event) => {
                out.quiet(event.response.as_ref().and_then(|response| response.error.as_ref().or(response.subtype.as_ref())));
            }
            Event::ElicitationComplete(event) => out.quiet(event.mcp_server_name.as_ref()),
            Event::TranscriptMirror(event) => out.quiet(event.file_path.as_ref()),
            Event::BackgroundTasksChanged(_)
            | Event::ThinkingTokens(_)
            | Event::CommandsChanged(_)
            | Event::FilesPersisted(_)
            | Event::MemoryRecall(_)
            | Event::ActiveGoal(_)
            | Event::KeepAlive(_) => out.quiet(None),
            Event::Error(event) => {
                let message = event.message.clone().or_else(|| event.error.as_ref().and_then(words_of));
                out.notice(Level::Error, message.unwrap_or_else(|| NO_DETAIL.to_owned()));
            }
            Event::Document(document) => {
                self.stats.lines.untyped += 1;
                self.document(document, out);
            }
        }
    }
}
