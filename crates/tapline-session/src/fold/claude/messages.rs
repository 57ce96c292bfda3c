//! What Claude says and calls: messages, tool calls and their results.

use tapline_protocol::claude::content::{Block, Content, ToolResult, ToolUse};
use tapline_protocol::claude::control::{ControlRequest, HookReply, Request, Response};
use tapline_protocol::claude::message::{Assistant, PermissionDecision, ToolResultMeta, User};
use tapline_protocol::claude::partial::{Partial as WirePartial, StreamEvent};
use tapline_protocol::claude::system::{ModelRefusal, PermissionDenied};
use tapline_protocol::{Agent, Envelope, Json, Kind, Record, Value};

use super::usage;
use crate::agents::{asks_a_person, denied_by_words};
use crate::call::describe;
use crate::fold::threads::Early;
use crate::fold::{Fold, Steps};
use crate::ledger::SYNTHETIC;
use crate::recent::hash;
use crate::step::{
    Call, CallAnswer, CallEnd, CallStatus, DeltaKind, Denial, DeniedBy, Level, MessageInfo, Partial, Said, ServerAnswer,
    ServerCall, Step, What,
};

/// How much of an unfinished message is kept.
const TYPED_KEPT: usize = 1 << 20;

impl Fold {
    pub(in crate::fold) fn assistant(&mut self, event: &Assistant, out: &mut Steps<'_>) {
        if let Some(uuid) = &out.record.envelope.uuid
            && !self.in_document
            && !self.turns.seen.insert((uuid, hash(out.record.trimmed())))
        {
            return out.quiet(None);
        }
        if !event.supersedes.is_empty() {
            self.retract(&event.supersedes, out);
        }
        if let Some(error) = &event.error {
            let said = error != "unknown";
            self.sides.claude.facts.assistant_error =
                said.then(|| error.clone()).or(self.sides.claude.facts.assistant_error.take());
            out.push(What::Error { text: error.clone() });
        }
        self.sides.claude.facts.status = event.api_error_status.or(self.sides.claude.facts.status);
        self.sides.claude.facts.error_type = event.api_error_type.clone().or(self.sides.claude.facts.error_type.take());
        self.sides.claude.requested |= event.model().is_none_or(|model| model != SYNTHETIC);
        if let Some(message) = &event.message {
            self.warn_of_request(message.usage.as_deref(), out);
            self.ledger.message(&usage::of_message(message));
            if out.is_main() && message.stop_reason.is_some() {
                self.turns.stop_reason.clone_from(&message.stop_reason);
                self.turns.this_stop.clone_from(&message.stop_reason);
            }
        }
        if out.is_main() && !self.in_document {
            self.turns.elapsed.begin(out.record.arrived);
        }
        let id = event.message.as_ref().and_then(|message| message.id.as_ref());
        let blocks = event.body().blocks();
        let prints: Vec<u64> = blocks.iter().map(print_of).collect();
        let Envelope { parent, uuid, .. } = &out.record.envelope;
        let said = self.messages.said_already(parent.as_ref(), id, uuid.is_some(), &prints);
        for (index, block) in blocks.iter().enumerate().skip(said) {
            self.block(block, index, id, event.aborted, out);
        }
        let mut blocks = out.steps.iter_mut().filter(|step| step.what.is_of_message()).peekable();
        let mut info = blocks.peek().and_then(|_| message_info(event));
        while let Some(step) = blocks.next() {
            step.message = if blocks.peek().is_some() { info.clone() } else { info.take() };
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
            Block::NotObject(_) => out.odd("unknown-block", "a content block that is not an object"),
            Block::RedactedThinking(_) | Block::Image(_) | Block::Document(_) | Block::Other(_) => {}
        }
    }

    fn retract(&mut self, uuids: &[String], out: &mut Steps<'_>) {
        let first = self.spoken.retract(uuids);
        // It may have been the answer of the previous turn.
        if let Some(count) = self.turns.answered_by.filter(|count| first.is_some_and(|first| first <= *count)) {
            self.turns.answer = self.spoken.answer(count).map(str::to_owned);
        }
        out.push(What::Retracted { uuids: uuids.to_vec() });
    }

