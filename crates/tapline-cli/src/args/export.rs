//! The command line of `export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tapline_archive::export::{ExportFormat, ExportTable};

use super::archive::Prices;
use super::stats::Filter;

/// Write sessions, messages, tool calls and costs as tables: Parquet, CSV or NDJSON
///
/// The numbers are those of `tapline stats`. Without PATH, tapline takes what `tapline stats` counts. `tapline help exporting` describes
/// the columns and asks questions in SQL.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tapline export --to parquet -o tables            all tables: tables/sessions.parquet, …
  tapline export --to csv --table sessions --last 30d > sessions.csv
  tapline export --to ndjson --table costs --redact -o costs.ndjson")]
pub(crate) struct Export {
    /// Files and folders with sessions: transcripts, recordings, captured streams
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// The format to write
    #[arg(long, value_enum)]
    pub(crate) to: Format,
    /// Write only this table; can be repeated [default: all]
    #[arg(long, value_enum)]
    pub(crate) table: Vec<Table>,
    /// The file to write, or the folder if there are several tables; without it, one table goes to stdout
    ///
    /// A file is replaced only when all of it is written. A new one can be read by you alone.
    #[arg(long, short, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Replace secrets in all texts: keys, tokens, passwords, private keys (`tapline help redact`)
    #[arg(long)]
    pub(crate) redact: bool,
    /// Show no progress, and not what was written
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) prices: Prices,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Apache Parquet, compressed with zstd
    Parquet,
    /// With a line for the names
    Csv,
    /// One JSON object per line
    Ndjson,
}

impl From<Format> for ExportFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Parquet => Self::Parquet,
            Format::Csv => Self::Csv,
            Format::Ndjson => Self::Ndjson,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Table {
    Sessions,
    /// Answers of models
    Messages,
    /// Tool calls
    Calls,
    /// What each call or answer cost; they add up to the total
    Costs,
}

impl From<Table> for ExportTable {
    fn from(table: Table) -> Self {
        match table {
            Table::Sessions => Self::Sessions,
            Table::Messages => Self::Messages,
            Table::Calls => Self::Calls,
            Table::Costs => Self::Costs,
        }
    }
}
