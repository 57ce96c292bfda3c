//! The broker as the fleet uses it: the work queue, and buckets of values. What is missing is made; what an operator made is taken as it is.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, pull};
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::object_store::{self, ObjectMetadata, ObjectStore};
use async_nats::jetstream::stream::{self, DiscardPolicy, RetentionPolicy, StorageType, Stream};
use async_nats::jetstream::{Context, kv};
use async_nats::{Client, HeaderMap};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tapline_protocol::Agent as Kind;
use tokio::io::AsyncReadExt as _;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

use super::bucket::{Bucket, Found, PAUSE, written};
use super::connect::{Broker, BrokerError, chunk_size, most_bytes};
use super::trouble::{Trouble, causes};
use super::{lock, made, names};
use crate::note::AccountLimit;
use crate::work::unix_now;

/// The broker as the fleet uses it.
#[derive(Clone)]
pub(crate) struct Queue {
    pub(crate) client: Client,
    pub(crate) context: Context,
    jobs: Stream,
    pub(crate) outcomes: Bucket,
    pub(crate) runs: Bucket,
    pub(crate) limits: Bucket,
    pub(crate) classes: Bucket,
    pub(crate) workers: Bucket,
    pub(crate) control: Bucket,
    files: ObjectStore,
    pub(crate) trouble: Arc<Trouble>,
    /// Counts how often something was found that is new on the broker: what was there before was deleted, or lost.
    pub(crate) renewed: Arc<watch::Sender<u64>>,
    /// When each was made.
    made_at: Arc<Mutex<Vec<String>>>,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

/// How often somebody looks whether everything is there.
pub(crate) const UPKEEP: Duration = Duration::from_secs(10);
/// What is told when it was not.
const RENEWED: &str = "what tapline had on the broker was deleted or lost, and was made again; what waited is ordered again";
/// What is told when a queue was not.
const QUEUE: &str = "a queue on the broker was deleted, and was made again";
/// How long a worker may be silent, as usual, before its run is given to another.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// After this time without a word, a worker is not counted any more.
pub(crate) const SILENT: Duration = Duration::from_secs(30);
/// What is larger goes through the object store. A message has at most a mebibyte, if nobody changed that.
const LARGE: usize = 700 * 1024;
/// Nothing that is read from the object store at once is larger.
pub(crate) const LARGEST: u64 = 256 * 1024 * 1024;
/// How long the broker has for a file.
const READ: Duration = Duration::from_secs(60);
/// How long servers of a cluster have to agree on a file: an election, and a server that catches up with the others.
pub(super) const SETTLES: Duration = Duration::from_secs(30);
/// How long the pause between two looks at a file becomes.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// Why a file cannot be read that was there.
const PARTLY: &str = "a part of it is not on the broker any more";
/// No limit lasts longer than a week. An agent that says so is wrong, and must not hold up everybody.
const LONGEST_LIMIT: i64 = 8 * 24 * 60 * 60;

/// A value, or where it is if it is large.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Parcel<T> {
    Here(T),
    /// The name of an object.
    Object(String),
}

/// Why a file cannot be read.
enum Unread {
    /// It cannot be read now. Perhaps soon.
    Yet(String),
    /// That stays so.
    Never(String),
}

/// Which jobs a class has, and which workers they want.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Class {
    pub(crate) labels: Vec<String>,
    pub(crate) worker: Vec<String>,
    /// How long a worker may be silent, in milliseconds, if it is not as usual: batches that want it otherwise have queues of their own, so
    /// that none changes it for runs of another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) patience_ms: Option<u64>,
}