    pub(in crate::fold) fn refusal(&mut self, event: &ModelRefusal, out: &mut Steps<'_>) {
        if !event.retracted_message_uuids.is_empty() {
            self.retract(&event.retracted_message_uuids, out);
        }
        let model = event.original_model.as_deref().unwrap_or("the model");
        let text = match &event.fallback_model {
            Some(fallback) => format!("{model} refused; {fallback} continues"),
            None => format!("{model} refused"),
        };
        out.notice(Level::Warning, event.content.clone().unwrap_or(text));
    }

    pub(in crate::fold) fn call(&mut self, block: &ToolUse, message_id: Option<&String>, out: &mut Steps<'_>) {
        let is_object = |json: &&Json| json.as_str().starts_with('{');
        let input = block.input.as_ref().filter(is_object).cloned();
        let name = block.name.clone().unwrap_or_default();
        let described = describe(&name, input.as_ref());
        let call = Call {
            id: block.id.clone().filter(|id| !id.is_empty()),
            name,
            doing: described.doing.into(),
            done: described.done.into(),
            title: described.title,
            input,
            message_id: message_id.cloned(),
        };
        if !self.calls.start(&call, out.record, out.depth()) {
            return;
        }
        let asks = asks_a_person(&call.name);
        self.asked.asked |= asks;
        if matches!(call.name.as_str(), "Task" | "Agent") && in_background(call.input.as_ref()) {
            self.asked.launches += 1;
            self.tasks.launched.extend(call.id.clone());
        }
        if let Some(task) = stopped_task(&call) {
            self.tasks.stop(call.id.clone(), task);
        }
        let is_denied = call.id.as_ref().is_some_and(|id| self.denied.contains(id));
        self.asked.refused |= is_denied && asks;
        out.push(What::Call(call.clone()));
        self.claim_orphan(&call, out);
    }

    pub(in crate::fold) fn answer(&mut self, block: &ToolResult, index: usize, out: &mut Steps<'_>) {
        let text = block.content.joined_text();
        let is_error = block.is_error == Some(true);
        let failed = ToolResult::is_failure(block.is_error, &text);
        if let Some(id) = block.tool_use_id.as_ref().filter(|_| failed) {
            let meta = self.sides.claude.about_results.iter().find(|meta| meta.id.as_ref() == Some(id));
            let is_decided = meta.is_some_and(|meta| meta.permission_decision.is_some());
            // Some versions list it among the denials of the turn much later, or never.
            let by = if self.refusals.is_refused(id) {
                Some(DeniedBy::Host)
            } else {
                denied_by_words(Agent::Claude, &text).filter(|_| !is_decided)
            };
            if let Some(by) = by {
                self.deny(Some(id.clone()), None, None, None, Denial { by, reason: Some(text.clone()) }, out);
            }
        }
        self.tasks.answered(block.tool_use_id.as_ref(), failed);
        let seen = self.calls.answer(block.tool_use_id.as_ref());
        let denied = block.tool_use_id.as_ref().is_some_and(|id| self.denied.contains(id));
        let status = if denied {
            CallStatus::Denied
        } else if failed {
            CallStatus::Error
        } else {
            CallStatus::Ok
        };
        let meta = &self.sides.claude.about_results;
        let meta = meta.iter().find(|meta| meta.id.is_some() && meta.id == block.tool_use_id);
        let mut answer = CallAnswer {
            id: block.tool_use_id.clone(),
            name: None,
            title: None,
            done: None,
            status,
            ended: end_of(meta, &text),
            denial: None,
            text,
            is_error,
            block: index,
            duration_ms: None,
        };
        let Some((call, again)) = seen else {
            self.calls.keep_orphan(&answer, out.record);
            return out.push(What::Orphan(answer));
        };
        if again {
            let id = answer.id.as_deref().unwrap_or_default();
            self.warnings.add("orphan-result", Some(out.record.line), format!("{} ({id}) already has a result", call.name));
            return out.push(What::Orphan(answer));
        }
        answer.duration_ms = call.took(out.record);
        self.asked.refused |= status != CallStatus::Ok && asks_a_person(&call.name);
        answer.name = Some(call.name);
        answer.title = Some(call.title);
        answer.denial = call.denial;
        answer.done = Some(call.done);
        out.push(What::Answer(answer));
    }

