//! The command line of `sessions`.

use std::path::PathBuf;

use clap::Args;

use super::{Look, archive::Prices};

/// List sessions, find one, and open it
///
/// Without PATH, tapline lists its own recordings, Claude Code's transcripts and Codex's, wherever they are kept, the newest first. On a
/// terminal you can pick one: type to filter, press Enter to view it. `tapline view ID`, `inspect ID`, `convert ID` and `check ID` open a
/// session by the beginning of its id. `tapline help browsing` describes the list.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tapline sessions                         pick a session
  tapline sessions --list --last 7d --project shop
  tapline sessions --failed --json
  tapline sessions --cost-over 5 --list
  tapline view 4f1c                        show the session whose id begins with this
  eval \"$(tapline sessions --resume-command 4f1c)\"   go on with it")]
pub(crate) struct Sessions {
    /// Files and folders with sessions: transcripts, recordings, captured streams
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// List at most this many
    #[arg(long, value_name = "N", value_parser = super::at_least_one)]
    pub(crate) limit: Option<usize>,
    /// Print the list, also on a terminal
    #[arg(long)]
    pub(crate) list: bool,
    /// Print one JSON object: `sessions` (`tapline help browsing` describes it)
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the command that resumes the session whose id begins with this
    #[arg(long, value_name = "ID", conflicts_with_all = ["list", "json"])]
    pub(crate) resume_command: Option<String>,
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) prices: Prices,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// Which sessions are listed.
#[derive(Debug, Default, Args)]
pub(crate) struct Filter {
    /// Only sessions whose last turn failed
    #[arg(long)]
    pub(crate) failed: bool,
    /// Only sessions that wait for a person: they ask something, or a call has no result yet
    #[arg(long)]
    pub(crate) waiting: bool,
    /// Only sessions that cost more than this, in dollars
    #[arg(long, value_name = "USD", value_parser = crate::money::dollars)]
    pub(crate) cost_over: Option<f64>,
    /// Only sessions that went on at this time or later: a date (2026-11-01), a date and time (2026-11-01T09:00), or how long ago (7d, 12h)
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only sessions that began before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Only sessions that went on this long ago or later: 7d, 12h
    #[arg(long, value_name = "TIME", conflicts_with = "since")]
    pub(crate) last: Option<String>,
    /// The zone of times, such as Europe/Berlin [default: the system's zone]
    #[arg(long, value_name = "ZONE")]
    pub(crate) timezone: Option<String>,
    /// Only projects with this in their folder's path; can be repeated
    #[arg(long, value_name = "TEXT")]
    pub(crate) project: Vec<String>,
    /// Only this agent; can be repeated
    #[arg(long, value_parser = crate::agents::named())]
    pub(crate) agent: Vec<tapline_protocol::Agent>,
}
