//! A bucket of a store that speaks S3, as a place for the parts of tables.

mod connector;

use std::io::{self, Read as _, Seek as _};
use std::time::Duration;

use bytes::Bytes;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path as Key;
use object_store::{ClientConfigKey, MultipartUpload, ObjectStore, ObjectStoreExt as _, PutPayload, RetryConfig};
use tapline_http::root_cause;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::{PartitionsError, Spooled, without_password};
use connector::Connector;

/// The bytes of a piece. Stores take none that is smaller than 5 MiB.
const PIECE: usize = 8 << 20;
/// How often a request is tried again, and for how long. The rest is for the next time.
const RETRIES: (usize, Duration) = (3, Duration::from_secs(60));
/// How long the store may take to throw away the pieces of a file that was given up.
const ABORT: Duration = Duration::from_secs(5);

/// A place in a store that speaks S3.
#[derive(Debug)]
pub(in crate::partitions) struct Bucket {
    store: Box<dyn ObjectStore>,
    /// What is larger than two pieces is sent in pieces, of which each is in memory for a moment.
    piece: usize,
    name: String,
    prefix: Key,
    /// The address of the store, if it is not Amazon's.
    endpoint: Option<String>,
    /// Always there, until it is dropped.
    runtime: Option<Runtime>,
}

impl Drop for Bucket {
    fn drop(&mut self) {
        // Where nobody may wait, a runtime must not be dropped as other values are.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Bucket {
    /// Reads `BUCKET/PREFIX`. Keys and the address of the store come from the environment.
    pub(super) fn of(bucket: &str, wrong: &dyn Fn(&str) -> PartitionsError) -> Result<Self, PartitionsError> {
        let (name, prefix) = bucket.split_once('/').unwrap_or((bucket, ""));
        if name.is_empty() || name.contains(['@', ':', '?']) {
            return Err(wrong("the name of a bucket comes first, as in s3://BUCKET/PREFIX; keys are never part of it"));
        }
        let prefix = Key::parse(prefix.trim_end_matches('/')).map_err(|error| wrong(&error.to_string()))?;
        let builder = AmazonS3Builder::from_env().with_bucket_name(name);
        let value = |key| builder.get_config_value(&key).filter(|value| !value.is_empty());
        let endpoint = value(AmazonS3ConfigKey::S3Endpoint).or_else(|| value(AmazonS3ConfigKey::Endpoint));
        let allows_http = value(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp)).is_some_and(|value| value == "true");
        if endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http://")) && !allows_http {
            return Err(wrong("AWS_ENDPOINT_URL is not encrypted: set AWS_ALLOW_HTTP=true if that is meant"));
        }
        let retry = RetryConfig { max_retries: RETRIES.0, retry_timeout: RETRIES.1, ..RetryConfig::default() };
        let store = Box::new(
            builder.with_retry(retry).with_http_connector(Connector).build().map_err(|error| wrong(&root_cause(&error)))?,
        );
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = Some(runtime.map_err(|error| wrong(&error.to_string()))?);
        Ok(Self { store, piece: PIECE, name: name.to_owned(), prefix, endpoint, runtime })
    }

    /// Returns what tells this place from others.
    pub(super) fn identity(&self) -> String {
        format!("s3 {} {} {}", self.endpoint.as_deref().unwrap_or_default(), self.name, self.prefix)
    }

    pub(super) fn put(&self, name: &str, file: Spooled, mut stop: watch::Receiver<bool>) -> Result<u64, PartitionsError> {
        let key = format!("{}/{name}", self.prefix);
        let key = Key::parse(key.trim_start_matches('/')).map_err(|error| self.failed(error.into()))?;
        let Some(runtime) = &self.runtime else { return Err(PartitionsError::Stopped) };
        runtime.block_on(async {
            match file {
                Spooled::Memory(bytes) if bytes.len() <= 2 * self.piece => {
                    let length = bytes.len() as u64;
                    tokio::select! {
                        put = self.store.put(&key, PutPayload::from(bytes)) => put.map(|_| length).map_err(|error| self.failed(error)),
                        () = stopped(&mut stop) => Err(PartitionsError::Stopped),
                    }
                }
                file => {
                    let mut upload = tokio::select! {
                        upload = self.store.put_multipart(&key) => upload.map_err(|error| self.failed(error))?,
                        () = stopped(&mut stop) => return Err(PartitionsError::Stopped),
                    };
                    let sent = tokio::select! {
                        sent = self.send(upload.as_mut(), file) => sent,
                        () = stopped(&mut stop) => Err(PartitionsError::Stopped),
                    };
                    if sent.is_err() {
                        let _ = tokio::time::timeout(ABORT, upload.abort()).await;
                    }
                    sent
                }
            }
        })
    }

    /// Sends a file in pieces. The store shows it only when all of them are there.
    async fn send(&self, upload: &mut dyn MultipartUpload, file: Spooled) -> Result<u64, PartitionsError> {
        let mut length = 0;
        let size = self.piece;
        let mut pieces: Box<dyn Iterator<Item = io::Result<Bytes>> + Send> = match file {
            Spooled::Memory(bytes) => {
                let bytes = Bytes::from(bytes);
                let pieces = (0..bytes.len()).step_by(size);
                Box::new(pieces.map(move |at| Ok(bytes.slice(at..bytes.len().min(at + size)))))
            }
            Spooled::File(mut file) => {
                file.rewind().map_err(|error| self.unread(error))?;
                Box::new(std::iter::from_fn(move || {
                    let mut piece = Vec::with_capacity(size);
                    match (&mut file).take(size as u64).read_to_end(&mut piece) {
                        Ok(0) => None,
                        read => Some(read.map(|_| Bytes::from(piece))),
                    }
                }))
            }
        };
        while let Some(piece) = pieces.next().transpose().map_err(|error| self.unread(error))? {
            length += piece.len() as u64;
            upload.put_part(PutPayload::from(piece)).await.map_err(|error| self.failed(error))?;
        }
        upload.complete().await.map_err(|error| self.failed(error))?;
        Ok(length)
    }

    #[expect(clippy::needless_pass_by_value, reason = "it is passed to `map_err`")]
    fn unread(&self, error: io::Error) -> PartitionsError {
        PartitionsError::Store { to: self.to(), why: format!("its temporary file cannot be read: {error}") }
    }

    fn to(&self) -> String {
        let at = self.endpoint.as_ref().map(|endpoint| format!(" at {}", without_password(endpoint))).unwrap_or_default();
        format!("s3://{}/{}{at}", self.name, self.prefix)
    }

    /// Says in one line what went wrong.
    #[expect(clippy::needless_pass_by_value, reason = "it is passed to `map_err`")]
    fn failed(&self, error: object_store::Error) -> PartitionsError {
        use object_store::Error;
        let to = self.to();
        let told = error.to_string();
        match &error {
            // A key that is put cannot be missing, so it is the bucket.
            Error::NotFound { .. } => PartitionsError::NoBucket { bucket: self.name.clone(), to },
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
                PartitionsError::Refused { to, why: code(&told).unwrap_or("it does not say why").to_owned() }
            }
            // Without keys, a machine of Amazon's cloud would be asked for some.
            _ if told.contains("169.254.") => PartitionsError::NoKeys { to },
            _ => PartitionsError::Store { to, why: code(&told).map_or_else(|| root_cause(&error), str::to_owned) },
        }
    }
}

