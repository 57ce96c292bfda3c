//! Claude's side of the fold.

use tapline_protocol::claude::content::{Block, Content, ToolResult, ToolUse};
use tapline_protocol::claude::control::{ControlRequest, Request};
use tapline_protocol::claude::message::{Assistant, User};
use tapline_protocol::claude::partial::{Partial as WirePartial, StreamEvent};
use tapline_protocol::claude::result::TurnResult;
use tapline_protocol::claude::system::{
    ApiRetry, CompactBoundary, Hook as WireHook, Init, ModelRefusal, PermissionDenied, RateLimitEvent, TaskNotification,
    TaskProgress, TaskStarted, TaskUpdated, ToolProgress,
};
use tapline_protocol::{Envelope, Json, Kind, Number, Read, Value};

use super::codex::words_of;
use super::recent::{fingerprint, hash};
use super::{Fold, Steps, Words};
use crate::call::describe;
use crate::step::{
    Answer, Call, CallStatus, DeltaKind, Denied, Hook, Level, McpServer, Partial, Plugin, Progress, Question, RateLimit, Retry,
    Said, ServerAnswer, ServerCall, SessionInfo, Task, Turn, What,
};
use crate::text::{grouped, one_line};
use crate::time::rfc3339;
use crate::verdict::Category;

impl Fold {
    pub(super) fn init(&mut self, init: &Init, out: &mut Steps<'_>) {
        let servers = init.mcp_servers.iter();
        let plugins = init.plugins.iter();
        let info = SessionInfo {
            id: out.record.envelope.session_id.clone(),
            first: self.session.inits == 0,
            model: init.model.clone(),
            cwd: init.cwd.clone(),
            cli_version: init.claude_code_version.clone(),
            permission_mode: init.permission_mode.clone(),
            api_key_source: init.api_key_source.clone(),
            tools: init.tools.clone(),
            mcp_servers: servers.map(|server| McpServer { name: server.name.clone(), status: server.status.clone() }).collect(),
            agents: init.agents.clone(),
            skills: init.skills.clone(),
            plugins: plugins.map(|plugin| Plugin { name: plugin.name.clone(), version: plugin.version.clone() }).collect(),
            output_style: init.output_style.clone(),
            fast_mode_state: init.fast_mode_state.clone(),
        };
        self.session.inits += 1;
        if info.first {
            self.session.info = info.clone();
        }
        out.push(What::Session(Box::new(info)));
    }

    pub(super) fn assistant(&mut self, event: &Assistant, out: &mut Steps<'_>) {
        if let Some(uuid) = &out.record.envelope.uuid
            && !self.turns.seen.insert((uuid, fingerprint(&out.record.bytes)))
        {
            return out.quiet(None);
        }
        if !event.supersedes.is_empty() {
            self.retract(&event.supersedes, out);
        }
        if let Some(error) = &event.error {
            let said = error != "unknown";
            self.turn_facts.assistant_error = said.then(|| error.clone()).or(self.turn_facts.assistant_error.take());
            out.push(What::Error { text: error.clone() });
        }
        self.turn_facts.status = event.api_error_status.or(self.turn_facts.status);
        self.turn_facts.error_type = event.api_error_type.clone().or(self.turn_facts.error_type.take());
        if let Some(message) = &event.message {
            self.ledger.message(message);
            if out.is_main() && message.stop_reason.is_some() {
                self.turns.stop_reason.clone_from(&message.stop_reason);
            }
        }
        let id = event.message.as_ref().and_then(|message| message.id.as_ref());
        let blocks = event.body().blocks();
        let prints: Vec<u64> = blocks.iter().map(print_of).collect();
        let Envelope { parent, uuid, .. } = &out.record.envelope;
        let said = self.messages.said_already(parent.as_ref(), id, uuid.is_some(), &prints);
        for (index, block) in blocks.iter().enumerate().skip(said) {
            self.block(block, index, id, event.aborted, out);
        }
    }

