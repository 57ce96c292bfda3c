//! Bodies of requests. Small ones are read at once. A larger one needs a share of the memory for bodies, of which each client has a part; whoever
//! has sent nothing has no share, and one that comes slowly makes place if others wait.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderValue, StatusCode, header};
use futures_core::Stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use crate::error::ApiError;
use crate::guard;

/// What is read of every body without a share. A connection has a buffer of this size anyway.
const FREE: usize = 16 << 10;
/// How often it is looked whether a body comes slowly while others wait.
const LOOK: Duration = Duration::from_secs(1);
/// How many bytes must come until then, on average.
const SLOW: usize = 64 << 10;

/// Who sends: an address, and the token that comes from there.
type Client = (Option<IpAddr>, Option<String>);

/// A body that nothing is read of.
#[derive(Debug)]
pub(crate) struct Incoming {
    client: Client,
    /// How large it says that it is.
    declared: Option<u64>,
    /// Whether it says that it is packed.
    is_packed: bool,
    body: Body,
}

impl<S: Sync> FromRequest<S> for Incoming {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &S) -> Result<Self, Infallible> {
        let headers = request.headers();
        let client = (request.extensions().get().copied(), guard::bearer(headers).map(str::to_owned));
        let declared = headers.get(header::CONTENT_LENGTH).and_then(|size| size.to_str().ok()?.parse().ok());
        let is_plain = |coding: &HeaderValue| coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity");
        let is_packed = !headers.get_all(header::CONTENT_ENCODING).iter().all(is_plain);
        Ok(Self { client, declared, is_packed, body: request.into_body() })
    }
}

/// A body that was read. Its bytes have a share of the server's memory until it is dropped.
#[derive(Debug)]
pub(crate) struct ReadBody {
    bytes: Vec<u8>,
    _share: Option<Share>,
}

type Share = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Deref for ReadBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Memory, in bytes, and how many wait for a share of it.
#[derive(Debug)]
struct Room {
    free: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Room {
    fn new(bytes: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(bytes)), waiting: AtomicUsize::new(0) }
    }

    async fn take(&self, bytes: u32) -> Option<OwnedSemaphorePermit> {
        let _waits = Waits::new(&self.waiting);
        Arc::clone(&self.free).acquire_many_owned(bytes).await.ok()
    }

    fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// Counts somebody who waits, until it is dropped: who waits may leave.
struct Waits<'r>(&'r AtomicUsize);

