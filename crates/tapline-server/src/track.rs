//! What the steps of a session add up to while they arrive: how it stands, what it does, its turns, sub-agents and calls. Memory is bounded.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;

use serde_json::Value;
use tapline_protocol::Moment;
use tapline_session::render::html::Card;
use tapline_session::step::{Call, CallAnswer, Step, Task, Turn, What};
use tapline_session::text::one_line;
use tapline_session::{Category, Patience, SessionPhase, SessionState, Verdict, is_of_person, needs_a_person, parse_moment};

use crate::questions::Questions;
use crate::row::{AgentRow, Details, Now, SpanRow, State, TurnRow, cut, now, written};

/// How many calls, turns, sub-agents and so on are remembered of one session.
const MOST: usize = 16_384;
/// How many names of tools are told apart.
const NAMES: usize = 1_024;

/// What is known about a session so far.
#[derive(Debug, Default)]
pub(crate) struct Track {
    pub(crate) session: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) folder: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) first: Option<Moment>,
    pub(crate) last: Option<Moment>,
    pub(crate) verdict: Value,
    /// The tokens of the last request, and how many fit.
    context: (u64, Option<u64>),
    standing: Standing,
    calls: HashMap<String, OpenCall>,
    pub(crate) questions: Questions,
    turns: Vec<TurnRow>,
    /// The turn that has not ended, and whether the agent has said something in it.
    turn: Option<OpenTurn>,
    /// Sub-agents that go on after the call that started them has its answer, by that call.
    behind: HashSet<String>,
    agents: Vec<AgentRow>,
    agent_at: HashMap<String, usize>,
    /// When calls ran: the last of them, and how many came before these.
    spans: VecDeque<Span>,
    earlier: usize,
    /// The names of tools.
    names: Vec<String>,
    limit_until: Option<String>,
}

#[derive(Debug, Default)]
struct Standing {
    phase: SessionPhase,
    since: Option<Moment>,
    message: Option<String>,
}

/// A call without a result. Of its input only the title is kept.
#[derive(Debug)]
struct OpenCall {
    n: usize,
    name: String,
    doing: String,
    title: String,
    time: Option<Moment>,
    agent: Option<String>,
    span: Option<usize>,
}

/// When a call ran. There are many of them, so they are small.
#[derive(Debug)]
struct Span {
    step: u32,
    agent: Option<u32>,
    /// The place of the tool among the names.
    name: u16,
    start: Moment,
    end: Option<Moment>,
}

#[derive(Debug)]
struct OpenTurn {
    began: Option<Moment>,
    has_answer: bool,
    /// Where it is among the turns, unless there are too many.
    at: Option<usize>,
}

