//! Drives one run from start to end: reads both pipes, keeps the clocks, climbs the stop ladder, and is done only when
//! nothing of the run is left. It goes on at its own pace: a slow reader of its updates delays the agent, never a clock.

mod ladder;

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tapline_protocol::Decoder;
use tapline_recording::{End, Redactor, Stream, StreamRedactor};
use tapline_session::{Ending, Fold, Host, Step, signal_name};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::clocks::Clocks;
use crate::dialogue::{Dialogue, Outcome, Spoken};
use crate::guard::Guard;
use crate::input::Fed;
use crate::journal::Journal;
use crate::running::{Conclusion, Order, Seen, StopReason, Update};
use crate::tree::Tree;
pub(crate) use ladder::Ladder;

/// So much of stderr is kept for the verdict and shown; the recording has all of it.
const STDERR_KEPT: usize = 64 << 10;
/// Reading starts with a buffer of this size, which grows while it is filled.
const BUFFER: (usize, usize) = (8 << 10, 256 << 10);
/// So many readings are taken before something that is due is done.
const DRAINED: usize = 16;
/// How often it is looked whether something of a run is left.
const LOOK: Duration = Duration::from_millis(50);
/// A pipe that is still held when everybody who could be found is dead is given up after this.
const GIVE_UP: Duration = Duration::from_secs(2);

/// What SIGKILL has not ended after this long waits for a disk or the network, and nobody can end it.
const STUCK: Duration = Duration::from_secs(10);
/// What a stopped run said is waited to be taken for this long, then the run is over.
const NOT_TAKEN: Duration = Duration::from_secs(3);

/// A piece is usually in the recording within this.
const AT_ONCE: Duration = Duration::from_millis(20);
/// A disk gets this long to take the end of a run that nobody stopped.
const DISK: Duration = Duration::from_secs(30);

/// So much of a dialogue may wait to be taken; then the agent waits.
const KEPT_FOR_LATER: usize = 64 << 20;

pub(crate) struct Driver {
    pub(crate) child: Child,
    pub(crate) stdout: Pipe<ChildStdout>,
    pub(crate) stderr: Pipe<ChildStderr>,
    pub(crate) tree: Arc<Tree>,
    pub(crate) feeder: Option<JoinHandle<()>>,
    /// Its input is a conversation, which ends when its input ends.
    pub(crate) converses: bool,
    pub(crate) guard: Option<Guard>,
    pub(crate) fed: mpsc::UnboundedReceiver<Fed>,
    pub(crate) orders: mpsc::UnboundedReceiver<Order>,
    pub(crate) updates: mpsc::Sender<Vec<Update>>,
    /// Told when all is over: why it was stopped, if it was.
    pub(crate) over: watch::Sender<Option<StopReason>>,
    pub(crate) clocks: Clocks,
    pub(crate) ladder: Ladder,
    pub(crate) decoder: Decoder,
    pub(crate) fold: Fold,
    /// What is sent to the agent is part of the conversation.
    pub(crate) host: Host,
    pub(crate) journal: Journal,
    pub(crate) redactor: Redactor,
    /// The same for stderr, line by line.
    pub(crate) error_lines: StreamRedactor,
    /// What is said the other way, where something is.
    pub(crate) dialogue: Option<Dialogue>,
    pub(crate) ending: Ending,
    pub(crate) started: Instant,
    pub(crate) state: State,
}

/// What has happened so far.
#[derive(Default)]
pub(crate) struct State {
    /// The agent has ended, whether its status could be had or not.
    exited: bool,
    exit: Option<ExitStatus>,
    exited_at: Option<Instant>,
    last_read: Option<Instant>,
    /// Read, but not handed over yet, and how much that is.
    pending: Vec<Update>,
    pending_bytes: usize,
    stderr_kept: Vec<u8>,
    stderr_shown: usize,
    /// Nobody wants updates any more.
    abandoned: bool,
    /// Everything that was started is gone.
    swept: bool,
    /// How many processes are left that cannot be ended: told once.
    left: Option<usize>,
    look_at: Option<Instant>,
    /// What was read last, until it is in the recording.
    writing: Option<Writing>,
}

