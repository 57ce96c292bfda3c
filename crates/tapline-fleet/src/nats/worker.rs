//! A worker: takes runs from the queue, makes them, and acknowledges them when their outcome is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::jetstream::consumer::{Consumer, pull};
use async_nats::jetstream::{AckKind, Message};
use futures_util::StreamExt as _;
use rustix::fs::{FlockOperation, flock};
use tapline_recording::create_private_folder;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use super::bucket::written;
use super::connect::{Broker, BrokerError};
use super::lock;
use super::order::{Control, WorkerCard};
use super::outbox::Outbox;
use super::post::Post;
use super::queue::{Class, Queue};
use super::ship::resend;
use super::taken::Taken;
use super::workbench::{Workbench, WorkerNews, WorkerOptions};
use crate::identity::identity;
use crate::work::Workplace;

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

/// How long the broker waits for a run that a worker can take.
const PULL: Duration = Duration::from_secs(5);
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
        let places = Semaphore::new(options.places.max(1));
        let shared = Workbench {
            queue,
            post,
            outbox,
            place,
            id,
            news,
            stopped: watch::Sender::new(BTreeMap::new()),
            running: Mutex::default(),
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
        let here = tokio::spawn(Arc::clone(&shared).say_here());
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
                        for _ in 0..shared.options.places.max(1) {
                            pulling.spawn(Arc::clone(&shared).pull(name.clone(), stop.clone()));
                        }
                    }
                }
                _ = stopping.wait_for(|level| *level > 0) => break,
            }
        }
        drop(follows);
        let running = lock(&shared.running).len();
        let _ = shared.news.send(WorkerNews::Stopping { running });
        while pulling.join_next().await.is_some() {}
        drop(controls);
        here.abort();
        shared.queue.workers.try_remove(&shared.id).await;
        let _ = shared.queue.client.flush().await;
        told.abort();
    }
}

impl Workbench {
    /// Says that it is there, until it ends.
    async fn say_here(self: Arc<Self>) {
        let WorkerOptions { name, places, labels, require, .. } = self.options.clone();
        let card = WorkerCard { name, places, labels, require, version: env!("CARGO_PKG_VERSION").to_owned() };
        let card = written(&card);
        let mut every = tokio::time::interval(HERE);
        loop {
            every.tick().await;
            self.queue.workers.try_put(&self.id, &card).await;
        }
    }

    /// Takes runs of a class, one after the other, until the worker is stopped.
    async fn pull(self: Arc<Self>, class: String, stop: watch::Receiver<u32>) {
        let mut stopping = stop.clone();
        let consumer = tokio::select! {
            consumer = self.queue.class(&class) => consumer,
            _ = stopping.wait_for(|level| *level > 0) => return,
        };
        loop {
            // It asks only while it has a free place, and keeps it free for whoever comes first.
            let next = async {
                drop(self.places.acquire().await.ok()?);
                next(&consumer).await
            };
            let message = tokio::select! {
                message = next => message,
                _ = stopping.wait_for(|level| *level > 0) => return,
            };
            let Some(message) = message else { continue };
            let Ok(_place) = self.places.try_acquire() else {
                let _ = message.ack_with(AckKind::Nak(None)).await;
                continue;
            };
            let taken = Taken::new(&self, message, consumer.cached_info().config.ack_wait);
            Box::pin(taken.make(stop.clone())).await;
        }
    }
}

/// The next run of a class.
async fn next(consumer: &Consumer<pull::Config>) -> Option<Message> {
    let asked = async { consumer.batch().max_messages(1).expires(PULL).messages().await.ok()?.next().await?.ok() };
    // A broker that went away says nothing.
    let message = tokio::time::timeout(2 * PULL, asked).await.ok().flatten();
    if message.is_none() {
        // It can be an error that comes at once.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    message
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
