//! A strict but robust JSON reader: RFC 8259 to the letter, with any depth, any number, repeated and escaped keys, and
//! lone surrogates. One pass checks the text and indexes its values; views ([`Value`]) then read what they need. No
//! general JSON crate handles all of this (see ARCHITECTURE.md).

mod block;
mod fingerprint;
mod fragment;
mod unescape;
mod value;
mod walk;

pub(crate) use fingerprint::fingerprint;
pub use fragment::{Json, JsonError, Number, without_lone_surrogates};
pub use value::{Entries, Items, Value};
pub use walk::{Token, Walk};

use std::fmt;

use block::{BLOCK, specials_from};

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
        Parser { bytes: text.as_bytes(), at: 0, seen: 0, specials: 0, nodes: &mut self.nodes }.document()?;
        Ok(Value::root(text, &self.nodes))
    }
}

/// Reads a text from its beginning to its end. What is called for nearly every value is inlined, and nothing else gets the
/// parser itself, so that the processor can keep its fields in registers.
struct Parser<'t> {
    bytes: &'t [u8],
    at: usize,
    /// Where the bytes end that `specials` tells about.
    seen: usize,
    /// The quotes, backslashes and control characters among the 64 bytes before `seen`.
    specials: u64,
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
    fn document(mut self) -> Result<(), SyntaxError> {
        let mut open = OUTSIDE;
        let mut in_object = false;
        'value: loop {
            match self.token()? {
                b'"' => self.string()?,
                b'{' => {
                    open = self.enter(Kind::Object, open);
                    if self.token()? == b'}' {
                        open = self.leave(open);
                    } else {
                        in_object = true;
                        self.key()?;
                        continue 'value;
                    }
                }
                b'[' => {
                    open = self.enter(Kind::Array, open);
                    if self.token()? == b']' {
                        open = self.leave(open);
                    } else {
                        in_object = false;
                        continue 'value;
                    }
                }
                first => {
                    let (kind, end) = scalar(self.bytes, self.at, first)?;
                    let start = std::mem::replace(&mut self.at, end);
                    self.leaf(kind, start, false);
                }
            }
            // After a value: close containers until one continues.
            loop {
                if open == OUTSIDE {
                    return if self.token().is_err() { Ok(()) } else { wrong(self.at, "the end of the line") };
                }
                match self.token()? {
                    b',' => {
                        self.at += 1;
                        if in_object {
                            self.key()?;
                        }
                        continue 'value;
                    }
                    b'}' if in_object => open = self.leave(open),
                    b']' if !in_object => open = self.leave(open),
                    _ if in_object => return wrong(self.at, "`,` or `}`"),
                    _ => return wrong(self.at, "`,` or `]`"),
                }
                in_object = self.nodes.get(open as usize).is_some_and(|node| node.kind == Kind::Object);
            }
        }
    }

    /// Goes to the next byte that is not whitespace, and returns it.
    #[inline(always)]
    fn token(&mut self) -> Result<u8, SyntaxError> {
        match self.bytes.get(self.at) {
            // Agents write no whitespace, so one comparison has to do.
            Some(&byte) if byte > b' ' => Ok(byte),
            _ => {
                self.at = after_blanks(self.bytes, self.at);
                self.bytes.get(self.at).copied().ok_or(SyntaxError::Incomplete)
            }
        }
    }

    #[inline(always)]
    fn enter(&mut self, kind: Kind, parent: u32) -> u32 {
        let (index, start) = (place(self.nodes.len()), place(self.at));
        self.nodes.push(Node { start, end: start, next: parent, kind, escaped: false });
        self.at += 1;
        index
    }

    /// Closes the container and returns its parent.
    #[inline(always)]
    fn leave(&mut self, open: u32) -> u32 {
        self.at += 1;
        let next = place(self.nodes.len());
        let node = &mut self.nodes[open as usize];
        node.end = place(self.at);
        std::mem::replace(&mut node.next, next)
    }

    #[inline(always)]
    fn leaf(&mut self, kind: Kind, start: usize, escaped: bool) {
        let next = place(self.nodes.len() + 1);
        self.nodes.push(Node { start: place(start), end: place(self.at), next, kind, escaped });
    }

    #[inline(always)]
    fn key(&mut self) -> Result<(), SyntaxError> {
        if self.token()? != b'"' {
            return wrong(self.at, "a key in quotes");
        }
        self.string()?;
        if self.token()? != b':' {
            return wrong(self.at, "`:`");
        }
        self.at += 1;
        Ok(())
    }

    #[inline(always)]
    fn string(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        let mut escaped = false;
        self.at += 1;
        loop {
            self.plain_run();
            match self.bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.at = after_escape(self.bytes, self.at)?;
                }
                Some(_) => return wrong(self.at, "an escaped control character"),
                None => return Err(SyntaxError::Incomplete),
            }
        }
        self.at += 1;
        self.leaf(Kind::String, start, escaped);
        Ok(())
    }

    /// Goes to the next quote, backslash or control character, or to the end of the text. 64 bytes are looked at together: they
    /// are several short strings, or a part of a long one that has several escapes.
    #[inline(always)]
    fn plain_run(&mut self) {
        loop {
            if self.at >= self.seen {
                if self.at >= self.bytes.len() {
                    return;
                }
                self.specials = specials_from(self.bytes, self.at);
                self.seen = self.at + BLOCK;
            }
            let ahead = self.specials >> (self.at + BLOCK - self.seen);
            if ahead != 0 {
                self.at += ahead.trailing_zeros() as usize;
                return;
            }
            self.at = self.seen;
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "texts over 4 GiB are refused first")]
fn place(offset: usize) -> u32 {
    offset as u32
}

