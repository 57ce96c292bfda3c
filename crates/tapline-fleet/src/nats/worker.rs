//! A worker: takes runs from the queue, makes them, and acknowledges them when their outcome is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::jetstream::{AckKind, Message};
use futures_util::StreamExt as _;
use rustix::fs::{FlockOperation, flock};
use tapline_protocol::Agent as Kind;
use tapline_recording::create_private_folder;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use super::bucket::{Following, written};
use super::connect::{Broker, BrokerError};
use super::order::{Control, End, Outcome, RunOf, WorkerCard};
use super::outbox::Outbox;
use super::post::Post;
use super::queue::{Class, Queue};
use super::ship::resend;
use super::taken::Taken;
use super::{lock, names};
use crate::identity::identity;
use crate::note::AccountLimit;
use crate::result::JobOutcome;
use crate::work::Workplace;
use crate::worktree::{self, Places};

/// Why a worker cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The broker cannot be used.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// Another worker has the data folder.
    #[error(
        "another worker uses {0}: give that one more places (`--jobs`), or this one a data folder of its own (TAPLINE_HOME)"
    )]
    Taken(PathBuf),
    /// A file cannot be read or written.
    #[error("cannot use {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
}

/// What a worker is like.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WorkerOptions {
    /// What people call it.
    pub name: String,
    /// How many runs it makes at once.
    pub places: usize,
    /// What it has: jobs can ask for it.
    pub labels: Vec<String>,
    /// What it asks of jobs.
    pub require: Vec<String>,
    /// Programs of agents: of this one, or of all.
    pub programs: Vec<(Option<Kind>, PathBuf)>,
}

/// What happens at a worker. The list is exhaustive on purpose: whoever shows it decides about each kind.
#[derive(Clone, Debug)]
pub enum WorkerNews {
    /// It is ready.
    Ready,
    /// It begins a run.
    Began {
        /// The batch's id.
        batch: String,
        /// The job's name.
        job: String,
        /// 1 is the first run of the job.
        attempt: u64,
    },
    /// A run has ended, and its outcome is stored.
    Ended {
        /// The batch's id.
        batch: String,
        /// The job's name.
        job: String,
        /// How the job has ended.
        outcome: JobOutcome,
    },
    /// A run failed, and the job is tried again, here or elsewhere.
    Again {
        /// The batch's id.
        batch: String,
        /// The job's name.
        job: String,
        /// Why it failed.
        why: Option<String>,
    },
    /// A run was stopped with its batch.
    Stopped {
        /// The batch's id.
        batch: String,
        /// The job's name.
        job: String,
    },
    /// A run goes on elsewhere, for this reason.
    GivenBack {
        /// The batch's id.
        batch: String,
        /// The job's name.
        job: String,
        /// Why.
        why: &'static str,
    },
    /// An account's limit is reached.
    Limit(AccountLimit),
    /// Something keeps it from going on for now. It tries again.
    Trouble(String),
    /// It takes nothing more, and waits for so many runs.
    Stopping {
        /// How many runs are under way.
        running: usize,
    },
}

/// A worker.
#[derive(Debug)]
pub struct Worker {
    shared: Arc<Shared>,
    trouble: mpsc::UnboundedReceiver<String>,
    /// Locked as long as it is open.
    _lock: std::fs::File,
}

/// What all runs of a worker have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) queue: Queue,
    pub(super) post: Post,
    pub(super) outbox: Outbox,
    pub(super) place: Workplace,
    pub(super) options: WorkerOptions,
    /// That of the data folder: what this worker recorded before is here.
    pub(super) id: String,
    /// That of this process.
    pub(super) process: String,
    pub(super) news: mpsc::UnboundedSender<WorkerNews>,
    /// How far each batch is to be stopped.
    pub(super) stopped: watch::Sender<BTreeMap<String, u32>>,
    /// The runs that are under way here, by the key of their outcome, each with its newest message.
    pub(super) running: Mutex<BTreeMap<String, watch::Sender<Arc<Message>>>>,
    /// The jobs that were given back, and why: people are told once.
    pub(super) told_back: Mutex<BTreeSet<(String, &'static str)>>,
    /// The limits that people were told of.
    pub(super) told_limits: Mutex<BTreeMap<String, i64>>,
    places: Arc<Semaphore>,
}

/// How long the broker waits for a run that a worker can take.
const PULL: Duration = Duration::from_secs(5);
/// How long a worker that is to be killed waits for its runs, and one that ends for the broker.
const ENDS: Duration = Duration::from_secs(5);
/// How often a worker that has nothing to do looks for worktrees that nobody needs any more.
const TIDY: Duration = Duration::from_secs(600);
/// How often a worker says that it is there.
const HERE: Duration = Duration::from_secs(10);

