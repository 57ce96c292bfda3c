//! A broker, workers and a batch with the fake agent, in a folder of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tapline_fleet::{
    Batch, BatchEnd, BatchError, BatchFolder, BatchNews, BatchNote, BatchOptions, Broker, JobResult, Nats, Plan, RepeatJobs,
    RunsOn, Worker, WorkerError, WorkerNews, WorkerOptions, Workplace, data_folder_key,
};
use tapline_recording::Store;
use tapline_testkit::agent::by_prompt;
use tapline_testkit::nats::NatsServer;
use tapline_testkit::{HANG, TempFolder, TestProcess, processes_with, rerun, wait_for, wait_until};
use tokio::sync::{mpsc, watch};

/// What a worker is like: it starts the fake agent.
pub(crate) fn options(worker: &str, places: usize) -> WorkerOptions {
    let mut options = WorkerOptions::default();
    (options.name, options.places, options.programs) = (worker.to_owned(), places, vec![(None, by_prompt().into())]);
    // Jobs that are to fail name folders that are nowhere.
    options.folders = vec!["/".into()];
    options
}

/// How long a worker may be silent where nobody dies: no machine is so slow that it matters.
pub(crate) const PATIENT: Duration = Duration::from_secs(300);
/// How long a worker may be silent where somebody dies. A worker that is slow may lose its run to another; no test minds.
pub(crate) const IMPATIENT: Duration = Duration::from_secs(2);
/// A batch that takes longer hangs. No speed is tested by it.
const ENDLESS: Duration = Duration::from_secs(900);

/// Whether the broker did not answer in time, and may yet: a busy machine may be slow.
fn is_slow(error: &impl std::fmt::Display, since: Instant) -> bool {
    error.to_string().contains("timed out") && since.elapsed() < HANG
}

/// The folder of a test, and the address of its broker.
pub(crate) struct Crew {
    root: PathBuf,
    url: String,
    worker_url: String,
    /// A file with credentials, for everybody.
    pub(crate) credentials: Option<PathBuf>,
    pub(crate) patience: Duration,
    /// The keys that the batch trusts. Then workers trust that of the batch.
    trusted: BTreeSet<String>,
    _folder: Option<TempFolder>,
}

impl Crew {
    pub(crate) fn new(server: &NatsServer) -> Self {
        let folder = TempFolder::new();
        let crew = Self {
            root: folder.to_owned(),
            url: server.url(),
            worker_url: server.url(),
            credentials: None,
            patience: PATIENT,
            trusted: BTreeSet::new(),
            _folder: Some(folder),
        };
        std::fs::create_dir_all(crew.path("traces")).unwrap();
        crew
    }

    /// The crew of another process.
    pub(crate) fn of_process() -> Option<Self> {
        let root = PathBuf::from(std::env::var_os("CREW_ROOT")?);
        let url = std::env::var("CREW_URL").unwrap();
        let patience = Duration::from_millis(std::env::var("CREW_PATIENCE").unwrap().parse().unwrap());
        Some(Self { root, worker_url: url.clone(), url, credentials: None, patience, trusted: BTreeSet::new(), _folder: None })
    }

