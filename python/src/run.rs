//! A run: one task of the runtime owns it, and Python asks that task for what happened. When Python's end is dropped, the run is
//! killed; when the interpreter exits, too.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use pyo3::IntoPyObjectExt as _;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tapline::runner::{StartError, now, report_not_started};
use tapline::session::text::with_causes;
use tapline::{Agent, AgentKind, Run as RunFacts, Running, Stopper, Update};
use tokio::sync::{mpsc, oneshot};

use crate::answers::Asker;
use crate::options;
use crate::report::Report;
use crate::runtime::{Live, Owned, Post, not_forked, shared};
use crate::step::{object, objects};

/// What Python asks of the task.
pub(crate) enum Ask {
    /// What happened next; the report at the end.
    Next(Post),
    /// The report, once all has ended.
    Finish(Post),
}

/// Python's end of a run.
#[pyclass(frozen, module = "tapline._native")]
pub(crate) struct Run(Mutex<Owned<Ends>>);

/// When these are dropped, the run is killed.
struct Ends {
    asks: mpsc::UnboundedSender<Ask>,
    stops: mpsc::UnboundedSender<()>,
    /// Dropped to kill.
    _alive: oneshot::Sender<()>,
}

impl Run {
    fn with<T>(&self, use_it: impl FnOnce(&Ends) -> T) -> PyResult<Option<T>> {
        not_forked()?;
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).get().map(use_it))
    }

    /// A run that was killed has nothing more to say.
    fn ask(&self, py: Python<'_>, ask: impl FnOnce(Post) -> Ask, post: Py<PyAny>) -> PyResult<()> {
        let kept = post.clone_ref(py);
        if self.with(|ends| ends.asks.send(ask(Post::new(post))).is_ok())? != Some(true) {
            kept.call1(py, (py.None(),))?;
        }
        Ok(())
    }
}

#[pymethods]
impl Run {
    /// Calls `post` with a list of what happened next, with the report at the end, or with None for a run that was killed.
    fn next(&self, py: Python<'_>, post: Py<PyAny>) -> PyResult<()> {
        self.ask(py, Ask::Next, post)
    }

    /// Calls `post` with the report once everything has ended.
    fn finish(&self, py: Python<'_>, post: Py<PyAny>) -> PyResult<()> {
        self.ask(py, Ask::Finish, post)
    }

    /// Interrupts the run as Ctrl-C does, step by step; the second time it is killed at once.
    fn interrupt(&self) -> PyResult<()> {
        self.with(|ends| ends.stops.send(()).is_ok())?;
        Ok(())
    }

    /// Kills the run and everything it has started, now.
    fn kill(&self, py: Python<'_>) {
        let ends = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(ends));
    }
}

/// Starts a run. `post` is called with None when the agent has started, or with a report if it could not be.
#[pyfunction]
pub(crate) fn start(options: &Bound<'_, PyDict>, ask: Option<Py<PyAny>>, post: Py<PyAny>) -> PyResult<Run> {
    let agent = options::agent(options, ask.map(Asker::new))?;
    spawn(post, |post, asks, stops| async move {
        let begun = Begun::of(&agent);
        follow(begun, agent.start().await, post, asks, stops, |_| ()).await;
    })
}

type Asks = mpsc::UnboundedReceiver<Ask>;
type Stops = mpsc::UnboundedReceiver<()>;

/// Gives a run a task of its own, and returns Python's end of it.
pub(crate) fn spawn<T>(post: Py<PyAny>, task: impl FnOnce(Post, Asks, Stops) -> T) -> PyResult<Run>
where
    T: Future<Output = ()> + Send + 'static,
{
    let shared = shared()?;
    let (asks, asked) = mpsc::unbounded_channel();
    let (stops, stopped) = mpsc::unbounded_channel();
    let (alive, killed) = oneshot::channel();
    let task = task(Post::new(post), asked, stopped);
    let live = shared.live();
    shared.runtime.spawn(Box::pin(until_killed(task, killed, live)));
    Ok(Run(Mutex::new(Owned::new(Ends { asks, stops, _alive: alive }))))
}

