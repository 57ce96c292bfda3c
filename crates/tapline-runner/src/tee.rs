//! Sits between a host and an agent: both directions pass unchanged and at once, and are recorded afterwards. No byte
//! waits for the disk, and no failure of the recording stops one.

use std::fs::File;
use std::io::{self, Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tapline_recording::{End, Loss, Recorder, Stream};
use tapline_session::signal_name;

use crate::process::Process;
use tapline_session::text::with_causes;

/// How much is read at once.
const PIECE: usize = 64 << 10;
/// How much may wait for the disk. Anything beyond is missing from the recording, which says so.
const BACKLOG: usize = 64 << 20;
/// How long it must be quiet after the agent's end before reading stops, because other processes may still write to the
/// agent's output.
const QUIET: Duration = Duration::from_millis(100);
/// How long that may take at most.
const LATEST: Duration = Duration::from_secs(2);
/// How long to wait at the end for a disk that does not answer.
const DISK: Duration = Duration::from_secs(5);
/// The memory that a waiting piece takes in addition to its bytes.
const OVERHEAD: usize = 128;

/// The host's ends of the streams.
pub struct HostStreams {
    /// The input from the host.
    pub stdin: Box<dyn Read + Send>,
    /// The host's stdout.
    pub stdout: Box<dyn Write + Send>,
    /// The host's stderr.
    pub stderr: Box<dyn Write + Send>,
}

impl std::fmt::Debug for HostStreams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HostStreams")
    }
}

/// A running agent, whose host does not know about us.
#[derive(Debug)]
pub struct Tee {
    process: Process,
    outputs: [Arc<Pump>; 2],
    keeper: Option<(Keeper, Receiver<Vec<String>>)>,
    started: Instant,
}

/// How it ended.
#[derive(Debug)]
pub struct Teed {
    /// How the agent ended.
    pub status: ExitStatus,
    /// What is missing from the recording, in words.
    pub losses: Vec<String>,
}

impl Tee {
    /// Starts the agent.
    pub async fn start(mut command: Command, recorder: Option<Recorder>, host: HostStreams) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = Instant::now();
        let mut process = match Process::beside(command).await {
            Ok(process) => process,
            Err(error) => {
                // The run never began.
                if let Some(recorder) = recorder {
                    recorder.discard();
                }
                return Err(error);
            }
        };
        let keeper = recorder.map(|recorder| keep(recorder, started)).transpose()?;
        let [stdin, stdout, stderr] = process.streams()?.map(|fd| fd.map(File::from));
        let [stdout, stderr] = [stdout, stderr].map(|file| file.map(Arc::new));
        let outputs = [&stdout, &stderr].map(|file| Arc::new(Pump::of(file.clone())));
        let ends = [
            (
                Stream::Stdin,
                Some(host.stdin),
                stdin.map(|file| Box::new(file) as Box<dyn Write + Send>),
                Arc::new(Pump::of(None)),
            ),
            (Stream::Stdout, boxed(stdout), Some(host.stdout), Arc::clone(&outputs[0])),
            (Stream::Stderr, boxed(stderr), Some(host.stderr), Arc::clone(&outputs[1])),
        ];
        for (stream, from, to, pump) in ends {
            let keeper = keeper.as_ref().map(|(keeper, _)| keeper.clone());
            let named = std::thread::Builder::new().name(format!("tapline-{}", stream.file_name()));
            named.spawn(move || pump.run(stream, from.zip(to), keeper.as_ref()))?;
        }
        Ok(Self { process, outputs, keeper, started })
    }

    /// Passes a signal on to the agent.
    pub fn signal(&self, number: i32) {
        self.process.signal(number);
    }

    /// Waits for the agent's end.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// After the agent's end, waits until its last output is passed on. It waits as long as the host does not read; a
    /// caller can stop waiting.
    pub async fn drained(&self) {
        let ended = Instant::now();
        let goals = self.outputs.each_ref().map(|pump| pump.goal());
        let left = || self.outputs.iter().zip(goals).any(|(pump, goal)| !pump.is_over(ended, goal));
        while left() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Finishes the recording.
    pub fn finish(self, status: ExitStatus) -> Teed {
        let signal = std::os::unix::process::ExitStatusExt::signal(&status).map(signal_name);
        let duration = u64::try_from(self.started.elapsed().as_millis()).ok();
        let end = End { exit_code: status.code(), signal, duration_ms: duration, ..End::default() };
        let losses = self.keeper.map(|(keeper, losses)| {
            let _ = keeper.queue.send(Kept::End(Box::new(end)));
            // The caller does not wait for the disk.
            losses.recv_timeout(DISK).unwrap_or_else(|_| keeper.given_up())
        });
        Teed { status, losses: losses.unwrap_or_default() }
    }
}

