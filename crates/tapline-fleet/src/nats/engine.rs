//! The engine on many machines: runs are ordered on the queue, and workers make them. Notes are kept in the journal of the batch's folder,
//! as by the embedded engine: the batch knows what it ordered, and the broker knows what became of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt as _;
use tapline_recording::{Store, create_private_folder};
use tapline_session::exit;
use tokio::sync::{mpsc, oneshot, watch};

use super::arrivals::CollectOptions;
use super::bucket::{Following, written};
use super::collect::RecordingCollector;
use super::connect::{Broker, BrokerError};
use super::copies::Collected;
use super::files::{FileRef, SETTLES};
use super::order::{Control, End, Order, Outcome, Patch, RunOf, WorkerCard, is_recording_of, name_of};
use super::post::Post;
use super::queue::{Class, PATIENCE, Queue, UPKEEP, is_sound};
use super::role::BrokerRole;
use super::waiting::{Waiting, rises};
use super::workers::Workers;
use super::{lock, names};
use crate::carried::Carried;
use crate::engine::{Attempted, Engine, EngineError};
use crate::folder::{BatchError, BatchFolder};
use crate::job::Job;
use crate::journal::Journal;
use crate::note::{AccountLimit, BatchNote, RunBegun};
use crate::result::JobResult;
use crate::work::{Attempt, AttemptEnd, EngineNews, JobNews, Watch, unix_now};

/// Why a batch cannot be run by workers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NatsError {
    /// The broker cannot be used.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// The folder of the batch cannot be used.
    #[error(transparent)]
    Folder(#[from] BatchError),
}

/// The engine for many machines.
#[derive(Debug)]
pub struct Nats {
    folder: BatchFolder,
    journal: Journal,
    store: Store,
    queue: Queue,
    /// Writes the recordings of the batch to this data folder.
    collector: Mutex<Option<Arc<RecordingCollector>>>,
    redact: bool,
    /// How long a worker may be silent, once that is known.
    patience: Option<Duration>,
    /// The classes that are there.
    classes: tokio::sync::Mutex<BTreeSet<String>>,
    waiting: Arc<Waiting>,
    /// Whether nothing new begins, and what had not begun is withdrawn.
    halted: watch::Sender<bool>,
    workers: Arc<Workers>,
    /// How far the batch is stopped on the broker.
    stopped: tokio::sync::Mutex<u32>,
    trouble: Mutex<Option<mpsc::UnboundedReceiver<String>>>,
    /// What is told as long as the batch runs.
    follows: Mutex<Vec<Following>>,
}

/// How often an outcome is asked for, in case that the broker's word for it was lost.
const ASK: Duration = Duration::from_secs(3);
/// How often it is asked for while the batch is stopped.
const SOON: Duration = Duration::from_millis(300);
/// How long a batch that has ended waits for the broker.
const TIDIES: Duration = Duration::from_secs(30);
/// No run waits longer for its next try. A worker that says so is wrong.
const LONGEST_WAIT: u64 = 8 * 24 * 60 * 60;
/// How long a batch that is to be stopped waits for the broker before people are told.
const UNHEARD: Duration = Duration::from_secs(2);
/// What they are told.
const NOT_STOPPED: &str = "the broker does not answer, so the workers cannot be told to stop: the batch waits for the broker. Ctrl-C again \
                           (or another signal) ends the batch without it; the runs then go on, and a resumed batch finds their results";
/// How long a batch that is to be killed waits for the broker.
const ANSWERS: Duration = Duration::from_secs(5);

impl Nats {
    /// Connects to the broker, and opens the journal of a batch. Returns its notes so far. If secrets were replaced in it before, they
    /// still are.
    pub async fn open(
        folder: BatchFolder,
        broker: &Broker,
        store: Store,
        redact: bool,
    ) -> Result<(Self, Vec<BatchNote>), NatsError> {
        let (told, trouble) = mpsc::unbounded_channel();
        let name = format!("tapline batch {}", folder.id());
        let queue = Box::pin(Queue::open(broker, BrokerRole::Batch, &name, &store, told)).await?;
        if redact {
            folder.redact()?;
        }
        let redact = folder.is_redacted();
        let path = folder.journal();
        let (journal, notes) = Journal::open(&path).map_err(|error| BatchError::File { path, error })?;
        let patience = folder.patience().or((!notes.is_empty()).then_some(PATIENCE));
        // A batch that was stopped goes on.
        queue.control.put(&names::token(folder.id()), &written(&Control::default())).await;
        let post = Post::of(queue.context.clone()).await?;
        let collector = RecordingCollector::for_batch(&post, folder.id(), &store, CollectOptions::default()).await?;
        let waiting = Arc::new(Waiting::default());
        let keys = names::batch_keys(folder.id());
        let tells = Arc::clone(&waiting);
        let follows = queue.outcomes.follow(keys, move |key, value| tells.tell(key, value));
        let engine = Self {
            folder,
            journal,
            store,
            queue,
            collector: Mutex::new(Some(Arc::new(collector))),
            redact,
            patience,
            classes: tokio::sync::Mutex::default(),
            waiting,
            halted: watch::Sender::new(false),
            workers: Arc::default(),
            stopped: tokio::sync::Mutex::new(0),
            trouble: Mutex::new(Some(trouble)),
            follows: Mutex::new(vec![follows]),
        };
        Ok((engine, notes))
    }