    fn block(&mut self, block: &Block, index: usize, message_id: Option<&String>, aborted: bool, out: &mut Steps<'_>) {
        let said = |text: &str| Said {
            text: text.to_owned(),
            message_id: message_id.cloned(),
            uuid: out.record.envelope.uuid.clone(),
            aborted,
        };
        match block {
            Block::Text(block) => {
                let text = block.text.as_deref().unwrap_or_default();
                self.say(text, out);
                out.push(What::Text(said(text)));
            }
            Block::Thinking(block) => {
                let thought = said(block.thinking.as_deref().unwrap_or_default());
                out.push(What::Thinking(thought));
            }
            Block::ToolUse(block) => self.call(block, message_id, out),
            Block::ToolResult(block) => self.answer(block, index, out),
            Block::ServerToolUse(block) => {
                let (id, name, input) = (block.id.clone(), block.name.clone(), block.input.clone());
                out.push(What::ServerCall(ServerCall { id, name, input }));
            }
            Block::ServerToolResult(block) => {
                let (tool_use_id, content) = (block.tool_use_id.clone(), block.content.clone());
                out.push(What::ServerAnswer(ServerAnswer { tool_use_id, content }));
            }
            Block::Other(block) if !block.known => {
                let name = block.name.as_deref().unwrap_or("(none)");
                out.odd("unknown-block", format!("tapline does not know content blocks of type `{name}` yet"));
            }
            Block::NotObject(_) => out.odd("unknown-block", "a content block that is no object"),
            Block::RedactedThinking(_) | Block::Image(_) | Block::Document(_) | Block::Other(_) => {}
        }
    }

    /// Something was said: remembered as the last words.
    pub(super) fn say(&mut self, text: &str, out: &Steps<'_>) {
        self.texts.text(text, out.is_main());
        if !text.is_empty() {
            let words = Words { text: text.to_owned(), uuid: out.record.envelope.uuid.clone() };
            self.spoken.last.clone_from(&words.text);
            *(if out.is_main() { &mut self.spoken.main } else { &mut self.spoken.sub }) = Some(words);
        }
    }

    fn retract(&mut self, uuids: &[String], out: &mut Steps<'_>) {
        let gone = |words: &Option<Words>| {
            words.as_ref().is_some_and(|words| words.uuid.as_ref().is_some_and(|uuid| uuids.contains(uuid)))
        };
        if gone(&self.spoken.main) {
            self.spoken.main = None;
        }
        if gone(&self.spoken.sub) {
            self.spoken.sub = None;
        }
        out.push(What::Retracted { uuids: uuids.to_vec() });
    }

    pub(super) fn refusal(&mut self, event: &ModelRefusal, out: &mut Steps<'_>) {
        if !event.retracted_message_uuids.is_empty() {
            self.retract(&event.retracted_message_uuids, out);
        }
        let model = event.original_model.as_deref().unwrap_or("the model");
        let text = match &event.fallback_model {
            Some(fallback) => format!("{model} refused; {fallback} goes on"),
            None => format!("{model} refused"),
        };
        out.notice(Level::Warning, event.content.clone().unwrap_or(text));
    }

    pub(super) fn call(&mut self, block: &ToolUse, message_id: Option<&String>, out: &mut Steps<'_>) {
        let is_object = |json: &&Json| json.as_str().starts_with('{');
        let input = block.input.as_ref().filter(is_object).cloned();
        let name = block.name.clone().unwrap_or_default();
        let described = describe(&name, input.as_ref());
        let call = Call {
            id: block.id.clone().filter(|id| !id.is_empty()),
            name,
            doing: described.doing,
            done: described.done,
            title: described.title,
            input,
            message_id: message_id.cloned(),
        };
        if !self.calls.start(&call, out.record.line, out.depth()) {
            return;
        }
        self.texts.asked |= call.name == "AskUserQuestion";
        if matches!(call.name.as_str(), "Task" | "Agent") && in_background(call.input.as_ref()) {
            self.texts.launches += 1;
            self.launched.extend(call.id.clone());
        }
        out.push(What::Call(call.clone()));
        self.claim_orphan(&call, out);
    }

