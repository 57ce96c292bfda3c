//! Removes secrets from a whole stream. Partial messages may cut a secret into pieces, so the pieces of a block are
//! checked together. A line waits only while its end could be the beginning of a secret. No line is lost, added or
//! moved.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use tapline_protocol::{Kind, Tape, Value};

use super::alike::Alike;
use super::glance::{announces, may_hold};
use super::json::json;
use super::lines::{Lines, trimmed};
use super::peel::{Escapes, Peeled, find, peel};
use super::rules::Rules;
use super::scan::Found;
use super::sieve::OVERLAP;
use super::{REDACTED, Redactor, floor, splice};

/// How much decided text is kept, because names come before their values.
const CONTEXT: usize = 192;
/// How much of a block may be undecided. Beyond that, it is hidden.
const UNDECIDED: usize = 16 << 10;
/// How many bytes and lines may wait.
const WAITING: (usize, usize) = (1 << 20, 1 << 10);

/// How many blocks may be open. Each agent writes one at a time.
const OPEN: usize = 64;

/// Removes secrets from an agent's stream, line by line.
#[derive(Debug)]
pub struct StreamRedactor {
    redactor: Redactor,
    lines: Lines,
    /// The open blocks, at most [`OPEN`].
    blocks: HashMap<Arc<Key>, Block>,
    /// How many pieces have arrived.
    pieces: u64,
    /// The last line that added to a block, and that block.
    alike: Option<(Alike, Arc<Key>)>,
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

/// A block that is being written: the sub-agent's call, the block's index, and which of its texts.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    parent: String,
    index: String,
    field: &'static str,
}

/// The text of a block. Positions count from the start of the block.
#[derive(Debug, Default)]
struct Block {
    /// The undecided text, and some of the text before it.
    text: String,
    /// The position where `text` begins.
    base: usize,
    decided: usize,
    /// Whether the rest of a secret that was too long to wait for is being hidden.
    swallows: bool,
    /// How far the text was searched for announcements.
    looked: usize,
    /// Where the text ended when an announcement was last found.
    stirred: usize,
    /// The number of the last piece.
    last: u64,
}

/// A line that was not passed on yet.
#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    edits: Vec<(Range<usize>, &'static str)>,
    /// The piece of a block in this line, until it is decided.
    piece: Option<Piece>,
}

#[derive(Debug)]
struct Piece {
    key: Arc<Key>,
    /// The position of the piece in the block.
    from: usize,
    to: usize,
    /// The position of the piece in the line.
    place: usize,
    peeled: Option<Peeled>,
}

/// What a line does to blocks.
enum Says {
    /// Adds this string to a block.
    Adds(Arc<Key>, Range<usize>),
    /// Ends a block, or all blocks of one agent.
    Ends(String, Option<String>),
    Nothing,
}

impl StreamRedactor {
    pub(super) fn new(redactor: Redactor) -> Self {
        let (lines, blocks, waiting) = (Lines::default(), HashMap::new(), VecDeque::new());
        Self { redactor, lines, blocks, pieces: 0, alike: None, waiting, bytes: 0 }
    }

    /// Takes the next line, including its line ending, and passes on the lines that are ready, in order.
    pub fn line(&mut self, bytes: Vec<u8>, mut each: impl FnMut(Vec<u8>)) {
        self.pass(Cow::Owned(bytes), |line| each(line.into_owned()));
    }

