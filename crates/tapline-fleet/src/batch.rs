//! Runs a batch: starts jobs as they become ready, and takes note of what they come to.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tapline_recording::{Store, recording_name};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::engine::{Attempted, Engine, EngineError};
use crate::note::{AccountLimit, BatchNote, RepeatJobs, RunAgain};
use crate::plan::Plan;
use crate::result::JobResult;
use crate::shared::{self, SharedLimits};
use crate::state::{Halt, Next, Startable, State, WaitingJobs};
use crate::work::{Attempt, AttemptEnd, EngineNews, JobNews, Watch, unix_now};

/// How a batch is run.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BatchOptions {
    /// How many jobs run at once.
    pub jobs: usize,
    /// Whether as many run at once as the engine's workers have places for.
    pub by_workers: bool,
    /// No job starts once all of them together cost this many dollars.
    pub budget_usd: Option<f64>,
    /// No job starts after this many failures.
    pub until_failures: Option<usize>,
    /// Whether [`BatchNews::Doing`] and [`BatchNews::Waiting`] are told: everything that an agent says or calls, and which jobs wait.
    pub doing: bool,
    /// Which jobs that have their result are run again.
    pub repeat: RepeatJobs,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self { jobs: 4, by_workers: false, budget_usd: None, until_failures: None, doing: false, repeat: RepeatJobs::Nothing }
    }
}

/// Something that happened in a batch. The list is exhaustive on purpose: whoever shows a batch decides about each kind.
#[derive(Clone, Debug)]
pub enum BatchNews {
    /// A run of a job starts.
    Started {
        /// The job's name.
        job: String,
        /// 1 is the first run of the job.
        attempt: u64,
    },
    /// An agent does something.
    Doing {
        /// The job's name.
        job: String,
        /// What.
        what: String,
    },
    /// A run failed, and the job is tried again.
    Again(RunAgain),
    /// Somebody stopped a run. The job goes on when the batch is resumed.
    CutOff {
        /// The job's name.
        job: String,
    },
    /// A job has ended.
    Ended(Box<JobResult>),
    /// An account's limit is reached: none of its jobs starts before.
    Limit(AccountLimit),
    /// Other jobs wait now, or for something else.
    Waiting(WaitingJobs),
    /// News of the engine that makes the runs.
    Engine(EngineNews),
}

/// How a batch ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BatchEnd {
    /// The results of all jobs that have one, in the order of the file.
    pub results: Vec<JobResult>,
    /// How many jobs are known.
    pub jobs: usize,
    /// What all jobs cost.
    pub cost_usd: f64,
    /// Why not all jobs were started, if that is so.
    pub halt: Option<Halt>,
    /// Whether somebody stopped it.
    pub stopped: bool,
}

impl BatchEnd {
    /// Returns whether every job has its result.
    pub fn is_complete(&self) -> bool {
        self.results.len() == self.jobs
    }
}

/// A batch that can be run.
#[derive(Debug)]
pub struct Batch<E> {
    engine: Arc<E>,
    state: State,
    store: Store,
    jobs: usize,
    by_workers: bool,
    /// How many runs the workers make at once, and how many jobs wait that none of them takes: those keep no place from others.
    places: usize,
    unmet: BTreeMap<String, usize>,
    doing: bool,
    events: mpsc::UnboundedSender<BatchNews>,
    stop: watch::Receiver<u32>,
    /// How far its runs are to be stopped: as somebody asked, or because the batch cannot go on.
    stops: Arc<watch::Sender<u32>>,
    shared: SharedLimits,
    /// Limits that other batches told of. People are told if jobs wait.
    untold: Vec<AccountLimit>,
    /// The note that jobs are run again, until it is kept.
    repeat: Option<BatchNote>,
    /// Whether other jobs may wait than were told last.
    changed: bool,
}