impl<'r> Waits<'r> {
    fn new(waiting: &'r AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The memory for bodies of one kind. Those of another kind have their own, so neither waits for the other.
#[derive(Debug)]
pub(crate) struct Bodies {
    largest: usize,
    for_one: usize,
    all: Room,
    /// The clients that send something now.
    clients: Mutex<HashMap<Client, Weak<Room>>>,
    /// How long a body may take, and may wait for its share.
    time: Duration,
    look: Duration,
}

impl Bodies {
    /// Bodies of at most `largest` bytes, in so many bytes of memory. A client has a quarter of it, if that is enough for a body.
    pub(crate) fn new(largest: usize, memory: usize, time: Duration) -> Self {
        let memory = memory.clamp(largest, Semaphore::MAX_PERMITS);
        let for_one = (memory / 4).max(largest);
        Self { largest, for_one, all: Room::new(memory), clients: Mutex::default(), time, look: LOOK }
    }

    /// Reads a body, if it is as it was written, is not too large and does not take too long.
    pub(crate) async fn read(&self, Incoming { client, declared, is_packed, body }: Incoming) -> Result<ReadBody, ApiError> {
        if is_packed {
            let message = "The body is packed (Content-Encoding). Send it as it is.";
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "packed", message));
        }
        if declared.is_some_and(|size| size > self.largest as u64) {
            return Err(self.too_large());
        }
        let size = declared.and_then(|size| usize::try_from(size).ok()).unwrap_or(self.largest);
        let mut body = body.into_data_stream();
        let mut bytes = Vec::new();
        let begins = async {
            while let Some(piece) = next(&mut body).await {
                bytes.extend_from_slice(&piece.map_err(|_| self.too_large())?);
                if bytes.len() > FREE.min(self.largest) {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        let goes_on = timeout(self.time, begins).await.map_err(|_| too_slow())??;
        if !goes_on {
            return Ok(ReadBody { bytes, _share: None });
        }
        let room = self.room_of(client);
        let bytes_wanted = u32::try_from(size).unwrap_or(u32::MAX);
        // First that of the client: whoever waits for it holds nothing that others need.
        let share = async { Some((room.take(bytes_wanted).await?, self.all.take(bytes_wanted).await?)) };
        let share = timeout(self.time, share).await.ok().flatten().ok_or_else(busy)?;
        bytes.reserve_exact(size.saturating_sub(bytes.len()));
        timeout(self.time, self.go_on(&room, &mut bytes, &mut body)).await.map_err(|_| too_slow())??;
        Ok(ReadBody { bytes, _share: Some(share) })
    }

    /// Reads what comes after the beginning.
    async fn go_on(
        &self,
        room: &Room,
        bytes: &mut Vec<u8>,
        body: &mut (impl Stream<Item = Result<Bytes, axum::Error>> + Unpin),
    ) -> Result<(), ApiError> {
        let mut look = interval_at(Instant::now() + self.look, self.look);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut wanted = bytes.len();
        while bytes.len() <= self.largest {
            tokio::select! {
                piece = next(body) => match piece {
                    Some(piece) => bytes.extend_from_slice(&piece.map_err(|_| self.too_large())?),
                    None => return Ok(()),
                },
                _ = look.tick() => {
                    wanted += SLOW;
                    if bytes.len() < wanted && (room.is_wanted() || self.all.is_wanted()) {
                        return Err(too_slow());
                    }
                }
            }
        }
        Err(self.too_large())
    }

    /// Returns the memory of a client. It is forgotten with its last body.
    fn room_of(&self, client: Client) -> Arc<Room> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|_, room| room.strong_count() > 0);
        if let Some(room) = clients.get(&client).and_then(Weak::upgrade) {
            return room;
        }
        let room = Arc::new(Room::new(self.for_one));
        clients.insert(client, Arc::downgrade(&room));
        room
    }

    fn too_large(&self) -> ApiError {
        let message = format!("The body is larger than {} bytes, or broke off. Send it in smaller pieces.", self.largest);
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message)
    }
}

fn too_slow() -> ApiError {
    ApiError::new(StatusCode::REQUEST_TIMEOUT, "too-slow", "The body took too long to arrive. Send less at once.")
}

fn busy() -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "Others send too much at once. Try again later.")
}

