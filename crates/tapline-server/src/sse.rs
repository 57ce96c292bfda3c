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
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::error::ApiError;
use crate::feed::{Feed, Reader, Taken, told_again};

/// After this much silence a comment is sent, so that a connection that is gone is noticed.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// What the feed of a session cannot say.
pub(crate) struct OfSession {
    /// Says what a snapshot is, given the number of the newest event.
    pub(crate) snapshot: Box<dyn Fn(u64) -> String + Send>,
    /// Returns a step as JSON. It may wait for the disk.
    pub(crate) step: Arc<dyn Fn(usize) -> Option<String> + Send + Sync>,
}

/// The events of a feed for one client.
struct Events {
    reader: Reader,
    /// The last event that it has. `None`: it is new, and begins with a snapshot.
    last: Option<u64>,
    /// `None`: it is the list.
    session: Option<OfSession>,
    /// Events that are read from the disk, and the number of the last of them.
    older: Option<(u64, JoinHandle<Option<Bytes>>)>,
    /// The heartbeat. It is set again when it has passed, and not for each event.
    silence: Pin<Box<Sleep>>,
    /// When something was sent last.
    sent: Instant,
    /// True when the server ends. The connection notices that, and asks again.
    stop: watch::Receiver<bool>,
}

impl Events {
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
            let (last, read) = (*last, ready!(Pin::new(reading).poll(context)));
            self.older = None;
            let Ok(Some(events)) = read else { return Poll::Ready(Some(self.snapshot(self.reader.newest()))) };
            self.last = Some(last);
            return Poll::Ready(Some(events));
        }
        match self.reader.poll_after(last, context) {
            Poll::Ready(Taken::Events(one, more)) => {
                self.last = Some(last + 1 + more.len() as u64);
                return Poll::Ready(Some(if more.is_empty() { one } else { joined(&one, &more) }));
            }
            Poll::Ready(Taken::Older(events)) => {
                let step = self.session.as_ref().map(|session| Arc::clone(&session.step));
                let until = last + events.len() as u64;
                let read = move || told_again(last + 1, &events, |n| step.as_ref().and_then(|step| step(n)));
                self.older = Some((until, spawn_blocking(read)));
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
    let sent = Instant::now();
    let silence = Box::pin(sleep_until(sent + HEARTBEAT));
    let body = Body::from_stream(Events { reader: feed.reader(), last, session, older: None, silence, sent, stop });
    let mut response = body.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Proxies must not hold events back.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}
