//! Finds the few lines of a file that matter, at the speed of memory: only they are parsed.

use aho_corasick::packed;
use aho_corasick::{AhoCorasick, MatchKind};
use memchr::{memchr, memrchr};

/// Several texts that are searched for at once.
#[derive(Debug)]
pub(crate) enum Needles {
    /// With vector instructions. The general automaton would stop at every quote.
    Packed(packed::Searcher),
    /// On processors without them.
    Plain(AhoCorasick),
    /// There is nothing to search for.
    None,
}

impl Needles {
    pub(crate) fn new(texts: impl Iterator<Item = &'static str> + Clone) -> Self {
        if let Some(packed) = packed::Searcher::new(texts.clone()) {
            return Self::Packed(packed);
        }
        let plain = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(texts);
        plain.map_or(Self::None, Self::Plain)
    }

    /// Returns which needle comes first, and where it begins and ends.
    fn find(&self, bytes: &[u8]) -> Option<(usize, usize, usize)> {
        let found = match self {
            Self::Packed(packed) => packed.find(bytes),
            Self::Plain(plain) => plain.find(bytes),
            Self::None => None,
        };
        found.map(|found| (found.pattern().as_usize(), found.start(), found.end()))
    }
}

/// Passes on every line of `bytes` that has one of the needles, if `matters` agrees: it gets the number of the needle
/// and the bytes behind it. `bytes` are whole lines; the last one may lack its newline.
pub(crate) fn interesting<'b>(
    bytes: &'b [u8],
    needles: &Needles,
    matters: impl Fn(usize, &[u8]) -> bool,
    mut each: impl FnMut(&'b [u8]),
) {
    // `line` is where the line begins at the latest; `at` is where the search goes on.
    let (mut line, mut at) = (0, 0);
    while let Some((needle, start, end)) = needles.find(&bytes[at..]) {
        let (hit, behind) = (at + start, at + end);
        if matters(needle, &bytes[behind..]) {
            line = memrchr(b'\n', &bytes[line..hit]).map_or(line, |newline| line + newline + 1);
            let end = memchr(b'\n', &bytes[hit..]).map_or(bytes.len(), |newline| hit + newline);
            each(&bytes[line..end]);
            line = (end + 1).min(bytes.len());
            at = line;
        } else {
            at = behind;
        }
    }
}

/// Returns whether the value behind a key starts with this byte.
pub(crate) fn value_starts_with(behind: &[u8], byte: u8) -> bool {
    let blank = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\r');
    let mut rest = behind.iter().skip_while(blank);
    rest.next() == Some(&b':') && rest.find(|byte| !blank(byte)) == Some(&byte)
}

/// Returns a line without the byte order mark that some editors put before the first one.
pub(crate) fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

/// Returns the lines of `bytes`, without their newlines.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut start = 0;
    memchr::memchr_iter(b'\n', bytes).chain([bytes.len()]).map(move |end| {
        let line = &bytes[start..end];
        start = end + 1;
        line
    })
}
