//! Markdown on a terminal, with restraint: headings and strong words are bold, code has a colour, lists and quotes hang,
//! tables are aligned. Nothing is lost: an address follows its link.

mod tables;

use std::fmt::Write as _;

use pulldown_cmark::{Event as Piece, Tag, TagEnd};

use crate::render::Style;
use crate::render::prose::events;
use crate::text::{visible, width, wrap};
use tables::Table;

/// The fewest columns that a text gets, however deep it is.
const NARROWEST: usize = 16;

/// Returns a text that an agent wrote in Markdown as lines of at most this many columns, longer words apart. Returns `None`
/// for a text that is better shown as it is.
pub(super) fn lines(text: &str, style: Style, columns: usize) -> Option<Vec<String>> {
    let mut writer = Writer { style, columns, ..Writer::default() };
    events(text)?.for_each(|event| writer.event(event));
    Some(writer.lines)
}

/// Renders a page of documentation that is written in Markdown, in lines of at most this many columns. The lines of a paragraph are
/// one text, pictures are left out, and lines of code stay as they are, to be copied. Without colours, headings and code keep
/// their marks.
pub fn render_page(markdown: &str, style: Style, columns: usize) -> String {
    let mut writer = Writer { style, columns, is_page: true, ..Writer::default() };
    let Some(events) = events(markdown) else { return markdown.to_owned() };
    events.for_each(|event| writer.event(event));
    writer.lines.into_iter().map(|line| line + "\n").collect()
}

/// How a part of a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Look {
    strong: bool,
    italic: bool,
    code: bool,
    dim: bool,
}

impl Look {
    fn codes(self, style: Style) -> String {
        let code = |wanted, code| if wanted { code } else { "" };
        [code(self.strong, style.bold), code(self.italic, style.italic), code(self.code, style.cyan), code(self.dim, style.dim)]
            .concat()
    }
}

/// Text with looks: each holds from its place on.
#[derive(Clone, Debug, Default)]
struct Inline {
    text: String,
    looks: Vec<(usize, Look)>,
}

impl Inline {
    fn push(&mut self, text: &str, look: Look) {
        if self.looks.last().map_or(look != Look::default(), |(_, last)| *last != look) {
            self.looks.push((self.text.len(), look));
        }
        self.text.push_str(&visible(text));
    }

    /// Returns a part of the text, with colours.
    fn shown(&self, start: usize, end: usize, style: Style) -> String {
        let mut out = String::new();
        let first = self.looks.partition_point(|(at, _)| *at <= start);
        let mut look = first.checked_sub(1).map_or(Look::default(), |before| self.looks[before].1);
        let mut from = start;
        for (at, next) in self.looks[first..].iter().take_while(|(at, _)| *at < end).chain([&(end, Look::default())]) {
            if look == Look::default() {
                out += &self.text[from..*at];
            } else if *at > from {
                let _ = write!(out, "{}{}{}", look.codes(style), &self.text[from..*at], style.reset);
            }
            (from, look) = (*at, *next);
        }
        out
    }

    fn rows(&self, columns: usize, style: Style) -> Vec<String> {
        self.parts(columns, style).into_iter().map(|(_, row)| row).collect()
    }

    /// Returns its lines with their widths.
    fn parts(&self, columns: usize, style: Style) -> Vec<(usize, String)> {
        let base = self.text.as_ptr().addr();
        let parts = self.text.split('\n').flat_map(|line| wrap(line, columns));
        let rows = parts.map(|part| {
            let start = part.as_ptr().addr() - base;
            (width(part), self.shown(start, start + part.len(), style))
        });
        rows.collect()
    }

    /// Puts another text before this one.
    fn behind(mut self, first: &str, look: Look) -> Self {
        let mut all = Self::default();
        all.push(first, look);
        all.push("", Look::default());
        let moved = all.text.len();
        all.looks.extend(self.looks.drain(..).map(|(at, look)| (at + moved, look)));
        all.text += &self.text;
        all
    }
}

/// Something that stands left of the lines within it.
#[derive(Debug)]
enum Level {
    Quote,
    /// A list, and the number of its next item.
    List(Option<u64>),
    /// An item: its mark, until it is written, and the columns that it takes.
    Item(Option<String>, usize),
}

struct Writer {
    style: Style,
    columns: usize,
    /// Whether it is a page of documentation, and not what an agent wrote.
    is_page: bool,
    /// How many pictures are open that are not shown.
    hidden: usize,
    lines: Vec<String>,
    levels: Vec<Level>,
    inline: Inline,
    look: Look,
    /// How many headings, strong and emphasised parts are open.
    strong: usize,
    italic: usize,
    links: Vec<(usize, String)>,
    code: Option<String>,
    table: Option<Table>,
    /// Whether an empty line precedes the next block.
    wants_gap: bool,
}

