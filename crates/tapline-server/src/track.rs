//! What the steps of a session add up to while they arrive: how it stands, what it does, its turns, sub-agents and calls. Memory is bounded.

use std::collections::HashMap;

use serde_json::Value;
use tapline_protocol::Moment;
use tapline_session::render::html::Card;
use tapline_session::step::{Call, CallAnswer, Question, Step, Turn, What};
use tapline_session::text::one_line;
use tapline_session::{Category, Outcome, Verdict, parse_moment};

use crate::row::{AgentRow, Details, Now, OpenQuestion, SpanRow, State, StateKind, TokenSums, TurnRow, now, written};

/// How many calls, turns, sub-agents and so on are remembered of one session.
const MOST: usize = 16_384;
/// How many open questions are remembered: all of them are in the row.
const QUESTIONS: usize = 64;
/// How many characters of a title are shown.
const TITLE: usize = 300;
/// How many characters of a question are shown. A person decides by them.
const SUMMARY: usize = 8_192;
/// A session that does nothing for this long, in milliseconds, is silent.
const SILENT: u64 = 2 * 60 * 1_000;
/// A call that has no result for this long will have none.
const IN_CALL: u64 = 60 * 60 * 1_000;

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
    questions: Vec<Asked>,
    turns: Vec<TurnRow>,
    turn_began: Option<Moment>,
    agents: Vec<AgentRow>,
    agent_at: HashMap<String, usize>,
    spans: Vec<SpanRow>,
    limit_until: Option<String>,
}

#[derive(Debug, Default)]
struct Standing {
    kind: StateKind,
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

#[derive(Debug)]
struct Asked {
    question: Question,
    since: Option<Moment>,
}

impl Track {
    /// Takes a step, and what the page shows of it: the first of the cards that it made or changed.
    pub(crate) fn accept(&mut self, step: &Step, card: Option<&Card>) {
        let time = step.arrived.or_else(|| step.at.as_deref().and_then(parse_moment));
        self.first = self.first.or(time);
        self.last = self.last.max(time);
        if let Some(id) = &step.session_id {
            self.session.get_or_insert_with(|| id.clone());
        }
        if let Some(message) = step.message.as_deref().filter(|_| step.parent.is_none()) {
            self.model = message.model.clone().or_else(|| self.model.take());
            let used = message.usage.map(|usage| {
                [usage.cache_read_input_tokens, usage.cache_creation_input_tokens]
                    .into_iter()
                    .fold(usage.input_tokens, u64::saturating_add)
            });
            self.context.0 = used.filter(|used| *used > 0).unwrap_or(self.context.0);
        }
        self.hear_answers(step);
        if let Some((parent, card)) = card.and_then(|card| Some((card.parent?, card))) {
            self.note_agent(step, parent, card.n);
        }
        match &step.what {
            What::Session(info) => {
                self.session = self.session.take().or_else(|| info.id.clone());
                self.model = info.setup.model.clone().or_else(|| self.model.take());
                self.folder = info.setup.cwd.clone().or_else(|| self.folder.take());
                self.stand(StateKind::Running, time, None);
            }
            // What a sub-agent is asked is not what the session is about.
            What::Prompt { .. } if step.parent.is_some() => self.stand(StateKind::Running, time, None),
            What::Prompt { text } => {
                self.title.get_or_insert_with(|| short(text));
                self.turn_began = time;
                self.stand(StateKind::Running, time, None);
            }
            What::Text(_) | What::Thinking(_) | What::Partial(_) => self.stand(StateKind::Running, time, None),
            What::Call(call) => {
                self.stand(StateKind::Running, time, None);
                if let Some(card) = card {
                    self.call(call, card, time);
                }
            }
            What::Answer(answer) => self.answer(answer, time),
            What::Turn(turn) => self.turn(turn, time),
            What::RateLimit(limit) => {
                if limit.status.as_deref() == Some("rejected") {
                    self.limit_until.clone_from(&limit.resets_at);
                    self.stand(StateKind::Limited, time, None);
                } else if self.standing.kind == StateKind::Limited {
                    self.stand(StateKind::Running, time, None);
                }
            }
            What::Question(question) if self.questions.len() < QUESTIONS && question.kind == "can_use_tool" => {
                self.questions.push(Asked { question: question.clone(), since: time });
            }
            _ => {}
        }
    }

