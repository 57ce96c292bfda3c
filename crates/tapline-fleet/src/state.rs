//! How a batch stands, and what is next: a pure function of its plan and its notes. Time is a value.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

use crate::budget::Budget;
use crate::job::Job;
use crate::limits::Accounts;
use crate::note::{AccountLimit, BatchNote, RunAgain, RunBegun};
use crate::plan::{Expanded, Plan, Planned, PlannedStep};
use crate::result::JobResult;
use crate::waits::Waits;

/// What is known of a job that has begun and not ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Begun {
    /// How many runs have begun.
    pub(crate) attempts: u64,
    /// How many of them failed and were tried again.
    pub(crate) retries: u64,
    /// Where the first is recorded.
    pub(crate) recording: PathBuf,
    /// The session that goes on.
    pub(crate) session: Option<String>,
    /// The next run does not begin before this time.
    not_before: i64,
    /// Whether the last run has no end: it was cut off.
    pub(crate) cut_off: bool,
}

#[cfg(feature = "nats")]
impl Begun {
    /// What a worker knows of a job whose runs it is told of.
    pub(crate) fn of(attempts: u64, retries: u64, recording: PathBuf, session: Option<String>, cut_off: bool) -> Self {
        Self { attempts, retries, recording, session, not_before: 0, cut_off }
    }
}

/// A job that can be started now.
#[derive(Clone, Debug)]
pub(crate) struct Startable {
    pub(crate) job: Job,
    pub(crate) before: Begun,
}

/// What to do next.
#[derive(Debug)]
pub(crate) enum Next {
    Start(Box<Startable>),
    /// A job has ended without a run: this is its result, to be noted.
    Over(Box<JobResult>),
    /// Nothing before this time, in seconds since 1970, unless a run ends.
    Wait(i64),
    /// Nothing, unless a run ends.
    Nothing,
}

/// Why no further job starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Halt {
    /// The budget is used up.
    Budget,
    /// There were enough failures.
    Failures,
}

/// How a batch stands.
#[derive(Debug)]
pub(crate) struct State {
    plan: Plan,
    /// The results of each node's jobs, by the place of its item.
    results: Vec<BTreeMap<usize, JobResult>>,
    waits: Waits,
    /// How many jobs of each node have no result yet. `None` until it is known which there are.
    left: Vec<Option<usize>>,
    /// Jobs that wait for nothing but their turn.
    pending: VecDeque<Waiting>,
    running: BTreeSet<String>,
    begun: BTreeMap<String, Begun>,
    /// Jobs that are run again and have not begun again.
    repeated: BTreeSet<String>,
    /// Results of jobs that wait again for others, which are run again.
    early: BTreeMap<String, JobResult>,
    /// The place of each known job: its node, and its item.
    places: BTreeMap<String, (usize, usize)>,
    /// Jobs that ended without a run, and are not noted yet.
    over: VecDeque<JobResult>,
    accounts: Accounts,
    budget: Budget,
    failures: usize,
    until_failures: Option<usize>,
}

/// A job that waits for its turn.
#[derive(Debug)]
struct Waiting {
    planned: Planned,
    /// Once it was made.
    job: Option<Box<Job>>,
}

impl State {
    /// Returns how a batch stands after these notes.
    pub(crate) fn new(plan: Plan, notes: Vec<BatchNote>, budget_usd: Option<f64>, until_failures: Option<usize>) -> Self {
        let count = plan.nodes().len();
        let mut state = Self {
            results: vec![BTreeMap::new(); count],
            waits: plan.waits(),
            left: vec![None; count],
            pending: VecDeque::new(),
            running: BTreeSet::new(),
            begun: BTreeMap::new(),
            repeated: BTreeSet::new(),
            early: BTreeMap::new(),
            places: BTreeMap::new(),
            over: VecDeque::new(),
            accounts: Accounts::default(),
            budget: Budget::of(budget_usd),
            failures: 0,
            until_failures,
            plan,
        };
        (0..count).filter(|node| state.waits.is_free(*node)).collect::<Vec<_>>().into_iter().for_each(|node| state.free(node));
        // The last note that says of a job that it is run again.
        let mut repeats: BTreeMap<String, usize> = BTreeMap::new();
        for (at, note) in notes.iter().enumerate() {
            if let BatchNote::Repeat(jobs) = note {
                repeats.extend(jobs.iter().map(|job| (job.clone(), at)));
            }
        }
        for (at, note) in notes.into_iter().enumerate() {
            match note {
                BatchNote::Begun(begun) => state.begin(&begun),
                BatchNote::Again(again) => state.again(&again),
                // What it cost counts.
                BatchNote::Ended(result) if repeats.get(&result.job).is_some_and(|repeat| at < *repeat) => {
                    state.budget.spend(&result.job, result.cost_usd);
                }
                BatchNote::Ended(result) => state.end(*result),
                BatchNote::Limit(limit) => state.limit(&limit),
                BatchNote::Repeat(jobs) => jobs.into_iter().for_each(|job| state.repeat(job)),
            }
        }
        // Whatever was running is not running any more.
        for job in std::mem::take(&mut state.running) {
            if let Some(begun) = state.begun.get_mut(&job) {
                begun.cut_off = true;
            }
        }
        state
    }