    pub(super) fn answer(&mut self, block: &ToolResult, index: usize, out: &mut Steps<'_>) {
        let text = block.content.joined_text();
        let is_error = block.is_error == Some(true);
        let failed = is_error || block.is_error.is_none() && text.starts_with("Error:");
        let seen = self.calls.answer(block.tool_use_id.as_ref());
        let denied = block.tool_use_id.as_ref().is_some_and(|id| self.denied.contains(id));
        let status = if denied {
            CallStatus::Denied
        } else if failed {
            CallStatus::Error
        } else {
            CallStatus::Ok
        };
        let mut answer =
            Answer { id: block.tool_use_id.clone(), name: None, title: None, done: None, status, text, is_error, block: index };
        let Some((call, again)) = seen else {
            self.calls.keep_orphan(&answer, out.record.line);
            return out.push(What::Orphan(answer));
        };
        if again {
            return out.odd("repeated-answer", format!("{} was answered before", call.name));
        }
        answer.name = Some(call.name);
        answer.title = Some(call.title);
        answer.done = Some(call.done);
        out.push(What::Answer(answer));
    }

    /// The order is not strict: an answer may come before its call.
    fn claim_orphan(&mut self, call: &Call, out: &mut Steps<'_>) {
        if let Some((answer, line)) = self.calls.take_orphan(call.id.as_ref()) {
            self.calls.answer(call.id.as_ref());
            let (name, title) = (Some(call.name.clone()), Some(call.title.clone()));
            out.push_at(line, What::Answer(Answer { name, title, done: Some(call.done), ..answer }));
        }
    }

    pub(super) fn user(&mut self, event: &User, out: &mut Steps<'_>) {
        if let Some(uuid) = &out.record.envelope.uuid {
            let new = self.turns.seen.insert(("user", uuid));
            let same = !self.turns.seen.insert((uuid, fingerprint(&out.record.bytes)));
            if same || event.is_replay && !new {
                return out.quiet(None);
            }
        }
        // A refusal is told before the answer that carries it, so that the answer is known as denied.
        for meta in &event.tool_result_meta {
            let refused = meta.permission_decision.as_ref().is_some_and(|said| said.decision.as_deref() == Some("reject"));
            if refused && let Some(id) = &meta.id {
                self.denied.insert(id);
            }
        }
        match event.body() {
            Content::Absent => {}
            Content::Text(text) => out.push(What::Prompt { text: text.clone() }),
            Content::Blocks(blocks) => {
                for (index, block) in blocks.iter().enumerate() {
                    match block.as_text() {
                        Some(text) => out.push(What::Prompt { text: text.to_owned() }),
                        None => self.block(block, index, None, false, out),
                    }
                }
            }
        }
    }

    pub(super) fn permission_denied(&mut self, event: &PermissionDenied, out: &mut Steps<'_>) {
        self.deny(event.tool_use_id.clone(), event.tool_name.clone(), event.message.clone(), out);
    }

    /// Each refusal is told once, whoever tells it.
    fn deny(&mut self, id: Option<String>, name: Option<String>, message: Option<String>, out: &mut Steps<'_>) {
        let fresh = id.as_ref().is_none_or(|id| self.denied.insert(("told", id)));
        if let Some(id) = &id {
            self.denied.insert(id);
        }
        if fresh {
            let tool = name.as_deref().unwrap_or("a tool");
            self.warnings.add("permission-denied", Some(out.record.line), format!("{tool} was not permitted"));
            let answer_follows = self.calls.is_pending(id.as_ref());
            out.push(What::Denied(Denied { id, name, message, answer_follows }));
        }
    }