    /// A process that runs this test, with this crew.
    pub(crate) fn process(&self, module: &str, test: &str, name: &str) -> TestProcess {
        let mut command = rerun(module, test);
        command.env("CREW_ROOT", &self.root).env("CREW_URL", &self.url).env("CREW_NAME", name);
        command.env("CREW_PATIENCE", self.patience.as_millis().to_string());
        TestProcess::logged(&mut command, self.path(&format!("{name}.log")))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(crate) fn broker(&self) -> Broker {
        let mut broker = self.broker_at(&self.url);
        broker.trusted.clone_from(&self.trusted);
        broker
    }

    /// The batch and this worker trust each other, and nobody else.
    pub(crate) fn trust(&mut self, worker: &str) {
        self.trusted.insert(data_folder_key(&self.store_of(worker)).unwrap());
    }

    fn broker_at(&self, url: &str) -> Broker {
        let mut broker = Broker::at(url);
        broker.credentials.clone_from(&self.credentials);
        broker
    }

    /// The batch and the workers are different users.
    pub(crate) fn log_in(&mut self, batch: &str, worker: &str) {
        (self.url, self.worker_url) = (batch.to_owned(), worker.to_owned());
    }

    pub(crate) fn store(&self) -> Store {
        Store::at(self.path("home"))
    }

    /// The store of a worker.
    pub(crate) fn store_of(&self, worker: &str) -> Store {
        Store::at(self.path(worker))
    }

    pub(crate) fn place(&self, worker: &str) -> Workplace {
        let mut place = Workplace::new(self.store_of(worker));
        place.environment = vec![("TRACES".into(), Some(self.path("traces").into())), ("WORKER".into(), Some(worker.into()))];
        place
    }

    /// Starts a worker in this process.
    pub(crate) fn worker(&self, name: &str, places: usize) -> Hand {
        self.worker_with(name, options(name, places))
    }

    pub(crate) fn worker_with(&self, name: &str, options: WorkerOptions) -> Hand {
        let (mut broker, place) = (self.broker_at(&self.worker_url), self.place(name));
        if !self.trusted.is_empty() {
            broker.trusted.insert(data_folder_key(&self.store()).unwrap());
        }
        let (stop, stopped) = watch::channel(0);
        let (news, mut told) = mpsc::unbounded_channel();
        let happened = Arc::new(Mutex::new(Vec::new()));
        let keeps = Arc::clone(&happened);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::spawn(async move {
                    while let Some(event) = told.recv().await {
                        keeps.lock().unwrap().push(event);
                    }
                });
                let since = Instant::now();
                let worker = loop {
                    match Box::pin(Worker::open(&broker, place.clone(), options.clone(), news.clone())).await {
                        Ok(worker) => break worker,
                        // Another test may just have forked a process, which has the lock of this one until it is another program.
                        Err(WorkerError::Taken(_)) if since.elapsed() < HANG => tokio::task::yield_now().await,
                        Err(error) if is_slow(&error, since) => {}
                        Err(error) => panic!("{error}"),
                    }
                };
                drop(news);
                worker.run(stopped).await;
            });
            runtime.shutdown_background();
        });
        Hand { stop, thread: Some(thread), happened }
    }

    pub(crate) fn plan(&self, text: &str) -> Plan {
        let path = self.path("jobs.toml");
        std::fs::write(&path, text).unwrap();
        Plan::read_for(&path, &BTreeMap::new(), RunsOn::Workers).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs a batch to its end.
    pub(crate) fn run(&self, text: &str, options: impl FnOnce(&mut BatchOptions)) -> Ran {
        self.run_while(text, options, |_| {})
    }

    /// Runs a batch, and does something meanwhile.
    pub(crate) fn run_while(
        &self,
        text: &str,
        options: impl FnOnce(&mut BatchOptions),
        meanwhile: impl FnOnce(&Live) + Send,
    ) -> Ran {
        let plan = self.plan(text);
        let folder = BatchFolder::create(&self.store(), &plan).unwrap();
        self.run_plan(folder, plan, options, meanwhile)
    }

    /// Goes on with the last batch.
    pub(crate) fn resume(&self, options: impl FnOnce(&mut BatchOptions)) -> Ran {
        self.resume_while(options, |_| {})
    }

    /// Goes on with the last batch, and does something meanwhile.
    pub(crate) fn resume_while(&self, options: impl FnOnce(&mut BatchOptions), meanwhile: impl FnOnce(&Live) + Send) -> Ran {
        let (folder, plan) = self.open();
        self.run_plan(folder, plan, options, meanwhile)
    }

    /// Runs what failed in the last batch again.
    pub(crate) fn retry_failed(&self) -> Ran {
        let (folder, plan) = self.open_for(RepeatJobs::Failed);
        self.run_plan(folder, plan, |options| options.repeat = RepeatJobs::Failed, |_| {})
    }

    /// Opens the last batch. Another test may just have forked a process, which has the lock of this one until it is another program.
    pub(crate) fn open(&self) -> (BatchFolder, Plan) {
        self.open_for(RepeatJobs::Nothing)
    }

    fn open_for(&self, repeat: RepeatJobs) -> (BatchFolder, Plan) {
        wait_for("nobody has the lock of the batch", || {
            match BatchFolder::open_for(&self.store(), "last", RunsOn::Workers, repeat) {
                Ok(batch) => Some(batch),
                Err(BatchError::Taken(_)) => None,
                Err(error) => panic!("{error}"),
            }
        })
    }

    fn run_plan(
        &self,
        mut folder: BatchFolder,
        plan: Plan,
        options: impl FnOnce(&mut BatchOptions),
        meanwhile: impl FnOnce(&Live) + Send,
    ) -> Ran {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let mut given = BatchOptions::default();
        given.by_workers = true;
        options(&mut given);
        let (events, mut happened) = mpsc::unbounded_channel();
        let (stop, stopped) = watch::channel(0);
        let all = Arc::new(Mutex::new(Vec::new()));
        let live = Live { stop, happened: Arc::clone(&all) };
        let end = std::thread::scope(|scope| {
            scope.spawn(move || meanwhile(&live));
            runtime.block_on(async {
                let since = Instant::now();
                let (engine, notes) = loop {
                    match Box::pin(Nats::open(folder, &self.broker(), self.store(), false)).await {
                        Ok(opened) => break opened,
                        Err(error) if is_slow(&error, since) => folder = self.open().0,
                        Err(error) => panic!("{error}"),
                    }
                };
                let engine = engine.with_patience(self.patience).unwrap();
                let batch = Batch::new(engine, plan, notes, self.store(), given, events, stopped);
                let keeps = tokio::spawn(async move {
                    while let Some(event) = happened.recv().await {
                        all.lock().unwrap().push(event);
                    }
                    all
                });
                let end = tokio::time::timeout(ENDLESS, batch.run()).await.expect("the batch ends");
                let end = end.unwrap_or_else(|error| panic!("{error}"));
                let events = keeps.await.unwrap();
                let events = events.lock().unwrap().clone();
                Ran { end, events }
            })
        });
        runtime.shutdown_background();
        end
    }

    fn last_batch(&self) -> Option<PathBuf> {
        std::fs::read_dir(self.path("home/batches")).into_iter().flatten().flatten().map(|entry| entry.path()).max()
    }

    /// The id of the last batch.
    pub(crate) fn last_id(&self) -> String {
        self.last_batch().unwrap().file_name().unwrap().to_str().unwrap().to_owned()
    }

    /// The notes of the last batch.
    pub(crate) fn journal(&self) -> Vec<BatchNote> {
        let Some(batch) = self.last_batch() else { return Vec::new() };
        let text = std::fs::read(batch.join("journal")).unwrap_or_default();
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines = text[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    }

    /// How many results each job has.
    pub(crate) fn ended(&self) -> BTreeMap<String, usize> {
        let mut ended = BTreeMap::new();
        for note in self.journal() {
            if let BatchNote::Ended(result) = note {
                *ended.entry(result.job.clone()).or_default() += 1;
            }
        }
        ended
    }

    fn traces_of(&self, job: &str) -> Vec<PathBuf> {
        let all = std::fs::read_dir(self.path("traces")).unwrap().map(|entry| entry.unwrap().path());
        all.filter(|path| path.file_name().unwrap().to_string_lossy().split('.').next() == Some(job)).collect()
    }

    /// What the runs of a job wrote, by the agent's own account.
    pub(crate) fn traces(&self, job: &str) -> Vec<Vec<u8>> {
        let is_number = |path: &PathBuf| path.extension().is_some_and(|end| end.to_string_lossy().parse::<u32>().is_ok());
        self.traces_of(job).into_iter().filter(is_number).map(|path| std::fs::read(path).unwrap()).collect()
    }

    /// What the runs of a job noted besides: `began`, `args`.
    pub(crate) fn noted(&self, job: &str, what: &str) -> Vec<String> {
        let ends = |path: &PathBuf| path.extension().is_some_and(|end| end == what);
        self.traces_of(job).into_iter().filter(ends).map(|path| std::fs::read_to_string(path).unwrap()).collect()
    }

    /// Whether the recording of a result is here, and has exactly what the agent wrote.
    pub(crate) fn is_recorded(&self, result: &JobResult) -> bool {
        let Some(recording) = result.recording.as_deref().map(Path::new) else { panic!("{} has no recording", result.job) };
        let stdout = std::fs::read(recording.join("stdout")).unwrap_or_else(|error| panic!("{}: {error}", recording.display()));
        recording.starts_with(self.store().folder()) && self.traces(&result.job).contains(&stdout)
    }
}

/// A batch that is running.
pub(crate) struct Live {
    pub(crate) stop: watch::Sender<u32>,
    happened: Arc<Mutex<Vec<BatchNews>>>,
}

impl Live {
    /// Waits for something to happen.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&BatchNews) -> bool) {
        wait_until(what, || self.count(&is_so) > 0);
    }

    /// How often something happened.
    pub(crate) fn count(&self, is_so: impl Fn(&BatchNews) -> bool) -> usize {
        self.happened.lock().unwrap().iter().filter(|event| is_so(event)).count()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // The test has failed, and waits for the batch.
        if std::thread::panicking() {
            let _ = self.stop.send(3);
        }
    }
}