    /// A node waits for nothing more: its jobs are known.
    fn free(&mut self, node: usize) {
        let results = &self.results;
        let of = |node: usize| results[node].values().collect();
        let (name, step) = (self.plan.nodes()[node].name.clone(), self.plan.nodes()[node].step.clone());
        match self.plan.expand(node, &of) {
            Expanded::Jobs(jobs) => {
                self.left[node] = Some(jobs.len());
                let is_empty = jobs.is_empty();
                let mut early = Vec::new();
                for (item, planned) in jobs.into_iter().enumerate() {
                    early.extend(self.early.remove(&planned.name));
                    self.places.insert(planned.name.clone(), (node, item));
                    self.pending.push_back(Waiting { planned, job: None });
                }
                for result in early {
                    self.end(result);
                }
                if is_empty {
                    self.done(node);
                }
            }
            // If it has run, its result stays.
            Expanded::Skip(why) => {
                let result = self.early.remove(&name).unwrap_or_else(|| JobResult::skipped(&name, &step, why));
                self.drop_out(node, result);
            }
            Expanded::Fail(why) => self.drop_out(node, JobResult::not_started(&name, &step, why, tapline_session::exit::USAGE)),
        }
    }

    /// A node ends without a run.
    fn drop_out(&mut self, node: usize, result: JobResult) {
        self.left[node] = Some(1);
        self.places.insert(result.job.clone(), (node, 0));
        self.over.push_back(result);
    }

    /// All jobs of a node have ended: others need not wait for it any more.
    fn done(&mut self, node: usize) {
        for next in self.waits.done(node) {
            self.free(next);
        }
    }

    /// A job is being started.
    pub(crate) fn start(&mut self, job: &str) {
        self.running.insert(job.to_owned());
    }

    /// A run of a job began.
    pub(crate) fn begin(&mut self, begun: &RunBegun) {
        self.running.insert(begun.job.clone());
        self.repeated.remove(&begun.job);
        let job = self.begun.entry(begun.job.clone()).or_default();
        job.attempts = begun.attempt;
        job.cut_off = false;
        job.session.clone_from(&begun.session);
        if begun.attempt == 1 {
            job.recording.clone_from(&begun.recording);
        }
    }

    /// A run failed: the job waits for its turn again.
    pub(crate) fn again(&mut self, again: &RunAgain) {
        self.running.remove(&again.job);
        let job = self.begun.entry(again.job.clone()).or_default();
        job.retries += 1;
        // Its end is known: the next run is a new one.
        job.cut_off = false;
        job.session = again.session.clone().or(job.session.take());
        job.not_before = again.at;
        self.budget.spend(&again.job, again.cost_usd);
        // Others had to wait longer.
        if let Some(at) = self.pending.iter().position(|waiting| waiting.planned.name == again.job)
            && let Some(waiting) = self.pending.remove(at)
        {
            self.pending.push_back(waiting);
        }
    }

    /// A job that had its result is run again, as if it were new. Its runs so far are counted.
    fn repeat(&mut self, job: String) {
        self.running.remove(&job);
        if let Some(begun) = self.begun.get_mut(&job) {
            *begun = Begun { attempts: begun.attempts, recording: std::mem::take(&mut begun.recording), ..Begun::default() };
        }
        self.repeated.insert(job);
    }

    /// A run was cut off: the job waits for its turn as before.
    pub(crate) fn cut_off(&mut self, job: &str) {
        self.running.remove(job);
        if let Some(begun) = self.begun.get_mut(job) {
            begun.cut_off = true;
        }
    }

    /// A job has ended. A second result of a job counts for nothing.
    pub(crate) fn end(&mut self, result: JobResult) {
        self.running.remove(&result.job);
        let Some((node, item)) = self.places.get(&result.job).copied() else {
            self.begun.remove(&result.job);
            self.budget.spend(&result.job, result.cost_usd);
            self.early.entry(result.job.clone()).or_insert(result);
            return;
        };
        if self.results[node].contains_key(&item) {
            return;
        }
        self.over.retain(|over| over.job != result.job);
        // Whatever runs stands near the front.
        if let Some(at) = self.pending.iter().position(|waiting| waiting.planned.name == result.job) {
            self.pending.remove(at);
        }
        self.begun.remove(&result.job);
        self.budget.spend(&result.job, result.cost_usd);
        self.failures += usize::from(result.is_failure());
        self.results[node].insert(item, result);
        if let Some(left) = &mut self.left[node] {
            *left -= 1;
            if *left == 0 {
                self.done(node);
            }
        }
    }

    /// An account's limit is reached.
    pub(crate) fn limit(&mut self, limit: &AccountLimit) {
        self.accounts.reach(limit);
    }

