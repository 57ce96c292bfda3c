//! Reads session files into texts that can be indexed, on all cores.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use memchr::{memchr, memrchr};
use tapline_protocol::{Agent, DEFAULT_LINE_LIMIT, Tape};
use tapline_recording::Recording;

use super::words::add_words;
use crate::lines::without_mark;
use crate::places::Places;
use crate::prompts::{SentPrompt, each_prompt};
use crate::said::{Context, EntryKind, Said, key};
use crate::scan::{self, agent_of};
use crate::transcripts;

/// How much is read at once.
const CHUNK: usize = 512 << 10;
/// How much text is passed on at once.
const PASSED_ON: usize = 256 << 10;
/// How many such pieces can wait. Almost as many as are written at once: otherwise nobody reads while one writes.
const WAITING: usize = 64;
/// A longer line is not a line of a session.
const LONGEST: usize = DEFAULT_LINE_LIMIT;
/// How much of a text is indexed: its beginning and its end, because that is where errors stand.
pub(super) const BEGINNING: usize = 48 << 10;
pub(super) const END: usize = 16 << 10;

/// A file to read, from where an earlier reading ended.
#[derive(Debug)]
pub(super) struct Job<'f> {
    pub(super) places: &'f Places,
    pub(super) path: &'f Path,
    /// The folder of the recording whose output it is, if it is one.
    pub(super) recording: Option<&'f Path>,
    /// The agent that wrote it, if that is known.
    pub(super) agent: Option<Agent>,
    pub(super) len: u64,
    pub(super) from: u64,
    pub(super) context: Context,
}

/// One text, ready to be indexed.
#[derive(Debug)]
pub(super) struct Entry {
    /// When, in seconds since 1970.
    pub(super) time: u64,
    pub(super) scope: Arc<Scope>,
    pub(super) kind: EntryKind,
    pub(super) key: u64,
    /// A hash of a prompt's session and words. 0 if it is no prompt.
    pub(super) asked: u64,
    pub(super) tool: String,
    pub(super) error: bool,
    pub(super) subagent: bool,
    pub(super) streamed: bool,
    /// Where its line is, and which text of the line it is.
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) part: u32,
    /// Its words.
    pub(super) body: String,
}

/// What many texts have in common.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Scope {
    pub(super) session: String,
    pub(super) folder: String,
    pub(super) branch: String,
}

/// A piece of a file that was read.
#[derive(Debug, Default)]
pub(super) struct Piece {
    /// The agent that wrote the file. `None` if it is not a session file.
    pub(super) agent: Option<Agent>,
    pub(super) entries: Vec<Entry>,
    /// Where the next piece begins.
    pub(super) end: u64,
    pub(super) context: Context,
    /// Whether it is the last piece of the file.
    pub(super) last: bool,
    /// How many texts were too long to be indexed whole.
    pub(super) cut: usize,
    /// About how many bytes its texts take.
    pub(super) bytes: usize,
}

/// What a text takes beside its words.
const ENTRY: usize = 200;

impl Piece {
    fn push(&mut self, entry: Entry) {
        self.bytes += entry.body.len() + ENTRY;
        self.entries.push(entry);
    }

    /// Returns whether there is enough in it to pass it on.
    fn is_full(&self) -> bool {
        self.bytes >= PASSED_ON
    }
}

/// Reads files on all cores, and passes on their pieces, each file's in order, with its place in `jobs`. Ends early if
/// `stop` says so, or if `each` returns false.
pub(super) fn read_all(jobs: &[Job<'_>], stop: &AtomicBool, mut each: impl FnMut(usize, io::Result<Piece>) -> bool) {
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(jobs.len());
    // What is read waits for the one that writes, up to a limit, so that memory stays small.
    let (send, receive) = mpsc::sync_channel(WAITING);
    thread::scope(|scope| {
        for _ in 0..threads {
            let (next, send) = (&next, send.clone());
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(number) else { return };
                    let mut goes_on = true;
                    let read = read(job, |piece| {
                        goes_on = send.send((number, Ok(piece))).is_ok();
                        goes_on && !stop.load(Ordering::Relaxed)
                    });
                    if let Err(error) = read {
                        goes_on = send.send((number, Err(error))).is_ok();
                    }
                    if !goes_on {
                        return;
                    }
                }
            });
        }
        drop(send);
        for (job, piece) in &receive {
            if !each(job, piece) || stop.load(Ordering::Relaxed) {
                break;
            }
        }
        // Nobody waits for a place in the queue from now on.
        drop(receive);
    });
}

