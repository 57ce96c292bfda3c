//! Steps to spans: a session, its turns, their requests to models and tool calls, and sub-agents below the calls that started them. Memory is
//! bounded: a span is known when it has ended, and whoever takes the spans away decides how many wait.

mod calls;
mod cost;
mod messages;

use std::collections::HashMap;

use tapline_protocol::{Agent, Moment, Tokens};

use super::content::{Clean, Parts};
use super::provider;
use super::span::{AgentSpan, AttributeValue, Operation, SpanKind, span_id, trace_id};
use crate::agents::profile;
use crate::recent::Recent;
use crate::step::{SessionInfo, Step, Turn, What};
use crate::time::parse_moment;
use crate::verdict::Category;
use calls::{OpenAgent, OpenCall};
use cost::Cost;
use messages::{OpenMessage, usage_attributes};

/// How many sub-agents are open at once.
const MOST: usize = 4_096;
/// The longest name of a model, a tool, a session and the like, in bytes.
const LONGEST: usize = 256;
/// The attributes that are texts.
const CONTENT: [&str; 4] =
    ["gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"];
/// The main agent's thread. A sub-agent's is named by the call that started it.
const MAIN: &str = "";

type Attributes = Vec<(&'static str, AttributeValue)>;

/// Turns steps into spans.
///
/// ```
/// use tapline_protocol::Reader;
/// use tapline_session::Fold;
/// use tapline_session::otlp::Spans;
///
/// let stream = br#"{"type":"system","subtype":"init","session_id":"s","model":"m","timestamp":"2026-01-01T00:00:00Z"}
/// {"type":"assistant","session_id":"s","timestamp":"2026-01-01T00:00:02Z","message":{"id":"msg_1","model":"m","content":[{"type":"text","text":"4"}]}}
/// "#;
/// let (mut fold, mut spans) = (Fold::default(), Spans::default());
/// for record in Reader::new(stream.as_slice()) {
///     fold.apply(&record?).iter().for_each(|step| spans.accept(step));
/// }
/// spans.finish(None);
/// let names: Vec<String> = spans.take().into_iter().map(|span| span.name).collect();
/// assert_eq!(names, ["chat m", "invoke_agent claude", "session claude"]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Spans {
    clean: Option<Clean>,
    agent: Option<Agent>,
    session: Option<String>,
    /// What a session without an id is known by.
    nameless: String,
    about: About,
    first: Option<Moment>,
    last: Option<Moment>,
    /// When this run of the session began.
    run: Option<Moment>,
    threads: HashMap<String, Thread>,
    calls: HashMap<String, OpenCall>,
    turn: Option<OpenTurn>,
    turns: u64,
    /// What all turns of this run so far used.
    used: Tokens,
    cost: Cost,
    seen: Recent,
    ready: Vec<AgentSpan>,
    /// Whether the first total of this run has what another session used, too.
    goes_on: bool,
    /// Whether a total of this run is known.
    has_total: bool,
    /// Whether something had no time and could not be told.
    untimed: bool,
}

#[derive(Debug, Default)]
struct About {
    model: Option<String>,
    version: Option<String>,
    project: Option<String>,
}

/// One agent: the main one, or a sub-agent.
#[derive(Debug, Default)]
struct Thread {
    /// Since when the model could answer.
    ready_at: Option<Moment>,
    message: Option<OpenMessage>,
    sub: Option<OpenAgent>,
}

#[derive(Debug)]
struct OpenTurn {
    start: Moment,
    /// What its span is named after: the first thing in it that has a name.
    key: Option<String>,
    is_prompted: bool,
    retries: u64,
    /// Whether its span was told before a step said that it is over.
    is_told: bool,
    /// What its messages used, as far as they say it.
    used: Tokens,
    /// Whether a message did not say it.
    is_vague: bool,
    prompt: Parts,
    /// The last text of its agent, without secrets, if texts are told.
    said: Option<String>,
    /// Why the last message ended.
    finish: Option<String>,
}

