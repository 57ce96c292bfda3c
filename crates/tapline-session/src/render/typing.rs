//! Text that is shown while it is being written: word by word, so that no word is broken at the edge of the terminal,
//! and the complete message is not shown again.

use std::collections::VecDeque;

use crate::text::char_width;

/// Text that is being typed.
#[derive(Default)]
pub(super) struct Typing {
    pub(super) message_id: Option<String>,
    /// The typed text of each block that is not complete yet.
    pub(super) blocks: VecDeque<(u64, String)>,
    /// The column of the cursor.
    column: usize,
    /// A word that may continue, and its width.
    word: String,
    word_width: usize,
    /// Spaces that are shown if a word follows on the same line.
    blanks: usize,
}

impl Typing {
    /// Returns whether the cursor is in the middle of a line.
    pub(super) fn is_mid_line(&self) -> bool {
        self.column > 0 || !self.word.is_empty()
    }

    /// Types text that is safe to show.
    pub(super) fn write(&mut self, text: &str, columns: usize) -> String {
        let mut out = String::new();
        for c in text.chars() {
            match c {
                '\n' => {
                    self.end_word(columns, &mut out);
                    out.push('\n');
                    (self.column, self.blanks) = (0, 0);
                }
                ' ' => {
                    self.end_word(columns, &mut out);
                    self.blanks += 1;
                }
                c => {
                    self.word.push(c);
                    self.word_width += char_width(c);
                    if self.word_width >= columns {
                        self.end_word(columns, &mut out);
                    }
                }
            }
        }
        out
    }

    fn end_word(&mut self, columns: usize, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let needed = std::mem::take(&mut self.word_width);
        if self.column > 0 && self.column + self.blanks + needed > columns {
            out.push('\n');
            self.column = 0;
        } else {
            out.extend(std::iter::repeat_n(' ', self.blanks));
            self.column += self.blanks;
        }
        self.blanks = 0;
        out.push_str(&self.word);
        self.column += needed;
        self.word.clear();
    }

    /// Ends the line that is being typed, if there is one.
    pub(super) fn end_line(&mut self, columns: usize) -> String {
        let mut out = String::new();
        self.end_word(columns, &mut out);
        if self.column > 0 {
            out.push('\n');
        }
        (self.column, self.blanks) = (0, 0);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_not_broken_however_the_text_is_cut() {
        let text = "I'll run the tests first\n  - to see what fails, really\nand averyverylongwordthatfitsnowhere ends";
        let typed = |pieces: &mut dyn Iterator<Item = &str>| {
            let mut typing = Typing::default();
            let all: String = pieces.map(|piece| typing.write(piece, 12)).collect();
            all + &typing.end_line(12)
        };
        let whole = typed(&mut std::iter::once(text));
        assert_eq!(
            whole,
            "I'll run the\ntests first\n  - to see\nwhat fails,\nreally\nand\naveryverylon\ngwordthatfit\nsnowhere\nends\n"
        );
        for size in 1..8 {
            let cuts = (0..text.len()).step_by(size);
            let mut pieces = cuts.map(|at| &text[at..text.len().min(at + size)]);
            assert_eq!(typed(&mut pieces), whole, "in pieces of {size}");
        }
    }
}