impl Worker {
    /// Connects to the broker, and takes the data folder.
    pub async fn open(
        broker: &Broker,
        place: Workplace,
        options: WorkerOptions,
        news: mpsc::UnboundedSender<WorkerNews>,
    ) -> Result<Self, WorkerError> {
        let folder = place.store.root().join("fleet");
        let lock = claim(&folder)?;
        let file = |error| WorkerError::File { path: folder.clone(), error };
        let (id, outbox) = (identity(&place.store).map_err(file)?, Outbox::of(&place.store).map_err(file)?);
        let (told, trouble) = mpsc::unbounded_channel();
        let queue = Box::pin(Queue::open(broker, &format!("tapline worker {}", options.name), told)).await?;
        let post = Post::of(queue.context.clone()).await?;
        // Recordings of an earlier process that was killed.
        resend(&post, &outbox).map_err(file)?;
        let places = Arc::new(Semaphore::new(options.places.max(1)));
        let shared = Shared {
            process: queue.client.new_inbox(),
            queue,
            post,
            outbox,
            place,
            id,
            news,
            stopped: watch::Sender::new(BTreeMap::new()),
            running: Mutex::default(),
            told_back: Mutex::default(),
            told_limits: Mutex::default(),
            places,
            options,
        };
        Ok(Self { shared: Arc::new(shared), trouble, _lock: lock })
    }

    /// Works until it is told to stop: once, and it takes nothing more and lets its runs end; twice, and it stops them, and they go on
    /// elsewhere; three times, and it kills them.
    pub async fn run(self, stop: watch::Receiver<u32>) {
        let Self { shared, mut trouble, _lock } = self;
        let news = shared.news.clone();
        let told = tokio::spawn(async move {
            while let Some(what) = trouble.recv().await {
                let _ = news.send(WorkerNews::Trouble(what));
            }
        });
        let here = [Following::of(Arc::clone(&shared).say_here()), Following::of(Arc::clone(&shared).tidy())];
        let tells = Arc::clone(&shared);
        let controls = shared.queue.control.follow(">".to_owned(), move |batch, value| {
            let control: Control = value.and_then(|value| serde_json::from_slice(value).ok()).unwrap_or_default();
            tells.tell(batch, control);
        });
        let (found, mut classes) = mpsc::unbounded_channel();
        let follows = shared.queue.classes.follow(">".to_owned(), move |name, value| {
            if let Some(class) = value.and_then(|value| serde_json::from_slice::<Class>(value).ok()) {
                let _ = found.send((name.to_owned(), class));
            }
        });
        let _ = shared.news.send(WorkerNews::Ready);
        let mut pulling = JoinSet::new();
        let mut known = BTreeSet::new();
        let mut stopping = stop.clone();
        loop {
            tokio::select! {
                Some((name, class)) = classes.recv() => {
                    // The name is not believed: the labels are what counts.
                    let fits = class.fits(&shared.options.labels, &shared.options.require) && class.name() == name;
                    if fits && known.insert(name.clone()) {
                        pulling.spawn(Arc::clone(&shared).pull(name.clone(), stop.clone()));
                    }
                }
                _ = stopping.wait_for(|level| *level > 0) => break,
            }
        }
        drop(follows);
        let running = lock(&shared.running).len();
        let _ = shared.news.send(WorkerNews::Stopping { running });
        // The third time, nobody waits for long: what was recorded is here, and is found when the worker is started again.
        let ended = async { while pulling.join_next().await.is_some() {} };
        let killed = async {
            let _ = stopping.wait_for(|level| *level > 2).await;
            let _ = tokio::time::timeout(ENDS, stopping.wait_for(|level| *level > 3)).await;
        };
        tokio::select! {
            () = ended => {}
            () = killed => {}
        }
        pulling.shutdown().await;
        drop((controls, here));
        let leaves = async {
            shared.queue.workers.try_remove(&shared.id).await;
            let _ = shared.queue.client.flush().await;
        };
        // A broker that is away never answers.
        let _ = tokio::time::timeout(ENDS, leaves).await;
        told.abort();
    }
}

impl Shared {
    /// Says that it is there, until it ends.
    async fn say_here(self: Arc<Self>) {
        let WorkerOptions { name, places, labels, require, .. } = self.options.clone();
        let (version, process) = (env!("CARGO_PKG_VERSION").to_owned(), self.process.clone());
        let card = WorkerCard { name, places, labels, require, version, process };
        let card = written(&card);
        let mut every = tokio::time::interval(HERE);
        loop {
            every.tick().await;
            self.queue.workers.try_put(&self.id, &card).await;
        }
    }