impl OpenTurn {
    fn at(start: Moment) -> Self {
        Self {
            start,
            key: None,
            is_prompted: false,
            retries: 0,
            is_told: false,
            used: Tokens::default(),
            is_vague: false,
            prompt: Parts::default(),
            said: None,
            finish: None,
        }
    }

    /// Takes what was asked, and the last answer.
    fn content(&mut self) -> Attributes {
        let mut attributes = Attributes::new();
        let prompt = std::mem::take(&mut self.prompt).message("user", None);
        attributes.extend(prompt.map(|text| ("gen_ai.input.messages", text.into())));
        let mut parts = Parts::default();
        if let Some(text) = &self.said {
            parts.text("text", text);
        }
        let said = parts.message("assistant", Some(self.finish.as_deref().unwrap_or("unknown")));
        attributes.extend(said.map(|text| ("gen_ai.output.messages", text.into())));
        attributes
    }
}

impl Spans {
    /// Exports prompts, texts, arguments and results, too, without their secrets.
    #[must_use]
    pub fn with_content(mut self, clean: Clean) -> Self {
        self.clean = Some(clean);
        self
    }

    /// Says which agent it is, for streams that do not.
    pub fn note_agent(&mut self, agent: Option<Agent>) {
        self.agent = self.agent.or(agent);
    }

    /// Says that the first total has what another session used, too: this one was forked from it.
    pub fn note_fork(&mut self, is_fork: bool) {
        self.goes_on |= is_fork && !self.has_total;
    }

    /// Takes the spans that have ended.
    pub fn take(&mut self) -> Vec<AgentSpan> {
        std::mem::take(&mut self.ready)
    }

    /// Ends what is open, because another run of the same session follows.
    pub fn begin_run(&mut self) {
        if let Some(end) = self.last {
            self.close_all(end, None);
        }
        self.run = None;
        // Each recording counts from zero.
        (self.used, self.goes_on, self.has_total) = (Tokens::default(), false, false);
        self.cost.begin_run();
    }

    /// Returns whether no turn is under way.
    pub fn is_idle(&self) -> bool {
        self.turn.as_ref().is_none_or(|turn| turn.is_told || turn.key.is_none() && !turn.is_prompted)
    }

    /// Returns whether something could not be told because nothing says when it happened.
    pub fn lacks_times(&self) -> bool {
        self.untimed
    }

    /// Takes a step.
    pub fn accept(&mut self, step: &Step) {
        if let Some(id) = &step.session_id {
            self.enter(id);
        }
        if let What::Session(info) = &step.what {
            self.note_session(info);
        }
        let time = step.arrived.or_else(|| step.at.as_deref().and_then(parse_moment));
        if let (None, Some(time)) = (self.first, time) {
            self.nameless = format!("began at {}", time.as_millis());
        }
        self.first = self.first.or(time);
        self.run = self.run.or(time);
        self.last = self.last.max(time);
        let Some(time) = time.or(self.last) else {
            self.untimed |= step.what.is_of_message() || matches!(step.what, What::Answer(_) | What::Turn(_));
            return;
        };
        let thread = step.parent.as_deref().unwrap_or(MAIN);
        match &step.what {
            What::Session(_) => {
                self.open_turn(time, false);
                self.thread(MAIN, time).ready_at.get_or_insert(time);
            }
            What::Prompt { text } => self.prompt(thread, text, time),
            What::Text(said) => {
                let text = self.clean.as_ref().map(|clean| clean.text(&said.text));
                self.block(step, thread, said.message_id.as_deref(), time, |_, parts| {
                    if let Some(text) = &text {
                        parts.text("text", text);
                    }
                });
                if let Some(turn) = self.turn.as_mut().filter(|_| thread == MAIN) {
                    turn.said = text.or_else(|| turn.said.take());
                }
            }
            What::Thinking(said) => self.block(step, thread, said.message_id.as_deref(), time, |clean, parts| {
                parts.text("reasoning", &clean.text(&said.text));
            }),
            What::Call(call) => self.call(step, thread, call, time),
            What::Answer(answer) | What::Orphan(answer) => self.answer(thread, answer, time),
            What::ServerCall(call) => self.server_call(step, thread, call, time),
            What::ServerAnswer(answer) => self.server_answer(step, thread, answer, time),
            What::Partial(partial) => self.partial(thread, partial, time),
            What::Turn(turn) => self.turn(turn, time),
            What::Retry(_) => {
                if let Some(turn) = &mut self.turn {
                    turn.retries += 1;
                }
            }
            What::Task(task) => self.task(task, time),
            What::Retracted { .. }
            | What::RateLimit(_)
            | What::Hook(_)
            | What::Denied(_)
            | What::Question(_)
            | What::Progress(_)
            | What::Item(_)
            | What::Error { .. }
            | What::Notice(_)
            | What::Quiet { .. }
            | What::Odd(_) => {}
        }
    }