impl Default for Writer {
    fn default() -> Self {
        Self {
            style: Style::plain(),
            columns: 0,
            is_page: false,
            hidden: 0,
            lines: Vec::new(),
            levels: Vec::new(),
            inline: Inline::default(),
            look: Look::default(),
            strong: 0,
            italic: 0,
            links: Vec::new(),
            code: None,
            table: None,
            wants_gap: false,
        }
    }
}

impl Writer {
    fn event(&mut self, event: Piece<'_>) {
        match event {
            Piece::Start(tag) => self.start(tag),
            Piece::End(tag) => self.end(tag),
            Piece::Text(text)
            | Piece::Html(text)
            | Piece::InlineHtml(text)
            | Piece::InlineMath(text)
            | Piece::DisplayMath(text)
            | Piece::FootnoteReference(text) => match &mut self.code {
                Some(code) => code.push_str(&text),
                None => self.push(&text, false),
            },
            Piece::Code(text) if self.keeps_marks() => self.push(&format!("`{text}`"), true),
            Piece::Code(text) => self.push(&text, true),
            Piece::SoftBreak if self.is_page => self.inline.push(" ", self.look),
            Piece::SoftBreak | Piece::HardBreak => self.inline.push("\n", self.look),
            Piece::Rule => {
                self.gap();
                let rule = format!("{}{}{}", self.style.dim, "─".repeat(self.room().min(24)), self.style.reset);
                self.put(vec![rule]);
                self.wants_gap = true;
            }
            Piece::TaskListMarker(done) => self.inline.push(if done { "☑ " } else { "☐ " }, self.look),
        }
    }

    /// Returns whether headings and code keep their marks, because there are no colours.
    fn keeps_marks(&self) -> bool {
        self.is_page && self.style == Style::plain()
    }

