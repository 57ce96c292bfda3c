//! Makes a run of a job from its beginning to its end: looks at what is left of an earlier one, opens the worktree, runs the agent, and
//! keeps what it changed. Every engine makes its runs here; where notes are kept is the engine's own.

use std::path::{Path, PathBuf};

use tapline_recording::attempt_folder;
use tapline_session::exit;
use tapline_session::text::with_causes;

use crate::engine::Attempted;
use crate::job::{CutOff, WorktreeRule};
use crate::note::RunBegun;
use crate::result::{JobOutcome, JobResult};
use crate::work::{self, Attempt, AttemptEnd, Remains, Watch, Workplace};
use crate::worktree::{Places, Worktree, WorktreeError};

/// Where runs are made.
#[derive(Clone, Debug)]
pub(crate) struct Workshop {
    pub(crate) place: Workplace,
    pub(crate) worktrees: Places,
    /// Where patches are kept.
    pub(crate) patches: PathBuf,
}

/// A run that was made, and not noted yet.
#[derive(Debug)]
pub(crate) struct Made {
    /// `None` if nothing had to be started.
    pub(crate) begun: Option<RunBegun>,
    pub(crate) end: AttemptEnd,
    /// That of a job that is over. Unless it is to stay, it is removed when the result is noted, because the result says where the changes
    /// are.
    worktree: Option<Worktree>,
}

impl Made {
    /// What the agent changed cannot be handed over: the job has failed, and the worktree stays.
    #[cfg(feature = "nats")]
    pub(crate) fn leave_worktree(&mut self, why: &str) {
        if let (AttemptEnd::Over(result), Some(worktree)) = (&mut self.end, &mut self.worktree) {
            leave(worktree, result, why);
        }
    }

    /// The run is noted: what is not needed any more is removed.
    pub(crate) async fn noted(self) -> Attempted {
        if let Some(worktree) = self.worktree.filter(|worktree| !worktree.stays()) {
            worktree.remove().await;
        }
        Attempted { begun: self.begun, end: self.end }
    }
}

impl Workshop {
    /// Makes a run. `on_begin` is called before the agent is started; if it fails, nothing is.
    pub(crate) async fn make<E, F>(
        &self,
        attempt: Attempt,
        watch: Watch,
        on_begin: impl FnOnce(RunBegun) -> F,
    ) -> Result<Made, E>
    where
        F: Future<Output = Result<(), E>>,
    {
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
                Err(_) if is_stopped() => return Ok(Made { begun, end: AttemptEnd::CutOff, worktree: None }),
                Err(why) => {
                    let result = JobResult::not_started(&attempt.job.name, &attempt.job.step, why, exit::USAGE);
                    ended = ended.or(Some(AttemptEnd::Over(Box::new(result))));
                }
            }
        }
        let mut end = if let Some(end) = ended {
            end
        } else {
            let note = RunBegun {
                job: attempt.job.name.clone(),
                attempt: attempt.number,
                recording: attempt.recording.clone(),
                session: attempt.before.session.clone(),
            };
            on_begin(note.clone()).await?;
            begun = Some(note);
            work::run(&self.place, &attempt, worktree.as_ref().map(|(worktree, _)| worktree), watch).await
        };
        if let (AttemptEnd::Over(result), Some((worktree, rule))) = (&mut end, &mut worktree)
            && !self.keep_changes(worktree, rule, result, is_stopped).await
        {
            end = AttemptEnd::CutOff;
        }
        // Otherwise it is needed when the job goes on.
        let worktree = worktree.filter(|_| matches!(end, AttemptEnd::Over(_))).map(|(worktree, _)| worktree);
        Ok(Made { begun, end, worktree })
    }

    /// With `fresh`, nothing of an earlier run is left in it.
    async fn open_worktree(&self, attempt: &Attempt, rule: &WorktreeRule, fresh: bool) -> Result<Worktree, String> {
        let job = &attempt.job;
        let opened = Worktree::open(&self.worktrees, &job.name, &job.folder, rule, attempt.before.cut_off, fresh).await;
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

    /// Keeps what the agent changed. If that fails, the worktree stays, and the job has failed; unless somebody stops the batch: then this
    /// returns `false`, and it is tried again later.
    async fn keep_changes(
        &self,
        worktree: &mut Worktree,
        rule: &WorktreeRule,
        result: &mut JobResult,
        is_stopped: impl Fn() -> bool,
    ) -> bool {
        let kept = async {
            let changes = worktree.keep(rule.keep, &self.patches).await?;
            Ok::<_, WorktreeError>((changes, worktree.not_taken().await?))
        };
        match kept.await {
            Ok((changes, left)) => {
                result.branch = changes.branch;
                result.patch = changes.patch.map(|path| path.display().to_string());
                if !left.is_empty() {
                    result.warnings.push(stays(worktree.path(), &left));
                    worktree.leave();
                }
            }
            Err(_) if is_stopped() => return false,
            Err(error) => leave(worktree, result, &with_causes(&error)),
        }
        true
    }
}

/// Says which files no branch and no patch has, and where they are.
fn stays(worktree: &Path, left: &[String]) -> String {
    let more = left.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let named = left.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    format!(
        "worktree: files of submodules and ignored files are in no branch or patch, so the worktree stays in {}: {named}{more}",
        worktree.display()
    )
}

/// How many of them are named.
const NAMED: usize = 5;

/// What the agent changed cannot be kept: the job has failed, and the worktree stays.
fn leave(worktree: &mut Worktree, result: &mut JobResult, why: &str) {
    result.outcome = JobOutcome::Failure;
    result.exit_code = if result.exit_code == 0 { exit::FAILED } else { result.exit_code };
    let place = worktree.path().display();
    result.error = Some(format!("what the agent changed could not be kept as it should ({why}); it is in {place}"));
    worktree.leave_whole();
}
