//! The other direction, within the driver: what this program says and asks, what the agent asks and gets, and when nothing more
//! can be needed of either.

mod calls;
mod lifecycle;
mod lines;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tapline_protocol::control::{ControlCancelRequest, ControlRequest, ControlResponse, McpMessage, Request, Response};
use tapline_protocol::{Json, Record};
use tapline_session::{Step, What};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::activity::Activity;
use crate::answers::{self, Answered, Answers, Around, Others, Places, Rewrite};
use crate::settled::Settled;
use crate::update::{Delivery, Over, Update};
use calls::{Calls, Question};
pub(crate) use lifecycle::Patience;
use lifecycle::{Heard, Lifecycle, Need};
pub(crate) use lines::Lines;

/// What the program says.
#[derive(Debug)]
pub(crate) enum Say {
    /// A message for the agent.
    Message { uuid: String, line: String, delivery: watch::Sender<Option<Delivery>> },
    /// A request, and who wants the answer; one in passing holds up nothing.
    Request { id: String, line: String, reply: oneshot::Sender<Response>, in_passing: bool },
    /// The answer is no longer wanted.
    Withdraw { id: String },
    /// No more messages come: the agent's input is closed as soon as nothing needs it.
    Finish,
}

/// What came next.
#[derive(Debug)]
pub(crate) enum Spoken {
    /// The program said something.
    Said(Say),
    /// Nobody can say anything any more.
    Silent,
    /// A question of the agent's has its answer.
    Answered(String, Box<Answered>),
}

pub(crate) struct Dialogue {
    answers: Arc<Answers>,
    /// To the agent's input; none once it is closed.
    lines: Option<mpsc::UnboundedSender<Vec<u8>>>,
    said: mpsc::UnboundedReceiver<Say>,
    nobody_speaks: bool,
    answer: mpsc::UnboundedSender<(String, Answered)>,
    answered: mpsc::UnboundedReceiver<(String, Answered)>,
    /// The agent's questions that have no answer yet.
    open: HashMap<String, Asked>,
    /// Our requests that have none.
    pending: HashMap<String, Pending>,
    /// Messages that more may be said of.
    deliveries: HashMap<String, watch::Sender<Option<Delivery>>>,
    /// The names of all that were sent.
    used: HashSet<String>,
    lifecycle: Lifecycle,
    around: Around,
    /// Which calls were decided, and by whom.
    calls: Calls,
    finishing: Option<Instant>,
    patience: Patience,
}

/// A request of ours.
struct Pending {
    reply: oneshot::Sender<Response>,
    in_passing: bool,
}

/// Somebody is finding an answer, until nobody wants it.
struct Asked {
    task: JoinHandle<()>,
    /// A call of a tool of ours: the server, and the call's id there, by which it is taken back.
    call: Option<(String, Json)>,
    /// Whether a call may run.
    question: Option<Question>,
}

/// What follows from what was said or heard.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) updates: Vec<Update>,
    /// Decisions, for the recording.
    pub(crate) settled: Vec<Settled>,
    /// What the rules do not let run runs: the run is to be stopped at once, and why.
    pub(crate) violated: Option<String>,
}

impl Outcome {
    fn settle(&mut self, settled: Settled) {
        self.updates.push(Update::Settled(Box::new(settled.clone())));
        self.settled.push(settled);
    }
}