    fn push(&mut self, text: &str, code: bool) {
        if self.hidden > 0 {
            return;
        }
        self.look = Look { strong: self.strong > 0, italic: self.italic > 0, code, dim: false };
        self.inline.push(text, self.look);
        self.look.code = false;
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.gap(),
            Tag::Heading { level, .. } => {
                self.block();
                self.strong += 1;
                if self.keeps_marks() {
                    self.push(&format!("{} ", "#".repeat(level as usize)), false);
                }
            }
            Tag::BlockQuote(_) => {
                self.block();
                self.levels.push(Level::Quote);
            }
            Tag::CodeBlock(_) => {
                self.block();
                self.code = Some(String::new());
            }
            Tag::List(first) => {
                // A list within an item follows its text.
                self.flush();
                if !matches!(self.levels.last(), Some(Level::Item(..))) {
                    self.gap();
                }
                self.levels.push(Level::List(first));
            }
            Tag::Item => {
                let mark = match self.levels.last_mut() {
                    Some(Level::List(Some(number))) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => "• ".to_owned(),
                };
                let columns = width(&mark);
                self.levels.push(Level::Item(Some(mark), columns));
            }
            Tag::Table(alignments) => {
                self.block();
                self.table = Some(Table::new(alignments));
            }
            Tag::TableHead => {
                self.strong += 1;
                self.row();
            }
            Tag::TableRow => self.row(),
            Tag::Emphasis => self.italic += 1,
            Tag::Strong => self.strong += 1,
            Tag::Strikethrough => self.push("~~", false),
            Tag::Link { dest_url, .. } => self.links.push((self.inline.text.len(), dest_url.into_string())),
            Tag::Image { .. } if self.is_page => self.hidden += 1,
            Tag::Image { dest_url, .. } => {
                self.push("image: ", false);
                self.links.push((self.inline.text.len(), dest_url.into_string()));
            }
            Tag::TableCell
            | Tag::HtmlBlock
            | Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => {
                self.flush();
                self.wants_gap = true;
            }
            TagEnd::Heading(_) => {
                self.flush();
                self.strong -= 1;
                self.wants_gap = true;
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.levels.pop();
                self.wants_gap = true;
            }
            TagEnd::CodeBlock => {
                let code = self.code.take().unwrap_or_default();
                let room = if self.is_page { usize::MAX } else { self.room().saturating_sub(4).max(NARROWEST) };
                let code = visible(code.trim_end());
                let rows = code.lines().flat_map(|line| wrap(line, room)).map(|row| format!("    {row}").trim_end().to_owned());
                self.put(rows.collect());
                self.wants_gap = true;
            }
            TagEnd::List(_) => {
                self.levels.pop();
                self.wants_gap |= self.levels.is_empty();
            }
            TagEnd::Item => {
                self.flush();
                // An empty item has its mark.
                if matches!(self.levels.last(), Some(Level::Item(Some(_), _))) {
                    self.put(vec![String::new()]);
                }
                self.levels.pop();
            }
            TagEnd::Table => {
                self.end_table();
                self.wants_gap = true;
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.inline);
                if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
                    row.push(cell);
                }
            }
            TagEnd::Emphasis => self.italic -= 1,
            TagEnd::TableHead | TagEnd::Strong => self.strong -= 1,
            TagEnd::Strikethrough => self.push("~~", false),
            TagEnd::Image if self.is_page => self.hidden -= 1,
            TagEnd::Link | TagEnd::Image => {
                if let Some((start, address)) = self.links.pop()
                    && !address.is_empty()
                    && self.inline.text.get(start..).is_some_and(|text| text != visible(&address))
                {
                    self.inline.push(&format!(" ({address})"), Look { dim: true, ..Look::default() });
                    self.inline.push("", Look::default());
                }
            }
            TagEnd::TableRow
            | TagEnd::HtmlBlock
            | TagEnd::FootnoteDefinition
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::MetadataBlock(_) => {}
        }
    }

    fn row(&mut self) {
        if let Some(table) = &mut self.table {
            table.rows.push(Vec::new());
        }
    }

    /// Ends the text before a block, and leaves the gap that it needs.
    fn block(&mut self) {
        self.flush();
        self.gap();
    }

    fn gap(&mut self) {
        if std::mem::take(&mut self.wants_gap) && self.lines.last().is_some_and(|line| !line.is_empty()) {
            let quoted = self.levels.iter().any(|level| matches!(level, Level::Quote));
            self.lines.push(if quoted { format!("{}│{}", self.style.dim, self.style.reset) } else { String::new() });
        }
    }

    /// Returns the columns that are left of the levels.
    fn room(&self) -> usize {
        let used: usize = self.levels.iter().map(Level::columns).sum();
        self.columns.saturating_sub(used).max(NARROWEST)
    }

    fn flush(&mut self) {
        let inline = std::mem::take(&mut self.inline);
        if inline.text.trim().is_empty() {
            return;
        }
        let rows = inline.rows(self.room(), self.style);
        self.put(rows);
    }

    /// Writes rows, each behind its levels. A mark is before the first row alone.
    fn put(&mut self, rows: Vec<String>) {
        for row in rows {
            let mut line = String::new();
            let mut used = 0;
            for level in &mut self.levels {
                let columns = level.columns();
                used += columns;
                // What is too deep is not moved further.
                if used + NARROWEST > self.columns.max(NARROWEST * 2) {
                    break;
                }
                match level {
                    Level::Quote => {
                        let _ = write!(line, "{}│{} ", self.style.dim, self.style.reset);
                    }
                    Level::List(_) => {}
                    Level::Item(mark, columns) => match mark.take() {
                        Some(mark) => line += &mark,
                        None => line.extend(std::iter::repeat_n(' ', *columns)),
                    },
                }
            }
            self.lines.push((line + &row).trim_end().to_owned());
        }
    }
}