    /// Removes the worktrees of jobs that have ended elsewhere, whenever it has nothing to do.
    async fn tidy(self: Arc<Self>) {
        let mut every = tokio::time::interval(TIDY);
        loop {
            every.tick().await;
            if lock(&self.running).is_empty() {
                self.remove_worktrees().await;
            }
        }
    }

    async fn remove_worktrees(&self) {
        let folder = self.place.store.root().join("fleet");
        let batches = std::fs::read_dir(folder.join("worktree-notes")).into_iter().flatten().flatten();
        for batch in batches.filter_map(|entry| entry.file_name().into_string().ok()) {
            let places = worktrees(&folder, &batch);
            for job in worktree::jobs(&places) {
                let key = format!("{batch}.{}", names::token(&job));
                let is_here =
                    || lock(&self.running).keys().any(|order| order.rsplit_once('.').is_some_and(|(job, _)| job == key));
                if self.has_ended(&key).await && !is_here() {
                    worktree::remove_of(&places, job).await;
                }
            }
        }
    }

    /// Whether a job has its result.
    async fn has_ended(&self, job: &str) -> bool {
        let Some(run) = self.queue.runs.get::<RunOf>(job).await else { return false };
        let Some(outcome) = self.queue.outcomes.bytes(&format!("{job}.{}", run.value.order)).await else { return false };
        self.queue.unpack::<Outcome>(&outcome.value).await.is_ok_and(|outcome| matches!(outcome.end, End::Over(_)))
    }

    /// A batch is to be stopped so far.
    pub(super) fn tell(&self, batch: &str, control: Control) {
        self.stopped.send_if_modified(|all| {
            if control.stop == 0 {
                return all.remove(batch).is_some();
            }
            all.insert(batch.to_owned(), control.stop) != Some(control.stop)
        });
    }

    /// Takes runs of a class, one after the other, until the worker is stopped.
    async fn pull(self: Arc<Self>, class: String, stop: watch::Receiver<u32>) {
        let mut stopping = stop.clone();
        let consumer = tokio::select! {
            consumer = self.queue.class(&class) => consumer,
            _ = stopping.wait_for(|level| *level > 0) => return,
        };
        let mut runs = JoinSet::new();
        loop {
            while runs.try_join_next().is_some() {}
            let ask = async {
                // It asks only while it has free places, and keeps them free for whoever comes first.
                drop(self.places.acquire().await.ok()?);
                let wanted = self.places.available_permits().max(1);
                consumer.batch().max_messages(wanted).expires(PULL).messages().await.ok()
            };
            let asked = tokio::select! {
                asked = ask => asked,
                _ = stopping.wait_for(|level| *level > 0) => break,
            };
            let mut is_something = false;
            let take = async {
                let Some(mut messages) = asked else { return };
                // A broker that went away says nothing.
                while let Ok(Some(Ok(message))) = tokio::time::timeout(2 * PULL, messages.next()).await {
                    is_something = true;
                    let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
                        let _ = message.ack_with(AckKind::Nak(None)).await;
                        continue;
                    };
                    let taken = Taken::new(&self, message, consumer.cached_info().config.ack_wait);
                    let stop = stop.clone();
                    runs.spawn(async move {
                        taken.make(stop).await;
                        drop(place);
                    });
                }
            };
            tokio::select! {
                () = take => {}
                _ = stopping.wait_for(|level| *level > 0) => break,
            }
            if !is_something {
                // It can be an error that comes at once.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        while runs.join_next().await.is_some() {}
    }

    /// The program of an agent.
    pub(super) fn program(&self, agent: Kind) -> Option<&Path> {
        let of = |wanted: Option<Kind>| {
            let found = self.options.programs.iter().rev().find(|(kind, _)| *kind == wanted);
            found.map(|(_, path)| path.as_path())
        };
        of(Some(agent)).or_else(|| of(None))
    }
}

/// Where the worktrees of a batch are.
pub(super) fn worktrees(folder: &Path, batch: &str) -> Places {
    Places { worktrees: folder.join("worktrees").join(batch), notes: folder.join("worktree-notes").join(batch) }
}

/// Takes the data folder for this process: two workers would take each other's runs for those of one that died.
fn claim(folder: &Path) -> Result<std::fs::File, WorkerError> {
    let path = folder.join("worker");
    let open = || {
        create_private_folder(folder)?;
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path)
    };
    let file = open().map_err(|error| WorkerError::File { path: path.clone(), error })?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(WorkerError::Taken(folder.to_owned())),
        Err(error) => Err(WorkerError::File { path, error: error.into() }),
    }
}