/// Runs a task until its end, or until nobody wants it any more: then it is dropped, and with it what it runs.
pub(crate) async fn until_killed(task: impl Future<Output = ()>, killed: oneshot::Receiver<()>, live: Live) {
    tokio::select! {
        biased;
        _ = killed => {}
        () = live.exits() => {}
        () = task => {}
    }
}

/// What is known of a run that may not start.
pub(crate) struct Begun {
    kind: AgentKind,
    label: Option<String>,
    at: (Option<String>, Instant),
}

impl Begun {
    pub(crate) fn of(agent: &Agent) -> Self {
        Self { kind: agent.kind, label: agent.label.clone(), at: (now(), Instant::now()) }
    }

    /// Why it did not start, as Python is told: the caller's mistake is an exception, everything else a report.
    pub(crate) fn not_started(self, error: &StartError) -> Result<Report, String> {
        if let StartError::Refused(why) = error {
            return Err(why.to_string());
        }
        let (started_at, began) = self.at;
        let duration_ms = u64::try_from(began.elapsed().as_millis()).ok();
        let run = RunFacts { started_at, duration_ms, label: self.label, ..RunFacts::default() };
        Ok(Report(report_not_started(self.kind, with_causes(error), run)))
    }
}

/// A report, or the caller's mistake, as an object.
pub(crate) fn failure(py: Python<'_>, failed: Result<Report, String>) -> PyResult<Py<PyAny>> {
    match failed {
        Ok(report) => report.into_py_any(py),
        Err(why) => PyValueError::new_err(why).into_value(py).into_py_any(py),
    }
}

/// Tells Python what it asks of a run. `ended` gets the report before Python does.
pub(crate) async fn follow(
    begun: Begun,
    started: Result<Running, StartError>,
    post: Post,
    mut asks: Asks,
    stops: Stops,
    ended: impl FnOnce(&tapline::Report),
) {
    let mut running = match started {
        Ok(running) => running,
        Err(error) => {
            let failed = begun.not_started(&error);
            return post.send(|py| failure(py, failed));
        }
    };
    tokio::spawn(pass_on_stops(running.stopper(), stops));
    post.send(|py| Ok(py.None()));
    while let Some(ask) = asks.recv().await {
        match ask {
            Ask::Next(post) => {
                let Some(first) = running.next_update().await else {
                    let report = running.finish().await;
                    ended(&report);
                    return post.send(|py| Report(report).into_py_any(py));
                };
                let updates = ready(&mut running, first).await;
                post.send(|py| happened(py, updates));
            }
            Ask::Finish(post) => {
                let report = running.finish().await;
                ended(&report);
                return post.send(|py| Report(report).into_py_any(py));
            }
        }
    }
}

/// Passes interrupts on, until nobody can send any more.
pub(crate) async fn pass_on_stops(stopper: Stopper, mut stops: Stops) {
    while stops.recv().await.is_some() {
        stopper.interrupt();
    }
}

/// What is there without waiting, behind the first.
async fn ready(running: &mut Running, first: Update) -> Vec<Update> {
    let mut updates = vec![first];
    while running.is_ready() {
        updates.extend(running.next_update().await);
    }
    updates
}

/// What happened, as a list: steps, and pairs of a word and a text for what is not a step.
pub(crate) fn happened(py: Python<'_>, updates: impl IntoIterator<Item = Update>) -> PyResult<Vec<Py<PyAny>>> {
    let mut list = Vec::new();
    for update in updates {
        match update {
            Update::Record(seen) => list.extend(objects(py, seen.steps)?),
            Update::Sent(steps) => {
                for step in steps {
                    list.push(object(py, step)?);
                }
            }
            Update::Stderr(line) => list.push(("stderr", line).into_py_any(py)?),
            Update::Trouble(what) => list.push(("trouble", what).into_py_any(py)?),
            Update::Lost(what) => list.push(("trouble", format!("the recording is incomplete: {what}")).into_py_any(py)?),
            Update::Left(count) => {
                list.push(("trouble", format!("{count} processes could not be killed")).into_py_any(py)?);
            }
            // The report says these.
            Update::Stopping(_) | Update::Over(_) | Update::Settled(_) => {}
        }
    }
    Ok(list)
}