impl Class {
    /// Its name: a hash, so that the same labels have the same queue everywhere.
    pub(crate) fn name(&self) -> String {
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        let parts = self.labels.iter().map(|label| (b'l', label)).chain(self.worker.iter().map(|label| (b'w', label)));
        for (kind, label) in parts {
            for byte in [kind].into_iter().chain(label.bytes()).chain([0]) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        for byte in self.patience_ms.into_iter().flat_map(u64::to_le_bytes) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        format!("{hash:016x}")
    }

    /// Wants a worker to be silent for at most this long.
    pub(crate) fn with_patience(mut self, patience: Duration) -> Self {
        self.patience_ms = Some(patience)
            .filter(|patience| *patience != PATIENCE)
            .map(|patience| u64::try_from(patience.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// The agent of its jobs: it is always among their labels.
    pub(crate) fn agent(&self) -> Kind {
        let named = |label: &String| Kind::named(label.strip_prefix("agent=")?);
        self.labels.iter().find_map(named).unwrap_or_default()
    }

    fn patience(&self) -> Duration {
        self.patience_ms.map_or(PATIENCE, Duration::from_millis)
    }

    /// Whether a worker that has these labels and asks for those takes its jobs.
    pub(crate) fn fits(&self, has: &[String], asks: &[String]) -> bool {
        asks.iter().all(|label| self.labels.contains(label)) && self.worker.iter().all(|label| has.contains(label))
    }
}

impl Queue {
    /// Connects, and makes what is missing.
    pub(crate) async fn open(broker: &Broker, name: &str, told: mpsc::UnboundedSender<String>) -> Result<Self, BrokerError> {
        let trouble = Arc::new(Trouble::new(told));
        let (client, context) = broker.jetstream(name, Some(Arc::clone(&trouble))).await?;
        let renewed = Arc::default();
        let stores = Box::pin(Stores::open(&context)).await?;
        let made_at = Arc::new(Mutex::new(stores.made_at()));
        let Stores { jobs, values, files } = stores;
        let [outcomes, runs, limits, classes, workers, control] =
            values.map(|store| Bucket::new(store, Arc::clone(&trouble), Arc::clone(&renewed)));
        Ok(Self { client, context, jobs, outcomes, runs, limits, classes, workers, control, files, trouble, renewed, made_at })
    }

    /// Makes again what somebody deleted or what the broker lost, for good, and the queues of these classes.
    pub(crate) async fn look_after(self, wanted: impl Fn() -> Vec<Class>) {
        loop {
            let _ = timeout(UPKEEP, self.trouble.back()).await;
            if let Ok(Ok(stores)) = timeout(UPKEEP, Box::pin(Stores::open(&self.context))).await {
                let now = stores.made_at();
                if std::mem::replace(&mut *lock(&self.made_at), now.clone()) != now {
                    self.trouble.tell(RENEWED.to_owned());
                    self.renewed.send_modify(|count| *count += 1);
                }
            }
            for class in wanted() {
                self.make_class(&class).await;
            }
        }
    }

    /// Puts an order on the queue. If it is there already, it stays as it is. Fails if the broker will never take it.
    pub(crate) async fn order(&self, subject: &str, order: &impl Serialize) -> Result<(), String> {
        let payload = self.pack(subject, order).await;
        loop {
            let mut headers = HeaderMap::new();
            headers.insert(async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, "0");
            let sent = self.context.publish_with_headers(subject.to_owned(), headers, payload.clone()).await;
            let error = match sent {
                Ok(sent) => match sent.await {
                    Ok(_) => break,
                    Err(error) => error,
                },
                Err(error) => error,
            };
            match error.kind() {
                PublishErrorKind::WrongLastSequence => break,
                PublishErrorKind::MaxPayloadExceeded => {
                    return Err("it is larger than a message may be: raise `max_payload` of the broker".to_owned());
                }
                _ => self.trouble.is("take a job", &error).await,
            }
        }
        self.trouble.over("take a job");
        Ok(())
    }

    /// Removes the orders of a batch that nobody has acknowledged.
    pub(crate) async fn withdraw(&self, batch: &str) {
        while let Err(error) = self.jobs.purge().filter(names::batch_subjects(batch)).await {
            self.trouble.is("remove jobs", &error).await;
        }
        self.trouble.over("remove jobs");
    }

    /// Makes the queue of a class, if it is not there.
    pub(crate) async fn make_class(&self, class: &Class) {
        let name = class.name();
        let consumer = names::consumer(&name);
        let is_new = loop {
            if self.jobs.get_consumer::<pull::Config>(&consumer).await.is_ok() {
                break false;
            }
            let config = pull::Config {
                durable_name: Some(consumer.clone()),
                filter_subject: names::class_subjects(&name),
                ack_policy: AckPolicy::Explicit,
                ack_wait: class.patience(),
                max_deliver: -1,
                max_ack_pending: 100_000,
                max_waiting: 10_000,
                ..pull::Config::default()
            };
            match self.jobs.create_consumer(config).await {
                Ok(_) => break true,
                Err(error) => self.trouble.is("make a queue", &error).await,
            }
        };
        // Nobody finds a queue by a note that cannot be read.
        let note = self.classes.get_or_empty::<Class>(&name).await;
        if note.value.name() != name {
            self.classes.swap(&name, &written(class), note.revision).await;
        } else if is_new {
            self.trouble.tell(QUEUE.to_owned());
        }
        self.trouble.over("make a queue");
    }

    /// Returns the queue of a class.
    pub(crate) async fn class(&self, name: &str) -> Consumer<pull::Config> {
        loop {
            match self.jobs.get_consumer(&names::consumer(name)).await {
                Ok(consumer) => return consumer,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Makes a value of an order or of an outcome. What is too large for a message is put aside under this name.
    pub(crate) async fn pack(&self, name: &str, value: &impl Serialize) -> Bytes {
        let here = written(&Parcel::Here(value));
        // An operator may have made messages smaller.
        if here.len() <= LARGE.min(most_bytes(&self.client)) {
            return here;
        }
        let object = format!("{name}-{}", self.client.new_inbox());
        self.put_file(&object, &written(value)).await;
        written(&Parcel::<()>::Object(object))
    }

    /// Reads such a value.
    pub(crate) async fn unpack<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, String> {
        match serde_json::from_slice::<Parcel<T>>(bytes).map_err(|error| error.to_string())? {
            Parcel::Here(value) => Ok(value),
            Parcel::Object(name) => {
                let bytes = self.file(&name).await?;
                serde_json::from_slice(&bytes).map_err(|error| error.to_string())
            }
        }
    }

    /// Puts a file aside.
    pub(crate) async fn put_file(&self, name: &str, bytes: &Bytes) {
        loop {
            let chunk_size = Some(chunk_size(&self.client));
            let about = ObjectMetadata { name: name.to_owned(), chunk_size, ..ObjectMetadata::default() };
            match self.files.put(about, &mut bytes.as_ref()).await {
                Ok(_) => break,
                Err(error) => self.trouble.is("keep a file", &error).await,
            }
        }
        self.trouble.over("keep a file");
    }

    /// Reads a file that was put aside. While the broker is away, it is tried again. A server of a cluster that lags behind the others says that
    /// a file is not there, or sends only a part of it: so that is believed only after a while in which the broker was well.
    pub(crate) async fn file(&self, name: &str) -> Result<Vec<u8>, String> {
        let (mut since, mut pause) = (Instant::now(), PAUSE);
        loop {
            let why = match timeout(READ, self.try_file(name)).await {
                Ok(Ok(bytes)) => {
                    self.trouble.over("read a file");
                    return Ok(bytes);
                }
                Ok(Err(Unread::Never(why))) => return Err(why),
                Ok(Err(Unread::Yet(why))) => why,
                // Of a file whose parts are gone, the broker says nothing; neither does a broker that is away.
                Err(_) => PARTLY.to_owned(),
            };
            let is_connected = self.client.connection_state() == State::Connected;
            // The server that decides about files answers only if enough others are there.
            let answers = self.context.get_stream(format!("OBJ_{}", names::FILES)).await;
            match answers {
                Ok(_) if is_connected && since.elapsed() >= SETTLES => {
                    self.trouble.over("read a file");
                    return Err(why);
                }
                Ok(_) if is_connected => {}
                Ok(_) => since = Instant::now(),
                Err(error) => {
                    self.trouble.is("read a file", &error).await;
                    since = Instant::now();
                }
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    async fn try_file(&self, name: &str) -> Result<Vec<u8>, Unread> {
        use object_store::GetErrorKind as Kind;
        let object = self.files.get(name).await.map_err(|error| match error.kind() {
            Kind::NotFound => Unread::Yet(PARTLY.to_owned()),
            Kind::InvalidName | Kind::BucketLink => Unread::Never(causes(&error)),
            Kind::ConsumerCreate | Kind::Other | Kind::TimedOut => Unread::Yet(causes(&error)),
        })?;
        let (size, mut bytes) = (object.info.size as u64, Vec::new());
        if size > LARGEST {
            return Err(Unread::Never(format!("a value has {size} bytes, which is too much")));
        }
        object.take(LARGEST).read_to_end(&mut bytes).await.map_err(|error| Unread::Yet(causes(&error)))?;
        Ok(bytes)
    }

    /// Tells everybody of a limit. The latest time counts.
    pub(crate) async fn reach_limit(&self, limit: &AccountLimit) {
        let (key, now) = (names::token(&limit.account), unix_now());
        if !is_sound(limit, now) {
            return;
        }
        loop {
            let before: Found<Option<AccountLimit>> = self.limits.get_or_empty(&key).await;
            let lasts = |before: &AccountLimit| before.until >= limit.until && is_sound(before, now);
            if before.value.as_ref().is_some_and(lasts) || self.limits.swap(&key, &written(limit), before.revision).await {
                return;
            }
        }
    }

    /// Returns until when the limit of an account is reached, as everybody knows it.
    pub(crate) async fn limit(&self, account: &str, now: i64) -> Option<AccountLimit> {
        let limit: AccountLimit = self.limits.get(&names::token(account)).await?.value;
        is_sound(&limit, now).then_some(limit)
    }
}

/// Whether a limit holds now, and will not hold forever.
pub(crate) fn is_sound(limit: &AccountLimit, now: i64) -> bool {
    (now..now.saturating_add(LONGEST_LIMIT)).contains(&limit.until)
}

/// What the fleet has on the broker. What is missing is made.
struct Stores {
    jobs: Stream,
    /// Outcomes, runs, limits, classes, workers, control.
    values: [kv::Store; 6],
    files: ObjectStore,
}

impl Stores {
    async fn open(context: &Context) -> Result<Self, BrokerError> {
        let config = stream::Config {
            name: names::JOBS.to_owned(),
            description: Some("Runs that somebody should make (tapline)".to_owned()),
            subjects: vec![names::JOB_SUBJECTS.to_owned()],
            retention: RetentionPolicy::WorkQueue,
            discard: DiscardPolicy::New,
            storage: StorageType::File,
            ..stream::Config::default()
        };
        let values = |name, max_age| made::values(context, name, max_age);
        let (jobs, outcomes, runs, limits, classes, workers, control, files) = tokio::try_join!(
            made::stream(context, "make the stream TAPLINE_JOBS", config),
            values(names::OUTCOMES, 30 * DAY),
            values(names::RUNS, 30 * DAY),
            values(names::LIMITS, 8 * DAY),
            values(names::CLASSES, Duration::ZERO),
            values(names::WORKERS, SILENT),
            values(names::CONTROL, 30 * DAY),
            made::files(context),
        )?;
        Ok(Self { jobs, values: [outcomes, runs, limits, classes, workers, control], files })
    }

    /// When each was made.
    fn made_at(&self) -> Vec<String> {
        let streams = self.values.iter().map(|store| &store.stream).chain([&self.jobs]);
        streams.map(|stream| format!("{:?}", stream.cached_info().created)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(labels: &[&str], worker: &[&str]) -> Class {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        Class { labels: texts(labels), worker: texts(worker), patience_ms: None }
    }

    #[test]
    fn a_worker_takes_what_fits() {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        for (of, has, asks, fits) in [
            (class(&["agent=claude"], &[]), &[][..], &[][..], true),
            (class(&["agent=claude"], &[]), &["gpu=yes"], &["agent=claude"], true),
            (class(&["agent=claude"], &[]), &[], &["agent=codex"], false),
            (class(&["agent=claude", "repo=api"], &[]), &[], &["repo=api", "agent=claude"], true),
            (class(&["agent=claude"], &["gpu=yes"]), &[], &[], false),
            (class(&["agent=claude"], &["gpu=yes"]), &["gpu=yes", "x"], &[], true),
        ] {
            assert_eq!(of.fits(&texts(has), &texts(asks)), fits, "{of:?} {has:?} {asks:?}");
        }
    }

    #[test]
    fn the_same_labels_have_the_same_queue() {
        let names = [
            class(&[], &[]),
            class(&["a"], &[]),
            class(&[], &["a"]),
            class(&["a", "b"], &[]),
            class(&["ab"], &[]),
            class(&["a"], &["b"]),
            class(&["a"], &[]).with_patience(Duration::from_secs(3)),
            class(&["a"], &[]).with_patience(Duration::from_secs(4)),
        ]
        .map(|class| class.name());
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len());
        assert_eq!(class(&["agent=claude"], &[]).name(), "89271ad3e5b5c517", "it must never change");
        let usual = class(&["agent=claude"], &[]).with_patience(PATIENCE);
        assert_eq!(usual, class(&["agent=claude"], &[]));
    }
}