impl Level {
    fn columns(&self) -> usize {
        match self {
            Self::Quote => 2,
            Self::List(_) => 0,
            Self::Item(_, columns) => *columns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, columns: usize) -> String {
        let lines = lines(text, Style::ansi(), columns).unwrap();
        lines
            .join("\n")
            .replace("\u{1b}[0m", "⟩")
            .replace("\u{1b}[1m", "⟨b ")
            .replace("\u{1b}[36m", "⟨c ")
            .replace("\u{1b}[2m", "⟨d ")
            .replace("\u{1b}[3m", "⟨i ")
    }

    #[test]
    fn words_and_headings() {
        assert_eq!(
            shown("# One `two`\nA **bold** and *soft* `code`.", 80),
            "⟨b One ⟩⟨b ⟨c two⟩\n\nA ⟨b bold⟩ and ⟨i soft⟩ ⟨c code⟩."
        );
        assert_eq!(shown("aaaa **bbbbbbb ccccccc** d", 16), "aaaa ⟨b bbbbbbb⟩\n⟨b ccccccc⟩ d");
        assert_eq!(shown("one\ntwo  \nthree\n\nfour", 80), "one\ntwo\nthree\n\nfour");
    }

    #[test]
    fn lists_hang() {
        assert_eq!(
            shown("Do:\n\n1. one two three four\n   - in\n   - [x] done\n2. b\n\nend", 20),
            "Do:\n\n1. one two three\n   four\n   • in\n   • ☑ done\n2. b\n\nend"
        );
        assert_eq!(shown("- a\n\n- b", 80), "• a\n\n• b");
        assert_eq!(shown("9. a\n10. b\n-\n- c", 80), "9. a\n10. b\n\n•\n• c");
    }

    #[test]
    fn code_and_quotes_and_rules() {
        assert_eq!(shown("a\n```rs\nfn  x() {\n\n  1\n```\nb", 80), "a\n\n    fn  x() {\n\n      1\n\nb");
        assert_eq!(shown("> a\n> b\n>\n> c", 80), "⟨d │⟩ a\n⟨d │⟩ b\n⟨d │⟩\n⟨d │⟩ c");
        assert_eq!(shown("- a\n  ```\n  x\n  ```", 80), "• a\n\n      x".replace("\n\n", "\n"));
        assert_eq!(shown("a\n\n---\nb", 20), format!("a\n\n⟨d {}⟩\n\nb", "─".repeat(20)));
    }

    #[test]
    fn links_have_their_addresses() {
        assert_eq!(
            shown("[a](http://b) <http://c> ![d](e.png) [x](javascript:y)", 99),
            "a⟨d  (http://b)⟩ http://c image: d⟨d  (e.png)⟩ x⟨d  (javascript:y)⟩"
        );
    }

    #[test]
    fn tables_are_aligned_if_they_fit() {
        let table = "| a | long | n |\n|---|:-:|--:|\n| `x` | y | 1 |\n| 日本 | zz | 20 |";
        assert_eq!(
            shown(table, 40),
            format!("⟨b a⟩     ⟨b long⟩   ⟨b n⟩\n⟨d {}⟩\n⟨c x⟩      y     1\n日本   zz   20", "─".repeat(14))
        );
        let wide = shown("| one two three | four five six |\n|---|---|\n| 1 | |\n| 2 | a b c d e f g |", 16);
        assert_eq!(wide, "⟨b one two three ·⟩\n⟨b four five six⟩\n1\n2\n    a b c d e f g");
        let three = shown("| one two three | four | five |\n|---|---|---|\n| 1 | 2 | 3 |", 16);
        assert_eq!(three, "⟨b one two three ·⟩\n⟨b four · five⟩\n1\n    ⟨b four: ⟩2\n    ⟨b five: ⟩3");
        let both =
            "| a | b | c |\n|---|---|---|\n| one two three four five six seven | seven six five four three two one | x |\n";
        assert_eq!(
            shown(both, 40),
            format!(
                "⟨b a⟩                   ⟨b b⟩                  ⟨b c⟩\n⟨d {}⟩\n{}\n{}\n{}",
                "─".repeat(40),
                "one two three four  seven six five     x",
                "five six seven      four three two",
                "                    one",
            )
        );
        let words = "word ".repeat(12);
        let long = shown(&format!("| a | b |\n|---|---|\n| `x` | {words}|\n"), 40);
        let row = "⟨c x⟩  word word word word word word word\n   word word word word word";
        assert_eq!(long, format!("⟨b a⟩  ⟨b b⟩\n⟨d {}⟩\n{row}", "─".repeat(40)));
    }

    #[test]
    fn a_page_joins_the_lines_of_a_paragraph_and_keeps_code() {
        let page = "# One\n\nsome `words`\nand more\n\n![picture](x.png)\n\n* an item\n  that goes on\n\n```sh\na | b # longer than this\n```\n";
        assert_eq!(
            render_page(page, Style::plain(), 16),
            "# One\n\nsome `words` and\nmore\n\n• an item that\n  goes on\n\n    a | b # longer than this\n"
        );
        assert!(render_page(page, Style::ansi(), 16).starts_with("\u{1b}[1mOne\u{1b}[0m\n\nsome \u{1b}[36mwords"));
    }

    #[test]
    fn nothing_steers_the_terminal_and_html_is_text() {
        let text = lines(
            "<b>x</b> \u{1b}[2J `\u{1b}]0;t\u{7}` &#27;[31m [a\u{202e}](\u{1b}x)\n\n```\n\u{9b}2J\n```",
            Style::plain(),
            80,
        )
        .unwrap();
        assert!(!text.iter().flat_map(|line| line.chars()).any(|c| c.is_control() || c == '\u{202e}'), "{text:?}");
        assert!(text[0].starts_with("<b>x</b> ␛[2J"), "{text:?}");
    }

    #[test]
    fn what_is_deep_stays_within_the_columns() {
        let text = (0..40).fold(String::new(), |text, depth| text + &"  ".repeat(depth) + "- a few words here\n");
        let lines = lines(&text, Style::plain(), 40).unwrap();
        assert!(lines.len() >= 40 && lines.iter().all(|line| width(line) <= 40 + NARROWEST), "{lines:#?}");
    }
}
