//! A running agent: its updates, how to stop it, and its report.

mod opening;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tapline_protocol::control::InitializeReply;
use tapline_protocol::{Agent as Kind, InputShape, Record};
use tapline_recording::Recorder;
use tapline_session::{Collector, Ending, Fold, Report, Run, StreamFormat, What};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::agent::Agent;
use crate::answers::Others;
use crate::control::Control;
use crate::dialogue::{Dialogue, Patience};
use crate::driver::{Driver, Wires};
use crate::epoch::Epoch;
use crate::harness::Invocation;
use crate::journal::Journal;
use crate::spec::AgentInput;
use crate::stopper::Stopper;
use crate::transport::{Killer, Transport};
use crate::update::{Conclusion, Update};
use opening::Opening;

/// How many reads may wait to be taken. Then the agent waits.
const WAITING: usize = 4;

/// A running agent.
///
/// Read its records with [`next`](Self::next), or as a [`Stream`](futures_core::Stream); [`finish`](Self::finish) waits for the
/// end. Dropping it kills the agent and every process that it started, at once.
///
/// ```no_run
/// # async fn example() -> Result<(), tapline_runner::StartError> {
/// use tapline_runner::Agent;
///
/// let mut running = Agent::claude().prompt("Fix the failing test.").start().await?;
/// while let Some(record) = running.next().await {
///     println!("{}", record.text());
/// }
/// let report = running.finish().await;
/// println!("{}", report.verdict.outcome);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping it kills the agent: read it, or wait for its end with `finish`"]
pub struct Running {
    updates: mpsc::Receiver<Vec<Update>>,
    waiting: VecDeque<Update>,
    stopper: Stopper,
    killer: Arc<dyn Killer>,
    driver: Option<JoinHandle<Conclusion>>,
    collector: Collector,
    about: About,
    session_id: Option<String>,
    control: Option<Control>,
    /// What the agent reports about itself at the start.
    begun: Option<oneshot::Receiver<InitializeReply>>,
    /// Lives as long as the run.
    _invocation: Invocation,
}

/// What is known about a run from the start.
#[derive(Clone, Debug)]
struct About {
    kind: Kind,
    epoch: Epoch,
    label: Option<String>,
    recording: Option<String>,
}

/// What a run begins with.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) epoch: Epoch,
    pub(crate) recorder: Option<Recorder>,
    /// What is known about hooks of others.
    pub(crate) others: Others,
    pub(crate) no_background_tasks: bool,
    pub(crate) invocation: Invocation,
}

impl Running {
    /// Drives an agent over this transport. In a dialogue, the agent is first told what is answered here, and then gets
    /// its prompt.
    pub(crate) fn over<T: Transport>(transport: T, mut agent: Agent, begun: Begun) -> Self {
        let Begun { epoch, recorder, others, no_background_tasks, invocation } = begun;
        let killer = transport.killer();
        let clean = agent.record.as_ref().is_some_and(|to| to.redact);
        let journal = Journal::new(recorder, clean.then(|| agent.redactor.clone()), epoch);
        let (order, orders) = mpsc::unbounded_channel();
        let (send, updates) = mpsc::channel(WAITING);
        let (over, when_over) = watch::channel(None);
        let stopper = Stopper { orders: order, over: when_over };
        let opening = agent.is_dialogue().then(|| Opening::of(&agent, &others));
        let (control, dialogue) = dialogue(&mut agent, others).unzip();
        let wires = Wires { orders, updates: send, over };
        let driver = Driver::new(transport, &mut agent, journal, dialogue, wires, (epoch, no_background_tasks));
        let driver = tokio::spawn(driver.run());
        let begun = opening.zip(control.clone()).map(|(opening, control)| {
            let (tell, begun) = oneshot::channel();
            tokio::spawn(opening.say(control, stopper.clone(), tell));
            begun
        });
        Self {
            updates,
            waiting: VecDeque::new(),
            stopper,
            killer,
            driver: Some(driver),
            collector: Collector::default(),
            about: About {
                kind: agent.kind,
                epoch,
                label: agent.label,
                recording: agent.record.map(|to| to.folder.display().to_string()),
            },
            session_id: None,
            control,
            begun,
            _invocation: invocation,
        }
    }

    /// Returns a handle to talk to the agent while it works, if it is a session or something answers its requests
    /// ([`Agent::answers`]).
    pub fn control(&self) -> Option<Control> {
        self.control.clone()
    }

    /// Waits until the agent has introduced itself. Returns `None` if it never does.
    pub(crate) async fn begun(&mut self) -> Option<(Control, InitializeReply)> {
        let reply = self.begun.take()?.await.ok()?;
        Some((self.control.clone()?, reply))
    }

    /// Collects for the report only what the value at this path needs, or nothing with an empty path. A run of any
    /// length then takes little memory.
    pub fn collect_only(self, path: &str) -> Self {
        self.collect_for([path])
    }

