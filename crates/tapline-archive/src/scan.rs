//! Reads session files into facts: only the lines that matter, on all cores, also from a single large file.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, mpsc};
use std::thread;

use memchr::{memchr, memrchr};
use tapline_protocol::{Agent, DEFAULT_LINE_LIMIT, Decoder, Tape};

use crate::facts::Facts;
use crate::lines::{lines, without_mark};
use crate::places::Places;
use crate::transcripts::{Reading, recognise, without_nuls};

/// How much is read at once. It fits into the cache of a core.
const CHUNK: usize = 512 << 10;
/// Larger files are read in parts, by several threads.
const PART: u64 = 8 << 20;
/// How much of the beginning is read line by line: the title is there, and what the file is.
const HEAD: usize = 64 << 10;
/// How much of the beginning is read first to tell what the file is. It is enough for most.
const GLANCE: u64 = 4 << 10;
/// How many lines at the end are read line by line: they say how the session stands.
const TAIL: usize = 3;
/// A longer line is not a line of a session. It counts as damaged, so that no file can take all memory.
const LONGEST: usize = DEFAULT_LINE_LIMIT;
/// How many files are read ahead of who takes them, so that a slow disk does not fill the memory.
const AHEAD: usize = 64;
/// How many bytes at both ends tell whether a file is still the same.
const CHECKED: usize = 256;

/// A session file that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Scanned {
    pub(crate) facts: Facts,
    /// Up to where it was read: the end of its last complete line.
    pub(crate) offset: u64,
    /// A hash of its first bytes, and of the last ones before the offset.
    pub(crate) check: u64,
}

/// A file to read, from the beginning or from where an earlier reading ended.
#[derive(Debug)]
pub(crate) struct Job<'f> {
    pub(crate) places: &'f Places,
    pub(crate) path: &'f Path,
    pub(crate) len: u64,
    pub(crate) earlier: Option<Scanned>,
}

impl Job<'_> {
    fn start(&self) -> u64 {
        self.earlier.as_ref().map_or(0, |earlier| earlier.offset)
    }

    fn is_packed(&self) -> bool {
        self.path.extension().is_some_and(|ending| ending == "zst")
    }

    fn parts(&self) -> usize {
        let rest = self.len.saturating_sub(self.start());
        if self.is_packed() { 1 } else { usize::try_from(rest.div_ceil(PART)).unwrap_or(usize::MAX).max(1) }
    }
}

/// A part of a file.
#[derive(Debug)]
struct PartRead {
    reading: Reading,
    /// Where its last complete line ends.
    end: u64,
    /// The file, if this is its first part: it need not be opened again for the check.
    file: Option<File>,
}

/// The parts of a file that were read so far.
#[derive(Debug, Default)]
struct Parts {
    agent: OnceLock<Option<Agent>>,
    read: Mutex<Vec<Option<io::Result<PartRead>>>>,
}

/// Reads files on all cores. Passes on each as soon as it is read, with its place in `jobs`: nothing for a file that is
/// not a session. Ends early if `stop` says so.
pub(crate) fn scan(jobs: &[Job<'_>], stop: &AtomicBool, mut each: impl FnMut(usize, io::Result<Option<Scanned>>)) {
    let mut units: Vec<_> = (0..jobs.len()).flat_map(|job| (0..jobs[job].parts()).map(move |part| (job, part))).collect();
    // The largest first, so that all threads end at the same time.
    units.sort_by_key(|(job, part)| (std::cmp::Reverse(jobs[*job].len), *job, *part));
    let parts: Vec<_> = jobs.iter().map(|_| Parts::default()).collect();
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(units.len());
    let (send, receive) = mpsc::sync_channel(AHEAD);
    thread::scope(|scope| {
        for _ in 0..threads {
            let (units, parts, next, send) = (&units, &parts, &next, send.clone());
            scope.spawn(move || {
                let mut buffer = Vec::with_capacity(CHUNK);
                while !stop.load(Ordering::Relaxed) {
                    let Some(&(job, part)) = units.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                    let read = read_part(&jobs[job], &parts[job].agent, part, &mut buffer);
                    let whole = put_together(&jobs[job], &parts[job], part, read);
                    if whole.is_some_and(|whole| send.send((job, whole)).is_err()) {
                        return;
                    }
                }
            });
        }
        drop(send);
        for (job, read) in receive {
            each(job, read);
        }
    });
}

/// Adds a part. Returns the file once all of its parts are read.
fn put_together(job: &Job<'_>, parts: &Parts, part: usize, read: io::Result<PartRead>) -> Option<io::Result<Option<Scanned>>> {
    let mut all = parts.read.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if all.is_empty() {
        all.resize_with(job.parts(), || None);
    }
    all[part] = Some(read);
    if all.iter().any(Option::is_none) {
        return None;
    }
    let mut all = std::mem::take(&mut *all).into_iter().flatten();
    let whole = all.next()?.and_then(|PartRead { reading: mut whole, end: mut offset, file }| {
        for part in all {
            let part = part?;
            whole.append(part.reading);
            offset = offset.max(part.end);
        }
        let Some(agent) = parts.agent.get().copied().flatten() else { return Ok(None) };
        let mut facts = whole.finish();
        agent.name().clone_into(&mut facts.agent);
        let check = file.map_or(Ok(0), |file| check_of(&file, offset))?;
        Ok(Some(Scanned { facts, offset, check }))
    });
    Some(whole)
}

/// Returns a hash of the first bytes of a file, and of the last ones before an offset.
pub(crate) fn check(path: &Path, offset: u64) -> io::Result<u64> {
    check_of(&File::open(path)?, offset)
}

fn check_of(file: &File, offset: u64) -> io::Result<u64> {
    use std::hash::{BuildHasher as _, Hasher as _};
    let mut hasher = foldhash::quality::FixedState::with_seed(1).build_hasher();
    let mut bytes = [0; CHECKED];
    let bytes = &mut bytes[..usize::try_from(offset).unwrap_or(CHECKED).min(CHECKED)];
    for from in [0, offset - bytes.len() as u64] {
        // A file that became shorter meanwhile has another check than what was read of it.
        let read = match file.read_exact_at(bytes, from) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => &[],
            Err(error) => return Err(error),
            Ok(()) => &*bytes,
        };
        hasher.write(read);
    }
    Ok(hasher.finish())
}

