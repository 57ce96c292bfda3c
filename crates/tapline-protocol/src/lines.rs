//! Splits bytes into lines. It splits only on 0x0A and drops nothing: the pieces joined are the input. A line above the
//! limit is returned in pieces, so memory stays bounded and reading continues after it.

/// The default line limit: 64 MiB.
pub const DEFAULT_LINE_LIMIT: usize = 64 << 20;

/// The byte order mark that some programs write first.
pub(crate) const BOM: &[u8] = b"\xEF\xBB\xBF";

/// The kind of a piece of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A line, with its terminator if it had one.
    Line,
    /// A run of NUL bytes before an object, left in a file by a crash. The object follows as a `Line`.
    NulRun,
    /// The first part of a line above the limit.
    TooLong,
    /// A further part of a line above the limit.
    Rest,
}

/// A piece of the input: its bytes and the number of its line, from 1.
#[derive(Debug)]
pub struct Line<'b> {
    /// The kind of piece.
    pub piece: Piece,
    /// The line number, from 1. Blank lines count.
    pub number: u64,
    /// The exact bytes.
    pub bytes: std::borrow::Cow<'b, [u8]>,
}

/// Splits a byte stream into lines.
#[derive(Debug)]
pub struct Splitter {
    limit: usize,
    pending: Vec<u8>,
    overlong: bool,
    number: u64,
}

impl Default for Splitter {
    fn default() -> Self {
        Self::with_limit(DEFAULT_LINE_LIMIT)
    }
}

impl Splitter {
    /// Creates a splitter with this line limit, in bytes without the terminator (at least 1).
    pub fn with_limit(limit: usize) -> Self {
        Self { limit: limit.max(1), pending: Vec::new(), overlong: false, number: 1 }
    }

    /// Takes the next bytes and passes every complete piece to `each`.
    pub fn push(&mut self, mut chunk: &[u8], mut each: impl FnMut(Line<'_>)) {
        while let Some(at) = memchr::memchr(b'\n', chunk) {
            let (head, tail) = chunk.split_at(at + 1);
            chunk = tail;
            if self.pending.is_empty() && !self.overlong && head.len() <= self.limit {
                emit(head.into(), self.number, &mut each);
            } else {
                self.pending.extend_from_slice(head);
                self.cut(1, &mut each);
                self.flush(&mut each);
            }
            self.number += 1;
        }
        if !chunk.is_empty() {
            self.pending.extend_from_slice(chunk);
            self.cut(0, &mut each);
        }
    }

    /// Ends the input and passes an unterminated last line to `each`.
    pub fn finish(&mut self, mut each: impl FnMut(Line<'_>)) {
        if self.number == 1 && self.pending == BOM {
            // A byte order mark alone is not a line, and belongs to none.
            let bytes = std::mem::take(&mut self.pending).into();
            each(Line { piece: Piece::Rest, number: 0, bytes });
        } else if !self.pending.is_empty() {
            self.flush(&mut each);
            self.number += 1;
        }
    }

    /// Passes on what is above the limit. The last `terminator` bytes do not count.
    fn cut(&mut self, terminator: usize, each: &mut impl FnMut(Line<'_>)) {
        let mut from = 0;
        while self.pending.len() - from - terminator > self.limit {
            let piece = if self.overlong { Piece::Rest } else { Piece::TooLong };
            self.overlong = true;
            each(Line { piece, number: self.number, bytes: (&self.pending[from..from + self.limit]).into() });
            from += self.limit;
        }
        self.pending.drain(..from);
    }

    fn flush(&mut self, each: &mut impl FnMut(Line<'_>)) {
        let bytes = std::mem::take(&mut self.pending);
        if std::mem::take(&mut self.overlong) {
            each(Line { piece: Piece::Rest, number: self.number, bytes: bytes.into() });
        } else {
            emit(bytes.into(), self.number, each);
        }
    }
}

/// Passes on a whole line. A run of NULs before an object becomes a piece of its own.
fn emit(bytes: std::borrow::Cow<'_, [u8]>, number: u64, each: &mut impl FnMut(Line<'_>)) {
    let nuls = bytes.iter().take_while(|&&byte| byte == 0).count();
    if nuls > 1 && bytes.get(nuls) == Some(&b'{') {
        each(Line { piece: Piece::NulRun, number, bytes: bytes[..nuls].into() });
        each(Line { piece: Piece::Line, number, bytes: bytes[nuls..].into() });
    } else {
        each(Line { piece: Piece::Line, number, bytes });
    }
}
