//! A conversation: one task of the runtime owns it and takes its turns one after the other; requests go beside them.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use pyo3::IntoPyObjectExt as _;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tapline::{Agent, Control, Failure, Json, Message, Priority, RunningTurn, SessionError, Update};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::answers::Asker;
use crate::json::raw;
use crate::options;
use crate::report::Report;
use crate::run::{Begun, failure, happened, pass_on_stops, until_killed};
use crate::runtime::{Owned, Post, not_forked, shared};
use crate::step::objects;
use crate::time::seconds;

/// What Python asks of the task.
enum Ask {
    Turn {
        message: Message,
        limit: Option<Duration>,
        live: bool,
        listen: Post,
        post: Post,
    },
    /// What happens next while no turn is under way.
    Next(Post),
    /// No more turns: the report.
    Finish(Post),
}

/// Python's end of a session. Control is there once it has started.
#[pyclass(frozen, name = "SessionHandle", module = "tapline._native")]
pub(crate) struct Session(Mutex<Owned<Ends>>);

struct Ends {
    asks: mpsc::UnboundedSender<Ask>,
    stops: mpsc::UnboundedSender<()>,
    control: Arc<OnceLock<Control>>,
    /// Dropped to kill.
    _alive: oneshot::Sender<()>,
}

/// The session has ended.
fn ended(what: &str) -> PyErr {
    PyRuntimeError::new_err(format!("{what}: the session has ended or has not begun"))
}

impl Session {
    fn with<T>(&self, use_it: impl FnOnce(&Ends) -> T) -> PyResult<Option<T>> {
        not_forked()?;
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).get().map(use_it))
    }

    /// Asks the task. One that has ended drops what it is asked, and so answers with None.
    fn ask(&self, ask: Ask) -> PyResult<()> {
        self.with(|ends| drop(ends.asks.send(ask)))?;
        Ok(())
    }

    fn control(&self, what: &str) -> PyResult<Control> {
        self.with(|ends| ends.control.get().cloned())?.flatten().ok_or_else(|| ended(what))
    }
}

#[pymethods]
impl Session {
    /// Sends a message and calls `post` with its turn, or with why there is none. `listen` is called with lists of what happens on
    /// the way; steps are among it if `live`, else they come with the turn.
    fn turn(
        &self,
        message: &Bound<'_, PyDict>,
        limit: Option<f64>,
        live: bool,
        listen: Py<PyAny>,
        post: Py<PyAny>,
    ) -> PyResult<()> {
        let limit = limit.map(|limit| seconds("timeout", limit)).transpose()?;
        let message = read_message(message)?;
        let ask = Ask::Turn { message, limit, live, listen: Post::new(listen), post: Post::new(post) };
        let sent = self.with(|ends| ends.asks.send(ask).is_ok())?;
        if sent == Some(true) { Ok(()) } else { Err(ended("turn")) }
    }

    /// Sends a message without waiting for its turn, and returns its uuid.
    fn send(&self, message: &Bound<'_, PyDict>) -> PyResult<String> {
        let sent = self.control("send")?.send(read_message(message)?);
        sent.map(|sent| sent.uuid().to_owned()).map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    /// Sends a control request; `post` is called with its answer, or with an exception's arguments.
    fn request(&self, subtype: String, fields: &str, limit: Option<f64>, post: Py<PyAny>) -> PyResult<()> {
        let mut control = self.control(&subtype)?;
        if let Some(limit) = limit {
            control = control.within(seconds("timeout", limit)?);
        }
        let fields = Json::parse(fields).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let post = Post::new(post);
        shared()?.runtime.spawn(async move {
            let answer = control.request_raw(&subtype, fields).await;
            post.send(|py| match answer {
                Ok(answer) => ("ok", raw(&answer)).into_py_any(py),
                Err(error) => failed(py, error),
            });
        });
        Ok(())
    }

    /// Calls `post` with a list of what happens next while no turn is under way, or with None at the end.
    fn next(&self, post: Py<PyAny>) -> PyResult<()> {
        self.ask(Ask::Next(Post::new(post)))
    }

    /// Ends the session in order, and calls `post` with its report.
    fn finish(&self, post: Py<PyAny>) -> PyResult<()> {
        self.ask(Ask::Finish(Post::new(post)))
    }

    /// Stops the whole session as Ctrl-C does, step by step; the second time it is killed at once.
    fn stop(&self) -> PyResult<()> {
        self.with(|ends| ends.stops.send(()).is_ok())?;
        Ok(())
    }

    /// Kills the session and everything it has started, now.
    fn kill(&self, py: Python<'_>) {
        let ends = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(ends));
    }
}

/// A message: its `text` or its `blocks`, as JSON, and when it is to be read.
fn read_message(message: &Bound<'_, PyDict>) -> PyResult<Message> {
    let get = |key| message.get_item(key).map(|value| value.filter(|value| !value.is_none()));
    let mut made = match (get("text")?, get("blocks")?) {
        (Some(text), _) => Message::text(text.extract::<String>()?),
        (None, Some(blocks)) => {
            let blocks = blocks.extract::<Vec<String>>()?;
            let blocks: Result<Vec<_>, _> = blocks.iter().map(|block| Json::parse(block)).collect();
            Message::blocks(blocks.map_err(|error| PyValueError::new_err(error.to_string()))?)
        }
        (None, None) => return Err(PyValueError::new_err("a message is a text or a list of content blocks")),
    };
    if let Some(priority) = get("priority")? {
        made = made.priority(match priority.extract::<String>()?.as_str() {
            "now" => Priority::Now,
            "next" => Priority::Next,
            "later" => Priority::Later,
            other => return Err(PyValueError::new_err(format!("priority is 'now', 'next' or 'later', not '{other}'"))),
        });
    }
    Ok(made)
}

