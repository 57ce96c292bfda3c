//! The prompt while it is typed: text of several lines, a cursor, and large pastes as one piece. Pure: keys in, rows
//! out.

use tapline_session::text::{count_of, visible, width};

use super::keys::Key;

/// A larger paste is shown as one piece.
const LARGE: (usize, usize) = (1_000, 8);

/// A character, or a paste.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cell {
    Char(char),
    Paste(String),
}

impl Cell {
    fn is_blank(&self) -> bool {
        matches!(self, Self::Char(c) if c.is_whitespace())
    }

    /// Returns it as it is shown.
    fn shown(&self) -> String {
        match self {
            Self::Char('\t') => "    ".to_owned(),
            Self::Char(c) => visible(c.encode_utf8(&mut [0; 4])).into_owned(),
            Self::Paste(text) => {
                let lines = text.lines().count();
                format!("[pasted {}, {}]", count_of(text.chars().count(), "character"), count_of(lines, "line"))
            }
        }
    }
}

/// The text that is being typed.
#[derive(Clone, Debug, Default)]
pub(super) struct Editor {
    cells: Vec<Cell>,
    cursor: usize,
    /// The position in the history, and what was typed before.
    past: Option<(usize, Vec<Cell>)>,
}

/// What a key did.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Edited {
    /// The text or the cursor changed.
    Changed,
    /// The text is finished.
    Sent(String),
    /// Nothing: the key is for something else.
    Nothing,
}

/// Rows of a terminal, and the position of the cursor.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rows {
    pub(super) rows: Vec<String>,
    pub(super) cursor: (usize, usize),
}

impl Editor {
    pub(super) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Restores text that could not be sent, before what was typed in the meantime.
    pub(super) fn put_back(&mut self, text: &str) {
        let typed = std::mem::take(&mut self.cells);
        self.show(text);
        self.cells.extend(typed);
    }