/// Waits until somebody says stop. If nobody can say it any more, for ever.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Returns the store's own word for what is wrong, such as `SignatureDoesNotMatch`.
fn code(told: &str) -> Option<&str> {
    let (_, rest) = told.split_once("<Code>")?;
    rest.split_once("</Code>").map(|(code, _)| code)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use tapline_testkit::TempFolder;

    use super::*;

    #[test]
    fn the_store_says_in_one_word_what_is_wrong() {
        assert_eq!(code("<Error><Code>NoSuchBucket</Code></Error>"), Some("NoSuchBucket"));
    }

    #[test]
    fn a_large_file_is_put_in_pieces_and_shows_as_one() -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let memory = std::sync::Arc::new(object_store::memory::InMemory::new());
        let bucket = Bucket {
            store: Box::new(std::sync::Arc::clone(&memory)),
            piece: 10,
            name: "b".to_owned(),
            prefix: Key::from("p"),
            endpoint: None,
            runtime: Some(tokio::runtime::Builder::new_current_thread().enable_all().build()?),
        };
        let (_stop, never) = watch::channel(false);
        let folder = TempFolder::new();
        let path = folder.join("piece");
        for length in [0, 1, 10, 19, 20, 21, 30, 101_u8] {
            let bytes: Vec<u8> = (0..length).collect();
            std::fs::write(&path, &bytes)?;
            for file in [Spooled::Memory(bytes.clone()), Spooled::File(File::open(&path)?)] {
                let put = bucket.put("calls/date=unknown/one.parquet", file, never.clone());
                assert!(matches!(put, Ok(put) if put == u64::from(length)), "{length}: {put:?}");
                let key = Key::from("p/calls/date=unknown/one.parquet");
                let read = runtime.block_on(async { memory.get(&key).await?.bytes().await });
                assert_eq!(read.ok().as_deref(), Some(&*bytes), "{length}");
            }
        }
        let (_, stopped) = watch::channel(true);
        let put = bucket.put("calls/date=unknown/two.parquet", Spooled::File(File::open(&path)?), stopped);
        assert!(matches!(put, Ok(_) | Err(PartitionsError::Stopped)), "{put:?}");
        Ok(())
    }
}
