//! A conversation with an agent: turns that return values, and control requests in between.

mod requests;

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use tapline_protocol::control::InitializeReply;
use tapline_protocol::{Json, Record};
use tapline_session::{Category, Report, Step, What};

use crate::agent::Agent;
use crate::ask::Failure;
use crate::control::{Control, Sent, SessionError};
use crate::error::StartError;
use crate::message::Message;
use crate::refusal::{Refusal, RunOption};
use crate::running::Running;
use crate::spec::AgentInput;
use crate::stopper::Stopper;
use crate::turn::TurnReport;
use crate::update::{Over, Update};

/// A running conversation with an agent.
///
/// [`turn`](Self::turn) sends a message and waits for the answer. Control requests are methods, too; to send them at
/// the same time or from another task, use the [`Control`] that [`control`](Self::control) returns.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tapline_runner::Agent;
///
/// let mut session = Agent::claude().session().await?;
/// let first = session.turn("Read the failing test. What does it want?").await?;
/// println!("{}", first.answer);
/// session.set_permission_mode("acceptEdits").await?;
/// println!("{}", session.turn("Make it pass.").await?.answer);
/// println!("{:?} tokens in use", session.context_usage().await?.total_tokens);
/// let report = session.finish().await;
/// println!("{:?}", report.ledger.cost_usd);
/// # Ok(())
/// # }
/// ```
///
/// Updates that you do not read are kept, up to 64 MiB; then the agent waits. Dropping a session kills the agent and every process that it started.
#[derive(Debug)]
#[must_use = "dropping it kills the agent: take turns, and end it with `finish`"]
pub struct Session {
    running: Running,
    control: Control,
    initialized: InitializeReply,
}

impl Agent {
    /// Starts the agent for a conversation. Its prompts come from [`Session::turn`].
    pub async fn session(mut self) -> Result<Session, Failure> {
        self.converses = true;
        if !matches!(self.input, AgentInput::Nothing) {
            let why = "a session gets its prompts from its turns; leave it out";
            return Err(StartError::from(Refusal::new(RunOption::Prompt, why)).into());
        }
        Session::begun(self.start().await?).await
    }
}

impl Session {
    /// Creates a session once its agent has introduced itself.
    pub(crate) async fn begun(mut running: Running) -> Result<Self, Failure> {
        match running.begun().await {
            Some((control, initialized)) => Ok(Self { running, control, initialized }),
            // The agent ended before it said anything, or does not follow the protocol.
            None => Err(Failure::Failed(Box::new(running.finish().await))),
        }
    }

    /// Returns what the agent reported at the start: commands, models, account, version.
    pub fn initialized(&self) -> &InitializeReply {
        &self.initialized
    }

    /// Returns the session id, for [`Agent::resume`]. It is known from the first turn on.
    pub fn id(&self) -> Option<&str> {
        self.running.session_id()
    }

    /// Returns a handle that can talk to the agent from any task.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Sends a message without waiting. Follow it with [`Sent`] or in the updates.
    pub fn send(&self, message: impl Into<Message>) -> Result<Sent, SessionError> {
        self.control.send(message)
    }

    /// Sends a control request that has no method of its own: see [`Control::request_raw`].
    pub async fn request_raw(&self, subtype: &str, fields: impl Into<Json>) -> Result<Json, SessionError> {
        self.control.request_raw(subtype, fields).await
    }

    /// Collects for the report only what the value at this path needs: see [`Running::collect_only`].
    pub fn collect_only(mut self, path: &str) -> Self {
        self.running = self.running.collect_only(path);
        self
    }

    /// Sends a message and waits for the answer: `.await` returns the turn, and [`next`](RunningTurn::next) the updates
    /// on the way.
    pub fn turn(&mut self, message: impl Into<Message>) -> RunningTurn<'_> {
        let sent = self.control.send(message).map(|sent| sent.uuid().to_owned());
        RunningTurn { session: self, sent, steps: Vec::new(), over: None, timed_out: false }
    }

    /// Returns the agent's next line, or `None` after the last.
    pub async fn next(&mut self) -> Option<Record> {
        self.running.next().await
    }

    /// Returns the next update, or `None` after the last.
    pub async fn next_update(&mut self) -> Option<Update> {
        self.running.next_update().await
    }

    /// Returns whether an update is available without waiting.
    pub fn is_ready(&self) -> bool {
        self.running.is_ready()
    }

    /// Returns a handle that can stop the whole session from any task.
    pub fn stopper(&self) -> Stopper {
        self.running.stopper()
    }

    /// Waits until everything has ended (queued messages, and background tasks, which may start further turns),
    /// closes the agent's input, waits for the agent to exit, and returns the report.
    pub async fn finish(self) -> Report {
        self.control.finish();
        self.running.finish().await
    }
}

