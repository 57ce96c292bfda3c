//! What the fleet needs on the broker: what is missing is made, and what is there stays as it is. Others may make it at the same time.

use std::time::Duration;

use async_nats::jetstream::object_store::{self, ObjectStore};
use async_nats::jetstream::stream::{self, DiscardPolicy, RetentionPolicy, StorageType, Stream};
use async_nats::jetstream::{Context, kv};
use tokio::time::{Instant, sleep};

use super::bucket::PAUSE;
use super::connect::BrokerError;
use super::names;
use super::trouble::{causes, is_silent, is_unknown};

/// How long the broker knows which pieces it has.
const REMEMBERED: Duration = Duration::from_secs(2 * 60);
/// How long it may take until something is there that others make at the same time: the servers of a cluster must agree on it.
const AGREED: Duration = Duration::from_secs(15);

/// A stream.
pub(super) async fn stream(context: &Context, config: stream::Config) -> Result<Stream, BrokerError> {
    let name = config.name.clone();
    make(&name, || context.get_stream(&name), || context.create_stream(config.clone())).await
}

/// The stream of recordings.
pub(super) async fn recordings(context: &Context) -> Result<Stream, BrokerError> {
    let config = stream::Config {
        name: names::RECORDINGS.to_owned(),
        description: Some("tapline: pieces of recordings".to_owned()),
        subjects: vec![names::RECORDING_SUBJECTS.to_owned()],
        retention: RetentionPolicy::Limits,
        max_age: names::LIFE,
        discard: DiscardPolicy::New,
        duplicate_window: REMEMBERED,
        storage: StorageType::File,
        ..stream::Config::default()
    };
    stream(context, config).await
}

/// A bucket of values, which are there for this long.
pub(super) async fn values(context: &Context, name: &str, max_age: Duration) -> Result<kv::Store, BrokerError> {
    let config = || kv::Config { bucket: name.to_owned(), history: 1, max_age, ..kv::Config::default() };
    make(name, || context.get_key_value(name), || context.create_key_value(config())).await
}

/// A bucket of files.
pub(super) async fn files(context: &Context, name: &str) -> Result<ObjectStore, BrokerError> {
    let config = || object_store::Config {
        bucket: name.to_owned(),
        description: Some("tapline: what is too large for a message".to_owned()),
        max_age: names::LIFE,
        ..object_store::Config::default()
    };
    make(name, || context.get_object_store(name), || context.create_object_store(config())).await
}

/// Makes something, unless it is there. If that fails, somebody else may have made it just now.
async fn make<T, U, E, F, M>(name: &str, find: impl Fn() -> F, make: impl Fn() -> M) -> Result<T, BrokerError>
where
    F: Future<Output = Result<T, U>>,
    M: Future<Output = Result<T, E>>,
    U: std::error::Error + Send + Sync,
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
        let missing = match find().await {
            Ok(found) => return Ok(found),
            Err(error) => causes(&error),
        };
        if !is_silent(&why) {
            return Err(BrokerError::failed("make what tapline needs")(format!("{name}: {why}")));
        }
        if since.elapsed() >= AGREED {
            // The broker answers, and says nothing to whoever has no right to ask.
            if is_unknown(&missing) {
                return Err(BrokerError::Missing { name: name.to_owned() });
            }
            return Err(BrokerError::failed("make what tapline needs")(format!("{name}: {why}")));
        }
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::Error;

    use super::*;

    const UNKNOWN: &str = "jetstream error: stream not found (code 404, error code 10059)";

    /// Makes something that others make at the same time, with these words for each failure. It can be found from this look on. Returns how often it was looked for.
    async fn make_beside_others(why: &str, found: &'static str, found_at: usize) -> Result<usize, BrokerError> {
        let looks = Cell::new(0);
        let find = async || {
            looks.set(looks.get() + 1);
            if looks.get() >= found_at { Ok(looks.get()) } else { Err(Error::other(found)) }
        };
        make("it", find, async || Err(Error::other(why.to_owned()))).await
    }

    #[tokio::test(start_paused = true)]
    async fn what_others_make_at_the_same_time_is_found() {
        assert_eq!(make_beside_others("stream name already in use", UNKNOWN, 2).await.ok(), Some(2));
        assert_eq!(
            make_beside_others("timed out", UNKNOWN, 30).await.ok(),
            Some(30),
            "the servers of a cluster agree on it later"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_made_is_told() {
        let refused = make_beside_others("insufficient resources", UNKNOWN, 3).await.unwrap_err();
        assert_eq!(refused.to_string(), "the broker cannot make what tapline needs: it: insufficient resources");
        let (since, silent) = (Instant::now(), make_beside_others("timed out", "timed out", usize::MAX).await.unwrap_err());
        assert_eq!(silent.to_string(), "the broker cannot make what tapline needs: it: timed out");
        assert!(since.elapsed() >= AGREED);
        let missing = make_beside_others("timed out", UNKNOWN, usize::MAX).await.unwrap_err();
        assert_eq!(missing.to_string(), "the broker has no it, and this user may not make it");
    }
}
