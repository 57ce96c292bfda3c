//! A running agent: its updates, how to stop it, and its report.

mod launch;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant, SystemTime};

use tapline_protocol::claude::control::{Initialize, InitializeReply};
use tapline_protocol::{Agent as Kind, Decoder, InputShape, Record};
use tapline_session::{Collector, Ending, Fold, Format, Host, Report, Run, Step, Summary, What, rfc3339};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::agent::{Agent, Input};
use crate::answers::{Others, Settled};
use crate::clocks::Clocks;
use crate::control::{Control, SessionError};
use crate::dialogue::{Dialogue, Over, Patience};
use crate::driver::{Driver, Ladder, Pipe, State};
use crate::environment;
use crate::error::StartError;
use crate::guard::Guard;
use crate::harness::{self, Invocation};
use crate::input::feed;
use crate::journal::Journal;
use crate::locate::locate;
use crate::marker;
use crate::spawn::{Group, spawn};
use crate::tree::Tree;
use launch::{command, not_started, recorder, runs_no_background_tasks};

/// So many readings may wait to be taken; then the agent waits.
const WAITING: usize = 4;

/// An update of a running agent.
#[derive(Debug)]
pub enum Update {
    /// A line that the agent wrote, and its steps.
    Record(Box<Seen>),
    /// A prompt was sent to the agent.
    Sent(Vec<Step>),
    /// A line that the agent wrote to stderr, without secrets.
    Stderr(String),
    /// The recording is incomplete from here on: which file, and why.
    Lost(String),
    /// The run is being stopped.
    Stopping(StopReason),
    /// This many processes could not be killed, because the kernel does not let them exit.
    Left(usize),
    /// A turn of a conversation ended: which messages it answered.
    Over(Box<Over>),
    /// A permission question was decided.
    Settled(Box<Settled>),
    /// A callback panicked or missed its deadline, so the call was denied: which, and why.
    Trouble(String),
}

impl Update {
    /// How much memory it takes, about.
    pub(crate) fn size(&self) -> usize {
        size_of::<Seen>() + if let Self::Record(seen) = self { 2 * seen.record.bytes.len() } else { 0 }
    }
}

/// A line and its steps.
#[derive(Debug)]
pub struct Seen {
    /// The line.
    pub record: Record,
    /// What happened.
    pub steps: Vec<Step>,
}

/// Why a run was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The whole run took too long.
    Timeout,
    /// The agent wrote nothing for too long.
    Idle,
    /// The agent kept running after its final result.
    Linger,
    /// A person interrupted it.
    Interrupted,
    /// This program received SIGTERM or similar.
    Terminated,
    /// This program called [`Stopper::stop`].
    Stopped,
}

/// What a run can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Interrupt,
    Terminate,
    /// A rule was broken: which.
    Violated(String),
    /// The agent does not follow the protocol: why.
    NotTalking(String),
    Stop,
}

/// Stops a run, from any task. The first call stops the run step by step, so that the agent can save its work; the second kills it at once.
#[derive(Clone, Debug)]
pub struct Stopper {
    orders: mpsc::UnboundedSender<Order>,
    over: watch::Receiver<Option<StopReason>>,
}

impl Stopper {
    /// Interrupts the run, as Ctrl-C does.
    pub fn interrupt(&self) {
        let _ = self.orders.send(Order::Interrupt);
    }

    /// Terminates the run, as SIGTERM does.
    pub fn terminate(&self) {
        let _ = self.orders.send(Order::Terminate);
    }

    /// Stops the run because it broke this rule; the run then counts as failed.
    pub fn violated(&self, rule: impl Into<String>) {
        let _ = self.orders.send(Order::Violated(rule.into()));
    }

    fn not_talking(&self, why: String) {
        let _ = self.orders.send(Order::NotTalking(why));
    }

    /// Stops the run because this program needs no more of it.
    pub fn stop(&self) {
        let _ = self.orders.send(Order::Stop);
    }

    /// Waits until the run has ended and its recording is closed, even if nobody reads its updates. Returns why it was stopped, if it
    /// was.
    pub async fn ended(&self) -> Option<StopReason> {
        self.orders.closed().await;
        *self.over.borrow()
    }
}

