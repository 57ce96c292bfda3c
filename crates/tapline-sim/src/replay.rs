//! An agent that plays a recording to any host: the same bytes and the same end, at any speed, with faults on demand.
//! It waits for the host's input where the recorded agent waited, and uses the host's own ids in its answers.

mod frame;
mod host;
mod order;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tapline_recording::{Recording, Stream};

use crate::agents::guests;
use frame::{answered, is_result, may_answer};
use host::{Host, Woken};
use order::{Inputs, Next, Sent};

/// How to play a recording.
#[derive(Clone, Debug, Default)]
pub struct ReplayOptions {
    /// The speed.
    pub speed: Speed,
    /// The maximum number of bytes per write.
    pub chunks: Option<NonZeroUsize>,
    /// End after this many lines of output.
    pub stop_after: Option<u64>,
    /// Print nothing more after this many lines of output, but keep running.
    pub hang_at: Option<u64>,
    /// Leave out the lines that end a turn.
    pub drop_result: bool,
    /// End if the host does not follow the recording.
    pub strict: bool,
    /// Once set, a replay that hangs continues. It is for replays in the same process.
    pub released: Arc<AtomicBool>,
}

/// The speed of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Speed {
    /// The recorded speed times this factor.
    Times(f64),
    /// Without waiting.
    #[default]
    Instant,
}

/// The host's ends of the streams.
pub struct HostEnds {
    /// What the host sends. `None` if there is no stdin.
    pub stdin: Option<Box<dyn Read + Send>>,
    /// The host's end of stdout.
    pub stdout: Box<dyn Write + Send>,
    /// The host's end of stderr.
    pub stderr: Box<dyn Write + Send>,
}

impl std::fmt::Debug for HostEnds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HostEnds")
    }
}

/// How a replay ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Played {
    /// With the recorded exit code.
    Exit(i32),
    /// With the recorded signal.
    Signal(String),
    /// The recording does not say how the run ended.
    NoEnd,
    /// The host did not follow the recording. The text says where.
    Departed(String),
    /// The host stopped reading.
    Unread,
}

/// In strict mode, how long the host has to close its end.
const SETTLE: Duration = Duration::from_millis(500);
/// How much is read at once.
const PIECE: usize = 256 << 10;

/// Plays a recording.
pub fn replay(recording: &Recording, options: &ReplayOptions, host: HostEnds) -> io::Result<Played> {
    let inputs = Inputs::read(recording);
    let converses = !inputs.lines.is_empty();
    let order = order::of(recording, &inputs, options.speed != Speed::Instant)?;
    let listener = Host::new(inputs);
    match host.stdin {
        Some(stdin) => {
            let (listener, strict) = (Arc::clone(&listener), options.strict);
            let named = std::thread::Builder::new().name("tapline-stdin".to_owned());
            named.spawn(move || listener.listen(stdin, strict))?;
        }
        None => listener.listen(Box::new(io::empty()), options.strict),
    }
    let by_line = converses || options.stop_after.is_some() || options.hang_at.is_some() || options.drop_result;
    let mut player = Player {
        options,
        host: listener,
        out: host.stdout,
        err: host.stderr,
        files: [Some(File::open(recording.stdout())?), File::open(recording.file(Stream::Stderr)).ok()],
        played: [0, 0],
        stdout: recording.stdout(),
        answers: None,
        tried: HashSet::new(),
        ahead: HashSet::new(),
        by_line,
        pending: Vec::new(),
        torn: false,
        ready: Vec::new(),
        lines: 0,
        last: (Duration::ZERO, Instant::now()),
        buffer: vec![0; PIECE],
        told: false,
    };
    match player.play(&order) {
        Ok(None) => {}
        Ok(Some(ended)) => return Ok(ended),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Played::Unread),
        Err(error) => return Err(error),
    }
    Ok(match recording.end.as_ref() {
        Some(end) => match (&end.signal, end.exit_code) {
            (_, Some(code)) => Played::Exit(code),
            (Some(signal), None) => Played::Signal(signal.clone()),
            (None, None) => Played::NoEnd,
        },
        None => Played::NoEnd,
    })
}

/// Reads the answers to the host's requests, by their recorded ids.
fn answers(stdout: &Path) -> io::Result<HashMap<String, Vec<u8>>> {
    let mut reader = BufReader::with_capacity(PIECE, File::open(stdout)?);
    let (mut answers, mut line) = (HashMap::new(), Vec::new());
    while reader.read_until(b'\n', &mut line)? > 0 {
        if let Some(id) = answered(&line) {
            answers.insert(id, line.clone());
        }
        line.clear();
    }
    Ok(answers)
}

