//! Tables in parts, one for each day: what is in each of them, and the files of some. So a store far away gets only what
//! has changed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, Write};

use super::cell::{Cell, Rows, day};
use super::parquet::Parquet;
use super::rows::Exporter;
use super::tables::{ColumnType, ExportTable};
use super::{Export, ExportError};
use crate::index::Index;
use crate::load::{Selection, load};
use crate::prices::Prices;

/// The milliseconds of a day.
const DAY: u64 = 24 * 60 * 60 * 1_000;
/// The seeds of the two halves of a hash.
const SEEDS: [u64; 2] = [0x7461_706c, 0x696e_6521];

/// A part of a table: its rows of one day in UTC. A session is of the day on which it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Partition {
    /// The table.
    pub table: ExportTable,
    /// Days since 1970. `None` for rows without a time.
    pub day: Option<i32>,
}

impl Partition {
    /// The rows of this table of a day, in days since 1970, or those without a time.
    pub const fn new(table: ExportTable, day: Option<i32>) -> Self {
        Self { table, day }
    }

    /// Returns the part that a row is in.
    fn of(table: ExportTable, cells: &[Cell<'_>]) -> Self {
        let time = match cells.get(time_column(table)) {
            Some(Cell::Time(time)) if *time > 0 => i32::try_from(*time / DAY).ok(),
            _ => None,
        };
        Self { table, day: time }
    }
}

impl fmt::Display for Partition {
    /// Writes the folder as Hive names it: `messages/date=2026-11-17`, or `date=unknown`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = self.day.map_or_else(|| "unknown".to_owned(), day);
        write!(f, "{}/date={date}", self.table.name())
    }
}

/// What is in a part of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionContent {
    /// The number of rows.
    pub rows: u64,
    /// A hash of the columns and of all rows, in whatever order these come.
    pub hash: u128,
}

impl PartitionContent {
    /// What a part without rows has.
    pub fn empty(table: ExportTable) -> Self {
        let mut bytes = Vec::new();
        for column in table.columns() {
            bytes.extend_from_slice(format!("{} {}{};", column.name, column.holds, u8::from(column.nullable)).as_bytes());
        }
        Self { rows: 0, hash: hash(&bytes) }
    }

    fn add(&mut self, cells: &[Cell<'_>], bytes: &mut Vec<u8>) {
        bytes.clear();
        for cell in cells {
            encode(*cell, bytes);
        }
        self.rows += 1;
        self.hash = self.hash.wrapping_add(hash(bytes));
    }
}

impl Export<'_> {
    /// Returns what each part of all tables has, without writing anything. Only sessions are added up in memory.
    pub fn partitions(
        &self,
        index: &Index,
        prices: &Prices,
        selection: &Selection,
    ) -> Result<BTreeMap<Partition, PartitionContent>, ExportError> {
        let parts = RefCell::new(Parts::<io::Sink> { takes_all: true, ..Parts::default() });
        self.split(index, prices, selection, &ExportTable::ALL, &parts)?;
        let mut content = parts.into_inner().content();
        // Whoever reads a table finds it, also without rows: on the first day that any of them has.
        if let Some(day) = content.keys().filter_map(|partition| partition.day).min() {
            for table in ExportTable::ALL {
                if !content.keys().any(|partition| partition.table == table) {
                    content.insert(Partition::new(table, Some(day)), PartitionContent::empty(table));
                }
            }
        }
        Ok(content)
    }

    /// Writes these parts as Parquet, whatever the format. Returns what each has. For each of them, up to 32,768 rows are
    /// in memory.
    pub fn write_partitions<W: Write + Send>(
        &self,
        index: &Index,
        prices: &Prices,
        selection: &Selection,
        outputs: impl IntoIterator<Item = (Partition, W)>,
    ) -> Result<BTreeMap<Partition, PartitionContent>, ExportError> {
        let mut parts = Parts::default();
        for (partition, to) in outputs {
            let table = partition.table;
            let file = Parquet::new(table, to).map_err(|error| ExportError::Write { table, error })?;
            parts.parts.insert(partition, (PartitionContent::empty(table), Some(file)));
        }
        let mut tables: Vec<ExportTable> = parts.parts.keys().map(|partition| partition.table).collect();
        tables.dedup();
        let parts = RefCell::new(parts);
        self.split(index, prices, selection, &tables, &parts)?;
        Ok(parts.into_inner().content())
    }

    fn split<W: Write + Send>(
        &self,
        index: &Index,
        prices: &Prices,
        selection: &Selection,
        tables: &[ExportTable],
        parts: &RefCell<Parts<W>>,
    ) -> Result<(), ExportError> {
        let mut exporter = Exporter::new(self.query, self.redactor);
        for table in tables {
            exporter.add(*table, Box::new(Split { table: *table, parts }));
        }
        load(index, prices, selection, &mut exporter)?;
        exporter.finish().map(drop)
    }
}

