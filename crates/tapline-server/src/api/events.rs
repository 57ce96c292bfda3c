//! Events: of the list, and of one session.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;

use super::sessions::opened;
use crate::app::Shared;
use crate::error::ApiError;
use crate::feed::{Older, told_again};
use crate::hub::{Live, locked};
use crate::sse::{self, OfSession};

/// Streams changes of the list.
pub(crate) async fn list(State(app): Shared, headers: HeaderMap) -> Result<Response, ApiError> {
    sse::respond(&app.hub.list, &headers, app.stop.clone(), None)
}

/// A reader of a session. When it leaves, it was there until then.
struct Reading(Arc<Live>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.touch();
    }
}

/// Streams a session as it grows.
pub(crate) async fn session(State(app): Shared, Path(id): Path<String>, headers: HeaderMap) -> Result<Response, ApiError> {
    let live = opened(&app, id).await?;
    let reading = Reading(Arc::clone(&live));
    let snapshot = move |event_id| format!("{{\"total\":{},\"event_id\":{event_id}}}", reading.0.steps());
    let of_session = Arc::clone(&live);
    // Whoever pushes waits for the follower, too: it is taken once for all of them.
    let older = move |first, events: &[Older]| {
        let mut follower = locked(&of_session.follower);
        told_again(first, events, |n| follower.step(n).ok().filter(|step| !step.is_empty()))
    };
    let turns = Arc::clone(&app.older_events);
    let session = OfSession { snapshot: Box::new(snapshot), older: Arc::new(older), turns };
    sse::respond(&live.feed, &headers, app.stop.clone(), Some(session))
}
