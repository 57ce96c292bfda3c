//! An agent that plays a recording to any host: the same bytes, the same end, at the pace that is wanted, with faults on demand.
//! What the host sends is awaited where it was awaited, and its own ids stand in the answers.

mod frame;
mod host;
mod order;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Seek as _, SeekFrom, Write};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tapline_recording::{Recording, Stream};

use frame::{answered, is_result};
use host::{Host, Until, Woken};
use order::{Inputs, Next};

/// How a recording is played.
#[derive(Clone, Debug, Default)]
pub struct ReplayOptions {
    /// How fast.
    pub speed: Speed,
    /// At most so many bytes in a write.
    pub chunks: Option<NonZeroUsize>,
    /// Ends after so many lines of output.
    pub stop_after: Option<u64>,
    /// Says nothing more after so many lines of output, and stays.
    pub hang_at: Option<u64>,
    /// Leaves out what ends a turn.
    pub drop_result: bool,
    /// Ends where the host departs from what was recorded.
    pub strict: bool,
}

/// How fast.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Speed {
    /// As it was, so many times over.
    Times(f64),
    /// Without waiting.
    #[default]
    Instant,
}

/// The ends of the host that a replay speaks to.
pub struct HostEnds {
    /// What it sends; none if nobody is there to send.
    pub stdin: Option<Box<dyn Read + Send>>,
    /// What it reads.
    pub stdout: Box<dyn Write + Send>,
    /// What it reads beside.
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
    /// With the recorded signal, by name.
    Signal(String),
    /// The recording does not say how.
    NoEnd,
    /// The host has departed from what was recorded: where.
    Departed(String),
    /// The host reads no more.
    Unread,
}

/// So much is read at once.
const PIECE: usize = 256 << 10;

