//! What a word is: the same for what is indexed, what is asked for and what is highlighted.

use std::iter;
use std::ops::Range;

/// Longer words count only up to here: nobody types more, and a blob of base64 is one word.
const LONGEST: usize = 64;

/// A word and where it stands in its text.
pub(super) type Word = (String, Range<usize>);

/// Passes on the words of a text, in small letters without accents, and where each stands. A word is a run of letters and digits. A sign
/// of a script that writes no blanks is a word of its own, and so is an emoji. `c++` and `c#` are words.
pub(super) fn each_word(text: &str, mut each: impl FnMut(&str, Range<usize>)) {
    let mut word = String::with_capacity(LONGEST);
    let mut start = 0;
    let mut open = false;
    for (at, c) in text.char_indices() {
        if is_mark(c) {
            continue;
        }
        let alone = stands_alone(c);
        if open && (alone || !c.is_alphanumeric()) {
            let (sign, len) = sign_behind(&word, &text[at..]);
            word.push_str(sign);
            each(&word, start..at + len);
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
        return word.push(c.to_ascii_lowercase());
    }
    for c in c.to_lowercase().filter(|c| !is_mark(*c)) {
        match c {
            'ß' | 'ẞ' => word.push_str("ss"),
            'æ' => word.push_str("ae"),
            'œ' => word.push_str("oe"),
            c => word.push(without_accent(c)),
        }
    }
}

/// Returns the sign that belongs to the word before it, as the index has it, and how long it is: the database takes only signs that are not
/// ASCII for a part of a word.
fn sign_behind(word: &str, rest: &str) -> (&'static str, usize) {
    match word {
        "c" | "g" if rest.starts_with("++") => ("＋＋", 2),
        "c" | "f" | "j" if rest.starts_with('#') => ("＃", 1),
        _ => ("", 0),
    }
}

/// Returns whether a character only changes the one before it: an accent of its own, the colour of an emoji.
const fn is_mark(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{200d}' | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}' | '\u{1f3fb}'..='\u{1f3ff}' | '\u{e0020}'..='\u{e007f}')
}

/// What letters with accents are without: how many characters from the first one on have this letter, and a dot where they have none.
const LATIN: (u32, &[(u8, u8)]) = (
    0xe0,
    &[
        (b'a', 6),
        (b'.', 1),
        (b'c', 1),
        (b'e', 4),
        (b'i', 4),
        (b'd', 1),
        (b'n', 1),
        (b'o', 5),
        (b'.', 1),
        (b'o', 1),
        (b'u', 4),
        (b'y', 1),
        (b'.', 1),
        (b'y', 1),
        (b'a', 6),
        (b'c', 8),
        (b'd', 4),
        (b'e', 10),
        (b'g', 8),
        (b'h', 4),
        (b'i', 10),
        (b'.', 2),
        (b'j', 2),
        (b'k', 3),
        (b'l', 10),
        (b'n', 7),
        (b'.', 2),
        (b'o', 6),
        (b'.', 2),
        (b'r', 6),
        (b's', 8),
        (b't', 6),
        (b'u', 12),
        (b'w', 2),
        (b'y', 3),
        (b'z', 6),
        (b's', 1),
    ],
);
/// The same for Vietnamese and others.
const MORE_LATIN: (u32, &[(u8, u8)]) = (
    0x1e00,
    &[
        (b'a', 2),
        (b'b', 6),
        (b'c', 2),
        (b'd', 10),
        (b'e', 10),
        (b'f', 2),
        (b'g', 2),
        (b'h', 10),
        (b'i', 4),
        (b'k', 6),
        (b'l', 8),
        (b'm', 6),
        (b'n', 8),
        (b'o', 8),
        (b'p', 4),
        (b'r', 8),
        (b's', 10),
        (b't', 8),
        (b'u', 10),
        (b'v', 4),
        (b'w', 10),
        (b'x', 4),
        (b'y', 2),
        (b'z', 6),
        (b'h', 1),
        (b't', 1),
        (b'w', 1),
        (b'y', 1),
        (b'a', 1),
        (b's', 1),
        (b'.', 4),
        (b'a', 24),
        (b'e', 16),
        (b'i', 4),
        (b'o', 24),
        (b'u', 14),
        (b'y', 8),
    ],
);