/// Reads an open file, packed or not, from a place.
pub(super) fn open(mut file: File, path: &Path, from: u64) -> io::Result<Box<dyn Read>> {
    if is_packed(path) {
        let mut unpacked = zstd::Decoder::new(file)?;
        io::copy(&mut (&mut unpacked).take(from), &mut io::sink())?;
        return Ok(Box::new(unpacked));
    }
    file.seek(SeekFrom::Start(from))?;
    Ok(Box::new(file))
}

/// Returns whether a file is compressed.
pub(super) fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "zst")
}

/// Reads a file. `each` says whether to go on.
fn read(job: &Job<'_>, mut each: impl FnMut(Piece) -> bool) -> io::Result<()> {
    let mut file = open(job.places.open(job.path)?, job.path, job.from)?;
    let agent = match job.agent {
        Some(agent) => Some(agent),
        None => agent_of(&scan::Job { places: job.places, path: job.path, len: job.len, earlier: None })?,
    };
    let Some(agent) = agent else {
        each(Piece { last: true, ..Piece::default() });
        return Ok(());
    };
    let mut reader = LineReader { agent, tape: Tape::default(), context: job.context.clone(), scope: None };
    let mut piece = Piece::default();
    let mut buffer: Vec<u8> = Vec::new();
    // Where the buffer begins in the file, how much of it was searched for a newline, and whether a line is too long.
    let (mut at, mut searched, mut skips) = (job.from, 0, false);
    loop {
        let got = (&mut file).take(CHUNK as u64).read_to_end(&mut buffer)?;
        let at_end = got == 0;
        let newline = memrchr(b'\n', &buffer[searched..]).map(|newline| searched + newline + 1);
        // A last line without a newline is complete if it can be read; otherwise it is still being written.
        let end = newline.unwrap_or(0);
        let mut from = 0;
        while from < end {
            let to = memchr(b'\n', &buffer[from..]).map_or(end, |newline| from + newline + 1);
            if !std::mem::take(&mut skips) {
                reader.line(&buffer[from..to], at + from as u64, &mut piece);
            }
            from = to;
        }
        let mut done = end;
        if at_end && !skips && reader.line(&buffer[end..], at + end as u64, &mut piece) {
            done = buffer.len();
        }
        at += done as u64;
        buffer.drain(..done);
        searched = buffer.len();
        if buffer.len() > LONGEST {
            skips = true;
            at += buffer.len() as u64;
            (buffer, searched) = (Vec::new(), 0);
        }
        if at_end {
            break;
        }
        if piece.is_full() && !each(reader.ready(&mut piece, at)) {
            return Ok(());
        }
    }
    // The output says which session it is, so what was sent comes after it.
    if let Some((folder, recording)) = job.recording.and_then(|folder| Some((folder, Recording::open(folder).ok()?))) {
        let mut goes_on = true;
        reader.context.sent = each_prompt(&recording, reader.context.sent, |prompt| {
            reader.sent(prompt, folder, &mut piece);
            goes_on = !piece.is_full() || each(reader.ready(&mut piece, at));
            goes_on
        });
        if !goes_on {
            return Ok(());
        }
    }
    each(Piece { last: true, ..reader.ready(&mut piece, at) });
    Ok(())
}

/// Reads lines, one after the other.
struct LineReader {
    agent: Agent,
    tape: Tape,
    context: Context,
    scope: Option<Arc<Scope>>,
}

