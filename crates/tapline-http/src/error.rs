//! Why a request has no answer.

use std::error::Error;
use std::io;
use std::time::Duration;

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// No connection could be made.
    #[error("{0}")]
    Connect(#[source] io::Error),
    /// The server is not who it should be, or does not encrypt as it should.
    #[error("no encrypted connection: {0}")]
    Tls(#[source] io::Error),
    /// The connection broke, or what came is not HTTP.
    #[error("{}", root_cause(&**.0))]
    Broken(#[source] Box<dyn Error + Send + Sync>),
    /// The request could not be written: a header has a character that it may not have.
    #[error("the request cannot be written: {0}")]
    Request(#[source] hyper::http::Error),
    /// There was no answer in time.
    #[error("no answer within {:?}", .0)]
    TimedOut(Duration),
}

/// Returns what the first cause of an error says, which is the shortest and says most.
pub fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
