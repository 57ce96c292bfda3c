//! Codex's side of the fold: its items become the same steps as Claude's blocks.

mod agents;
mod failure;
mod item;
mod log;
mod part;
mod reading;

use std::collections::HashMap;

use tapline_protocol::codex::{
    CodexUsage, Event, ITEM_KINDS, Item as WireItem, ItemEvent, StreamError, ThreadStarted, Todo, TurnCompleted, TurnFailed,
};
use tapline_protocol::totals::{RawUsage, Usage};
use tapline_protocol::{Agent, Count, Number, Read, Tokens, Value};

pub(crate) use part::Collected;
pub use part::{CodexPart, ItemEntry, TurnCounts};

use super::rejected::Rejected;
use super::side::Side;
use super::turns::{NO_DETAIL, words_of};
use super::{Fold, Ids, Steps, Turns};
use crate::call::describe;
use crate::ledger::plausible;
use crate::step::{
    Call, CallAnswer, CallEnd, CallStatus, Denial, Denied, Item, Level, Phase, Retry, Said, SessionInfo, Turn, What,
};
use crate::verdict::{Category, Ending, Warnings};
use item::{answer_text, call_of, dropped_events, is_ok, merge};
use log::Log;

/// Codex counts tokens that are read from the cache or written to it as input, too. They are subtracted.
fn tokens_of(usage: &CodexUsage) -> Tokens {
    let (read, written) = (usage.cached_input_tokens.0, usage.cache_write_input_tokens.0);
    plausible(Tokens {
        input: usage.input_tokens.0.saturating_sub(read).saturating_sub(written),
        output: usage.output_tokens.0,
        cache_read: read,
        cache_write_5m: written,
        cache_write_1h: 0,
        reasoning: usage.reasoning_output_tokens.0,
    })
}

/// State of a Codex stream that a verdict needs.
#[derive(Debug, Default)]
pub(super) struct State {
    thread: Option<String>,
    threads: usize,
    /// The id of every thread.
    ids: Ids,
    /// The rejected calls on stderr.
    log: Log,
    final_answer: Option<String>,
    plain_answer: Option<String>,
    /// The first failure since the last completed turn.
    failure: Option<String>,
    /// Errors outside a turn since the last turn ended.
    errors: Vec<(u64, String)>,
    /// Open calls by item id, with the fields merged so far.
    open: HashMap<String, WireItem>,
}

/// The counts without which usage says nothing.
const COUNTS: [&str; 3] = ["input_tokens", "cached_input_tokens", "output_tokens"];

/// More calls than this are never under way at once.
const OPEN: usize = 1 << 10;

/// How many errors of one turn are reported.
const ERRORS: usize = 1_000;

impl Side for State {
    fn hear_stderr(&mut self, lines: &str) {
        self.log.hear(lines);
    }

    /// Codex has no session ids. Its thread ids are used.
    fn session_ids(&self) -> Option<&[String]> {
        Some(&self.ids.list)
    }

    fn failure(&self) -> Option<(Category, String)> {
        self.failure.as_ref().map(|text| (failure::category(text), text.clone()))
    }

    fn rejected(&mut self, stderr: Option<&str>) -> (Vec<Rejected>, usize) {
        std::mem::take(&mut self.log).finish(stderr)
    }

    /// If the stream has no answer, uses the file that Codex was told to write.
    fn answer(&self, _turns: &Turns, last: &str, ending: &Ending, warnings: &mut Warnings) -> (Option<String>, String) {
        let answer = self.final_answer.as_ref().or(self.plain_answer.as_ref());
        if answer.is_none_or(|answer| answer.trim().is_empty())
            && let Some(text) = ending.last_message.as_ref().filter(|text| !text.trim().is_empty())
        {
            warnings.add(
                "last-message-fallback",
                None,
                "the answer comes from the last-message file, because the stream has none",
            );
            let last = if last.trim().is_empty() { text } else { last };
            return (Some(text.clone()), last.to_owned());
        }
        (answer.cloned(), last.to_owned())
    }
}