impl LineReader {
    /// Returns what was read up to this place of the file.
    fn ready(&self, piece: &mut Piece, end: u64) -> Piece {
        Piece { agent: Some(self.agent), end, context: self.context.clone(), ..std::mem::take(piece) }
    }

    /// Takes a prompt that was sent to the agent, in the recording in this folder.
    fn sent(&mut self, prompt: SentPrompt, folder: &Path, piece: &mut Piece) {
        let SentPrompt { text, at, offset, len, part, .. } = prompt;
        if self.context.title.is_empty() {
            self.context.title = transcripts::cut_title(&text);
        }
        // A recording whose output names no session is one of its own.
        let unnamed = folder.to_string_lossy();
        let session = if self.context.session.is_empty() { &*unnamed } else { &*self.context.session };
        let (key, asked) = (key(&["prompt", session, &text]), asked(session, &text));
        let (body, is_cut) = body(&text);
        piece.cut += usize::from(is_cut);
        if !body.is_empty() {
            let (time, scope, kind) = (at.as_millis() / 1_000, scope_of(&mut self.scope, &self.context), EntryKind::Prompt);
            let (tool, error, subagent, streamed) = (String::new(), false, false, true);
            let entry = Entry { time, scope, kind, key, asked, tool, error, subagent, streamed, offset, len, part, body };
            piece.push(entry);
        }
    }

    /// Reads a line. Returns whether it could be read.
    fn line(&mut self, line: &[u8], offset: u64, piece: &mut Piece) -> bool {
        let line = without_mark(line);
        let text = match simdutf8::basic::from_utf8(line) {
            Ok(text) => std::borrow::Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(line),
        };
        let Ok(value) = self.tape.parse(text.trim()) else { return false };
        let scope = &mut self.scope;
        let mut part = 0;
        let mut calls = std::mem::take(&mut self.context.calls);
        transcripts::said(self.agent, value, &mut self.context, &mut |context, said| {
            let tool = Context::tool_of(&mut calls, &said);
            let (body, is_cut) = body(&said.text);
            piece.cut += usize::from(is_cut);
            if !body.is_empty() {
                let scope = scope_of(scope, context);
                let len = line.len() as u64;
                let Said { kind, key, error, .. } = said;
                let Context { time, subagent, streamed, .. } = *context;
                let (time, is_asked) = (time / 1_000, kind == EntryKind::Prompt && !subagent);
                let asked = if is_asked { asked(&context.session, &said.text) } else { 0 };
                let entry = Entry { time, scope, kind, key, asked, tool, error, subagent, streamed, offset, len, part, body };
                piece.push(entry);
            }
            part += 1;
        });
        self.context.calls = calls;
        true
    }
}

/// Returns the words of a text, and whether the middle was left out.
fn body(text: &str) -> (String, bool) {
    let mut body = String::new();
    if text.len() <= BEGINNING + END {
        add_words(text, &mut body);
        return (body, false);
    }
    let near = |at: usize| (at..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    add_words(&text[..near(BEGINNING)], &mut body);
    add_words(&text[near(text.len() - END)..], &mut body);
    (body, true)
}

/// Hashes a prompt of a session. A transcript has it with a time of its own, and what was sent need not end as it does there.
fn asked(session: &str, text: &str) -> u64 {
    key(&["asked", session, text.trim()]).max(1)
}

fn scope_of(known: &mut Option<Arc<Scope>>, context: &Context) -> Arc<Scope> {
    let same = |scope: &&Arc<Scope>| {
        scope.session == context.session && scope.folder == context.folder && scope.branch == context.branch
    };
    if let Some(scope) = known.as_ref().filter(same) {
        return Arc::clone(scope);
    }
    let (session, folder, branch) = (context.session.clone(), context.folder.clone(), context.branch.clone());
    Arc::clone(known.insert(Arc::new(Scope { session, folder, branch })))
}
