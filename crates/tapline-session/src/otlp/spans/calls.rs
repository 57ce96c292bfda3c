//! Tool calls, from the call to its result, and the sub-agents that some of them start.

use tapline_protocol::{Json, Moment};

use super::Spans;
use super::messages::OpenMessage;
use crate::agents::profile;
use crate::otlp::span::{AttributeValue, Operation};
use crate::step::{Call, CallAnswer, CallStatus, ServerAnswer, ServerCall, Step, Task};

/// How many calls are open at once.
const MOST: usize = 16_384;

#[derive(Debug)]
pub(super) struct OpenAgent {
    pub(super) name: Option<String>,
    pub(super) start: Moment,
    pub(super) end: Moment,
    /// Whether it goes on in the background after its call was answered.
    pub(super) in_background: bool,
}

#[derive(Debug)]
pub(super) struct OpenCall {
    pub(super) thread: String,
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) start: Moment,
    /// The kind of sub-agent that it starts.
    pub(super) agent: Option<String>,
    /// Its arguments, without secrets, if they are told.
    pub(super) arguments: Option<String>,
}

impl Spans {
    /// Returns the kind of sub-agent that a call asks for.
    fn kind_of_agent(&self, input: Option<&Json>) -> Option<String> {
        let key = self.agent.and_then(|agent| profile(agent).subagent)?;
        input?.text_of(key).filter(|name| !name.is_empty())
    }

    pub(super) fn call(&mut self, step: &Step, thread: &str, call: &Call, time: Moment) {
        self.block(step, thread, call.message_id.as_deref(), time, |clean, parts| {
            parts.call(call.id.as_deref(), &call.name, call.input.as_ref().map(|input| clean.json(input)));
        });
        self.open_call(thread, call.id.as_deref(), &call.name, "function", call.input.as_ref(), time);
    }

    pub(super) fn open_call(
        &mut self,
        thread: &str,
        id: Option<&str>,
        name: &str,
        kind: &'static str,
        input: Option<&Json>,
        time: Moment,
    ) {
        let Some(id) = id.filter(|id| self.calls.len() < MOST && !self.calls.contains_key(*id)) else { return };
        let call = OpenCall {
            thread: thread.to_owned(),
            name: name.to_owned(),
            kind,
            start: time,
            agent: self.kind_of_agent(input),
            arguments: input.zip(self.clean.as_ref()).map(|(input, clean)| clean.json(input)),
        };
        self.calls.insert(id.to_owned(), call);
    }

    pub(super) fn server_call(&mut self, step: &Step, thread: &str, call: &ServerCall, time: Moment) {
        let name = call.name.as_deref().unwrap_or("unknown");
        self.block(step, thread, self.open_id(thread).as_deref(), time, |clean, parts| {
            parts.call(call.id.as_deref(), name, call.input.as_ref().map(|input| clean.json(input)));
        });
        self.open_call(thread, call.id.as_deref(), name, "extension", call.input.as_ref(), time);
    }

    pub(super) fn server_answer(&mut self, step: &Step, thread: &str, answer: &ServerAnswer, time: Moment) {
        self.block(step, thread, self.open_id(thread).as_deref(), time, |_, _| {});
        if let Some(id) = &answer.tool_use_id {
            let result = answer.content.as_ref().zip(self.clean.as_ref()).map(|(content, clean)| clean.json(content));
            self.close_call(id, time, Some((None, result)));
        }
    }

    /// Returns the id of the message that is open.
    pub(super) fn open_id(&self, thread: &str) -> Option<String> {
        self.threads.get(thread).and_then(|thread| thread.message.as_ref()).and_then(|message| message.id.clone())
    }

    pub(super) fn answer(&mut self, thread: &str, answer: &CallAnswer, time: Moment) {
        let is_unnamed = |message: &OpenMessage| message.id.is_none();
        if self.threads.get(thread).and_then(|thread| thread.message.as_ref()).is_some_and(is_unnamed) {
            self.close_message(thread);
        }
        self.thread(thread, time).ready_at = Some(time);
        let Some(id) = &answer.id else { return };
        let error = match answer.status {
            CallStatus::Error => Some("tool_error".to_owned()),
            CallStatus::Denied => Some("denied".to_owned()),
            CallStatus::Ok | CallStatus::Pending => None,
        };
        let result = self.clean.as_ref().map(|clean| clean.text(&answer.text));
        if self.threads.get(id.as_str()).and_then(|thread| thread.sub.as_ref()).is_some_and(|sub| !sub.in_background) {
            self.close_agent(id);
        }
        self.close_call(id, time, Some((error, result)));
    }

    pub(super) fn task(&mut self, task: &Task, time: Moment) {
        let Some(call) = task.tool_use_id.as_deref() else { return };
        let is_known = self.threads.contains_key(call) || self.calls.contains_key(call);
        // Commands go on in the background, too, and are no agents.
        if task.terminal {
            if let Some(sub) = self.threads.get_mut(call).and_then(|thread| thread.sub.as_mut()) {
                sub.end = sub.end.max(time);
                self.close_agent(call);
            }
        } else if is_known && task.kind.as_deref().is_some_and(|kind| kind.contains("agent")) {
            let thread = self.thread(call, time);
            if let Some(sub) = &mut thread.sub {
                sub.in_background = true;
            }
        }
    }

    /// Ends a call: with the class of its error and its result, or without an answer.
    pub(super) fn close_call(&mut self, id: &str, time: Moment, answered: Option<(Option<String>, Option<String>)>) {
        let Some(call) = self.calls.remove(id) else { return };
        let mut attributes = self.common(Operation::ExecuteTool);
        attributes.push(("gen_ai.tool.name", call.name.as_str().into()));
        attributes.push(("gen_ai.tool.type", call.kind.into()));
        attributes.push(("gen_ai.tool.call.id", id.into()));
        let agent = self.threads.get(call.thread.as_str()).and_then(|thread| thread.sub.as_ref());
        let agent = agent.map_or_else(|| self.agent_name(), |sub| sub.name.clone());
        attributes.extend(agent.map(|name| ("gen_ai.agent.name", name.into())));
        if answered.is_none() {
            attributes.push(("tapline.unfinished", AttributeValue::Flag(true)));
        }
        let (error, result) = answered.unwrap_or_default();
        let mut message = None;
        if self.clean.is_some() {
            attributes.extend(call.arguments.map(|text| ("gen_ai.tool.call.arguments", text.into())));
            if error.is_some() {
                message = result;
            } else {
                attributes.extend(result.map(|text| ("gen_ai.tool.call.result", text.into())));
            }
        }
        let parent = self.span_of_thread(&call.thread);
        let key = self.whole_key(id);
        self.emit(Operation::ExecuteTool, "tool", &key, Some(parent), (call.start, time), attributes, error, message);
    }

    pub(super) fn close_agent(&mut self, thread: &str) {
        self.close_message(thread);
        let Some(sub) = self.threads.get_mut(thread).and_then(|thread| thread.sub.take()) else { return };
        self.threads.remove(thread);
        let attributes = self.agent_attributes(sub.name);
        let (parent, key) = (self.tool_span(thread), self.whole_key(thread));
        self.emit(Operation::InvokeAgent, "agent", &key, Some(parent), (sub.start, sub.end), attributes, None, None);
    }
}
