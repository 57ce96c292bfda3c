//! The command line of `archive`: what tapline keeps of sessions, and knows for counting and pricing them.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Look;

/// Keep transcripts before they are deleted; show how the archive stands, and the prices of models
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Archive {
    #[command(subcommand)]
    pub(crate) command: ArchiveCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ArchiveCommand {
    Keep(Keep),
    Status(Status),
    Prices(PriceTable),
}

/// Copy transcripts before their agents delete them: compressed, private, only what is new or has changed
///
/// Without PATH, tapline copies all transcripts of agents. `tapline archive status` says which of them will be deleted, and when.
/// `tapline help exporting` describes the copies.
#[derive(Debug, Args)]
pub(crate) struct Keep {
    /// Files and folders with sessions
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Print what was done as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress, and nothing but errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Show what is counted, what is kept, what is gone, and what will vanish and when
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Print one JSON object, with every file that will vanish
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// Print the prices of models: dollars for a million tokens, by class (`tapline help prices`)
#[derive(Debug, Args)]
pub(crate) struct PriceTable {
    #[command(flatten)]
    pub(crate) prices: Prices,
    /// Print the table as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// Which prices to use.
#[derive(Debug, Args)]
pub(crate) struct Prices {
    /// Read prices from this file (TOML); they replace rows of tapline's table or add to it (`tapline help prices`)
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
}