/// A piece on its way into the recording. Nothing more is read meanwhile, so that a slow disk delays the agent, and no clock.
struct Writing {
    stream: Stream,
    buffer: Arc<Vec<u8>>,
    count: usize,
    since: Instant,
    written: JoinHandle<()>,
}

/// A pipe that is read until its end.
pub(crate) struct Pipe<R> {
    reader: Option<R>,
    buffer: Vec<u8>,
}

impl<R: std::os::fd::AsFd> Pipe<R> {
    /// Whether the system has nothing for us either, whatever the runtime knows of it.
    fn is_drained(&self) -> bool {
        let holds = |reader: &R| rustix::io::ioctl_fionread(reader).is_ok_and(|bytes| bytes > 0);
        !self.reader.as_ref().is_some_and(holds)
    }
}

impl<R: AsyncRead + Unpin> Pipe<R> {
    pub(crate) fn new(reader: Option<R>) -> Self {
        Self { reader, buffer: Vec::new() }
    }

    fn is_open(&self) -> bool {
        self.reader.is_some()
    }

    fn close(&mut self) {
        self.reader = None;
    }

    /// Reads on, and says how much: nothing at the end, after which it is closed.
    async fn read(&mut self) -> usize {
        let Some(reader) = &mut self.reader else { return 0 };
        if self.buffer.is_empty() {
            self.buffer.resize(BUFFER.0, 0);
        }
        // A pipe that cannot be read has ended.
        let count = reader.read(&mut self.buffer).await.unwrap_or(0);
        if count == 0 {
            self.reader = None;
        }
        count
    }

    /// Lends what was read.
    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Takes the buffer back; one that was full grows.
    fn give_back(&mut self, mut buffer: Vec<u8>, count: usize) {
        if count == buffer.len() && count < BUFFER.1 {
            buffer.resize(count * 2, 0);
        }
        self.buffer = buffer;
    }
}

/// What came next.
enum Next {
    Order(Order),
    Abandoned,
    Exit(Option<ExitStatus>),
    Fed(Fed),
    HandedOver,
    Output(usize),
    ErrorOutput(usize),
    Alarm,
    Spoken(Spoken),
    Written,
}

impl Driver {
    pub(crate) async fn run(mut self) -> Conclusion {
        while !self.is_done() {
            self.wait().await;
        }
        self.tree.set_swept();
        if let Some(guard) = self.guard.take() {
            guard.dismiss().await;
        }
        self.conclude().await
    }

    fn is_done(&self) -> bool {
        let read = !self.stdout.is_open() && !self.stderr.is_open();
        self.state.exited && self.state.swept && read && self.state.writing.is_none()
    }

    /// Waits for whatever comes next, and sees to it.
    async fn wait(&mut self) {
        match self.next().await {
            Next::Order(order) => self.obey(order).await,
            Next::Abandoned => self.abandon(),
            Next::Exit(status) => {
                self.state.exited = true;
                self.state.exit = status;
                self.state.exited_at = Some(Instant::now());
                self.state.look_at = Some(Instant::now());
            }
            Next::Fed(fed) => self.take_fed(fed),
            // Until now it could not be heard.
            Next::HandedOver => self.clocks.hear(Instant::now()),
            Next::Output(count) => self.take(Stream::Stdout, count),
            Next::ErrorOutput(count) => self.take(Stream::Stderr, count),
            Next::Written => self.written(),
            Next::Alarm => self.ring().await,
            Next::Spoken(spoken) => self.speak(spoken),
        }
    }

    fn take_fed(&mut self, fed: Fed) {
        let steps = match fed {
            Fed::Sent(bytes) => {
                // In a dialogue most of what is sent begins no turn: requests, answers. And what we say is no sign of the agent's
                // life.
                if self.dialogue.is_none() {
                    self.clocks.sent(Instant::now());
                }
                self.host.push(&bytes, &mut self.fold)
            }
            Fed::Closed => {
                self.clocks.input_closed(Instant::now());
                self.host.close(&mut self.fold)
            }
        };
        self.tell_sent(steps);
    }