    /// How long a worker may be silent before its run is given to another: 30 seconds if nothing else is said. A batch that goes on keeps the time
    /// that it began with: with another one its orders would have another queue, where nobody sees that they were ordered.
    pub fn with_patience(mut self, patience: Duration) -> Result<Self, BatchError> {
        if self.patience.is_none() {
            self.folder.note_patience(patience)?;
            self.patience = Some(patience);
        }
        Ok(self)
    }

    /// Returns how long a worker may be silent.
    pub fn patience(&self) -> Duration {
        self.patience.unwrap_or(PATIENCE)
    }

    fn id(&self) -> &str {
        self.folder.id()
    }

    /// The class of a job.
    fn class(&self, job: &Job) -> Class {
        Class { labels: job.labels.clone(), worker: job.worker.clone(), patience_ms: None }.with_patience(self.patience())
    }

    /// Puts a run on the queue.
    async fn order(&self, attempt: &Attempt, order: u64, doing: bool) -> Result<(), String> {
        let job = &attempt.job;
        let class = self.class(job);
        let subject = names::job_subject(&class.name(), self.id(), &job.name, order);
        let order = Order {
            batch: self.id().to_owned(),
            signed_at: unix_now(),
            order,
            recording: name_of(&attempt.recording),
            retries: attempt.before.retries,
            session: attempt.before.session.clone(),
            redact: self.redact,
            doing,
            job: Carried::pack(job)?,
        };
        {
            let mut known = self.classes.lock().await;
            if !known.contains(&class.name()) {
                self.queue.make_class(&class).await;
                known.insert(class.name());
            }
        }
        self.queue.order(&subject, &order).await
    }

    /// The outcome of an order, if it has one.
    async fn outcome(&self, job: &str, order: u64) -> Option<Bytes> {
        let key = names::outcome_key(self.id(), job, order);
        self.queue.outcomes.bytes(&key).await.map(|found| found.value)
    }

    /// Waits for the outcome of an order. `None` if the batch is stopped or begins nothing new, and nobody makes the run.
    async fn wait(
        &self,
        job: &str,
        order: u64,
        mut told: oneshot::Receiver<Bytes>,
        mut stop: watch::Receiver<u32>,
        is_old: bool,
    ) -> Option<Bytes> {
        let mut halted = self.halted.subscribe();
        // An outcome that was there before is not told.
        let mut ask = Instant::now() + if is_old { Duration::ZERO } else { ASK };
        let mut listens = true;
        loop {
            let (level, halts) = (*stop.borrow_and_update(), *halted.borrow_and_update());
            if level > 2 {
                return None;
            }
            if level > 0 || halts {
                // With the second signal nobody waits for a broker that does not answer.
                let stops = async {
                    if level > 0 {
                        self.stop(level).await;
                    }
                    self.is_abandoned(job, order).await
                };
                let stops = async {
                    match level {
                        0 | 1 => stops.await,
                        _ => tokio::time::timeout(ANSWERS, stops).await.unwrap_or(true),
                    }
                };
                let abandoned = tokio::select! {
                    outcome = &mut told => return outcome.ok(),
                    abandoned = stops => abandoned,
                    () = rises(&mut stop, level) => continue,
                };
                if abandoned {
                    return tokio::select! {
                        outcome = self.outcome_now(job, order) => outcome,
                        () = rises(&mut stop, 2) => None,
                    };
                }
            }
            let asked = async {
                tokio::time::sleep_until(ask.into()).await;
                self.outcome(job, order).await
            };
            tokio::select! {
                outcome = &mut told => return outcome.ok(),
                changed = stop.changed(), if listens => listens = changed.is_ok(),
                _ = halted.changed() => {}
                outcome = asked => {
                    if outcome.is_some() {
                        return outcome;
                    }
                }
            }
            ask = Instant::now() + if *stop.borrow() > 0 { SOON } else { ASK };
        }
    }

