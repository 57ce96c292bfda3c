//! What a hit shows: a piece of its text around the words that were found, without secrets.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use tapline_protocol::{Agent, Tape};
use tapline_recording::{Beneath, Redactor};

use super::query::Term;
use super::reading::open;
use super::words::each_word;
use crate::prompts::{sent_file, sent_text};
use crate::said::Context;
use crate::transcripts;

/// If no more characters than this come before a piece, they are shown, too.
const AT_ONCE: usize = 16;
/// How many matches are looked at to find the best piece.
const MATCHES: usize = 64;

/// A piece of a text. Blanks and line ends in a row are one blank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snippet {
    /// The piece, with an ellipsis where it was cut.
    pub text: String,
    /// Where the words that were found stand in it, in bytes.
    pub matches: Vec<Range<usize>>,
}

/// A text that was found, read again from its file.
#[derive(Debug)]
pub(super) struct FoundText {
    /// With its secrets: never shown.
    raw: String,
    /// Without its secrets.
    pub(super) clean: String,
}

impl FoundText {
    /// Reads a text again, from a file that lies below one of these folders or elsewhere. Returns none if the file has something else there.
    ///
    /// The whole line loses its secrets before anything is cut out of it: the name of a key can make its value one, and half
    /// a secret is not recognised as one.
    pub(super) fn read(
        (path, agent): (&Path, Agent),
        below: &[PathBuf],
        line: Range<u64>,
        part: u32,
        redactor: &Redactor,
    ) -> io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        let sent = sent_file(path, part);
        let path = sent.as_deref().unwrap_or(path);
        // It may have become a link since it was read for the index.
        let root = below.iter().find(|root| path.starts_with(root));
        let file = root.map_or_else(|| File::open(path), |root| Beneath::open(root)?.file(path))?;
        open(file, path, line.start)?.take(line.end - line.start).read_to_end(&mut bytes)?;
        let part_of = |bytes: &[u8]| if sent.is_some() { sent_text(bytes, part) } else { part_of(agent, bytes, part) };
        let raw = part_of(&bytes);
        let clean = part_of(&redactor.line(&bytes));
        Ok(raw.zip(clean).map(|(raw, clean)| Self { raw, clean: redactor.text(&clean).into_owned() }))
    }

    /// Cuts out the piece of about this many characters with the most of these terms. Returns none if they are not there.
    pub(super) fn snippet(&self, terms: &[Term], width: usize) -> Option<Snippet> {
        let matches = matches(&self.clean, terms);
        if matches.is_empty() && !terms.is_empty() && self::matches(&self.raw, terms).is_empty() {
            return None;
        }
        Some(cut(&self.clean, &matches, width))
    }
}

/// Returns one of the texts that a line says.
fn part_of(agent: Agent, line: &[u8], part: u32) -> Option<String> {
    let line = String::from_utf8_lossy(line);
    let mut tape = Tape::default();
    let value = tape.parse(line.trim()).ok()?;
    let (mut number, mut found) = (0, None);
    transcripts::said(agent, value, &mut Context::default(), &mut |_, said| {
        if number == part {
            found = Some(said.text.into_owned());
        }
        number += 1;
    });
    found
}

/// Returns where terms stand in a text, and which: the first ones.
fn matches(text: &str, terms: &[Term]) -> Vec<(Range<usize>, usize)> {
    // The terms that began before a word and may go on with it: which, how many words of it were there, and where.
    let (mut open, mut still): (Vec<(usize, usize, usize)>, Vec<_>) = (Vec::new(), Vec::new());
    let mut found: Vec<(Range<usize>, usize)> = Vec::new();
    each_word(text, |word, range| {
        if found.len() >= MATCHES {
            return;
        }
        open.extend((0..terms.len()).map(|term| (term, 0, range.start)));
        for (term, there, start) in open.drain(..) {
            let Term { words, prefix, .. } = &terms[term];
            let is_last = there + 1 == words.len();
            let fits = if is_last && *prefix { word.starts_with(&*words[there]) } else { word == words[there] };
            match (fits, is_last) {
                (true, true) => found.push((start..range.end, term)),
                (true, false) => still.push((term, there + 1, start)),
                (false, _) => {}
            }
        }
        std::mem::swap(&mut open, &mut still);
    });
    found.sort_by_key(|(range, _)| (range.start, range.end));
    found
}

