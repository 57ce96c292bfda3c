//! What a word is: the same for what is indexed, what is asked for and what is highlighted.

use std::ops::Range;

/// Longer words count only up to here: nobody types more, and a blob of base64 is one word.
const LONGEST: usize = 64;

/// A word and where it stands in its text.
pub(super) type Word = (String, Range<usize>);

/// Passes on the words of a text, in small letters, and where each stands. A word is a run of letters and digits. A sign
/// of a script that writes no blanks is a word of its own.
pub(super) fn each_word(text: &str, mut each: impl FnMut(&str, Range<usize>)) {
    let mut word = String::with_capacity(LONGEST);
    let mut start = 0;
    let mut open = false;
    for (at, c) in text.char_indices() {
        let alone = stands_alone(c);
        if open && (alone || !c.is_alphanumeric()) {
            each(&word, start..at);
            word.clear();
            open = false;
        }
        if alone {
            word.push(c);
            each(&word, at..at + c.len_utf8());
            word.clear();
        } else if c.is_alphanumeric() {
            if !open {
                (start, open) = (at, true);
            }
            push(&mut word, c);
        }
    }
    if open {
        each(&word, start..text.len());
    }
}

fn push(word: &mut String, c: char) {
    if word.len() >= LONGEST {
        return;
    }
    if c.is_ascii() {
        word.push(c.to_ascii_lowercase());
    } else {
        word.extend(c.to_lowercase());
    }
}

/// Returns the words of a text.
pub(super) fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    each_word(text, |word, range| words.push((word.to_owned(), range)));
    words
}

/// Adds the words of a text to `out`, with a blank between two. It does what [`each_word`] does, but most of what agents
/// write is ASCII, and this is most of the work of indexing.
pub(super) fn add_words(text: &str, out: &mut String) {
    let bytes = text.as_bytes();
    let mut words = Words { buffer: std::mem::take(out).into_bytes() };
    words.buffer.reserve(text.len() + 1);
    let mut at = 0;
    while at < bytes.len() {
        let Some(run) = bytes[at..].iter().position(|byte| KIND[usize::from(*byte)] != 0) else { break };
        let start = at + run;
        let end = bytes[start..].iter().position(|byte| KIND[usize::from(*byte)] == 0).map_or(bytes.len(), |run| start + run);
        at = end;
        let word = &bytes[start..end];
        if word.is_ascii() {
            words.add(&word[..word.len().min(LONGEST)]);
        } else {
            // Letters of other scripts, or signs between words.
            each_word(&text[start..end], |word, _| words.add(word.as_bytes()));
        }
    }
    *out = String::from_utf8(words.buffer).unwrap_or_default();
}

/// What a byte is: 0 for what is between words, otherwise what to write for it. What is not ASCII stands for itself.
const KIND: [u8; 256] = {
    let mut kind = [0; 256];
    let mut byte = u8::MAX;
    while byte > 0 {
        if byte.is_ascii_alphanumeric() || !byte.is_ascii() {
            kind[byte as usize] = byte.to_ascii_lowercase();
        }
        byte -= 1;
    }
    kind
};

/// Words with a blank between two.
struct Words {
    buffer: Vec<u8>,
}

impl Words {
    fn add(&mut self, word: &[u8]) {
        if !self.buffer.is_empty() {
            self.buffer.push(b' ');
        }
        self.buffer.extend(word.iter().map(|byte| KIND[usize::from(*byte)]));
    }
}

/// Returns whether a character is a word of its own: Chinese and Japanese have no blanks between words. Three of them in
/// a row are found as a phrase.
const fn stands_alone(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn joined(text: &str) -> String {
        words(text).into_iter().map(|(word, _)| word).collect::<Vec<_>>().join(" ")
    }

    fn added(text: &str) -> String {
        let mut out = String::new();
        add_words(text, &mut out);
        out
    }

    #[test]
    fn words_are_letters_and_digits() {
        assert_eq!(joined("fn foo_bar(x: &Str) -> Größe\u{301} {}"), "fn foo bar x str größe");
        assert_eq!(joined("/home/dev/a.rs:12"), "home dev a rs 12");
        assert_eq!(joined("日本語 test テスト1"), "日 本 語 test テ ス ト 1");
        assert_eq!(joined(" -> !"), "");
        assert_eq!(words("a ÄB")[1], ("äb".to_owned(), 2..5));
    }

    #[test]
    fn a_long_word_is_cut() {
        assert_eq!(joined(&"x".repeat(5_000)).len(), LONGEST);
        assert_eq!(added(&"x".repeat(5_000)).len(), LONGEST);
    }

    proptest! {
        /// The fast way and the plain way find the same words.
        #[test]
        fn both_ways_agree(text in "[a-zA-Z0-9 _\n.äß日🚀İ]{0,80}") {
            prop_assert_eq!(added(&text), joined(&text));
        }
    }
}
