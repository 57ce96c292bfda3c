//! Requests to models: a message of the model is one, from the moment when the model could answer to its last block.

use tapline_protocol::{Moment, Tokens};

use super::{Attributes, MAIN, Spans, word_or};
use crate::agents::profile;
use crate::otlp::content::{Clean, Parts};
use crate::otlp::span::{AttributeValue, Operation};
use crate::step::{MessageInfo, Partial, Step};

/// A request to a model, and what it has answered so far.
#[derive(Debug)]
pub(super) struct OpenMessage {
    pub(super) id: Option<String>,
    /// What its span is named after.
    pub(super) key: String,
    pub(super) start: Moment,
    pub(super) end: Moment,
    pub(super) model: Option<String>,
    pub(super) stop_reason: Option<String>,
    pub(super) usage: Option<Tokens>,
    /// The output as partial messages say it.
    pub(super) output: Option<u64>,
    pub(super) parts: Parts,
}

impl Spans {
    /// Takes a block of a message.
    pub(super) fn block(
        &mut self,
        step: &Step,
        thread: &str,
        id: Option<&str>,
        time: Moment,
        tell: impl FnOnce(&Clean, &mut Parts),
    ) {
        self.open_message(thread, id, step.line, time);
        let info = step.message.as_deref();
        let clean = self.clean.clone();
        let Some(message) = &mut self.thread(thread, time).message else { return };
        message.end = message.end.max(time);
        if let Some(info @ MessageInfo { model, stop_reason, .. }) = info {
            message.model = model.clone().or_else(|| message.model.take());
            message.stop_reason = stop_reason.clone().or_else(|| message.stop_reason.take());
            message.usage = info.tokens().or(message.usage);
        }
        if let Some(clean) = &clean {
            tell(clean, &mut message.parts);
        }
    }

    /// Begins a message, unless it is the one that is open. Without ids, a message ends with the next result.
    pub(super) fn open_message(&mut self, thread: &str, id: Option<&str>, line: u64, time: Moment) {
        let open = self.thread(thread, time).message.as_ref();
        if open.is_some_and(|open| open.id.as_deref() == id) {
            return;
        }
        self.close_message(thread);
        let key = id.map_or_else(|| self.whole_key(&format!("line {line}")), |id| self.whole_key(id));
        self.name_turn(thread, &format!("message {key}"), time);
        let state = self.thread(thread, time);
        let start = state.ready_at.take().unwrap_or(time).min(time);
        let id = id.map(str::to_owned);
        let message = OpenMessage {
            id,
            key,
            start,
            end: time,
            model: None,
            stop_reason: None,
            usage: None,
            output: None,
            parts: Parts::default(),
        };
        state.message = Some(message);
    }

    pub(super) fn partial(&mut self, thread: &str, partial: &Partial, time: Moment) {
        match partial {
            Partial::MessageStart { message_id } => self.open_message(thread, message_id.as_deref(), 0, time),
            Partial::MessageDelta { stop_reason, output_tokens } => {
                let Some(message) = &mut self.thread(thread, time).message else { return };
                message.end = message.end.max(time);
                message.stop_reason = stop_reason.clone().or_else(|| message.stop_reason.take());
                message.output = output_tokens.or(message.output);
            }
            Partial::BlockStart { .. } | Partial::Delta { .. } | Partial::BlockStop { .. } | Partial::MessageStop => {}
        }
    }

    pub(super) fn close_message(&mut self, thread: &str) {
        let Some(state) = self.threads.get_mut(thread) else { return };
        let Some(message) = state.message.take() else { return };
        state.ready_at = state.ready_at.max(Some(message.end));
        let synthetic = self.agent.map_or(&[][..], |agent| profile(agent).no_models);
        if message.model.as_deref().is_some_and(|model| synthetic.contains(&model)) {
            return;
        }
        let request = message.model.as_ref().or(self.about.model.as_ref()).cloned();
        let mut attributes = self.common(Operation::Chat);
        attributes.extend(request.map(|model| ("gen_ai.request.model", model.into())));
        attributes.extend(message.model.map(|model| ("gen_ai.response.model", model.into())));
        attributes.extend(message.id.map(|id| ("gen_ai.response.id", id.into())));
        let finish = message.stop_reason.as_deref().map(|why| word_or(why, "other"));
        if let Some(turn) = self.turn.as_mut().filter(|_| thread == MAIN) {
            turn.finish = finish.map(str::to_owned).or_else(|| turn.finish.take());
        }
        attributes.extend(finish.map(|why| ("gen_ai.response.finish_reasons", AttributeValue::Texts(vec![why.to_owned()]))));
        if let Some(usage) = message.usage {
            // Until a message has ended, its output is only what was written so far.
            let output = message.output.or_else(|| finish.map(|_| usage.output));
            let tokens = Tokens { output: output.unwrap_or(0), reasoning: 0, ..usage };
            usage_attributes(&mut attributes, tokens, output.is_some());
            if let Some(turn) = &mut self.turn {
                turn.used += tokens;
                turn.is_vague |= output.is_none();
            }
        }
        let said = message.parts.message("assistant", Some(finish.unwrap_or("unknown")));
        attributes.extend(said.map(|text| ("gen_ai.output.messages", text.into())));
        let parent = self.span_of_thread(thread);
        self.emit(Operation::Chat, "message", &message.key, Some(parent), (message.start, message.end), attributes, None, None);
    }
}

/// Says what was used. The conventions count cached tokens as input, too.
pub(super) fn usage_attributes(attributes: &mut Attributes, tokens: Tokens, has_output: bool) {
    let input = tokens.prompt();
    attributes.push(("gen_ai.usage.input_tokens", input.into()));
    if has_output {
        attributes.push(("gen_ai.usage.output_tokens", tokens.output.into()));
    }
    attributes.push(("gen_ai.usage.cache_read.input_tokens", tokens.cache_read.into()));
    attributes.push(("gen_ai.usage.cache_creation.input_tokens", tokens.cache_write().into()));
    if tokens.reasoning > 0 {
        attributes.push(("gen_ai.usage.reasoning.output_tokens", tokens.reasoning.into()));
    }
}