impl Track {
    /// Begins with nothing. Large questions go to a file in this folder.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { questions: Questions::new(folder), ..Self::default() }
    }

    /// Takes a step, and what the page shows of it: the first of the cards that it made or changed.
    #[expect(clippy::match_same_arms, reason = "what is left out is named; only a kind that is new falls to the wildcard")]
    pub(crate) fn accept(&mut self, step: &Step, card: Option<&Card>) {
        let time = step.arrived.or_else(|| step.at.as_deref().and_then(parse_moment));
        self.first = self.first.or(time);
        self.last = self.last.max(time);
        if let Some(id) = &step.session_id {
            self.session.get_or_insert_with(|| id.clone());
        }
        if let Some(message) = step.message.as_deref().filter(|_| step.parent.is_none()) {
            self.model = message.model.clone().or_else(|| self.model.take());
            let used = message.tokens().map(|tokens| tokens.prompt());
            self.context.0 = used.filter(|used| *used > 0).unwrap_or(self.context.0);
        }
        self.questions.hear(step);
        if let Some((parent, card)) = card.and_then(|card| Some((card.parent?, card))) {
            self.note_agent(step, parent, card.n);
        }
        match &step.what {
            What::Session(info) => {
                self.session = self.session.take().or_else(|| info.id.clone());
                self.model = info.setup.model.clone().or_else(|| self.model.take());
                self.folder = info.setup.cwd.clone().or_else(|| self.folder.take());
                self.stand(SessionPhase::Working, time, None);
            }
            // What a sub-agent is asked is not what the session is about, nor is a note of the agent's own.
            What::Prompt { text } if step.parent.is_some() || !is_of_person(text) => {
                self.stand(SessionPhase::Working, time, None);
            }
            What::Prompt { text } => {
                self.title.get_or_insert_with(|| short(text));
                self.prompt(time);
                self.stand(SessionPhase::Working, time, None);
            }
            What::Text(_)
            | What::Thinking(_)
            | What::Partial(_)
            | What::ServerCall(_)
            | What::ServerAnswer(_)
            | What::Retry(_) => {
                self.go_on(step, time);
                self.stand(SessionPhase::Working, time, None);
            }
            What::Call(call) => {
                self.go_on(step, time);
                self.stand(SessionPhase::Working, time, None);
                if let Some(card) = card {
                    self.call(call, card, time);
                }
            }
            What::Answer(answer) => self.answer(answer, time),
            What::Turn(turn) => self.turn(turn, time),
            What::RateLimit(limit) => {
                if limit.status.as_deref() == Some("rejected") {
                    self.limit_until.clone_from(&limit.resets_at);
                    self.stand(SessionPhase::Limited, time, None);
                } else if self.standing.phase == SessionPhase::Limited {
                    self.stand(SessionPhase::Working, time, None);
                }
            }
            What::Question(question) if question.kind == "can_use_tool" => self.questions.ask(question, time),
            What::Task(task) => self.task(task),
            // None of them says how the session stands: results of unknown calls, items that are told otherwise, too, what was withdrawn or
            // denied, hooks, other questions, errors that do not end a turn, and what people need not see.
            What::Orphan(_)
            | What::Progress(_)
            | What::Item(_)
            | What::Retracted { .. }
            | What::Hook(_)
            | What::Denied(_)
            | What::Question(_)
            | What::Error { .. }
            | What::Notice(_)
            | What::Quiet { .. }
            | What::Odd(_) => {}
            // A kind that is new: a test fails until `KINDS` has it, too.
            _ => {}
        }
    }

    /// Begins a turn with a prompt. Prompts that come together, before the agent has said something, are one turn.
    fn prompt(&mut self, time: Option<Moment>) {
        if self.turn.as_ref().is_none_or(|turn| turn.has_answer) {
            self.begin_turn(time);
        }
    }

    /// Notes that the main agent says something. If nobody saw the prompt, the turn begins with that.
    fn go_on(&mut self, step: &Step, time: Option<Moment>) {
        if step.parent.is_some() {
            return;
        }
        if self.turn.is_none() {
            self.begin_turn(time);
        }
        self.turn.iter_mut().for_each(|turn| turn.has_answer = true);
    }

    fn begin_turn(&mut self, began: Option<Moment>) {
        let at = (self.turns.len() < MOST).then_some(self.turns.len());
        if at.is_some() {
            self.turns.push(TurnRow { n: self.turns.len() + 1, started_at: began.and_then(written), ..TurnRow::default() });
        }
        self.turn = Some(OpenTurn { began, has_answer: false, at });
    }

    /// Notes a background task. One that is a sub-agent is at work until the task ends, whatever its call says.
    fn task(&mut self, task: &Task) {
        let Some(call) = task.tool_use_id.as_ref().filter(|_| self.behind.len() < MOST) else { return };
        if !task.terminal {
            self.behind.insert(call.clone());
            if let Some(at) = self.agent_at.get(call) {
                "running".clone_into(&mut self.agents[*at].state);
            }
            return;
        }
        self.behind.remove(call);
        if let Some(at) = self.agent_at.get(call) {
            let state = if task.status == "completed" { "finished" } else { "failed" };
            state.clone_into(&mut self.agents[*at].state);
        }
    }

    fn stand(&mut self, phase: SessionPhase, since: Option<Moment>, message: Option<String>) {
        if self.standing.phase != phase || self.standing.since.is_none() {
            self.standing.since = since;
        }
        (self.standing.phase, self.standing.message) = (phase, message);
    }

    /// Notes a sub-agent: it is known by the step of the call that started it.
    fn note_agent(&mut self, step: &Step, parent: usize, first: usize) {
        let Some(id) = step.parent.as_ref().filter(|id| !self.agent_at.contains_key(*id)) else { return };
        if self.agents.len() >= MOST {
            return;
        }
        let call = self.calls.get(id);
        self.agent_at.insert(id.clone(), self.agents.len());
        self.agents.push(AgentRow {
            id: agent_name(parent),
            parent: call.and_then(|call| call.agent.clone()),
            name: call.map(|call| call.title.clone()).unwrap_or_default(),
            state: "running".to_owned(),
            first_step: Some(first),
        });
    }

    fn call(&mut self, call: &Call, card: &Card, time: Option<Moment>) {
        let agent = card.parent.map(agent_name);
        let span = time.map(|start| self.begin_span(&call.name, card, start));
        if let Some(id) = call.id.clone().filter(|_| self.calls.len() < MOST) {
            let (name, doing, title) = (cut(&call.name), cut(&call.doing), cut(&call.title));
            self.calls.insert(id, OpenCall { n: card.n, name, doing, title, time, agent, span });
        }
    }

    /// Notes when a call begins. Returns the number of its span.
    fn begin_span(&mut self, name: &str, card: &Card, start: Moment) -> usize {
        let name = cut(name);
        let known = self.names.iter().position(|known| *known == name);
        let place = known.unwrap_or_else(|| {
            let place = self.names.len();
            self.names.extend(Some(name).filter(|_| place < NAMES));
            place
        });
        let short = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let (step, agent, name) = (short(card.n), card.parent.map(short), u16::try_from(place).unwrap_or(u16::MAX));
        self.spans.push_back(Span { step, agent, name, start, end: None });
        if self.spans.len() > MOST {
            self.spans.pop_front();
            self.earlier += 1;
        }
        self.earlier + self.spans.len() - 1
    }

    fn end_span(&mut self, number: usize, end: Option<Moment>) {
        if let Some(span) = number.checked_sub(self.earlier).and_then(|at| self.spans.get_mut(at)) {
            span.end = end;
        }
    }

    fn answer(&mut self, answer: &CallAnswer, time: Option<Moment>) {
        let Some(id) = &answer.id else { return };
        if let Some(at) = self.agent_at.get(id).filter(|_| !self.behind.contains(id)) {
            let state = if answer.is_error { "failed" } else { "finished" };
            state.clone_into(&mut self.agents[*at].state);
        }
        let Some(open) = self.calls.remove(id) else { return };
        if let Some(span) = open.span {
            self.end_span(span, time);
        }
        self.stand(SessionPhase::Working, time, None);
    }

    fn turn(&mut self, turn: &Turn, time: Option<Moment>) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast from float to integer saturates")]
        let duration = turn.took_ms().map(|ms| ms.round() as u64);
        if self.turn.is_none() {
            self.begin_turn(None);
        }
        if let Some(row) = self.turn.take().and_then(|turn| self.turns.get_mut(turn.at?)) {
            row.duration_ms = duration;
            row.cost_usd = turn.cost_usd;
            row.tokens = turn.usage.counts.tokens();
        }
        let models = turn.model_usage.as_ref().and_then(|models| serde_json::to_value(models).ok()).unwrap_or_default();
        let windows = models.as_object().into_iter().flatten().filter_map(|(_, model)| model["contextWindow"].as_u64());
        self.context.1 = windows.max().or(self.context.1);
        let phase = match (turn.failed, turn.category) {
            _ if turn.is_aborted() => SessionPhase::Interrupted,
            (true, Some(Category::RateLimit)) => SessionPhase::Limited,
            (true, _) => SessionPhase::Failed,
            (false, _) => SessionPhase::Finished,
        };
        self.end_turn(phase, turn.message.as_deref(), time);
    }

    fn end_turn(&mut self, phase: SessionPhase, message: Option<&str>, time: Option<Moment>) {
        let is_told = matches!(phase, SessionPhase::Failed | SessionPhase::Limited);
        self.stand(phase, time, message.filter(|_| is_told).map(short));
    }

    /// Notes how the last turn ended, as a transcript shows it before a step says it.
    pub(crate) fn note_end(&mut self, phase: SessionPhase) {
        if self.standing.phase == SessionPhase::Working {
            let last = self.last;
            if let Some((row, began)) = self.turn.as_ref().and_then(|turn| Some((self.turns.get_mut(turn.at?)?, turn.began?))) {
                row.duration_ms = last.and_then(|last| last.millis_since(began));
            }
            self.end_turn(phase, None, last);
        }
    }

    /// Notes how a recording ended.
    pub(crate) fn note_verdict(&mut self, verdict: &Verdict) {
        self.verdict = verdict.to_json().and_then(|json| serde_json::from_str(json.as_str()).ok()).unwrap_or_default();
        self.calls.clear();
        self.questions.clear();
        // Whoever was at work ended with the run.
        let phase = SessionPhase::from(verdict.outcome);
        for agent in self.agents.iter_mut().filter(|agent| agent.state == "running") {
            (if phase == SessionPhase::Failed { "failed" } else { "finished" }).clone_into(&mut agent.state);
        }
        self.end_turn(phase, verdict.error_for_people(), self.last);
    }

    /// Returns what the session is doing, and since when.
    fn phase(&self) -> (SessionPhase, Option<Moment>) {
        let (phase, since) = (self.standing.phase, self.standing.since);
        if phase != SessionPhase::Working {
            return (phase, since);
        }
        if !self.questions.is_empty() {
            return (SessionPhase::Asking, self.questions.since());
        }
        let asking = self.calls.values().find(|call| needs_a_person(&call.name));
        asking.map_or((phase, since), |call| (SessionPhase::Asking, call.time))
    }

    /// Returns how the session stands now.
    pub(crate) fn state(&self) -> State {
        let (phase, since) = self.phase();
        let limit = self.limit_until.as_deref().and_then(parse_moment).map(Moment::as_millis);
        let kind = SessionState::of(phase, self.last.map(Moment::as_millis), limit, now().as_millis(), Patience::default());
        let since = if kind == SessionState::Silent { self.last } else { since };
        let until = self.limit_until.clone().filter(|_| kind == SessionState::Limited);
        State { kind, since: since.and_then(written), until, message: self.standing.message.clone() }
    }

    /// Returns what the session does now: the call that was made last and has no result.
    pub(crate) fn doing(&self) -> Option<Now> {
        let open = self.calls.values().max_by_key(|call| call.n)?;
        let OpenCall { name, doing, title, .. } = open;
        Some(Now { tool: name.clone(), summary: one_line(&format!("{doing} {title}")), since: open.time.and_then(written) })
    }

    /// Returns which share of the context is used.
    #[expect(clippy::cast_precision_loss, reason = "it is a share for people")]
    pub(crate) fn context_used(&self) -> Option<f64> {
        let window = self.context.1.filter(|window| *window > 0)?;
        (self.context.0 > 0).then(|| (self.context.0 as f64 / window as f64).min(1.0))
    }

    fn span(&self, span: &Span) -> Option<SpanRow> {
        Some(SpanRow {
            step: span.step as usize,
            // There are more names than are told apart.
            name: self.names.get(usize::from(span.name)).map_or("a tool", String::as_str).to_owned(),
            start: written(span.start)?,
            end: span.end.and_then(written),
            agent: span.agent.map(|step| agent_name(step as usize)),
        })
    }

    /// Returns how many things are remembered.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        let maps = self.calls.len() + self.behind.len() + self.agent_at.len();
        maps + self.questions.kept() + self.turns.len() + self.agents.len() + self.spans.len() + self.names.len()
    }

    /// Returns what the side panel shows.
    pub(crate) fn details(&self) -> Details {
        Details {
            turns: self.turns.clone(),
            agents: self.agents.clone(),
            spans: self.spans.iter().filter_map(|span| self.span(span)).collect(),
            verdict: self.verdict.clone(),
            ending: String::new(),
        }
    }
}

fn short(text: &str) -> String {
    one_line(&cut(text.trim()))
}

/// Returns the name of the sub-agent that the call at this step started.
pub(crate) fn agent_name(step: usize) -> String {
    step.to_string()
}

#[cfg(test)]
mod tests;
