//! The command line of `search`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tapline_archive::search::SearchSort;

use super::{Look, at_least_one};

/// Search all sessions: prompts, answers, commands, paths, tool output and errors
///
/// All words must stand in the same text. "A phrase" stands in double quotes, which the shell must pass on: '"no such file"'.
/// wor* is the beginning of a word, -word must not be there, and one of the words around OR is enough: quote the search, or write -- before it. Filters: tool:Bash project:TEXT agent:NAME branch:NAME session:ID
/// is:error is:prompt is:answer is:call is:output is:thinking is:subagent since:7d until:2026-11-01, each also with a minus. The first search
/// builds an index of all words; later ones add what is new. Secrets are never shown. Without a hit, it exits with 1. `tapline help searching` has more.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tapline search rate limit
  tapline search '\"connection refused\" tool:Bash since:7d'
  tapline search 'migrat* project:shop -is:output'
  tapline search 'timeout OR \"timed out\"'
  tapline search is:error since:1d
  tapline search deadlock --sort best --json")]
pub(crate) struct Search {
    /// Words, "phrases", beginnings (wor*), exclusions (-word), alternatives (a OR b) and filters (tool:Bash)
    #[arg(value_name = "WORDS", required = true)]
    pub(crate) words: Vec<String>,
    /// Search only below this file or folder; can be repeated
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Vec<PathBuf>,
    /// Which hits come first
    #[arg(long, value_enum, default_value_t = Sort::Newest)]
    pub(crate) sort: Sort,
    /// The most sessions to show
    #[arg(long, value_name = "N", value_parser = at_least_one, default_value_t = 10)]
    pub(crate) limit: usize,
    /// The most hits to show of each session
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) hits: usize,
    /// Print one JSON object (`tapline help searching` describes it)
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) look: Look,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// The newest
    Newest,
    /// Words close together, then prompts and answers; of equals, the newest
    Best,
}

impl From<Sort> for SearchSort {
    fn from(sort: Sort) -> Self {
        match sort {
            Sort::Newest => Self::Newest,
            Sort::Best => Self::Best,
        }
    }
}