    /// The outcome of an order, if the broker has it and answers.
    async fn outcome_now(&self, job: &str, order: u64) -> Option<Bytes> {
        tokio::time::timeout(ANSWERS, self.outcome(job, order)).await.ok().flatten()
    }

    /// Stops the batch on the broker: what waits is withdrawn, and what runs is stopped.
    async fn stop(&self, level: u32) {
        let mut stopped = self.stopped.lock().await;
        if *stopped >= level {
            return;
        }
        let is_first = *stopped == 0;
        let mut stops = std::pin::pin!(async {
            // First this: whoever has taken a run and not begun it looks here before it begins.
            let control = Control { stop: level, halt: *self.halted.borrow() };
            self.queue.control.put(&names::token(self.id()), &written(&control)).await;
            if is_first {
                self.queue.withdraw(self.id()).await;
            }
        });
        if tokio::time::timeout(UNHEARD, &mut stops).await.is_err() {
            if level == 1 {
                self.queue.trouble.tell(NOT_STOPPED.to_owned());
            }
            stops.await;
        }
        *stopped = level;
    }

    /// Whether nobody makes this run, although it was ordered.
    async fn is_abandoned(&self, job: &str, order: u64) -> bool {
        let run = self.queue.runs.get::<RunOf>(&names::job_key(self.id(), job)).await;
        match run.filter(|run| run.value.order == order) {
            Some(run) if run.value.given_back => true,
            // A process that was started since then knows nothing of it.
            Some(run) => {
                let card = self.queue.workers.get::<WorkerCard>(&run.value.worker).await;
                card.is_none_or(|card| card.value.process != run.value.process)
            }
            None => true,
        }
    }

    /// Whether an order that was made before has an outcome. Waits as long as a worker makes its run: a batch that stops or halts also withdraws
    /// the messages of runs that are under way. If such a run were ordered again, another worker would begin it at once beside the first. A worker
    /// that died is known by its card, so nothing is lost either.
    async fn is_made(&self, job: &str, order: u64) -> bool {
        loop {
            // In this order: a run ends after its outcome is stored.
            let is_abandoned = self.is_abandoned(job, order).await;
            if self.outcome(job, order).await.is_some() {
                return true;
            }
            if is_abandoned {
                return false;
            }
            tokio::time::sleep(ASK).await;
        }
    }

    /// Makes the end of a run of what a worker said about it. Its words are data: they name no places on this machine.
    async fn end(
        &self,
        attempt: &Attempt,
        order: u64,
        outcome: &Bytes,
        stop: watch::Receiver<u32>,
    ) -> Result<AttemptEnd, EngineError> {
        let key = names::outcome_key(self.id(), &attempt.job.name, order);
        let (job, first) = (&attempt.job, name_of(&attempt.recording));
        // It is read when the batch goes on, if somebody does not want to wait for the broker.
        let mut kill = stop.clone();
        let unpacked = tokio::select! {
            unpacked = self.queue.read_outcome(&key, outcome) => unpacked,
            () = rises(&mut kill, 1) => return Ok(AttemptEnd::CutOff),
        };
        let outcome: Outcome = match unpacked {
            Ok(outcome) => outcome,
            Err(why) => return Ok(failed(job, format!("what a worker said about it is not believed: {why}"))),
        };
        let recording = outcome.recording.filter(|name| is_recording_of(name, &first));
        let warning = match &recording {
            Some(name) => self.collect(name, stop).await?,
            None => None,
        };
        Ok(match outcome.end {
            End::Over(mut result) => {
                (result.job, result.step) = (job.name.clone(), job.step.clone());
                result.worker = Some(outcome.worker.clone()).filter(|name| !name.is_empty());
                result.recording = recording.map(|name| self.store.folder().join(name).display().to_string());
                result.patch = None;
                result.warnings.extend(warning);
                if let Some(Patch { file, path: there }) = outcome.patch {
                    let kept = tokio::select! {
                        kept = self.patch(job, &file) => kept,
                        () = rises(&mut kill, 1) => return Ok(AttemptEnd::CutOff),
                    };
                    match kept {
                        Ok(here) => result.patch = Some(here.display().to_string()),
                        Err(why) => {
                            let told =
                                format!("patch: what the agent changed is on worker {}, in {there}: {why}", outcome.worker);
                            result.warnings.push(told);
                        }
                    }
                }
                AttemptEnd::Over(result)
            }
            End::Again(mut again) => {
                again.job.clone_from(&job.name);
                let wait = i64::try_from(outcome.again_after_s.min(LONGEST_WAIT)).unwrap_or_default();
                again.at = unix_now().saturating_add(wait);
                AttemptEnd::Again(again)
            }
            End::CutOff => AttemptEnd::CutOff,
        })
    }

