//! Codex's side of the fold: its items become the same steps as Claude's blocks.

use std::collections::HashMap;

use tapline_protocol::claude::content::Content;
use tapline_protocol::claude::message::{RawUsage, Usage};
use tapline_protocol::codex::{
    Event, FileChange, ITEM_KINDS, Item as WireItem, ItemEvent, StreamError, ThreadStarted, Todo, TurnCompleted, TurnFailed,
};
use tapline_protocol::{Json, Number, Read, Tokens};

use super::rejected::{Log, Rejected};
use super::{Fold, Ids, Steps};
use crate::call::describe;
use crate::step::{Answer, Call, CallStatus, Denied, Item, Level, Phase, Retry, Said, SessionInfo, Turn, What};
use crate::verdict::{Category, CodexFailure, Ending, Warnings};

/// What Codex's stream said so far that a verdict needs.
#[derive(Debug, Default)]
pub(crate) struct CodexState {
    thread: Option<String>,
    threads: usize,
    /// Every thread's id.
    pub(super) ids: Ids,
    /// What stderr told of.
    pub(super) log: Log,
    final_answer: Option<String>,
    plain_answer: Option<String>,
    /// The first failure that no completed turn has made good.
    failure: Option<CodexFailure>,
    /// Errors that came beside the turns since the last of them ended, and whether there were any that a turn has outlived.
    errors: Vec<(u64, String)>,
    recovered: bool,
    /// The turn under way, if one is.
    turn_open: bool,
    /// Calls by item id, with the fields merged so far.
    open: HashMap<String, WireItem>,
}

/// No more errors of one turn are told.
const ERRORS: usize = 1_000;

/// What stands where a failure has no words.
pub(crate) const NO_DETAIL: &str = "API error (no detail)";

impl CodexState {
    /// The answer and the last text; where the stream has none, that of the file that Codex was told to write.
    pub(super) fn answer(&self, last: String, ending: &Ending, warnings: &mut Warnings) -> (Option<String>, String) {
        let answer = self.final_answer.as_ref().or(self.plain_answer.as_ref());
        if answer.is_none_or(|answer| answer.trim().is_empty())
            && let Some(text) = ending.last_message.as_ref().filter(|text| !text.trim().is_empty())
        {
            warnings.add(
                "last-message-fallback",
                None,
                "the answer comes from the last-message file, because the stream has none",
            );
            let last = if last.trim().is_empty() { text.clone() } else { last };
            return (Some(text.clone()), last);
        }
        (answer.cloned(), last)
    }

    /// An error came, and the turn was completed all the same.
    pub(super) fn recovered(&self) -> bool {
        self.recovered
    }

    /// A turn was started and never ended.
    pub(super) fn is_turn_open(&self) -> bool {
        self.turn_open
    }

    pub(super) fn failure(&self) -> Option<(Category, String)> {
        self.failure.as_ref().map(|failure| (failure.category(), failure.text.clone()))
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
        let info = SessionInfo { id: id.clone(), first: first || self.codex.thread != id, ..SessionInfo::default() };
        self.session.inits += 1;
        if first {
            self.session.info = info.clone();
        }
        if let Some(id) = &id {
            self.codex.ids.see(id);
        }
        self.codex.thread = id;
        self.codex.threads += 1;
        self.codex.open.clear();
        out.push(What::Session(Box::new(info)));
    }

    pub(super) fn turn_started(&mut self, out: &mut Steps<'_>) {
        self.codex.final_answer = None;
        self.codex.turn_open = true;
        self.ledger.codex_started();
        out.quiet(None);
    }

    pub(super) fn turn_completed(&mut self, event: &TurnCompleted, out: &mut Steps<'_>) {
        // What went wrong on the way did not stop it.
        self.codex.failure = None;
        for (line, text) in std::mem::take(&mut self.codex.errors) {
            self.codex.recovered = true;
            self.warnings.add("stream-error", Some(line), text);
        }
        let used = self.ledger.codex_turn(self.codex.thread.as_deref(), event.usage.as_ref());
        let counts = Usage {
            input_tokens: Tokens(used.input),
            output_tokens: Tokens(used.output),
            cache_read_input_tokens: Tokens(used.cache_read),
            cache_creation_input_tokens: Tokens(used.cache_write),
            ..Usage::default()
        };
        let used = RawUsage { counts, others: Vec::new() };
        let turn =
            Turn { usage: used, thread_usage: Some(event.usage.clone().unwrap_or_default()).into(), ..self.turn("completed") };
        self.end_turn(Turn { repeats_text: true.into(), ..turn }, out);
    }

    pub(super) fn turn_failed(&mut self, event: &TurnFailed, out: &mut Steps<'_>) {
        // A fatal error is written twice: by itself, then as the turn's.
        let told = !std::mem::take(&mut self.codex.errors).is_empty();
        self.fail(event.error.as_ref().and_then(words_of));
        self.end_turn(Turn { error: event.error.clone(), repeats_text: told.into(), ..self.turn("failed") }, out);
    }

