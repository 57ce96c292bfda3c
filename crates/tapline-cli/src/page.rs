//! A page of docs/ as text for a terminal. It supports the Markdown that those pages use: headings, paragraphs, lists,
//! tables and code blocks, with bold, code and links in them.

use std::iter::Peekable;
use std::path::Path;
use std::str::Lines;

use tapline_session::render::Style;
use tapline_session::text::wrap;

use crate::topics;

// Marks where styles change in a line. They have no width, so a line can be wrapped before it is coloured.
const BOLD: char = '\u{1}';
const CODE: char = '\u{2}';
const PLAIN: char = '\u{3}';

/// Renders the page in lines of at most this many columns, if words allow it.
pub(crate) fn render(markdown: &str, style: Style, columns: usize) -> String {
    let mut page = Page { style, columns, text: String::new() };
    let mut lines = markdown.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            let code = lines.by_ref().take_while(|line| !line.starts_with("```"));
            code.for_each(|line| page.line(&format!("    {CODE}{line}{PLAIN}")));
        } else if line.starts_with("![") {
            // A picture, and the empty line behind it.
            lines.next_if(|next| next.is_empty());
        } else if line.starts_with('|') {
            page.table(line, &mut lines);
        } else if line.starts_with('#') {
            let title = if page.is_plain() { line } else { line.trim_start_matches(['#', ' ']) };
            page.line(&format!("{BOLD}{}{PLAIN}", page.inline(title)));
        } else {
            page.paragraph(line, &mut lines);
        }
    }
    page.text
}

struct Page {
    style: Style,
    columns: usize,
    text: String,
}

impl Page {
    /// Returns whether there are no colours. Titles and code then keep their marks.
    fn is_plain(&self) -> bool {
        self.style == Style::plain()
    }

    fn line(&mut self, line: &str) {
        let Style { bold, cyan, reset, .. } = self.style;
        self.text += line.replace(BOLD, bold).replace(CODE, cyan).replace(PLAIN, reset).trim_end();
        self.text.push('\n');
    }

    /// Writes text after `first`, wrapped. The lines after the first are indented.
    fn put(&mut self, first: &str, indent: usize, text: &str) {
        for (at, part) in wrap(text, self.columns.saturating_sub(indent).max(20)).into_iter().enumerate() {
            let before = if at == 0 { first } else { "" };
            self.line(&format!("{before}{}{part}", " ".repeat(indent - width(before))));
        }
    }

    /// Writes a paragraph, or an item of a list. All its lines are one text.
    fn paragraph(&mut self, line: &str, lines: &mut Peekable<Lines<'_>>) {
        let marker = marker(line);
        let mut text = line[marker..].to_owned();
        let starts_another = |next: &str| next.is_empty() || ["#", "|", "```"].iter().any(|mark| next.starts_with(mark));
        let continues = |next: &&str| !line.is_empty() && !starts_another(next) && self::marker(next) == 0;
        while let Some(next) = lines.next_if(continues) {
            text.push(' ');
            text += next.trim_start();
        }
        let text = self.inline(&text);
        self.put(&line[..marker], marker, &text);
    }