    pub(super) fn partial(&mut self, event: &StreamEvent, out: &mut Steps<'_>) {
        let thread = out.record.envelope.parent.as_ref();
        let part = match &event.event {
            WirePartial::MessageStart(start) => {
                let message_id = start.message.as_ref().and_then(|message| message.id.clone());
                if let Some(message) = &start.message {
                    self.ledger.message_start(thread, message);
                }
                Partial::MessageStart { message_id }
            }
            WirePartial::BlockStart(start) => {
                let block = start.content_block.clone().unwrap_or_default();
                let kind = block.kind.unwrap_or_default();
                Partial::BlockStart { index: start.index.unwrap_or(0), kind, name: block.name }
            }
            WirePartial::BlockDelta(part) => {
                let delta = part.delta.clone().unwrap_or_default();
                let (kind, text) = match (delta.text, delta.thinking, delta.partial_json) {
                    (Some(text), _, _) => (DeltaKind::Text, text),
                    (None, Some(text), _) => (DeltaKind::Thinking, text),
                    (None, None, Some(text)) => (DeltaKind::Json, text),
                    (None, None, None) => return out.quiet(delta.kind.as_ref()),
                };
                Partial::Delta { index: part.index.unwrap_or(0), kind, text }
            }
            WirePartial::BlockStop(stop) => Partial::BlockStop { index: stop.index.unwrap_or(0) },
            WirePartial::MessageDelta(delta) => {
                if let Some(usage) = &delta.usage {
                    self.ledger.message_delta(thread, usage);
                }
                let stop_reason = delta.delta.as_ref().and_then(|end| end.stop_reason.clone());
                if thread.is_none() && stop_reason.is_some() {
                    self.turns.stop_reason.clone_from(&stop_reason);
                }
                Partial::MessageDelta { stop_reason, output_tokens: delta.usage.as_ref().map(|usage| usage.output_tokens.0) }
            }
            WirePartial::MessageStop => {
                self.ledger.message_stop(thread);
                Partial::MessageStop
            }
            WirePartial::Other(kind) => return out.quiet(kind.as_ref()),
            WirePartial::Absent => return,
        };
        out.push(What::Partial(part));
    }

    pub(super) fn rate_limit(&mut self, event: &RateLimitEvent, out: &mut Steps<'_>) {
        let info = event.rate_limit_info.as_ref();
        let resets_at = info.and_then(|info| rfc3339(info.resets_at?));
        if info.is_some_and(|info| info.status.as_deref() == Some("rejected")) {
            self.limit_resets_at.clone_from(&resets_at);
        }
        out.push(What::RateLimit(RateLimit {
            status: info.and_then(|info| info.status.clone()),
            limit_type: info.and_then(|info| info.limit_type.clone()),
            utilization: info.and_then(|info| info.utilization),
            resets_at,
            info: info.map(|info| info.json.clone()),
        }));
    }

    /// The older document: its messages, then its result.
    pub(super) fn document(&mut self, document: &TurnResult, out: &mut Steps<'_>) {
        for message in &document.messages {
            let kind = message.text_of("type").or_else(|| message.text_of("role"));
            match kind.as_deref() {
                Some("assistant") => {
                    if let Some(event) = message.with(Assistant::read).flatten() {
                        self.assistant(&event, out);
                    }
                }
                Some("user") => {
                    if let Some(event) = message.with(User::read).flatten() {
                        self.user(&event, out);
                    }
                }
                _ => {}
            }
        }
        self.result(document, out);
    }