impl Fold {
    pub(super) fn codex(&mut self, event: &Event, out: &mut Steps<'_>) {
        match event {
            Event::ThreadStarted(event) => self.thread_started(event, out),
            Event::TurnStarted(_) => self.turn_started(out),
            Event::TurnCompleted(event) => self.turn_completed(event, out),
            Event::TurnFailed(event) => self.turn_failed(event, out),
            Event::ItemStarted(event) => self.item(Phase::Started, event, out),
            Event::ItemUpdated(event) => self.item(Phase::Updated, event, out),
            Event::ItemCompleted(event) => self.item(Phase::Completed, event, out),
            Event::Error(event) => self.stream_error(event, out),
        }
    }

    pub(super) fn thread_started(&mut self, event: &ThreadStarted, out: &mut Steps<'_>) {
        let id = event.thread_id.clone().filter(|id| !id.is_empty());
        let first = self.session.inits == 0;
        let info = SessionInfo {
            agent: Some(Agent::Codex),
            id: id.clone(),
            first: first || self.sides.codex.thread != id,
            ..SessionInfo::default()
        };
        self.session.inits += 1;
        if first {
            self.session.info = info.clone();
        }
        if let Some(id) = &id {
            self.sides.codex.ids.see(id);
        }
        self.sides.codex.thread = id;
        self.sides.codex.threads += 1;
        self.sides.codex.open.clear();
        out.push(What::Session(Box::new(info)));
    }

    pub(super) fn turn_started(&mut self, out: &mut Steps<'_>) {
        self.sides.codex.final_answer = None;
        self.turns.open = true;
        self.turns.elapsed.begin(out.record.arrived);
        self.ledger.turn_started();
        out.quiet(None);
    }

    pub(super) fn turn_completed(&mut self, event: &TurnCompleted, out: &mut Steps<'_>) {
        // The errors on the way did not stop the turn.
        self.sides.codex.failure = None;
        for (line, text) in std::mem::take(&mut self.sides.codex.errors) {
            self.turns.recovered = true;
            self.warnings.add("stream-error", Some(line), text);
        }
        // Usage without a count says nothing.
        let counts = |usage: Value<'_>| COUNTS.iter().any(|key| usage.get(key).and_then(Count::read).is_some());
        let said = out.record.field("usage").filter(|usage| usage.with(counts) == Some(true));
        let usage = event.usage.as_ref().filter(|_| said.is_some());
        self.warn_of_figures(out);
        let total = usage.map(tokens_of);
        let used = self.ledger.thread_turn(self.sides.codex.thread.as_deref(), total);
        let counts = Usage {
            input_tokens: Count(used.input),
            output_tokens: Count(used.output),
            cache_read_input_tokens: Count(used.cache_read),
            cache_creation_input_tokens: Count(used.cache_write()),
            ..Usage::default()
        };
        let used = RawUsage { counts, others: Vec::new() };
        let turn = Turn { usage: used, thread_usage: said, ..self.turn("completed") };
        self.end_turn(Turn { repeats_text: true, ..turn }, out);
    }

    pub(super) fn turn_failed(&mut self, event: &TurnFailed, out: &mut Steps<'_>) {
        // A fatal error is written twice: on its own, then as the turn's.
        let told = !std::mem::take(&mut self.sides.codex.errors).is_empty();
        self.fail(event.error.as_ref().and_then(words_of));
        self.end_turn(Turn { error: event.error.clone(), repeats_text: told, ..self.turn("failed") }, out);
    }

    fn fail(&mut self, message: Option<String>) -> String {
        let text = message.filter(|text| !text.trim().is_empty()).unwrap_or_else(|| NO_DETAIL.to_owned());
        match &mut self.sides.codex.failure {
            Some(known) if known != NO_DETAIL => {}
            failure => *failure = Some(text.clone()),
        }
        text
    }