/// Plays a recording.
pub fn replay(recording: &Recording, options: &ReplayOptions, host: HostEnds) -> io::Result<Played> {
    let inputs = Inputs::read(recording);
    let converses = !inputs.lines.is_empty();
    let order = order::of(recording, &inputs)?;
    let answers = if converses { answers(recording)? } else { HashMap::new() };
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
        answers,
        by_line,
        pending: Vec::new(),
        lines: 0,
        last: (Duration::ZERO, Instant::now()),
        buffer: vec![0; PIECE],
    };
    match player.play(&order) {
        Ok(None) => {}
        Ok(Some(ended)) => return Ok(ended),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Played::Unread),
        Err(error) => return Err(error),
    }
    if let Some(why) = player.host.departed() {
        return Ok(Played::Departed(why));
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

/// The answers to the host's requests, by the recorded ids.
fn answers(recording: &Recording) -> io::Result<HashMap<String, Vec<u8>>> {
    let mut reader = BufReader::with_capacity(PIECE, File::open(recording.stdout())?);
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
    /// How far each is played.
    played: [u64; 2],
    /// Those that have not been given yet.
    answers: HashMap<String, Vec<u8>>,
    /// Whether lines must be looked at.
    by_line: bool,
    /// The line that is not whole yet.
    pending: Vec<u8>,
    lines: u64,
    /// What happened last: when it was, and when it is.
    last: (Duration, Instant),
    buffer: Vec<u8>,
}

/// Whether the playing goes on.
type Flow = io::Result<Option<Played>>;

/// Goes on, or ends what calls.
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
            hang();
        }
        if self.options.stop_after == Some(0) {
            return Ok(None);
        }
        for next in order {
            match *next {
                Next::In { lines, at } => go_on!(self.wait(Until::Lines(lines), at)),
                Next::Closed { at } => go_on!(self.wait(Until::Closed, at)),
                Next::Out { stream, end, at } => {
                    self.pause(at);
                    go_on!(self.advance(stream, end));
                    if self.is_stopped() {
                        return Ok(None);
                    }
                }
            }
        }
        // Half a line at the end is played too.
        let rest = std::mem::take(&mut self.pending);
        if !rest.is_empty() {
            self.line(&rest)?;
        }
        Ok(None)
    }

    fn is_stopped(&self) -> bool {
        self.options.stop_after.is_some_and(|most| self.lines >= most)
    }

    /// Waits as long as the agent took.
    fn pause(&mut self, at: Duration) {
        if let Speed::Times(factor) = self.options.speed {
            let gap = at.saturating_sub(self.last.0).as_secs_f64() / factor;
            let due = Duration::try_from_secs_f64(gap).ok().and_then(|gap| self.last.1.checked_add(gap));
            if let Some(due) = due {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                self.last.1 = due;
            }
            self.last.0 = self.last.0.max(at);
        }
    }

    fn wait(&mut self, until: Until, at: Duration) -> Flow {
        loop {
            match self.host.wait(until, |id| self.answers.contains_key(id)) {
                Woken::Ready => break,
                Woken::Departed(why) => return Ok(Some(Played::Departed(why))),
                Woken::Refusals(lines) => {
                    for line in lines {
                        self.write(line.as_bytes())?;
                    }
                }
                Woken::Ahead(ids) => {
                    for id in ids {
                        if let Some(line) = self.answers.remove(&id) {
                            let line = self.host.with_ids(&line);
                            write_in(&mut self.out, &line, self.options.chunks)?;
                        }
                    }
                }
            }
        }
        // From here on the agent's time runs again.
        self.last = (self.last.0.max(at), Instant::now());
        Ok(None)
    }

    /// Plays a stream on to this byte.
    fn advance(&mut self, stream: Stream, end: u64) -> Flow {
        let which = usize::from(stream == Stream::Stderr);
        while self.played[which] < end {
            let wanted = usize::try_from(end - self.played[which]).unwrap_or(PIECE).min(PIECE);
            let Some(file) = &mut self.files[which] else { return Ok(None) };
            let mut buffer = std::mem::take(&mut self.buffer);
            let count = file.read(&mut buffer[..wanted])?;
            self.played[which] += count as u64;
            let flow = match stream {
                Stream::Stderr => write_in(&mut self.err, &buffer[..count], self.options.chunks).map(|()| None),
                _ if self.by_line => self.lines_of(&buffer[..count]),
                _ => self.write(&buffer[..count]).map(|()| None),
            };
            self.buffer = buffer;
            go_on!(flow);
            // The file ends before its time.
            if count == 0 || self.is_stopped() {
                return Ok(None);
            }
        }
        Ok(None)
    }

    fn lines_of(&mut self, mut bytes: &[u8]) -> Flow {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(end + 1);
            bytes = rest;
            if self.pending.is_empty() {
                self.line(line)?;
            } else {
                self.pending.extend_from_slice(line);
                let whole = std::mem::take(&mut self.pending);
                self.line(&whole)?;
            }
            if self.is_stopped() {
                return Ok(None);
            }
            if let Some(why) = self.host.departed() {
                return Ok(Some(Played::Departed(why)));
            }
        }
        self.pending.extend_from_slice(bytes);
        Ok(None)
    }

    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        let given_ahead = answered(line).is_some_and(|id| self.answers.remove(&id).is_none());
        if given_ahead || (self.options.drop_result && is_result(line)) {
            return Ok(());
        }
        let line = self.host.with_ids(line);
        write_in(&mut self.out, &line, self.options.chunks)?;
        self.lines += 1;
        if self.options.hang_at == Some(self.lines) {
            hang();
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_in(&mut self.out, bytes, self.options.chunks)
    }
}

fn write_in(to: &mut dyn Write, bytes: &[u8], chunks: Option<NonZeroUsize>) -> io::Result<()> {
    for chunk in bytes.chunks(chunks.map_or(usize::MAX, NonZeroUsize::get)) {
        to.write_all(chunk)?;
        to.flush()?;
    }
    Ok(())
}

/// Stays, until somebody ends this process.
fn hang() -> ! {
    loop {
        std::thread::park();
    }
}

/// The version that the recorded agent says it is.
pub fn recorded_version(recording: &Recording) -> Option<String> {
    let mut head = vec![0; 1 << 20];
    let mut file = File::open(recording.stdout()).ok()?;
    file.seek(SeekFrom::Start(0)).ok()?;
    let count = file.read(&mut head).ok()?;
    let key = b"\"claude_code_version\":\"";
    let at = memchr::memmem::find(&head[..count], key)? + key.len();
    let version = head[at..count].split(|byte| *byte == b'"').next()?;
    String::from_utf8(version.to_vec()).ok()
}
