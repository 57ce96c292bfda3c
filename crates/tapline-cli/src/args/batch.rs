//! The command line of `tapline batch`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tapline_protocol::Agent;

use super::Look;
use super::engine::Engine;
use super::run::duration;
use crate::money::dollars;
use crate::{agents, exit};

/// Run many jobs from a file: in parallel, within a budget, with retries and steps, and results in one place
///
/// The file is TOML, JSON lines or CSV; `tapline help fleet` describes it, and `tapline batch --example` prints one. Everything in it is
/// checked before anything starts. Every run is recorded like one of `tapline run`. A batch that was stopped or killed goes on with
/// `--resume`, and repeats nothing that was finished. With `--engine`, workers on other machines run the jobs.
#[derive(Debug, Args)]
#[command(after_help = exit::codes(), after_long_help = format!("{EXAMPLES}{}", exit::codes()))]
pub(crate) struct Batch {
    /// The jobs: a file that ends with .toml, .jsonl or .csv
    #[arg(value_name = "FILE", required_unless_present_any = ["resume", "example"])]
    pub(crate) file: Option<PathBuf>,
    /// Go on with an earlier batch (the beginning of its id is enough; `last` is the newest)
    #[arg(long, value_name = "ID", conflicts_with = "file")]
    pub(crate) resume: Option<String>,
    /// With --resume: run the failed jobs again, and those that were skipped because of them
    #[arg(long, requires = "resume", conflicts_with = "file")]
    pub(crate) retry_failed: bool,
    /// Print an example of a job file
    #[arg(long, exclusive = true)]
    pub(crate) example: bool,
    /// Show the plan and what it will probably cost, and start nothing; with --resume, show what is left of the batch
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How many jobs run at once [default: 4; with --engine, as many as the workers have places for]
    #[arg(long, value_name = "N", value_parser = super::at_least_one)]
    pub(crate) jobs: Option<usize>,
    /// Start no further job once all together cost this many dollars [default: no limit; with --resume, as the batch began]
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(crate) budget_usd: Option<f64>,
    /// Start no further job after N failures
    #[arg(long, value_name = "N", value_parser = super::at_least_one)]
    pub(crate) until_failures: Option<usize>,
    #[command(flatten)]
    pub(crate) defaults: JobDefaults,
    #[command(flatten)]
    pub(crate) engine: Engine,
    /// With --engine: a worker that says nothing for this long is taken for dead, and its runs are given to others [default: 30s; with
    /// --resume, as the batch began]
    #[arg(long, value_name = "TIME", value_parser = worker_timeout, help_heading = "Many machines")]
    pub(crate) worker_timeout: Option<Duration>,
    /// With --engine: believe only results of workers with this key (`tapline doctor --engine URL` shows a machine's key); can be repeated
    /// [default: of every worker; with --resume, as the batch began]
    #[arg(long, value_name = "KEY", help_heading = "Many machines")]
    pub(crate) trust: Vec<String>,
    #[command(flatten)]
    pub(crate) told: Told,
}

const EXAMPLES: &str = "\
Examples:
  tapline batch --example > jobs.toml
  tapline batch jobs.toml --dry-run
  tapline batch jobs.toml --jobs 8 --budget-usd 20
  tapline batch repos.csv --prompt \"Update the licence of {repo}\" --junit results.xml
  tapline batch jobs.toml --engine nats://broker:4222     run the jobs on workers (`tapline worker`)
  tapline batch --resume last
  tapline batch --resume last --retry-failed              run again what failed

";

/// Values for jobs that do not have their own.
#[derive(Debug, Args)]
#[command(next_help_heading = "Values for jobs that do not have their own")]
pub(crate) struct JobDefaults {
    /// The prompt; {column} is replaced with the value of that column; for a brace, write {{ or }}
    #[arg(long, value_name = "TEXT", conflicts_with = "resume")]
    pub(crate) prompt: Option<String>,
    /// The agent
    #[arg(long, value_parser = agents::named(), conflicts_with = "resume")]
    pub(crate) agent: Option<Agent>,
    #[arg(long, value_name = "PATH", help = agents::about_program(), conflicts_with = "resume")]
    pub(crate) bin: Option<PathBuf>,
    /// The model
    #[arg(long, value_name = "MODEL", conflicts_with = "resume")]
    pub(crate) model: Option<String>,
    /// A name for the account whose rate limit the runs share [default: the agent's name]
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    pub(crate) account: Option<String>,
    /// Where the agent works [default: the folder of FILE]
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub(crate) cwd: Option<PathBuf>,
    /// Stop a run after this long: 90s, 10m, 1h30m [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "resume")]
    pub(crate) timeout: Option<Duration>,
    /// Retry up to N times if that can help
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    pub(crate) retry: Option<u32>,
    /// A job has failed if its run succeeds with one of these warnings, separated by commas: denied, max-tokens, … (`tapline help report`
    /// lists them)
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = tapline_session::warning_code, conflicts_with = "resume")]
    pub(crate) fail_on: Vec<&'static str>,
    #[arg(long, help = exit::about_clean("Fail jobs,"), conflicts_with = "resume")]
    pub(crate) require_clean: bool,
    /// Check every run against the rules in this file (`tapline help policy`)
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    pub(crate) policy: Option<PathBuf>,
    /// Let the rules in this file decide which tool calls may be made (`tapline help permissions`)
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    pub(crate) permissions: Option<PathBuf>,
}

/// What is told, and where.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Told {
    /// Print the results as one JSON object when the batch has ended
    #[arg(long)]
    pub(crate) json: bool,
    /// Print each result as a line of JSON as soon as it is there, with the columns of its row
    #[arg(long, conflicts_with = "json")]
    pub(crate) jsonl: bool,
    /// Write the results to this file as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Write a summary in Markdown to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) summary: Option<PathBuf>,
    /// Replace secrets (keys, tokens, passwords) in all output, results and recordings (`tapline help redact`)
    #[arg(long)]
    pub(crate) redact: bool,
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Told {
    /// Whether stdout is for programs. What people see then goes to stderr.
    pub(crate) fn is_for_programs(&self) -> bool {
        self.json || self.jsonl
    }
}

/// A worker says three times within this time that it is there. If that is too short, runs are taken from workers that live.
fn worker_timeout(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time < Duration::from_secs(1) => Err("a second is the shortest time".to_owned()),
        time => Ok(time),
    }
}
