//! A batch with the fake agent, in a folder of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tapline_fleet::{
    Batch, BatchEnd, BatchError, BatchFolder, BatchNews, BatchOptions, Embedded, JobFileError, JobResult, Plan, RepeatJobs,
    RunsOn, Workplace,
};
use tapline_recording::Store;
use tapline_testkit::agent::by_prompt;
use tapline_testkit::{TempFolder, wait_for, wait_until};
use tokio::sync::{mpsc, watch};

/// A folder of a test's own.
pub(crate) struct Stage {
    root: PathBuf,
    /// Another process may have a stage in the same folder: the folder goes with the test that made it.
    _folder: Option<TempFolder>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let folder = TempFolder::new();
        std::fs::create_dir(folder.join("traces")).unwrap();
        Self { root: folder.to_owned(), _folder: Some(folder) }
    }

    /// The stage of another process.
    pub(crate) fn at(path: &Path) -> Self {
        Self { root: path.to_owned(), _folder: None }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn store(&self) -> Store {
        Store::at(self.path("home"))
    }

    /// Reads a job file, with the fake agent.
    pub(crate) fn plan(&self, name: &str, text: &str) -> Result<Plan, JobFileError> {
        let path = self.file(name, text);
        let bin = Value::from(by_prompt());
        Plan::read(&path, &BTreeMap::from([("bin".to_owned(), bin)]))
    }

    /// What is wrong with a job file, one line each.
    pub(crate) fn faults(&self, name: &str, text: &str) -> Vec<String> {
        match self.plan(name, text) {
            Ok(_) => Vec::new(),
            Err(JobFileError::Wrong(faults)) => faults.0.iter().map(ToString::to_string).collect(),
            Err(error) => panic!("{error}"),
        }
    }

    fn place(&self) -> Workplace {
        let mut place = Workplace::new(self.store());
        place.environment = vec![("TRACES".into(), Some(self.path("traces").into()))];
        place.redact = self.path("redact").exists();
        place
    }

    /// Runs a batch to its end.
    pub(crate) fn run(&self, text: &str, options: impl FnOnce(&mut BatchOptions)) -> Ran {
        self.run_of("jobs.toml", text, options)
    }

    /// Runs the batch of a file of any kind to its end.
    pub(crate) fn run_file(&self, name: &str, text: &str) -> Ran {
        self.run_of(name, text, |_| {})
    }

    fn run_of(&self, name: &str, text: &str, options: impl FnOnce(&mut BatchOptions)) -> Ran {
        let plan = self.plan(name, text).unwrap_or_else(|error| panic!("{error}"));
        let folder = BatchFolder::create(&self.store(), &plan).unwrap();
        self.run_plan(folder, plan, options, None)
    }

    /// Runs a batch until this is so, and kills what still runs.
    pub(crate) fn run_until(&self, text: &str, what: &str, is_so: impl Fn() -> bool + Sync) -> Ran {
        let plan = self.plan("jobs.toml", text).unwrap_or_else(|error| panic!("{error}"));
        let folder = BatchFolder::create(&self.store(), &plan).unwrap();
        self.run_plan(folder, plan, |_| {}, Some((what, &is_so)))
    }

    /// Goes on with the last batch until this is so, and kills what still runs.
    pub(crate) fn resume_until(&self, what: &str, is_so: impl Fn() -> bool + Sync) -> Ran {
        let (folder, plan) = self.open();
        self.run_plan(folder, plan, |_| {}, Some((what, &is_so)))
    }

    /// Goes on with the last batch.
    pub(crate) fn resume(&self, options: impl FnOnce(&mut BatchOptions)) -> Ran {
        let (folder, plan) = self.open();
        self.run_plan(folder, plan, options, None)
    }

    /// Goes on with the last batch, and runs again what failed.
    pub(crate) fn retry_failed(&self) -> Ran {
        let (folder, plan) = self.open_for(RepeatJobs::Failed);
        self.run_plan(folder, plan, |options| options.repeat = RepeatJobs::Failed, None)
    }

    fn open(&self) -> (BatchFolder, Plan) {
        self.open_for(RepeatJobs::Nothing)
    }

    /// Opens the last batch. Another test may just have forked a process, which has the lock of this one until it is another program.
    fn open_for(&self, repeat: RepeatJobs) -> (BatchFolder, Plan) {
        wait_for("nobody has the lock of the batch", || {
            match BatchFolder::open_for(&self.store(), "last", RunsOn::ThisMachine, repeat) {
                Ok(batch) => Some(batch),
                Err(BatchError::Taken(_)) => None,
                Err(error) => panic!("{error}"),
            }
        })
    }

    fn run_plan(
        &self,
        folder: BatchFolder,
        plan: Plan,
        options: impl FnOnce(&mut BatchOptions),
        until: Option<(&str, &(dyn Fn() -> bool + Sync))>,
    ) -> Ran {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (engine, notes) = Embedded::open(folder, self.place()).unwrap();
        let mut given = BatchOptions::default();
        options(&mut given);
        let (events, mut happened) = mpsc::unbounded_channel();
        let (stop, stopped) = watch::channel(0);
        let batch = Batch::new(engine, plan, notes, self.store(), given, events, stopped);
        let end = std::thread::scope(|scope| {
            if let Some((what, is_so)) = until {
                scope.spawn(move || {
                    wait_until(what, is_so);
                    stop.send(2)
                });
            }
            runtime.block_on(batch.run()).unwrap_or_else(|error| panic!("{error}"))
        });
        let mut all = Vec::new();
        while let Ok(event) = happened.try_recv() {
            all.push(event);
        }
        Ran { end, events: all }
    }

    /// The folder of the only batch.
    pub(crate) fn batch(&self) -> PathBuf {
        std::fs::read_dir(self.path("home/batches")).unwrap().next().unwrap().unwrap().path()
    }

    /// As if the process had been killed before the results of the batch were noted.
    pub(crate) fn forget_results(&self) {
        let journal = self.batch().join("journal");
        let notes = std::fs::read_to_string(&journal).unwrap();
        let begun: String = notes.lines().filter(|line| line.contains("\"begun\"")).flat_map(|line| [line, "\n"]).collect();
        std::fs::write(journal, begun).unwrap();
    }

    /// What the runs of a job wrote, by the agent's own account.
    pub(crate) fn traces(&self, job: &str) -> Vec<Vec<u8>> {
        let all = std::fs::read_dir(self.path("traces")).unwrap().map(|entry| entry.unwrap().path());
        let of = all.filter(|path| path.file_stem().is_some_and(|stem| stem == job) && path.extension().is_some_and(is_number));
        of.map(|path| std::fs::read(path).unwrap()).collect()
    }

    /// What a run of a job noted besides: `began`, `args`.
    pub(crate) fn noted(&self, job: &str, what: &str) -> Vec<String> {
        let all = std::fs::read_dir(self.path("traces")).unwrap().map(|entry| entry.unwrap().path());
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        let of = all.filter(|path| name(path).starts_with(&format!("{job}.")) && name(path).ends_with(&format!(".{what}")));
        of.map(|path| std::fs::read_to_string(path).unwrap()).collect()
    }

    /// Whether the recording of a result has exactly what the agent wrote.
    pub(crate) fn is_recorded(&self, result: &JobResult) -> bool {
        let Some(recording) = result.recording.as_deref().map(Path::new) else { panic!("{} has no recording", result.job) };
        let stdout = std::fs::read(recording.join("stdout")).unwrap();
        recording.starts_with(self.store().folder()) && self.traces(&result.job).contains(&stdout)
    }
}

fn is_number(text: &std::ffi::OsStr) -> bool {
    text.to_str().is_some_and(|text| text.parse::<u32>().is_ok())
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