/// The parts that are counted, and perhaps written.
struct Parts<W: Write + Send> {
    parts: BTreeMap<Partition, (PartitionContent, Option<Parquet<W>>)>,
    /// Whether a part that is not there yet is added. Otherwise its rows are left out.
    takes_all: bool,
    bytes: Vec<u8>,
}

impl<W: Write + Send> Default for Parts<W> {
    fn default() -> Self {
        Self { parts: BTreeMap::new(), takes_all: false, bytes: Vec::new() }
    }
}

impl<W: Write + Send> Parts<W> {
    fn content(self) -> BTreeMap<Partition, PartitionContent> {
        self.parts.into_iter().map(|(partition, (content, _))| (partition, content)).collect()
    }
}

/// Sends each row of a table to the part that it is in.
struct Split<'s, W: Write + Send> {
    table: ExportTable,
    parts: &'s RefCell<Parts<W>>,
}

impl<W: Write + Send> Rows for Split<'_, W> {
    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        let partition = Partition::of(self.table, cells);
        let Parts { parts, takes_all, bytes } = &mut *self.parts.borrow_mut();
        if *takes_all {
            parts.entry(partition).or_insert_with(|| (PartitionContent::empty(partition.table), None));
        }
        let Some((content, file)) = parts.get_mut(&partition) else { return Ok(()) };
        content.add(cells, bytes);
        file.as_mut().map_or(Ok(()), |file| file.row(cells))
    }

    fn finish(&mut self) -> io::Result<()> {
        let mut parts = self.parts.borrow_mut();
        let files = parts.parts.iter_mut().filter(|(partition, _)| partition.table == self.table);
        for file in files.filter_map(|(_, (_, file))| file.as_mut()) {
            file.finish()?;
        }
        Ok(())
    }
}

/// Returns which column says the day of a row: the first time.
fn time_column(table: ExportTable) -> usize {
    table.columns().iter().position(|column| column.holds == ColumnType::Time).unwrap_or(usize::MAX)
}

/// Adds a cell in a way that no other cells could have.
fn encode(cell: Cell<'_>, to: &mut Vec<u8>) {
    let mut put = |tag: u8, bytes: &[u8]| {
        to.push(tag);
        to.extend_from_slice(bytes);
    };
    match cell {
        Cell::Nothing => put(0, &[]),
        Cell::Text(text) => {
            put(1, &(text.len() as u64).to_le_bytes());
            to.extend_from_slice(text.as_bytes());
        }
        Cell::Whole(number) => put(2, &number.to_le_bytes()),
        Cell::Money(money) => put(3, &money.pico().to_le_bytes()),
        Cell::Time(millis) => put(4, &millis.to_le_bytes()),
        Cell::Day(days) => put(5, &days.to_le_bytes()),
        Cell::Flag(flag) => put(6, &[u8::from(flag)]),
    }
}

fn hash(bytes: &[u8]) -> u128 {
    let [low, high] = SEEDS.map(|seed| {
        let mut hasher = foldhash::quality::FixedState::with_seed(seed).build_hasher();
        hasher.write(bytes);
        hasher.finish()
    });
    u128::from(high) << 64 | u128::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(rows: &[&[Cell<'_>]]) -> PartitionContent {
        let mut content = PartitionContent::default();
        for row in rows {
            content.add(row, &mut Vec::new());
        }
        content
    }

    #[test]
    fn the_order_of_rows_does_not_matter_but_everything_in_them_does() {
        let (one, other) = ([Cell::Text("a"), Cell::Text("b")], [Cell::Whole(1), Cell::Nothing]);
        assert_eq!(content(&[&one, &other]), content(&[&other, &one]));
        assert_ne!(content(&[&one, &one]), content(&[&one, &other]));
        // A row that comes twice is not as if it had not come.
        assert_ne!(content(&[&one, &one]).hash, PartitionContent::default().hash);
        assert_ne!(content(&[&[Cell::Text("ab"), Cell::Text("")]]).hash, content(&[&one]).hash);
        assert_ne!(content(&[&[Cell::Flag(true)]]).hash, content(&[&[Cell::Flag(false)]]).hash);
        let tables: Vec<_> = ExportTable::ALL.map(|table| PartitionContent::empty(table).hash).into();
        assert!((1..tables.len()).all(|at| !tables[..at].contains(&tables[at])));
    }

    #[test]
    fn a_row_is_of_its_day_in_utc() {
        let row = |time| [Cell::Nothing, Cell::Text("s"), time];
        for (time, folder) in [
            (Cell::Time(1_794_959_999_999), "messages/date=2026-11-17"),
            (Cell::Time(1_794_960_000_000), "messages/date=2026-11-18"),
            (Cell::Time(0), "messages/date=unknown"),
            (Cell::Nothing, "messages/date=unknown"),
        ] {
            assert_eq!(Partition::of(ExportTable::Messages, &row(time)).to_string(), folder);
        }
        for table in ExportTable::ALL {
            assert!(["time", "began"].contains(&table.columns()[time_column(table)].name));
        }
    }
}