/// A running agent.
///
/// Read its records with [`next`](Self::next), or as a [`Stream`](futures_core::Stream); [`finish`](Self::finish) waits for the
/// end. Dropping it kills the agent and every process that it started, at once.
#[derive(Debug)]
pub struct Running {
    updates: mpsc::Receiver<Vec<Update>>,
    waiting: VecDeque<Update>,
    stopper: Stopper,
    tree: Arc<Tree>,
    driver: Option<JoinHandle<Conclusion>>,
    collector: Collector,
    about: About,
    session_id: Option<String>,
    control: Option<Control>,
    /// What is known of hooks that are not ours.
    others: Others,
    /// What the agent says of itself, once it does.
    begun: Option<oneshot::Receiver<InitializeReply>>,
    /// Lives as long as the run.
    _invocation: Invocation,
}

/// What is known of a run from the start.
#[derive(Clone, Debug)]
struct About {
    kind: Kind,
    started_at: Option<String>,
    started: Instant,
    label: Option<String>,
    recording: Option<String>,
}

/// How a run ended.
#[derive(Debug)]
pub struct Conclusion {
    /// The summary, without texts.
    pub summary: Summary,
    /// Facts that the stream does not contain.
    pub ending: Ending,
    /// How long it took.
    pub duration: Duration,
    /// Why it was stopped, if it was.
    pub stopped: Option<StopReason>,
}

impl Running {
    /// Starts an agent. One that is answered, or spoken to, is told so first, and then what it is asked.
    pub(crate) async fn start(mut agent: Agent) -> Result<Self, StartError> {
        if !agent.is_dialogue() {
            return Self::launch(agent).await;
        }
        let prompt = match std::mem::take(&mut agent.input) {
            Input::Nothing => None,
            Input::Prompt(prompt) => Some(String::from_utf8_lossy(&prompt).into_owned()),
            Input::Messages { .. } => {
                let why = "your own messages and callbacks cannot be combined: the program that sends the messages also answers the questions";
                return Err(StartError::Refused(why.to_owned()));
            }
        };
        let (initialize, converses) = (agent.answers.initialize(), agent.converses);
        let asks = agent.answers.asks_permission();
        let mut running = Self::launch(agent).await?;
        if let Some(control) = running.control.clone() {
            let (tell, begun) = oneshot::channel();
            running.begun = Some(begun);
            let others = asks.then(|| running.others.clone());
            tokio::spawn(begin(control, running.stopper(), initialize, others, prompt, converses, tell));
        }
        Ok(running)
    }

