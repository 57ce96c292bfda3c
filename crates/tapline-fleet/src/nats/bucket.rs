//! Values on the broker, by their keys. Everything is tried again while the broker is away, and everything can be tried again: a value that
//! is written for the second time, because the answer to the first try was lost, is as good as written once.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::kv::{self, Operation, UpdateErrorKind};
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::trouble::Trouble;

/// A bucket of values.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    store: kv::Store,
    trouble: Arc<Trouble>,
    /// Changes when what is on the broker was made again.
    renewed: Arc<watch::Sender<u64>>,
}

/// A value that was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found<T> {
    pub(crate) value: T,
    /// Changes with every change of the value.
    pub(crate) revision: u64,
    /// When it was written, in nanoseconds by the time of the broker.
    pub(crate) nanos: i128,
}

/// What was last written with a key.
struct Last {
    found: Found<Bytes>,
    is_removed: bool,
}

/// A value of nobody's yet.
pub(crate) const NEW: u64 = 0;

/// How long after a failure the next try comes.
pub(crate) const PAUSE: Duration = Duration::from_millis(250);

impl Bucket {
    pub(crate) fn new(store: kv::Store, trouble: Arc<Trouble>, renewed: Arc<watch::Sender<u64>>) -> Self {
        Self { store, trouble, renewed }
    }

    /// Reads a value, and tries again until the broker answers.
    pub(crate) async fn bytes(&self, key: &str) -> Option<Found<Bytes>> {
        match self.last(key).await? {
            Last { found, is_removed: false } => Some(found),
            Last { is_removed: true, .. } => None,
        }
    }

    /// Reads what was last written with this key, from the server that decides about it: others of a cluster may not know it yet.
    async fn last(&self, key: &str) -> Option<Last> {
        let subject = format!("{}{key}", self.store.prefix);
        loop {
            match self.store.stream.get_last_raw_message_by_subject(&subject).await {
                Ok(message) => {
                    self.trouble.over("read a value");
                    // Only a value that was removed has a header of these.
                    let is_removed =
                        ["KV-Operation", "Nats-Marker-Reason"].iter().any(|name| message.headers.get(*name).is_some());
                    let nanos = message.time.unix_timestamp_nanos();
                    let found = Found { value: message.payload, revision: message.sequence, nanos };
                    return Some(Last { found, is_removed });
                }
                Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {
                    self.trouble.over("read a value");
                    return None;
                }
                Err(error) => self.trouble.is("read a value", &error).await,
            }
        }
    }

    /// Reads a value. One that cannot be read as such is as good as none.
    pub(crate) async fn get<T: DeserializeOwned>(&self, key: &str) -> Option<Found<T>> {
        let Found { value, revision, nanos } = self.bytes(key).await?;
        Some(Found { value: serde_json::from_slice(&value).ok()?, revision, nanos })
    }

    /// Reads a value that can be changed then. One that is not there, or cannot be read as such, is an empty one.
    pub(crate) async fn get_or_empty<T: DeserializeOwned + Default>(&self, key: &str) -> Found<T> {
        match self.bytes(key).await {
            Some(Found { value, revision, nanos }) => {
                Found { value: serde_json::from_slice(&value).unwrap_or_default(), revision, nanos }
            }
            None => Found { value: T::default(), revision: NEW, nanos: 0 },
        }
    }

    /// The keys of all values.
    pub(crate) async fn keys(&self) -> Vec<String> {
        let prefix = &self.store.prefix;
        loop {
            let listed =
                async { self.store.stream.info_with_subjects(format!("{prefix}>")).await?.try_collect::<Vec<_>>().await };
            match listed.await {
                Ok(subjects) => {
                    self.trouble.over("list values");
                    let key = |(subject, _): (String, usize)| subject.strip_prefix(prefix.as_str()).map(str::to_owned);
                    return subjects.into_iter().filter_map(key).collect();
                }
                Err(error) => self.trouble.is("list values", &error).await,
            }
        }
    }

    /// Writes a value if the one before is still this one ([`NEW`] if there was none). Returns whether it was: if not, somebody else was
    /// faster.
    pub(crate) async fn swap(&self, key: &str, value: &Bytes, before: u64) -> bool {
        let mut revision = before;
        loop {
            match self.store.update(key, value.clone(), revision).await {
                Ok(_) => {
                    self.trouble.over("keep a value");
                    return true;
                }
                Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => match self.last(key).await {
                    // Perhaps it was ourselves, and the answer was lost.
                    Some(Last { found, is_removed: false }) => return found.value == *value,
                    // It was there and is gone: its time is over, or somebody removed it.
                    Some(Last { found, is_removed: true }) if before == NEW => revision = found.revision,
                    None if before == NEW => revision = NEW,
                    Some(_) | None => return false,
                },
                Err(error) => self.trouble.is("keep a value", &error).await,
            }
        }
    }

    /// Changes a value that is there, whoever else changes it meanwhile. `change` says whether there is something to change.
    pub(crate) async fn change<T: DeserializeOwned + Serialize>(&self, key: &str, change: impl Fn(&mut T) -> bool) {
        while let Some(Found { mut value, revision, .. }) = self.get::<T>(key).await {
            if !change(&mut value) || self.swap(key, &written(&value), revision).await {
                break;
            }
        }
    }

    /// Writes a value, whatever was there.
    pub(crate) async fn put(&self, key: &str, value: &Bytes) {
        while let Err(error) = self.store.put(key, value.clone()).await {
            self.trouble.is("keep a value", &error).await;
        }
        self.trouble.over("keep a value");
    }

    /// Writes a value once, and does not insist. Returns whether it is written.
    pub(crate) async fn try_put(&self, key: &str, value: &Bytes) -> bool {
        self.store.put(key, value.clone()).await.is_ok()
    }

    /// Removes a value, and does not insist.
    pub(crate) async fn try_remove(&self, key: &str) {
        let _ = self.store.purge(key).await;
    }

    /// Follows values, for good: those that are there come first. `None` is one that was removed. Whoever must not miss a value reads it,
    /// too: the connection can be lost.
    pub(crate) fn follow(&self, keys: String, mut seen: impl FnMut(&str, Option<&Bytes>) + Send + 'static) -> Following {
        let (store, mut renewed) = (self.store.clone(), self.renewed.subscribe());
        Following::of(async move {
            loop {
                let watches = async {
                    let Ok(mut watched) = store.watch_with_history(&keys).await else { return };
                    while let Some(Ok(entry)) = watched.next().await {
                        seen(&entry.key, Some(&entry.value).filter(|_| entry.operation == Operation::Put));
                    }
                };
                // In a bucket that is new, nothing comes after what was seen last.
                tokio::select! {
                    () = watches => {}
                    _ = renewed.changed() => {}
                }
                tokio::time::sleep(PAUSE).await;
            }
        })
    }
}

/// Something that goes on until this is dropped.
#[derive(Debug)]
pub(crate) struct Following(JoinHandle<()>);

impl Following {
    pub(crate) fn of(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(task))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A value as it is kept.
pub(crate) fn written(value: &impl Serialize) -> Bytes {
    // Our own values can always be written.
    Bytes::from(serde_json::to_vec(value).unwrap_or_default())
}