/// Returns a small letter without its accent.
fn without_accent(c: char) -> char {
    match c {
        'ơ' => return 'o',
        'ư' => return 'u',
        'ё' => return 'е',
        'й' => return 'и',
        'ά' => return 'α',
        'έ' => return 'ε',
        'ή' => return 'η',
        'ί' | 'ϊ' | 'ΐ' => return 'ι',
        'ό' => return 'ο',
        'ύ' | 'ϋ' | 'ΰ' => return 'υ',
        'ώ' => return 'ω',
        'ς' => return 'σ',
        _ => {}
    }
    let plain = |(first, runs): (u32, &[(u8, u8)])| {
        let at = usize::try_from(u32::from(c).checked_sub(first)?).ok()?;
        let letter = runs.iter().flat_map(|(letter, many)| iter::repeat_n(*letter, usize::from(*many))).nth(at)?;
        (letter != b'.').then(|| char::from(letter))
    };
    let plain = match u32::from(c) {
        0xe0..0x180 => plain(LATIN),
        0x1e00..0x1f00 => plain(MORE_LATIN),
        _ => None,
    };
    plain.unwrap_or(c)
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
            if word.len() == 1 {
                let (sign, _) = sign_behind(&out[from..], &text[at..]);
                out.push_str(sign);
            }
        } else {
            // Letters of other scripts, or signs between words.
            let signs = bytes[at..].iter().take(2).take_while(|byte| b"+#".contains(byte)).count();
            each_word(&text[start..at + signs], |word, _| {
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

/// Returns whether a character is a word of its own: Chinese and Japanese have no blanks between words, and emoji have none. Three of them in
/// a row are found as a phrase.
const fn stands_alone(c: char) -> bool {
    matches!(c, '\u{2600}'..='\u{27bf}' | '\u{2b00}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
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
        assert_eq!(joined("fn foo_bar(x: &Str) -> Größe\u{301} {}"), "fn foo bar x str grosse");
        assert_eq!(joined("/home/dev/a.rs:12"), "home dev a rs 12");
        assert_eq!(joined("日本語 test テスト1"), "日 本 語 test テ ス ト 1");
        assert_eq!(joined(" -> !"), "");
        assert_eq!(words("a ÄB")[1], ("ab".to_owned(), 2..5));
    }

    #[test]
    fn accents_do_not_matter() {
        assert_eq!(joined("Crème BRÛLÉE naïve señor Łódź Škoda"), "creme brulee naive senor lodz skoda");
        assert_eq!(
            joined("cre\u{300}me STRAẞE Straße Æsir œuvre Øre İstanbul"),
            "creme strasse strasse aesir oeuvre ore istanbul"
        );
        assert_eq!(joined("Việt Nam, tiếng Việt, phở, cơm, mười"), "viet nam tieng viet pho com muoi");
        assert_eq!(joined("Ёлка, Йод; Αθήνα σοφός"), "елка иод αθηνα σοφοσ");
        assert_eq!(joined("2×3 ÷ þorn ŋ"), "2 3 þorn ŋ");
    }

    #[test]
    fn some_signs_are_words() {
        assert_eq!(joined("C++17, g++ and c#; i++ + F#"), "c＋＋ 17 g＋＋ and c＃ i f＃");
        assert_eq!(joined("🚀🇩🇪 ok👍🏽 ❤\u{fe0f}"), "🚀 🇩 🇪 ok 👍 ❤");
        assert_eq!(words("x C++!")[1].1, 2..5);
        assert_eq!(joined("abc++ cc# http://a/c#d"), "abc cc http a c＃ d");
    }

    #[test]
    fn a_long_word_is_cut() {
        assert_eq!(joined(&"x".repeat(5_000)).len(), LONGEST);
        assert_eq!(added(&"x".repeat(5_000)).len(), LONGEST);
    }

    proptest! {
        /// The fast way and the plain way find the same words.
        #[test]
        fn both_ways_agree(text in "[a-zA-Z0-9 _\n.äßé\u{301}日🚀İcC+#]{0,80}") {
            prop_assert_eq!(added(&text), joined(&text));
        }
    }
}
