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

use crate::error::ApiError;
use crate::feed::{Feed, Taken};

/// After this much silence a comment is sent, so that a connection that is gone is noticed.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// A reader of a feed.
struct Reader {
    feed: Arc<Feed>,
    news: watch::Receiver<u64>,
    /// The last event that it has. `None`: it is new, and begins with a snapshot.
    last: Option<u64>,
    /// Says what a snapshot is, given the number of the newest event.
    snapshot: Box<dyn Fn(u64) -> String + Send>,
    stop: watch::Receiver<bool>,
}

impl Reader {
    /// Waits for the next bytes. `None` when the server or the feed ends.
    async fn next(mut self) -> Option<(Bytes, Self)> {
        loop {
            if *self.stop.borrow() {
                return None;
            }
            self.news.mark_unchanged();
            let newest = match self.last.map(|last| self.feed.after(last)) {
                Some(Taken::Events(events, newest)) => {
                    self.last = Some(newest);
                    if !events.is_empty() {
                        return Some((joined(events), self));
                    }
                    None
                }
                Some(Taken::Missed(newest)) => Some(newest),
                None => Some(self.feed.newest()),
            };
            if let Some(newest) = newest {
                self.last = Some(newest);
                let event = format!("id: {newest}\nevent: snapshot\ndata: {}\n\n", (self.snapshot)(newest));
                return Some((event.into(), self));
            }
            if self.feed.is_over() {
                return None;
            }
            tokio::select! {
                changed = self.news.changed() => changed.ok()?,
                _ = self.stop.changed() => return None,
                () = tokio::time::sleep(HEARTBEAT) => return Some((Bytes::from_static(b":\n\n"), self)),
            }
        }
    }
}

fn joined(mut events: Vec<Bytes>) -> Bytes {
    if events.len() == 1 { events.remove(0) } else { events.concat().into() }
}

type NextBytes = Pin<Box<dyn Future<Output = Option<(Bytes, Reader)>> + Send>>;

/// A reader as a stream.
struct Events(Option<NextBytes>);

impl Stream for Events {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(next) = &mut self.0 else { return Poll::Ready(None) };
        let Poll::Ready(ready) = next.as_mut().poll(context) else { return Poll::Pending };
        let (bytes, next) = ready.map(|(bytes, reader)| (bytes, Box::pin(reader.next()) as NextBytes)).unzip();
        self.0 = next;
        Poll::Ready(bytes.map(Ok))
    }
}

/// Answers with the events of a feed, from where the reader was.
pub(crate) fn respond(
    feed: &Arc<Feed>,
    headers: &HeaderMap,
    stop: watch::Receiver<bool>,
    snapshot: impl Fn(u64) -> String + Send + 'static,
) -> Result<Response, ApiError> {
    let last = match headers.get("last-event-id").map(|last| last.to_str().unwrap_or_default().trim()) {
        None | Some("") => None,
        Some(last) => Some(last.parse().map_err(|_| {
            ApiError::bad("Last-Event-ID is not a number. Send the id of the last event that you got, or leave it out.")
        })?),
    };
    let reader = Reader { feed: Arc::clone(feed), news: feed.news(), last, snapshot: Box::new(snapshot), stop };
    let body = Body::from_stream(Events(Some(Box::pin(reader.next()))));
    let mut response = body.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Proxies must not hold events back.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}