    /// Says that the turn seems to be over, as a transcript shows it before a step says it. If it goes on after all, its span is not told again.
    pub fn note_end(&mut self, failed: bool) {
        self.close_message(MAIN);
        let mut attributes = self.turn_attributes();
        let (Some(end), Some(turn)) = (self.last, self.turn.as_mut().filter(|turn| !turn.is_told)) else { return };
        if let Some(key) = turn.key.clone() {
            turn.is_told = true;
            if !turn.is_vague && turn.used.total() > 0 {
                usage_attributes(&mut attributes, turn.used, true);
            }
            attributes.extend(turn.content());
            let (within, error) = ((turn.start, end), failed.then(|| "error".to_owned()));
            self.emit_turn(&key, within, attributes, error, None);
        }
    }

    /// Notes what the run cost in all: no turn says it of requests that no result counts.
    pub fn note_cost(&mut self, usd: Option<f64>) {
        self.cost.note(usd, true);
    }

    /// Ends everything that is open, and the session: with the class of its error, if it failed.
    pub fn finish(&mut self, error: Option<&str>) {
        let Some(end) = self.last else { return };
        self.close_all(end, error);
        let mut attributes = self.agent_attributes(self.agent_name());
        attributes.push(("tapline.turns", self.turns.into()));
        attributes.extend(self.cost.total().map(|usd| ("tapline.cost_usd", AttributeValue::Number(usd))));
        let start = self.first.unwrap_or(end);
        // A session may go on later. Then it is told again, with its new end.
        self.emit(Operation::Session, "session", "", None, (start, end), attributes, error.map(str::to_owned), None);
    }

    fn close_all(&mut self, end: Moment, error: Option<&str>) {
        let mut threads: Vec<String> = self.threads.keys().cloned().collect();
        threads.sort_unstable();
        for thread in &threads {
            self.close_message(thread);
        }
        let mut calls: Vec<String> = self.calls.keys().cloned().collect();
        calls.sort_unstable();
        for id in &calls {
            self.close_call(id, end, None);
        }
        for thread in &threads {
            self.close_agent(thread);
        }
        let mut attributes = self.turn_attributes();
        if let Some(mut turn) = self.turn.take().filter(|turn| turn.key.is_some() || turn.is_prompted) {
            let key = self.turn_key(&turn);
            attributes.push(("tapline.unfinished", AttributeValue::Flag(true)));
            attributes.extend(turn.content());
            self.emit_turn(&key, (turn.start, end), attributes, error.map(str::to_owned), None);
        }
    }

