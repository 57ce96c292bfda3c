//! What a batch and its workers tell each other: an order for a run, its outcome, and who makes which run of a job.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::files::FileRef;
use super::pieces::plain;
use super::queue::Class;
use crate::carried::Carried;
use crate::note::RunAgain;
use crate::result::JobResult;
use crate::work::AttemptEnd;

/// A run that somebody should make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    pub(crate) batch: String,
    /// When it was signed, in seconds since 1970. Later than its outcome lives, it is not taken: somebody has sent it again.
    pub(crate) signed_at: i64,
    /// 1 is the first order of the job. An order ends with one outcome, however many workers tried.
    pub(crate) order: u64,
    /// The name of the recording of the first run. Further runs have a number besides.
    pub(crate) recording: String,
    /// How many runs of the job failed and were tried again.
    pub(crate) retries: u64,
    /// The session that goes on, if the worker has it.
    pub(crate) session: Option<String>,
    /// Whether secrets are replaced in the recording and the result.
    pub(crate) redact: bool,
    /// Whether somebody wants to know what the agent does.
    pub(crate) doing: bool,
    pub(crate) job: Carried,
}

/// How an order ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// The name of the worker, for people.
    pub(crate) worker: String,
    pub(crate) end: End,
    /// The name of the recording, if there is one on its way.
    #[serde(default)]
    pub(crate) recording: Option<String>,
    #[serde(default)]
    pub(crate) patch: Option<Patch>,
    /// If the job is tried again: after so many seconds. The batch counts them, because the worker may have another time.
    #[serde(default)]
    pub(crate) again_after_s: u64,
}

/// What the agent changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Patch {
    /// The file that has it.
    pub(crate) file: FileRef,
    /// Where it is on the worker, for people.
    pub(crate) path: String,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    Over(Box<JobResult>),
    Again(RunAgain),
    CutOff,
}

impl End {
    /// A word for it, for those who may not read a large outcome.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Over(_) => "over",
            Self::Again(_) => "again",
            Self::CutOff => "cut_off",
        }
    }
}

impl From<AttemptEnd> for End {
    fn from(end: AttemptEnd) -> Self {
        match end {
            AttemptEnd::Over(result) => Self::Over(result),
            AttemptEnd::Again(again) => Self::Again(again),
            AttemptEnd::CutOff => Self::CutOff,
        }
    }
}

/// The last run of a job that began: whoever begins the next one replaces it, so no two runs have the same number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RunOf {
    /// The order that it belongs to.
    pub(crate) order: u64,
    /// Its number: 1 is the first run of the job.
    pub(crate) attempt: u64,
    /// The id of the worker that makes it.
    pub(crate) worker: String,
    /// The name of the worker, for people.
    pub(crate) name: String,
    /// The process of the worker that makes it: another one of the same worker knows nothing of it.
    pub(crate) process: String,
    /// Whether it was stopped, and goes on elsewhere.
    pub(crate) given_back: bool,
    /// Whether it was given back because the agent could not be started: it was not cut off.
    pub(crate) unstarted: bool,
    /// The workers that lack nothing and could not start a run, or do not trust its author, by their ids, each with the order.
    pub(crate) unable: BTreeMap<String, u64>,
    /// The session of a run that failed, and goes on with the next one.
    pub(crate) session: Option<SessionOf>,
    /// The name of its recording.
    pub(crate) recording: String,
    /// What the runs of the job cost so far, in dollars, by the worker that made them.
    pub(crate) spent: BTreeMap<String, f64>,
}

impl RunOf {
    /// Whether this worker has this session. A session is where it was made, whoever made a run since then.
    pub(crate) fn has_session(&self, me: &str, id: &str) -> bool {
        self.session.as_ref().is_some_and(|session| session.id == id && session.worker == me)
    }

    /// How many workers could not start a run of an order.
    pub(crate) fn count_unable(&self, order: u64) -> usize {
        self.unable.values().filter(|of| **of == order).count()
    }

    /// Adds what runs on other workers cost.
    pub(crate) fn add_others(&self, me: &str, cost_usd: &mut Option<f64>) {
        for (_, usd) in self.spent.iter().filter(|(worker, _)| worker.as_str() != me) {
            *cost_usd = Some(cost_usd.unwrap_or_default() + usd);
        }
    }
}

/// A session, and the worker that has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionOf {
    pub(crate) id: String,
    /// The id of the worker.
    pub(crate) worker: String,
}

/// What workers should do with the runs of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Control {
    /// Whether it is to be stopped: 1 ends its runs properly, 2 kills them.
    pub(crate) stop: u32,
    /// Whether it begins nothing new: its budget is used up, or there were too many failures. What runs goes on.
    pub(crate) halt: bool,
}

impl Control {
    pub(crate) fn begins_nothing(self) -> bool {
        self.stop > 0 || self.halt
    }
}

/// A worker that is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct WorkerCard {
    pub(crate) name: String,
    /// How many runs it makes at once.
    pub(crate) places: usize,
    pub(crate) labels: Vec<String>,
    pub(crate) require: Vec<String>,
    pub(crate) version: String,
    /// Differs each time that the worker is started.
    pub(crate) process: String,
    /// For which agents it takes no jobs for now, and why.
    pub(crate) rests: BTreeMap<String, String>,
}

impl WorkerCard {
    /// Whether it takes jobs of this class.
    pub(crate) fn takes(&self, class: &Class) -> bool {
        self.could_take(class) && !self.rests.contains_key(class.agent().name())
    }

    /// Whether it takes jobs of this class when it does not rest.
    pub(crate) fn could_take(&self, class: &Class) -> bool {
        class.fits(&self.labels, &self.require)
    }
}

/// The name of a folder.
pub(crate) fn name_of(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether a recording is one of the runs of a job whose first one has this name.
pub(crate) fn is_recording_of(name: &str, first: &str) -> bool {
    let number = |rest: &str| rest.strip_prefix('-').is_some_and(|number| number.parse::<u64>().is_ok());
    plain(name).is_ok() && name.strip_prefix(first).is_some_and(|rest| rest.is_empty() || number(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_has_a_plain_name() {
        assert!(is_recording_of("2026-01-01T00-00-00Z-00ff", "2026-01-01T00-00-00Z-00ff"));
        assert!(is_recording_of("a-12", "a"));
        for wrong in ["../a", "a/../b", "a-x", "b", "", ".", "a-1/x", "a-", "a1"] {
            assert!(!is_recording_of(wrong, "a"), "{wrong}");
        }
    }

    #[test]
    fn a_session_is_at_the_worker_that_made_it() {
        let session = Some(SessionOf { id: "s".to_owned(), worker: "a".to_owned() });
        // The next run was made by another worker, which was killed before its agent said anything.
        let run = RunOf { order: 2, worker: "b".to_owned(), session, ..RunOf::default() };
        assert!(run.has_session("a", "s"));
        assert!(!run.has_session("b", "s") && !run.has_session("a", "t"));
    }

    #[test]
    fn what_runs_on_other_workers_cost_is_added() {
        let spent = [("me", 9.0), ("a", 0.5)].map(|(worker, usd)| (worker.to_owned(), usd)).into();
        let run = RunOf { spent, ..RunOf::default() };
        for (mut cost, all) in [(Some(0.25), Some(0.75)), (None, Some(0.5))] {
            run.add_others("me", &mut cost);
            assert_eq!(cost, all);
        }
    }
}
