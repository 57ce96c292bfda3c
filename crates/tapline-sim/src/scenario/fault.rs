//! Faults that happen before a turn's own answer.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Repeat;

/// A fault that happens a number of times before the turn's own answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, try_from = "Written")]
pub struct Fault {
    /// What happens.
    pub kind: FaultKind,
    /// How often.
    pub times: Repeat,
    /// After how many events of the stream it happens. With `None`, it happens instead of an answer.
    pub after: Option<usize>,
}

/// The kind of fault.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// An error of the API: with a status, or, in the middle of a stream, as an event.
    Error {
        /// The HTTP status.
        status: u16,
        /// The API's name for the error.
        kind: String,
        /// The message.
        message: String,
        /// Additional headers, such as `retry-after`.
        headers: BTreeMap<String, String>,
    },
    /// The connection is cut.
    Cut,
    /// An event that is not JSON.
    Malformed {
        /// The text of the event.
        data: String,
    },
    /// Nothing more is sent, and the connection stays open.
    Hang,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    kind: Word,
    times: Option<Repeat>,
    after: Option<usize>,
    status: Option<u16>,
    #[serde(rename = "type")]
    error_type: Option<String>,
    message: Option<String>,
    retry_after: Option<f64>,
    headers: Option<BTreeMap<String, String>>,
    data: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Error,
    Cut,
    Malformed,
    Hang,
}

impl TryFrom<Written> for Fault {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let Written { kind, times, after, status, error_type, message, retry_after, headers, data } = written;
        let of_error =
            status.is_some() || error_type.is_some() || message.is_some() || retry_after.is_some() || headers.is_some();
        if kind != Word::Error && of_error {
            return Err("status, type, message, retry_after and headers belong to kind = \"error\"".to_owned());
        }
        if kind != Word::Malformed && data.is_some() {
            return Err("data belongs to kind = \"malformed\"".to_owned());
        }
        let kind = match kind {
            Word::Cut => FaultKind::Cut,
            Word::Hang => FaultKind::Hang,
            Word::Malformed => {
                FaultKind::Malformed { data: data.unwrap_or_else(|| r#"{"type":"content_block_del"#.to_owned()) }
            }
            Word::Error => {
                let status = status.ok_or("an error needs its status, like status = 529")?;
                if !(400..=599).contains(&status) {
                    return Err(format!("status {status} is not an error: use 400 to 599"));
                }
                let kind = error_type.unwrap_or_else(|| error_word(status).to_owned());
                let message = message.unwrap_or_else(|| error_message(status).to_owned());
                let mut headers = headers.unwrap_or_default();
                super::check_headers(&headers)?;
                if let Some(seconds) = retry_after {
                    if !(0.0..=1e9).contains(&seconds) {
                        return Err(format!("retry_after = {seconds} is not a number of seconds"));
                    }
                    headers.insert("retry-after".to_owned(), seconds.to_string());
                }
                FaultKind::Error { status, kind, message, headers }
            }
        };
        Ok(Self { kind, times: times.unwrap_or(Repeat::Exactly(1)), after })
    }
}

/// Returns the API's name for an error status.
pub(crate) fn error_word(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

fn error_message(status: u16) -> &'static str {
    match status {
        401 => "invalid x-api-key",
        403 => "Your API key does not have permission to use the specified resource",
        429 => "This request would exceed your account's rate limit. Please try again later.",
        529 => "Overloaded",
        500.. => "Internal server error",
        _ => "The request was refused",
    }
}

impl Fault {
    /// Returns whether the fault happens every time.
    pub(crate) fn stays(&self) -> bool {
        self.times == Repeat::Forever
    }
}

impl FaultKind {
    /// Returns the name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Error { .. } => "error",
            Self::Cut => "cut",
            Self::Malformed { .. } => "malformed",
            Self::Hang => "hang",
        }
    }
}