impl<E: Engine> Batch<E> {
    /// Prepares a batch: its plan, what was noted of it so far, where its runs are recorded, who is told what happens, and how often somebody
    /// asked to stop (once: runs are ended properly; twice: they are killed).
    pub fn new(
        engine: E,
        plan: Plan,
        notes: Vec<BatchNote>,
        store: Store,
        options: BatchOptions,
        events: mpsc::UnboundedSender<BatchNews>,
        stop: watch::Receiver<u32>,
    ) -> Self {
        let repeat = options.repeat.note(&notes);
        let notes = notes.into_iter().chain(repeat.clone()).collect();
        let state = State::new(plan, notes, options.budget_usd, options.until_failures);
        let shared = SharedLimits::of(&store);
        Self {
            shared,
            untold: Vec::new(),
            repeat,
            changed: true,
            engine: Arc::new(engine),
            state,
            store,
            jobs: if options.by_workers { 1 } else { options.jobs.max(1) },
            by_workers: options.by_workers,
            places: 0,
            unmet: BTreeMap::new(),
            doing: options.doing,
            events,
            stop,
            stops: Arc::default(),
        }
    }

    /// Returns how many jobs are known, and how many of them have ended.
    pub fn counts(&self) -> (usize, usize) {
        self.state.counts()
    }

