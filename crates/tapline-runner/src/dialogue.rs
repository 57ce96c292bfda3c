//! The dialogue in the driver: what this program sends and asks, what the agent asks and gets, and when neither can
//! need anything more.

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

/// What the program sends.
#[derive(Debug)]
pub(crate) enum Say {
    /// A message for the agent.
    Message { uuid: String, line: String, delivery: watch::Sender<Option<Delivery>> },
    /// A request, and where its answer goes. An optional one delays nothing.
    Request { id: String, line: String, reply: oneshot::Sender<Response>, in_passing: bool },
    /// The answer is no longer wanted.
    Withdraw { id: String },
    /// The end of the messages. The agent's input is closed as soon as nothing needs it.
    Finish,
}

/// The next event of a dialogue.
#[derive(Debug)]
pub(crate) enum Spoken {
    /// The program sent something.
    Said(Say),
    /// Nobody can send anything any more.
    Silent,
    /// A request of the agent has its answer.
    Answered(String, Box<Answered>),
}

pub(crate) struct Dialogue {
    answers: Arc<Answers>,
    /// Writes to the agent's input. `None` once it is closed.
    lines: Option<mpsc::UnboundedSender<Vec<u8>>>,
    said: mpsc::UnboundedReceiver<Say>,
    nobody_speaks: bool,
    answer: mpsc::UnboundedSender<(String, Answered)>,
    answered: mpsc::UnboundedReceiver<(String, Answered)>,
    /// The agent's requests without an answer.
    open: HashMap<String, Asked>,
    /// Our requests without an answer.
    pending: HashMap<String, Pending>,
    /// Messages that the agent may still report on.
    deliveries: HashMap<String, watch::Sender<Option<Delivery>>>,
    /// The uuids of all messages that were sent.
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

/// A request of the agent while its answer is being found.
struct Asked {
    task: JoinHandle<()>,
    /// If it is a call of one of our tools: the server, and the id that can cancel the call.
    call: Option<(String, Json)>,
    /// If it is about a call: that call.
    question: Option<Question>,
}

/// The consequences of an event.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) updates: Vec<Update>,
    /// Decisions, for the recording.
    pub(crate) settled: Vec<Settled>,
    /// If something runs that the rules forbid: the reason. The run is then stopped at once.
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

/// An answer that is owed, even if a callback panics where it cannot be caught, while it is dropped.
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
    /// Creates a dialogue that sends through the first channel, and returns what it sends to the agent's input.
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

    /// Waits for the next event.
    pub(crate) async fn next(&mut self) -> Spoken {
        tokio::select! {
            biased;
            Some((id, answered)) = self.answered.recv() => Spoken::Answered(id, Box::new(answered)),
            said = self.said.recv(), if !self.nobody_speaks => said.map_or(Spoken::Silent, Spoken::Said),
        }
    }

    /// Handles an event.
    pub(crate) fn speak(&mut self, spoken: Spoken, activity: &Activity) -> Outcome {
        match spoken {
            Spoken::Said(Say::Message { uuid, line, delivery }) => {
                // The agent ignores a uuid that it knows, so no turn would ever come.
                if !self.used.insert(uuid.clone()) || !self.write(line) {
                    let over = Over { messages: vec![uuid], turn: None };
                    return vec![Update::Over(Box::new(over))].into();
                }
                self.lifecycle.send(uuid.clone(), activity);
                self.deliveries.insert(uuid, delivery);
            }
            Spoken::Said(Say::Request { id, line, reply, in_passing }) => {
                // If this fails, the closed channel tells the caller.
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

    /// Sends the answer to a request, unless the agent has withdrawn it.
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
        // A decision that never reached the agent does not count.
        if let Some(mut settled) = answered.settled.filter(|_| reached) {
            // Earlier versions do not say which call they ask about.
            settled.tool_use_id = settled.tool_use_id.or_else(|| asked.question.as_ref()?.call.clone());
            self.calls.decide(&settled);
            outcome.settle(settled);
        }
        outcome
    }

    /// Takes a line of the agent.
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
            let call = steps
                .iter()
                .find_map(|step| if let What::Question(asked) = &step.what { asked.tool_use_id.clone() } else { None });
            self.ask(asked, call);
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
            let words = format!("a hook that is not tapline's allowed {} before tapline answered", question.tool);
            outcome.updates.push(Update::Trouble(words));
            self.look_into(question.tool, Rewrite::Input(question.input.unwrap_or_else(Json::null)));
        }
        if let Some(response) = event.as_control_response().and_then(|frame| frame.response.as_ref())
            && let Some(wanted) = response.request_id.as_ref().and_then(|id| self.pending.remove(id))
        {
            // An answer that is late, repeated or unexpected has no receiver.
            let _ = wanted.reply.send(response.clone());
        }
        let Heard { over, delivered } = self.lifecycle.accept(record, steps, activity);
        for (uuid, delivery) in delivered {
            if let Some(told) = self.deliveries.get(&uuid) {
                told.send_replace(Some(delivery));
            }
        }
        // Messages that are finished need no more reports.
        let lifecycle = &self.lifecycle;
        self.deliveries.retain(|uuid, told| lifecycle.is_open(uuid, told.borrow().as_ref()));
        outcome.updates.extend(over.into_iter().map(|over| Update::Over(Box::new(over))));
        outcome
    }

