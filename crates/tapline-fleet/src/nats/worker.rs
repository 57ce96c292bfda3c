//! A worker: takes runs from the queue, makes them, and acknowledges them when their outcome is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::jetstream::AckKind;
use futures_util::StreamExt as _;
use rustix::fs::{FlockOperation, flock};
use tapline_recording::create_private_folder;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::bucket::Following;
use super::connect::{Broker, BrokerError};
use super::fitness::Fitness;
use super::order::{Control, RunOf};
use super::outbox::Outbox;
use super::post::Post;
use super::queue::{Class, Queue};
use super::role::BrokerRole;
use super::ship::resend;
use super::taken::Taken;
use super::workbench::{HERE, Workbench, WorkerNews, WorkerOptions, worktrees};
use super::{lock, names};
use crate::identity::identity;
use crate::work::Workplace;
use crate::worktree;

/// Why a worker cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The broker cannot be used.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// Another worker has the data folder.
    #[error("another worker uses {0}: give that one more places for jobs, or this one a data folder of its own (TAPLINE_HOME)")]
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

/// A worker.
#[derive(Debug)]
pub struct Worker {
    shared: Arc<Workbench>,
    trouble: mpsc::UnboundedReceiver<String>,
    /// Locked as long as it is open.
    _lock: std::fs::File,
}

/// How long the broker waits for a run that a worker can take. A worker that is to stop waits as long.
const PULL: Duration = Duration::from_secs(2);
/// How long a worker that is to be killed waits for its runs, and one that ends for the broker.
const ENDS: Duration = Duration::from_secs(5);
/// How long a worker whose runs were stopped waits for a broker that does not answer.
const ANSWERS: Duration = Duration::from_secs(20);
/// What people are told then.
const UNSTORED: &str = "the broker does not answer, so this worker ends without it. What its runs came to is recorded here, and is stored when a \
                        worker starts in this data folder again";
/// How often a worker that has nothing to do looks for worktrees that nobody needs any more.
const TIDY: Duration = Duration::from_secs(600);

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
        let name = format!("tapline worker {}", options.name);
        let queue = Box::pin(Queue::open(broker, BrokerRole::Worker, &name, &place.store, told)).await?;
        let post = Post::of(queue.context.clone()).await?;
        // Recordings of an earlier process that was killed.
        resend(&post, &outbox).map_err(file)?;
        let places = Arc::new(Semaphore::new(options.places.max(1)));
        let shared = Workbench {
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
            fitness: Fitness::default(),
            places,
            options,
            began: Instant::now(),
            said: Mutex::default(),
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
        let here = [
            Following::of(Arc::clone(&shared).stay_here()),
            Following::of(Arc::clone(&shared).tidy()),
            Following::of(Arc::clone(&shared).get_ready()),
            Following::of(shared.queue.clone().look_after(Vec::new)),
        ];
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
        let mut pulling = JoinSet::new();
        let mut known = BTreeSet::new();
        let mut stopping = stop.clone();
        loop {
            tokio::select! {
                Some((name, class)) = classes.recv() => {
                    // The name is not believed: the labels are what counts.
                    let fits = class.fits(&shared.options.labels, &shared.options.require) && class.name() == name;
                    if fits && known.insert(name.clone()) {
                        pulling.spawn(Arc::clone(&shared).pull(class, stop.clone()));
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
            () = shared.unheard(stop.clone()) => {}
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

impl Workbench {
    /// Waits until the worker was stopped twice, and the broker did not answer for long since then: what its runs came to cannot be stored.
    async fn unheard(&self, mut stop: watch::Receiver<u32>) {
        if stop.wait_for(|level| *level > 1).await.is_err() {
            std::future::pending::<()>().await;
        }
        let mut since = Instant::now();
        while since.elapsed() < ANSWERS {
            tokio::time::sleep(Duration::from_millis(500)).await;
            if !self.queue.trouble.is_now() {
                since = Instant::now();
            }
        }
        let _ = self.news.send(WorkerNews::Trouble(UNSTORED.to_owned()));
    }

    /// Says that it is there, until it ends, and at once when the broker is back.
    async fn stay_here(self: Arc<Self>) {
        loop {
            self.say_here(Duration::ZERO).await;
            let _ = tokio::time::timeout(HERE, self.queue.trouble.back()).await;
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
                if self.has_ended(&key).await
                    && !is_here()
                    && let Some(left) = worktree::remove_of(&places, job).await
                {
                    self.queue.trouble.tell(format!("work of a run that was cut off is nowhere but in {}", left.display()));
                }
            }
        }
    }

    /// Whether a job has its result.
    async fn has_ended(&self, job: &str) -> bool {
        let Some(run) = self.queue.runs.get::<RunOf>(job).await else { return false };
        self.how_ended(&format!("{job}.{}", run.value.order)).await.as_deref() == Some("over")
    }

    /// Takes runs of a class, one after the other, until the worker is stopped.
    async fn pull(self: Arc<Self>, class: Class, stop: watch::Receiver<u32>) {
        let mut stopping = stop.clone();
        let agent = class.agent();
        let begins = async {
            self.look(agent).await;
            self.queue.class(&class.name()).await
        };
        let consumer = tokio::select! {
            consumer = begins => consumer,
            _ = stopping.wait_for(|level| *level > 0) => return,
        };
        let mut runs = JoinSet::new();
        loop {
            while runs.try_join_next().is_some() {}
            // It asks only while it has free places, and keeps them free for whoever comes first.
            let can_begin = async {
                self.fit_for(agent).await;
                drop(self.places.acquire().await);
            };
            tokio::select! {
                biased;
                _ = stopping.wait_for(|level| *level > 0) => break,
                () = can_begin => {}
            }
            let (mut is_something, mut is_there) = (false, true);
            let take = async {
                let wanted = self.places.available_permits().max(1);
                is_there = false;
                let Ok(mut messages) = consumer.batch().max_messages(wanted).expires(PULL).messages().await else { return };
                // A broker that went away says nothing.
                while let Ok(next) = tokio::time::timeout(2 * PULL, messages.next()).await {
                    is_there = !matches!(next, Some(Err(_)));
                    let Some(Ok(message)) = next else { return };
                    is_something = true;
                    let place = Arc::clone(&self.places).try_acquire_owned().ok().filter(|_| *stop.borrow() == 0);
                    let Some(place) = place else {
                        let _ = message.ack_with(AckKind::Nak(None)).await;
                        continue;
                    };
                    let taken = Taken::new(&self, message, consumer.cached_info().config.ack_wait, class.clone());
                    let stop = stop.clone();
                    runs.spawn(async move {
                        taken.make(stop).await;
                        drop(place);
                    });
                }
            };
            // Who has asked waits for the answer, also if the worker is to stop: a run on its way to nobody would be missing for long.
            tokio::select! {
                () = take => {}
                _ = stopping.wait_for(|level| *level > 1) => break,
            }
            if !is_something {
                // It can be an error that comes at once: somebody deleted the queue, for example.
                tokio::time::sleep(Duration::from_millis(if is_there { 20 } else { 1000 })).await;
            }
        }
        while runs.join_next().await.is_some() {}
    }
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