#[cold]
fn wrong<T>(offset: usize, expected: &'static str) -> Result<T, SyntaxError> {
    Err(SyntaxError::At { offset, expected })
}

/// Returns the place of the next byte that is not whitespace.
#[cold]
fn after_blanks(bytes: &[u8], at: usize) -> usize {
    let blanks = bytes[at..].iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
    at + blanks.count()
}

/// Returns what kind of value begins with this byte at this place, and where it ends.
fn scalar(bytes: &[u8], at: usize, first: u8) -> Result<(Kind, usize), SyntaxError> {
    match first {
        b'-' | b'0'..=b'9' => Ok((Kind::Number, after_number(bytes, at)?)),
        b't' => Ok((Kind::True, after_word(bytes, at, "true")?)),
        b'f' => Ok((Kind::False, after_word(bytes, at, "false")?)),
        b'n' => Ok((Kind::Null, after_word(bytes, at, "null")?)),
        _ => wrong(at, "a value"),
    }
}

fn after_word(bytes: &[u8], at: usize, word: &str) -> Result<usize, SyntaxError> {
    let rest = &bytes[at..];
    if rest.starts_with(word.as_bytes()) {
        Ok(at + word.len())
    } else if word.as_bytes().starts_with(rest) {
        Err(SyntaxError::Incomplete)
    } else {
        // Any word that starts with that letter: there is no way to tell which value was meant.
        wrong(at, "a value")
    }
}

fn after_number(bytes: &[u8], mut at: usize) -> Result<usize, SyntaxError> {
    if bytes.get(at) == Some(&b'-') {
        at += 1;
    }
    if bytes.get(at) == Some(&b'0') {
        at += 1;
    } else {
        at = after_digits(bytes, at)?;
    }
    if bytes.get(at) == Some(&b'.') {
        at = after_digits(bytes, at + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = bytes.get(at) {
            at += 1;
        }
        at = after_digits(bytes, at)?;
    }
    Ok(at)
}

fn after_digits(bytes: &[u8], at: usize) -> Result<usize, SyntaxError> {
    let rest = bytes.get(at..).unwrap_or_default();
    match rest.iter().take_while(|byte| byte.is_ascii_digit()).count() {
        0 if rest.is_empty() => Err(SyntaxError::Incomplete),
        0 => wrong(at, "a digit"),
        digits => Ok(at + digits),
    }
}

/// Returns where the escape ends that begins with the backslash at this place.
#[inline]
fn after_escape(bytes: &[u8], at: usize) -> Result<usize, SyntaxError> {
    match bytes.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => after_code(bytes, at + 2),
        Some(_) => wrong(at + 1, "an escape"),
        None => Err(SyntaxError::Incomplete),
    }
}

fn after_code(bytes: &[u8], at: usize) -> Result<usize, SyntaxError> {
    for at in at..at + 4 {
        match bytes.get(at) {
            Some(digit) if digit.is_ascii_hexdigit() => {}
            Some(_) => return wrong(at, "four hex digits"),
            None => return Err(SyntaxError::Incomplete),
        }
    }
    Ok(at + 4)
}