fn boxed(file: Option<Arc<File>>) -> Option<Box<dyn Read + Send>> {
    file.map(|file| Box::new(file) as Box<dyn Read + Send>)
}

/// One direction.
#[derive(Debug, Default)]
struct Pump {
    done: AtomicBool,
    /// Whether a piece was taken out of the pipe and is not passed on yet.
    busy: AtomicBool,
    /// How many bytes were passed on.
    passed: AtomicU64,
    /// When something last passed.
    last: Mutex<Option<Instant>>,
    /// The agent's end of it, as long as it is read, to look whether something is left in it.
    source: Mutex<Option<Arc<File>>>,
}

impl Pump {
    fn of(source: Option<Arc<File>>) -> Self {
        Self { source: Mutex::new(source), ..Self::default() }
    }

    /// Returns the agent's end.
    fn source(&self) -> Option<Arc<File>> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn run(&self, stream: Stream, ends: Option<(Box<dyn Read + Send>, Box<dyn Write + Send>)>, keeper: Option<&Keeper>) {
        if let Some((from, to)) = ends {
            self.pass(stream, from, to, keeper);
        }
        // The agent must see that its reader is gone, as it would without us.
        *self.source.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.done.store(true, Ordering::Release);
    }

    fn pass(&self, stream: Stream, mut from: Box<dyn Read + Send>, mut to: Box<dyn Write + Send>, keeper: Option<&Keeper>) {
        let mut buffer = vec![0; PIECE];
        loop {
            // Whoever looks sees the bytes in the pipe, or that a piece is on its way: never neither.
            if let Some(source) = self.source() {
                is_readable(&source, None);
                self.busy.store(true, Ordering::Release);
            }
            let count = match from.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(count) if count > 0 => count,
                _ => {
                    // Note it before the agent can see that its input is closed.
                    if let Some(keeper) = keeper.filter(|_| stream == Stream::Stdin) {
                        keeper.closed(stream);
                    }
                    return;
                }
            };
            let piece = &buffer[..count];
            // Note it before it is passed on, so that its consequences are noted after it.
            if let Some(keeper) = keeper {
                keeper.note(stream, piece);
            }
            let sent = to.write_all(piece).and_then(|()| to.flush());
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            self.passed.fetch_add(count as u64, Ordering::AcqRel);
            self.busy.store(false, Ordering::Release);
            if sent.is_err() {
                // The writer must see that its reader is gone, as it would without us.
                return;
            }
        }
    }

    /// Returns how many bytes must have been passed on before reading may stop: all that the pipe holds now.
    fn goal(&self) -> u64 {
        let held = self.source().and_then(|source| rustix::io::ioctl_fionread(&*source).ok()).unwrap_or(0);
        held + self.passed.load(Ordering::Acquire)
    }

    /// Returns whether there is nothing more to wait for, now that the agent has ended.
    fn is_over(&self, ended: Instant, goal: u64) -> bool {
        if self.done.load(Ordering::Acquire) {
            return true;
        }
        let is_left = self.source().is_some_and(|source| is_readable(&source, Some(&Timespec::default())));
        if is_left || self.busy.load(Ordering::Acquire) {
            // Other processes may write for ever. What the agent wrote comes first.
            let is_late = ended.elapsed() > LATEST && self.passed.load(Ordering::Acquire) >= goal;
            return is_late && !self.busy.load(Ordering::Acquire);
        }
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or(ended).max(ended);
        last.elapsed() > QUIET
    }
}

