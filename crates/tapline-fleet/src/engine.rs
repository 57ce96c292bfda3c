//! What a batch needs from whatever runs its jobs: a place for its notes, and somebody who makes the runs. The embedded engine does both
//! in this process.

use std::io;

use tokio::sync::mpsc;

use crate::note::{BatchNote, RunBegun};
use crate::work::{Attempt, AttemptEnd, JobNews, Watch};

/// Why an engine cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A note cannot be kept, so the batch must not go on.
    #[error("cannot note what happens in the batch")]
    Keep(#[source] io::Error),
    /// What makes the runs is not there any more, for good.
    #[error("{0}")]
    Gone(String),
    /// A run was lost, because its task panicked.
    #[error("a run was lost: {0}")]
    Lost(String),
}

/// A run that was made.
#[derive(Debug)]
#[non_exhaustive]
pub struct Attempted {
    /// The note of its beginning. `None` if nothing had to be started.
    pub begun: Option<RunBegun>,
    /// How it ended, which is noted as well.
    pub end: AttemptEnd,
}

/// Keeps the notes of a batch and makes its runs.
pub trait Engine: Send + Sync + 'static {
    /// Keeps a note. It survives a crash once this returns.
    fn keep(&self, note: BatchNote) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Makes a run of a job: notes that it begins, and how it ended.
    fn run(&self, attempt: Attempt, watch: Watch) -> impl Future<Output = Result<Attempted, EngineError>> + Send;

    /// Removes what jobs that have ended left behind.
    fn clean(&self, unfinished: Vec<String>) -> impl Future<Output = ()> + Send;

    /// From now on, tells what happens besides the runs.
    fn listen(&self, news: mpsc::UnboundedSender<JobNews>) -> impl Future<Output = ()> + Send {
        drop(news);
        std::future::ready(())
    }

    /// Nothing new begins: the budget is used up, or there were too many failures. Runs that were asked for and have not begun end as cut
    /// off; those under way go on.
    fn halt(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// No further run is made: the batch is complete, or it stops here for now.
    fn over(&self, is_complete: bool) -> impl Future<Output = ()> + Send {
        let _ = is_complete;
        std::future::ready(())
    }
}
