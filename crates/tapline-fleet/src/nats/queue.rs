//! The broker as the fleet uses it: the work queue, and buckets of values. What is missing is made; what an operator made is taken as it is.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, Consumer, pull};
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::object_store::ObjectStore;
use async_nats::jetstream::stream::{self, DiscardPolicy, RetentionPolicy, StorageType, Stream};
use async_nats::jetstream::{Context, kv};
use async_nats::{Client, HeaderMap};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tapline_protocol::Agent as Kind;
use tapline_recording::Store;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::bucket::{Bucket, Found, PAUSE, written};
use super::connect::{Broker, BrokerError};
use super::files::{Files, Parcel};
use super::key::{self, Key};
use super::role::BrokerRole;
use super::trouble::Trouble;
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
    /// What is large of orders, and of what workers send.
    orders: Files,
    pub(crate) files: Files,
    /// With it, orders and outcomes are signed.
    key: Arc<Key>,
    /// Whose orders, or whose outcomes, are believed.
    trusted: Arc<BTreeSet<String>>,
    pub(crate) trouble: Arc<Trouble>,
    /// Counts how often something was found that is new on the broker: what was there before was deleted, or lost.
    pub(crate) renewed: Arc<watch::Sender<u64>>,
    /// When each was made.
    made_at: Arc<Mutex<Vec<String>>>,
    /// Why nothing can go on here until somebody with more rights does something.
    gone: Arc<watch::Sender<Option<String>>>,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

