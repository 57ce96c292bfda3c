//! What every route can use.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

use crate::bodies::Bodies;
use crate::budget::Budgets;
use crate::controls::Controls;
use crate::error::ApiError;
use crate::guard::Guard;
use crate::hub::Hub;
use crate::ingest::Ingest;
use crate::metrics::Metrics;
use crate::tickets::Tickets;
use crate::watch::Watch;

/// Returns the command that goes on with a session, given the agent and the session's id.
pub type ResumeCommand = fn(&str, &str) -> Vec<String>;

/// The server's parts.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) guard: Guard,
    pub(crate) tickets: Tickets,
    pub(crate) hub: Arc<Hub>,
    pub(crate) watch: Watch,
    pub(crate) ingest: Ingest,
    pub(crate) metrics: Metrics,
    pub(crate) controls: Arc<Controls>,
    pub(crate) resume: Option<ResumeCommand>,
    pub(crate) budgets: Budgets,
    /// Reads what is pushed.
    pub(crate) uploads: Bodies,
    /// Reads answers, messages and ends of runs.
    pub(crate) messages: Bodies,
    /// How many downloads may be made at once.
    pub(crate) downloads: Arc<Semaphore>,
    /// How many readers of events may be told from the disk at once.
    pub(crate) older_events: Arc<Semaphore>,
    /// True when the server ends.
    pub(crate) stop: watch::Receiver<bool>,
}

/// What handlers get.
pub(crate) type Shared = axum::extract::State<Arc<App>>;

/// Runs work that reads files, away from the threads that serve.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(ApiError::internal(&error)),
    }
}
