//! Tables on a terminal: aligned, if there is room.

use pulldown_cmark::Alignment;

use super::{Inline, Look, NARROWEST, Writer};
use crate::render::Style;
use crate::text::width;

/// What stands between two cells.
const BETWEEN: usize = 2;
/// The fewest columns that a cell is wrapped in, on average.
const CELL: usize = 12;

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
        let Some(table) = self.table.take() else { return };
        let count = table.rows.iter().map(Vec::len).max().unwrap_or(0);
        let wide = |column: usize| table.rows.iter().filter_map(|row| row.get(column)).map(|cell| width(&cell.text)).max();
        let widths: Vec<usize> = (0..count).map(|column| wide(column).unwrap_or(0)).collect();
        let whole = widths.iter().sum::<usize>() + BETWEEN * count.saturating_sub(1);
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
                line.extend(std::iter::repeat_n(' ', BETWEEN));
            }
            lines.push(line.trim_end().to_owned());
            if at == 0 {
                lines.push(format!("{dim}{}{reset}", "─".repeat(whole)));
            }
        }
        self.put(lines);
    }

    /// Writes a table that has no room: its cells are wrapped, or, if that would leave too little for each, those of a row stand
    /// below each other.
    fn wide_table(&self, table: Table, widths: &[usize]) -> Vec<String> {
        let Some(widths) = fitted(&table, widths, self.room()) else { return self.stacked(table) };
        let mut lines = Vec::new();
        for (at, row) in table.rows.iter().enumerate() {
            let cells: Vec<Vec<(usize, String)>> =
                row.iter().zip(&widths).map(|(cell, wide)| cell.parts(*wide, self.style)).collect();
            for number in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
                let mut line = String::new();
                for (parts, wide) in cells.iter().zip(&widths) {
                    let (used, part) = parts.get(number).map_or((0, ""), |(used, part)| (*used, part));
                    line += part;
                    line.extend(std::iter::repeat_n(' ', wide.saturating_sub(used) + BETWEEN));
                }
                lines.push(line.trim_end().to_owned());
            }
            if at == 0 {
                let whole = widths.iter().sum::<usize>() + BETWEEN * widths.len().saturating_sub(1);
                lines.push(format!("{}{}{}", self.style.dim, "─".repeat(whole), self.style.reset));
            }
        }
        lines
    }

    /// Writes the cells of each row below each other.
    fn stacked(&self, table: Table) -> Vec<String> {
        let mut lines = Vec::new();
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

/// Returns how wide columns are that have less room than they need: none less than its longest word, and the rest in equal parts.
fn fitted(table: &Table, widths: &[usize], room: usize) -> Option<Vec<usize>> {
    let room = room.saturating_sub(BETWEEN * widths.len().saturating_sub(1));
    let longest = |column: usize| {
        let cells = table.rows.iter().filter_map(|row| row.get(column));
        cells.flat_map(|cell| cell.text.split([' ', '\n'])).map(width).max().unwrap_or(0)
    };
    let mut fitted: Vec<usize> = (0..widths.len()).map(longest).collect();
    let left = room.checked_sub(fitted.iter().sum()).filter(|_| room >= CELL * widths.len())?;
    for _ in 0..left {
        let wanting = (0..widths.len()).filter(|at| fitted[*at] < widths[*at]).min_by_key(|at| fitted[*at]);
        let Some(at) = wanting else { break };
        fitted[at] += 1;
    }
    Some(fitted)
}
