//! What the fleet needs on the broker: what is missing is made, and what is there stays as it is. Others may make it at the same time.

use std::time::Duration;

use async_nats::jetstream::object_store::{self, ObjectStore};
use async_nats::jetstream::stream::{self, Stream};
use async_nats::jetstream::{Context, kv};
use tokio::time::{Instant, sleep};

use super::bucket::PAUSE;
use super::connect::BrokerError;
use super::names;
use super::trouble::{causes, is_silent};

/// How long the broker keeps files.
const KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How long it may take until something is there that others make at the same time: the servers of a cluster must agree on it.
const AGREED: Duration = Duration::from_secs(15);

/// A stream.
pub(super) async fn stream(context: &Context, what: &'static str, config: stream::Config) -> Result<Stream, BrokerError> {
    let name = config.name.clone();
    make(what, || context.get_stream(&name), || context.create_stream(config.clone())).await
}

/// A bucket of values, which are there for this long.
pub(super) async fn values(context: &Context, name: &str, max_age: Duration) -> Result<kv::Store, BrokerError> {
    let config = || kv::Config { bucket: name.to_owned(), history: 1, max_age, ..kv::Config::default() };
    make("make a bucket of values", || context.get_key_value(name), || context.create_key_value(config())).await
}

/// The bucket of files.
pub(super) async fn files(context: &Context) -> Result<ObjectStore, BrokerError> {
    let config = || object_store::Config {
        bucket: names::FILES.to_owned(),
        description: Some("tapline: what is too large for a message".to_owned()),
        max_age: KEPT,
        ..object_store::Config::default()
    };
    let find = || context.get_object_store(names::FILES);
    make("make a bucket of files", find, || context.create_object_store(config())).await
}

/// Makes something, unless it is there. If that fails, somebody else may have made it just now.
async fn make<T, U, E, F, M>(what: &'static str, find: impl Fn() -> F, make: impl Fn() -> M) -> Result<T, BrokerError>
where
    F: Future<Output = Result<T, U>>,
    M: Future<Output = Result<T, E>>,
    E: std::error::Error + Send + Sync,
{
    let since = Instant::now();
    if let Ok(found) = find().await {
        return Ok(found);
    }
    loop {
        let why = match make().await {
            Ok(new) => return Ok(new),
            Err(error) => causes(&error),
        };
        if let Ok(found) = find().await {
            return Ok(found);
        }
        if !is_silent(&why) || since.elapsed() >= AGREED {
            return Err(BrokerError::failed(what)(why));
        }
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::Error;

    use super::*;

    /// Makes something that others make at the same time, with these words for each failure. It can be found from this look on. Returns how often it was looked for.
    async fn make_beside_others(why: &str, found_at: usize) -> Result<usize, BrokerError> {
        let looks = Cell::new(0);
        let find = async || {
            looks.set(looks.get() + 1);
            if looks.get() >= found_at { Ok(looks.get()) } else { Err(()) }
        };
        make("make it", find, async || Err(Error::other(why.to_owned()))).await
    }

    #[tokio::test(start_paused = true)]
    async fn what_others_make_at_the_same_time_is_found() {
        assert_eq!(make_beside_others("stream name already in use", 2).await.ok(), Some(2));
        assert_eq!(make_beside_others("timed out", 30).await.ok(), Some(30), "the servers of a cluster agree on it later");
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_made_is_told() {
        let refused = make_beside_others("insufficient resources", 3).await.unwrap_err();
        assert_eq!(refused.to_string(), "the broker cannot make it: insufficient resources");
        let (since, silent) = (Instant::now(), make_beside_others("timed out", usize::MAX).await.unwrap_err());
        assert_eq!(silent.to_string(), "the broker cannot make it: timed out");
        assert!(since.elapsed() >= AGREED);
    }
}
