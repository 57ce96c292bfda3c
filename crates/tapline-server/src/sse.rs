//! Server-sent events: a feed as the body of an answer. Nothing is queued for a reader; it takes from the ring when its connection has room.
//! What is not in memory any more is read from the disk, away from the threads that serve.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::error::ApiError;
use crate::feed::{Feed, Older, Reader, Taken};

/// After this much silence a comment is sent, so that a connection that is gone is noticed.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// What the feed of a session cannot say.
pub(crate) struct OfSession {
    /// Says what a snapshot is, given the number of the newest event.
    pub(crate) snapshot: Box<dyn Fn(u64) -> String + Send>,
    /// Returns older events, the first of which has this number, as they are sent. It may wait for the disk.
    pub(crate) older: OlderEvents,
    /// Who may read them now: many who come back at once wait for each other, and pushes do not wait for them.
    pub(crate) turns: Arc<Semaphore>,
}

type OlderEvents = Arc<dyn Fn(u64, &[Older]) -> Option<Bytes> + Send + Sync>;

/// Events that are being read from the disk. If it is dropped before it had its turn, nothing is read.
type Reading = Pin<Box<dyn Future<Output = Option<Bytes>> + Send>>;

fn read_older(session: &OfSession, first: u64, events: Vec<Older>) -> Reading {
    let (older, turns) = (Arc::clone(&session.older), Arc::clone(&session.turns));
    Box::pin(async move {
        let turn = turns.acquire_owned().await.ok()?;
        let read = move || {
            let _turn = turn;
            older(first, &events)
        };
        spawn_blocking(read).await.ok().flatten()
    })
}

/// The events of a feed for one client.
struct Events {
    reader: Reader,
    /// The last event that it has. `None`: it is new, and begins with a snapshot.
    last: Option<u64>,
    /// `None`: it is the list.
    session: Option<OfSession>,
    /// Events that are read from the disk, and the number of the last of them.
    older: Option<(u64, Reading)>,
    /// The heartbeat. It is set again when it has passed, and not for each event.
    silence: Pin<Box<Sleep>>,
    /// When something was sent last.
    sent: Instant,
    /// True when the server ends. The connection notices that, and asks again.
    stop: watch::Receiver<bool>,
}

impl Events {
    fn new(feed: &Arc<Feed>, last: Option<u64>, session: Option<OfSession>, stop: watch::Receiver<bool>) -> Self {
        let sent = Instant::now();
        let silence = Box::pin(sleep_until(sent + HEARTBEAT));
        Self { reader: feed.reader(), last, session, older: None, silence, sent, stop }
    }

    fn snapshot(&mut self, newest: u64) -> Bytes {
        self.last = Some(newest);
        let data = self.session.as_ref().map_or_else(|| "{}".to_owned(), |session| (session.snapshot)(newest));
        format!("id: {newest}\nevent: snapshot\ndata: {data}\n\n").into()
    }

    /// Returns the next bytes. `None` when the server or the feed ends.
    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if *self.stop.borrow() {
            return Poll::Ready(None);
        }
        let Some(last) = self.last else { return Poll::Ready(Some(self.snapshot(self.reader.newest()))) };
        if let Some((last, reading)) = &mut self.older {
            let (last, read) = (*last, ready!(reading.as_mut().poll(context)));
            self.older = None;
            let Some(events) = read else { return Poll::Ready(Some(self.snapshot(self.reader.newest()))) };
            self.last = Some(last);
            return Poll::Ready(Some(events));
        }
        match self.reader.poll_after(last, context) {
            Poll::Ready(Taken::Events(one, more)) => {
                self.last = Some(last + 1 + more.len() as u64);
                return Poll::Ready(Some(if more.is_empty() { one } else { joined(&one, &more) }));
            }
            Poll::Ready(Taken::Older(events)) => {
                // All of the list is in memory.
                let Some(session) = &self.session else { return Poll::Ready(Some(self.snapshot(self.reader.newest()))) };
                self.older = Some((last + events.len() as u64, read_older(session, last + 1, events)));
                return self.poll_bytes(context);
            }
            Poll::Ready(Taken::Over) => return Poll::Ready(None),
            Poll::Ready(Taken::Missed(newest)) => return Poll::Ready(Some(self.snapshot(newest))),
            Poll::Ready(Taken::Nothing) | Poll::Pending => {}
        }
        while self.silence.as_mut().poll(context).is_ready() {
            let due = self.sent + HEARTBEAT;
            let is_due = due <= Instant::now();
            self.silence.as_mut().reset(if is_due { Instant::now() + HEARTBEAT } else { due });
            if is_due {
                return Poll::Ready(Some(Bytes::from_static(b":\n\n")));
            }
        }
        Poll::Pending
    }
}

