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
    out.reserve(text.len());
    let bytes = text.as_bytes();
    let is_in_word = |byte: &u8| IN_WORD[usize::from(*byte)];
    let mut at = 0;
    while let Some(start) = bytes[at..].iter().position(is_in_word) {
        let start = at + start;
        at = bytes[start..].iter().position(|byte| !is_in_word(byte)).map_or(bytes.len(), |end| start + end);
        let word = &text[start..at];
        if word.is_ascii() {
            separate(out);
            let from = out.len();
            out.push_str(&word[..word.len().min(LONGEST)]);
            out[from..].make_ascii_lowercase();
        } else {
            // Letters of other scripts, or signs between words.
            each_word(word, |word, _| {
                separate(out);
                out.push_str(word);
            });
        }
    }
}

/// Which bytes can be in a word. Of what is not ASCII, only the whole character says so.
const IN_WORD: [bool; 256] = {
    let mut all = [false; 256];
    let mut byte = u8::MAX;
    while byte > 0 {
        all[byte as usize] = byte.is_ascii_alphanumeric() || !byte.is_ascii();
        byte -= 1;
    }
    all
};

fn separate(out: &mut String) {
    if !out.is_empty() {
        out.push(' ');
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