    /// Takes the next line. A line that is unchanged and need not wait is not copied.
    pub(super) fn pass<'b>(&mut self, bytes: Cow<'b, [u8]>, mut each: impl FnMut(Cow<'b, [u8]>)) {
        let alike = self.alike.as_ref().and_then(|(alike, key)| Some((alike.text(trimmed(&bytes).1)?, key)));
        let is_alike = alike.is_some();
        let said = match alike {
            Some((place, key)) => Says::Adds(Arc::clone(key), place),
            None if self.may_speak(&bytes) => says(&mut self.lines.tape, &bytes),
            None => Says::Nothing,
        };
        match said {
            Says::Adds(key, place) => {
                if let Some(line) = self.add(&key, place, is_alike, bytes) {
                    return each(line);
                }
            }
            said => {
                if let Says::Ends(parent, index) = said {
                    self.end(|key| key.parent == parent && index.as_ref().is_none_or(|index| *index == key.index));
                }
                let clean = match self.lines.line(&self.redactor.0, &bytes) {
                    Cow::Owned(clean) => Cow::Owned(clean),
                    Cow::Borrowed(_) => bytes,
                };
                if self.waiting.is_empty() {
                    return each(clean);
                }
                self.wait(Waiting { bytes: clean.into_owned(), edits: Vec::new(), piece: None });
            }
        }
        if self.bytes > WAITING.0 || self.waiting.len() > WAITING.1 {
            self.give_up();
        }
        self.release(&mut each);
    }

    /// Returns whether a line may affect blocks. Most streams have none.
    fn may_speak(&self, bytes: &[u8]) -> bool {
        !self.blocks.is_empty()
            || memchr::memmem::find(bytes, b"stream_event").is_some()
            || memchr::memchr(b'\\', bytes).is_some()
                && memchr::memmem::find_iter(bytes, b"\\u00").any(|at| matches!(bytes.get(at + 4), Some(b'2'..=b'7')))
    }

    /// Ends the stream and passes on the lines that still wait.
    pub fn finish(&mut self, mut each: impl FnMut(Vec<u8>)) {
        self.end(|_| true);
        self.release(&mut |line| each(line.into_owned()));
    }

    fn wait(&mut self, line: Waiting) {
        self.bytes += line.bytes.len();
        self.waiting.push_back(line);
    }