    /// Waits until a recording is here. Returns what is wrong with it.
    async fn collect(&self, recording: &str, mut stop: watch::Receiver<u32>) -> Result<Option<String>, EngineError> {
        let Some(collector) = lock(&self.collector).clone() else { return Ok(None) };
        let arrives = async {
            loop {
                match collector.collected(recording).await {
                    // After trouble, a server of a cluster may lag behind the others: that is believed when the broker was well for a while.
                    Collected::Incomplete if !self.queue.trouble.is_over_for(SETTLES) => tokio::time::sleep(SOON).await,
                    collected => return collected,
                }
            }
        };
        let collected = tokio::select! {
            collected = arrives => collected,
            () = rises(&mut stop, 1) => Collected::Incomplete,
        };
        Ok(match collected {
            Collected::Unwritten(why) => return Err(EngineError::Keep(std::io::Error::other(why))),
            Collected::Complete | Collected::Original => None,
            Collected::Damaged(why) => Some(format!("recording-incomplete: it did not arrive as it was sent: {why}")),
            Collected::Incomplete => {
                Some("recording-incomplete: not all of it is here; `tapline collect` fetches the rest".to_owned())
            }
        })
    }

    /// Keeps the patch of a job in the folder of the batch.
    async fn patch(&self, job: &Job, file: &FileRef) -> Result<PathBuf, String> {
        let bytes = self.queue.files.get(file).await?;
        let folder = self.folder.patches();
        let path = folder.join(format!("{}.patch", job.name));
        write_private(&folder, &path, &bytes).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(path)
    }

    /// Makes a run: orders it, and waits for its outcome.
    async fn make(&self, attempt: Attempt, watch: Watch) -> Result<Attempted, EngineError> {
        let job = attempt.job.name.clone();
        let mut order = attempt.number;
        if attempt.before.cut_off {
            // The last order has an outcome that was not noted, or it still waits or runs: the batch was not there to see it.
            order = attempt.before.attempts;
            let mut stop = watch.stop.clone();
            let outcome = tokio::select! {
                outcome = self.outcome(&job, order) => outcome,
                () = rises(&mut stop, 0) => return Ok(Attempted { begun: None, end: AttemptEnd::CutOff }),
            };
            if let Some(outcome) = outcome {
                match self.end(&attempt, order, &outcome, watch.stop.clone()).await? {
                    // Somebody does not want to wait for the broker: it is read later.
                    end @ AttemptEnd::CutOff if *watch.stop.borrow() > 0 => return self.ended(None, end).await,
                    AttemptEnd::CutOff => order = attempt.number,
                    end => return self.ended(None, end).await,
                }
            }
        }
        let begun = RunBegun {
            job: job.clone(),
            attempt: order,
            recording: attempt.recording.clone(),
            session: attempt.before.session.clone(),
        };
        self.keep(BatchNote::Begun(begun.clone())).await?;
        // Before it is ordered: its outcome may come at once.
        let key = names::outcome_key(self.id(), &job, order);
        let mut told = self.waiting.wait(&key);
        let _wanted = self.workers.want(&self.class(&attempt.job));
        let (mut stop, mut halted) = (watch.stop.clone(), self.halted.subscribe());
        let ordered = async {
            if attempt.before.cut_off && self.is_made(&job, order).await {
                return Ok(());
            }
            self.order(&attempt, order, watch.doing).await
        };
        let early = tokio::select! {
            ordered = ordered => {
                if let Err(why) = ordered {
                    self.waiting.forget(&key);
                    return self.ended(Some(begun), failed(&attempt.job, why)).await;
                }
                None
            }
            outcome = &mut told => outcome.ok(),
            // Whether it is on the queue or not: it will not be made.
            () = rises(&mut stop, 0) => None,
            () = async { drop(halted.wait_for(|halted| *halted).await) } => None,
        };
        let outcome = match early {
            None => {
                let mut renewed = self.queue.renewed.subscribe();
                // A worker that makes it says so first.
                let again = async {
                    while renewed.changed().await.is_ok() {
                        tokio::time::sleep(2 * UPKEEP).await;
                        let _ = self.order(&attempt, order, watch.doing).await;
                    }
                };
                tokio::select! {
                    outcome = self.wait(&job, order, told, watch.stop.clone(), attempt.before.cut_off) => outcome,
                    () = again => None,
                }
            }
            outcome => outcome,
        };
        let end = match outcome {
            Some(outcome) => self.end(&attempt, order, &outcome, watch.stop).await?,
            None => AttemptEnd::CutOff,
        };
        self.waiting.forget(&key);
        self.ended(Some(begun), end).await
    }

