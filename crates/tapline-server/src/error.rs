//! What goes wrong: why a server does not start, and what the API answers when it refuses a request.

use std::io;
use std::path::PathBuf;

use axum::body::to_bytes;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address cannot be used.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The address can be reached from other machines, but no token was given.
    #[error("{0} can be reached from other machines, so the server needs a token that you give it in a file")]
    Open(String),
    /// A folder of the server cannot be used.
    #[error("cannot use {path}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The threads that watch sessions cannot be started.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}

/// A request that is refused: the status, a word for programs, and a sentence for people that says what to do.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    /// What the client needs to know to do better.
    offset: Option<u64>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), offset: None }
    }

    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", message)
    }

    pub(crate) fn no_session() -> Self {
        Self::new(StatusCode::NOT_FOUND, "no-session", "No session has this id. Get the list of sessions again.")
    }

    pub(crate) fn wrong_method() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "wrong-method",
            "This cannot be asked with this method. /api/v1/openapi.json lists what can.",
        )
    }

    /// Something failed here. The cause is for the person who runs the server.
    pub(crate) fn internal(error: &dyn std::error::Error) -> Self {
        let message = format!("The server could not do this: {}.", tapline_session::text::with_causes(error));
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }

    /// Says which offset is wanted.
    pub(crate) fn wants(self, offset: u64) -> Self {
        Self { offset: Some(offset), ..self }
    }
}

/// The sentence of a refusal, kept with its answer for those who read no JSON.
#[derive(Clone, Debug)]
struct Sentence(String);

/// Answers a person, and not a program: a refusal is only its sentence.
pub(crate) fn for_people(response: &mut Response) {
    if let Some(Sentence(sentence)) = response.extensions_mut().remove() {
        *response.body_mut() = format!("{sentence}\n").into();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    }
}

/// The longest refusal of the framework that is told.
const LONGEST: usize = 4 << 10;

/// Answers a program: a refusal of the framework, such as one of a query that cannot be read, becomes one of the API.
pub(crate) async fn for_programs(response: Response) -> Response {
    if !response.status().is_client_error() || response.extensions().get::<Sentence>().is_some() {
        return response;
    }
    let status = response.status();
    let text = to_bytes(response.into_body(), LONGEST).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let why = text.trim().trim_end_matches('.');
    ApiError::new(status, "bad-request", format!("{why}. /api/v1/openapi.json says what can be sent.")).into_response()
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(offset) = self.offset {
            error["offset"] = offset.into();
        }
        let mut response = (self.status, json!({ "error": error }).to_string()).into_response();
        response.extensions_mut().insert(Sentence(self.message));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