    /// Begins another session, if it is another one.
    fn enter(&mut self, id: &str) {
        if self.session.as_deref().is_some_and(|known| known != id) {
            self.finish(None);
            let (clean, agent, ready) = (self.clean.take(), self.agent, std::mem::take(&mut self.ready));
            *self = Self { clean, agent, ready, untimed: self.untimed, ..Self::default() };
        }
        self.session.get_or_insert_with(|| id.to_owned());
    }

    fn note_session(&mut self, info: &SessionInfo) {
        self.agent = info.agent.or(self.agent);
        if let Some(id) = &info.id {
            self.session.get_or_insert_with(|| id.clone());
        }
        let setup = &info.setup;
        self.about.model = setup.model.clone().or_else(|| self.about.model.take());
        self.about.version = setup.cli_version.clone().or_else(|| self.about.version.take());
        let project = setup.cwd.as_deref().and_then(|folder| folder.trim_end_matches('/').rsplit('/').next());
        self.about.project = project.filter(|name| !name.is_empty()).map(str::to_owned).or_else(|| self.about.project.take());
    }

    fn agent_name(&self) -> Option<String> {
        self.agent.map(|agent| agent.name().to_owned())
    }

    /// Returns what a name of this agent's is in the whole session. An agent may number what it does anew in each run.
    fn whole_key(&self, id: &str) -> String {
        match (self.agent.is_some_and(|agent| profile(agent).numbers_anew), self.run) {
            (true, Some(run)) => format!("{id}@{}", run.as_millis()),
            _ => id.to_owned(),
        }
    }

    fn session_key(&self) -> &str {
        self.session.as_deref().unwrap_or(&self.nameless)
    }

    fn id_of(&self, kind: &str, key: &str) -> [u8; 8] {
        span_id(self.session_key(), kind, key)
    }

    fn session_span(&self) -> [u8; 8] {
        self.id_of("session", "")
    }

    fn tool_span(&self, id: &str) -> [u8; 8] {
        self.id_of("tool", &self.whole_key(id))
    }

    fn turn_key(&self, turn: &OpenTurn) -> String {
        turn.key.clone().unwrap_or_else(|| format!("{}@{}", self.turns, turn.start.as_millis()))
    }

    /// Returns the span that this thread's requests and calls are parts of.
    fn span_of_thread(&self, thread: &str) -> [u8; 8] {
        match (thread, &self.turn) {
            (MAIN, Some(turn)) => self.id_of("turn", &self.turn_key(turn)),
            (MAIN, None) => self.session_span(),
            (call, _) => self.id_of("agent", &self.whole_key(call)),
        }
    }

    fn open_turn(&mut self, time: Moment, is_prompted: bool) {
        let turn = self.turn.get_or_insert_with(|| OpenTurn::at(time));
        // A session may have been open for long before somebody asked something.
        if is_prompted && !turn.is_prompted && turn.key.is_none() {
            (turn.start, turn.is_prompted) = (time, true);
        }
    }

    /// Notes the first thing in the turn that has a name.
    fn name_turn(&mut self, thread: &str, key: &str, time: Moment) {
        if thread == MAIN {
            self.open_turn(time, false);
            if let Some(turn) = self.turn.as_mut().filter(|turn| turn.key.is_none()) {
                turn.key = Some(key.to_owned());
            }
        }
    }

    fn thread(&mut self, thread: &str, time: Moment) -> &mut Thread {
        if thread != MAIN && !self.threads.contains_key(thread) && self.threads.len() < MOST {
            let call = self.calls.get(thread);
            let start = call.map_or(time, |call| call.start.min(time));
            let name = call.and_then(|call| call.agent.clone());
            let sub = Some(OpenAgent { name, start, end: time, in_background: false });
            self.threads.insert(thread.to_owned(), Thread { ready_at: Some(start), message: None, sub });
        }
        // Too many sub-agents count as the main one.
        let known = if self.threads.contains_key(thread) { thread } else { MAIN };
        let thread = self.threads.entry(known.to_owned()).or_default();
        if let Some(sub) = &mut thread.sub {
            sub.end = sub.end.max(time);
        }
        thread
    }

