//! Server-sent events: a feed as the body of an answer. Nothing is queued for a reader; it takes from the ring when its connection has room.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::error::ApiError;
use crate::feed::{Feed, Reader, Taken};

/// After this much silence a comment is sent, so that a connection that is gone is noticed.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Says what a snapshot is, given the number of the newest event.
type Snapshot = Box<dyn Fn(u64) -> String + Send>;

/// The events of a feed for one client.
struct Events {
    reader: Reader,
    /// The last event that it has. `None`: it is new, and begins with a snapshot.
    last: Option<u64>,
    /// `None`: there is nothing to say about it.
    snapshot: Option<Snapshot>,
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
        let data = self.snapshot.as_ref().map_or_else(|| "{}".to_owned(), |snapshot| snapshot(newest));
        format!("id: {newest}\nevent: snapshot\ndata: {data}\n\n").into()
    }

    /// Returns the next bytes. `None` when the server or the feed ends.
    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if *self.stop.borrow() {
            return Poll::Ready(None);
        }
        let Some(last) = self.last else { return Poll::Ready(Some(self.snapshot(self.reader.newest()))) };
        match self.reader.poll_after(last, context) {
            Poll::Ready(Taken::Events(one, more)) => {
                self.last = Some(last + 1 + more.len() as u64);
                return Poll::Ready(Some(if more.is_empty() { one } else { joined(&one, &more) }));
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
    snapshot: Option<Snapshot>,
) -> Result<Response, ApiError> {
    let last = match headers.get("last-event-id").map(|last| last.to_str().unwrap_or_default().trim()) {
        None | Some("") => None,
        Some(last) => Some(last.parse().map_err(|_| {
            ApiError::bad("Last-Event-ID is not a number. Send the id of the last event that you got, or leave it out.")
        })?),
    };
    let sent = Instant::now();
    let silence = Box::pin(sleep_until(sent + HEARTBEAT));
    let body = Body::from_stream(Events { reader: feed.reader(), last, snapshot, silence, sent, stop });
    let mut response = body.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Proxies must not hold events back.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}
