//! What is too large for a message: it is put aside in a bucket of the broker. Whoever refers to it names its SHA-256, so nobody can put
//! something else in its place.

use async_nats::Client;
use async_nats::connection::State;
use async_nats::jetstream::Context;
use async_nats::jetstream::object_store::{GetErrorKind as Kind, ObjectMetadata, ObjectStore};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, timeout};

use super::bucket::{PAUSE, written};
use super::connect::{chunk_size, most_bytes};
use super::pieces::{hex, sum};
use super::trouble::{Trouble, causes};

/// A bucket of files.
#[derive(Clone)]
pub(crate) struct Files {
    pub(super) store: ObjectStore,
    pub(super) name: &'static str,
    pub(super) client: Client,
    pub(super) context: Context,
    pub(super) trouble: Arc<Trouble>,
}

/// A file that was put aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileRef {
    name: String,
    sha256: String,
}

/// A value, or where it is if it is large.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Parcel<T> {
    Here(T),
    Object {
        file: FileRef,
        /// What is said of it for those who may not read it.
        #[serde(default)]
        about: String,
    },
}

/// What is larger is put aside. A message has at most a mebibyte, if nobody changed that.
const LARGE: usize = 700 * 1024;
/// Nothing that is read at once is larger.
pub(crate) const LARGEST: u64 = 256 * 1024 * 1024;
/// How long the broker has for a file.
const READ: Duration = Duration::from_secs(60);
/// How long servers of a cluster have to agree on a file: an election, and a server that catches up with the others.
pub(super) const SETTLES: Duration = Duration::from_secs(30);
/// How long the pause between two looks at a file becomes.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// Why a file cannot be read that was there.
const PARTLY: &str = "a part of it is not on the broker any more";
/// Why a file is not believed.
const ANOTHER: &str = "the file on the broker is not the one that was put there: somebody has replaced it";

/// Why a file cannot be read.
enum Unread {
    /// It cannot be read now. Perhaps soon.
    Yet(String),
    /// That stays so.
    Never(String),
}

impl Files {
    /// Makes a value of an order or of an outcome. What is too large for a message is put aside under this name.
    pub(crate) async fn pack(&self, name: &str, about: &str, value: &impl Serialize) -> Bytes {
        let here = written(&Parcel::Here(value));
        // An operator may have made messages smaller.
        if here.len() <= LARGE.min(most_bytes(&self.client)) {
            return here;
        }
        let file = self.put(name, &written(value)).await;
        written(&Parcel::<()>::Object { file, about: about.to_owned() })
    }

    /// Reads such a value.
    pub(crate) async fn unpack<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, String> {
        match serde_json::from_slice::<Parcel<T>>(bytes).map_err(|error| error.to_string())? {
            Parcel::Here(value) => Ok(value),
            Parcel::Object { file, .. } => {
                let bytes = self.get(&file).await?;
                serde_json::from_slice(&bytes).map_err(|error| error.to_string())
            }
        }
    }

    /// Puts a file aside. The same one is put there once.
    pub(crate) async fn put(&self, name: &str, bytes: &Bytes) -> FileRef {
        let sha256 = hex(&sum(bytes));
        let file = FileRef { name: format!("{name}-{sha256}"), sha256 };
        loop {
            if self.store.info(&file.name).await.is_ok_and(|info| !info.deleted && info.size == bytes.len()) {
                break;
            }
            let chunk_size = Some(chunk_size(&self.client));
            let about = ObjectMetadata { name: file.name.clone(), chunk_size, ..ObjectMetadata::default() };
            match self.store.put(about, &mut bytes.as_ref()).await {
                Ok(_) => break,
                Err(error) => self.trouble.is("keep a file", &error).await,
            }
        }
        self.trouble.over("keep a file");
        file
    }

    /// Reads a file that was put aside. While the broker is away, it is tried again. A server of a cluster that lags behind the others says that
    /// a file is not there, or sends only a part of it: so that is believed only after a while in which the broker was well.
    pub(crate) async fn get(&self, file: &FileRef) -> Result<Vec<u8>, String> {
        let (mut since, mut pause) = (Instant::now(), PAUSE);
        loop {
            let why = match timeout(READ, self.try_get(file)).await {
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
            let answers = self.context.get_stream(format!("OBJ_{}", self.name)).await;
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

    async fn try_get(&self, file: &FileRef) -> Result<Vec<u8>, Unread> {
        let object = self.store.get(&file.name).await.map_err(|error| match error.kind() {
            Kind::NotFound => Unread::Yet(PARTLY.to_owned()),
            Kind::InvalidName | Kind::BucketLink => Unread::Never(causes(&error)),
            Kind::ConsumerCreate | Kind::Other | Kind::TimedOut => Unread::Yet(causes(&error)),
        })?;
        let (size, mut bytes) = (object.info.size as u64, Vec::new());
        if size > LARGEST {
            return Err(Unread::Never(format!("a value has {size} bytes, which is too much")));
        }
        object.take(LARGEST).read_to_end(&mut bytes).await.map_err(|error| Unread::Yet(causes(&error)))?;
        if hex(&sum(&bytes)) == file.sha256 { Ok(bytes) } else { Err(Unread::Never(ANOTHER.to_owned())) }
    }
}