    pub(super) fn result(&mut self, turn: &TurnResult, out: &mut Steps<'_>) {
        let uuid = &out.record.envelope.uuid;
        let said = fingerprint(turn.result.as_deref().unwrap_or_default().as_bytes());
        let usage = turn.usage.as_ref().map(|usage| usage.counts.output_tokens.0);
        let repeated = match uuid {
            Some(uuid) => {
                !self.turns.seen.insert(("result", uuid, said, usage, turn.total_cost().map(|cost| cost.usd.to_bits())))
            }
            None => !self.turns.seen.insert(("result", fingerprint(&out.record.bytes))),
        };
        let line = Some(out.record.line);
        if repeated {
            self.warnings.add("duplicate-result", line, "the same result was written before");
        }
        if let Some(index) = turn.result_index {
            let expected = self.turns.result_index.map_or(0, |last| last + 1);
            if index > expected {
                self.warnings.add("result-gap", line, format!("result {index} follows where {expected} was due: one was lost"));
            }
            self.turns.result_index = Some(index);
        }
        for denial in turn.denials() {
            self.deny(denial.tool_use_id, denial.tool_name, None, out);
        }
        let cost_usd = self.ledger.result(turn, out.record.envelope.session_id.as_deref(), repeated);
        let subtype = turn.subtype.as_deref().unwrap_or_default();
        let failed = turn.is_error || subtype == "error" || subtype.starts_with("error_");
        let facts = std::mem::take(&mut self.turn_facts);
        let message = failed.then(|| error_text(turn));
        // The agent ended before it began: nothing but this came.
        let never_began = self.session.inits == 0
            && self.spoken.last.is_empty()
            && turn.num_turns.as_ref().is_none_or(|turns| turns.as_u64() == Some(0));
        self.turns.failure = message.clone().map(|text| {
            let category = facts.category(turn, &text);
            let startup = never_began && category == Category::Api && subtype == "error_during_execution";
            (if startup { Category::Startup } else { category }, text)
        });
        let turns = &mut self.turns;
        let whole = turn.num_turns.as_ref().and_then(Number::as_u64);
        if whole == Some(0) {
            self.warnings.add("zero-turns", line, "the model was never asked: a hook or a command may have ended the turn");
        }
        turns.num_turns = whole.or(turns.num_turns);
        if turn.stop_reason.is_some() {
            turns.stop_reason.clone_from(&turn.stop_reason);
        }
        if turns.stop_reason.as_deref() == Some("max_tokens") {
            self.warnings.add("max-tokens", line, "the model ran out of tokens: the answer is incomplete");
        }
        if !repeated {
            turns.all_num_turns = turns.all_num_turns.saturating_add(whole.unwrap_or(0));
            if let Some(ms) = &turn.duration_ms {
                turns.duration_ms = Some(turns.duration_ms.unwrap_or(0.0) + ms.as_f64());
            }
        }
        let last = self.spoken.main.as_ref().map(|words| words.text.trim());
        let repeats_text = turn.result.as_deref().is_some_and(|text| Some(text.trim()) == last);
        let said = turn.result.clone().filter(|text| !text.is_empty());
        let words = || self.spoken.main.as_ref().or(self.spoken.sub.as_ref()).map(|words| words.text.clone());
        turns.answer = if failed { Some(String::new()) } else { said.or_else(words) };
        turns.failed += usize::from(failed);
        let ended = Turn {
            index: turns.count,
            subtype: turn.subtype.clone(),
            is_error: turn.is_error,
            result: turn.result.clone(),
            errors: turn.errors.clone(),
            stop_reason: turn.stop_reason.clone(),
            terminal_reason: turn.terminal_reason.clone(),
            api_error_status: turn.api_error_status.clone(),
            num_turns: turn.num_turns.clone(),
            duration_ms: turn.duration_ms.clone(),
            duration_api_ms: turn.duration_api_ms.clone(),
            permission_denials: turn.permission_denials.clone(),
            structured_output: turn.structured_output.clone(),
            deferred_tool_use: turn.deferred_tool_use.clone(),
            uuid: uuid.clone(),
            origin: turn.origin.clone(),
            error: turn.error.clone(),
            failed,
            usage: turn.usage.clone().unwrap_or_default(),
            total_cost_usd: turn.total_cost().cloned(),
            model_usage: turn.model_usage.clone(),
            cost_usd,
            message,
            repeats_text,
            thread_usage: None,
        };
        turns.count += 1;
        turns.last = Some(ended.clone());
        out.push(What::Turn(Box::new(ended)));
    }

