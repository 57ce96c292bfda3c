//! The command line of `export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tapline_archive::export::ExportTable;

use super::archive::Prices;
use super::stats::Filter;

/// Write sessions, messages, tool calls and costs as tables, or send them as spans and metrics
///
/// The numbers are those of `tapline stats`. Without PATH, tapline takes what `tapline stats` counts. `tapline help exporting` describes
/// the columns and asks questions in SQL. `--to otlp` sends sessions, turns, requests and tool calls to an OpenTelemetry receiver.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tapline export --to parquet -o tables            all tables: tables/sessions.parquet, …
  tapline export --to csv --table sessions --last 30d > sessions.csv
  tapline export --to ndjson --table costs --redact -o costs.ndjson
  tapline export --to otlp --endpoint http://127.0.0.1:4318 --last 7d")]
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
    /// With `--to otlp`: the receiver, such as an OpenTelemetry collector [default: $OTEL_EXPORTER_OTLP_ENDPOINT]
    ///
    /// tapline sends protobuf to URL/v1/traces and URL/v1/metrics. Headers come from $OTEL_EXPORTER_OTLP_HEADERS.
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Option<String>,
    /// With `--to otlp`: send prompts, texts, arguments and results, too, without their secrets
    #[arg(long)]
    pub(crate) content: bool,
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
    #[cfg_attr(not(feature = "parquet"), doc = " [not in this build: feature `parquet`]")]
    Parquet,
    /// With a line for the names
    Csv,
    /// One JSON object per line
    Ndjson,
    /// Not tables: spans and metrics, sent to an OpenTelemetry receiver
    #[cfg_attr(not(feature = "otlp"), doc = " [not in this build: feature `otlp`]")]
    Otlp,
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