    fn prompt(&mut self, thread: &str, text: &str, time: Moment) {
        self.close_message(thread);
        if thread == MAIN {
            self.open_turn(time, true);
            if let (Some(clean), Some(turn)) = (&self.clean, &mut self.turn) {
                turn.prompt.text("text", &clean.text(text));
            }
        }
        self.thread(thread, time).ready_at = Some(time);
    }

    fn turn(&mut self, turn: &Turn, time: Moment) {
        self.close_message(MAIN);
        let mut calls: Vec<String> =
            self.calls.iter().filter(|(_, call)| call.thread == MAIN).map(|(id, _)| id.clone()).collect();
        calls.sort_unstable();
        for id in &calls {
            self.close_call(id, time, None);
        }
        let total = turn.so_far.ledger.tokens;
        let used = total.without(self.used);
        self.used = total;
        self.has_total = true;
        let mut attributes = self.turn_attributes();
        let said = self.turn.as_ref().filter(|open| !open.is_vague).map(|open| open.used);
        let is_first_total = std::mem::take(&mut self.goes_on);
        if !turn.so_far.ledger.unreported && total.total() > 0 && !is_first_total {
            usage_attributes(&mut attributes, used, true);
            if !turn.so_far.ledger.exact {
                attributes.push(("tapline.exact", AttributeValue::Flag(false)));
            }
        } else if let Some(used) = said.filter(|used| used.total() > 0) {
            usage_attributes(&mut attributes, used, true);
        }
        attributes.extend(turn.cost_usd.map(|usd| ("tapline.cost_usd", AttributeValue::Number(usd))));
        let reason = turn.stop_reason.as_deref().map(|why| word_or(why, "other"));
        attributes.extend(reason.map(|why| ("gen_ai.response.finish_reasons", AttributeValue::Texts(vec![why.to_owned()]))));
        let open = self.turn.take();
        let was_told = open.as_ref().is_some_and(|open| open.is_told);
        let (start, key) = open
            .as_ref()
            .map_or((time, format!("{}@{}", self.turns, time.as_millis())), |open| (open.start, self.turn_key(open)));
        if let Some(clean) = &self.clean {
            let mut open = open.unwrap_or_else(|| OpenTurn::at(time));
            open.said = turn.result.as_deref().map(|text| clean.text(text)).or(open.said);
            open.finish = reason.map(str::to_owned).or(open.finish);
            attributes.extend(open.content());
        }
        let error = turn.failed.then(|| {
            let subtype = turn.subtype.as_deref().filter(|subtype| *subtype != "success");
            let word = turn.category.map(Category::word).or(subtype.map(|subtype| word_or(subtype, "_OTHER")));
            word.unwrap_or("error").to_owned()
        });
        let message = turn.message.as_deref().zip(self.clean.as_ref()).map(|(text, clean)| clean.text(text));
        let is_new = self.emit_turn(&key, (start, time), attributes, error, message);
        // What another recording of this run has told costs nothing again.
        self.cost.note(turn.so_far.ledger.cost_usd, is_new || was_told);
        // The next request waits for somebody first.
        if let Some(main) = self.threads.get_mut(MAIN) {
            main.ready_at = None;
        }
    }

    fn common(&self, operation: Operation) -> Attributes {
        let mut attributes: Attributes =
            vec![("gen_ai.operation.name", operation.name().into()), ("gen_ai.provider.name", provider(self.agent).into())];
        attributes.extend(self.session.clone().map(|id| ("gen_ai.conversation.id", id.into())));
        attributes
    }

    fn agent_attributes(&self, name: Option<String>) -> Attributes {
        let mut attributes = self.common(Operation::InvokeAgent);
        attributes.extend(name.map(|name| ("gen_ai.agent.name", name.into())));
        attributes.extend(self.about.version.clone().map(|version| ("gen_ai.agent.version", version.into())));
        attributes.extend(self.about.project.clone().map(|project| ("tapline.project", project.into())));
        attributes
    }