    /// Returns the current turn.
    fn turn(&self, subtype: &str) -> Turn {
        let failed = self.sides.codex.failure.is_some();
        let answer = self.sides.codex.final_answer.as_ref().or(self.sides.codex.plain_answer.as_ref());
        Turn {
            index: self.turns.count,
            subtype: Some(subtype.to_owned()),
            is_error: subtype == "failed",
            result: answer.filter(|_| !failed).cloned(),
            failed,
            message: self.sides.codex.failure.clone(),
            ..Turn::default()
        }
    }

    fn end_turn(&mut self, turn: Turn, out: &mut Steps<'_>) {
        self.turns.open = false;
        for Rejected { what, why } in self.sides.codex.log.news() {
            self.denials += 1;
            out.push(What::Denied(Denied {
                id: None,
                name: Some((*what).to_owned()),
                title: None,
                message: Some(why.clone()),
                denial: Denial { reason: Some(why.clone()), ..Denial::default() },
                answer_follows: false,
            }));
        }
        self.turns.failure = self.sides.codex.failure();
        self.turns.count += 1;
        self.turns.failed += usize::from(turn.failed);
        self.push_turn(Turn { category: self.turns.failure.as_ref().map(|(category, _)| *category), ..turn }, false, out);
    }

    pub(super) fn stream_error(&mut self, event: &StreamError, out: &mut Steps<'_>) {
        let message = event.message.clone().or_else(|| event.error.as_ref().and_then(words_of));
        if let Some((attempt, max)) = message.as_deref().and_then(reconnecting) {
            self.warnings.add("reconnect", Some(out.record.line), message.clone().unwrap_or_default());
            return out.push(What::Retry(Retry {
                attempt: Some(Number::from(attempt)),
                max: Some(Number::from(max)),
                delay_ms: None,
                status: None,
                error: message,
            }));
        }
        let text = self.fail(message);
        if self.sides.codex.errors.len() < ERRORS {
            self.sides.codex.errors.push((out.record.line, text.clone()));
        }
        out.push(What::Error { text });
    }

    pub(super) fn item(&mut self, phase: Phase, event: &ItemEvent, out: &mut Steps<'_>) {
        let Some(item) = &event.item else { return };
        let kind = item.kind().unwrap_or_default();
        out.push(What::Item(Item { phase, thread: self.sides.codex.threads, item: item.fields.clone() }));
        let completed = phase == Phase::Completed;
        match kind.as_str() {
            "agent_message" if completed => {
                let Some(text) = item.text("text") else {
                    return;
                };
                match item.text("phase").as_deref() {
                    Some("final_answer") => self.sides.codex.final_answer = Some(text.clone()),
                    None => self.sides.codex.plain_answer = Some(text.clone()),
                    Some(_) => {}
                }
                self.say(&text, out);
                out.push(What::Text(said(text)));
            }
            "reasoning" if completed => {
                if let Some(text) = item.text("text") {
                    out.push(What::Thinking(said(text)));
                }
            }
            "" | "agent_message" | "reasoning" => {}
            // An item that has only started is not an error yet.
            "error" => {
                if let Some(message) = item.text("message").filter(|_| completed) {
                    self.item_error(message, out);
                }
            }
            "collab_tool_call" => {
                self.ledger.has_sub_agents();
                self.item_call(&kind, item, completed, out);
                let key = self.item_key(item);
                self.sub_agents(item, key.as_ref(), out);
            }
            "todo_list" => {
                let todos = item.get("items").and_then(|items| items.with(Vec::<Todo>::read).flatten()).unwrap_or_default();
                let done = todos.iter().filter(|todo| todo.completed).count();
                out.notice(Level::Info, format!("plan: {done}/{} done", todos.len()));
            }
            kind if ITEM_KINDS.contains(&kind) => self.item_call(kind, item, completed, out),
            kind => {
                let known = format!("item/{kind}");
                self.unknown(&known, out);
            }
        }
    }

