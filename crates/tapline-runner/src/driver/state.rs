//! The state of a run's driver, and what all parts of it do: report, close the input, kill.

use std::process::ExitStatus;
use std::sync::Arc;

use tapline_protocol::{Decoder, StopReason};
use tapline_recording::{Redactor, Stream, StreamRedactor};
use tapline_session::{Ending, Fold, Host};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::ladder::{Ladder, Rung};
use super::pipe::Pipe;
use crate::activity::Activity;
use crate::agent::Agent;
use crate::clocks::Clocks;
use crate::dialogue::Dialogue;
use crate::epoch::Epoch;
use crate::input::{Fed, feed};
use crate::journal::Journal;
use crate::spec::AgentInput;
use crate::stopper::Order;
use crate::transport::{Streams, Transport};
use crate::update::Update;

/// How many bytes of a dialogue may wait to be read. Then the agent waits.
const KEPT_FOR_LATER: usize = 64 << 20;

/// The task that drives a run.
pub(crate) struct Driver<T: Transport> {
    pub(super) transport: T,
    pub(super) stdout: Pipe<T::Output>,
    pub(super) stderr: Pipe<T::Errors>,
    pub(super) feeder: Option<JoinHandle<()>>,
    /// Whether the input is a conversation, which ends with its input.
    pub(super) converses: bool,
    pub(super) fed: mpsc::UnboundedReceiver<Fed>,
    pub(super) wires: Wires,
    pub(super) clocks: Clocks,
    pub(super) activity: Activity,
    pub(super) ladder: Ladder,
    pub(super) decoder: Decoder,
    pub(super) fold: Fold,
    /// What is sent to the agent, as part of the conversation.
    pub(super) host: Host,
    pub(super) journal: Journal,
    pub(super) redactor: Redactor,
    /// Redacts stderr, line by line.
    pub(super) error_lines: StreamRedactor,
    /// The dialogue, if there is one.
    pub(super) dialogue: Option<Dialogue>,
    pub(super) ending: Ending,
    pub(super) epoch: Epoch,
    pub(super) state: State,
}

/// What has happened so far.
#[derive(Default)]
pub(super) struct State {
    /// Whether the agent has ended, even if its status is not known.
    pub(super) exited: bool,
    pub(super) exit: Option<ExitStatus>,
    pub(super) exited_at: Option<Instant>,
    pub(super) last_read: Option<Instant>,
    /// When the agent's last output arrived.
    pub(super) last_output: Option<Instant>,
    /// Updates that were not passed on yet, and their size.
    pub(super) pending: Vec<Update>,
    pub(super) pending_bytes: usize,
    pub(super) stderr_kept: Vec<u8>,
    pub(super) stderr_shown: usize,
    /// Whether nobody wants updates any more.
    pub(super) abandoned: bool,
    /// Whether every process of the run is gone.
    pub(super) swept: bool,
    /// How many processes are left that cannot be ended. Reported once.
    pub(super) left: Option<usize>,
    pub(super) look_at: Option<Instant>,
    /// The last piece, until it is in the recording.
    pub(super) writing: Option<Writing>,
}

/// A piece on its way into the recording. Nothing more is read until then, so a slow disk delays the agent, but no
/// clock.
pub(super) struct Writing {
    pub(super) stream: Stream,
    pub(super) buffer: Arc<Vec<u8>>,
    pub(super) count: usize,
    pub(super) since: Instant,
    pub(super) written: JoinHandle<()>,
}

/// The driver's ends of the channels to its caller.
pub(crate) struct Wires {
    pub(crate) orders: mpsc::UnboundedReceiver<Order>,
    pub(crate) updates: mpsc::Sender<Vec<Update>>,
    /// Set at the end: why the run was stopped, if it was.
    pub(crate) over: watch::Sender<Option<StopReason>>,
}

impl<T: Transport> Driver<T> {
    /// Creates the driver of an agent, with a dialogue if there is one.
    pub(crate) fn new(
        mut transport: T,
        agent: &mut Agent,
        journal: Journal,
        dialogue: Option<Dialogue>,
        wires: Wires,
        (epoch, no_background_tasks): (Epoch, bool),
    ) -> Self {
        let Streams { input, output, errors } = transport.streams();
        let (report_fed, fed) = mpsc::unbounded_channel();
        let takes_more = matches!(agent.input, AgentInput::Messages { .. });
        let to_send = std::mem::take(&mut agent.input);
        let feeder = input.map(|input| tokio::spawn(feed(input, to_send, journal.clone(), report_fed)));
        Self {
            transport,
            stdout: Pipe::new(output),
            stderr: Pipe::new(errors),
            feeder,
            converses: takes_more,
            fed,
            wires,
            clocks: Clocks::new(agent.limits, epoch.instant(), takes_more),
            activity: Activity::new(agent.converses, epoch.instant()),
            ladder: Ladder::new(agent.limits.grace),
            decoder: Decoder::default().for_agent(Some(agent.kind)),
            fold: agent.fold(),
            host: if takes_more { Host::with_messages() } else { Host::with_text() },
            journal,
            error_lines: agent.redactor.stream(),
            redactor: agent.redactor.clone(),
            dialogue,
            ending: Ending { no_heuristics: agent.no_heuristics, no_background_tasks, ..Ending::default() },
            epoch,
            state: State::default(),
        }
    }

    /// Returns whether the agent's output may be read.
    pub(super) fn may_read(&self) -> bool {
        // In a dialogue, the answers to our own requests come among output that somebody else has yet to read.
        let room = if self.dialogue.is_some() { KEPT_FOR_LATER } else { 1 };
        self.state.pending_bytes < room || self.state.abandoned
    }

    pub(super) fn tell(&mut self, update: Update) {
        if !self.state.abandoned {
            self.state.pending_bytes += update.size();
            self.state.pending.push(update);
        }
    }

    pub(super) fn tell_losses(&mut self) {
        for loss in self.journal.losses() {
            self.tell(Update::Lost(loss.to_string()));
        }
    }

    /// Kills everything at once, because something runs that may not.
    pub(super) fn kill(&mut self, why: String) {
        if self.ending.violated.is_none() {
            self.tell(Update::Trouble(why.clone()));
            self.ending.violated = Some(why);
        }
        if self.state.exited {
            return;
        }
        if self.ladder.reason.replace(StopReason::Stopped).is_none() {
            self.tell(Update::Stopping(StopReason::Stopped));
        }
        self.ladder.climb(Rung::Killed);
        self.ladder.until = Some(Instant::now());
    }

    /// Stops passing on updates.
    pub(super) fn give_up_updates(&mut self) {
        self.state.abandoned = true;
        self.state.pending.clear();
        self.state.pending_bytes = 0;
    }

    /// Closes the agent's input. Returns whether it was open.
    pub(super) fn close_input(&mut self) -> bool {
        let was_open = self.feeder.as_ref().is_some_and(|feeder| !feeder.is_finished());
        if let Some(feeder) = self.feeder.take() {
            feeder.abort();
        }
        was_open
    }
}