/// Reads the lines that begin in one part of a file.
fn read_part(job: &Job<'_>, agent: &OnceLock<Option<Agent>>, part: usize, buffer: &mut Vec<u8>) -> io::Result<PartRead> {
    let mut reading = match &job.earlier {
        Some(earlier) if part == 0 => Reading::after(earlier.facts.clone()),
        _ => Reading::default(),
    };
    let from = job.start() + part as u64 * PART;
    let mut file = open(job)?;
    // Only the beginning of a file tells what it is.
    if from > 0 && agent.get().is_none() {
        let found = agent_of(job)?;
        agent.get_or_init(|| found);
    }
    let last = part + 1 == job.parts();
    let mut part_lines =
        Lines { from, at: from, until: if last { u64::MAX } else { from + PART }, skip: part > 0, buffer, filled: 0 };
    if part > 0 {
        // The byte before the part tells whether a line begins with it.
        part_lines.at = from - 1;
    }
    if part_lines.at > 0 {
        file.seek(part_lines.at)?;
    }
    let end = part_lines.read(&mut file, |bytes, ends| {
        let Some(agent) = *agent.get_or_init(|| agent_of_lines(bytes)) else { return ControlFlow::Break(()) };
        let mut bytes = bytes;
        // Also if the file was shorter when it was read before.
        if reading.facts.title.is_empty() && part == 0 && from < HEAD as u64 {
            bytes = head(&mut reading, agent, bytes);
        }
        let tail = if ends && last { tail_start(bytes) } else { bytes.len() };
        let (most, tail) = bytes.split_at(tail);
        if memchr(0, most).is_some() {
            reading.every_line(agent, most);
        } else {
            reading.lines(agent, most);
        }
        reading.every_line(agent, tail);
        ControlFlow::Continue(())
    })?;
    Ok(PartRead { reading, end, file: file.plain().filter(|_| part == 0) })
}

/// Reads the first lines until one of them gives a title. Returns the rest.
fn head<'b>(reading: &mut Reading, agent: Agent, bytes: &'b [u8]) -> &'b [u8] {
    let mut at = 0;
    while at < bytes.len().min(HEAD) && reading.facts.title.is_empty() && !reading.is_untitled {
        let end = memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |newline| at + newline + 1);
        reading.every_line(agent, &bytes[at..end]);
        at = end;
    }
    &bytes[at..]
}

/// Returns where the last few lines begin.
fn tail_start(bytes: &[u8]) -> usize {
    let mut at = bytes.len();
    for _ in 0..TAIL {
        let end = at.saturating_sub(1);
        at = memrchr(b'\n', &bytes[..end]).map_or(0, |newline| newline + 1);
    }
    at
}

/// Returns the agent that wrote a file, by its first lines.
pub(crate) fn agent_of(job: &Job<'_>) -> io::Result<Option<Agent>> {
    let mut bytes = Vec::new();
    let mut file = open(job)?;
    let mut wanted = GLANCE;
    loop {
        let got = (&mut file).take(wanted).read_to_end(&mut bytes)?;
        let at_end = (got as u64) < wanted;
        // A line says nothing until it is complete, and it can be long.
        let whole = if at_end { bytes.len() } else { memrchr(b'\n', &bytes).map_or(0, |newline| newline + 1) };
        let agent = agent_of_lines(&bytes[..whole]);
        if agent.is_some() || at_end || whole >= HEAD || bytes.len() >= LONGEST {
            return Ok(agent);
        }
        wanted = (bytes.len() as u64).max(HEAD as u64);
    }
}

