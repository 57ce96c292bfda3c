//! The embedded engine: runs are made in this process, notes are kept in the journal of the batch's folder. Nothing has to be
//! installed.

use tapline_recording::attempt_folder;
use tapline_session::exit;
use tapline_session::text::with_causes;

use crate::engine::{Attempted, Engine, EngineError};
use crate::folder::{BatchError, BatchFolder};
use crate::job::{CutOff, WorktreeRule};
use crate::journal::Journal;
use crate::note::{BatchNote, RunBegun};
use crate::result::{JobOutcome, JobResult};
use crate::work::{self, Attempt, AttemptEnd, Remains, Watch, Workplace};
use crate::worktree::{self, Worktree};

/// The engine that needs nothing but this machine.
#[derive(Debug)]
pub struct Embedded {
    folder: BatchFolder,
    journal: Journal,
    place: Workplace,
}

/// Whether what an agent changed is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    Yes,
    No,
    /// The batch is being stopped. It is tried again when it goes on.
    Later,
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
        Ok((Self { folder, journal, place }, notes))
    }

    /// Returns the folder of the batch.
    pub fn folder(&self) -> &BatchFolder {
        &self.folder
    }

    /// With `fresh`, nothing of an earlier run is left in it.
    async fn open_worktree(&self, attempt: &Attempt, rule: &WorktreeRule, fresh: bool) -> Result<Worktree, String> {
        let job = &attempt.job;
        let opened = Worktree::open(&self.folder.worktrees(), &job.name, &job.folder, rule, fresh).await;
        opened.map_err(|error| format!("worktree: {}", with_causes(&error)))
    }

    /// Looks at what is left of a run that was cut off. Returns its end if it has one, or else the attempt that goes on.
    async fn recover(&self, mut attempt: Box<Attempt>) -> Result<AttemptEnd, Box<Attempt>> {
        let folder = attempt_folder(attempt.recording.clone(), attempt.before.attempts);
        let job = attempt.job.clone();
        let (first, number) = (attempt.recording.clone(), attempt.before.attempts);
        let look = move || match work::remains(&job, &folder) {
            // Earlier runs cost something, too.
            Remains::Ended(report) => Remains::Ended(Box::new(work::settle(&folder, *report, &first, number))),
            other => other,
        };
        let remains = tokio::task::spawn_blocking(look).await.unwrap_or(Remains::Nothing);
        match (remains, attempt.job.cut_off) {
            (Remains::Ended(report), _) => {
                return Ok(work::decide(&self.place, &attempt.job, attempt.before.retries, &report));
            }
            (_, CutOff::Fail) => return Ok(AttemptEnd::Over(Box::new(work::given_up(&attempt)))),
            (Remains::Session(session), CutOff::Resume) => attempt.before.session = Some(session),
            // The session of an earlier run that it went on with is still there.
            (Remains::Nothing, CutOff::Resume) => {}
            (Remains::Session(_) | Remains::Nothing, CutOff::Again) => attempt.before.session = None,
        }
        Err(attempt)
    }

    /// Keeps what the agent changed. If that fails, the worktree stays, and the job has failed; unless somebody stops the batch: then it is
    /// tried again later.
    async fn keep_changes(
        &self,
        worktree: &mut Worktree,
        rule: &WorktreeRule,
        result: &mut JobResult,
        is_stopped: impl Fn() -> bool,
    ) -> Kept {
        match worktree.keep(rule.keep, &self.folder.patches()).await {
            Ok(changes) => {
                result.branch = changes.branch;
                result.patch = changes.patch.map(|path| path.display().to_string());
                Kept::Yes
            }
            Err(_) if is_stopped() => Kept::Later,
            Err(error) => {
                let why = with_causes(&error);
                result.outcome = JobOutcome::Failure;
                result.exit_code = if result.exit_code == 0 { exit::FAILED } else { result.exit_code };
                let place = worktree.path().display();
                result.error = Some(format!("what the agent changed could not be kept as it should ({why}); it is in {place}"));
                worktree.leave();
                Kept::No
            }
        }
    }
}

impl Engine for Embedded {
    async fn keep(&self, note: BatchNote) -> Result<(), EngineError> {
        self.journal.keep(&note).await.map_err(EngineError::Keep)
    }

    async fn run(&self, attempt: Attempt, watch: Watch) -> Result<Attempted, EngineError> {
        let (mut attempt, mut begun) = (attempt, None);
        let mut ended = None;
        if attempt.before.cut_off {
            match self.recover(Box::new(attempt.clone())).await {
                Ok(end) => ended = Some(end),
                Err(goes_on) => attempt = *goes_on,
            }
        }
        let mut worktree = None;
        let stop = watch.stop.clone();
        let is_stopped = || *stop.borrow() > 0;
        if let Some(rule) = &attempt.job.worktree {
            // What an earlier run did is removed only if the file says that the job begins again.
            let fresh = ended.is_none() && attempt.before.cut_off && attempt.job.cut_off == CutOff::Again;
            match self.open_worktree(&attempt, rule, fresh).await {
                Ok(opened) => worktree = Some((opened, rule.clone())),
                Err(_) if is_stopped() => return Ok(Attempted { begun, end: AttemptEnd::CutOff }),
                Err(why) => {
                    let result = JobResult::not_started(&attempt.job.name, &attempt.job.step, why, exit::USAGE);
                    ended = ended.or(Some(AttemptEnd::Over(Box::new(result))));
                }
            }
        }
        let end = if let Some(end) = ended {
            end
        } else {
            let note = RunBegun {
                job: attempt.job.name.clone(),
                attempt: attempt.number,
                recording: attempt.recording.clone(),
                session: attempt.before.session.clone(),
            };
            self.keep(BatchNote::Begun(note.clone())).await?;
            begun = Some(note);
            work::run(&self.place, &attempt, worktree.as_ref().map(|(worktree, _)| worktree), watch).await
        };
        let mut attempted = Attempted { begun, end };
        match &mut attempted.end {
            AttemptEnd::Over(result) => {
                let mut kept = Kept::Yes;
                if let Some((worktree, rule)) = &mut worktree {
                    kept = self.keep_changes(worktree, rule, result, is_stopped).await;
                }
                if kept == Kept::Later {
                    return Ok(Attempted { end: AttemptEnd::CutOff, ..attempted });
                }
                self.keep(BatchNote::Ended(result.clone())).await?;
                // Only now, because the result says where the changes are.
                if let Some((worktree, _)) = worktree.filter(|_| kept == Kept::Yes) {
                    worktree.remove().await;
                }
            }
            AttemptEnd::Again(again) => self.keep(BatchNote::Again(again.clone())).await?,
            AttemptEnd::CutOff => {}
        }
        Ok(attempted)
    }

    async fn clean(&self, unfinished: Vec<String>) {
        let unfinished: Vec<&str> = unfinished.iter().map(String::as_str).collect();
        worktree::clean(&self.folder.worktrees(), &unfinished).await;
    }
}
