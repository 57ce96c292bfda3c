//! Lists of words, written as a text.

/// A list of words. What begins with another letter or has another length is ruled out without a look at them.
#[derive(Debug)]
pub(super) struct Words {
    text: &'static str,
    /// For each first letter, the lengths of the words, one bit each.
    lengths: [u32; 32],
}

impl Words {
    /// The words of this text, with one space between them.
    pub(super) const fn of(text: &'static str) -> Self {
        let bytes = text.as_bytes();
        let (mut lengths, mut start, mut at) = ([0; 32], 0, 0);
        while at <= bytes.len() {
            if at == bytes.len() || bytes[at] == b' ' {
                lengths[(bytes[start] & 31) as usize] |= 1 << (at - start);
                start = at + 1;
            }
            at += 1;
        }
        Self { text, lengths }
    }

    /// Returns whether a word is one of them, in any case.
    pub(super) fn has(&self, word: impl AsRef<[u8]>) -> bool {
        let word = word.as_ref();
        let may_be = |first: &u8| word.len() < 32 && self.lengths[usize::from(first & 31)] >> word.len() & 1 == 1;
        word.first().is_some_and(may_be) && self.all().any(|known| known.as_bytes().eq_ignore_ascii_case(word))
    }

    /// Returns the words.
    pub(super) fn all(&self) -> impl Iterator<Item = &'static str> {
        self.text.split(' ')
    }
}
