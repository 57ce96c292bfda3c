//! Tables on a terminal: aligned, if there is room.

use pulldown_cmark::Alignment;

use super::{Inline, Look, NARROWEST, Writer};
use crate::render::Style;
use crate::text::width;

/// The fewest columns that the last column of a table is wrapped in.
const LAST_COLUMN: usize = 30;

/// A table that is being read.
#[derive(Default)]
pub(super) struct Table {
    alignments: Vec<Alignment>,
    pub(super) rows: Vec<Vec<Inline>>,
}

impl Table {
    pub(super) fn new(alignments: Vec<Alignment>) -> Self {
        Self { alignments, rows: Vec::new() }
    }
}

impl Writer {
    pub(super) fn end_table(&mut self) {
        const BETWEEN: &str = "  ";
        let Some(table) = self.table.take() else { return };
        let count = table.rows.iter().map(Vec::len).max().unwrap_or(0);
        let wide = |column: usize| table.rows.iter().filter_map(|row| row.get(column)).map(|cell| width(&cell.text)).max();
        let widths: Vec<usize> = (0..count).map(|column| wide(column).unwrap_or(0)).collect();
        let whole = widths.iter().sum::<usize>() + BETWEEN.len() * count.saturating_sub(1);
        if whole > self.room() {
            let rows = self.wide_table(table, &widths);
            return self.put(rows);
        }
        let Style { dim, reset, .. } = self.style;
        let mut lines = Vec::new();
        for (at, row) in table.rows.iter().enumerate() {
            let shown = |cell: &Inline| cell.shown(0, cell.text.len(), self.style);
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let blank = widths[column] - width(&cell.text);
                let left = match table.alignments.get(column) {
                    Some(Alignment::Right) => blank,
                    Some(Alignment::Center) => blank / 2,
                    Some(Alignment::Left | Alignment::None) | None => 0,
                };
                line.extend(std::iter::repeat_n(' ', left));
                line += &shown(cell);
                line.extend(std::iter::repeat_n(' ', blank - left));
                line += BETWEEN;
            }
            lines.push(line.trim_end().to_owned());
            if at == 0 {
                lines.push(format!("{dim}{}{reset}", "─".repeat(whole)));
            }
        }
        self.put(lines);
    }

    /// Writes a table that has no room: the last column is wrapped if the others leave it enough, otherwise the cells of a row stand
    /// below each other.
    fn wide_table(&self, table: Table, widths: &[usize]) -> Vec<String> {
        const BETWEEN: usize = 2;
        let Some((last, others)) = widths.split_last() else { return Vec::new() };
        let before: usize = others.iter().map(|width| width + BETWEEN).sum();
        let rest = self.room().saturating_sub(before);
        let mut lines = Vec::new();
        if rest >= (*last).min(LAST_COLUMN) {
            for (at, row) in table.rows.iter().enumerate() {
                let mut line = String::new();
                for (column, wide) in others.iter().enumerate() {
                    let cell = row.get(column).cloned().unwrap_or_default();
                    line += &cell.shown(0, cell.text.len(), self.style);
                    line.extend(std::iter::repeat_n(' ', wide - width(&cell.text) + BETWEEN));
                }
                for part in row.get(others.len()).map_or_else(|| vec![String::new()], |cell| cell.rows(rest, self.style)) {
                    lines.push((std::mem::take(&mut line) + &part).trim_end().to_owned());
                    line = " ".repeat(before);
                }
                if at == 0 {
                    lines.push(format!("{}{}{}", self.style.dim, "─".repeat(self.room()), self.style.reset));
                }
            }
            return lines;
        }
        let mut rows = table.rows.into_iter();
        let names: Vec<String> = rows.next().unwrap_or_default().into_iter().map(|cell| cell.text).collect();
        let strong = Look { strong: true, ..Look::default() };
        let mut head = Inline::default();
        head.push(
            &names.iter().filter(|name| !name.trim().is_empty()).map(String::as_str).collect::<Vec<_>>().join(" · "),
            strong,
        );
        if !head.text.is_empty() {
            lines.extend(head.rows(self.room(), self.style));
        }
        for row in rows {
            for (column, cell) in row.into_iter().enumerate().filter(|(_, cell)| !cell.text.trim().is_empty()) {
                let indent = if column > 0 { 4 } else { 0 };
                // If there are several values, each has its name.
                let name = names.get(column).filter(|name| column > 0 && names.len() > 2 && !name.trim().is_empty());
                let cell = name.map_or_else(|| cell.clone(), |name| cell.clone().behind(&format!("{name}: "), strong));
                let room = self.room().saturating_sub(indent).max(NARROWEST);
                lines.extend(cell.rows(room, self.style).into_iter().map(|part| format!("{:indent$}{part}", "")));
            }
        }
        lines
    }
}
