//! Ingest: streams that other machines and scripts push.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use serde_json::json as value;

use super::json;
use crate::app::{Shared, blocking};
use crate::bodies::Incoming;
use crate::error::ApiError;
use crate::ingest::{About, IngestError};

/// The most bytes of a piece of a run.
pub(crate) const LARGEST: usize = 8 << 20;

/// Takes bytes of a run.
pub(crate) async fn append(
    State(app): Shared,
    Path(run): Path<String>,
    Query(about): Query<About>,
    headers: HeaderMap,
    body: Incoming,
) -> Result<Response, ApiError> {
    let offset = match headers.get("tapline-offset") {
        None => None,
        Some(offset) => Some(offset.to_str().ok().and_then(|offset| offset.parse().ok()).ok_or_else(|| {
            ApiError::bad("Tapline-Offset is not a number. Send how many bytes of the run came before these.")
        })?),
    };
    let bytes = app.uploads.read(body).await?;
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
pub(crate) async fn finish(State(app): Shared, Path(run): Path<String>, body: Incoming) -> Result<Response, ApiError> {
    let bytes = app.messages.read(body).await?;
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