    /// Notes how a run ended.
    async fn ended(&self, begun: Option<RunBegun>, end: AttemptEnd) -> Result<Attempted, EngineError> {
        match &end {
            AttemptEnd::Over(result) => self.keep(BatchNote::Ended(result.clone())).await?,
            AttemptEnd::Again(again) => self.keep(BatchNote::Again(again.clone())).await?,
            AttemptEnd::CutOff => {}
        }
        Ok(Attempted { begun, end })
    }
}

fn write_private(folder: &Path, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    create_private_folder(folder)?;
    std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?.write_all(bytes)
}

fn failed(job: &Job, why: String) -> AttemptEnd {
    AttemptEnd::Over(Box::new(JobResult::not_started(&job.name, &job.step, why, exit::USAGE)))
}

impl Engine for Nats {
    async fn keep(&self, note: BatchNote) -> Result<(), EngineError> {
        self.journal.keep(&note).await.map_err(EngineError::Keep)
    }

    async fn run(&self, attempt: Attempt, watch: Watch) -> Result<Attempted, EngineError> {
        tokio::select! {
            made = self.make(attempt, watch) => made,
            why = self.queue.is_gone() => Err(EngineError::Gone(why)),
        }
    }

    async fn clean(&self, _unfinished: Vec<String>) {}

    async fn listen(&self, news: mpsc::UnboundedSender<JobNews>) {
        let limits = news.clone();
        let limits = self.queue.limits.follow(">".to_owned(), move |_, value| {
            let limit = value.and_then(|value| serde_json::from_slice::<AccountLimit>(value).ok());
            if let Some(limit) = limit.filter(|limit| is_sound(limit, unix_now())) {
                let _ = limits.send(JobNews::Limit(limit));
            }
        });
        lock(&self.follows).push(limits);
        let mut tasks = Vec::new();
        if let Some(mut trouble) = lock(&self.trouble).take() {
            let news = news.clone();
            tasks.push(Following::of(async move {
                while let Some(what) = trouble.recv().await {
                    let _ = news.send(JobNews::Engine(EngineNews::Trouble(what)));
                }
            }));
        }
        let (client, subject, doing) = (self.queue.client.clone(), names::news_subject(self.id()), news.clone());
        tasks.push(Following::of(async move {
            let Ok(mut told) = client.subscribe(subject).await else { return };
            while let Some(message) = told.next().await {
                if let Ok((job, what)) = serde_json::from_slice(&message.payload) {
                    let _ = doing.send(JobNews::Doing { job, what });
                }
            }
        }));
        let (workers, seen, wanted) = (Arc::clone(&self.workers), Arc::clone(&self.workers), Arc::clone(&self.workers));
        tasks.push(Following::of(self.queue.clone().look_after(move || wanted.classes())));
        tasks.push(self.queue.workers.follow(">".to_owned(), move |id, card| seen.see(id, card)));
        let trouble = Arc::clone(&self.queue.trouble);
        let (runs, gone) = (Arc::clone(&self.workers), news.clone());
        tasks.push(self.queue.runs.follow(names::batch_keys(self.id()), move |key, run| {
            runs.see_run(key, run).map(|news| gone.send(JobNews::Engine(news)));
        }));
        tasks.push(Following::of(async move { workers.tell(&news, &trouble).await }));
        lock(&self.follows).extend(tasks);
    }

    async fn halt(&self) {
        let stopped = self.stopped.lock().await;
        if *stopped == 0 {
            // In this order: whoever has taken a run and not begun it looks here before it begins.
            let control = Control { stop: 0, halt: true };
            self.queue.control.put(&names::token(self.id()), &written(&control)).await;
            self.queue.withdraw(self.id()).await;
        }
        self.halted.send_replace(true);
    }

    async fn over(&self, is_complete: bool) {
        lock(&self.follows).clear();
        let collector = lock(&self.collector).take().and_then(Arc::into_inner);
        let tidies = async {
            match collector {
                Some(collector) if is_complete => collector.finish().await,
                Some(collector) => collector.stop().await,
                None => {}
            }
            if is_complete {
                self.queue.control.try_remove(&names::token(self.id())).await;
            }
        };
        // A broker that is away says nothing, and what was not removed does no harm.
        let _ = tokio::time::timeout(if is_complete { TIDIES } else { ANSWERS }, tidies).await;
    }
}