    /// Adds a piece to a block. Returns the line if neither it nor any other line needs to wait.
    fn add<'b>(&mut self, key: &Arc<Key>, place: Range<usize>, is_alike: bool, bytes: Cow<'b, [u8]>) -> Option<Cow<'b, [u8]>> {
        let (mark, line) = trimmed(&bytes);
        let rules = &self.redactor.0;
        let raw = std::str::from_utf8(&line[place.start + 1..place.end - 1]).unwrap_or_default();
        // The piece itself is checked as part of its block.
        let mut others = Vec::new();
        if !is_alike {
            let holds = may_hold(rules, &line[..place.start]) || may_hold(rules, &line[place.end..]);
            if let Some(value) =
                std::str::from_utf8(line).ok().filter(|_| holds).and_then(|text| self.lines.tape.parse(text).ok())
            {
                others = json(rules, value, Some(&place));
            }
            // A user's rules may hide anything, even a `uuid`.
            let alike = if holds || rules.has_own { None } else { Alike::new(line, &place) };
            self.alike = alike.map(|alike| (alike, Arc::clone(key)));
        }
        let peeled = raw.contains('\\').then(|| peel(raw, Escapes::Json));
        let added = peeled.as_ref().map_or(raw, |peeled| &peeled.text);
        if self.blocks.len() >= OPEN && !self.blocks.contains_key(key) {
            self.drop_one();
        }
        let block = self.blocks.entry(Arc::clone(key)).or_default();
        self.pieces += 1;
        block.last = self.pieces;
        let from = block.base + block.text.len();
        block.text.push_str(added);
        let to = from + added.len();
        let found = block.decide(&self.redactor, true);
        if self.waiting.is_empty() && others.is_empty() && found.is_empty() && to <= block.decided {
            return Some(bytes);
        }
        let edits = others.into_iter().map(|span| (span.start + mark..span.end + mark, REDACTED)).collect();
        let piece = Piece { key: Arc::clone(key), from, to, place: mark + place.start + 1, peeled };
        self.wait(Waiting { bytes: bytes.into_owned(), edits, piece: Some(piece) });
        self.settle(key, &found);
        None
    }

    /// Ends these blocks, which decides all of their text.
    fn end(&mut self, which: impl Fn(&Key) -> bool) {
        let ended: Vec<Arc<Key>> = self.blocks.keys().filter(|key| which(key)).cloned().collect();
        for key in ended {
            if let Some(mut block) = self.blocks.remove(&key) {
                let found = block.decide(&self.redactor, false);
                self.settle(&key, &found);
            }
        }
    }

    /// Too many blocks are open: drops the one that has been idle longest, preferably a decided one. Undecided text is
    /// hidden.
    fn drop_one(&mut self) {
        let oldest = self.blocks.iter().min_by_key(|(_, block)| (block.is_undecided(), block.last));
        let Some(key) = oldest.map(|(key, _)| Arc::clone(key)) else { return };
        if let Some(mut block) = self.blocks.remove(&key) {
            let found = block.give_up();
            self.settle(&key, &found);
        }
    }

    /// Too much is waiting: hides all undecided text.
    fn give_up(&mut self) {
        let keys: Vec<Arc<Key>> = self.blocks.keys().cloned().collect();
        for key in keys {
            if let Some(block) = self.blocks.get_mut(&key) {
                let found = block.give_up();
                self.settle(&key, &found);
            }
        }
    }

    /// Applies what was found in a block to its lines.
    fn settle(&mut self, key: &Key, found: &[Range<usize>]) {
        let decided = self.blocks.get(key).map_or(usize::MAX, |block| block.decided);
        for line in &mut self.waiting {
            let Some(piece) = line.piece.as_ref().filter(|piece| *piece.key == *key) else { continue };
            for span in found.iter().filter(|span| span.start < piece.to && span.end > piece.from) {
                let place = |at: usize| {
                    let at = at.clamp(piece.from, piece.to) - piece.from;
                    piece.place + piece.peeled.as_ref().map_or(at, |peeled| peeled.above(at))
                };
                // The replacement is shown where the secret begins; the rest of it is removed.
                let shown = if span.start >= piece.from { REDACTED } else { "" };
                line.edits.push((place(span.start)..place(span.end), shown));
            }
            if piece.to <= decided {
                line.piece = None;
                line.edits.sort_by_key(|(span, _)| span.start);
            }
        }
    }

    fn release<'b>(&mut self, each: &mut impl FnMut(Cow<'b, [u8]>)) {
        while self.waiting.front().is_some_and(|line| line.piece.is_none())
            && let Some(line) = self.waiting.pop_front()
        {
            self.bytes -= line.bytes.len();
            each(Cow::Owned(if line.edits.is_empty() { line.bytes } else { splice(&line.bytes, line.edits.into_iter()) }));
        }
    }
}

