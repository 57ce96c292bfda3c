//! An agent in memory that a test plays in paused time. Its processes are numbers, and it reacts to the signals that
//! the test chooses.

use std::os::unix::process::ExitStatusExt as _;
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader, DuplexStream, ReadBuf};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Killer, Source, Streams, Transport};
use crate::tree::{Left, StopSignal};

/// A signal to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Signal {
    Int = 2,
    Term = 15,
    Kill = 9,
}

/// Which signals end an agent and its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Minds {
    Everything,
    KillAlone,
    Nothing,
}

/// Creates a transport and the agent at its other end.
pub(crate) fn pair() -> (MemoryTransport, Peer) {
    let (input, stdin) = tokio::io::duplex(64 << 10);
    let (stdout, stderr) = (Wire::default(), Wire::default());
    let agent = Arc::new(Agent {
        state: Mutex::new(State { minds: Minds::Everything, others: 0, signals: Vec::new() }),
        status: watch::Sender::new(None),
        began: Instant::now(),
        stdout: stdout.clone(),
        stderr: stderr.clone(),
    });
    let streams = Some(Streams { input: Some(input), output: Some(stdout), errors: Some(stderr) });
    let transport = MemoryTransport { streams, agent: Arc::clone(&agent) };
    (transport, Peer { stdin: BufReader::new(stdin).lines(), agent })
}

/// The driver's end.
#[derive(Debug)]
pub(crate) struct MemoryTransport {
    streams: Option<Streams<DuplexStream, Wire, Wire>>,
    agent: Arc<Agent>,
}

/// The agent's end. The agent continues when this is dropped.
#[derive(Debug)]
pub(crate) struct Peer {
    stdin: tokio::io::Lines<BufReader<DuplexStream>>,
    agent: Arc<Agent>,
}

#[derive(Debug)]
struct Agent {
    state: Mutex<State>,
    status: watch::Sender<Option<ExitStatus>>,
    began: Instant,
    stdout: Wire,
    stderr: Wire,
}

#[derive(Debug)]
struct State {
    minds: Minds,
    /// The number of processes that it has started.
    others: usize,
    signals: Vec<(Signal, Duration)>,
}

impl Agent {
    fn left(&self) -> Left {
        let agent = usize::from(self.status.borrow().is_none());
        Left { processes: agent + self.state.lock().unwrap().others, unclear: false }
    }

    fn signal(&self, signal: Signal) {
        let mut state = self.state.lock().unwrap();
        state.signals.push((signal, self.began.elapsed()));
        let minds = match state.minds {
            Minds::Everything => true,
            Minds::KillAlone => signal == Signal::Kill,
            Minds::Nothing => false,
        };
        if minds {
            state.others = 0;
            drop(state);
            self.end(ExitStatus::from_raw(signal as i32));
        }
    }

    fn end(&self, status: ExitStatus) {
        self.status.send_if_modified(|known| known.is_none() && known.replace(status).is_none());
        self.stdout.close();
        self.stderr.close();
    }
}

impl Peer {
    /// Writes a line.
    pub(crate) fn say(&self, line: &str) {
        self.agent.stdout.push(line);
    }

    /// Closes its output, and continues.
    pub(crate) fn close_output(&self) {
        self.agent.stdout.close();
    }

    /// Returns the next line of its input, or `None` once that is closed.
    pub(crate) async fn hear(&mut self) -> Option<serde_json::Value> {
        let line = self.stdin.next_line().await.unwrap()?;
        Some(serde_json::from_str(&line).unwrap_or(serde_json::Value::String(line)))
    }

    /// Ends, and leaves this many processes behind.
    pub(crate) fn exit(&self, code: i32, others: usize) {
        self.agent.state.lock().unwrap().others = others;
        self.agent.end(ExitStatus::from_raw(code << 8));
    }

    pub(crate) fn minds(&self, minds: Minds) {
        self.agent.state.lock().unwrap().minds = minds;
    }

    /// Returns how long ago it started.
    pub(crate) fn age(&self) -> Duration {
        self.agent.began.elapsed()
    }

    /// Returns the signals that it got, each the first time, and when.
    pub(crate) fn signals(&self) -> Vec<(Signal, Duration)> {
        let mut signals = self.agent.state.lock().unwrap().signals.clone();
        signals.dedup_by_key(|(signal, _)| *signal);
        signals
    }
}

impl Transport for MemoryTransport {
    type Input = DuplexStream;
    type Output = Wire;
    type Errors = Wire;

    fn streams(&mut self) -> Streams<DuplexStream, Wire, Wire> {
        self.streams.take().unwrap()
    }

    async fn ended(&mut self) -> Option<ExitStatus> {
        let mut status = self.agent.status.subscribe();
        let ended = status.wait_for(Option::is_some).await.unwrap();
        *ended
    }

    fn interrupt(&self) {
        self.agent.signal(Signal::Int);
    }

    async fn signal(&mut self, signal: StopSignal) -> Left {
        let left = self.agent.left();
        if left != Left::default() {
            self.agent.signal(if signal == StopSignal::Kill { Signal::Kill } else { Signal::Term });
        }
        left
    }

    async fn left(&mut self) -> Left {
        self.agent.left()
    }

    async fn kill_holders(&mut self) {}

    async fn close(&mut self) {}

    fn killer(&self) -> Arc<dyn Killer> {
        Arc::clone(&self.agent) as Arc<dyn Killer>
    }
}

impl Killer for Agent {
    fn kill(self: Arc<Self>) {
        if self.left() != Left::default() {
            self.signal(Signal::Kill);
        }
    }
}

/// What an agent has written and nobody has read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wire(Arc<Mutex<Written>>);

#[derive(Debug, Default)]
struct Written {
    bytes: Vec<u8>,
    closed: bool,
    reader: Option<Waker>,
}

impl Wire {
    fn push(&self, line: &str) {
        let mut written = self.0.lock().unwrap();
        written.bytes.extend(line.bytes().chain([b'\n']));
        written.reader.take().into_iter().for_each(Waker::wake);
    }

    fn close(&self) {
        let mut written = self.0.lock().unwrap();
        written.closed = true;
        written.reader.take().into_iter().for_each(Waker::wake);
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let mut written = self.0.lock().unwrap();
        if written.bytes.is_empty() && !written.closed {
            written.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = written.bytes.len().min(buffer.remaining());
        buffer.put_slice(&written.bytes[..count]);
        written.bytes.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl Source for Wire {
    fn is_drained(&self) -> bool {
        self.0.lock().unwrap().bytes.is_empty()
    }
}
