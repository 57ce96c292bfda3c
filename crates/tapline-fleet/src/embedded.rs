//! The embedded engine: runs are made in this process, notes are kept in the journal of the batch's folder. Nothing has to be
//! installed.

use crate::engine::{Attempted, Engine, EngineError};
use crate::folder::{BatchError, BatchFolder};
use crate::journal::Journal;
use crate::note::BatchNote;
use crate::work::{Attempt, AttemptEnd, Watch, Workplace};
use crate::workshop::Workshop;
use crate::worktree;

/// The engine that needs nothing but this machine.
#[derive(Debug)]
pub struct Embedded {
    folder: BatchFolder,
    journal: Journal,
    workshop: Workshop,
}

impl Embedded {
    /// Opens the journal of a batch, and returns its notes so far. If secrets were replaced in it before, they still are.
    pub fn open(folder: BatchFolder, place: Workplace) -> Result<(Self, Vec<BatchNote>), BatchError> {
        let mut place = place;
        if place.redact {
            folder.redact()?;
        }
        place.redact |= folder.is_redacted();
        let path = folder.journal();
        let (journal, notes) = Journal::open(&path).map_err(|error| BatchError::File { path, error })?;
        let workshop = Workshop { place, worktrees: folder.worktrees(), patches: folder.patches() };
        Ok((Self { folder, journal, workshop }, notes))
    }

    /// Returns the folder of the batch.
    pub fn folder(&self) -> &BatchFolder {
        &self.folder
    }
}

impl Engine for Embedded {
    async fn keep(&self, note: BatchNote) -> Result<(), EngineError> {
        self.journal.keep(&note).await.map_err(EngineError::Keep)
    }

    async fn run(&self, attempt: Attempt, watch: Watch) -> Result<Attempted, EngineError> {
        let made = self.workshop.make(attempt, watch, |begun| self.keep(BatchNote::Begun(begun))).await?;
        match &made.end {
            AttemptEnd::Over(result) => self.keep(BatchNote::Ended(result.clone())).await?,
            AttemptEnd::Again(again) => self.keep(BatchNote::Again(again.clone())).await?,
            AttemptEnd::CutOff => {}
        }
        Ok(made.noted().await)
    }

    async fn clean(&self, unfinished: Vec<String>) {
        let unfinished: Vec<&str> = unfinished.iter().map(String::as_str).collect();
        worktree::clean(&self.folder.worktrees(), &unfinished).await;
    }
}