/// Cuts out the piece of a text with the most different terms.
fn cut(text: &str, matches: &[(Range<usize>, usize)], width: usize) -> Snippet {
    let different = |from: usize| {
        let end = matches[from].0.start + width;
        let mut terms: Vec<usize> =
            matches[from..].iter().take_while(|(range, _)| range.end <= end).map(|(_, term)| *term).collect();
        terms.sort_unstable();
        terms.dedup();
        terms.len()
    };
    // Of equals, the first one.
    let best = (0..matches.len()).rev().max_by_key(|at| different(*at)).map_or(0, |at| matches[at].0.start);
    // Some words before the first match, and the rest behind it.
    let before: usize = text[..best].chars().rev().take(width / 4).map(char::len_utf8).sum();
    let mut start = best - before;
    if start < AT_ONCE {
        start = 0;
    } else {
        start += text[start..best].find(char::is_whitespace).unwrap_or(0);
    }
    let mut snippet = Snippet::default();
    if !text[..start].trim().is_empty() {
        snippet.text.push('…');
    }
    let mut next = matches.iter().map(|(range, _)| range).skip_while(|range| range.start < start).peekable();
    // Where the match begins in the snippet that is being copied, and where it ends in the text.
    let mut open: Option<(usize, usize)> = None;
    let (mut copied, mut began, mut blank) = (0, 0, snippet.text.is_empty());
    let mut at = start;
    for c in text[start..].chars() {
        if open.is_none_or(|(_, end)| at >= end) {
            if let Some((from, _)) = open.take() {
                snippet.matches.push(from..snippet.text.len());
            }
            if copied >= width && (c.is_whitespace() || copied >= width + AT_ONCE) {
                break;
            }
            while next.next_if(|range| range.start < at).is_some() {}
            if let Some(range) = next.next_if(|range| range.start == at) {
                open = Some((snippet.text.len(), range.end));
                began = copied;
            }
        }
        // A match that is longer than this is cut.
        if open.is_some() && copied >= began + width * 2 {
            break;
        }
        if c.is_whitespace() {
            if !blank {
                snippet.text.push(' ');
                copied += 1;
            }
            blank = true;
        } else {
            snippet.text.push(c);
            copied += 1;
            blank = false;
        }
        at += c.len_utf8();
    }
    // A match that is longer than the piece can end with a blank.
    let end = snippet.text.trim_end().len();
    snippet.text.truncate(end);
    if let Some((from, _)) = open.filter(|(from, _)| *from < end) {
        snippet.matches.push(from..end);
    }
    if !text[at..].trim().is_empty() {
        snippet.text.push('…');
    }
    snippet
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn terms(all: &[&str]) -> Vec<Term> {
        let term = |term: &&str| {
            let words = term.trim_end_matches('*').split(' ').map(str::to_owned).collect();
            Term { words, prefix: term.ends_with('*'), or: false }
        };
        all.iter().map(term).collect()
    }

    fn shown(text: &str, all: &[&str], width: usize) -> String {
        let Snippet { text, matches } = cut(text, &matches(text, &terms(all)), width);
        let mut out = text.clone();
        for range in matches.iter().rev() {
            out.insert(range.end, ']');
            out.insert(range.start, '[');
        }
        out
    }

    #[test]
    fn words_phrases_and_prefixes_are_marked() {
        assert_eq!(shown("A  foo_bar\n\tand Foo bars", &["foo bar*"], 80), "A [foo_bar] and [Foo bars]");
        assert_eq!(shown("no match here", &[], 80), "no match here");
        assert_eq!(shown("a b a b c", &["a b c"], 80), "a b [a b c]");
    }

    #[test]
    fn the_piece_has_the_most_different_words() {
        let far = format!("error at first. {}then the parser error came {}", "x ".repeat(200), "y ".repeat(200));
        let piece = shown(&far, &["parser", "error"], 40);
        assert!(piece.contains("[parser] [error]") && piece.starts_with('…') && piece.ends_with('…'), "{piece}");
    }

    proptest! {
        /// Any text can be cut at any width, and what is marked is a word that was asked for.
        #[test]
        fn any_text_can_be_cut(text in "[a-c äß日\n.]{0,200}", width in 1_usize..60) {
            let Snippet { text, matches } = cut(&text, &matches(&text, &terms(&["a", "b c"])), width);
            for range in matches {
                let marked = &text[range];
                let letters: String = marked.chars().filter(|c| c.is_alphanumeric()).collect::<String>().replace('ä', "a");
                prop_assert!(["a", "bc"].contains(&&*letters) || marked.chars().count() >= width, "{marked}");
            }
        }
    }
}
