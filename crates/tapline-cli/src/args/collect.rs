//! The command line of `tapline collect`.

use clap::Args;

use super::engine::Engine;
use super::parquet::Tables;

/// Collect the recordings of other machines, and write tables of all sessions
///
/// With a NATS server (`--engine`), the recordings that workers make come to this machine's recordings folder, byte by byte, so view, stats,
/// search and serve work as if the runs had been made here. With `--to`, what `tapline stats` counts is written to a folder or a store as
/// tables, at intervals (`--every`). `tapline help fleet` describes both. You can stop this command and start it again at any moment:
/// nothing is lost or written twice.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tapline collect --engine nats://broker:4222
  tapline collect --engine nats://broker:4222 --once
  tapline collect --engine nats://broker:4222 --to parquet --every 1h s3://company-agents/tapline
  tapline collect --to parquet --every 1h tables")]
pub(crate) struct Collect {
    /// End when nothing is left to do
    #[arg(long)]
    pub(crate) once: bool,
    /// Show no progress, and nothing but errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) tables: Tables,
    #[command(flatten)]
    pub(crate) engine: Engine,
}
