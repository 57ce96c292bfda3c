//! The part of `collect`'s command line that is about tables in a folder or a store.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::archive::Prices;
use super::run::duration;

/// Tables for others to read.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tables in a folder or a store")]
pub(crate) struct Tables {
    /// Write what `tapline stats` counts as tables, in parts for each day, to DEST; only what has changed is written again
    #[arg(long, value_enum, requires = "dest")]
    pub(crate) to: Option<TablesAs>,
    /// Where the tables go: a folder, or s3://BUCKET/PREFIX
    ///
    /// Keys, region and address of the store come from the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION,
    /// AWS_ENDPOINT_URL.
    #[arg(value_name = "DEST", requires = "to")]
    pub(crate) dest: Option<String>,
    /// How often the tables are written: 10m, 1h, 1h30m
    #[arg(long, value_name = "TIME", value_parser = period, default_value = "1h", requires = "to")]
    pub(crate) every: Duration,
    /// Write all parts again in the first round, for example because somebody removed files from the store
    #[arg(long, requires = "to")]
    pub(crate) again: bool,
    /// Replace secrets in all texts of the tables: keys, tokens, passwords, private keys (`tapline help redact`)
    #[arg(long, requires = "to")]
    pub(crate) redact: bool,
    #[command(flatten)]
    pub(crate) prices: Prices,
}

/// What tables are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TablesAs {
    /// Apache Parquet, compressed with zstd
    #[cfg_attr(not(feature = "parquet"), doc = " [not in this build: feature `parquet`]")]
    Parquet,
}

/// A second or more.
fn period(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time < Duration::from_secs(1) { Err("a second is the shortest time".to_owned()) } else { Ok(time) }
}