    fn tell_sent(&mut self, steps: Vec<Step>) {
        if !steps.is_empty() {
            self.tell(Update::Sent(steps));
        }
    }

    /// The program said something, or a question of the agent's has its answer.
    fn speak(&mut self, spoken: Spoken) {
        let Some(dialogue) = &mut self.dialogue else { return };
        let owed = dialogue.is_owed();
        let outcome = dialogue.speak(spoken);
        if dialogue.is_owed() && !owed {
            self.clocks.sent(Instant::now());
        }
        self.follow(outcome);
        self.tell_losses();
        self.after_dialogue();
    }

    /// Keeps and tells what follows from a dialogue; what breaks the rules is stopped at once.
    fn follow(&mut self, outcome: Outcome) {
        for settled in &outcome.settled {
            self.journal.decide(settled);
        }
        for update in outcome.updates {
            self.tell(update);
        }
        if let Some(why) = outcome.violated {
            self.kill(why);
        }
    }

    /// The agent's input is open as long as something needs it, and no clock runs while it waits for us.
    fn after_dialogue(&mut self) {
        let Some(dialogue) = &mut self.dialogue else { return };
        let now = Instant::now();
        let over = dialogue.settle_due(now);
        if dialogue.close_if_over(now) {
            self.clocks.forget_tasks();
        }
        self.clocks.ask(dialogue.is_asked(), dialogue.is_owed(), now);
        for update in over {
            self.tell(update);
        }
    }

    async fn next(&mut self) -> Next {
        let alarm = self.next_alarm().map(tokio::time::Instant::from_std);
        let may_read = self.may_read();
        let State { exited, pending, pending_bytes, abandoned, writing, .. } = &mut self.state;
        let idle = writing.is_none();
        tokio::select! {
            biased;
            Some(order) = self.orders.recv() => Next::Order(order),
            () = self.updates.closed(), if !*abandoned => Next::Abandoned,
            status = self.child.wait(), if !*exited => Next::Exit(status.ok()),
            Some(fed) = self.fed.recv() => Next::Fed(fed),
            spoken = spoken(&mut self.dialogue) => Next::Spoken(spoken),
            permit = self.updates.reserve(), if !pending.is_empty() && !*abandoned => {
                if let Ok(permit) = permit {
                    permit.send(std::mem::take(pending));
                    *pending_bytes = 0;
                }
                Next::HandedOver
            }
            () = ended(writing) => Next::Written,
            // Before the pipes: an agent that never stops talking stops no clock.
            () = sleep_until(alarm) => Next::Alarm,
            count = self.stdout.read(), if self.stdout.is_open() && may_read && idle => Next::Output(count),
            count = self.stderr.read(), if self.stderr.is_open() && idle => Next::ErrorOutput(count),
        }
    }

    /// Whether what the agent writes can be taken.
    fn may_read(&self) -> bool {
        // In a dialogue the answers to our own requests come among what somebody else has yet to take.
        let room = if self.dialogue.is_some() { KEPT_FOR_LATER } else { 1 };
        self.state.pending_bytes < room || self.state.abandoned
    }

    /// Takes what was read: first into the recording, then to whoever wants it.
    fn take(&mut self, stream: Stream, count: usize) {
        let buffer = if stream == Stream::Stdout { self.stdout.take() } else { self.stderr.take() };
        let buffer = Arc::new(buffer);
        match self.journal.write(stream, &buffer, count) {
            Some(written) => {
                self.state.writing = Some(Writing { stream, buffer, count, since: Instant::now(), written });
            }
            None => self.taken(stream, buffer, count),
        }
    }

    /// What was read last is in the recording, or will never be.
    fn written(&mut self) {
        if let Some(Writing { stream, buffer, count, .. }) = self.state.writing.take() {
            self.taken(stream, buffer, count);
        }
    }

    fn taken(&mut self, stream: Stream, buffer: Arc<Vec<u8>>, count: usize) {
        let is_output = stream == Stream::Stdout;
        if is_output {
            self.output(&buffer[..count]);
        } else {
            self.error_output(&buffer[..count]);
        }
        // A thread that waits for the disk may still hold it.
        let buffer = Arc::try_unwrap(buffer).unwrap_or_else(|buffer| vec![0; buffer.len()]);
        if is_output { self.stdout.give_back(buffer, count) } else { self.stderr.give_back(buffer, count) }
    }