/// How often somebody looks whether everything is there.
pub(crate) const UPKEEP: Duration = Duration::from_secs(10);
/// How long that may take: whether something is missing is believed after a while.
const LOOKS: Duration = Duration::from_secs(30);
/// What is told when it was not.
const RENEWED: &str = "what tapline had on the broker was deleted or lost, and was made again; what waited is ordered again";
/// What is told when a queue was not.
const QUEUE: &str = "a queue on the broker was deleted, and was made again";
/// How long a worker may be silent, as usual, before its run is given to another.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// After this time without a word, a worker is not counted any more.
pub(crate) const SILENT: Duration = Duration::from_secs(30);
/// No limit lasts longer than a week. An agent that says so is wrong, and must not hold up everybody.
const LONGEST_LIMIT: i64 = 8 * 24 * 60 * 60;

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
    pub(crate) async fn open(
        broker: &Broker,
        role: BrokerRole,
        name: &str,
        store: &Store,
        told: mpsc::UnboundedSender<String>,
    ) -> Result<Self, BrokerError> {
        let key = Key::of(store).map_err(|error| BrokerError::File { path: store.root().to_owned(), error })?;
        let trouble = Arc::new(Trouble::new(told));
        let (client, context) = broker.jetstream(role, name, Some(Arc::clone(&trouble))).await?;
        let renewed = Arc::default();
        let stores = Box::pin(Stores::open(&context)).await?;
        let made_at = Arc::new(Mutex::new(stores.made_at()));
        let Stores { jobs, values, files } = stores;
        let [orders, files] = files.map(|(name, store)| {
            let (client, context, trouble) = (client.clone(), context.clone(), Arc::clone(&trouble));
            Files { store, name, client, context, trouble }
        });
        let (key, trusted, gone) = (Arc::new(key), Arc::new(broker.trusted.clone()), Arc::default());
        let [outcomes, runs, limits, classes, workers, control] =
            values.map(|store| Bucket::new(store, Arc::clone(&trouble), Arc::clone(&renewed)));
        Ok(Self {
            client,
            context,
            jobs,
            outcomes,
            runs,
            limits,
            classes,
            workers,
            control,
            orders,
            files,
            key,
            trusted,
            trouble,
            renewed,
            made_at,
            gone,
        })
    }

    /// Waits until nothing can go on here, and says why.
    pub(crate) async fn is_gone(&self) -> String {
        let mut gone = self.gone.subscribe();
        let why = gone.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        match why {
            Some(why) => why,
            None => std::future::pending().await,
        }
    }

    /// Makes again what somebody deleted or what the broker lost, for good, and the queues of these classes.
    pub(crate) async fn look_after(self, wanted: impl Fn() -> Vec<Class>) {
        loop {
            let _ = timeout(UPKEEP, self.trouble.back()).await;
            match timeout(LOOKS, Box::pin(Stores::open(&self.context))).await {
                Ok(Ok(stores)) => {
                    self.gone.send_replace(None);
                    let now = stores.made_at();
                    if std::mem::replace(&mut *lock(&self.made_at), now.clone()) != now {
                        self.trouble.tell(RENEWED.to_owned());
                        self.renewed.send_modify(|count| *count += 1);
                    }
                }
                Ok(Err(missing @ BrokerError::Missing { .. })) => {
                    self.trouble.tell(missing.to_string());
                    self.gone.send_replace(Some(missing.to_string()));
                }
                Ok(Err(_)) | Err(_) => {}
            }
            for class in wanted() {
                self.make_class(&class).await;
            }
        }
    }

    /// Puts an order on the queue. If it is there already, it stays as it is. Fails if the broker will never take it.
    pub(crate) async fn order(&self, subject: &str, order: &impl Serialize) -> Result<(), String> {
        let payload = self.signed_order(subject, order).await;
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

    /// Makes an order of a value, for this subject.
    async fn signed_order(&self, subject: &str, order: &impl Serialize) -> Bytes {
        self.key.sign(subject, &self.orders.pack(subject, "", order).await)
    }

    /// Reads an order. It is believed if somebody signed it whom we trust.
    pub(crate) async fn read_order<T: DeserializeOwned>(&self, subject: &str, bytes: &Bytes) -> Result<T, String> {
        let payload = self.believed(subject, bytes, "its author").map_err(|why| format!("the order is not taken: {why}"))?;
        let read = self.orders.unpack(&payload).await;
        read.map_err(|why| format!("the order cannot be read: {why}. Is the worker older than the batch?"))
    }

    /// Makes an outcome of a value, for the order with this key.
    pub(crate) async fn signed_outcome(&self, key: &str, about: &str, outcome: &impl Serialize) -> Bytes {
        self.key.sign(&names::outcome_subject(key), &self.files.pack(key, about, outcome).await)
    }

    /// Reads an outcome. It is believed if somebody signed it whom we trust.
    pub(crate) async fn read_outcome<T: DeserializeOwned>(&self, key: &str, bytes: &Bytes) -> Result<T, String> {
        let payload = self.believed(&names::outcome_subject(key), bytes, "the worker")?;
        self.files.unpack(&payload).await
    }

    /// What stands in an outcome that is not large, or what is said of one that is. `None` if there is none.
    pub(crate) async fn outcome_in_brief<T: DeserializeOwned>(&self, key: &str) -> Option<Parcel<T>> {
        let found = self.outcomes.bytes(key).await?;
        let (_, payload) = key::open(&names::outcome_subject(key), &found.value).ok()?;
        serde_json::from_slice(&payload).ok()
    }

    /// What is signed, if somebody did whom we trust. Whoever trusts nobody in particular trusts everybody who may write to the broker.
    fn believed(&self, subject: &str, bytes: &Bytes, who: &str) -> Result<Bytes, String> {
        let (signer, payload) = key::open(subject, bytes)?;
        if self.trusts(&signer) {
            return Ok(payload);
        }
        Err(format!("the key of {who} is {signer}, and `trust` does not name it here"))
    }

    fn trusts(&self, signer: &str) -> bool {
        self.trusted.is_empty() || self.trusted.contains(signer)
    }

    /// Whether somebody signed it whom we do not trust. Others may.
    pub(crate) fn is_of_stranger(&self, subject: &str, bytes: &Bytes) -> bool {
        key::open(subject, bytes).is_ok_and(|(signer, _)| !self.trusts(&signer))
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

/// Makes everything that the fleet needs on the broker and that is missing.
pub async fn setup(broker: &Broker) -> Result<(), BrokerError> {
    let (_, context) = broker.jetstream(BrokerRole::Setup, "tapline doctor", None).await?;
    Box::pin(Stores::open(&context)).await.map(drop)
}

/// What the fleet has on the broker. What is missing is made.
struct Stores {
    jobs: Stream,
    /// Outcomes, runs, limits, classes, workers, control.
    values: [kv::Store; 6],
    /// Those of orders, and those of workers.
    files: [(&'static str, ObjectStore); 2],
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
        let (jobs, _, outcomes, runs, limits, classes, workers, control, orders, files) = tokio::try_join!(
            made::stream(context, config),
            made::recordings(context),
            values(names::OUTCOMES, names::LIFE),
            values(names::RUNS, names::LIFE),
            values(names::LIMITS, 8 * DAY),
            values(names::CLASSES, Duration::ZERO),
            values(names::WORKERS, SILENT),
            values(names::CONTROL, names::LIFE),
            made::files(context, names::ORDERS),
            made::files(context, names::FILES),
        )?;
        let files = [(names::ORDERS, orders), (names::FILES, files)];
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
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert_eq!(class(&["agent=claude"], &[]).name(), "89271ad3e5b5c517", "it must never change");
        let usual = class(&["agent=claude"], &[]).with_patience(PATIENCE);
        assert_eq!(usual, class(&["agent=claude"], &[]));
    }
}
