//! How a batch stands, and what is next: a pure function of its plan and its notes. Time is a value.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

use crate::budget::Budget;
use crate::job::Job;
use crate::limits::Accounts;
use crate::note::{AccountLimit, BatchNote, RunAgain, RunBegun};
use crate::plan::{Expanded, Plan, Planned};
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
            places: BTreeMap::new(),
            over: VecDeque::new(),
            accounts: Accounts::default(),
            budget: Budget::of(budget_usd),
            failures: 0,
            until_failures,
            plan,
        };
        (0..count).filter(|node| state.waits.is_free(*node)).collect::<Vec<_>>().into_iter().for_each(|node| state.free(node));
        for note in notes {
            match note {
                BatchNote::Begun(begun) => state.begin(&begun),
                BatchNote::Again(again) => state.again(&again),
                BatchNote::Ended(result) => state.end(*result),
                BatchNote::Limit(limit) => state.limit(&limit),
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
                for (item, planned) in jobs.into_iter().enumerate() {
                    self.places.insert(planned.name.clone(), (node, item));
                    self.pending.push_back(Waiting { planned, job: None });
                }
                if self.left[node] == Some(0) {
                    self.done(node);
                }
            }
            Expanded::Skip(why) => self.drop_out(node, JobResult::skipped(&name, &step, why)),
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
        let Some((node, item)) = self.places.get(&result.job).copied() else { return };
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
        self.begun.keys().map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Entry, Source};
    use crate::result::JobOutcome;

    fn plan(jobs: &[&[(&str, &str)]]) -> Plan {
        let entry = |(number, job): (usize, &&[(&str, &str)])| {
            let own = job.iter().map(|(key, value)| ((*key).to_owned(), (*value).into()));
            let common = [("prompt", "x"), ("bin", "/bin/sh")].map(|(key, value)| (key.to_owned(), value.into()));
            Entry {
                place: format!("job {number}").into(),
                fields: common.into_iter().chain(own).collect(),
                rows: None,
                homes: BTreeMap::new(),
            }
        };
        let source =
            Source { base: "/".into(), name: "test".to_owned(), entries: jobs.iter().enumerate().map(entry).collect() };
        Plan::new(source, crate::plan::RunsOn::ThisMachine).unwrap_or_else(|error| panic!("{error}"))
    }

    fn begun(job: &str, attempt: u64) -> BatchNote {
        BatchNote::Begun(RunBegun { job: job.to_owned(), attempt, recording: format!("/r/{job}").into(), session: None })
    }

    fn ended(job: &str, outcome: JobOutcome, cost_usd: f64) -> BatchNote {
        let result = JobResult { job: job.to_owned(), outcome, cost_usd: Some(cost_usd), ..JobResult::default() };
        BatchNote::Ended(Box::new(result))
    }

    fn again(job: &str, at: i64) -> BatchNote {
        let (session, cost_usd) = (Some("s".to_owned()), Some(0.5));
        BatchNote::Again(RunAgain { job: job.to_owned(), at, session, cost_usd, error: None })
    }

    /// What is next, in a word: the job that starts, or the time that is waited for.
    fn next(state: &mut State, now: i64) -> String {
        match state.next(now) {
            Next::Start(startable) => {
                state.start(&startable.job.name);
                startable.job.name
            }
            Next::Over(result) => {
                let told = format!("{} {}", result.job, result.outcome.word());
                state.end(*result);
                told
            }
            Next::Wait(until) => until.to_string(),
            Next::Nothing => "nothing".to_owned(),
        }
    }

    #[test]
    fn a_limit_holds_back_all_jobs_of_its_account_and_nobody_else() {
        let jobs: &[&[(&str, &str)]] =
            &[&[("name", "a"), ("account", "x")], &[("name", "b"), ("account", "x")], &[("name", "c"), ("account", "y")]];
        let limit = BatchNote::Limit(AccountLimit { account: "x".to_owned(), until: 100 });
        let mut state = State::new(plan(jobs), vec![limit], None, None);
        let told: Vec<_> = [50, 50, 100, 101, 101, 101].map(|now| next(&mut state, now)).into();
        assert_eq!(told, ["c", "101", "101", "a", "b", "nothing"]);
    }

    #[test]
    fn a_job_that_is_tried_again_waits_and_keeps_nobody_from_running() {
        let notes = vec![begun("a", 1), again("a", 70)];
        let mut state = State::new(plan(&[&[("name", "a")], &[("name", "b")]]), notes, None, None);
        assert_eq!([next(&mut state, 60), next(&mut state, 60)], ["b", "70"]);
        let Next::Start(startable) = state.next(70) else { panic!("it may start") };
        let Begun { attempts, retries, session, cut_off, .. } = startable.before;
        assert_eq!((attempts, retries, session.as_deref(), cut_off), (1, 1, Some("s"), false));
    }

    #[test]
    fn what_has_ended_does_not_start_again_and_what_was_running_was_cut_off() {
        let good = JobOutcome::Success;
        let notes = vec![begun("a", 1), begun("b", 1), ended("a", good, 1.0), ended("a", JobOutcome::Failure, 9.0)];
        let mut state =
            State::new(plan(&[&[("name", "a")], &[("name", "b")], &[("name", "c"), ("needs", "a")]]), notes, None, None);
        assert_eq!((state.counts(), state.spent()), ((3, 1), 1.0), "a second result counts for nothing");
        assert_eq!(state.unfinished(), ["b"]);
        let Next::Start(startable) = state.next(0) else { panic!("it goes on") };
        assert!(startable.job.name == "b" && startable.before.cut_off);
        state.start("b");
        assert_eq!([next(&mut state, 0), next(&mut state, 0)], ["c", "nothing"]);
    }

    #[test]
    fn a_run_that_was_cut_off_before_its_first_words_has_the_session_of_the_run_before() {
        let session = Some("s".to_owned());
        let second = RunBegun { job: "a".to_owned(), attempt: 2, recording: "/r/a".into(), session: session.clone() };
        let notes = vec![begun("a", 1), BatchNote::Begun(second)];
        let mut state = State::new(plan(&[&[("name", "a")]]), notes, None, None);
        let Next::Start(startable) = state.next(0) else { panic!("it goes on") };
        assert_eq!((startable.before.attempts, startable.before.session), (2, session));
    }

    #[test]
    fn nothing_starts_once_the_budget_is_used_up_or_enough_has_failed() {
        let jobs: &[&[(&str, &str)]] = &[&[("name", "a")], &[("name", "b")], &[("name", "c")]];
        let failed = vec![begun("a", 1), ended("a", JobOutcome::Failure, 0.75)];
        let mut state = State::new(plan(jobs), failed.clone(), Some(0.75), None);
        assert_eq!((next(&mut state, 0).as_str(), state.halt()), ("nothing", Some(Halt::Budget)));
        let mut state = State::new(plan(jobs), failed.clone(), None, Some(1));
        assert_eq!((next(&mut state, 0).as_str(), state.halt()), ("nothing", Some(Halt::Failures)));
        let mut state = State::new(plan(jobs), failed, Some(0.76), Some(2));
        assert_eq!((next(&mut state, 0).as_str(), state.halt()), ("b", None));
    }

    #[test]
    fn jobs_that_need_a_failure_are_skipped_one_after_the_other() {
        let jobs: &[&[(&str, &str)]] = &[&[("name", "a")], &[("name", "b"), ("needs", "a")], &[("name", "c"), ("needs", "b")]];
        let mut state = State::new(plan(jobs), vec![begun("a", 1), ended("a", JobOutcome::Failure, 0.0)], None, None);
        assert_eq!([next(&mut state, 0), next(&mut state, 0), next(&mut state, 0)], ["b skipped", "c skipped", "nothing"]);
        assert_eq!(state.counts(), (3, 3));
    }
}
