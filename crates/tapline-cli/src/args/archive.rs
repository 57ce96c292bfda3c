//! The command line of `archive`: what tapline keeps of sessions, and knows for counting and pricing them.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Look;

/// Keep transcripts before they are deleted, check, restore and forget them; show how the archive stands, and the prices of models
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Archive {
    #[command(subcommand)]
    pub(crate) command: ArchiveCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ArchiveCommand {
    Keep(Keep),
    Verify(Verify),
    Restore(Restore),
    Forget(Forget),
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

/// Read all copies, and say which are damaged
///
/// Each copy is compared with what was copied: zstd's checksum, its length and a hash. The exit code is 2 if one is damaged.
/// `tapline archive keep` makes a copy again if its original is still there.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress, and nothing but damaged copies
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Put the copies of a session back where its agent finds them
///
/// A file that is there stays as it is. `tapline sessions --resume-command ID` prints how to go on.
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The session: the beginning of its id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Print nothing but errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Remove what tapline keeps of a session: its copies, its numbers, and its words in the search
///
/// Files of agents and recordings stay. They are named, because they are counted again as long as they are there.
#[derive(Debug, Args)]
pub(crate) struct Forget {
    /// The session: the beginning of its id
    #[arg(value_name = "ID", required_unless_present = "project")]
    pub(crate) id: Option<String>,
    /// All sessions of this project: its folder, or the name of its folder
    #[arg(long, value_name = "PROJECT", conflicts_with = "id")]
    pub(crate) project: Option<String>,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Print nothing but errors and what is still there
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
