//! Where spans and measures go: a receiver of OTLP over HTTP. A request is tried again as the protocol says; nothing waits without a limit.

use std::collections::hash_map::RandomState;
use std::fmt::Write as _;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use tapline_session::otlp::rejected;
use tapline_session::text::one_line;

/// How long a request may take.
const REQUEST: Duration = Duration::from_secs(10);
/// How long to wait before a request is tried again, at first and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));
/// The longest wait that a receiver may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How much of an answer is read.
const ANSWER: usize = 64 << 10;

/// Why something cannot be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OtlpError {
    /// The address needs encryption, which tapline leaves to others.
    #[error("`{0}` begins with https://, and tapline only speaks http://")]
    Encrypted(String),
    /// The address is none.
    #[error("`{0}` is not an address like http://127.0.0.1:4318")]
    Address(String),
    /// A header is none. Its value may be a secret.
    #[error("header number {0} is not NAME=VALUE")]
    Header(usize),
    /// The receiver cannot be reached.
    #[error("{host} does not answer ({error})")]
    Unreachable {
        /// The receiver.
        host: String,
        /// The cause.
        error: io::Error,
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
    host: String,
    prefix: String,
    /// Written as in a request. They may be secrets, and are never shown.
    headers: String,
}

impl std::fmt::Debug for OtlpTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OtlpTarget").field("host", &self.host).finish_non_exhaustive()
    }
}

/// What a receiver answers.
struct Answer {
    status: u16,
    retry_after: Option<Duration>,
    body: Vec<u8>,
}

impl OtlpTarget {
    /// Reads an address (`http://127.0.0.1:4318`), and headers as `OTEL_EXPORTER_OTLP_HEADERS` has them (`name=value,name=value`, with `%20` for
    /// a blank and the like).
    pub fn read(url: &str, headers: &str) -> Result<Self, OtlpError> {
        let url = url.trim();
        if url.starts_with("https://") {
            return Err(OtlpError::Encrypted(url.to_owned()));
        }
        let bad = || OtlpError::Address(url.to_owned());
        let rest = url.strip_prefix("http://").ok_or_else(bad)?;
        let (host, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && !b"@?#\"<>\\".contains(&byte));
        if host.is_empty() || host.starts_with(':') || !is_plain(host) || !is_plain(prefix) {
            return Err(bad());
        }
        let has_port = host.rsplit_once(':').is_some_and(|(name, port)| !name.is_empty() && port.parse::<u16>().is_ok());
        let is_v6 = host.ends_with(']');
        if !has_port && host.contains(':') && !is_v6 {
            return Err(bad());
        }
        let host = if has_port && !is_v6 { host.to_owned() } else { format!("{host}:80") };
        let prefix = prefix.trim_end_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("/{prefix}") };
        Ok(Self { host, prefix, headers: read_headers(headers)? })
    }

    /// Returns the receiver's host and port.
    pub fn host(&self) -> &str {
        &self.host
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
                    let is_passing = matches!(answer.status, 429 | 502 | 503 | 504);
                    let retry_after = answer.retry_after;
                    let error = self.refused(&answer);
                    if !is_passing {
                        return Err(error);
                    }
                    (error, retry_after)
                }
                Err(error) => (OtlpError::Unreachable { host: self.host.clone(), error }, None),
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

    fn refused(&self, answer: &Answer) -> OtlpError {
        // A receiver answers with a message that has a text in it, or with text.
        let text = String::from_utf8_lossy(&answer.body);
        let why: String = text.chars().filter(|c| !c.is_control() && *c != '\u{fffd}').take(200).collect();
        let why = Some(one_line(why.trim())).filter(|why| !why.is_empty());
        OtlpError::Refused { host: self.host.clone(), status: answer.status, why }
    }

    fn post(&self, path: &str, body: &[u8]) -> io::Result<Answer> {
        let deadline = Instant::now() + REQUEST;
        let left = || match deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::Error::from(io::ErrorKind::TimedOut)),
            left => Ok(left),
        };
        let mut connected = Err(io::Error::from(io::ErrorKind::NotFound));
        for address in self.host.to_socket_addrs()? {
            connected = left().and_then(|left| TcpStream::connect_timeout(&address, left));
            if connected.is_ok() {
                break;
            }
        }
        let mut stream = connected?;
        let Self { host, prefix, headers } = self;
        let head = format!(
            "POST {prefix}{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/x-protobuf\r\n\
             User-Agent: tapline/{}\r\n{headers}Content-Length: {}\r\n\r\n",
            env!("CARGO_PKG_VERSION"),
            body.len()
        );
        for piece in std::iter::once(head.as_bytes()).chain(body.chunks(ANSWER)) {
            stream.set_write_timeout(Some(left()?))?;
            stream.write_all(piece)?;
        }
        let mut answer = Vec::new();
        let mut buffer = vec![0; 8 << 10];
        loop {
            if answer.len() > ANSWER || is_whole(&answer) {
                break;
            }
            stream.set_read_timeout(Some(left()?))?;
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => answer.extend(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Some close a connection in a hurry after they have answered.
                Err(_) if head_of(&answer).is_some() => break,
                Err(error) => return Err(error),
            }
        }
        let (head, body) = head_of(&answer).ok_or(io::ErrorKind::InvalidData)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
        let retry_after = header(&head, "retry-after").and_then(|value| value.parse().ok()).map(Duration::from_secs);
        Ok(Answer { status, retry_after, body: body.to_owned() })
    }
}