impl From<Vec<Update>> for Outcome {
    fn from(updates: Vec<Update>) -> Self {
        Self { updates, ..Self::default() }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An answer that is owed: also by a callback that panics where nobody can catch it, while it is dropped.
struct Owed {
    answer: mpsc::UnboundedSender<(String, Answered)>,
    id: Option<String>,
}

impl Owed {
    fn pay(&mut self, answered: Answered) {
        if let Some(id) = self.id.take() {
            let _ = self.answer.send((id, answered));
        }
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        self.pay(Answered { reply: Some(Err("the callback ended without an answer".to_owned())), ..Answered::default() });
    }
}

impl Dialogue {
    /// A dialogue that speaks through the first, and what it says, for the agent's input.
    pub(crate) fn new(
        answers: Answers,
        cwd: Option<String>,
        others: Others,
        said: mpsc::UnboundedReceiver<Say>,
        patience: Patience,
    ) -> (Self, Lines) {
        let (lines, out) = mpsc::unbounded_channel();
        let (answer, answered) = mpsc::unbounded_channel();
        let dialogue = Self {
            calls: Calls::new(answers.asks_permission()),
            answers: Arc::new(answers),
            lines: Some(lines),
            said,
            nobody_speaks: false,
            answer,
            answered,
            open: HashMap::new(),
            pending: HashMap::new(),
            deliveries: HashMap::new(),
            used: HashSet::new(),
            lifecycle: Lifecycle::default(),
            around: Around { places: Places { home: cwd.clone(), cwd }, others },
            finishing: None,
            patience,
        };
        (dialogue, Lines::new(out))
    }

    /// What comes next.
    pub(crate) async fn next(&mut self) -> Spoken {
        tokio::select! {
            biased;
            Some((id, answered)) = self.answered.recv() => Spoken::Answered(id, Box::new(answered)),
            said = self.said.recv(), if !self.nobody_speaks => said.map_or(Spoken::Silent, Spoken::Said),
        }
    }

    /// Sees to what came, and says how a question of the agent's was settled.
    pub(crate) fn speak(&mut self, spoken: Spoken, activity: &Activity) -> Outcome {
        match spoken {
            Spoken::Said(Say::Message { uuid, line, delivery }) => {
                // The agent passes over a name that it knows: no turn would ever come.
                if !self.used.insert(uuid.clone()) || !self.write(line) {
                    let over = Over { messages: vec![uuid], turn: None };
                    return vec![Update::Over(Box::new(over))].into();
                }
                self.lifecycle.send(uuid.clone(), activity);
                self.deliveries.insert(uuid, delivery);
            }
            Spoken::Said(Say::Request { id, line, reply, in_passing }) => {
                // Who waits is told by the end of the channel.
                if self.write(line) {
                    self.pending.insert(id, Pending { reply, in_passing });
                }
            }
            Spoken::Said(Say::Withdraw { id }) => {
                if self.pending.remove(&id).is_some() {
                    self.write(ControlCancelRequest { request_id: Some(id) }.to_line());
                }
            }
            Spoken::Said(Say::Finish) => drop(self.finishing.get_or_insert_with(Instant::now)),
            Spoken::Silent => {
                self.nobody_speaks = true;
                self.finishing.get_or_insert_with(Instant::now);
            }
            Spoken::Answered(id, answered) => return self.settle(id, *answered),
        }
        Outcome::default()
    }

    /// The answer to a question goes out, unless the agent has taken it back.
    fn settle(&mut self, id: String, answered: Answered) -> Outcome {
        let Some(asked) = self.open.remove(&id) else { return Outcome::default() };
        let mut reached = true;
        if let Some(reply) = answered.reply {
            let (subtype, response, error) = match reply {
                Ok(payload) => ("success", Some(payload), None),
                Err(error) => ("error", None, Some(error)),
            };
            let response =
                Response { subtype: Some(subtype.to_owned()), request_id: Some(id), response, error, ..Response::default() };
            reached = self.write(ControlResponse { response: Some(response) }.to_line());
        }
        let mut outcome = Outcome::from(answered.trouble.map(Update::Trouble).into_iter().collect::<Vec<_>>());
        outcome.violated = answered.violated;
        // What never reached the agent was never decided.
        if let Some(mut settled) = answered.settled.filter(|_| reached) {
            // Earlier versions do not say which call they ask about.
            settled.tool_use_id = settled.tool_use_id.or_else(|| asked.question.as_ref()?.call.clone());
            self.calls.decide(&settled);
            outcome.settle(settled);
        }
        outcome
    }

    /// A line of the agent's came.
    pub(crate) fn accept(&mut self, record: &Record, steps: &[Step], activity: &Activity) -> Outcome {
        for step in steps {
            if let What::Session(info) = &step.what {
                let places = &mut self.around.places;
                places.cwd = info.setup.cwd.clone().or(places.cwd.take());
            }
        }
        let event = &record.event;
        if let Some(hook) = event.as_hook_started() {
            self.around.others.begins(hook);
        }
        if let Some((tool, rewrite)) = event.as_hook_response().and_then(|hook| self.around.others.ends(hook)) {
            self.look_into(tool, rewrite);
        }
        if let Some(asked) = event.as_control_request() {
            self.ask(asked);
        }
        let mut outcome = Outcome::default();
        if let Some(cancelled) = event.as_control_cancel_request() {
            // The callback is dropped where it waits.
            let asked = self.open.remove(cancelled.request_id.as_deref().unwrap_or_default());
            if let Some(question) = asked.and_then(|mut asked| asked.question.take()) {
                self.calls.withdraw(question);
            }
        }
        let (settled, taken) = self.calls.accept(record, steps);
        for settled in settled {
            outcome.settle(settled);
        }
        for question in taken {
            let words = format!("a hook of somebody else's let {} run before anybody here had answered", question.tool);
            outcome.updates.push(Update::Trouble(words));
            self.look_into(question.tool, Rewrite::Input(question.input.unwrap_or_else(Json::null)));
        }
        if let Some(response) = event.as_control_response().and_then(|frame| frame.response.as_ref())
            && let Some(wanted) = response.request_id.as_ref().and_then(|id| self.pending.remove(id))
        {
            // One that comes late, twice or unasked is nobody's.
            let _ = wanted.reply.send(response.clone());
        }
        let Heard { over, delivered } = self.lifecycle.accept(record, steps, activity);
        for (uuid, delivery) in delivered {
            if let Some(told) = self.deliveries.get(&uuid) {
                told.send_replace(Some(delivery));
            }
        }
        // Of one that is over and done with, nothing more is said.
        let lifecycle = &self.lifecycle;
        self.deliveries.retain(|uuid, told| lifecycle.is_open(uuid, told.borrow().as_ref()));
        outcome.updates.extend(over.into_iter().map(|over| Update::Over(Box::new(over))));
        outcome
    }

    /// Somebody else's hook changed what runs, and nobody here can hold it back: is it what the rules let run?
    fn look_into(&mut self, tool: String, rewrite: Rewrite) {
        let (answers, answer, around) = (Arc::clone(&self.answers), self.answer.clone(), self.around.clone());
        let id = format!("look-{}", crate::marker::random());
        let asked = id.clone();
        let task = tokio::spawn(async move {
            let answered = answers.too_late(&tool, &rewrite, &around).await;
            let _ = answer.send((asked, answered));
        });
        self.open.insert(id, Asked { task, call: None, question: None });
    }

    /// Finds an answer, beside everything else.
    fn ask(&mut self, asked: &ControlRequest) {
        // Without an id, or once its input is closed, nobody could be told.
        let Some(id) = asked.request_id.clone().filter(|_| self.lines.is_some()) else { return };
        // One that is asked twice has one answer.
        if self.open.contains_key(&id) {
            return;
        }
        let request = asked.request.clone().unwrap_or_else(|| Request::Other(None, Json::null()));
        let call = match &request {
            Request::McpMessage(message) => self.mcp(message),
            _ => None,
        };
        let mut question = Question::of(&request);
        self.calls.find(question.as_mut());
        // From here on, before the next line of the agent's is read.
        let waiting = answers::holds(&request).map(|(tool, call)| self.around.others.wait(&tool, call.as_deref()));
        if let Some(call) = question.as_ref().filter(|_| waiting.is_none()).and_then(|question| question.call.as_deref()) {
            self.around.others.goes_on(call);
        }
        let (answers, answer, mut around) = (Arc::clone(&self.answers), self.answer.clone(), self.around.clone());
        // A question does not say where the agent has gone since its turn began; the hook before it did.
        let cwd = question.as_ref().and_then(|question| self.around.others.cwd_of(question.call.as_deref()?));
        around.places.cwd = cwd.or(around.places.cwd);
        let asked = id.clone();
        let task = tokio::spawn(async move {
            let mut owed = Owed { answer, id: Some(asked.clone()) };
            let answered = answers.answer(asked, request, around, waiting).await;
            owed.pay(answered);
        });
        self.open.insert(id, Asked { task, call, question });
    }

    /// A message to a server of ours: the call that it is, by which it can be taken back; one that takes a call back does so.
    fn mcp(&mut self, message: &McpMessage) -> Option<(String, Json)> {
        let (server, message) = (message.server_name.clone()?, message.message.as_ref()?);
        if message.text_of("method").as_deref() == Some("notifications/cancelled") {
            let cancelled = Some((server, message.get("params")?.get("requestId")?));
            let found = self.open.iter().find(|(_, asked)| asked.call == cancelled).map(|(id, _)| id.clone());
            if let Some(id) = found {
                let answer = Answered { reply: Some(Err("the call was cancelled".to_owned())), ..Answered::default() };
                self.settle(id, answer);
            }
            return None;
        }
        Some((server, message.get("id")?))
    }

    /// The agent says nothing more: nobody waits for it. What it asked last it no longer wants to know.
    pub(crate) fn agent_gone(&mut self) -> Outcome {
        for (_, mut asked) in self.open.drain() {
            if let Some(question) = asked.question.take() {
                self.calls.withdraw(question);
            }
        }
        let mut outcome = Outcome::default();
        for settled in self.calls.end() {
            outcome.settle(settled);
        }
        self.pending.clear();
        self.deliveries.clear();
        self.lines = None;
        outcome
    }

    /// Whether the agent owes us a turn.
    pub(crate) fn is_owed(&self) -> bool {
        self.lifecycle.has_sent()
    }

    /// Whether the agent waits for an answer of ours.
    pub(crate) fn is_asked(&self) -> bool {
        !self.open.is_empty()
    }

    /// When the agent's input is to be closed, or a message is to be given up, whatever happens until then.
    pub(crate) fn alarm(&self, activity: &Activity) -> Option<Instant> {
        let close = match self.need(activity) {
            Need::Until(until) if self.lines.is_some() => Some(until),
            Need::Until(_) | Need::Open | Need::Nothing => None,
        };
        close.into_iter().chain(self.lifecycle.due(activity)).min()
    }

    /// Messages that no result will ever name are over.
    pub(crate) fn settle_due(&mut self, activity: &Activity, now: Instant) -> Vec<Update> {
        self.lifecycle.settle_due(activity, now).map(|over| Update::Over(Box::new(over))).into_iter().collect()
    }

    /// Closes the agent's input once nothing needs it. `true` if something may, and was waited for long enough.
    pub(crate) fn close_if_over(&mut self, activity: &Activity, now: Instant) -> bool {
        let (over, gave_up) = match self.need(activity) {
            Need::Nothing => (true, false),
            Need::Until(until) => (until <= now, true),
            Need::Open => (false, false),
        };
        if over {
            self.lines = None;
        }
        over && gave_up
    }

    fn need(&self, activity: &Activity) -> Need {
        match self.finishing {
            Some(since) if self.open.is_empty() && self.pending.values().all(|pending| pending.in_passing) => {
                self.lifecycle.need(activity, self.patience, since)
            }
            _ => Need::Open,
        }
    }

    /// `false` once the agent takes no more.
    fn write(&mut self, line: String) -> bool {
        let written = self.lines.as_ref().is_some_and(|lines| lines.send(line.into_bytes()).is_ok());
        if !written {
            self.lines = None;
        }
        written
    }
}