    /// When a disk that does not answer is given up: it holds up no run that has ended or is to end.
    fn disk_alarm(&self) -> Option<Instant> {
        let writing = self.state.writing.as_ref()?;
        let over = self.ladder.stopped_at().into_iter().chain(self.state.exited_at).min()?;
        Some(writing.since.max(over) + self.ladder.grace())
    }

    fn give_up_disk(&mut self) {
        if let Some(writing) = &self.state.writing {
            self.journal.miss(writing.stream);
            self.journal.give_up();
            self.written();
        }
    }

    /// Takes what is there already, so that nothing that is due keeps it waiting; not for ever, because an agent may talk for
    /// ever. `true` if nothing is left.
    async fn drain(&mut self) -> bool {
        for _ in 0..DRAINED {
            if tokio::time::timeout(AT_ONCE, ended(&mut self.state.writing)).await.is_err() && self.state.writing.is_some() {
                return false;
            }
            self.written();
            let (out, err) = (self.stdout.is_open() && self.may_read(), self.stderr.is_open());
            let next = async {
                tokio::select! {
                    count = self.stdout.read(), if out => Next::Output(count),
                    count = self.stderr.read(), if err => Next::ErrorOutput(count),
                    else => Next::Alarm,
                }
            };
            match tokio::time::timeout(Duration::ZERO, next).await {
                Ok(Next::Output(count)) => self.take(Stream::Stdout, count),
                Ok(Next::ErrorOutput(count)) => self.take(Stream::Stderr, count),
                _ => break,
            }
        }
        self.state.writing.is_none() && self.stdout.is_drained() && self.stderr.is_drained()
    }

    fn output(&mut self, bytes: &[u8]) {
        let now = Instant::now();
        self.state.last_read = Some(now);
        let records = if bytes.is_empty() { self.decoder.finish() } else { self.decoder.push(bytes) };
        if bytes.is_empty() {
            self.clocks.output_closed(now);
            if let Some(dialogue) = &mut self.dialogue {
                let outcome = dialogue.agent_gone();
                self.follow(outcome);
            }
        } else {
            self.clocks.hear(now);
        }
        for record in records {
            let steps = self.fold.apply(&record);
            for step in &steps {
                self.clocks.step(step, now);
            }
            let heard = self.dialogue.as_mut().map(|dialogue| dialogue.accept(&record, &steps, now));
            self.tell(Update::Record(Box::new(Seen { record, steps })));
            if let Some(outcome) = heard {
                self.follow(outcome);
            }
        }
        self.after_dialogue();
        self.tell_losses();
    }

