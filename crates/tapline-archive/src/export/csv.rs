//! Rows as CSV (RFC 4180, with a line for the names).

use std::io::{self, Write};

use super::cell::{Cell, Rows, day, decimal, moment};
use super::tables::ExportTable;

/// Characters that make a spreadsheet take a text for a formula.
const FORMULA: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

pub(super) struct Csv<W> {
    to: W,
    line: String,
}

impl<W: Write> Csv<W> {
    pub(super) fn new(table: ExportTable, mut to: W) -> io::Result<Self> {
        let names: Vec<&str> = table.columns().iter().map(|column| column.name).collect();
        to.write_all(names.join(",").as_bytes())?;
        to.write_all(b"\r\n")?;
        Ok(Self { to, line: String::new() })
    }
}

impl<W: Write> Rows for Csv<W> {
    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        self.line.clear();
        for (at, cell) in cells.iter().enumerate() {
            if at > 0 {
                self.line.push(',');
            }
            match cell {
                Cell::Nothing => {}
                Cell::Text(text) => push_text(&mut self.line, text),
                Cell::Whole(number) => self.line.push_str(&number.to_string()),
                Cell::Money(money) => self.line.push_str(&decimal(*money)),
                Cell::Time(millis) => self.line.push_str(&moment(*millis)),
                Cell::Day(days) => self.line.push_str(&day(*days)),
                Cell::Flag(flag) => self.line.push_str(if *flag { "true" } else { "false" }),
            }
        }
        self.line.push_str("\r\n");
        self.to.write_all(self.line.as_bytes())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Adds a text. One that a spreadsheet would take for a formula gets a quote in front.
fn push_text(line: &mut String, text: &str) {
    let quoted = text.contains([',', '"', '\n', '\r']);
    if quoted {
        line.push('"');
    }
    if text.starts_with(FORMULA) {
        line.push('\'');
    }
    if quoted {
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
}