/// Starts a session. `post` is called with what the agent says about itself, or with why there is none.
#[pyfunction]
pub(crate) fn open_session(options: &Bound<'_, PyDict>, ask: Option<Py<PyAny>>, post: Py<PyAny>) -> PyResult<Session> {
    let agent = options::agent(options, ask.map(Asker::new))?;
    let shared = shared()?;
    let (asks, asked) = mpsc::unbounded_channel();
    let (stops, stopped) = mpsc::unbounded_channel();
    let (alive, killed) = oneshot::channel();
    let control = Arc::default();
    let task = drive(agent, Post::new(post), asked, stopped, Arc::clone(&control));
    let live = shared.live();
    shared.runtime.spawn(Box::pin(until_killed(task, killed, live)));
    Ok(Session(Mutex::new(Owned::new(Ends { asks, stops, control, _alive: alive }))))
}

async fn drive(
    agent: Agent,
    post: Post,
    mut asks: mpsc::UnboundedReceiver<Ask>,
    stops: mpsc::UnboundedReceiver<()>,
    control: Arc<OnceLock<Control>>,
) {
    let begun = Begun::of(&agent);
    let mut session = match agent.session().await {
        Ok(session) => session,
        Err(Failure::NotStarted(error)) => {
            let failed = begun.not_started(&error);
            return post.send(|py| failure(py, failed));
        }
        Err(Failure::Failed(report)) => return post.send(|py| Report(*report).into_py_any(py)),
    };
    tokio::spawn(pass_on_stops(session.stopper(), stops));
    let _ = control.set(session.control());
    let initialized = raw(session.initialized());
    post.send(|py| ("ok", initialized).into_py_any(py));
    let mut waiting: Option<Post> = None;
    loop {
        let ask = tokio::select! {
            biased;
            ask = asks.recv() => ask,
            update = session.next_update(), if waiting.is_some() => {
                // Dropped without an answer, it says that this is the end.
                if let (Some(post), Some(update)) = (waiting.take(), update) {
                    post.send(|py| happened(py, [update]));
                }
                continue;
            }
        };
        match ask {
            None => return,
            Some(Ask::Next(post)) => waiting = Some(post),
            Some(Ask::Turn { message, limit, live, listen, post }) => {
                let until = limit.and_then(|limit| Instant::now().checked_add(limit));
                take_turn(session.turn(message), until, live, &listen, &post).await;
            }
            Some(Ask::Finish(post)) => {
                let report = session.finish().await;
                return post.send(|py| Report(report).into_py_any(py));
            }
        }
    }
}

async fn take_turn(mut turn: RunningTurn<'_>, until: Option<Instant>, live: bool, listen: &Post, post: &Post) {
    while let Some(update) = within(until, turn.next()).await.flatten() {
        let is_told = match &update {
            Update::Record(_) | Update::Sent(_) => live,
            Update::Stderr(_)
            | Update::Lost(_)
            | Update::Stopping(_)
            | Update::Left(_)
            | Update::Over(_)
            | Update::Settled(_)
            | Update::Trouble(_) => true,
        };
        if is_told {
            listen.send(|py| happened(py, [update]));
        }
    }
    let ended = match until {
        Some(until) => turn.timeout(until.saturating_duration_since(Instant::now())).await,
        None => turn.await,
    };
    post.send(|py| match ended {
        Ok(turn) => turned(py, turn),
        Err(SessionError::Failed(turn) | SessionError::Interrupted(turn)) => turned(py, *turn),
        Err(error) => failed(py, error),
    });
}

/// What comes before that moment.
async fn within<T>(until: Option<Instant>, next: impl Future<Output = T>) -> Option<T> {
    match until {
        Some(until) => tokio::time::timeout_at(until, next).await.ok(),
        None => Some(next.await),
    }
}

/// A turn that has ended, whether well or not.
fn turned(py: Python<'_>, turn: tapline::TurnReport) -> PyResult<Py<PyAny>> {
    let facts = PyDict::new(py);
    facts.set_item("message_id", &turn.message)?;
    facts.set_item("answer", &turn.answer)?;
    facts.set_item("interrupted", turn.is_aborted())?;
    facts.set_item("error", turn.end.failed.then(|| turn.why()))?;
    facts.set_item("category", turn.end.category.map(tapline::Category::word))?;
    facts.set_item("result", raw(&turn.end))?;
    facts.set_item("steps", objects(py, turn.steps)?)?;
    ("ok", facts).into_py_any(py)
}

/// Why there is no answer: a word for what kind of reason, and the reason.
fn failed(py: Python<'_>, error: SessionError) -> PyResult<Py<PyAny>> {
    let kind = match &error {
        SessionError::NoAnswer { .. } => "no_answer",
        SessionError::Refused { .. } => "refused",
        SessionError::Cancelled => "cancelled",
        _ => "ended",
    };
    (kind, error.to_string()).into_py_any(py)
}