    /// Checks whether the rules allow what runs, after a hook of others changed it and we can no longer prevent it.
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

    /// Finds an answer, in a task of its own. If the request asks whether a call may run, its step says which call that is.
    fn ask(&mut self, asked: &ControlRequest, call_of_step: Option<String>) {
        // Without an id, or once the input is closed, no answer could be sent.
        let Some(id) = asked.request_id.clone().filter(|_| self.lines.is_some()) else { return };
        // A request that is sent twice gets one answer.
        if self.open.contains_key(&id) {
            return;
        }
        let request = asked.request.clone().unwrap_or_else(|| Request::Other(None, Json::null()));
        let call = match &request {
            Request::McpMessage(message) => self.mcp(message),
            _ => None,
        };
        let mut question = Question::of(&request);
        if let Some(question) = &mut question {
            question.call = question.call.take().or(call_of_step);
        }
        // Start waiting now, before the next line of the agent is read.
        let waiting = answers::holds(&request).map(|(tool, call)| self.around.others.wait(&tool, call.as_deref()));
        if let Some(call) = question.as_ref().filter(|_| waiting.is_none()).and_then(|question| question.call.as_deref()) {
            self.around.others.goes_on(call);
        }
        let (answers, answer, mut around) = (Arc::clone(&self.answers), self.answer.clone(), self.around.clone());
        // A permission request does not say where the agent has gone since its turn began, but the hook before it did.
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

    /// Handles a message to one of our servers. For a call, returns the id that can cancel it; a cancellation is
    /// carried out.
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

    /// Ends the dialogue, because the agent has ended. Its open requests are dropped.
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

    /// Returns whether the agent owes us a turn.
    pub(crate) fn is_owed(&self) -> bool {
        self.lifecycle.has_sent()
    }

    /// Returns whether the agent waits for our answer.
    pub(crate) fn is_asked(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns when, at the latest, the agent's input must be closed or a message given up.
    pub(crate) fn alarm(&self, activity: &Activity) -> Option<Instant> {
        let close = match self.need(activity) {
            Need::Until(until) | Need::Late(until) if self.lines.is_some() => Some(until),
            Need::Until(_) | Need::Late(_) | Need::Open | Need::Nothing => None,
        };
        close.into_iter().chain(self.lifecycle.due(activity)).min()
    }

    /// Ends messages that no result will ever name.
    pub(crate) fn settle_due(&mut self, activity: &Activity, now: Instant) -> Vec<Update> {
        self.lifecycle.settle_due(activity, now).map(|over| Update::Over(Box::new(over))).into_iter().collect()
    }

    /// Closes the agent's input once nothing needs it.
    pub(crate) fn close_if_over(&mut self, activity: &Activity, now: Instant) {
        let over = match self.need(activity) {
            Need::Nothing => true,
            Need::Until(until) => until <= now,
            Need::Late(_) | Need::Open => false,
        };
        if over {
            self.lines = None;
        }
    }

    /// Returns whether the agent was waited for long enough, although something might still need its input.
    pub(crate) fn is_late(&self, activity: &Activity, now: Instant) -> bool {
        self.lines.is_some() && matches!(self.need(activity), Need::Late(until) if until <= now)
    }

    fn need(&self, activity: &Activity) -> Need {
        match self.finishing {
            Some(since) if self.open.is_empty() && self.pending.values().all(|pending| pending.in_passing) => {
                self.lifecycle.need(activity, self.patience, since)
            }
            _ => Need::Open,
        }
    }

    /// Writes a line. Returns `false` once the agent accepts no more.
    fn write(&mut self, line: String) -> bool {
        let written = self.lines.as_ref().is_some_and(|lines| lines.send(line.into_bytes()).is_ok());
        if !written {
            self.lines = None;
        }
        written
    }
}
