//! Rows as Parquet. A group of rows is kept in memory until it is full, and then written column by column, so memory
//! does not grow with the archive.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use super::cell::{Cell, Rows};
use super::tables::{ColumnType, ExportColumn, ExportTable};

/// How many rows a group has. It is enough for good compression, and takes some ten megabytes.
const GROUP: usize = 32 << 10;
/// The bytes of a decimal of twenty digits.
const MONEY_BYTES: usize = 9;

pub(super) struct Parquet<W: Write + Send> {
    to: SerializedFileWriter<W>,
    columns: Vec<Column>,
    rows: usize,
}

/// The values of a column in the group that is being filled.
struct Column {
    values: Values,
    /// 1 for a value, 0 for nothing. Unused where every row has a value.
    levels: Option<Vec<i16>>,
}

enum Values {
    Text(Vec<ByteArray>),
    Whole(Vec<i64>),
    Money(Vec<FixedLenByteArray>),
    Day(Vec<i32>),
    Flag(Vec<bool>),
}

impl<W: Write + Send> Parquet<W> {
    pub(super) fn new(table: ExportTable, to: W) -> io::Result<Self> {
        let schema = Arc::new(parse_message_type(&schema(table)).map_err(failed)?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by(concat!("tapline version ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let to = SerializedFileWriter::new(to, schema, Arc::new(properties)).map_err(failed)?;
        Ok(Self { to, columns: table.columns().iter().map(Column::new).collect(), rows: 0 })
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.to.next_row_group()?;
        for column in &mut self.columns {
            if let Some(mut writer) = group.next_column()? {
                column.write(&mut writer)?;
                writer.close()?;
            }
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}

impl<W: Write + Send> Rows for Parquet<W> {
    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.push(*cell);
        }
        self.rows += 1;
        if self.rows >= GROUP { self.write_group().map_err(failed) } else { Ok(()) }
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.rows > 0 {
            self.write_group().map_err(failed)?;
        }
        self.to.finish().map_err(failed)?;
        self.to.inner_mut().flush()
    }
}

impl Column {
    fn new(column: &ExportColumn) -> Self {
        let values = match column.holds {
            ColumnType::Text => Values::Text(Vec::new()),
            ColumnType::Whole | ColumnType::Time => Values::Whole(Vec::new()),
            ColumnType::Money => Values::Money(Vec::new()),
            ColumnType::Day => Values::Day(Vec::new()),
            ColumnType::Flag => Values::Flag(Vec::new()),
        };
        Self { values, levels: column.nullable.then(Vec::new) }
    }

    /// Adds a value. A value of another type counts as missing. Where a value is required, a missing one is written as
    /// an empty one.
    fn push(&mut self, cell: Cell<'_>) {
        if let Some(levels) = &mut self.levels {
            levels.push(i16::from(cell != Cell::Nothing));
            if cell == Cell::Nothing {
                return;
            }
        }
        match &mut self.values {
            Values::Text(values) => {
                let text = if let Cell::Text(text) = cell { text } else { "" };
                // Rows of a session follow each other, and share what is the same.
                let same = values.last().filter(|last| last.data() == text.as_bytes()).cloned();
                values.push(same.unwrap_or_else(|| ByteArray::from(text)));
            }
            Values::Whole(values) => values.push(match cell {
                Cell::Whole(number) | Cell::Time(number) => i64::try_from(number).unwrap_or(i64::MAX),
                _ => 0,
            }),
            Values::Money(values) => {
                let pico = if let Cell::Money(money) = cell { money.pico() } else { 0 };
                let mut bytes = vec![0; MONEY_BYTES];
                bytes[MONEY_BYTES - 8..].copy_from_slice(&pico.to_be_bytes());
                values.push(FixedLenByteArray::from(bytes));
            }
            Values::Day(values) => values.push(if let Cell::Day(days) = cell { days } else { 0 }),
            Values::Flag(values) => values.push(cell == Cell::Flag(true)),
        }
    }

    fn write(&mut self, to: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = self.levels.as_deref();
        match &mut self.values {
            Values::Text(values) => write_values::<ByteArrayType>(to, values, levels),
            Values::Whole(values) => write_values::<Int64Type>(to, values, levels),
            Values::Money(values) => write_values::<FixedLenByteArrayType>(to, values, levels),
            Values::Day(values) => write_values::<Int32Type>(to, values, levels),
            Values::Flag(values) => write_values::<BoolType>(to, values, levels),
        }?;
        if let Some(levels) = &mut self.levels {
            levels.clear();
        }
        Ok(())
    }
}

fn write_values<T: DataType>(
    to: &mut SerializedColumnWriter<'_>,
    values: &mut Vec<T::T>,
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    to.typed::<T>().write_batch(values, levels, None)?;
    values.clear();
    Ok(())
}

/// Describes a table in Parquet's own words.
fn schema(table: ExportTable) -> String {
    let mut text = format!("message {} {{", table.name());
    for column in table.columns() {
        let how_often = if column.nullable { "optional" } else { "required" };
        let (stored, read) = match column.holds {
            ColumnType::Text => ("binary", " (STRING)"),
            ColumnType::Whole => ("int64", ""),
            ColumnType::Money => ("fixed_len_byte_array(9)", " (DECIMAL(20,12))"),
            ColumnType::Time => ("int64", " (TIMESTAMP(MILLIS,true))"),
            ColumnType::Day => ("int32", " (DATE)"),
            ColumnType::Flag => ("boolean", ""),
        };
        let _ = write!(text, " {how_often} {stored} {}{read};", column.name);
    }
    text + " }"
}

/// Returns the cause: an error of the file stays what it was.
fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(cause) => io::Error::other(cause),
        },
        error => io::Error::other(error),
    }
}