    /// Handles a result that came before its call. The order is not strict.
    fn claim_orphan(&mut self, call: &Call, out: &mut Steps<'_>) {
        if let Some(Early { mut answer, line, arrived }) = self.calls.take_orphan(call.id.as_ref()) {
            self.calls.answer(call.id.as_ref());
            if call.id.as_ref().is_some_and(|id| self.denied.contains(id)) {
                answer.status = CallStatus::Denied;
            }
            self.asked.refused |= answer.status != CallStatus::Ok && asks_a_person(&call.name);
            let (name, title) = (Some(call.name.clone()), Some(call.title.clone()));
            out.push_at(line, arrived, What::Answer(CallAnswer { name, title, done: Some(call.done.clone()), ..answer }));
        }
    }

    pub(in crate::fold) fn user(&mut self, event: &User, out: &mut Steps<'_>) {
        self.sides.claude.about_results.clone_from(&event.tool_result_meta);
        if let Some(uuid) = out.record.envelope.uuid.as_ref().filter(|_| !self.in_document) {
            let new = self.turns.seen.insert(("user", uuid));
            let same = !self.turns.seen.insert((uuid, hash(out.record.trimmed())));
            let replayed = || event.is_replay || self.turns.seen.contains(("sent", uuid));
            if same || !new && replayed() {
                // Nothing is shown twice, but a second result for the same call is reported.
                out.quiet(None);
                return self.answers_again(event, out);
            }
        }
        // A denial is reported before the result that carries it, so that the result is known as denied.
        for meta in &event.tool_result_meta {
            let rejected = meta.permission_decision.as_ref().filter(|said| said.decision.as_deref() == Some("reject"));
            if let (Some(decision), Some(id)) = (rejected, &meta.id) {
                let denial = Denial { by: denied_by(decision), reason: text_of_result(event, id) };
                self.deny(Some(id.clone()), None, None, None, denial, out);
            }
        }
        match event.body() {
            Content::Absent => {}
            Content::Text(text) => self.replayed(text, event.is_replay, out),
            Content::Blocks(blocks) => {
                for (index, block) in blocks.iter().enumerate() {
                    match block.as_text() {
                        Some(text) => self.replayed(text, event.is_replay, out),
                        None => self.block(block, index, None, false, out),
                    }
                }
            }
        }
    }

    /// Notes which call a request of the agent is about, and returns it.
    pub(in crate::fold) fn asks(&mut self, event: &ControlRequest) -> Option<String> {
        let call = if let Some(Request::CanUseTool(ask)) = &event.request {
            // Earlier versions do not say it.
            let tool = ask.tool_name.as_deref().unwrap_or_default();
            let free = |id: &str| !self.refusals.is_asked(id);
            ask.tool_use_id.clone().or_else(|| self.calls.like(tool, ask.input.as_ref(), free))
        } else if let Some(Request::HookCallback(ask)) = &event.request {
            ask.tool_use_id.clone().or_else(|| ask.input.as_ref()?.text_of("tool_use_id"))
        } else {
            None
        };
        if let (Some(request), Some(call)) = (&event.request_id, &call) {
            self.refusals.ask(request, call);
        }
        call
    }

    /// Notes that the host refused what the agent asked for in this request.
    pub fn refuse(&mut self, request_id: &str) {
        self.refusals.refuse(request_id);
    }

    /// Takes a line that the host sent to the agent. Only messages are part of the conversation, not control requests.
    pub fn sent(&mut self, record: &Record) -> Vec<Step> {
        if let Some(response) = record.event.as_control_response().and_then(|event| event.response.as_ref())
            && is_refusal(response)
            && let Some(request) = &response.request_id
        {
            self.refuse(request);
        }
        let Some(user) = record.event.as_user() else { return Vec::new() };
        if let Some(uuid) = &record.envelope.uuid
            && !(self.turns.seen.insert(("user", uuid)) & self.turns.seen.insert(("sent", uuid)))
        {
            return Vec::new();
        }
        match user.body() {
            Content::Absent => Vec::new(),
            Content::Text(text) => self.prompt(text, record.arrived).into_iter().collect(),
            Content::Blocks(blocks) => {
                blocks.iter().filter_map(|block| self.prompt(block.as_text()?, record.arrived)).collect()
            }
        }
    }

