//! Recordings on the broker: the stream of their pieces, and the object store for what is too large for a message.

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::connection::State;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::object_store::{self, ObjectMetadata, ObjectStore};
use async_nats::jetstream::{self, Context, ErrorCode, stream};
use bytes::Bytes;
use tokio::io::AsyncReadExt as _;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::connect::{Broker, BrokerError, chunk_size, most_bytes};
use super::pieces::{MOST, ObjectPart, Piece, plain, sum};
use super::role::BrokerRole;
use super::trouble::{causes, has_no_quorum, is_silent};
use super::{made, names};

/// How many objects are in memory at once.
const AT_ONCE: usize = 4;
/// Of an object whose bytes are gone, the broker says nothing: after this time without a byte, it is taken for lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// The header with the name of the batch.
const BATCH: &str = "Tapline-Batch";
/// The header with the name of the recording.
const RECORDING: &str = "Tapline-Recording";

/// The place on the broker through which recordings travel.
#[derive(Clone)]
pub struct Post {
    pub(crate) context: Context,
    pub(crate) stream: stream::Stream,
    objects: ObjectStore,
    room: Arc<Semaphore>,
}

impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Post").finish_non_exhaustive()
    }
}

/// Why something was not sent.
#[derive(Clone, Debug)]
pub(crate) enum Unsent {
    /// The broker does not answer. It will.
    Away,
    /// The broker does not take it, for this reason. It may later.
    Refused(String),
}

/// Why an object is not here.
#[derive(Clone, Debug)]
pub(crate) enum Ungot {
    /// The broker does not have it, or it is another one. That stays so.
    Lost(&'static str),
    /// It can be tried again.
    Trouble(String),
}

/// A piece that came.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) batch: String,
    pub(super) recording: String,
    pub(super) piece: Piece,
    pub(super) sequence: u64,
}

impl Incoming {
    /// Reads a message. It says the same in its subject and in its headers.
    pub(super) fn read(subject: &str, headers: Option<&HeaderMap>, payload: &Bytes, sequence: u64) -> Result<Self, String> {
        let header = |name: &str| headers.and_then(|headers| headers.get(name)).map(|value| value.as_str().to_owned());
        let (batch, recording) = header(BATCH).zip(header(RECORDING)).ok_or("it does not say of which recording it is")?;
        plain(&recording).map_err(|error| error.to_string())?;
        if subject != names::recording_subject(&batch, &recording) {
            return Err("its subject is that of another recording".to_owned());
        }
        let piece = Piece::decode(payload).map_err(|error| error.to_string())?;
        Ok(Self { batch, recording, piece, sequence })
    }
}

impl Post {
    /// Connects to a broker under this name. Makes what is missing there; what is there stays as it is.
    pub async fn open(broker: &Broker, name: &str) -> Result<Self, BrokerError> {
        let (_, context) = Box::pin(broker.jetstream(BrokerRole::Collector, name, None)).await?;
        Box::pin(Self::of(context)).await
    }

    /// As [`Post::open`], for a connection that there is already.
    pub(crate) async fn of(context: Context) -> Result<Self, BrokerError> {
        let stream = made::recordings(&context).await?;
        let objects = made::files(&context, names::FILES).await?;
        Ok(Self { context, stream, objects, room: Arc::new(Semaphore::new(AT_ONCE)) })
    }

    /// How many bytes of a recording travel in one message.
    pub(crate) fn most(&self) -> usize {
        most_bytes(&self.context.client()).min(MOST)
    }

    /// Sends a piece of a recording. Returns when the broker has it. The same piece is taken once.
    pub(crate) async fn send(&self, batch: &str, recording: &str, piece: &Piece) -> Result<(), Unsent> {
        let (payload, id) = piece.encode();
        let subject = names::recording_subject(batch, recording);
        let message = PublishMessage::build().payload(payload).message_id(format!("{recording}/{id}"));
        let message = message.header(BATCH, batch).header(RECORDING, recording);
        let sent = match self.context.send_publish(subject, message).await {
            Ok(sent) => sent.await,
            Err(error) => Err(error),
        };
        let Err(error) = sent else { return Ok(()) };
        match error.kind() {
            PublishErrorKind::StreamNotFound => {
                // Somebody may have deleted it.
                let _ = made::recordings(&self.context).await;
                Err(Unsent::Away)
            }
            PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe | PublishErrorKind::MaxAckPending => Err(Unsent::Away),
            PublishErrorKind::WrongLastMessageId
            | PublishErrorKind::WrongLastSequence
            | PublishErrorKind::MaxPayloadExceeded
            | PublishErrorKind::Other => {
                Err(if is_away(&causes(&error)) { Unsent::Away } else { Unsent::Refused(reason(&error)) })
            }
        }
    }