    /// Collects for the report only what the values at these paths need.
    pub fn collect_for<'p>(mut self, paths: impl IntoIterator<Item = &'p str>) -> Self {
        self.collector = Collector::for_paths(paths);
        self
    }

    /// Returns the agent's next line, or `None` after the last.
    pub async fn next(&mut self) -> Option<Record> {
        std::future::poll_fn(|context| self.poll_record(context)).await
    }

    /// Returns the next update (lines, stderr, losses), or `None` after the last.
    pub async fn next_update(&mut self) -> Option<Update> {
        std::future::poll_fn(|context| self.poll_update(context)).await
    }

    fn poll_update(&mut self, context: &mut Context<'_>) -> Poll<Option<Update>> {
        while self.waiting.is_empty() {
            match ready!(self.updates.poll_recv(context)) {
                Some(updates) => self.waiting.extend(updates),
                None => return Poll::Ready(None),
            }
        }
        let update = self.waiting.pop_front();
        let steps = update.as_ref().map_or(&[][..], Update::steps);
        for step in steps {
            if let What::Session(info) = &step.what {
                self.session_id = info.id.clone().or(self.session_id.take());
            }
            self.collector.accept(step);
        }
        Poll::Ready(update)
    }

    fn poll_record(&mut self, context: &mut Context<'_>) -> Poll<Option<Record>> {
        loop {
            let Some(update) = ready!(self.poll_update(context)) else { return Poll::Ready(None) };
            match update {
                Update::Record(seen) => return Poll::Ready(Some(seen.record)),
                Update::Sent(_)
                | Update::Stderr(_)
                | Update::Lost(_)
                | Update::Stopping(_)
                | Update::Left(_)
                | Update::Over(_)
                | Update::Settled(_)
                | Update::Trouble(_) => {}
            }
        }
    }

    /// Returns whether an update is available without waiting. Flush your output before you wait for the next update.
    pub fn is_ready(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the session id, if the updates read so far contain it.
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// Returns a handle that can stop the run from any task.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Returns how long the run has been going on.
    pub fn elapsed(&self) -> Duration {
        self.about.epoch.elapsed()
    }

    /// Waits for the end and returns the report.
    #[must_use = "it says whether the run succeeded"]
    pub async fn finish(self) -> Report {
        let (conclusion, collector, run) = self.conclude().await;
        report(collector, &conclusion, run)
    }

    /// Waits for the end, and also returns the summary and the ending.
    pub async fn conclude(mut self) -> (Conclusion, Collector, Run) {
        while self.next_update().await.is_some() {}
        let ended = match self.driver.take() {
            Some(driver) => driver.await.ok(),
            None => None,
        };
        // The driver does not panic. If it did, nothing would be known.
        let conclusion = ended.unwrap_or_else(|| {
            let ending = Ending::default();
            let summary = Fold::for_agent(Some(self.about.kind)).finish(&ending);
            Conclusion { summary, ending, duration: self.about.epoch.elapsed() }
        });
        let run = Run {
            started_at: self.about.epoch.stamp(),
            duration_ms: u64::try_from(conclusion.duration.as_millis()).ok(),
            label: self.about.label.clone(),
            recording: self.about.recording.clone(),
            ..Run::default()
        };
        (conclusion, std::mem::take(&mut self.collector), run)
    }
}

impl futures_core::Stream for Running {
    type Item = Record;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Record>> {
        self.get_mut().poll_record(context)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        Arc::clone(&self.killer).kill();
    }
}

/// Makes the report of a run that has ended.
pub fn report(collector: Collector, conclusion: &Conclusion, run: Run) -> Report {
    let summary = conclusion.summary.clone();
    let format = StreamFormat::of(InputShape::Lines, summary.agent);
    collector.report(summary, format, run, &conclusion.ending)
}

/// Makes the report of a run that never started, with the reason.
pub fn report_not_started(kind: Kind, why: String, run: Run) -> Report {
    let ending = Ending { not_started: Some(why), ..Ending::default() };
    let summary = Fold::for_agent(Some(kind)).finish(&ending);
    let conclusion = Conclusion { summary, ending, duration: Duration::ZERO };
    report(Collector::default(), &conclusion, run)
}

/// Creates the dialogue, if there is one. It then feeds the agent's input.
fn dialogue(agent: &mut Agent, others: Others) -> Option<(Control, Dialogue)> {
    if !agent.is_dialogue() {
        return None;
    }
    let (say, said) = mpsc::unbounded_channel();
    let patience = Patience { background: agent.limits.for_tasks(), linger: agent.limits.linger };
    let cwd = agent.cwd.clone().or_else(|| std::env::current_dir().ok());
    let cwd = cwd.map(|cwd| cwd.to_string_lossy().into_owned());
    let (dialogue, lines) = Dialogue::new(agent.answers.clone(), cwd, others, said, patience);
    agent.input = AgentInput::Messages { prompt: None, lines: Box::pin(lines) };
    Some((Control::new(say, agent.limits.request), dialogue))
}