struct Player<'o> {
    options: &'o ReplayOptions,
    host: Arc<Host>,
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    files: [Option<File>; 2],
    /// How far each file was played.
    played: [u64; 2],
    stdout: PathBuf,
    /// The answers to the host's requests, by their recorded ids. Read once one is needed early.
    answers: Option<HashMap<String, Vec<u8>>>,
    /// The ids for which an early answer was looked up.
    tried: HashSet<String>,
    /// The ids that were answered early.
    ahead: HashSet<String>,
    /// Whether lines must be inspected.
    by_line: bool,
    /// The incomplete line.
    pending: Vec<u8>,
    /// Whether half of a line was written, so the rest of it is not inspected.
    torn: bool,
    /// What is to be written, at the latest before waiting for anything.
    ready: Vec<u8>,
    lines: u64,
    /// The last event: its recorded time, and its time now.
    last: (Duration, Instant),
    buffer: Vec<u8>,
    told: bool,
}

/// `Some` if the replay has ended.
type Flow = io::Result<Option<Played>>;

/// Returns from the function if the replay has ended.
macro_rules! go_on {
    ($flow:expr) => {
        if let Some(ended) = $flow? {
            return Ok(Some(ended));
        }
    };
}

impl Player<'_> {
    fn play(&mut self, order: &[Next]) -> Flow {
        if self.options.hang_at == Some(0) {
            self.hang();
        }
        for next in order {
            if self.is_stopped() {
                break;
            }
            match *next {
                Next::In { sent, at } => go_on!(self.wait(sent, at)),
                Next::Out { stream, end, at } => {
                    go_on!(self.pause(at));
                    go_on!(self.advance(stream, end));
                }
            }
        }
        // An incomplete line at the end is played, too.
        let rest = std::mem::take(&mut self.pending);
        if !rest.is_empty() && !self.is_stopped() {
            self.line(&rest)?;
        }
        self.flush()?;
        if self.options.strict {
            // The host's last input may still be on its way.
            self.host.settle(SETTLE);
        }
        match self.host.urgent() {
            Some(urgent) => self.heed(urgent),
            None => Ok(None),
        }
    }

    fn is_stopped(&self) -> bool {
        self.options.stop_after.is_some_and(|most| self.lines >= most)
    }

    /// Waits as long as the recorded agent took.
    fn pause(&mut self, at: Duration) -> Flow {
        let Speed::Times(factor) = self.options.speed else { return Ok(None) };
        let gap = at.saturating_sub(self.last.0).as_secs_f64() / factor;
        let due = Duration::try_from_secs_f64(gap).ok().and_then(|gap| self.last.1.checked_add(gap));
        // A time that cannot be represented is not waited for.
        let due = due.unwrap_or(self.last.1);
        if due > Instant::now() {
            self.flush()?;
            loop {
                match self.host.pause(due) {
                    Woken::Ready => break,
                    urgent => go_on!(self.heed(urgent)),
                }
            }
        }
        self.last = (self.last.0.max(at), due);
        Ok(None)
    }

    fn wait(&mut self, sent: Sent, at: Duration) -> Flow {
        self.flush()?;
        if !self.pending.is_empty() && !self.host.comes_soon(sent) {
            // The host may wait for exactly this half of a line.
            let half = std::mem::take(&mut self.pending);
            write_in(&mut self.out, &half, self.options.chunks)?;
            self.torn = true;
        }
        loop {
            match self.host.wait(sent, |id| !self.tried.contains(id), self.told) {
                Woken::Ready => break,
                urgent => go_on!(self.heed(urgent)),
            }
        }
        // From here on the agent's time runs again.
        self.last = (self.last.0.max(at), Instant::now());
        Ok(None)
    }

    /// Does what the host needs first.
    fn heed(&mut self, urgent: Woken) -> Flow {
        match urgent {
            Woken::Ready => {}
            Woken::Departed(why) => return Ok(Some(Played::Departed(why))),
            Woken::Refusals(lines) => self.ready.extend(lines.iter().flat_map(|line| line.bytes())),
            Woken::Stuck(what) => {
                self.told = true;
                writeln!(self.err, "tapline: replay: waiting for {what}")?;
            }
            Woken::Ahead(ids) => {
                let answers = match self.answers.take() {
                    Some(answers) => answers,
                    None => answers(&self.stdout)?,
                };
                for id in ids {
                    if let Some(line) = answers.get(&id) {
                        self.ready.extend_from_slice(&self.host.with_ids(line));
                        self.host.answered(&id);
                        self.ahead.insert(id.clone());
                    }
                    self.tried.insert(id);
                }
                self.answers = Some(answers);
            }
        }
        self.flush()?;
        Ok(None)
    }

    /// Plays a stream up to this byte.
    fn advance(&mut self, stream: Stream, end: u64) -> Flow {
        let which = usize::from(stream == Stream::Stderr);
        while self.played[which] < end {
            let wanted = usize::try_from(end - self.played[which]).unwrap_or(PIECE).min(PIECE);
            let Some(file) = &mut self.files[which] else { return Ok(None) };
            let mut buffer = std::mem::take(&mut self.buffer);
            let count = file.read(&mut buffer[..wanted]).unwrap_or(0);
            self.played[which] += count as u64;
            let flow = match stream {
                Stream::Stderr => {
                    self.flush()?;
                    write_in(&mut self.err, &buffer[..count], self.options.chunks).map(|()| None)
                }
                _ if self.by_line => self.lines_of(&buffer[..count]),
                _ => write_in(&mut self.out, &buffer[..count], self.options.chunks).map(|()| None),
            };
            self.buffer = buffer;
            go_on!(flow);
            // The file is shorter than `times` says.
            if count == 0 || self.is_stopped() {
                return Ok(None);
            }
        }
        Ok(None)
    }

    fn lines_of(&mut self, bytes: &[u8]) -> Flow {
        if self.torn {
            let end = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1);
            self.torn = !bytes[..end].ends_with(b"\n");
            write_in(&mut self.out, &bytes[..end], self.options.chunks)?;
            if self.torn {
                return Ok(None);
            }
            self.flush()?;
            self.count()?;
            return self.lines_of(&bytes[end..]);
        }
        // The incomplete line comes first.
        let under_way =
            if self.pending.is_empty() { 0 } else { memchr::memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1) };
        let (head, mut rest) = bytes.split_at(under_way);
        self.pending.extend_from_slice(head);
        if self.pending.ends_with(b"\n") {
            let line = std::mem::take(&mut self.pending);
            self.line(&line)?;
        }
        let counts = self.options.stop_after.is_some() || self.options.hang_at.is_some() || self.options.drop_result;
        let whole = memchr::memrchr(b'\n', rest).map_or(0, |end| end + 1);
        if !counts && !self.host.maps_messages() && !may_answer(&rest[..whole]) {
            // Most output need not be inspected: no line of it answers the host.
            self.flush()?;
            write_in(&mut self.out, &rest[..whole], self.options.chunks)?;
            rest = &rest[whole..];
        }
        while let Some(end) = memchr::memchr(b'\n', rest).filter(|_| !self.is_stopped()) {
            let (line, after) = rest.split_at(end + 1);
            rest = after;
            self.line(line)?;
        }
        self.pending.extend_from_slice(rest);
        match self.host.urgent() {
            Some(urgent) => self.heed(urgent),
            None => Ok(None),
        }
    }

    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        if let Some(id) = answered(line) {
            self.host.answered(&id);
            if self.ahead.remove(&id) {
                return Ok(());
            }
        }
        if self.options.drop_result && is_result(line) {
            return Ok(());
        }
        self.ready.extend_from_slice(&self.host.with_ids(line));
        self.count()?;
        if self.ready.len() >= PIECE || self.options.speed != Speed::Instant {
            self.flush()?;
        }
        Ok(())
    }

    /// Counts a line of output.
    fn count(&mut self) -> io::Result<()> {
        self.lines += 1;
        if self.options.hang_at == Some(self.lines) {
            self.flush()?;
            self.hang();
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.torn {
            // Nothing may be written in the middle of a line.
            return Ok(());
        }
        let ready = std::mem::take(&mut self.ready);
        write_in(&mut self.out, &ready, self.options.chunks)?;
        self.ready = ready;
        self.ready.clear();
        Ok(())
    }

    /// Hangs until the process is killed, or the test that owns it ends.
    fn hang(&self) {
        while !self.options.released.load(Ordering::Acquire) {
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }
}

fn write_in(to: &mut dyn Write, bytes: &[u8], chunks: Option<NonZeroUsize>) -> io::Result<()> {
    for chunk in bytes.chunks(chunks.map_or(usize::MAX, NonZeroUsize::get)) {
        to.write_all(chunk)?;
        to.flush()?;
    }
    Ok(())
}

/// Returns the recorded agent's version.
pub fn recorded_version(recording: &Recording) -> Option<String> {
    let mut head = vec![0; 1 << 20];
    let mut file = File::open(recording.stdout()).ok()?;
    let count = file.read(&mut head).ok()?;
    let behind = |key: &str| {
        let key = format!("\"{key}\":\"");
        Some(memchr::memmem::find(&head[..count], key.as_bytes())? + key.len())
    };
    let at = guests().filter_map(|guest| guest.version).find_map(behind)?;
    let version = head[at..count].split(|byte| *byte == b'"').next()?;
    String::from_utf8(version.to_vec()).ok()
}