    /// Runs it until every job has its result, or nothing more may start.
    pub async fn run(mut self) -> Result<BatchEnd, EngineError> {
        if let Some(note) = self.repeat.take() {
            self.engine.keep(note).await?;
        }
        let unfinished = self.state.unfinished().into_iter().map(str::to_owned).collect();
        self.engine.clean(unfinished).await;
        let (news, mut told) = mpsc::unbounded_channel();
        self.engine.listen(news.clone()).await;
        let mut tasks = JoinSet::new();
        // They end with this.
        let mut stopping_runs = JoinSet::new();
        stopping_runs.spawn(pass_on(self.stop.clone(), Arc::clone(&self.stops)));
        let (mut failed, mut listens, mut gives_up) = (None, true, false);
        let mut halting = None;
        loop {
            if halting.is_none() && self.state.halt().is_some() && !tasks.is_empty() {
                let engine = Arc::clone(&self.engine);
                halting = Some(tokio::spawn(async move { engine.halt().await }));
            }
            if failed.is_some() && !std::mem::replace(&mut gives_up, true) {
                // Nothing can be noted any more. What its runs did is found when the batch goes on.
                stopping_runs.spawn(stop_more_and_more(Arc::clone(&self.stops)));
            }
            let stopping = *self.stop.borrow_and_update() > 0 || failed.is_some();
            let wake = if stopping {
                None
            } else {
                self.start(&mut tasks, &news).await.unwrap_or_else(|error| {
                    failed = Some(error);
                    None
                })
            };
            if tasks.is_empty() && wake.is_none() {
                break;
            }
            self.tell_waiting();
            tokio::select! {
                Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                    let ended = ended.unwrap_or_else(|panic| (String::new(), Err(EngineError::Lost(panic.to_string()))));
                    // What was told before the end comes before it.
                    while let Ok(news) = told.try_recv() {
                        failed = failed.or(self.hear(news).await.err());
                    }
                    failed = failed.or(self.ended(ended).err());
                }
                Some(news) = told.recv() => failed = failed.or(self.hear(news).await.err()),
                () = pause(wake) => {}
                changed = self.stop.changed(), if listens => listens = changed.is_ok(),
            }
        }
        if let Some(halting) = halting {
            halting.abort();
        }
        let (jobs, done) = self.state.counts();
        self.engine.over(done == jobs && failed.is_none()).await;
        if let Some(error) = failed {
            return Err(error);
        }
        Ok(BatchEnd {
            results: self.state.results(),
            jobs,
            cost_usd: self.state.spent(),
            halt: self.state.halt().filter(|_| done < jobs),
            stopped: *self.stop.borrow() > 0 && done < jobs,
        })
    }

    /// Starts what can be started. Returns when the next job may start, if none may now.
    async fn start(
        &mut self,
        tasks: &mut JoinSet<Ended>,
        news: &mpsc::UnboundedSender<JobNews>,
    ) -> Result<Option<i64>, EngineError> {
        for limit in self.shared.news(unix_now()) {
            if self.state.limited_until(&limit.account, limit.until).is_none() {
                self.state.limit(&limit);
                self.changed = true;
                self.untold.push(limit);
            }
        }
        loop {
            match self.state.next(unix_now()) {
                Next::Over(result) => {
                    self.engine.keep(BatchNote::Ended(result.clone())).await?;
                    self.state.end((*result).clone());
                    self.tell(BatchNews::Ended(result));
                }
                Next::Start(_) if tasks.len() >= self.jobs => return Ok(None),
                Next::Start(startable) => self.spawn(*startable, tasks, news),
                Next::Wait(until) => {
                    for limit in std::mem::take(&mut self.untold) {
                        self.tell(BatchNews::Limit(limit));
                    }
                    return Ok(Some(until));
                }
                Next::Nothing => return Ok(None),
            }
        }
    }

    fn spawn(&mut self, startable: Startable, tasks: &mut JoinSet<Ended>, news: &mpsc::UnboundedSender<JobNews>) {
        let Startable { job, before } = startable;
        let name = job.name.clone();
        let number = before.attempts + 1;
        let recording = if before.attempts == 0 { self.new_recording() } else { before.recording.clone() };
        self.state.start(&name);
        self.changed = true;
        self.tell(BatchNews::Started { job: name.clone(), attempt: number });
        let watch = Watch { news: news.clone(), doing: self.doing, stop: self.stops.subscribe() };
        let engine = Arc::clone(&self.engine);
        let attempt = Attempt { job, number, recording, before };
        tasks.spawn(async move { (name, engine.run(attempt, watch).await) });
    }

    /// A folder for a recording that no other run of this process has.
    fn new_recording(&self) -> PathBuf {
        static LAST: std::sync::Mutex<String> = std::sync::Mutex::new(String::new());
        let mut last = LAST.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        loop {
            let name = recording_name();
            if *last != name {
                last.clone_from(&name);
                return self.store.folder().join(name);
            }
        }
    }

    /// Tells which jobs wait, if somebody wants to know and it may have changed.
    fn tell_waiting(&mut self) {
        if self.doing && std::mem::take(&mut self.changed) {
            self.tell(BatchNews::Waiting(self.state.waiting(unix_now())));
        }
    }

    /// A run has ended.
    fn ended(&mut self, (job, ended): Ended) -> Result<(), EngineError> {
        self.changed = true;
        let Attempted { begun, end } = match ended {
            Ok(attempted) => attempted,
            Err(error) => {
                self.state.cut_off(&job);
                return Err(error);
            }
        };
        if let Some(begun) = &begun {
            self.state.begin(begun);
        }
        match end {
            AttemptEnd::Over(result) => {
                self.state.end((*result).clone());
                self.tell(BatchNews::Ended(result));
            }
            AttemptEnd::Again(again) => {
                self.state.again(&again);
                self.tell(BatchNews::Again(again));
            }
            AttemptEnd::CutOff => {
                self.state.cut_off(&job);
                self.tell(BatchNews::CutOff { job });
            }
        }
        Ok(())
    }

    async fn hear(&mut self, news: JobNews) -> Result<(), EngineError> {
        match news {
            JobNews::Doing { job, what } => self.tell(BatchNews::Doing { job, what }),
            JobNews::Engine(news) => {
                match &news {
                    EngineNews::Workers { places, .. } => self.places = *places,
                    EngineNews::NoWorker { missing, jobs } => drop(self.unmet.insert(missing.clone(), *jobs)),
                    EngineNews::Gone { .. } | EngineNews::Trouble(_) => {}
                }
                self.make_room();
                self.tell(BatchNews::Engine(news));
            }
            JobNews::Limit(limit) => {
                if self.state.limited_until(&limit.account, limit.until).is_none() {
                    self.state.limit(&limit);
                    self.changed = true;
                    self.tell(BatchNews::Limit(limit.clone()));
                    let (path, told) = (self.shared.path(), limit.clone());
                    // Without it, other batches learn it themselves.
                    let _ = tokio::task::spawn_blocking(move || shared::share(&path, &told, unix_now())).await;
                    self.engine.keep(BatchNote::Limit(limit)).await?;
                }
            }
        }
        Ok(())
    }

    /// As many jobs run at once as the workers have places for. Those that no worker takes are ordered besides.
    fn make_room(&mut self) {
        if self.by_workers {
            self.jobs = self.unmet.values().fold(self.places.max(1), |all, jobs| all.saturating_add(*jobs));
        }
    }

    fn tell(&self, event: BatchNews) {
        let _ = self.events.send(event);
    }
}