    async fn launch(mut agent: Agent) -> Result<Self, StartError> {
        let (started, kind) = (Instant::now(), agent.kind);
        let started_at = now();
        let mut invocation = harness::invocation(&agent)?;
        let mut environment = environment::of(&agent.environment);
        if agent.is_dialogue() {
            // It says when it is idle: the one sign that nothing more comes.
            environment.insert("CLAUDE_CODE_SDK_READS_SESSION_STATE".into(), "1".into());
            // With it there are no hooks, and nobody would hold the rules against what is not asked.
            environment.remove(std::ffi::OsStr::new("CLAUDE_CODE_SIMPLE"));
        }
        if let Some(home) = environment::value(&environment, "HOME") {
            let rules = agent.answers.permissions.take();
            agent.answers.permissions = rules.map(|rules| rules.with_home(&home.to_string_lossy()));
        }
        let program = locate(kind, agent.bin.as_deref(), environment::value(&environment, "PATH").as_deref())?;
        if let Some(cwd) = &agent.cwd {
            let found = std::fs::read_dir(cwd).map(drop);
            found.map_err(|error| StartError::Cwd { path: cwd.clone(), error })?;
        }
        let others = others(agent.answers.permissions.is_some(), &program, &environment, &mut invocation).await;
        let mark = marker::random();
        let recorder = match recorder(&agent, &program, &invocation, &environment, started_at.as_ref()) {
            Some(begun) => Some(begun.await.map_err(|_| StartError::System {
                agent: kind.name(),
                error: std::io::Error::other("the thread that begins the recording has ended"),
            })??),
            None => None,
        };

        let guard = agent.guard.as_ref().and_then(|program| Guard::post(program, &mark));
        let spawned = spawn(command(&agent, &program, &invocation, &environment, &mark), Group::Own).await;
        let mut child = match spawned {
            Ok(child) => child,
            Err(error) => {
                // Nothing half-written stays behind.
                if let Some(recorder) = recorder {
                    recorder.discard();
                }
                return Err(not_started(kind, program, error));
            }
        };

        let (stdout, stderr, stdin) = (child.stdout.take(), child.stderr.take(), child.stdin.take());
        let tree = Arc::new(Tree::new(mark, child.id(), &descriptors(stdout.as_ref(), stderr.as_ref())));
        let clean = agent.record.as_ref().is_some_and(|to| to.redact);
        let journal = Journal::new(recorder, clean.then(|| agent.redactor.clone()));
        let ((report_fed, fed), (order, orders)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let (send, updates) = mpsc::channel(WAITING);
        let (over, when_over) = watch::channel(None);
        let (control, dialogue) = dialogue(&mut agent, others.clone()).unzip();
        let takes_more = matches!(agent.input, Input::Messages { .. });
        let input = std::mem::take(&mut agent.input);
        let feeder = stdin.map(|stdin| tokio::spawn(feed(stdin, input, journal.clone(), report_fed)));
        let driver = Driver {
            child,
            stdout: Pipe::new(stdout),
            stderr: Pipe::new(stderr),
            tree: Arc::clone(&tree),
            feeder,
            converses: takes_more,
            guard,
            fed,
            orders,
            updates: send,
            over,
            clocks: Clocks::new(agent.limits, started, takes_more, agent.converses),
            ladder: Ladder::new(agent.limits.grace),
            decoder: Decoder::default().for_agent(Some(kind)),
            fold: Fold::for_agent(Some(kind)),
            host: if takes_more { Host::with_messages() } else { Host::with_text() },
            journal,
            error_lines: agent.redactor.stream(),
            redactor: agent.redactor,
            dialogue,
            ending: Ending {
                no_heuristics: agent.no_heuristics,
                no_background_tasks: runs_no_background_tasks(&environment),
                ..Ending::default()
            },
            started,
            state: State::default(),
        };
        Ok(Self {
            updates,
            waiting: VecDeque::new(),
            stopper: Stopper { orders: order, over: when_over },
            tree,
            driver: Some(tokio::spawn(driver.run())),
            collector: Collector::default(),
            about: About {
                kind,
                started_at,
                started,
                label: agent.label,
                recording: agent.record.map(|to| to.folder.display().to_string()),
            },
            session_id: None,
            control,
            others,
            begun: None,
            _invocation: invocation,
        })
    }

    /// Talks to the agent while it works, if it is a session or something answers its questions ([`Agent::answers`]).
    pub fn control(&self) -> Option<Control> {
        self.control.clone()
    }

    /// Waits until the agent has said what it is; none if it never does.
    pub(crate) async fn begun(&mut self) -> Option<(Control, InitializeReply)> {
        let reply = self.begun.take()?.await.ok()?;
        Some((self.control.clone()?, reply))
    }

    /// Collects for the report only what the value at this path needs; with an empty path nothing. A run of any
    /// length then takes little memory.
    #[must_use]
    pub fn collect_only(self, path: &str) -> Self {
        self.collect_for([path])
    }

    /// The same for several paths.
    #[must_use]
    pub fn collect_for<'p>(mut self, paths: impl IntoIterator<Item = &'p str>) -> Self {
        self.collector = Collector::for_paths(paths);
        self
    }

    /// The agent's next line; `None` after the last.
    pub async fn next(&mut self) -> Option<Record> {
        std::future::poll_fn(|context| self.poll_record(context)).await
    }

