//! A strict but robust JSON reader: RFC 8259 to the letter, with any depth, any number, repeated and escaped keys, and
//! lone surrogates. One pass checks the text and indexes its values; views ([`Value`]) then read what they need. No
//! general JSON crate handles all of this (see ARCHITECTURE.md).

mod fingerprint;
mod fragment;
mod value;
mod walk;

pub(crate) use fingerprint::fingerprint;
pub use fragment::{Json, JsonError, Number, without_lone_surrogates};
pub use value::{Entries, Items, Value};
pub use walk::{Token, Walk};

use std::fmt;

/// What kind of value stands here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "JSON's own words")]
pub enum Kind {
    Null,
    True,
    False,
    Number,
    String,
    Array,
    Object,
}

/// The position of one value in the text. `next` is the index of the node after this value and everything in it.
#[derive(Clone, Copy, Debug)]
struct Node {
    start: u32,
    end: u32,
    next: u32,
    kind: Kind,
    escaped: bool,
}

/// Why a text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyntaxError {
    /// The text ends before the value does.
    Incomplete,
    /// This byte is not allowed here.
    At {
        /// The byte's offset in the text.
        offset: usize,
        /// What was expected instead.
        expected: &'static str,
    },
    /// The text is larger than 4 GiB.
    TooLarge,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Incomplete => f.write_str("the text ends before the value does"),
            Self::At { offset, expected } => {
                write!(f, "column {}: expected {expected}", offset + 1)
            }
            Self::TooLarge => f.write_str("larger than 4 GiB"),
        }
    }
}

impl std::error::Error for SyntaxError {}

/// An index of the values of one text. It can be reused for many texts.
#[derive(Debug, Default)]
pub struct Tape {
    nodes: Vec<Node>,
}

/// Above this many nodes, the memory that one unusual line took is freed.
const KEEP_NODES: usize = 1 << 16;

impl Tape {
    /// Creates an index for one small text, with room for its values.
    pub(crate) fn for_one(text: &str) -> Self {
        Self { nodes: Vec::with_capacity((text.len() / 8).clamp(8, 512)) }
    }

    /// Checks `text` and returns the view of its only value.
    pub fn parse<'t>(&'t mut self, text: &'t str) -> Result<Value<'t>, SyntaxError> {
        self.nodes.clear();
        if self.nodes.capacity() > KEEP_NODES {
            self.nodes.shrink_to(KEEP_NODES);
        }
        if u32::try_from(text.len()).is_err() {
            return Err(SyntaxError::TooLarge);
        }
        Parser { bytes: text.as_bytes(), at: 0, nodes: &mut self.nodes }.document()?;
        Ok(Value::root(text, &self.nodes))
    }
}

struct Parser<'t> {
    bytes: &'t [u8],
    at: usize,
    nodes: &'t mut Vec<Node>,
}

/// The `next` of an outermost container while it is being read: it has no parent.
const OUTSIDE: u32 = u32::MAX;