/// Returns the head of an answer, and what came after it.
fn head_of(answer: &[u8]) -> Option<(String, &[u8])> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some((String::from_utf8_lossy(&answer[..end]).into_owned(), &answer[end + 4..]))
}

fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    lines.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// Returns whether all of an answer is there. One that does not say how long it is ends with its connection.
fn is_whole(answer: &[u8]) -> bool {
    head_of(answer).is_some_and(|(head, body)| {
        header(&head, "content-length").and_then(|length| length.parse().ok()).is_some_and(|length: usize| body.len() >= length)
    })
}

fn read_headers(text: &str) -> Result<String, OtlpError> {
    let mut headers = String::new();
    for (number, pair) in (1..).zip(text.split(',').map(str::trim).filter(|pair| !pair.is_empty())) {
        let pair = pair.split_once('=').map(|(name, value)| (name.trim(), percent_decoded(value.trim())));
        let is_name =
            |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        let is_value = |value: &str| value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let Some((name, Some(value))) = pair.filter(|(name, _)| is_name(name)) else { return Err(OtlpError::Header(number)) };
        if !is_value(&value) {
            return Err(OtlpError::Header(number));
        }
        let _ = write!(headers, "{name}: {value}\r\n");
    }
    Ok(headers)
}

/// Reads `%20` and the like.
pub fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        if *first == b'%' {
            let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok())?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &behind[2..];
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_others_are_refused() {
        for (url, host, prefix) in [
            ("http://127.0.0.1:4318", "127.0.0.1:4318", ""),
            ("http://collector:4318/", "collector:4318", ""),
            ("http://collector/a/b/", "collector:80", "/a/b"),
            ("http://[::1]:4318", "[::1]:4318", ""),
            ("http://[::1]", "[::1]:80", ""),
        ] {
            let target = OtlpTarget::read(url, "").unwrap();
            assert_eq!((target.host.as_str(), target.prefix.as_str()), (host, prefix), "{url}");
        }
        for url in [
            "",
            "127.0.0.1:4318",
            "http://",
            "http://:4318",
            "http://a b",
            "http://u:p@host:1",
            "http://host:99999",
            "http://h/\r\nX: y",
            "grpc://x",
            "http://h?x",
        ] {
            assert!(matches!(OtlpTarget::read(url, ""), Err(OtlpError::Address(_))), "{url}");
        }
        assert!(matches!(OtlpTarget::read("https://collector:4318", ""), Err(OtlpError::Encrypted(_))));
    }

    #[test]
    fn headers_are_read_and_never_shown() {
        let target = OtlpTarget::read("http://h:1", " api-key = s%20ecret , x-tenant=a=b,").unwrap();
        assert_eq!(target.headers, "api-key: s ecret\r\nx-tenant: a=b\r\n");
        assert!(!format!("{target:?}").contains("ecret"));
        for headers in ["novalue", "=x", "a b=c", "a=%0d%0aX:%20y", "a=%zz", "a=%c3%a4", "a=1,b"] {
            let error = OtlpTarget::read("http://h:1", headers).unwrap_err();
            assert!(matches!(error, OtlpError::Header(_)), "{headers}");
        }
    }
}