    /// Notes which questions are answered, by what follows them.
    fn hear_answers(&mut self, step: &Step) {
        match &step.what {
            What::Answer(answer) => {
                let about = answer.name.as_ref().zip(answer.title.as_ref()).map(|(name, title)| format!("{name} {title}"));
                let is_open = |asked: &Asked| asked.question.about == about;
                match self.questions.iter().position(is_open) {
                    Some(at) => drop(self.questions.remove(at)),
                    // Its call was not seen.
                    None if self.questions.len() == 1 => self.questions.clear(),
                    None => {}
                }
            }
            What::Turn(_) | What::Prompt { .. } => self.questions.clear(),
            // The main agent goes on only when it has its answers.
            What::Text(_) | What::Call(_) if step.parent.is_none() => self.questions.clear(),
            _ => {}
        }
    }

    fn stand(&mut self, kind: StateKind, since: Option<Moment>, message: Option<String>) {
        if self.standing.kind != kind || self.standing.since.is_none() {
            self.standing.since = since;
        }
        (self.standing.kind, self.standing.message) = (kind, message);
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
        let span = time.and_then(written).filter(|_| self.spans.len() < MOST).map(|start| {
            self.spans.push(SpanRow { step: card.n, name: cut(&call.name), start, end: None, agent: agent.clone() });
            self.spans.len() - 1
        });
        if let Some(id) = call.id.clone().filter(|_| self.calls.len() < MOST) {
            let (name, doing, title) = (cut(&call.name), cut(&call.doing), cut(&call.title));
            self.calls.insert(id, OpenCall { n: card.n, name, doing, title, time, agent, span });
        }
    }

    fn answer(&mut self, answer: &CallAnswer, time: Option<Moment>) {
        let Some(id) = &answer.id else { return };
        if let Some(at) = self.agent_at.get(id) {
            let state = if answer.is_error { "failed" } else { "finished" };
            state.clone_into(&mut self.agents[*at].state);
        }
        let Some(open) = self.calls.remove(id) else { return };
        if let Some(span) = open.span {
            self.spans[span].end = time.and_then(written);
        }
        self.stand(StateKind::Running, time, None);
    }

    fn turn(&mut self, turn: &Turn, time: Option<Moment>) {
        let usage = serde_json::to_value(&turn.usage).unwrap_or_default();
        let count = |key: &str| usage[key].as_u64().unwrap_or(0);
        let duration = turn.elapsed_ms.or_else(|| turn.duration_ms.as_ref().and_then(tapline_protocol::Number::as_whole));
        let began = self.turn_began.take();
        if self.turns.len() < MOST {
            self.turns.push(TurnRow {
                n: turn.index + 1,
                started_at: began.and_then(written),
                duration_ms: duration,
                cost_usd: turn.cost_usd,
                tokens: TokenSums {
                    input: count("input_tokens"),
                    output: count("output_tokens"),
                    cache_read: count("cache_read_input_tokens"),
                    cache_write: count("cache_creation_input_tokens"),
                },
            });
        }
        let models = turn.model_usage.as_ref().and_then(|models| serde_json::to_value(models).ok()).unwrap_or_default();
        let windows = models.as_object().into_iter().flatten().filter_map(|(_, model)| model["contextWindow"].as_u64());
        self.context.1 = windows.max().or(self.context.1);
        self.end_turn(turn.failed, turn.category, turn.message.clone(), time);
    }