    /// Returns the text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for cell in &self.cells {
            match cell {
                Cell::Char(c) => text.push(*c),
                Cell::Paste(paste) => text.push_str(paste),
            }
        }
        text
    }

    /// Takes a key. Up and Down go through `past`, which has the newest entry last.
    pub(super) fn press(&mut self, key: &Key, past: &[String]) -> Edited {
        match key {
            Key::Enter if self.cells.get(self.cursor.wrapping_sub(1)) == Some(&Cell::Char('\\')) => {
                self.cells[self.cursor - 1] = Cell::Char('\n');
            }
            Key::Enter => {
                let text = self.text();
                self.clear();
                return Edited::Sent(text);
            }
            Key::NewLine => self.insert(Cell::Char('\n')),
            Key::Char(c) => self.insert(Cell::Char(*c)),
            Key::Paste(text) if text.len() > LARGE.0 || text.lines().count() > LARGE.1 => {
                self.insert(Cell::Paste(text.clone()));
            }
            Key::Paste(text) => text.chars().for_each(|c| self.insert(Cell::Char(c))),
            Key::Backspace if self.cursor > 0 => {
                self.cursor -= 1;
                self.cells.remove(self.cursor);
            }
            Key::Delete | Key::Ctrl('d') if self.cursor < self.cells.len() => drop(self.cells.remove(self.cursor)),
            Key::Left | Key::Ctrl('b') => self.cursor = self.cursor.saturating_sub(1),
            Key::Right | Key::Ctrl('f') => self.cursor = (self.cursor + 1).min(self.cells.len()),
            Key::WordLeft => self.cursor = self.word_left(),
            Key::WordRight => self.cursor = self.word_right(),
            Key::Home | Key::Ctrl('a') => self.cursor = self.line().0,
            Key::End | Key::Ctrl('e') => self.cursor = self.line().1,
            Key::Ctrl('k') => drop(self.cells.drain(self.cursor..self.line().1)),
            Key::Ctrl('u') => self.cut(self.line().0),
            Key::Ctrl('w') => self.cut(self.word_left()),
            Key::Up if self.line().0 > 0 => self.go_to_line(self.line().0 - 1),
            Key::Up | Key::Ctrl('p') => self.go_back(past),
            Key::Down if self.line().1 < self.cells.len() => self.go_to_line(self.line().1 + 1),
            Key::Down | Key::Ctrl('n') => self.go_forth(past),
            _ => return Edited::Nothing,
        }
        Edited::Changed
    }

    fn insert(&mut self, cell: Cell) {
        self.cells.insert(self.cursor, cell);
        self.cursor += 1;
    }

    /// Deletes the text from here to the cursor.
    fn cut(&mut self, from: usize) {
        self.cells.drain(from..self.cursor);
        self.cursor = from;
    }

    /// Returns the start and the end of the cursor's line.
    fn line(&self) -> (usize, usize) {
        let is_end = |cell: &Cell| *cell == Cell::Char('\n');
        let begins = self.cells[..self.cursor].iter().rposition(is_end).map_or(0, |at| at + 1);
        let ends = self.cells[self.cursor..].iter().position(is_end).map_or(self.cells.len(), |at| self.cursor + at);
        (begins, ends)
    }

    /// Moves to the line here, in the same column.
    fn go_to_line(&mut self, place: usize) {
        let column = self.cursor - self.line().0;
        self.cursor = place;
        let (begins, ends) = self.line();
        self.cursor = (begins + column).min(ends);
    }

    fn word_left(&self) -> usize {
        let word = self.cells[..self.cursor].iter().rposition(|cell| !cell.is_blank());
        word.and_then(|word| self.cells[..word].iter().rposition(Cell::is_blank)).map_or(0, |blank| blank + 1)
    }

    fn word_right(&self) -> usize {
        let rest = &self.cells[self.cursor..];
        let word = rest.iter().position(|cell| !cell.is_blank()).unwrap_or(rest.len());
        self.cursor + rest[word..].iter().position(Cell::is_blank).map_or(rest.len(), |blank| word + blank)
    }

    fn go_back(&mut self, past: &[String]) {
        let at = self.past.as_ref().map_or(past.len(), |(at, _)| *at);
        if at > 0 {
            let typed = self.past.take().map_or_else(|| self.cells.clone(), |(_, typed)| typed);
            self.show(&past[at - 1]);
            self.past = Some((at - 1, typed));
        }
    }

    fn go_forth(&mut self, past: &[String]) {
        let Some((at, typed)) = self.past.take() else { return };
        if let Some(text) = past.get(at + 1) {
            self.show(text);
            self.past = Some((at + 1, typed));
        } else {
            (self.cursor, self.cells) = (typed.len(), typed);
        }
    }

    fn show(&mut self, text: &str) {
        let large = text.len() > LARGE.0 || text.lines().count() > LARGE.1;
        self.cells = if large { vec![Cell::Paste(text.to_owned())] } else { text.chars().map(Cell::Char).collect() };
        self.cursor = self.cells.len();
    }

    /// Returns at most this many rows of this many columns: those around the cursor, if there are more.
    pub(super) fn rows(&self, columns: usize, most: usize) -> Rows {
        let room = columns.saturating_sub(PROMPT.0.chars().count()).max(4);
        let (mut rows, mut row, mut used) = (Vec::new(), String::new(), 0);
        let mut cursor = (0, 0);
        for at in 0..=self.cells.len() {
            if at == self.cursor {
                cursor = (rows.len(), used);
            }
            let Some(cell) = self.cells.get(at) else { break };
            if *cell == Cell::Char('\n') {
                rows.push(std::mem::take(&mut row));
                used = 0;
                continue;
            }
            for c in cell.shown().chars() {
                let wide = width(c.encode_utf8(&mut [0; 4]));
                if used + wide >= room {
                    rows.push(std::mem::take(&mut row));
                    used = 0;
                    if at == self.cursor && matches!(cell, Cell::Char(_)) {
                        cursor = (rows.len(), 0);
                    }
                }
                row.push(c);
                used += wide;
            }
        }
        rows.push(row);
        // What does not fit is not shown.
        let most = most.max(1);
        let first = (cursor.0 + 1).saturating_sub(most).min(rows.len().saturating_sub(1));
        let rows = rows.into_iter().enumerate().skip(first).take(most);
        let mark = |at: usize| if at == 0 { PROMPT.0 } else { PROMPT.1 };
        let rows: Vec<_> = rows.map(|(at, row)| format!("{}{row}", mark(at))).collect();
        Rows { rows, cursor: (cursor.0 - first, cursor.1 + PROMPT.0.chars().count()) }
    }
}