/// A worker in this process. It is stopped with the test.
pub(crate) struct Hand {
    pub(crate) stop: watch::Sender<u32>,
    thread: Option<JoinHandle<()>>,
    happened: Arc<Mutex<Vec<WorkerNews>>>,
}

impl Hand {
    /// Waits for something to happen.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&WorkerNews) -> bool) {
        wait_until(what, || self.has(&is_so));
    }

    pub(crate) fn has(&self, is_so: impl Fn(&WorkerNews) -> bool) -> bool {
        self.happened.lock().unwrap().iter().any(is_so)
    }

    /// How often something happened.
    pub(crate) fn count(&self, is_so: impl Fn(&WorkerNews) -> bool) -> usize {
        self.happened.lock().unwrap().iter().filter(|event| is_so(event)).count()
    }

    /// Stops the worker so far, and waits for its end.
    pub(crate) fn stop(mut self, level: u32) {
        let _ = self.stop.send(level);
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        let _ = self.stop.send(3);
        if let Some(thread) = self.thread.take() {
            let joined = thread.join();
            assert!(joined.is_ok() || std::thread::panicking(), "a worker panicked");
        }
    }
}

pub(crate) struct Ran {
    pub(crate) end: BatchEnd,
    pub(crate) events: Vec<BatchNews>,
}

