//! What is noted about a batch as it goes on. All that is known of a batch is its plan and its notes.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::result::JobResult;

/// A note.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BatchNote {
    /// A run of a job begins.
    Begun(RunBegun),
    /// A run of a job failed, and it is tried again.
    Again(RunAgain),
    /// A job has ended.
    Ended(Box<JobResult>),
    /// An account's limit is reached.
    Limit(AccountLimit),
}

/// A run of a job begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunBegun {
    /// The job's name.
    pub job: String,
    /// 1 is the first run of the job.
    pub attempt: u64,
    /// Where the first run of the job is recorded. Further runs are recorded next to it.
    pub recording: PathBuf,
    /// The session of earlier runs that it goes on with.
    #[serde(default)]
    pub session: Option<String>,
}

/// A run of a job failed, and it is tried again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunAgain {
    /// The job's name.
    pub job: String,
    /// Not before this time, in seconds since 1970.
    pub at: i64,
    /// The session that goes on.
    pub session: Option<String>,
    /// What the runs of the job cost so far.
    pub cost_usd: Option<f64>,
    /// Why it failed.
    pub error: Option<String>,
}

/// An account's limit is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountLimit {
    /// The account.
    pub account: String,
    /// It resets at this time, in seconds since 1970.
    pub until: i64,
}