/// Returns the agent that wrote these lines, by those that begin near the start.
fn agent_of_lines(bytes: &[u8]) -> Option<Agent> {
    let mut decoder = Decoder::default();
    let mut tape = Tape::default();
    let mut so_far = 0;
    let near = lines(bytes).take_while(|line| {
        so_far += line.len() + 1;
        so_far - line.len() <= HEAD
    });
    for (number, line) in (1..).zip(near.map(without_mark).map(without_nuls)) {
        let text = String::from_utf8_lossy(line);
        if let Some(agent) = tape.parse(text.trim()).ok().and_then(recognise) {
            return Some(agent);
        }
        let mut owned = line.to_vec();
        owned.push(b'\n');
        if let Some(agent) = decoder.decode_line(number, owned).dialect.agent() {
            return Some(agent);
        }
    }
    None
}

/// A file, packed or not.
enum Opened {
    Plain(File),
    Packed(Box<zstd::Decoder<'static, io::BufReader<File>>>),
}

fn open(job: &Job<'_>) -> io::Result<Opened> {
    let file = job.places.open(job.path)?;
    Ok(if job.is_packed() { Opened::Packed(Box::new(zstd::Decoder::new(file)?)) } else { Opened::Plain(file) })
}

impl Opened {
    fn plain(self) -> Option<File> {
        match self {
            Self::Plain(file) => Some(file),
            Self::Packed(_) => None,
        }
    }

    fn seek(&mut self, to: u64) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.seek(SeekFrom::Start(to)).map(drop),
            Self::Packed(_) => Ok(()),
        }
    }
}

impl Read for Opened {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read(buffer),
            Self::Packed(file) => file.read(buffer),
        }
    }
}

/// Cuts a part of a file into pieces of whole lines.
struct Lines<'b> {
    from: u64,
    /// Where the buffer begins in the file.
    at: u64,
    /// Lines that begin here or later are another part's.
    until: u64,
    /// Whether everything up to the first newline is another part's.
    skip: bool,
    /// Only the first `filled` bytes count. The rest is left from earlier files, so that it need not be cleared.
    buffer: &'b mut Vec<u8>,
    filled: usize,
}

impl Lines<'_> {
    /// Passes on whole lines, and whether they are the last ones, until `each` breaks off. Returns where they end.
    fn read(&mut self, file: &mut impl Read, mut each: impl FnMut(&[u8], bool) -> ControlFlow<()>) -> io::Result<u64> {
        loop {
            let at_end = self.fill(file)?;
            if self.skip {
                match memchr(b'\n', &self.buffer[..self.filled]) {
                    Some(newline) => self.drop(newline + 1),
                    None if at_end => return Ok(self.at),
                    None => {
                        self.drop(self.filled);
                        continue;
                    }
                }
                self.skip = false;
            }
            if self.at >= self.until {
                return Ok(self.from);
            }
            // How far the lines of this part reach, and whether this is the last piece of it.
            let bound = usize::try_from(self.until - self.at).unwrap_or(usize::MAX);
            let held = &self.buffer[..self.filled];
            let (end, over) = match held.get(bound.saturating_sub(1)..).and_then(|rest| memchr(b'\n', rest)) {
                Some(newline) => (bound - 1 + newline + 1, true),
                None => (memrchr(b'\n', held).map_or(0, |newline| newline + 1), at_end),
            };
            let mut end = end;
            if at_end && over && end < held.len() && end as u64 + self.at < self.until && is_complete(&held[end..]) {
                end = held.len();
            }
            if held.len() - end > LONGEST {
                self.skip = true;
                self.drop(end);
                continue;
            }
            let stops = end > 0 && each(&held[..end], over).is_break();
            self.drop(end);
            if over || stops {
                return Ok(self.at);
            }
        }
    }

    /// Reads one more chunk. Returns whether the file has ended.
    fn fill(&mut self, file: &mut impl Read) -> io::Result<bool> {
        // A long line doubles what is read at once, so that it is not searched for its end too often.
        let until = self.filled + CHUNK.max(self.filled);
        if self.buffer.len() < until {
            self.buffer.resize(until, 0);
        }
        while self.filled < until {
            match file.read(&mut self.buffer[self.filled..until]) {
                Ok(0) => break,
                Ok(bytes) => self.filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.filled < until)
    }

    /// Forgets the first bytes.
    fn drop(&mut self, bytes: usize) {
        self.buffer.copy_within(bytes..self.filled, 0);
        self.filled -= bytes;
        self.at += bytes as u64;
    }
}

/// Returns whether a last line without a newline is complete. Otherwise it is still being written, or torn.
fn is_complete(line: &[u8]) -> bool {
    std::str::from_utf8(without_mark(line)).is_ok_and(|line| Tape::default().parse(line.trim()).is_ok())
}