    pub(super) fn task_started(&mut self, event: &TaskStarted, out: &mut Steps<'_>) {
        let Some(id) = event.task_id.clone() else {
            return out.quiet(None);
        };
        let task = Task {
            status: "running".to_owned(),
            terminal: false,
            description: event.description.clone(),
            kind: event.task_type.clone().or_else(|| self.tasks.get(&id).and_then(|task| task.kind.clone())),
            tool_use_id: event.tool_use_id.clone(),
            summary: None,
            id,
        };
        self.tasks.insert(task.id.clone(), task.clone());
        out.push(What::Task(task));
    }

    pub(super) fn task_updated(&mut self, event: &TaskUpdated, out: &mut Steps<'_>) {
        let patch = event.patch.clone().unwrap_or_default();
        self.task(event.task_id.as_ref(), patch.status.as_deref(), None, patch.error, patch.description, out);
    }

    pub(super) fn task_progress(&mut self, event: &TaskProgress, out: &mut Steps<'_>) {
        let doing = event.summary.clone().or_else(|| event.description.clone());
        let known = event.task_id.as_ref().is_some_and(|id| self.tasks.contains_key(id));
        let description = event.description.clone().filter(|_| !known);
        self.task(event.task_id.as_ref(), None, event.tool_use_id.clone(), doing, description, out);
    }

    pub(super) fn task_notification(&mut self, event: &TaskNotification, out: &mut Steps<'_>) {
        let status = event.status.as_deref();
        self.task(event.task_id.as_ref(), status, event.tool_use_id.clone(), event.summary.clone(), None, out);
    }

    /// A task changed. One that has ended is not brought back by news of its progress.
    fn task(
        &mut self,
        id: Option<&String>,
        status: Option<&str>,
        call: Option<String>,
        summary: Option<String>,
        description: Option<String>,
        out: &mut Steps<'_>,
    ) {
        const TERMINAL: &[&str] = &["completed", "failed", "stopped", "killed", "cancelled"];
        let Some(id) = id else { return out.quiet(None) };
        let task = self.tasks.entry(id.clone()).or_insert_with(|| Task {
            id: id.clone(),
            status: "running".to_owned(),
            terminal: false,
            description: None,
            kind: None,
            tool_use_id: None,
            summary: None,
        });
        if let Some(status) = status {
            let ends = TERMINAL.contains(&status);
            if ends && task.terminal && task.status == status {
                return out.quiet(Some(id));
            }
            if ends || !task.terminal {
                status.clone_into(&mut task.status);
                task.terminal = ends;
            }
        }
        task.tool_use_id = call.or(task.tool_use_id.take());
        task.description = description.or(task.description.take());
        out.push(What::Task(Task { summary, ..task.clone() }));
    }
}

/// A block's fingerprint.
fn print_of(block: &Block) -> u64 {
    let text = |text: &Option<String>| fingerprint(text.as_deref().unwrap_or_default().as_bytes());
    match block {
        Block::Text(block) => hash(("text", text(&block.text))),
        Block::Thinking(block) => hash(("thinking", text(&block.thinking))),
        Block::RedactedThinking(block) => hash(("redacted", text(&block.data))),
        Block::ToolUse(block) | Block::ServerToolUse(block) => hash(("call", &block.id, &block.name)),
        Block::ToolResult(block) => hash(("answer", &block.tool_use_id)),
        Block::ServerToolResult(block) => hash(("server", &block.tool_use_id)),
        Block::Image(_) | Block::Document(_) => hash("media"),
        Block::Other(block) => hash(("other", fingerprint(block.json.as_str().as_bytes()))),
        Block::NotObject(json) => hash(("none", fingerprint(json.as_str().as_bytes()))),
    }
}