    /// Errors of items are advisory: warnings, deprecations, dropped events.
    fn item_error(&mut self, message: String, out: &mut Steps<'_>) {
        let line = Some(out.record.line);
        if dropped_events(&message).is_some() {
            self.warnings.add("dropped-events", line, message.clone());
        } else if message.to_lowercase().contains("deprecat") {
            self.warnings.add("deprecation", line, message.clone());
        }
        out.notice(Level::Warning, message);
    }

    /// Returns what an item is known by. Item ids start anew in every process. The number of the thread distinguishes them.
    fn item_key(&self, item: &WireItem) -> Option<String> {
        let threads = self.sides.codex.threads;
        item.text("id").map(|id| if threads > 1 { format!("{id}#{threads}") } else { id })
    }

    /// Handles a command, a file change, an MCP call or a search: a tool call that starts and ends with its item.
    fn item_call(&mut self, kind: &str, item: &WireItem, completed: bool, out: &mut Steps<'_>) {
        let id = item.text("id");
        let merged = match &id {
            Some(id) => {
                if self.sides.codex.open.len() >= OPEN && !self.sides.codex.open.contains_key(id) {
                    self.sides.codex.open.clear();
                }
                let known = self.sides.codex.open.entry(id.clone()).or_default();
                merge(&mut known.fields, &item.fields);
                known.clone()
            }
            None => item.clone(),
        };
        let key = self.item_key(item);
        let (name, input) = call_of(kind, &merged);
        let described = describe(&name, input.as_ref());
        let call = Call {
            id: key.clone(),
            name: name.clone(),
            doing: described.doing.into(),
            done: described.done.into(),
            title: described.title.clone(),
            input,
            message_id: None,
        };
        if self.calls.start(&call, out.record, out.depth()) {
            out.push(What::Call(call));
        }
        if completed {
            if let Some(id) = &id {
                self.sides.codex.open.remove(id);
            }
            let ok = is_ok(&merged, true);
            let status = match (ok, merged.text("status").as_deref()) {
                (_, Some("declined")) => CallStatus::Denied,
                (true, _) => CallStatus::Ok,
                (false, _) => CallStatus::Error,
            };
            if status == CallStatus::Denied {
                self.deny(key.clone(), Some(name.clone()), None, None, Denial::default(), out);
            }
            let seen = self.calls.answer(key.as_ref());
            if seen.as_ref().is_some_and(|(_, again)| *again) {
                return out.odd("repeated-answer", format!("{name} already has a result"));
            }
            out.push(What::Answer(CallAnswer {
                id: key,
                name: Some(name),
                title: Some(described.title),
                done: Some(described.done.into()),
                status,
                text: answer_text(&merged),
                is_error: !ok,
                ended: merged.text("status").as_deref().and_then(CallEnd::of),
                block: 0,
                duration_ms: seen.as_ref().and_then(|(call, _)| call.took(out.record)),
                denial: seen.and_then(|(call, _)| call.denial),
            }));
        }
    }
}

fn said(text: String) -> Said {
    Said { text, message_id: None, uuid: None, aborted: false }
}

/// Reads `Reconnecting... 2/5`.
fn reconnecting(message: &str) -> Option<(u64, u64)> {
    let (attempt, rest) = message.strip_prefix("Reconnecting... ")?.split_once('/')?;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number = |digits: &str| {
        let all = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        all.then(|| digits.parse().unwrap_or(u64::MAX))
    };
    Some((number(attempt)?, number(&rest[..digits])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_never_complete_take_bounded_memory() {
        let (mut fold, mut decoder) = (Fold::default(), tapline_protocol::Decoder::default());
        for number in 0..OPEN * 3 {
            let line = format!("{{\"type\":\"item.started\",\"item\":{{\"id\":\"{number}\",\"type\":\"web_search\"}}}}\n");
            decoder.push_each(line.as_bytes(), |record| drop(fold.apply(&record)));
            assert!(fold.sides.codex.open.len() <= OPEN);
        }
    }
}