    /// Returns why no further job starts, if that is so.
    pub(crate) fn halt(&self) -> Option<Halt> {
        if self.until_failures.is_some_and(|most| self.failures >= most) {
            return Some(Halt::Failures);
        }
        self.budget.is_used_up().then_some(Halt::Budget)
    }

    /// Returns what to do at this time, in seconds since 1970.
    pub(crate) fn next(&mut self, now: i64) -> Next {
        if let Some(result) = self.over.pop_front() {
            return Next::Over(Box::new(result));
        }
        if self.halt().is_some() {
            return Next::Nothing;
        }
        let mut earliest = None;
        for at in 0..self.pending.len() {
            if self.running.contains(&self.pending[at].planned.name) {
                continue;
            }
            if self.pending[at].job.is_none() {
                let results = &self.results;
                let of = |node: usize| results[node].values().collect();
                match self.plan.job(&self.pending[at].planned, &of) {
                    Ok(job) => self.pending[at].job = Some(Box::new(job)),
                    Err(why) => {
                        let planned = &self.pending[at].planned;
                        let step = &self.plan.nodes()[planned.node].step;
                        let code = tapline_session::exit::USAGE;
                        return Next::Over(Box::new(JobResult::not_started(&planned.name, step, why, code)));
                    }
                }
            }
            let waiting = &self.pending[at];
            let Some(job) = &waiting.job else { continue };
            let before = self.begun.get(&waiting.planned.name).cloned().unwrap_or_default();
            let later = self
                .accounts
                .opens_at(&job.account, now)
                .into_iter()
                .chain(Some(before.not_before).filter(|at| *at > now))
                .max();
            match later {
                Some(later) => earliest = Some(earliest.map_or(later, |earliest: i64| earliest.min(later))),
                None => return Next::Start(Box::new(Startable { job: (**job).clone(), before })),
            }
        }
        earliest.map_or(Next::Nothing, Next::Wait)
    }

    /// Returns when runs of this account may start, if they must wait.
    pub(crate) fn limited_until(&self, account: &str, now: i64) -> Option<i64> {
        self.accounts.opens_at(account, now)
    }

    /// Returns how many jobs are known, and how many of them have ended.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let known = self.left.iter().zip(&self.results).map(|(left, done)| left.map_or(1, |left| left + done.len())).sum();
        (known, self.results.iter().map(BTreeMap::len).sum())
    }

    pub(crate) fn spent(&self) -> f64 {
        self.budget.spent()
    }

    /// Returns the results so far, in the order of the file.
    pub(crate) fn results(&self) -> Vec<JobResult> {
        self.results.iter().flat_map(|done| done.values().cloned()).collect()
    }

    /// Returns the names of jobs that have begun and not ended.
    pub(crate) fn unfinished(&self) -> Vec<&str> {
        self.begun.keys().filter(|job| !self.repeated.contains(*job)).map(String::as_str).collect()
    }

    /// Returns which jobs wait at this time, and for what.
    pub(crate) fn waiting(&self, now: i64) -> WaitingJobs {
        let mut waiting = WaitingJobs::default();
        for (first, is_alone, count) in self.waits.waited_for() {
            let node = &self.plan.nodes()[first];
            let name = if is_alone { &node.name } else { &node.step };
            *waiting.for_needs.entry(name.clone()).or_default() += count;
        }
        for Waiting { planned, job } in self.pending.iter().filter(|waiting| !self.running.contains(&waiting.planned.name)) {
            let opens = job.as_ref().and_then(|job| Some((&job.account, self.accounts.opens_at(&job.account, now)?)));
            let again = self.begun.get(&planned.name).map(|begun| begun.not_before).filter(|at| *at > now);
            match (opens, again) {
                (Some((account, until)), _) => {
                    let limited = waiting.for_limit.entry(account.clone()).or_insert((0, until));
                    limited.0 += 1;
                }
                (None, Some(at)) => {
                    let (count, first) = waiting.for_retry.unwrap_or((0, at));
                    waiting.for_retry = Some((count + 1, first.min(at)));
                }
                (None, None) => waiting.for_place += 1,
            }
        }
        waiting
    }
}

/// Jobs that have not begun, or are tried again, by what they wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingJobs {
    /// How many wait for nothing but a free place.
    pub for_place: usize,
    /// How many wait for a job or a step, by its name.
    pub for_needs: BTreeMap<String, usize>,
    /// How many wait for the limit of an account, by its name, and until when, in seconds since 1970.
    pub for_limit: BTreeMap<String, (usize, i64)>,
    /// How many are tried again later, and when the first of them is.
    pub for_retry: Option<(usize, i64)>,
}

/// Returns the steps of a plan that are left after these notes, with the jobs that are left of each.
pub fn steps_left(plan: Plan, notes: Vec<BatchNote>) -> Vec<PlannedStep> {
    let mut state = State::new(plan, notes, None, None);
    // These are not started.
    while let Some(result) = state.over.pop_front() {
        state.end(result);
    }
    state.plan.steps_of(&|node| state.left[node])
}

#[cfg(test)]
mod tests;