/// What a person should read of a failed turn.
fn error_text(turn: &TurnResult) -> String {
    let filled = |text: &str| !text.trim().is_empty();
    let errors = turn.errors.as_ref().map(|errors| {
        let texts = errors.texts().iter().map(String::as_str).filter(|text| filled(text));
        texts.collect::<Vec<_>>().join("; ")
    });
    let errors = errors.filter(|text| !text.is_empty());
    let named = || turn.error.as_ref().and_then(words_of).filter(|text| filled(text));
    let status = || {
        turn.api_error_status
            .as_ref()
            .map(|status| status.as_whole().map_or_else(|| status.to_string(), |code| code.to_string()))
    };
    errors
        .or_else(|| turn.result.clone().filter(|text| filled(text)))
        .or_else(named)
        .or_else(|| status().map(|status| format!("API error (HTTP {status})")))
        .or_else(|| turn.subtype.clone().filter(|subtype| subtype.starts_with("error_")))
        .unwrap_or_else(|| "API error (no detail)".to_owned())
}

/// Whether a call's input says literally that it runs in the background.
fn in_background(input: Option<&Json>) -> bool {
    let flag = |value: Value<'_>| value.get("run_in_background").is_some_and(|flag| flag.kind() == Kind::True);
    input.and_then(|input| input.with(flag)).unwrap_or(false)
}

pub(super) fn retry(event: &ApiRetry) -> Retry {
    Retry {
        attempt: event.attempt.clone(),
        max: event.max_retries.clone(),
        delay_ms: event.retry_delay_ms.clone(),
        status: event.error_status.clone(),
        error: event.error.clone(),
    }
}

/// Where a hook is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HookPhase {
    Started,
    Ended,
}

pub(super) fn hook(event: &WireHook, phase: HookPhase) -> Hook {
    let by_code = || {
        if event.exit_code.as_ref().is_none_or(|code| code.as_u64() == Some(0)) { "success" } else { "error" }
    };
    let outcome = (phase == HookPhase::Ended).then(|| event.outcome.clone().unwrap_or_else(|| by_code().to_owned()));
    Hook {
        id: event.hook_id.clone(),
        name: event.hook_name.clone(),
        event: event.hook_event.clone().filter(|event| !event.is_empty()).or_else(|| event.hook_name.clone()),
        outcome,
        exit_code: event.exit_code.clone(),
    }
}

pub(super) fn progress(event: &ToolProgress) -> Progress {
    Progress { id: event.tool_use_id.clone(), name: event.tool_name.clone(), elapsed: event.elapsed_time_seconds }
}

pub(super) fn compacted(event: &CompactBoundary) -> String {
    let data = event.compact_metadata.clone().unwrap_or_default();
    let tokens = match (data.pre_tokens, data.post_tokens) {
        (Some(before), Some(after)) => {
            format!(" from {} to {} tokens", grouped(before), grouped(after))
        }
        (Some(before), None) => format!(" from {} tokens", grouped(before)),
        (None, _) => String::new(),
    };
    format!("the conversation was compacted{tokens}")
}

/// What the agent asks its host: shown, because it waits for the answer.
pub(super) fn question(event: &ControlRequest) -> What {
    let Some(request) = &event.request else {
        return What::Quiet { kind: "control_request".to_owned(), detail: None };
    };
    let about = if let Request::CanUseTool(ask) = request {
        let name = ask.tool_name.as_deref().unwrap_or("a tool");
        Some(format!("{name} {}", describe(name, ask.input.as_ref()).title))
    } else if let Request::Elicitation(ask) = request {
        ask.message.as_deref().map(one_line)
    } else {
        None
    };
    match about {
        Some(about) => What::Question(Question {
            request_id: event.request_id.clone(),
            kind: request.subtype().to_owned(),
            about: Some(about),
        }),
        None => What::Quiet { kind: "control_request".to_owned(), detail: Some(request.subtype().to_owned()) },
    }
}