/// The text before the first row, and before the others.
const PROMPT: (&str, &str) = ("› ", "  ");

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[Key]) -> Editor {
        let mut editor = Editor::default();
        for key in keys {
            editor.press(key, &[]);
        }
        editor
    }

    fn chars(text: &str) -> Vec<Key> {
        text.chars().map(Key::Char).collect()
    }

    #[test]
    fn typing_moving_and_cutting() {
        let mut editor = typed(&chars("hello wide world"));
        for (key, text) in [
            (Key::Ctrl('w'), "hello wide "),
            (Key::WordLeft, "hello wide "),
            (Key::Ctrl('k'), "hello "),
            (Key::Home, "hello "),
            (Key::Delete, "ello "),
            (Key::Char('J'), "Jello "),
            (Key::End, "Jello "),
            (Key::Backspace, "Jello"),
            (Key::NewLine, "Jello\n"),
            (Key::Char('x'), "Jello\nx"),
            (Key::Ctrl('u'), "Jello\n"),
        ] {
            assert_eq!(editor.press(&key, &[]), Edited::Changed, "{key:?}");
            assert_eq!(editor.text(), text, "{key:?}");
        }
        assert_eq!(editor.press(&Key::Enter, &[]), Edited::Sent("Jello\n".to_owned()));
        assert!(editor.is_empty());
        assert_eq!(editor.press(&Key::Ctrl('d'), &[]), Edited::Nothing, "an empty prompt leaves it to others");
        assert_eq!(editor.press(&Key::Backspace, &[]), Edited::Nothing);
    }

    #[test]
    fn a_backslash_before_enter_starts_a_new_line() {
        let mut editor = typed(&chars("one\\"));
        assert_eq!(editor.press(&Key::Enter, &[]), Edited::Changed);
        assert_eq!(editor.text(), "one\n");
    }

    #[test]
    fn the_past_and_what_was_typed_before() {
        let past = ["first".to_owned(), "second".to_owned()];
        let mut editor = typed(&chars("new"));
        let mut after = |key: Key| {
            editor.press(&key, &past);
            editor.text()
        };
        assert_eq!(after(Key::Up), "second");
        assert_eq!(after(Key::Up), "first");
        assert_eq!(after(Key::Up), "first");
        assert_eq!(after(Key::Down), "second");
        assert_eq!(after(Key::Down), "new");
        assert_eq!(after(Key::Down), "new");
    }

    #[test]
    fn a_large_paste_is_one_piece_and_all_of_it_is_sent() {
        let large = "line\n".repeat(200_000);
        let mut editor = typed(&chars("see "));
        editor.press(&Key::Paste(large.clone()), &[]);
        assert_eq!(editor.rows(60, 5).rows, ["› see [pasted 1000000 characters, 200000 lines]"]);
        editor.press(&Key::Left, &[]);
        editor.press(&Key::Char('!'), &[]);
        assert_eq!(editor.press(&Key::Enter, &[]), Edited::Sent(format!("see !{large}")));
    }

    #[test]
    fn rows_are_cut_at_the_edge_and_the_cursor_is_seen() {
        let editor = typed(&chars("abcdefghij"));
        let rows = editor.rows(8, 10);
        assert_eq!(rows.rows, ["› abcde", "  fghij"]);
        assert_eq!(rows.cursor, (1, 7));
        // Wide characters are never cut in half.
        assert_eq!(typed(&chars("ab漢字漢字")).rows(8, 10).rows, ["› ab漢", "  字漢", "  字"]);
        let mut long = typed(&chars(&"x\n".repeat(40)));
        let rows = long.rows(20, 4);
        assert_eq!((rows.rows.len(), rows.cursor.0), (4, 3), "the end is shown where the cursor is");
        long.press(&Key::Home, &[]);
        for _ in 0..40 {
            long.press(&Key::Up, &[]);
        }
        assert_eq!(long.rows(20, 4).cursor, (0, 2));
    }

    #[test]
    fn what_steers_a_terminal_is_shown() {
        let editor = typed(&[Key::Paste("\x1b[2J".to_owned())]);
        assert_eq!(editor.rows(20, 3).rows, ["› ␛[2J"]);
    }
}