impl Block {
    /// Decides as much as possible and returns what was newly found.
    fn decide(&mut self, redactor: &Redactor, more: bool) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        if self.swallows {
            let rest = &self.text[self.decided - self.base..];
            let length = rest.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'')).unwrap_or(rest.len());
            self.swallows = length == rest.len();
            if length > 0 {
                found.push(self.decided..self.decided + length);
                self.decided += length;
            }
        }
        let rules = &redactor.0;
        let seen = if self.is_quiet(rules) {
            Found { spans: Vec::new(), undecided: rules.may_begin(&self.text), is_quiet: true }
        } else {
            find(rules, &self.text, more)
        };
        let mut decided = if more { self.base + seen.undecided } else { self.base + self.text.len() };
        for span in seen.spans {
            let (start, end) = (self.base + span.start, self.base + span.end);
            if end > decided {
                decided = decided.min(start);
                break;
            }
            if end > self.decided {
                found.push(start.max(self.decided)..end);
            }
        }
        self.decided = decided.max(self.decided);
        if self.base + self.text.len() - self.decided > UNDECIDED {
            found.extend(self.give_up());
        }
        self.forget();
        found
    }

    /// Returns whether nothing in the kept text can matter. It searches only the new text.
    fn is_quiet(&mut self, rules: &Rules) -> bool {
        let new = self.looked.max(self.base) - self.base;
        let end = self.base + self.text.len();
        let is_escaped = memchr::memchr2(b'\\', 0x1b, &self.text.as_bytes()[new..]).is_some();
        if is_escaped || announces(rules, &self.text, new.saturating_sub(OVERLAP)) {
            self.stirred = end;
        }
        self.looked = end;
        self.stirred <= self.base
    }

    /// Returns whether the next piece may continue a secret that has begun.
    fn is_undecided(&self) -> bool {
        self.swallows || self.base + self.text.len() > self.decided
    }

    /// Hides the undecided text and its continuation.
    fn give_up(&mut self) -> Vec<Range<usize>> {
        let end = self.base + self.text.len();
        let hidden = self.decided..end;
        self.decided = end;
        self.swallows |= !hidden.is_empty();
        if hidden.is_empty() { Vec::new() } else { vec![hidden] }
    }

    /// Drops text that no decision needs any more.
    fn forget(&mut self) {
        let keep = (self.decided - self.base).saturating_sub(CONTEXT);
        if keep > CONTEXT / 2 {
            let keep = floor(&self.text, keep);
            self.text.drain(..keep);
            self.base += keep;
        }
    }
}

/// Returns what a line does to blocks.
fn says(tape: &mut Tape, bytes: &[u8]) -> Says {
    let (_, line) = trimmed(bytes);
    let Ok(text) = std::str::from_utf8(line) else { return Says::Nothing };
    let Ok(value) = tape.parse(text) else { return Says::Nothing };
    read(value, text).unwrap_or(Says::Nothing)
}

fn read(value: Value<'_>, text: &str) -> Option<Says> {
    let [kind, parent, event] = fields(value, |name| match name {
        "type" => Some(0),
        "parent_tool_use_id" => Some(1),
        "event" => Some(2),
        _ => None,
    })?;
    let kind = kind?.as_str()?;
    let parent = parent.and_then(Value::as_str).unwrap_or_default().into_owned();
    if kind != "stream_event" {
        // A whole message repeats what its pieces said.
        return matches!(&*kind, "assistant" | "user" | "result").then_some(Says::Ends(parent, None));
    }
    let [kind, index, delta] = fields(event?, |name| match name {
        "type" => Some(0),
        "index" => Some(1),
        "delta" => Some(2),
        _ => None,
    })?;
    let index = index.map(|index| index.raw().to_owned());
    match &*kind?.as_str()? {
        "content_block_delta" => {
            let added = fields(delta?, |name| match name {
                "text" => Some(0),
                "thinking" => Some(1),
                "partial_json" => Some(2),
                _ => None,
            })?;
            let mut added = ["text", "thinking", "partial_json"].into_iter().zip(added);
            let (field, added) =
                added.find_map(|(field, added)| Some((field, added.filter(|it| it.kind() == Kind::String)?)))?;
            let start = added.raw().as_ptr().addr() - text.as_ptr().addr();
            let key = Arc::new(Key { parent, index: index.unwrap_or_default(), field });
            Some(Says::Adds(key, start..start + added.raw().len()))
        }
        "content_block_start" | "content_block_stop" => Some(Says::Ends(parent, index)),
        "message_start" | "message_stop" => Some(Says::Ends(parent, None)),
        _ => None,
    }
}

/// Finds entries of an object in one pass and puts each at the index that `place` returns. If a key is repeated, the
/// last value counts.
fn fields(value: Value<'_>, place: impl Fn(&str) -> Option<usize>) -> Option<[Option<Value<'_>>; 3]> {
    let mut found = [None; 3];
    for (name, value) in value.entries()? {
        if let Some(place) = place(&name) {
            found[place] = Some(value);
        }
    }
    Some(found)
}
