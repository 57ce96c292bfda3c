//! The agent in a chat: one process for all turns, or one run per turn.

use std::pin::Pin;

use anyhow::{Result, bail};
use tapline_recording::Redactor;
use tapline_runner::{Agent, Control, Conversation, Failure, Over, Running, Session, Stopper, Update};
use tapline_session::step::Turn;
use tapline_session::{Outcome, Rejected, Report, What};

use super::clean::Clean;
use crate::agents::habits;

/// The agent, and whether its output is shown without secrets.
pub(super) struct Talk {
    with: With,
    clean: Option<Box<Clean>>,
}

enum With {
    /// One process for all turns.
    Session(Box<Session>),
    /// An agent that takes one prompt per process.
    Runs(Box<Runs>),
}

/// One run per turn.
struct Runs {
    /// The agent's name.
    agent: &'static str,
    conversation: Conversation,
    state: State,
    /// The number of the current turn, and how it ended.
    turn: (u64, Option<Box<Turn>>),
    last: Option<Report>,
    /// Calls that it rejected without reporting them in its stream.
    rejected: Vec<Rejected>,
}

enum State {
    Idle,
    Running(Box<Running>),
    /// The output has ended, and the result is pending. The wait for it may be interrupted and resumed.
    Ending(Pin<Box<dyn Future<Output = (Report, Vec<Rejected>)> + Send>>),
}

impl Talk {
    pub(super) async fn start(agent: Agent, redact: bool) -> Result<Self, Failure> {
        let clean = redact.then(|| Box::new(Clean::new(agent.redactor.clone(), agent.fold())));
        let with = if habits(agent.kind).listens {
            With::Session(Box::new(agent.session().await?.collect_only("turns")))
        } else {
            With::Runs(Box::new(Runs {
                agent: agent.kind.name(),
                conversation: Conversation::new(agent),
                state: State::Idle,
                turn: (0, None),
                last: None,
                rejected: Vec::new(),
            }))
        };
        Ok(Self { with, clean })
    }

    /// Keeps the unchanged lines, too.
    pub(super) fn keep_raw(&mut self) {
        self.clean.iter_mut().for_each(|clean| clean.raw = Some(Vec::new()));
    }

    /// Takes the unchanged lines since the last call. There are none if they are not kept beside the redacted ones.
    pub(super) fn take_raw(&mut self) -> Option<Vec<u8>> {
        self.clean.as_mut()?.raw.as_mut().map(std::mem::take)
    }

    /// Returns a text without secrets, if that was requested.
    pub(super) fn told(&self, text: &str) -> String {
        self.clean.as_ref().map_or_else(|| text.to_owned(), |clean| clean.text(text))
    }

    /// Sends a prompt, and returns the id of its turn.
    pub(super) async fn say(&mut self, text: String) -> Result<String> {
        match &mut self.with {
            With::Session(session) => Ok(session.send(text)?.uuid().to_owned()),
            With::Runs(runs) => {
                if !matches!(runs.state, State::Idle) {
                    bail!("{} reads prompts only between turns: wait, or interrupt it with Ctrl-C", runs.agent);
                }
                self.clean.iter_mut().for_each(|clean| clean.renew(runs.conversation.agent.fold()));
                runs.turn = (runs.turn.0 + 1, None);
                runs.state = State::Running(Box::new(runs.conversation.start(text).await?));
                Ok(runs.name())
            }
        }
    }

    /// Returns the next update, or `None` when the agent has ended.
    pub(super) async fn next(&mut self) -> Option<Update> {
        loop {
            if let Some(update) = self.clean.as_mut().and_then(|clean| clean.next()) {
                return Some(update);
            }
            let update = match &mut self.with {
                With::Session(session) => session.next_update().await,
                With::Runs(runs) => Some(runs.next().await),
            };
            let Some(clean) = &mut self.clean else { return update };
            let Some(update) = update else {
                clean.rest();
                return clean.next();
            };
            clean.take(update);
        }
    }

    /// Returns whether the next update is available.
    pub(super) fn is_ready(&self) -> bool {
        let is_clean = self.clean.as_ref().is_some_and(|clean| clean.is_ready());
        is_clean
            || match &self.with {
                With::Session(session) => session.is_ready(),
                With::Runs(runs) => runs.running().is_some_and(Running::is_ready),
            }
    }

    /// Returns the handle for control requests.
    pub(super) fn control(&self) -> Result<Control> {
        match &self.with {
            With::Session(session) => Ok(session.control()),
            With::Runs(runs) => bail!("{} does not support this command", runs.agent),
        }
    }

