//! Exports sessions, messages, tool calls and costs as tables, for databases, spreadsheets and scripts. The
//! numbers come from the one loader, so they are those of [`stats`](crate::stats).

mod cell;
mod csv;
mod ndjson;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "parquet")]
mod partitions;
mod rows;
mod tables;

use std::io::{self, Write};

use tapline_recording::Redactor;

#[cfg(feature = "parquet")]
pub use partitions::{Partition, PartitionContent};
pub use tables::{ColumnType, ExportColumn, ExportTable};

use crate::error::ArchiveError;
use crate::index::Index;
use crate::load::{Selection, load};
use crate::prices::Prices;
use crate::stats::Query;
use cell::Rows;
use rows::Exporter;

/// How an export is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportFormat {
    /// Apache Parquet, compressed with zstd.
    #[cfg(feature = "parquet")]
    Parquet,
    /// CSV, with a line for the names.
    Csv,
    /// One JSON object per line.
    Ndjson,
}

impl ExportFormat {
    /// Returns whether it is text, for people or programs.
    pub const fn is_text(self) -> bool {
        matches!(self, Self::Csv | Self::Ndjson)
    }

    /// Returns its name, which is also how files end.
    pub const fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "parquet")]
            Self::Parquet => "parquet",
            Self::Csv => "csv",
            Self::Ndjson => "ndjson",
        }
    }
}

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The archive cannot be read.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A table cannot be written.
    #[error("cannot write the table {}", table.name())]
    Write {
        /// The table.
        table: ExportTable,
        /// The cause.
        #[source]
        error: io::Error,
    },
}

/// What an export is of, and how it looks.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Export<'e> {
    /// How it is written.
    pub format: ExportFormat,
    /// Which requests count, and where days begin. How they are grouped does not matter.
    pub query: &'e Query,
    /// Removes secrets from all texts.
    pub redactor: Option<&'e Redactor>,
}

impl<'e> Export<'e> {
    /// An export in this format of what the query selects, with all texts as they are.
    pub const fn new(format: ExportFormat, query: &'e Query) -> Self {
        Self { format, query, redactor: None }
    }

    /// Removes secrets from all texts.
    #[must_use]
    pub const fn redacted(mut self, redactor: &'e Redactor) -> Self {
        self.redactor = Some(redactor);
        self
    }

    /// Writes these tables. Returns how many rows each of them has.
    pub fn write<W: Write + Send>(
        &self,
        index: &Index,
        prices: &Prices,
        selection: &Selection,
        outputs: impl IntoIterator<Item = (ExportTable, W)>,
    ) -> Result<Vec<(ExportTable, u64)>, ExportError> {
        let mut exporter = Exporter::new(self.query, self.redactor);
        for (table, to) in outputs {
            let failed = |error| ExportError::Write { table, error };
            let rows: Box<dyn Rows + '_> = match self.format {
                #[cfg(feature = "parquet")]
                ExportFormat::Parquet => Box::new(parquet::Parquet::new(table, to).map_err(failed)?),
                ExportFormat::Csv => Box::new(csv::Csv::new(table, to).map_err(failed)?),
                ExportFormat::Ndjson => Box::new(ndjson::Ndjson::new(table, to)),
            };
            exporter.add(table, rows);
        }
        load(index, prices, selection, &mut exporter)?;
        exporter.finish()
    }
}