/// Waits until there is something to read, or the end. Returns whether there is.
fn is_readable(file: &File, timeout: Option<&Timespec>) -> bool {
    let mut polled = [PollFd::new(file, PollFlags::IN)];
    loop {
        match poll(&mut polled, timeout) {
            Err(rustix::io::Errno::INTR) => {}
            // What cannot be asked is found out by reading.
            found => return found.is_ok_and(|count| count > 0),
        }
    }
}

enum Kept {
    /// A stream was closed.
    Closed {
        stream: Stream,
        at: Duration,
    },
    Piece {
        stream: Stream,
        bytes: Vec<u8>,
        at: Duration,
    },
    End(Box<End>),
}

/// Passes pieces to the thread that writes the recording.
#[derive(Clone, Debug)]
struct Keeper {
    queue: Sender<Kept>,
    waiting: Arc<AtomicUsize>,
    /// Which streams are no longer recorded.
    lost: Arc<[AtomicBool; 3]>,
    /// How many bytes of each stream are written.
    written: Arc<[AtomicU64; 3]>,
    started: Instant,
}

impl Keeper {
    /// Says what is missing from the recording, because the disk does not answer.
    fn given_up(&self) -> Vec<String> {
        let loss = |stream: Stream| Loss {
            file: stream.file_name().to_owned(),
            from: self.written[stream as usize].load(Ordering::Acquire),
            error: "the disk did not respond".to_owned(),
        };
        [Stream::Stdout, Stream::Stderr, Stream::Stdin].map(|stream| loss(stream).to_string()).into()
    }

    fn closed(&self, stream: Stream) {
        let _ = self.queue.send(Kept::Closed { stream, at: self.started.elapsed() });
    }

    fn note(&self, stream: Stream, piece: &[u8]) {
        let lost = &self.lost[stream as usize];
        if lost.load(Ordering::Acquire) {
            return;
        }
        let fits = self.waiting.load(Ordering::Acquire) + piece.len() <= BACKLOG;
        lost.store(!fits, Ordering::Release);
        // An empty piece marks where data is missing.
        let bytes = if fits { piece.to_vec() } else { Vec::new() };
        self.waiting.fetch_add(bytes.len() + OVERHEAD, Ordering::AcqRel);
        let _ = self.queue.send(Kept::Piece { stream, bytes, at: self.started.elapsed() });
    }
}

fn keep(recorder: Recorder, started: Instant) -> io::Result<(Keeper, Receiver<Vec<String>>)> {
    let (queue, pieces) = channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&waiting);
    let named = std::thread::Builder::new().name("tapline-record".to_owned());
    let (told, losses) = channel();
    let written = Arc::<[AtomicU64; 3]>::default();
    let so_far = Arc::clone(&written);
    named.spawn(move || told.send(record(recorder, &pieces, &counted, &so_far)))?;
    Ok((Keeper { queue, waiting, lost: Arc::default(), written, started }, losses))
}

fn record(mut recorder: Recorder, pieces: &Receiver<Kept>, waiting: &AtomicUsize, written: &[AtomicU64; 3]) -> Vec<String> {
    for kept in pieces {
        match kept {
            Kept::Closed { stream, at } => {
                recorder.close_at(stream, at);
            }
            Kept::Piece { stream, bytes, .. } if bytes.is_empty() => {
                waiting.fetch_sub(OVERHEAD, Ordering::AcqRel);
                recorder.give_up(stream, &io::Error::other("the disk could not keep up"));
            }
            Kept::Piece { stream, bytes, at } => {
                recorder.write_at(stream, &bytes, at);
                written[stream as usize].fetch_add(bytes.len() as u64, Ordering::AcqRel);
                waiting.fetch_sub(bytes.len() + OVERHEAD, Ordering::AcqRel);
            }
            Kept::End(end) => {
                let known = recorder.losses();
                let last = recorder.finish(&end);
                let told = |losses: Vec<Loss>| losses.iter().map(ToString::to_string).collect::<Vec<_>>();
                return match last {
                    Ok(last) => told(known.into_iter().chain(last).collect()),
                    Err(error) => told(known).into_iter().chain([with_causes(&error)]).collect(),
                };
            }
        }
    }
    Vec::new()
}
