//! The other direction, within the driver: what this program says and asks, what the agent asks and gets, and when nothing more
//! can be needed of either.

mod lifecycle;
mod lines;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tapline_protocol::claude::control::{ControlCancelRequest, ControlRequest, ControlResponse, McpMessage, Request, Response};
use tapline_protocol::{Json, Record};
use tapline_session::{Step, What};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::answers::{Answered, Answers, Places, Settled};
use crate::running::Update;
pub(crate) use lifecycle::Need;
pub use lifecycle::{Delivery, Over};
use lifecycle::{Heard, Lifecycle};
pub(crate) use lines::Lines;

/// What the program says.
#[derive(Debug)]
pub(crate) enum Say {
    /// A message for the agent.
    Message { uuid: String, line: String, delivery: watch::Sender<Option<Delivery>> },
    /// A request, and who wants the answer.
    Request { id: String, line: String, reply: oneshot::Sender<Response> },
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

/// How long what is left open is waited for when no more messages come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For tasks in the background, between two turns.
    pub(crate) background: Option<Duration>,
    /// For an agent to say that it is idle.
    pub(crate) linger: Duration,
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
    pending: HashMap<String, oneshot::Sender<Response>>,
    /// Messages that more may be said of.
    deliveries: HashMap<String, watch::Sender<Option<Delivery>>>,
    /// The names of all that were sent.
    used: HashSet<String>,
    lifecycle: Lifecycle,
    places: Places,
    finishing: Option<Instant>,
    patience: Patience,
}

/// Somebody is finding an answer, until nobody wants it.
struct Asked {
    task: JoinHandle<()>,
    /// A call of a tool of ours: the server, and the call's id there, by which it is taken back.
    call: Option<(String, Json)>,
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
        self.pay(Answered { reply: Some(Err("whoever was asked is gone".to_owned())), ..Answered::default() });
    }
}

impl Dialogue {
    /// A dialogue that speaks through the first, and what it says, for the agent's input.
    pub(crate) fn new(
        answers: Answers,
        cwd: Option<String>,
        said: mpsc::UnboundedReceiver<Say>,
        patience: Patience,
    ) -> (Self, Lines) {
        let (lines, out) = mpsc::unbounded_channel();
        let (answer, answered) = mpsc::unbounded_channel();
        let dialogue = Self {
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
            lifecycle: Lifecycle::new(),
            places: Places { home: cwd.clone(), cwd },
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
    pub(crate) fn speak(&mut self, spoken: Spoken) -> (Vec<Update>, Option<Settled>) {
        match spoken {
            Spoken::Said(Say::Message { uuid, line, delivery }) => {
                // The agent passes over a name that it knows: no turn would ever come.
                if !self.used.insert(uuid.clone()) || !self.write(line) {
                    let over = Over { messages: vec![uuid], turn: None };
                    return (vec![Update::Over(Box::new(over))], None);
                }
                self.lifecycle.send(uuid.clone());
                self.deliveries.insert(uuid, delivery);
            }
            Spoken::Said(Say::Request { id, line, reply }) => {
                // Who waits is told by the end of the channel.
                if self.write(line) {
                    self.pending.insert(id, reply);
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
        (Vec::new(), None)
    }

    /// The answer to a question goes out, unless the agent has taken it back.
    fn settle(&mut self, id: String, answered: Answered) -> (Vec<Update>, Option<Settled>) {
        if self.open.remove(&id).is_none() {
            return (Vec::new(), None);
        }
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
        // What never reached the agent was never decided.
        let settled = answered.settled.filter(|_| reached);
        let mut updates: Vec<_> = answered.trouble.map(Update::Trouble).into_iter().collect();
        updates.extend(settled.clone().map(|settled| Update::Settled(Box::new(settled))));
        (updates, settled)
    }

    /// A line of the agent's came.
    pub(crate) fn accept(&mut self, record: &Record, steps: &[Step], now: Instant) -> Vec<Update> {
        for step in steps {
            if let What::Session(info) = &step.what {
                self.places.cwd = info.setup.cwd.clone().or(self.places.cwd.take());
            }
        }
        let event = &record.event;
        if let Some(asked) = event.as_control_request() {
            self.ask(asked);
        }
        if let Some(cancelled) = event.as_control_cancel_request() {
            // The callback is dropped where it waits.
            self.open.remove(cancelled.request_id.as_deref().unwrap_or_default());
        }
        if let Some(response) = event.as_control_response().and_then(|frame| frame.response.as_ref())
            && let Some(wanted) = response.request_id.as_ref().and_then(|id| self.pending.remove(id))
        {
            // One that comes late, twice or unasked is nobody's.
            let _ = wanted.send(response.clone());
        }
        let Heard { over, delivered } = self.lifecycle.accept(record, steps, now);
        for (uuid, delivery) in delivered {
            if let Some(told) = self.deliveries.get(&uuid) {
                told.send_replace(Some(delivery));
            }
        }
        // Of one that is over and done with, nothing more is said.
        let lifecycle = &self.lifecycle;
        self.deliveries.retain(|uuid, told| lifecycle.is_open(uuid, told.borrow().as_ref()));
        over.into_iter().map(|over| Update::Over(Box::new(over))).collect()
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
        let (answers, answer, places) = (Arc::clone(&self.answers), self.answer.clone(), self.places.clone());
        let asked = id.clone();
        let task = tokio::spawn(async move {
            let mut owed = Owed { answer, id: Some(asked.clone()) };
            let answered = answers.answer(asked, request, places).await;
            owed.pay(answered);
        });
        self.open.insert(id, Asked { task, call });
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

    /// The agent says nothing more: nobody waits for it.
    pub(crate) fn agent_gone(&mut self) {
        self.open.clear();
        self.pending.clear();
        self.deliveries.clear();
        self.lines = None;
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
    pub(crate) fn alarm(&self) -> Option<Instant> {
        let close = match self.need() {
            Need::Until(until) if self.lines.is_some() => Some(until),
            Need::Until(_) | Need::Open | Need::Nothing => None,
        };
        close.into_iter().chain(self.lifecycle.due()).min()
    }

    /// Messages that no result will ever name are over.
    pub(crate) fn settle_due(&mut self, now: Instant) -> Vec<Update> {
        self.lifecycle.settle_due(now).map(|over| Update::Over(Box::new(over))).into_iter().collect()
    }

    /// Closes the agent's input once nothing needs it. `true` if something may, and was waited for long enough.
    pub(crate) fn close_if_over(&mut self, now: Instant) -> bool {
        let (over, gave_up) = match self.need() {
            Need::Nothing => (true, false),
            Need::Until(until) => (until <= now, true),
            Need::Open => (false, false),
        };
        if over {
            self.lines = None;
        }
        over && gave_up
    }

    fn need(&self) -> Need {
        match self.finishing {
            Some(since) if self.open.is_empty() && self.pending.is_empty() => self.lifecycle.need(self.patience, since),
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
