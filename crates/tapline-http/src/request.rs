//! A request with its whole body, and the answer to it.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, RETRY_AFTER, USER_AGENT};
use hyper::http;

use crate::address::Address;
use crate::error::HttpError;

/// A request.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: Bytes,
}

impl HttpRequest {
    /// Asks for a path, which begins with a slash and may have a query.
    pub fn get(path: impl Into<String>) -> Self {
        Self { method: "GET", path: path.into(), headers: Vec::new(), body: Bytes::new() }
    }

    /// Sends something to a path.
    pub fn post(path: impl Into<String>) -> Self {
        Self { method: "POST", ..Self::get(path) }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Writes the request for a server.
    pub(crate) fn to(self, address: &Address) -> Result<http::Request<Full<Bytes>>, HttpError> {
        let mut request = http::Request::builder()
            .method(self.method)
            .uri(address.path(&self.path))
            .header(HOST, address.host())
            .header(CONNECTION, "close")
            .header(USER_AGENT, concat!("tapline/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_LENGTH, self.body.len());
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.body(Full::new(self.body)).map_err(HttpError::Request)
    }
}

/// An answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpAnswer {
    /// The status: 200, 404, …
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, or as much of it as is read.
    pub body: Bytes,
}

impl HttpAnswer {
    /// Returns for how long the server asks to wait before the request is sent again.
    pub fn retry_after(&self) -> Option<Duration> {
        self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}