fn joined(one: &[u8], more: &[Bytes]) -> Bytes {
    let mut all = Vec::with_capacity(one.len() + more.iter().map(Bytes::len).sum::<usize>());
    all.extend_from_slice(one);
    for event in more {
        all.extend_from_slice(event);
    }
    all.into()
}

impl Stream for Events {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let ready = self.poll_bytes(context);
        if ready.is_ready() {
            self.sent = Instant::now();
        }
        ready.map(|bytes| bytes.map(Ok))
    }
}

/// Answers with the events of a feed, from where the reader was.
pub(crate) fn respond(
    feed: &Arc<Feed>,
    headers: &HeaderMap,
    stop: watch::Receiver<bool>,
    session: Option<OfSession>,
) -> Result<Response, ApiError> {
    let last = match headers.get("last-event-id").map(|last| last.to_str().unwrap_or_default().trim()) {
        None | Some("") => None,
        Some(last) => Some(last.parse().map_err(|_| {
            ApiError::bad("Last-Event-ID is not a number. Send the id of the last event that you got, or leave it out.")
        })?),
    };
    let body = Body::from_stream(Events::new(feed, last, session, stop));
    let mut response = body.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Proxies must not hold events back.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Waker;

    use super::*;
    use crate::feed::FeedLimits;

    #[test]
    fn many_who_come_back_at_once_leave_threads_for_others() {
        const TURNS: usize = 2;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(64).build().unwrap();
        runtime.block_on(async {
            let feed = Arc::new(Feed::new(FeedLimits { events: 1_024, bytes: 1 << 20, written: 0 }));
            let first = feed.newest();
            feed.publish_steps(&[(0, "{}".to_owned())]);
            // The disk is slow, until the test lets go of it.
            let (let_go, disk) = std::sync::mpsc::channel::<()>();
            let (disk, turns) = (Arc::new(Mutex::new(disk)), Arc::new(Semaphore::new(TURNS)));
            let (at_once, reads) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let (stop, _) = watch::channel(false);
            let mut readers: Vec<Events> = (0..500)
                .map(|_| {
                    let (disk, at_once, reads) = (Arc::clone(&disk), Arc::clone(&at_once), Arc::clone(&reads));
                    let older = move |_: u64, _: &[Older]| {
                        reads.fetch_add(1, Ordering::SeqCst);
                        assert!(at_once.fetch_add(1, Ordering::SeqCst) < TURNS, "more than have their turn");
                        assert!(disk.lock().unwrap().recv().is_err(), "nothing is sent");
                        at_once.fetch_sub(1, Ordering::SeqCst);
                        Some(Bytes::from_static(b"old"))
                    };
                    let session =
                        OfSession { snapshot: Box::new(|_| String::new()), older: Arc::new(older), turns: Arc::clone(&turns) };
                    Events::new(&feed, Some(first), Some(session), stop.subscribe())
                })
                .collect();
            let context = &mut Context::from_waker(Waker::noop());
            assert!(readers.iter_mut().all(|reader| reader.poll_bytes(context).is_pending()));
            while reads.load(Ordering::SeqCst) < TURNS {
                tokio::task::yield_now().await;
            }
            // Others have a thread, though all of these wait.
            assert_eq!(spawn_blocking(|| 1).await.unwrap(), 1);
            // Who leaves before its turn reads nothing.
            let mut last = readers.split_off(499);
            drop(readers);
            drop(let_go);
            let told = std::future::poll_fn(|context| last[0].poll_bytes(context)).await;
            assert_eq!((told.as_deref(), last[0].last), (Some(b"old".as_slice()), Some(first + 1)));
            assert_eq!(reads.load(Ordering::SeqCst), TURNS + 1);
        });
    }
}