    /// The next update: lines, stderr, losses; `None` after the last.
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
        if let Some(Update::Sent(steps)) = &update {
            for step in steps {
                self.collector.accept(step);
            }
        }
        if let Some(Update::Record(seen)) = &update {
            for step in &seen.steps {
                if let What::Session(info) = &step.what {
                    self.session_id = info.id.clone().or(self.session_id.take());
                }
                self.collector.accept(step);
            }
        }
        Poll::Ready(update)
    }

    fn poll_record(&mut self, context: &mut Context<'_>) -> Poll<Option<Record>> {
        loop {
            let Some(update) = ready!(self.poll_update(context)) else { return Poll::Ready(None) };
            if let Update::Record(seen) = update {
                return Poll::Ready(Some(seen.record));
            }
        }
    }

    /// Whether an update is available without waiting. Flush your output before you wait for the next update.
    pub fn is_ready(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The session's id, if the updates read so far contain it.
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// Returns a handle that can stop the run from any task.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// How long the run has been going on.
    pub fn elapsed(&self) -> Duration {
        self.about.started.elapsed()
    }

    /// Waits for the end and returns the report.
    pub async fn finish(self) -> Report {
        let (conclusion, collector, run) = self.conclude().await;
        report(collector, &conclusion, run)
    }

    /// Waits for the end; also returns the summary and the ending.
    pub async fn conclude(mut self) -> (Conclusion, Collector, Run) {
        while self.next_update().await.is_some() {}
        let ended = match self.driver.take() {
            Some(driver) => driver.await.ok(),
            None => None,
        };
        // The driver does not panic; if it did, what is known is that nothing is known.
        let conclusion = ended.unwrap_or_else(|| {
            let ending = Ending::default();
            let summary = Fold::for_agent(Some(self.about.kind)).finish(&ending);
            Conclusion { summary, ending, duration: self.about.started.elapsed(), stopped: None }
        });
        let run = Run {
            started_at: self.about.started_at.clone(),
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
        self.tree.kill_dropped();
    }
}

/// The report of a run that has ended.
pub fn report(collector: Collector, conclusion: &Conclusion, run: Run) -> Report {
    let summary = conclusion.summary.clone();
    let format = Format::of(InputShape::Lines, summary.agent);
    collector.report(summary, format, run, &conclusion.ending)
}

/// The report of a run that never started.
pub fn report_not_started(kind: Kind, error: &StartError, run: Run) -> Report {
    let ending = Ending { not_started: Some(error.to_string()), ..Ending::default() };
    let summary = Fold::for_agent(Some(kind)).finish(&ending);
    let conclusion = Conclusion { summary, ending, duration: Duration::ZERO, stopped: None };
    report(Collector::default(), &conclusion, run)
}

/// The current time, RFC 3339.
pub fn now() -> Option<String> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    rfc3339(since.as_secs_f64())
}

/// Tells the agent who answers here, then what it is asked. One that does not talk as it should is stopped.
async fn begin(
    control: Control,
    stopper: Stopper,
    initialize: Initialize,
    others: Option<Others>,
    prompt: Option<String>,
    converses: bool,
    began: oneshot::Sender<InitializeReply>,
) {
    match control.initialize(initialize).await {
        Ok(reply) => {
            // Versions that do not say which they are do not answer this either.
            if let Some(others) = others.filter(|_| reply.claude_code_version.is_some()) {
                tokio::spawn(look_for_hooks(control.clone(), others));
            }
            let _ = began.send(reply);
        }
        // How it ended is in its report.
        Err(SessionError::Ended { .. }) => return,
        Err(error) => return stopper.not_talking(error.to_string()),
    }
    if let Some(prompt) = prompt {
        let _ = control.send(prompt);
    }
    if !converses {
        control.finish();
    }
}

/// With rules, an agent that can tell of the hooks of others does.
async fn others(
    rules: bool,
    program: &std::path::Path,
    environment: &environment::Variables,
    invocation: &mut Invocation,
) -> Others {
    let tells = rules && harness::tells_of_hooks(program, environment).await;
    if tells {
        invocation.args.push(harness::TELL_OF_HOOKS.into());
    }
    Others::new(tells)
}

/// Finds out whether hooks of others answer permission questions; it is known long before the first call.
async fn look_for_hooks(control: Control, others: Others) {
    let Ok(listing) = control.in_passing().hooks_listing().await else { return };
    let events = listing.events.and_then(|events| events.to::<Vec<serde_json::Value>>().ok()).unwrap_or_default();
    if events.iter().any(|event| event["name"] == "PermissionRequest") {
        others.set_answer_questions();
    }
}

/// The other direction, if there is one: the agent's input is then what it says.
fn dialogue(agent: &mut Agent, others: Others) -> Option<(Control, Dialogue)> {
    if !agent.is_dialogue() {
        return None;
    }
    let (say, said) = mpsc::unbounded_channel();
    let patience = Patience { background: agent.limits.background, linger: agent.limits.linger };
    let cwd = agent.cwd.clone().or_else(|| std::env::current_dir().ok());
    let cwd = cwd.map(|cwd| cwd.to_string_lossy().into_owned());
    let (dialogue, lines) = Dialogue::new(agent.answers.clone(), cwd, others, said, patience);
    agent.input = Input::Messages { prompt: None, lines: Box::pin(lines) };
    Some((Control::new(say, agent.limits.request), dialogue))
}

fn descriptors(stdout: Option<&tokio::process::ChildStdout>, stderr: Option<&tokio::process::ChildStderr>) -> Vec<i32> {
    use std::os::fd::AsRawFd;
    stdout.map(AsRawFd::as_raw_fd).into_iter().chain(stderr.map(AsRawFd::as_raw_fd)).collect()
}
