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
    let mut rest = text;
    while !rest.is_empty() {
        let plain = rest.bytes().position(|byte| !byte.is_ascii()).unwrap_or(rest.len());
        // A word may go on behind the ASCII part: then it is read with the rest.
        let cut = if plain == rest.len() {
            plain
        } else {
            rest[..plain].rfind(|c: char| !c.is_ascii_alphanumeric()).map_or(0, |at| at + 1)
        };
        add_ascii(&rest[..cut], out);
        rest = &rest[cut..];
        if rest.is_empty() {
            break;
        }
        // The line with other letters, at most.
        let end = rest.bytes().skip(plain - cut).position(|byte| byte == b'\n').map_or(rest.len(), |at| plain - cut + at);
        each_word(&rest[..end], |word, _| {
            separate(out);
            out.push_str(word);
        });
        rest = &rest[end..];
    }
}

fn separate(out: &mut String) {
    if !out.is_empty() {
        out.push(' ');
    }
}

fn add_ascii(text: &str, out: &mut String) {
    for word in text.as_bytes().split(|byte| !byte.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        separate(out);
        out.extend(word.iter().take(LONGEST).map(|byte| char::from(byte.to_ascii_lowercase())));
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