    /// Writes a table: columns side by side if there is room for the last one, otherwise the cells of a row below each
    /// other.
    fn table(&mut self, first: &str, lines: &mut Peekable<Lines<'_>>) {
        let mut rows = vec![self.cells(first)];
        while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
            rows.push(self.cells(row));
        }
        // The second row only marks the first one as the header.
        let mut header = rows.drain(..rows.len().min(2)).next().unwrap_or_default();
        let widest = |at: usize| rows.iter().chain([&header]).filter_map(|row| row.get(at)).map(|cell| width(cell)).max();
        let widths: Vec<usize> = (0..header.len()).filter_map(widest).collect();
        let Some((last, others)) = widths.split_last() else { return };
        let before = 2 + others.iter().map(|width| width + 2).sum::<usize>();
        let side_by_side = before + last.min(&36) <= self.columns;
        for cell in header.iter_mut().filter(|cell| !cell.is_empty()) {
            *cell = format!("{BOLD}{cell}{PLAIN}");
        }
        if side_by_side && header.iter().any(|cell| !cell.is_empty()) {
            rows.insert(0, header.clone());
        }
        for row in &rows {
            if let (true, Some((end, cells))) = (side_by_side, row.split_last()) {
                let mut line = String::from("  ");
                for (cell, wide) in cells.iter().zip(others) {
                    line.push_str(cell);
                    line.push_str(&" ".repeat(wide - width(cell) + 2));
                }
                self.put(&line, before, end);
                continue;
            }
            for (at, cell) in row.iter().enumerate().filter(|(_, cell)| !cell.is_empty()) {
                // If there are several values, each has its name.
                match header.get(at).filter(|name| at > 0 && header.len() > 2 && !name.is_empty()) {
                    Some(name) => self.put("", 6, &format!("{name}: {cell}")),
                    None => self.put("", if at == 0 { 2 } else { 6 }, cell),
                }
            }
        }
    }

    fn cells(&self, row: &str) -> Vec<String> {
        let row = row.trim().trim_matches('|').replace(r"\|", "\0");
        row.split('|').map(|cell| self.inline(&cell.trim().replace('\0', "|"))).collect()
    }

    fn inline(&self, text: &str) -> String {
        let tick = if self.is_plain() { "`" } else { "" };
        let (mut out, mut rest, mut strong) = (String::new(), text, false);
        while let Some(at) = rest.find(['`', '*', '[']) {
            out += &rest[..at];
            rest = &rest[at..];
            if let Some((code, after)) = rest.strip_prefix('`').and_then(|rest| rest.split_once('`')) {
                out.push(CODE);
                out.extend([tick, code, tick]);
                out.push(PLAIN);
                if strong {
                    out.push(BOLD);
                }
                rest = after;
            } else if let Some(after) = rest.strip_prefix("**") {
                strong = !strong;
                out.push(if strong { BOLD } else { PLAIN });
                rest = after;
            } else if let Some((label, target, after)) = link(rest) {
                let nested = out.matches('(').count() > out.matches(')').count();
                out += &self.inline(&linked(label, target, nested));
                rest = after;
            } else if let Some((word, after)) = rest.strip_prefix('*').and_then(|rest| rest.split_once('*')) {
                out += word;
                rest = after;
            } else {
                out.push_str(&rest[..1]);
                rest = &rest[1..];
            }
        }
        out + rest
    }
}

/// Returns the length of the marker of a list item: `* `, `- `, `1. `.
fn marker(line: &str) -> usize {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    if line.starts_with("* ") || line.starts_with("- ") {
        2
    } else if digits > 0 && line[digits..].starts_with(". ") {
        digits + 2
    } else {
        0
    }
}

/// Splits off `[label](target)`, and returns the rest.
fn link(text: &str) -> Option<(&str, &str, &str)> {
    let (label, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (target, rest) = rest.split_once(')')?;
    (!label.contains(']')).then_some((label, target, rest))
}

/// Describes a link: a page has a name here, and a place in the same page needs none.
fn linked(label: &str, target: &str, nested: bool) -> String {
    let place = match topics::in_file(target.split('#').next().unwrap_or_default()) {
        Some(topic) => format!("`tapline help {}`", topic.name),
        None if target.starts_with("https://") => target.to_owned(),
        None => return label.to_owned(),
    };
    match label {
        _ if Path::new(label).extension().is_some_and(|extension| extension == "md") => place,
        _ if nested => format!("{label}, {place}"),
        _ => format!("{label} ({place})"),
    }
}

fn width(text: &str) -> usize {
    text.chars().filter(|c| !c.is_control()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# Secrets

Text that is **longer than `one` line**, and goes on
`here` ([what counts](REDACT.md), [syntax](https://example.org)); see *also* [rules](PERMISSIONS.md#decisions) and [below](#more).

* an item of a list, which is wrapped and
  continued
1. a number

```sh
a | b  # a comment that is longer than any line may be
```

| key | |
|---|---|
| `a \\| b` | either |
";

    #[test]
    fn a_page_is_wrapped_and_its_links_are_topics() {
        let expected = "\
# Secrets

Text that is longer than `one` line, and
goes on `here` (what counts, `tapline
help redact`, syntax,
https://example.org); see also rules
(`tapline help permissions`) and below.

* an item of a list, which is wrapped
  and continued
1. a number

    a | b  # a comment that is longer than any line may be

  key
  `a | b`  either
";
        assert_eq!(render(PAGE, Style::plain(), 40), expected);
    }

    #[test]
    fn colour_takes_the_place_of_marks() {
        let page = render(PAGE, Style::ansi(), 40);
        assert!(page.starts_with("\u{1b}[1mSecrets\u{1b}[0m\n"), "{page}");
        assert!(page.contains("\u{1b}[1mlonger than \u{1b}[36mone\u{1b}[0m\u{1b}[1m line\u{1b}[0m, and"), "{page}");
        assert!(!page.contains(['`', BOLD, CODE, PLAIN]), "{page}");
    }

    #[test]
    fn cells_that_do_not_fit_side_by_side_stand_below_each_other() {
        let table = "| | 1.0 | 2.0 |\n|---|---|---|\n| a long name of a row | a long cell | another |\n";
        assert_eq!(render(table, Style::plain(), 30), "  a long name of a row\n      1.0: a long cell\n      2.0: another\n");
    }
}
