//! The API, version 1: one file for each thing that it is about.

pub(crate) mod archive;
pub(crate) mod control;
pub(crate) mod events;
pub(crate) mod openapi;
pub(crate) mod push;
pub(crate) mod sessions;
pub(crate) mod system;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::error::ApiError;

/// Answers with JSON.
fn json(value: &impl Serialize) -> Result<Response, ApiError> {
    Ok(json_bytes(serde_json::to_vec(value).map_err(|error| ApiError::internal(&error))?))
}

/// Answers with JSON that is written already.
fn json_bytes(bytes: Vec<u8>) -> Response {
    let mut response = bytes.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