/// Stops runs as far as somebody asks.
async fn pass_on(mut asked: watch::Receiver<u32>, stops: Arc<watch::Sender<u32>>) {
    loop {
        raise(&stops, *asked.borrow_and_update());
        if asked.changed().await.is_err() {
            return;
        }
    }
}

/// Stops runs, ever more decidedly.
async fn stop_more_and_more(stops: Arc<watch::Sender<u32>>) {
    for level in 1..=3 {
        raise(&stops, level);
        tokio::time::sleep(ENDS).await;
    }
}

fn raise(stops: &watch::Sender<u32>, level: u32) {
    stops.send_if_modified(|now| std::mem::replace(now, level.max(*now)) < level);
}

/// How long runs have to end when the batch cannot go on, before they are stopped more decidedly.
const ENDS: Duration = Duration::from_secs(15);

/// A job's name, and how its run ended.
type Ended = (String, Result<Attempted, EngineError>);

/// Waits for a time, but at most a second: the clock may be set, and the machine may sleep.
async fn pause(until: Option<i64>) {
    match until {
        Some(until) if until <= unix_now() => {}
        Some(_) => tokio::time::sleep(Duration::from_secs(1)).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io;

    use tapline_testkit::TempFolder;

    use super::*;
    use crate::plan::RunsOn;

    /// An engine with a full disk. Its runs end only when they are stopped as often as their jobs' names say.
    struct Full;

    impl Engine for Full {
        async fn keep(&self, _: BatchNote) -> Result<(), EngineError> {
            Err(EngineError::Keep(io::ErrorKind::StorageFull.into()))
        }

        async fn run(&self, attempt: Attempt, mut watch: Watch) -> Result<Attempted, EngineError> {
            let stops: u32 = attempt.job.name.trim_start_matches('j').parse().unwrap();
            let _ = watch.stop.wait_for(|level| *level >= stops).await;
            if stops == 0 {
                return Err(EngineError::Keep(io::ErrorKind::StorageFull.into()));
            }
            Ok(Attempted { begun: None, end: AttemptEnd::CutOff })
        }

        async fn clean(&self, _: Vec<String>) {}
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_that_can_note_nothing_ends_within_a_minute() {
        let folder = TempFolder::new();
        let file = folder.join("jobs.toml");
        let rows = "[{ n = \"0\" }, { n = \"1\" }, { n = \"2\" }, { n = \"3\" }]";
        std::fs::write(&file, format!("[[job]]\nname = \"j{{n}}\"\nprompt = \"x\"\nrows = {rows}\n")).unwrap();
        let plan = Plan::read_for(&file, &BTreeMap::new(), RunsOn::Workers).unwrap();
        let (events, mut happened) = mpsc::unbounded_channel();
        let (_stop, stopped) = watch::channel(0);
        let store = Store::at(folder.join("home"));
        let batch = Batch::new(Full, plan, Vec::new(), store, BatchOptions::default(), events, stopped);
        let since = tokio::time::Instant::now();
        let error = batch.run().await.unwrap_err();
        assert!(matches!(error, EngineError::Keep(_)), "{error}");
        assert!(since.elapsed() < Duration::from_secs(60), "{:?}", since.elapsed());
        let mut cut_off = 0;
        while let Some(event) = happened.recv().await {
            cut_off += usize::from(matches!(event, BatchNews::CutOff { .. }));
        }
        assert_eq!(cut_off, 3, "every run was waited for");
    }
}
