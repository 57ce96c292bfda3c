//! Ingest: streams that other machines and scripts push.

use std::ops::Deref;
use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use serde_json::json as value;
use tokio::sync::OwnedSemaphorePermit;

use super::json;
use crate::app::{App, Shared, blocking};
use crate::error::ApiError;
use crate::ingest::{About, IngestError};

/// The most bytes of one request.
pub(crate) const LARGEST: usize = 8 << 20;

/// A body that was read. Its bytes have a share of the server's memory until it is dropped.
pub(super) struct Read {
    pub(super) bytes: Bytes,
    _share: OwnedSemaphorePermit,
}

impl Deref for Read {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a body, if it is not too large and does not take too long. If others fill the memory for bodies, it waits for them.
pub(super) async fn read(app: &App, headers: &HeaderMap, body: Body, largest: usize) -> Result<Read, ApiError> {
    let size = declared(headers).and_then(|size| usize::try_from(size).ok()).unwrap_or(largest).clamp(1, largest);
    let busy = || ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "Others send too much at once. Try again later.");
    let share = Arc::clone(&app.bodies).acquire_many_owned(u32::try_from(size).unwrap_or(u32::MAX));
    let share = tokio::time::timeout(app.body_time, share).await.ok().and_then(Result::ok).ok_or_else(busy)?;
    let too_slow =
        || ApiError::new(StatusCode::REQUEST_TIMEOUT, "too-slow", "The body took too long to arrive. Send less at once.");
    let too_large = || {
        let message = format!("The body is larger than {largest} bytes, or broke off. Send it in smaller pieces.");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message)
    };
    let read = tokio::time::timeout(app.body_time, to_bytes(body, largest)).await.map_err(|_| too_slow())?;
    Ok(Read { bytes: read.map_err(|_| too_large())?, _share: share })
}

/// Says how large a body is, if its head says so.
fn declared(headers: &HeaderMap) -> Option<u64> {
    headers.get("content-length")?.to_str().ok()?.parse().ok()
}

/// Takes bytes of a run.
pub(crate) async fn append(
    State(app): Shared,
    Path(run): Path<String>,
    Query(about): Query<About>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let offset = match headers.get("tapline-offset") {
        None => None,
        Some(offset) => Some(offset.to_str().ok().and_then(|offset| offset.parse().ok()).ok_or_else(|| {
            ApiError::bad("Tapline-Offset is not a number. Send how many bytes of the run came before these.")
        })?),
    };
    if declared(&headers).is_some_and(|length| length > LARGEST as u64) {
        let message = format!("The body is larger than {LARGEST} bytes. Send it in smaller pieces.");
        return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message));
    }
    let bytes = read(&app, &headers, body, LARGEST).await?;
    blocking(move || {
        let told = |folder: &std::path::Path| app.watch.pushed(folder.to_owned(), bytes.len());
        let (offset, folder) = app.ingest.append(&run, offset, &bytes, &about, told).map_err(refused)?;
        app.metrics.ingested(bytes.len());
        app.hub.shelf.note_push(&folder);
        json(&value!({"offset": offset}))
    })
    .await
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Finish {
    exit_code: Option<i32>,
}

/// Notes how a run ended.
pub(crate) async fn finish(
    State(app): Shared,
    Path(run): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let bytes = read(&app, &headers, body, 64 << 10).await?;
    let finish: Finish = if bytes.is_empty() {
        Finish::default()
    } else {
        serde_json::from_slice(&bytes).map_err(|_| ApiError::bad("The body is not JSON like {\"exit_code\": 0}."))?
    };
    let app = Arc::clone(&app);
    blocking(move || {
        let (offset, folder) = app.ingest.finish(&run, finish.exit_code).map_err(refused)?;
        app.watch.pushed(folder, 0);
        json(&value!({"offset": offset}))
    })
    .await
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
pub(super) fn refused(error: IngestError) -> ApiError {
    let message = error.to_string();
    match error {
        IngestError::Name => ApiError::new(StatusCode::BAD_REQUEST, "bad-name", message),
        IngestError::NoRun => ApiError::new(StatusCode::NOT_FOUND, "no-run", message),
        IngestError::Gap(offset) => ApiError::new(StatusCode::CONFLICT, "gap", message).wants(offset),
        IngestError::Differs(offset) => ApiError::new(StatusCode::CONFLICT, "differs", message).wants(offset),
        IngestError::Ended(offset) => ApiError::new(StatusCode::CONFLICT, "ended", message).wants(offset),
        IngestError::Large => ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message),
        // It may end, so it is worth trying again.
        IngestError::Elsewhere => ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "elsewhere", message),
        IngestError::Io(_) => ApiError::new(StatusCode::INSUFFICIENT_STORAGE, "not-kept", message),
    }
}