    fn error_output(&mut self, bytes: &[u8]) {
        let state = &mut self.state;
        let room = STDERR_KEPT - state.stderr_kept.len();
        let kept = &bytes[..bytes.len().min(room)];
        state.stderr_kept.extend_from_slice(kept);
        // Whole lines are shown, and at the end what is left.
        let behind = &state.stderr_kept[state.stderr_shown..];
        let full = state.stderr_kept.len() == STDERR_KEPT;
        let end = if bytes.is_empty() || full {
            behind.len()
        } else {
            behind.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
        };
        let text = String::from_utf8_lossy(&behind[..end]).into_owned();
        state.stderr_shown += end;
        let mut shown = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            self.error_lines.line(line.as_bytes().to_vec(), |line| shown.push(line));
        }
        if bytes.is_empty() || full {
            self.error_lines.finish(|line| shown.push(line));
        }
        for line in shown {
            let shown = String::from_utf8_lossy(&line).into_owned();
            self.fold.hear_stderr(&shown);
            self.tell(Update::Stderr(shown));
        }
        if full && !kept.is_empty() {
            self.tell(Update::Stderr("… (the rest of stderr is not shown)".to_owned()));
        }
        self.tell_losses();
    }

    fn tell(&mut self, update: Update) {
        if !self.state.abandoned {
            self.state.pending_bytes += update.size();
            self.state.pending.push(update);
        }
    }

    fn tell_losses(&mut self) {
        for loss in self.journal.losses() {
            self.tell(Update::Lost(loss.to_string()));
        }
    }

    /// Hands over what is left, closes the recording, and says how it ended.
    async fn conclude(mut self) -> Conclusion {
        // Whoever asks from here on is told at once that nobody is there.
        self.dialogue = None;
        while let Ok(fed) = self.fed.try_recv() {
            self.take_fed(fed);
        }
        let steps = self.host.close(&mut self.fold);
        self.tell_sent(steps);
        self.ending.stderr = Some(self.redactor.text(&String::from_utf8_lossy(&self.state.stderr_kept)).into_owned());
        self.close_input();
        self.ending.exit_code = self.state.exit.and_then(|status| status.code());
        {
            use std::os::unix::process::ExitStatusExt as _;
            self.ending.signal = self.state.exit.and_then(|status| status.signal()).map(signal_name);
        }
        let duration = self.started.elapsed();
        let summary = self.fold.finish(&self.ending);
        let end = End {
            exit_code: self.ending.exit_code,
            signal: self.ending.signal.clone(),
            timed_out: self.ending.timed_out,
            clock: self.ladder.reason().and_then(|reason| ladder::clock_of(reason, self.clocks.limits())),
            interrupted: self.ending.interrupted,
            lingered: self.ending.lingered,
            violated: self.ending.violated.clone(),
            left: self.state.left,
            duration_ms: u64::try_from(duration.as_millis()).ok(),
            verdict: summary.verdict.to_json(),
            ..End::default()
        };
        let mut updates = self.state.pending;
        updates.extend(self.journal.losses().iter().map(|loss| Update::Lost(loss.to_string())));
        // Putting it on the disk takes a while, and others run here too. A disk that does not answer is not waited for.
        let journal = self.journal.clone();
        let finished = tokio::task::spawn_blocking(move || journal.finish(&end));
        let grace = self.ladder.grace();
        let patience = match self.ladder.reason() {
            _ if self.journal.is_given_up() => LOOK,
            Some(_) => grace,
            None => grace.max(DISK),
        };
        // Whoever wants it to end after a good run waits no longer for the disk than after any other.
        let tired = async {
            if self.ladder.reason().is_none() && tokio::time::timeout(patience, self.orders.recv()).await.is_ok() {
                tokio::time::sleep(grace).await;
            } else if self.ladder.reason().is_some() {
                tokio::time::sleep(patience).await;
            }
        };
        let finished = tokio::select! {
            biased;
            finished = finished => Some(finished),
            () = tired => None,
        };
        match finished {
            Some(Ok(Ok(losses))) => updates.extend(losses.iter().map(|loss| Update::Lost(loss.to_string()))),
            Some(Ok(Err(error))) => updates.push(Update::Lost(error.to_string())),
            Some(Err(_)) => {}
            None => updates.push(Update::Lost(
                "the recording's end.json is missing, and its last data may not be on the disk: the disk does not respond"
                    .to_owned(),
            )),
        }
        let stopped = self.ladder.reason();
        self.over.send_replace(stopped);
        if !updates.is_empty() {
            // A slow reader is waited for, unless somebody is tired of it.
            let tired = async {
                match stopped {
                    Some(_) => tokio::time::sleep(NOT_TAKEN).await,
                    None => drop(self.orders.recv().await),
                }
            };
            tokio::select! {
                _ = self.updates.send(updates) => {}
                () = tired => {}
            }
        }
        Conclusion { summary, ending: self.ending, duration, stopped }
    }
}

/// Waits until what is being written is; for ever where nothing is.
async fn ended(writing: &mut Option<Writing>) {
    match writing {
        Some(writing) => drop((&mut writing.written).await),
        None => std::future::pending().await,
    }
}

/// What is said next, if there is a dialogue.
async fn spoken(dialogue: &mut Option<Dialogue>) -> Spoken {
    match dialogue {
        Some(dialogue) => dialogue.next().await,
        None => std::future::pending().await,
    }
}

/// Waits until then, or for ever.
async fn sleep_until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
