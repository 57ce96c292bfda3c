//! Where spans and measures go: a receiver of OTLP over HTTP. A request is tried again as the protocol says; nothing waits without a limit.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::time::Duration;

use tapline_http::{Address, AddressError, BlockingClient, HttpAnswer, HttpError, HttpRequest, percent_decoded};
use tapline_session::otlp::rejected;
use tapline_session::text::one_line;

/// How long a request may take.
const REQUEST: Duration = Duration::from_secs(10);
/// How long to wait before a request is tried again, at first and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));
/// The longest wait that a receiver may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Why something cannot be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OtlpError {
    /// The address cannot be used.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A header is none. Its value may be a secret.
    #[error("header number {0} is not NAME=VALUE")]
    Header(usize),
    /// The receiver cannot be reached.
    #[error("{host} does not answer ({error})")]
    Unreachable {
        /// The receiver.
        host: String,
        /// The cause.
        error: HttpError,
    },
    /// The receiver refuses what it gets.
    #[error("{host} answers {status}{}", .why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    Refused {
        /// The receiver.
        host: String,
        /// The HTTP status.
        status: u16,
        /// What it says.
        why: Option<String>,
    },
}

/// A receiver of OTLP: its address, and the headers that it wants.
#[derive(Clone)]
pub struct OtlpTarget {
    address: Address,
    /// They may be secrets, and are never shown.
    headers: Vec<(String, String)>,
}

impl std::fmt::Debug for OtlpTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OtlpTarget").field("address", &self.address).finish_non_exhaustive()
    }
}

impl OtlpTarget {
    /// Reads an address (`http://127.0.0.1:4318`), and headers as `OTEL_EXPORTER_OTLP_HEADERS` has them (`name=value,name=value`, with `%20` for
    /// a blank and the like).
    pub fn read(url: &str, headers: &str) -> Result<Self, OtlpError> {
        Ok(Self { address: Address::read(url)?, headers: read_headers(headers)? })
    }

    /// Returns the receiver's host and port.
    pub fn host(&self) -> String {
        self.address.host()
    }

    /// Sends a request to `/v1/traces` or `/v1/metrics`, and again for as long as the receiver may come back. `wait` waits, and says whether to
    /// go on. Returns how many parts the receiver refused although it took the rest, and why.
    pub(crate) fn deliver(
        &self,
        path: &str,
        body: &[u8],
        mut wait: impl FnMut(&OtlpError, Duration) -> bool,
    ) -> Result<Option<(u64, String)>, OtlpError> {
        let mut backoff = BACKOFF.0;
        loop {
            let (error, asked) = match self.post(path, body) {
                Ok(answer) if (200..300).contains(&answer.status) => return Ok(rejected(&answer.body)),
                Ok(answer) => {
                    let error = self.refused(&answer);
                    if !matches!(answer.status, 429 | 502 | 503 | 504) {
                        return Err(error);
                    }
                    (error, answer.retry_after())
                }
                Err(error) => (OtlpError::Unreachable { host: self.host(), error }, None),
            };
            // Many senders that come back at the same moment would be too many again.
            let spread = RandomState::new().build_hasher().finish() % 256;
            let own = backoff.mul_f64(0.75 + f64::from(u32::try_from(spread).unwrap_or(0)) / 512.0);
            if !wait(&error, asked.map_or(own, |asked| asked.max(own).min(LONGEST_WAIT))) {
                return Err(error);
            }
            backoff = (backoff * 2).min(BACKOFF.1);
        }
    }

    fn refused(&self, answer: &HttpAnswer) -> OtlpError {
        // A receiver answers with a message that has a text in it, or with text.
        let why: String = answer.text().chars().filter(|c| !c.is_control() && *c != '\u{fffd}').take(200).collect();
        let why = Some(one_line(why.trim())).filter(|why| !why.is_empty());
        OtlpError::Refused { host: self.host(), status: answer.status, why }
    }

    fn post(&self, path: &str, body: &[u8]) -> Result<HttpAnswer, HttpError> {
        let client = BlockingClient::new().map_err(HttpError::Connect)?;
        let mut request = HttpRequest::post(path).header("content-type", "application/x-protobuf").body(body.to_vec());
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        client.send(&self.address, request, REQUEST)
    }
}

fn read_headers(text: &str) -> Result<Vec<(String, String)>, OtlpError> {
    let mut headers = Vec::new();
    for (number, pair) in (1..).zip(text.split(',').map(str::trim).filter(|pair| !pair.is_empty())) {
        let pair = pair.split_once('=').map(|(name, value)| (name.trim(), percent_decoded(value.trim())));
        let is_name =
            |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        let is_value = |value: &str| value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        match pair {
            Some((name, Some(value))) if is_name(name) && is_value(&value) => headers.push((name.to_owned(), value)),
            Some(_) | None => return Err(OtlpError::Header(number)),
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_and_never_shown() {
        let target = OtlpTarget::read("http://h:1", " api-key = s%20ecret , x-tenant=a=b,").unwrap();
        let headers: Vec<_> = target.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(headers, [("api-key", "s ecret"), ("x-tenant", "a=b")]);
        assert!(!format!("{target:?}").contains("ecret"));
        for headers in ["novalue", "=x", "a b=c", "a=%0d%0aX:%20y", "a=%zz", "a=%c3%a4", "a=1,b"] {
            let error = OtlpTarget::read("http://h:1", headers).unwrap_err();
            assert!(matches!(error, OtlpError::Header(_)), "{headers}");
        }
    }
}