impl Ran {
    pub(crate) fn result(&self, job: &str) -> &JobResult {
        let found = self.end.results.iter().find(|result| result.job == job);
        found.unwrap_or_else(|| panic!("{job}: {:?}", self.end.results))
    }

    /// The outcome of each job, in order.
    pub(crate) fn outcomes(&self) -> Vec<(&str, &str)> {
        self.end.results.iter().map(|result| (result.job.as_str(), result.outcome.word())).collect()
    }
}

/// Jobs that differ in a number.
pub(crate) fn numbered(count: usize, prompt: &str) -> String {
    let rows: Vec<String> = (1..=count).map(|n| format!("{{ n = \"{n}\" }}")).collect();
    format!("[[job]]\nname = \"j{{n}}\"\nprompt = \"{prompt}\"\nrows = [{}]\n", rows.join(","))
}

/// Whether a process that a worker of this crew started is left.
pub(crate) fn is_anybody_left(crew: &Crew) -> bool {
    !processes_with(&format!("TRACES={}", crew.path("traces").display())).is_empty()
}

/// Plays a worker until it is killed, if this process is one.
pub(crate) fn play_worker(places: usize) -> bool {
    let Some(crew) = Crew::of_process() else { return false };
    let name = std::env::var("CREW_NAME").unwrap();
    let worker = crew.worker(&name, places);
    worker.until("the worker is ready", |event| matches!(event, WorkerNews::Ready));
    let ready = crew.path(&format!("{name}.{}.ready", std::process::id()));
    std::fs::write(ready, "").unwrap();
    worker.until("the worker ends", |_| false);
    true
}