    fn end_turn(&mut self, failed: bool, category: Option<Category>, message: Option<String>, time: Option<Moment>) {
        let kind = match (failed, category) {
            (true, Some(Category::RateLimit)) => StateKind::Limited,
            (true, _) => StateKind::Failed,
            (false, _) => StateKind::Finished,
        };
        self.stand(kind, time, message.filter(|_| failed).map(|message| short(&message)));
    }

    /// Notes that the last turn has ended, as a transcript shows it before a step says it.
    pub(crate) fn note_end(&mut self, failed: bool) {
        if self.standing.kind == StateKind::Running {
            self.end_turn(failed, None, None, self.last);
        }
    }

    /// Notes how a recording ended.
    pub(crate) fn note_verdict(&mut self, verdict: &Verdict) {
        self.verdict = verdict.to_json().and_then(|json| serde_json::from_str(json.as_str()).ok()).unwrap_or_default();
        if verdict.retry.at.is_some() {
            self.limit_until.clone_from(&verdict.retry.at);
        }
        let failed = verdict.outcome != Outcome::Success;
        self.calls.clear();
        self.questions.clear();
        self.end_turn(failed, verdict.category, verdict.error_for_people().map(str::to_owned), self.last);
    }

    /// Returns how the session stands now.
    pub(crate) fn state(&self) -> State {
        let Standing { kind, since, message } = &self.standing;
        let quiet = |limit: u64| self.last.is_none_or(|last| now().millis_since(last).is_some_and(|ms| ms > limit));
        let (kind, since) = match kind {
            StateKind::Running if !self.questions.is_empty() => {
                (StateKind::Waiting, self.questions.first().and_then(|asked| asked.since))
            }
            StateKind::Running if quiet(if self.calls.is_empty() { SILENT } else { IN_CALL }) => (StateKind::Silent, self.last),
            kind => (*kind, *since),
        };
        let until = self.limit_until.clone().filter(|_| kind == StateKind::Limited);
        State { kind, since: since.and_then(written), until, message: message.clone() }
    }

    /// Returns what the session does now: the call that was made last and has no result.
    pub(crate) fn doing(&self) -> Option<Now> {
        let open = self.calls.values().max_by_key(|call| call.n)?;
        let OpenCall { name, doing, title, .. } = open;
        Some(Now { tool: name.clone(), summary: one_line(&format!("{doing} {title}")), since: open.time.and_then(written) })
    }

    /// Returns the questions that wait for a person.
    pub(crate) fn questions(&self) -> Vec<OpenQuestion> {
        let told = |asked: &Asked| OpenQuestion {
            id: asked.question.request_id.clone().unwrap_or_default(),
            tool: cut(asked.question.about.as_deref().unwrap_or_default().split([' ', ':', '(']).next().unwrap_or_default()),
            summary: asked.question.about.as_deref().unwrap_or_default().chars().take(SUMMARY).collect(),
            since: asked.since.and_then(written),
        };
        self.questions.iter().map(told).collect()
    }

    /// Returns which share of the context is used.
    #[expect(clippy::cast_precision_loss, reason = "it is a share for people")]
    pub(crate) fn context_used(&self) -> Option<f64> {
        let window = self.context.1.filter(|window| *window > 0)?;
        (self.context.0 > 0).then(|| (self.context.0 as f64 / window as f64).min(1.0))
    }

    /// Returns what the side panel shows.
    pub(crate) fn details(&self) -> Details {
        Details {
            turns: self.turns.clone(),
            agents: self.agents.clone(),
            spans: self.spans.clone(),
            verdict: self.verdict.clone(),
        }
    }
}

fn short(text: &str) -> String {
    one_line(&cut(text.trim()))
}

/// Returns as much of a text as a row shows: whoever writes it does not decide how large the list is.
pub(crate) fn cut(text: &str) -> String {
    text.chars().take(TITLE).collect()
}

/// Returns the name of the sub-agent that the call at this step started.
pub(crate) fn agent_name(step: usize) -> String {
    step.to_string()
}