    /// Returns whether a text is one of the agent's commands. Otherwise it is a prompt.
    pub(super) fn knows(&self, text: &str) -> bool {
        let word = text.split_whitespace().next().unwrap_or_default();
        let Some(name) = word.strip_prefix('/').filter(|name| !name.is_empty() && text.starts_with('/')) else { return true };
        let With::Session(session) = &self.with else { return true };
        let commands = &session.initialized().commands;
        // A path is not a command. An agent that lists no commands may still have some.
        let is_known = commands
            .iter()
            .any(|command| command.name.as_deref() == Some(name) || command.aliases.iter().any(|known| known == name));
        name.contains('/') || commands.is_empty() || is_known
    }

    /// Sets the model of later turns, if each turn is a run.
    pub(super) fn set_model(&mut self, model: Option<String>) {
        if let With::Runs(runs) = &mut self.with {
            runs.conversation.agent.options.model = model;
        }
    }

    /// Interrupts the current turn, without waiting.
    pub(super) fn interrupt(&self) {
        match &self.with {
            With::Session(session) => {
                let control = session.control();
                // The stream shows the outcome.
                tokio::spawn(async move { control.interrupt().await.map(drop) });
            }
            With::Runs(runs) => runs.running().into_iter().for_each(|running| running.stopper().interrupt()),
        }
    }

    /// Stops the agent properly.
    pub(super) fn stop(&self) {
        self.stopper().iter().for_each(Stopper::terminate);
    }

    /// Returns a handle that stops it from anywhere.
    pub(super) fn stopper(&self) -> Option<Stopper> {
        match &self.with {
            With::Session(session) => Some(session.stopper()),
            With::Runs(runs) => runs.running().map(Running::stopper),
        }
    }

    /// Takes the calls that were rejected without appearing in the stream.
    pub(super) fn take_rejected(&mut self) -> Vec<Rejected> {
        if let With::Runs(runs) = &mut self.with { std::mem::take(&mut runs.rejected) } else { Vec::new() }
    }

    /// Returns the redactor, if secrets are removed.
    pub(super) fn redactor(&self) -> Option<Redactor> {
        self.clean.as_ref().map(|clean| clean.redactor().clone())
    }

    /// Waits for the end, and returns the report if anything was sent. It has no secrets either.
    pub(super) async fn finish(self) -> Option<Report> {
        let mut report = self.with.finish().await?;
        self.clean.into_iter().for_each(|clean| clean.report(&mut report));
        Some(report)
    }
}

impl With {
    async fn finish(self) -> Option<Report> {
        match self {
            Self::Session(session) => Some(session.finish().await),
            Self::Runs(runs) => {
                let Runs { state, last, .. } = *runs;
                let ended = match state {
                    State::Idle => return last,
                    State::Running(running) => ended(*running).await.0,
                    State::Ending(ending) => ending.await.0,
                };
                Some(with_warnings_of(last, ended))
            }
        }
    }
}

impl Runs {
    fn name(&self) -> String {
        format!("turn {}", self.turn.0)
    }

    fn running(&self) -> Option<&Running> {
        if let State::Running(running) = &self.state { Some(running) } else { None }
    }

    async fn next(&mut self) -> Update {
        if let State::Running(running) = &mut self.state {
            if let Some(update) = running.next_update().await {
                let mut turns =
                    update.steps().iter().filter_map(|step| if let What::Turn(turn) = &step.what { Some(turn) } else { None });
                self.turn.1 = turns.next_back().cloned().or(self.turn.1.take());
                return update;
            }
            if let State::Running(running) = std::mem::replace(&mut self.state, State::Idle) {
                self.state = State::Ending(Box::pin(ended(*running)));
            }
        }
        let State::Ending(ending) = &mut self.state else { return std::future::pending().await };
        let (report, rejected) = ending.await;
        self.rejected.extend(rejected);
        self.state = State::Idle;
        self.conversation.ended(&report);
        // A run may end silently. Its turn has then ended, too, and failed.
        let unsaid = || {
            let mut turn = Turn::default();
            (turn.failed, turn.message) = (true, report.verdict.error.clone());
            Box::new(turn)
        };
        let turn = self.turn.1.take().filter(|turn| turn.failed || report.verdict.outcome == Outcome::Success);
        let over = Over { messages: vec![self.name()], turn: Some(turn.unwrap_or_else(unsaid)) };
        self.last = Some(with_warnings_of(self.last.take(), report));
        Update::Over(Box::new(over))
    }
}

/// Returns how a run ended, and the calls it rejected.
async fn ended(running: Running) -> (Report, Vec<Rejected>) {
    let (conclusion, collector, run) = running.conclude().await;
    (tapline_runner::report(collector, &conclusion, run), conclusion.summary.rejected)
}

/// Adds the warnings of earlier turns, which were separate runs, to a report.
fn with_warnings_of(earlier: Option<Report>, mut report: Report) -> Report {
    let earlier = earlier.map(|report| report.verdict.warnings).unwrap_or_default();
    report.verdict.warnings.splice(0..0, earlier);
    report
}
