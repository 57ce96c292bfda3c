//! The description of the API, for programs. A test compares it with the routes.

use axum::response::Response;

use super::json_bytes;

/// The description.
pub(crate) const DOCUMENT: &str = include_str!("openapi.json");

/// Returns the description.
pub(crate) async fn document() -> Response {
    json_bytes(DOCUMENT.as_bytes().to_vec())
}