    /// Handles a prompt in the agent's own stream. A prompt that the agent only repeats is shown once.
    fn replayed(&mut self, text: &str, is_replay: bool, out: &mut Steps<'_>) {
        if out.is_main() && !self.in_document {
            self.turns.elapsed.begin(out.record.arrived);
        }
        if !is_replay || self.prompts.replay(text) {
            self.prompts.note(text, out.is_main());
            out.push(What::Prompt { text: text.to_owned() });
        }
    }

    /// Handles the tool results of an event that came before.
    fn answers_again(&mut self, event: &User, out: &mut Steps<'_>) {
        for (index, block) in event.body().blocks().iter().enumerate() {
            if let Block::ToolResult(block) = block {
                self.answer(block, index, out);
            }
        }
    }

    pub(in crate::fold) fn permission_denied(&mut self, event: &PermissionDenied, out: &mut Steps<'_>) {
        let by = event.decision_reason_type.as_deref().map_or(DeniedBy::Unknown, by_reason);
        let denial = Denial { by, reason: event.decision_reason.clone().or_else(|| event.message.clone()) };
        self.deny(event.tool_use_id.clone(), event.tool_name.clone(), None, event.message.clone(), denial, out);
    }

    pub(in crate::fold) fn partial(&mut self, event: &StreamEvent, out: &mut Steps<'_>) {
        let thread = out.record.envelope.parent.as_ref();
        let part = match &event.event {
            WirePartial::MessageStart(start) => {
                self.sides.claude.requested = true;
                let message_id = start.message.as_ref().and_then(|message| message.id.clone());
                if let Some(message) = &start.message {
                    self.warn_of_request(message.usage.as_deref(), out);
                    self.ledger.message_start(thread, &usage::of_message(message));
                }
                Partial::MessageStart { message_id }
            }
            WirePartial::BlockStart(start) => {
                let block = start.content_block.as_ref();
                let kind = block.and_then(|block| block.kind.clone()).unwrap_or_default();
                let name = block.and_then(|block| block.name.clone());
                Partial::BlockStart { index: start.index.unwrap_or(0), kind, name }
            }
            WirePartial::BlockDelta(part) => {
                let Some(delta) = &part.delta else { return out.quiet(None) };
                let (kind, text) = match (&delta.text, &delta.thinking, &delta.partial_json) {
                    (Some(text), _, _) => (DeltaKind::Text, text),
                    (None, Some(text), _) => (DeltaKind::Thinking, text),
                    (None, None, Some(text)) => (DeltaKind::Json, text),
                    (None, None, None) => return out.quiet(None),
                };
                if kind == DeltaKind::Text {
                    let typed = self.typing.entry(thread.cloned()).or_default();
                    if typed.len() < TYPED_KEPT {
                        typed.push_str(text);
                    }
                }
                Partial::Delta { index: part.index.unwrap_or(0), kind, text: text.clone() }
            }
            WirePartial::BlockStop(stop) => Partial::BlockStop { index: stop.index.unwrap_or(0) },
            WirePartial::MessageDelta(delta) => {
                self.warn_of_request(delta.usage.as_ref(), out);
                let used = delta.usage.as_ref().map(usage::of_request);
                if let (Some(used), Some(usage)) = (used, &delta.usage) {
                    self.ledger.message_delta(thread, used, usage::searches_of(usage));
                }
                let stop_reason = delta.delta.as_ref().and_then(|end| end.stop_reason.clone());
                if thread.is_none() && stop_reason.is_some() {
                    self.turns.stop_reason.clone_from(&stop_reason);
                }
                Partial::MessageDelta { stop_reason, output_tokens: used.map(|used| used.output) }
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
}

/// Returns whether the host refuses a call: it answers a request for permission, or its hook does.
fn is_refusal(response: &Response) -> bool {
    let Some(reply) = &response.response else { return false };
    let of_hook = || response.payload::<HookReply>()?.hook_specific_output?.text_of("permissionDecision");
    reply.text_of("behavior").or_else(of_hook).as_deref() == Some("deny")
}

/// Returns what a step says of its message, if there is something to say.
fn message_info(event: &Assistant) -> Option<Box<MessageInfo>> {
    let (model, message) = (event.model().cloned(), event.message.as_ref());
    let stop_reason = message.and_then(|message| message.stop_reason.clone());
    let usage = message.and_then(|message| message.usage.as_ref()).map(|usage| usage.json.clone());
    let info = MessageInfo { model, request: event.request_id.clone(), stop_reason, usage };
    (info != MessageInfo::default()).then(|| Box::new(info))
}

/// Returns the fingerprint of a block.
fn print_of(block: &Block) -> u64 {
    let text = |text: &Option<String>| hash(text.as_deref().unwrap_or_default().as_bytes());
    match block {
        Block::Text(block) => hash(("text", text(&block.text))),
        Block::Thinking(block) => hash(("thinking", text(&block.thinking))),
        Block::RedactedThinking(block) => hash(("redacted", text(&block.data))),
        Block::ToolUse(block) => hash(("call", &block.id, &block.name)),
        Block::ServerToolUse(block) => hash(("server call", &block.id, &block.name)),
        Block::ToolResult(block) => hash(("answer", &block.tool_use_id)),
        Block::ServerToolResult(block) => hash(("server", &block.tool_use_id)),
        Block::Image(_) | Block::Document(_) => hash("media"),
        Block::Other(block) => hash(("other", hash(block.json.as_str().as_bytes()))),
        Block::NotObject(json) => hash(("none", hash(json.as_str().as_bytes()))),
    }
}

/// Returns who denied a call for a reason of this type.
fn by_reason(kind: &str) -> DeniedBy {
    match kind {
        "rule" => DeniedBy::Rule,
        "mode" | "asyncAgent" | "classifier" => DeniedBy::Mode,
        "hook" => DeniedBy::Hook,
        "sandboxOverride" => DeniedBy::Sandbox,
        "permissionPromptTool" => DeniedBy::Host,
        _ => DeniedBy::Unknown,
    }
}

/// Returns who rejected a call.
fn denied_by(decision: &PermissionDecision) -> DeniedBy {
    match (decision.source.as_deref(), decision.reason_type.as_deref()) {
        (Some("user_reject" | "user_abort"), _) => DeniedBy::Person,
        (Some("hook"), _) => DeniedBy::Hook,
        (_, Some(kind)) => by_reason(kind),
        (Some("classifier"), None) => DeniedBy::Mode,
        (_, None) => DeniedBy::Unknown,
    }
}

/// Returns the text of a call's result in an event.
fn text_of_result(event: &User, call: &str) -> Option<String> {
    let mut results = event.body().blocks().iter().filter_map(|block| {
        let Block::ToolResult(result) = block else { return None };
        (result.tool_use_id.as_deref() == Some(call)).then(|| result.content.joined_text())
    });
    results.find(|text| !text.trim().is_empty())
}

/// Returns how a call ended, if its result or what stands beside it says that it did not end by itself.
fn end_of(meta: Option<&ToolResultMeta>, text: &str) -> Option<CallEnd> {
    let decision = || meta?.permission_decision.as_ref()?.decision.as_deref();
    let said = meta.and_then(|meta| meta.non_execution_kind.as_deref()).or_else(decision).and_then(CallEnd::of);
    // Versions that say nothing beside it begin their results so.
    let by_text = || match text {
        text if text.starts_with("[Request interrupted by user") => Some(CallEnd::Interrupted),
        text if text.starts_with("<tool_use_error>Cancelled") => Some(CallEnd::Cancelled),
        _ => None,
    };
    said.or_else(by_text)
}

/// Returns the task that a call stops.
fn stopped_task(call: &Call) -> Option<String> {
    let key = match call.name.as_str() {
        "TaskStop" => "task_id",
        "KillShell" | "KillBash" => "shell_id",
        _ => return None,
    };
    let input = call.input.as_ref()?;
    input.text_of(key).or_else(|| input.text_of("task_id")).or_else(|| input.text_of("shell_id"))
}

/// Returns whether a call's input says explicitly that it runs in the background.
fn in_background(input: Option<&Json>) -> bool {
    let flag = |value: Value<'_>| value.get("run_in_background").is_some_and(|flag| flag.kind() == Kind::True);
    input.and_then(|input| input.with(flag)).unwrap_or(false)
}