#[expect(
    clippy::inline_always,
    reason = "one loop over the bytes: each call that is left costs as much as the value that it reads"
)]
impl Parser<'_> {
    /// Reads without recursion. While a container is open, its `next` holds its parent.
    fn document(&mut self) -> Result<(), SyntaxError> {
        let mut open = OUTSIDE;
        self.blanks();
        'value: loop {
            match self.peek()? {
                b'{' => {
                    open = self.enter(Kind::Object, open);
                    self.blanks();
                    if self.peek()? == b'}' {
                        open = self.leave(open);
                    } else {
                        self.key()?;
                        continue 'value;
                    }
                }
                b'[' => {
                    open = self.enter(Kind::Array, open);
                    self.blanks();
                    if self.peek()? == b']' {
                        open = self.leave(open);
                    } else {
                        continue 'value;
                    }
                }
                _ => self.scalar()?,
            }
            // After a value: close containers until one continues.
            loop {
                self.blanks();
                if open == OUTSIDE {
                    return if self.at == self.bytes.len() { Ok(()) } else { self.wrong("the end of the line") };
                }
                let object = self.nodes[open as usize].kind == Kind::Object;
                match self.peek()? {
                    b',' => {
                        self.at += 1;
                        self.blanks();
                        if object {
                            self.key()?;
                        }
                        continue 'value;
                    }
                    b'}' if object => open = self.leave(open),
                    b']' if !object => open = self.leave(open),
                    _ if object => return self.wrong("`,` or `}`"),
                    _ => return self.wrong("`,` or `]`"),
                }
            }
        }
    }

    #[inline(always)]
    fn peek(&self) -> Result<u8, SyntaxError> {
        self.bytes.get(self.at).copied().ok_or(SyntaxError::Incomplete)
    }

    #[cold]
    fn wrong<T>(&self, expected: &'static str) -> Result<T, SyntaxError> {
        Err(SyntaxError::At { offset: self.at, expected })
    }

    #[inline(always)]
    fn blanks(&mut self) {
        // Agents write none, so one comparison has to do.
        while let Some(&byte) = self.bytes.get(self.at)
            && byte <= b' '
            && matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
        {
            self.at += 1;
        }
    }

    #[inline(always)]
    fn enter(&mut self, kind: Kind, parent: u32) -> u32 {
        let index = self.place(self.nodes.len());
        let start = self.place(self.at);
        self.nodes.push(Node { start, end: start, next: parent, kind, escaped: false });
        self.at += 1;
        index
    }

    /// Closes the container and returns its parent.
    #[inline(always)]
    fn leave(&mut self, open: u32) -> u32 {
        self.at += 1;
        let end = self.place(self.at);
        let next = self.place(self.nodes.len());
        let node = &mut self.nodes[open as usize];
        node.end = end;
        std::mem::replace(&mut node.next, next)
    }

    #[inline(always)]
    fn leaf(&mut self, kind: Kind, start: usize, escaped: bool) {
        let next = self.place(self.nodes.len() + 1);
        let node = Node { start: self.place(start), end: self.place(self.at), next, kind, escaped };
        self.nodes.push(node);
    }

    #[expect(clippy::cast_possible_truncation, clippy::unused_self, reason = "texts over 4 GiB are refused first")]
    fn place(&self, offset: usize) -> u32 {
        offset as u32
    }

    #[inline(always)]
    fn key(&mut self) -> Result<(), SyntaxError> {
        if self.peek()? != b'"' {
            return self.wrong("a key in quotes");
        }
        self.string()?;
        self.blanks();
        if self.peek()? != b':' {
            return self.wrong("`:`");
        }
        self.at += 1;
        self.blanks();
        Ok(())
    }

    fn scalar(&mut self) -> Result<(), SyntaxError> {
        match self.peek()? {
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.literal("true", Kind::True),
            b'f' => self.literal("false", Kind::False),
            b'n' => self.literal("null", Kind::Null),
            _ => self.wrong("a value"),
        }
    }

    fn literal(&mut self, word: &'static str, kind: Kind) -> Result<(), SyntaxError> {
        let start = self.at;
        let rest = &self.bytes[start..];
        if rest.starts_with(word.as_bytes()) {
            self.at += word.len();
            self.leaf(kind, start, false);
            Ok(())
        } else if word.as_bytes().starts_with(rest) {
            Err(SyntaxError::Incomplete)
        } else {
            // Any word that starts with that letter: there is no way to tell which value was meant.
            self.wrong("a value")
        }
    }

    fn digits(&mut self) -> Result<(), SyntaxError> {
        if !self.peek()?.is_ascii_digit() {
            return self.wrong("a digit");
        }
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        if self.peek()? == b'-' {
            self.at += 1;
        }
        if self.peek()? == b'0' {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        self.leaf(Kind::Number, start, false);
        Ok(())
    }

    #[inline(always)]
    fn string(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        let mut escaped = false;
        self.at += 1;
        loop {
            self.at += plain_run(&self.bytes[self.at..]);
            match self.bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => return self.wrong("an escaped control character"),
                None => return Err(SyntaxError::Incomplete),
            }
        }
        self.at += 1;
        self.leaf(Kind::String, start, escaped);
        Ok(())
    }

    fn escape(&mut self) -> Result<(), SyntaxError> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                self.at += 2;
                for _ in 0..4 {
                    if !self.peek()?.is_ascii_hexdigit() {
                        return self.wrong("four hex digits");
                    }
                    self.at += 1;
                }
            }
            Some(_) => {
                self.at += 1;
                return self.wrong("an escape");
            }
            None => return Err(SyntaxError::Incomplete),
        }
        Ok(())
    }
}

/// The lowest bit of each of eight bytes.
const LOW: u64 = 0x0101_0101_0101_0101;
/// The highest bit of each of eight bytes.
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Sets the high bit of every byte of `word` that equals `byte`. Borrows only set bits above a true match, so the
/// lowest set bit is exact.
#[inline]
fn bytes_that_are(word: u64, byte: u8) -> u64 {
    let zero = word ^ (LOW * u64::from(byte));
    zero.wrapping_sub(LOW) & !zero & HIGH
}

/// Counts the bytes before the first quote, backslash or control character, eight at a time.
#[inline]
fn plain_run(bytes: &[u8]) -> usize {
    let mut at = 0;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let Some(chunk) = chunk.first_chunk() else { break };
        let word = u64::from_le_bytes(*chunk);
        // With this bit flipped, a quote comes right behind the control characters, and nothing else does.
        let quote_or_control = (word ^ (LOW * 0x02)).wrapping_sub(LOW * 0x21);
        let backslash = (word ^ (LOW * u64::from(b'\\'))).wrapping_sub(LOW);
        let hits = (quote_or_control | backslash) & !word & HIGH;
        if hits != 0 {
            return at + (hits.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let stops = |byte: &u8| *byte == b'"' || *byte == b'\\' || *byte < 0x20;
    let rest = chunks.remainder();
    at + rest.iter().position(stops).unwrap_or(rest.len())
}

/// Finds the next backslash. Escapes are close together in code, so a call to a general search would cost more than it
/// saves.
#[inline]
fn next_escape(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in (&mut chunks).take(8) {
        let Some(chunk) = chunk.first_chunk() else { break };
        let hits = bytes_that_are(u64::from_le_bytes(*chunk), b'\\');
        if hits != 0 {
            return Some(at + (hits.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    memchr::memchr(b'\\', &bytes[at..]).map(|found| at + found)
}