    /// Stores an object. One of this name is the same, and stays.
    pub(crate) async fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Unsent> {
        let _room = self.room.acquire().await;
        if self.objects.info(name).await.is_ok_and(|info| !info.deleted && info.size == bytes.len()) {
            return Ok(());
        }
        let chunk_size = Some(chunk_size(&self.context.client()));
        let about = ObjectMetadata { name: name.to_owned(), chunk_size, ..ObjectMetadata::default() };
        let mut from = bytes;
        let Err(error) = self.objects.put(about, &mut from).await else { return Ok(()) };
        if self.context.client().connection_state() != State::Connected || is_away(&causes(&error)) {
            return Err(Unsent::Away);
        }
        let why = error.to_string();
        Err(Unsent::Refused(if why.contains("exceeded") { full("the bucket tapline-files") } else { why }))
    }

    /// Gets an object, if it is what it should be.
    pub(crate) async fn get(&self, object: &ObjectPart) -> Result<Bytes, Ungot> {
        use object_store::GetErrorKind as Kind;
        let _room = self.room.acquire().await;
        let from = self.objects.get(&object.name).await.map_err(|error| match error.kind() {
            Kind::NotFound => Ungot::Lost("it is not on the broker"),
            Kind::InvalidName | Kind::BucketLink => Ungot::Lost("it is none"),
            Kind::ConsumerCreate | Kind::Other | Kind::TimedOut => Ungot::Trouble(error.to_string()),
        })?;
        let another = Ungot::Lost("it is another one");
        if from.info.size != object.length {
            return Err(another);
        }
        let mut bytes = Vec::with_capacity(object.length);
        let mut limited = from.take(object.length as u64 + 1);
        loop {
            match timeout(PATIENCE, limited.read_buf(&mut bytes)).await {
                Ok(Ok(0)) => break,
                Ok(Ok(_)) => {}
                Ok(Err(error)) if error.kind() == std::io::ErrorKind::InvalidData => return Err(another),
                Ok(Err(error)) => return Err(Ungot::Trouble(error.to_string())),
                Err(_) if self.context.client().connection_state() == State::Connected => {
                    return Err(Ungot::Lost("its bytes are not on the broker"));
                }
                Err(_) => return Err(Ungot::Trouble("it does not come".to_owned())),
            }
        }
        if bytes.len() != object.length || sum(&bytes) != object.sum {
            return Err(another);
        }
        Ok(bytes.into())
    }
}

/// Whether these words say that the broker will take it soon: it does not answer, the servers of its cluster elect a leader or are too few, or
/// what was sent before is still on its way.
fn is_away(why: &str) -> bool {
    is_silent(why) || has_no_quorum(why) || why.contains("is in process")
}

/// Says why the broker did not take a piece.
fn reason(error: &jetstream::context::PublishError) -> String {
    let Some(cause) = error.source() else { return error.to_string() };
    let code = cause.downcast_ref::<jetstream::Error>().map(jetstream::Error::error_code);
    let no_room = [
        ErrorCode::STREAM_STORE_FAILED,
        ErrorCode::STORAGE_RESOURCES_EXCEEDED,
        ErrorCode::INSUFFICIENT_RESOURCES,
        ErrorCode::ACCOUNT_RESOURCES_EXCEEDED,
    ];
    if code.is_some_and(|code| no_room.contains(&code)) { full("the stream TAPLINE_RECORDINGS") } else { cause.to_string() }
}

fn full(what: &'static str) -> String {
    BrokerError::Full { what }.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_elects_a_leader_is_waited_for_and_a_full_one_is_not() {
        for why in
            ["duplicate message id is in process", "JetStream system temporarily unavailable", "timed out", "no responders"]
        {
            assert!(is_away(why), "{why}");
        }
        for why in ["maximum bytes exceeded", "insufficient resources", "stream is sealed", "expected stream does not match"] {
            assert!(!is_away(why), "{why}");
        }
    }
}