impl futures_core::Stream for Session {
    type Item = Record;

    fn poll_next(self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> std::task::Poll<Option<Record>> {
        Pin::new(&mut self.get_mut().running).poll_next(context)
    }
}

/// How long to wait for an agent to cancel a message. One that can does so at once.
const TAKES_BACK: Duration = Duration::from_secs(2);

/// A running turn. It starts when this value is created. Dropping it does not end the turn: interrupt it instead.
#[derive(Debug)]
#[must_use = "the turn has started: await it, or read its updates with `next`"]
pub struct RunningTurn<'a> {
    session: &'a mut Session,
    sent: Result<String, SessionError>,
    steps: Vec<Step>,
    over: Option<Over>,
    timed_out: bool,
}

impl RunningTurn<'_> {
    /// Returns the next update of the session, or `None` once the turn has ended.
    pub async fn next(&mut self) -> Option<Update> {
        if self.over.is_some() {
            return None;
        }
        let Ok(uuid) = &self.sent else { return None };
        let update = self.session.running.next_update().await?;
        match &update {
            Update::Over(over) if over.messages.contains(uuid) => {
                self.over = Some(Over::clone(over));
                return None;
            }
            Update::Record(seen) => {
                self.steps.extend(seen.steps.iter().filter(|step| !matches!(step.what, What::Partial(_))).cloned());
            }
            Update::Over(_)
            | Update::Sent(_)
            | Update::Stderr(_)
            | Update::Lost(_)
            | Update::Stopping(_)
            | Update::Left(_)
            | Update::Settled(_)
            | Update::Trouble(_) => {}
        }
        Some(update)
    }

    /// Waits at most this long. Then the message is cancelled or its turn interrupted, and the result is an error.
    pub async fn timeout(mut self, limit: Duration) -> Result<TurnReport, SessionError> {
        let ended = tokio::time::timeout(limit, async { while self.next().await.is_some() {} }).await;
        self.timed_out = ended.is_err();
        if let (true, Ok(uuid)) = (self.timed_out, &self.sent) {
            let control = self.session.control.clone();
            // A message that waits for its turn must not cost another message its turn. Versions that cannot cancel say
            // so, or do not answer.
            let taken_back = control.within(TAKES_BACK).cancel_message(uuid).await;
            if !taken_back.is_ok_and(|reply| reply.cancelled == Some(true)) {
                control.interrupt().await?;
            }
            let within = control.deadline();
            let rest = tokio::time::timeout(within, async { while self.next().await.is_some() {} }).await;
            rest.map_err(|_| SessionError::NoAnswer { request: "turn".to_owned(), within })?;
        }
        self.end().await
    }

    async fn end(mut self) -> Result<TurnReport, SessionError> {
        while self.next().await.is_some() {}
        let message = self.sent?;
        match self.over {
            None => Err(SessionError::Ended { request: "turn".to_owned() }),
            Some(Over { turn: None, .. }) => Err(SessionError::Cancelled),
            Some(Over { turn: Some(mut end), .. }) => {
                if self.timed_out && end.failed {
                    // The agent knows only that it was interrupted.
                    (end.category, end.message) = (Some(Category::Timeout), Some(Category::Timeout.word().to_owned()));
                }
                let turn = TurnReport::new(message, *end, self.steps);
                // A turn that a later message cut short has no answer, whatever its result says.
                match (turn.is_aborted(), turn.end.failed) {
                    (true, _) => Err(SessionError::Interrupted(Box::new(turn))),
                    (false, true) => Err(SessionError::Failed(Box::new(turn))),
                    (false, false) => Ok(turn),
                }
            }
        }
    }
}

impl<'a> IntoFuture for RunningTurn<'a> {
    type Output = Result<TurnReport, SessionError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.end())
    }
}
