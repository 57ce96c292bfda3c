//! Rows as JSON, one object per line. A key stands in every row, with null where there is nothing.

use std::io::{self, Write};

use super::cell::{Cell, Rows, day, decimal, moment};
use super::tables::{ExportColumn, ExportTable};

pub(super) struct Ndjson<W> {
    to: W,
    columns: &'static [ExportColumn],
    line: Vec<u8>,
}

impl<W: Write> Ndjson<W> {
    pub(super) fn new(table: ExportTable, to: W) -> Self {
        Self { to, columns: table.columns(), line: Vec::new() }
    }
}

impl<W: Write> Rows for Ndjson<W> {
    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        self.line.clear();
        for (column, cell) in self.columns.iter().zip(cells) {
            self.line.push(if self.line.is_empty() { b'{' } else { b',' });
            write!(self.line, "\"{}\":", column.name)?;
            match cell {
                Cell::Nothing => self.line.extend_from_slice(b"null"),
                Cell::Text(text) => serde_json::to_writer(&mut self.line, text)?,
                Cell::Whole(number) => write!(self.line, "{number}")?,
                Cell::Money(money) => self.line.extend_from_slice(decimal(*money).as_bytes()),
                Cell::Time(millis) => write!(self.line, "\"{}\"", moment(*millis))?,
                Cell::Day(days) => write!(self.line, "\"{}\"", day(*days))?,
                Cell::Flag(flag) => write!(self.line, "{flag}")?,
            }
        }
        self.line.extend_from_slice(b"}\n");
        self.to.write_all(&self.line)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
