//! Which runs of a batch wait for which outcome.

use std::collections::BTreeMap;
use std::sync::Mutex;

use bytes::Bytes;
use tokio::sync::{oneshot, watch};

use super::lock;

/// Who waits for which outcome.
#[derive(Debug, Default)]
pub(super) struct Waiting(Mutex<BTreeMap<String, oneshot::Sender<Bytes>>>);

impl Waiting {
    /// From now on, the outcome with this key is waited for.
    pub(super) fn wait(&self, key: &str) -> oneshot::Receiver<Bytes> {
        let (tell, told) = oneshot::channel();
        lock(&self.0).insert(key.to_owned(), tell);
        told
    }

    pub(super) fn tell(&self, key: &str, value: Option<&Bytes>) {
        if let Some((waits, value)) = value.and_then(|value| Some((lock(&self.0).remove(key)?, value))) {
            let _ = waits.send(value.clone());
        }
    }

    pub(super) fn forget(&self, key: &str) {
        lock(&self.0).remove(key);
    }
}

/// Waits until somebody asks to stop more often than this.
pub(super) async fn rises(stop: &mut watch::Receiver<u32>, level: u32) {
    if stop.wait_for(|now| *now > level).await.is_err() {
        std::future::pending::<()>().await;
    }
}