    fn fail(&mut self, message: Option<String>) -> String {
        let text = message.filter(|text| !text.trim().is_empty()).unwrap_or_else(|| NO_DETAIL.to_owned());
        match &mut self.codex.failure {
            Some(known) if known.text != NO_DETAIL => {}
            failure => *failure = Some(CodexFailure { text: text.clone() }),
        }
        text
    }

    /// A turn as it stands.
    fn turn(&self, subtype: &str) -> Turn {
        let failed = self.codex.failure.is_some();
        let answer = self.codex.final_answer.as_ref().or(self.codex.plain_answer.as_ref());
        Turn {
            index: self.turns.count,
            subtype: Some(subtype.to_owned()),
            is_error: subtype == "failed",
            result: answer.filter(|_| !failed).cloned(),
            failed,
            message: self.codex.failure.as_ref().map(|failure| failure.text.clone()).into(),
            ..Turn::default()
        }
    }

    fn end_turn(&mut self, turn: Turn, out: &mut Steps<'_>) {
        self.codex.turn_open = false;
        for Rejected { what, why } in self.codex.log.news() {
            self.denials += 1;
            out.push(What::Denied(Denied {
                id: None,
                name: Some((*what).to_owned()),
                title: None,
                message: Some(why.clone()),
                answer_follows: false.into(),
            }));
        }
        self.turns.failure = self.codex.failure();
        self.turns.count += 1;
        self.turns.failed += usize::from(turn.failed);
        self.push_turn(Turn { category: self.turns.failure.as_ref().map(|(category, _)| *category).into(), ..turn }, out);
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
        if self.codex.errors.len() < ERRORS {
            self.codex.errors.push((out.record.line, text.clone()));
        }
        out.push(What::Error { text });
    }