/// Returns the next piece of a body.
async fn next<S: Stream + Unpin>(body: &mut S) -> Option<S::Item> {
    std::future::poll_fn(|context| Pin::new(&mut *body).poll_next(context)).await
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::task::{Context, Poll};

    use tokio::time::{Interval, interval};

    use super::*;

    const LARGEST: usize = 8 << 20;

    /// A body that sends this many bytes in pieces, and ends or falls silent.
    struct Sent {
        rest: usize,
        ends: bool,
    }

    impl Stream for Sent {
        type Item = Result<Bytes, Infallible>;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            let piece = self.rest.min(FREE);
            self.rest -= piece;
            match piece {
                0 if self.ends => Poll::Ready(None),
                0 => Poll::Pending,
                piece => Poll::Ready(Some(Ok(Bytes::from(vec![b'x'; piece])))),
            }
        }
    }

    fn sent(client: u8, declared: usize, bytes: usize, ends: bool) -> Incoming {
        let client = (Some(IpAddr::from([127, 0, 0, client])), None);
        let body = Body::from_stream(Sent { rest: bytes, ends });
        Incoming { client, declared: Some(declared as u64), is_packed: false, body }
    }

    fn whole(client: u8, bytes: usize) -> Incoming {
        sent(client, bytes, bytes, true)
    }

    /// Bodies that never wait for a clock, unless it is that of `look`.
    fn bodies(look: Duration) -> Arc<Bodies> {
        Arc::new(Bodies { look, ..Bodies::new(LARGEST, 8 * LARGEST, Duration::from_secs(1 << 20)) })
    }

    const NEVER: Duration = Duration::from_secs(1 << 20);

    /// Begins to read bodies, until each has come as far as it does.
    async fn begin(bodies: &Arc<Bodies>, count: usize, body: impl Fn() -> Incoming) {
        for _ in 0..count {
            let (bodies, body) = (Arc::clone(bodies), body());
            tokio::spawn(async move {
                let read = bodies.read(body).await;
                pending::<()>().await;
                drop(read);
            });
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn who_declares_much_and_sends_little_holds_nothing() {
        let bodies = bodies(NEVER);
        for bytes in [0, 1, FREE] {
            begin(&bodies, 40, || sent(1, LARGEST, bytes, false)).await;
        }
        assert_eq!(bodies.read(whole(1, LARGEST)).await.unwrap().len(), LARGEST);
    }

    #[tokio::test]
    async fn a_client_has_only_its_part() {
        let bodies = bodies(NEVER);
        begin(&bodies, 40, || sent(1, LARGEST, LARGEST - 1, false)).await;
        assert_eq!(bodies.all.free.available_permits(), 6 * LARGEST);
        assert_eq!(bodies.read(whole(2, LARGEST)).await.unwrap().len(), LARGEST, "another client does not wait");
        assert_eq!(bodies.read(whole(1, FREE)).await.unwrap().len(), FREE, "and what is small never does");
    }

    #[tokio::test]
    async fn who_is_slow_makes_place_for_who_waits() {
        let bodies = bodies(Duration::from_millis(5));
        begin(&bodies, 7, || sent(1, LARGEST, FREE + 1, false)).await;
        assert_eq!(bodies.read(whole(1, LARGEST)).await.unwrap().len(), LARGEST);
    }

    /// A body whose pieces come one by one.
    struct Slow(Interval, usize);

    impl Stream for Slow {
        type Item = Result<Bytes, Infallible>;

        fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            if self.1 == 0 {
                return Poll::Ready(None);
            }
            self.0.poll_tick(context).map(|_| {
                self.1 -= 1;
                Some(Ok(Bytes::from(vec![b'x'; FREE])))
            })
        }
    }

    #[tokio::test]
    async fn who_is_slow_may_go_on_if_nobody_waits() {
        let look = Duration::from_millis(5);
        let bodies = bodies(look);
        let slow = Slow(interval(2 * look), 10);
        let body = Incoming { body: Body::from_stream(slow), ..sent(1, 10 * FREE, 0, false) };
        assert_eq!(bodies.read(body).await.unwrap().len(), 10 * FREE);
    }

    #[tokio::test]
    async fn what_was_read_holds_its_memory_until_it_is_dropped() {
        let bodies = bodies(NEVER);
        let read = bodies.read(whole(1, LARGEST)).await.unwrap();
        assert!(read.iter().all(|byte| *byte == b'x'));
        assert_eq!(bodies.all.free.available_permits(), 7 * LARGEST);
        drop(read);
        assert_eq!(bodies.all.free.available_permits(), 8 * LARGEST);
        bodies.read(whole(2, FREE + 1)).await.unwrap();
        assert_eq!(bodies.clients.lock().unwrap().len(), 1, "clients without bodies are forgotten");
    }

    #[tokio::test]
    async fn what_is_too_large_is_refused() {
        let bodies = bodies(NEVER);
        for body in [
            sent(1, LARGEST + 1, 0, false),
            Incoming { declared: None, ..sent(1, 0, LARGEST + 1, false) },
            Incoming { declared: Some(FREE as u64 + 1), ..sent(1, 0, LARGEST + 1, false) },
        ] {
            let refused = bodies.read(body).await.unwrap_err();
            assert!(format!("{refused:?}").contains("too-large"), "{refused:?}");
        }
        assert_eq!(bodies.all.free.available_permits(), 8 * LARGEST);
    }
}
