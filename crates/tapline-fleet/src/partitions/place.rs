//! Where the parts of tables go: a folder, or a bucket of a store that speaks S3. A file is there as a whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path as Key;
use object_store::{ClientConfigKey, MultipartUpload, ObjectStore, ObjectStoreExt as _, PutPayload, RetryConfig};
use tapline_recording::create_private_folder;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::PartitionsError;

/// The bytes of a piece. Stores take none that is smaller than 5 MiB.
const PIECE: usize = 8 << 20;
/// How often a request is tried again, and for how long. The rest is for the next time.
const RETRIES: (usize, Duration) = (3, Duration::from_secs(60));
/// How long the store may take to throw away the pieces of a file that was given up.
const ABORT: Duration = Duration::from_secs(5);

/// Where the parts of tables go.
#[derive(Debug)]
pub(super) enum Place {
    Folder(PathBuf),
    Bucket(Box<Bucket>),
}

/// A place in a store that speaks S3.
#[derive(Debug)]
pub(super) struct Bucket {
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

/// A file before it is in its place.
pub(super) enum Spooled {
    Memory(Vec<u8>),
    File(File),
}

impl io::Write for Spooled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Memory(memory) => memory.write(bytes),
            Self::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::File(file) => file.flush(),
        }
    }
}

impl Place {
    /// Reads an address: a folder, or `s3://BUCKET/PREFIX`. Keys and the address of the store come from the environment.
    pub(super) fn of(address: &str) -> Result<Self, PartitionsError> {
        let wrong = |why: &str| PartitionsError::Address { address: address.to_owned(), why: why.to_owned() };
        let Some(bucket) = address.strip_prefix("s3://") else {
            if address.contains("://") {
                return Err(wrong("name a folder, or s3://BUCKET/PREFIX"));
            }
            let path = std::path::absolute(address).map_err(|error| wrong(&error.to_string()))?;
            return Ok(Self::Folder(path));
        };
        let (name, prefix) = bucket.split_once('/').unwrap_or((bucket, ""));
        if name.is_empty() || name.contains(['@', ':', '?']) {
            return Err(wrong("the name of a bucket comes first, as in s3://BUCKET/PREFIX; keys are never part of it"));
        }
        let prefix = Key::parse(prefix.trim_end_matches('/')).map_err(|error| wrong(&error.to_string()))?;
        // Without one of its own, `reqwest` asks for the one of the process. Somebody may have chosen it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = AmazonS3Builder::from_env().with_bucket_name(name);
        let value = |key| builder.get_config_value(&key).filter(|value| !value.is_empty());
        let endpoint = value(AmazonS3ConfigKey::S3Endpoint).or_else(|| value(AmazonS3ConfigKey::Endpoint));
        let allows_http = value(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp)).is_some_and(|value| value == "true");
        if endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http://")) && !allows_http {
            return Err(wrong("AWS_ENDPOINT_URL is not encrypted: set AWS_ALLOW_HTTP=true if that is meant"));
        }
        let retry = RetryConfig { max_retries: RETRIES.0, retry_timeout: RETRIES.1, ..RetryConfig::default() };
        let store = Box::new(builder.with_retry(retry).build().map_err(|error| wrong(&root(&error)))?);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = Some(runtime.map_err(|error| wrong(&error.to_string()))?);
        Ok(Self::Bucket(Box::new(Bucket { store, piece: PIECE, name: name.to_owned(), prefix, endpoint, runtime })))
    }

    /// Returns what tells this place from others.
    pub(super) fn identity(&self) -> String {
        match self {
            Self::Folder(path) => format!("folder {}", path.display()),
            Self::Bucket(bucket) => {
                format!("s3 {} {} {}", bucket.endpoint.as_deref().unwrap_or_default(), bucket.name, bucket.prefix)
            }
        }
    }

    /// Returns whether a file is known to be missing. A store is not asked.
    pub(super) fn lacks(&self, name: &str) -> bool {
        match self {
            Self::Folder(path) => !path.join(name).is_file(),
            Self::Bucket(_) => false,
        }
    }

    /// Puts a file there, in the place of an earlier one. Returns its length.
    pub(super) fn put(&self, name: &str, file: Spooled, stop: &watch::Receiver<bool>) -> Result<u64, PartitionsError> {
        match self {
            Self::Folder(folder) => {
                let path = folder.join(name);
                put_file(&path, file).map_err(|error| PartitionsError::File { path, error })
            }
            Self::Bucket(bucket) => bucket.put(name, file, stop.clone()),
        }
    }
}

/// Writes a file beside its place, and moves it there when the disk has it.
fn put_file(path: &Path, file: Spooled) -> io::Result<u64> {
    let folder = path.parent().unwrap_or(Path::new("."));
    create_private_folder(folder)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Hidden, and with another ending: no reader takes it for a file of the table. The next try writes over it.
    let part = folder.join(format!(".{name}.part"));
    let write = || {
        let mut to = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        let length = match file {
            Spooled::Memory(bytes) => to.write_all(&bytes).map(|()| bytes.len() as u64),
            Spooled::File(mut file) => file.rewind().and_then(|()| io::copy(&mut file, &mut to)),
        }?;
        to.sync_all()?;
        std::fs::rename(&part, path)?;
        File::open(folder)?.sync_all()?;
        Ok(length)
    };
    write().inspect_err(|_| {
        let _ = std::fs::remove_file(&part);
    })
}

impl Bucket {
    fn put(&self, name: &str, file: Spooled, mut stop: watch::Receiver<bool>) -> Result<u64, PartitionsError> {
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
            _ => PartitionsError::Store { to, why: code(&told).map_or_else(|| root(&error), str::to_owned) },
        }
    }
}

/// Waits until somebody says stop. If nobody can say it any more, for ever.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Returns the address without a name and a password.
fn without_password(endpoint: &str) -> String {
    match (endpoint.split_once("://"), endpoint.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        _ => endpoint.to_owned(),
    }
}

/// Returns the store's own word for what is wrong, such as `SignatureDoesNotMatch`.
fn code(told: &str) -> Option<&str> {
    let (_, rest) = told.split_once("<Code>")?;
    rest.split_once("</Code>").map(|(code, _)| code)
}

/// Returns the first cause of an error, which is the shortest.
fn root(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_a_folder_or_a_bucket_and_never_a_key() {
        for wrong in ["s3://", "s3:///prefix", "s3://key:secret@bucket/prefix", "gs://bucket", "https://bucket", "s3://b/a//c"]
        {
            assert!(Place::of(wrong).is_err(), "{wrong}");
        }
        assert!(matches!(Place::of("tables"), Ok(Place::Folder(path)) if path.is_absolute()));
        assert_eq!(without_password("https://me:secret@host:9000"), "https://host:9000");
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
        let path = std::env::temp_dir().join(format!("tapline-pieces-{}", std::process::id()));
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
        std::fs::remove_file(path)
    }

    #[test]
    fn a_file_takes_the_place_of_an_earlier_one_and_is_private() -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = std::env::temp_dir().join(format!("tapline-place-{}", std::process::id()));
        let path = folder.join("calls/date=unknown/one.parquet");
        for text in ["first", "second"] {
            assert_eq!(put_file(&path, Spooled::Memory(text.into()))?, text.len() as u64);
            assert_eq!(std::fs::read_to_string(&path)?, text);
        }
        assert_eq!(std::fs::metadata(&path)?.permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.join("calls/date=unknown"))?.count(), 1);
        std::fs::remove_dir_all(&folder)
    }
}
