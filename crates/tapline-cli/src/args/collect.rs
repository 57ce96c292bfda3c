//! The command line of `tapline collect`.

use clap::Args;

use super::parquet::Tables;

/// Write what `tapline stats` counts to a folder or a store, again and again
///
/// `tapline help fleet` describes the tables, and asks questions in SQL.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tapline collect --to parquet --every 1h tables
  tapline collect --to parquet --once s3://company-agents/tapline")]
pub(crate) struct Collect {
    /// End when nothing is left to do
    #[arg(long)]
    pub(crate) once: bool,
    /// Show no progress, and nothing but errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) tables: Tables,
}
