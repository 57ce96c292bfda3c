//! What is noted about a batch as it goes on. All that is known of a batch is its plan and its notes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::result::{JobOutcome, JobResult};

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
    /// These jobs are run again: their results so far count for nothing.
    Repeat(Vec<String>),
}

/// Which jobs of an earlier batch that have their result are run again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RepeatJobs {
    /// None.
    #[default]
    Nothing,
    /// Those that failed, and those that were skipped: what they need may succeed now.
    Failed,
}

impl RepeatJobs {
    /// Returns the note that says so, if there are such jobs.
    pub fn note(self, notes: &[BatchNote]) -> Option<BatchNote> {
        let results = results(notes);
        if self == Self::Nothing || !results.values().any(|result| result.is_failure()) {
            return None;
        }
        let repeated = results.into_iter().filter(|(_, result)| result.outcome != JobOutcome::Success);
        Some(BatchNote::Repeat(repeated.map(|(job, _)| job.to_owned()).collect()))
    }
}

/// The results that count, by the names of their jobs.
pub(crate) fn results(notes: &[BatchNote]) -> BTreeMap<&str, &JobResult> {
    let mut results: BTreeMap<&str, &JobResult> = BTreeMap::new();
    for note in notes {
        match note {
            BatchNote::Ended(result) => {
                results.entry(&result.job).or_insert(result);
            }
            BatchNote::Repeat(jobs) => {
                for job in jobs {
                    results.remove(job.as_str());
                }
            }
            BatchNote::Begun(_) | BatchNote::Again(_) | BatchNote::Limit(_) => {}
        }
    }
    results
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
