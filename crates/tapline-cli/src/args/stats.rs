//! The command line of `stats` and `statusline`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tapline_archive::stats;

use super::{Look, archive::Prices};

/// Count tokens and costs over all sessions: by day, project, model, tool and more
///
/// Without PATH, tapline counts its own recordings, Claude Code's transcripts and Codex's, wherever they are kept. A message counts once,
/// however many files repeat it. `tapline help counting` describes the numbers.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tapline stats                        cost by day
  tapline stats --by project --last 7d
  tapline stats --by tool --json
  tapline stats --by block --active
  tapline stats --json --shape ccusage | jq '.daily[-1].totalCost'
  tapline stats runs/*.jsonl --by model
  tapline stats --explain 4f1c         how the cost of a session came about")]
pub(crate) struct Stats {
    /// Files and folders with sessions: transcripts, recordings, captured streams
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// What a row is
    #[arg(long, value_enum, default_value_t = By::Day)]
    pub(crate) by: By,
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Show the models of each row
    #[arg(long)]
    pub(crate) breakdown: bool,
    /// A row for each project in each time (with --by day, week, month or hour)
    #[arg(long)]
    pub(crate) instances: bool,
    /// Only the window that is open now (with --by block)
    #[arg(long)]
    pub(crate) active: bool,
    /// The most tokens in five hours, to show what is left (with --by block)
    #[arg(long, value_name = "TOKENS")]
    pub(crate) limit: Option<u64>,
    /// Show how the cost of one session came about, request by request
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["by", "breakdown", "instances", "watch", "csv", "shape"])]
    pub(crate) explain: Option<String>,
    /// Print one JSON object: `totals` and `rows` (`tapline help counting` describes it)
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// What the JSON looks like: that of ccusage has its keys, so that scripts need no change
    #[arg(long, value_enum, requires = "json", value_name = "SHAPE")]
    pub(crate) shape: Option<JsonShape>,
    /// Print rows as CSV; with --breakdown a line for each model of a row
    #[arg(long)]
    pub(crate) csv: bool,
    /// Keep the table current until you press Ctrl-C
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    pub(crate) watch: bool,
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) prices: Prices,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// Whose JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum JsonShape {
    /// `ccusage daily`, `weekly`, `monthly`, `session` and `blocks`, as --by says
    Ccusage,
}

/// Which requests count.
#[derive(Debug, Default, Args)]
pub(crate) struct Filter {
    /// Only from this time on: a date (2026-11-01), a date and time (2026-11-01T09:00), or how long ago (7d, 12h)
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Only this long until now: 7d, 12h
    #[arg(long, value_name = "TIME", conflicts_with = "since")]
    pub(crate) last: Option<String>,
    /// Where days begin, such as Europe/Berlin [default: the system's zone]
    #[arg(long, value_name = "ZONE")]
    pub(crate) timezone: Option<String>,
    /// Only projects with this in their folder's path; can be repeated
    #[arg(long, value_name = "TEXT")]
    pub(crate) project: Vec<String>,
    /// Only models with this in their name; can be repeated
    #[arg(long, value_name = "TEXT")]
    pub(crate) model: Vec<String>,
    /// Only this agent; can be repeated
    #[arg(long, value_parser = crate::agents::named())]
    pub(crate) agent: Vec<tapline_protocol::Agent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    Day,
    /// From Monday on
    Week,
    Month,
    Hour,
    Session,
    /// The working folder
    Project,
    Model,
    Agent,
    /// The cost of a request is shared evenly by the calls it made
    Tool,
    /// The kind of sub-agent
    Subagent,
    Branch,
    /// Windows of five hours, as accounts are limited
    Block,
}

impl From<By> for stats::By {
    fn from(by: By) -> Self {
        match by {
            By::Day => Self::Day,
            By::Week => Self::Week,
            By::Month => Self::Month,
            By::Hour => Self::Hour,
            By::Session => Self::Session,
            By::Project => Self::Project,
            By::Model => Self::Model,
            By::Agent => Self::Agent,
            By::Tool => Self::Tool,
            By::Subagent => Self::Subagent,
            By::Branch => Self::Branch,
            By::Block => Self::Block,
        }
    }
}

/// Print one line for Claude Code's status line: model, context, cost of the session and of today, the five-hour window
///
/// It reads the JSON that Claude Code writes to its stdin. In Claude Code's settings:
/// `"statusLine": {"type": "command", "command": "tapline statusline"}`.
#[derive(Debug, Args)]
pub(crate) struct Statusline {
    #[command(flatten)]
    pub(crate) prices: Prices,
    #[command(flatten)]
    pub(crate) look: Look,
}