    fn turn_attributes(&self) -> Attributes {
        let mut attributes = self.agent_attributes(self.agent_name());
        attributes.extend(self.about.model.clone().map(|model| ("gen_ai.request.model", model.into())));
        let retries = self.turn.as_ref().map_or(0, |turn| turn.retries);
        attributes.extend((retries > 0).then_some(("tapline.retries", retries.into())));
        attributes
    }

    /// Tells a turn, and counts it. Returns whether it was not told before.
    fn emit_turn(
        &mut self,
        key: &str,
        within: (Moment, Moment),
        attributes: Attributes,
        error: Option<String>,
        message: Option<String>,
    ) -> bool {
        let session = Some(self.session_span());
        let is_new = self.emit(Operation::InvokeAgent, "turn", key, session, within, attributes, error, message);
        self.turns += u64::from(is_new);
        is_new
    }

    /// Tells a span, unless it was told before. Returns whether it was not.
    #[expect(clippy::too_many_arguments, reason = "they are the parts of one span, and each caller has all of them")]
    fn emit(
        &mut self,
        operation: Operation,
        kind: &str,
        key: &str,
        parent: Option<[u8; 8]>,
        (start, end): (Moment, Moment),
        mut attributes: Attributes,
        error: Option<String>,
        message: Option<String>,
    ) -> bool {
        let span_id = self.id_of(kind, key);
        if operation != Operation::Session && !self.seen.insert(span_id) {
            return false;
        }
        let last = match operation {
            Operation::Session => self.agent_name(),
            Operation::InvokeAgent => named(&attributes, "gen_ai.agent.name"),
            Operation::Chat => named(&attributes, "gen_ai.request.model"),
            Operation::ExecuteTool => named(&attributes, "gen_ai.tool.name"),
        };
        if operation == Operation::Session {
            attributes.retain(|(name, _)| *name != "gen_ai.operation.name");
        }
        attributes.extend(error.clone().map(|error| ("error.type", error.into())));
        for (name, value) in &mut attributes {
            // Names come from agents, and may be anything. Texts were cut already.
            match value {
                AttributeValue::Text(text) if !CONTENT.contains(name) => cut(text),
                AttributeValue::Texts(texts) => texts.iter_mut().for_each(cut),
                AttributeValue::Text(_) | AttributeValue::Whole(_) | AttributeValue::Number(_) | AttributeValue::Flag(_) => {}
            }
        }
        let name = last.map_or_else(|| operation.name().to_owned(), |last| format!("{} {last}", operation.name()));
        let kind = if operation == Operation::Chat { SpanKind::Client } else { SpanKind::Internal };
        let (trace_id, end) = (trace_id(self.session_key()), end.max(start));
        self.ready.push(AgentSpan { trace_id, span_id, parent, operation, name, kind, start, end, attributes, error, message });
        true
    }
}

/// Returns a text if it is a word as agents have them for reasons and errors, and otherwise the other one: it may be anything.
fn word_or<'t>(text: &'t str, other: &'t str) -> &'t str {
    let is_word =
        !text.is_empty() && text.len() <= LONGEST && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if is_word { text } else { other }
}

/// Cuts a name that is too long to be one.
fn cut(name: &mut String) {
    if name.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
        name.truncate(end);
    }
}

fn named(attributes: &Attributes, key: &str) -> Option<String> {
    attributes.iter().find_map(|(name, value)| match value {
        AttributeValue::Text(text) if *name == key => {
            let mut text = text.clone();
            cut(&mut text);
            Some(text)
        }
        AttributeValue::Text(_)
        | AttributeValue::Texts(_)
        | AttributeValue::Whole(_)
        | AttributeValue::Number(_)
        | AttributeValue::Flag(_) => None,
    })
}