    pub(super) fn item(&mut self, phase: Phase, event: &ItemEvent, out: &mut Steps<'_>) {
        let Some(item) = &event.item else { return };
        let kind = item.kind().unwrap_or_default();
        out.push(What::Item(Item { phase, thread: self.codex.threads.into(), item: item.fields.clone() }));
        let completed = phase == Phase::Completed;
        match kind.as_str() {
            "agent_message" if completed => {
                let Some(text) = item.text("text") else {
                    return;
                };
                match item.text("phase").as_deref() {
                    Some("final_answer") => self.codex.final_answer = Some(text.clone()),
                    None => self.codex.plain_answer = Some(text.clone()),
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
            // One that has only started is not an error yet.
            "error" => {
                if let Some(message) = item.text("message").filter(|_| completed) {
                    self.item_error(message, out);
                }
            }
            "collab_tool_call" => {
                self.ledger.codex_sub_agents();
                self.item_call(&kind, item, completed, out);
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

    /// Errors of items are advisory: warnings, deprecations, events that were dropped.
    fn item_error(&mut self, message: String, out: &mut Steps<'_>) {
        let line = Some(out.record.line);
        if dropped_events(&message).is_some() {
            self.warnings.add("dropped-events", line, message.clone());
        } else if message.to_lowercase().contains("deprecat") {
            self.warnings.add("deprecation", line, message.clone());
        }
        out.notice(Level::Warning, message);
    }

    /// A command, a change of files, an MCP call or a search: a call that starts with the item and ends with it.
    fn item_call(&mut self, kind: &str, item: &WireItem, completed: bool, out: &mut Steps<'_>) {
        let id = item.text("id");
        let merged = match &id {
            Some(id) => {
                let known = self.codex.open.entry(id.clone()).or_default();
                merge(&mut known.fields, &item.fields);
                known.clone()
            }
            None => item.clone(),
        };
        // Item ids start anew in every process: the thread's number tells them apart.
        let key = id.clone().map(|id| if self.codex.threads > 1 { format!("{id}#{}", self.codex.threads) } else { id });
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
        if self.calls.start(&call, out.record.line, out.depth()) {
            out.push(What::Call(call));
        }
        if completed {
            if let Some(id) = &id {
                self.codex.open.remove(id);
            }
            let ok = item_ok(&merged, true);
            let status = match (ok, merged.text("status").as_deref()) {
                (_, Some("declined")) => CallStatus::Denied,
                (true, _) => CallStatus::Ok,
                (false, _) => CallStatus::Error,
            };
            if status == CallStatus::Denied {
                self.deny(key.clone(), Some(name.clone()), None, None, out);
            }
            let again = self.calls.answer(key.as_ref()).is_some_and(|(_, again)| again);
            if again {
                return out.odd("repeated-answer", format!("{name} already has a result"));
            }
            out.push(What::Answer(Answer {
                id: key,
                name: Some(name),
                title: Some(described.title),
                done: Some(described.done.into()),
                status,
                text: answer_text(&merged),
                is_error: !ok,
                block: 0,
            }));
        }
    }
}

/// An error's words: a string, or an object's `message`.
pub(crate) fn words_of(error: &Json) -> Option<String> {
    error.with(String::read).flatten().or_else(|| error.text_of("message"))
}

fn said(text: String) -> Said {
    Said { text, message_id: None, uuid: None, aborted: false }
}

/// `Reconnecting... 2/5`
fn reconnecting(message: &str) -> Option<(u64, u64)> {
    let (attempt, rest) = message.strip_prefix("Reconnecting... ")?.split_once('/')?;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number = |digits: &str| {
        let all = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        all.then(|| digits.parse().unwrap_or(u64::MAX))
    };
    Some((number(attempt)?, number(&rest[..digits])?))
}

/// `42 events were dropped due to lag`, `dropped 42 events`
pub(crate) fn dropped_events(message: &str) -> Option<u64> {
    let message = message.to_lowercase();
    if !message.contains("dropped") || !message.contains("event") {
        return None;
    }
    message.split(|c: char| !c.is_ascii_digit()).find_map(|digits| digits.parse().ok())
}

/// Adds an item's fields to those known: an empty or null value never overwrites an earlier one.
pub(crate) fn merge(known: &mut Vec<(String, Json)>, news: &[(String, Json)]) {
    let places: HashMap<String, usize> = known.iter().enumerate().map(|(at, (key, _))| (key.clone(), at)).collect();
    for (key, value) in news {
        match places.get(key) {
            Some(at) if !is_empty(value) => known[*at].1 = value.clone(),
            Some(_) => {}
            None => known.push((key.clone(), value.clone())),
        }
    }
}

fn is_empty(value: &Json) -> bool {
    let text = value.as_str();
    text == "null"
        || text == "\"\""
        || (text.starts_with(['[', '{']) && text[1..text.len() - 1].bytes().all(|byte| byte.is_ascii_whitespace()))
}

/// Items that have no status of their own.
const WITHOUT_STATUS: &[&str] = &["agent_message", "reasoning", "todo_list"];

/// Whether an item did what it should.
pub(crate) fn item_ok(item: &WireItem, completed: bool) -> bool {
    match item.kind().as_deref() {
        Some("error") => return false,
        Some("web_search") => return completed,
        _ => {}
    }
    let has_none = item.kind().is_some_and(|kind| WITHOUT_STATUS.contains(&kind.as_str()));
    let status = item.text("status").map_or(has_none && completed, |status| status == "completed");
    let exit = item.get("exit_code").is_none_or(|code| code.as_str() == "null" || code.as_str().parse() == Ok(0.0));
    let error = item.get("error").is_some_and(|error| error.as_str() != "null");
    status && exit && !error
}

/// A call's name and input, in the words that policies and renderers use.
fn call_of(kind: &str, item: &WireItem) -> (String, Option<Json>) {
    let object = |pairs: &[(&str, Option<Json>)]| {
        let pairs = pairs.iter().filter_map(|(key, value)| Some(((*key).to_owned(), value.clone()?)));
        object_of(&pairs.collect::<Vec<_>>())
    };
    match kind {
        "mcp_tool_call" => {
            let part = |key| item.text(key).unwrap_or_default();
            let input = item.get("arguments").filter(|json| json.as_str().starts_with('{')).cloned();
            (format!("mcp__{}__{}", part("server"), part("tool")), input)
        }
        "file_change" => {
            let changes = item.get("changes").cloned();
            let paths = changes.as_ref().and_then(|json| {
                let list = json.with(Vec::<FileChange>::read).flatten()?;
                let paths: Vec<_> = list.into_iter().filter_map(|change| change.path).collect();
                Json::parse(&serde_json::to_string(&paths.join(", ")).ok()?).ok()
            });
            (kind.to_owned(), object(&[("paths", paths), ("changes", changes)]))
        }
        "web_search" => {
            (kind.to_owned(), object(&[("query", item.get("query").cloned()), ("action", item.get("action").cloned())]))
        }
        "collab_tool_call" => {
            let keys = ["tool", "prompt", "receiver_thread_ids"];
            (kind.to_owned(), object(&keys.map(|key| (key, item.get(key).cloned()))))
        }
        _ => (kind.to_owned(), object(&[("command", item.get("command").cloned())])),
    }
}

fn object_of(pairs: &[(String, Json)]) -> Option<Json> {
    let mut text = Vec::new();
    crate::step::pairs::write(pairs, &mut serde_json::Serializer::new(&mut text)).ok()?;
    Json::parse(&String::from_utf8(text).ok()?).ok()
}

/// What came back, as text.
fn answer_text(item: &WireItem) -> String {
    let message = || item.get("error").and_then(|error| error.text_of("message"));
    let content = || {
        let content = item.get("result")?.get("content")?;
        let content = content.with(Content::read).flatten()?;
        Some(content.joined_text())
    };
    item.text("aggregated_output").or_else(message).or_else(content).unwrap_or_default()
}
