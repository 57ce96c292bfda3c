//! The guard of every route: which names the server answers to, which pages may ask, who may come in, and what they may do. It also puts the headers on
//! every answer that keep a browser from doing more than the page needs.

use std::net::SocketAddr;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use crate::error::ApiError;
use crate::secret::Secret;
use crate::tokens::{Right, ServerTokens};

/// What a page may do: its own scripts, styles and requests, and nothing else.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                              manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of every answer.
static HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

/// Who may ask a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anybody: it says nothing about sessions.
    Open,
    /// Any browser, because it says nothing about sessions: the page, which asks for a token if the browser has no cookie. A link on another
    /// site may lead here, but no other site gets it into its own pages.
    Page,
    /// Whoever has a token or a cookie: it says nothing about sessions.
    Known,
    /// Whoever has this right.
    With(Right),
}

/// Decides about requests.
#[derive(Debug)]
pub(crate) struct Guard {
    /// The names that the server answers to, in small letters, with a port.
    names: Vec<String>,
    /// Names that users gave: whatever the port, as a proxy may have another one.
    given: Vec<String>,
    /// The cookie that the link gives.
    cookie: Secret,
    tokens: ServerTokens,
    cookie_name: String,
}

impl Guard {
    pub(crate) fn new(address: SocketAddr, hosts: &[String], tokens: ServerTokens) -> Self {
        let port = address.port();
        let mut names =
            vec![format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}"), address.to_string()];
        if port == 80 {
            names.extend(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned));
        }
        let given = hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        // Cookies of one host are shared by all its ports.
        let cookie_name = format!("tapline_{port}");
        Self { names, given, tokens, cookie: Secret::random(), cookie_name }
    }

    /// Returns the cookie of the link, with all rights.
    pub(crate) fn cookie(&self) -> String {
        self.set(&self.cookie)
    }

    /// Returns the cookie of the token that comes with a request, with the rights of the token.
    pub(crate) fn cookie_for(&self, headers: &HeaderMap) -> Option<String> {
        self.tokens.find(bearer(headers)?).map(|token| self.set(&token.cookie))
    }

    fn set(&self, cookie: &Secret) -> String {
        format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie_name, cookie.text())
    }

    /// Refuses a request that must not be answered. Returns what whoever asks may do, where that matters.
    pub(crate) fn check(&self, parts: &Parts, access: Access) -> Result<&[Right], ApiError> {
        self.check_host(parts)?;
        if access == Access::Open || access == Access::Page && is_followed(parts) {
            return Ok(&[]);
        }
        self.check_origin(&parts.headers)?;
        if access == Access::Page {
            return Ok(&[]);
        }
        let rights = self.rights(parts)?;
        match access {
            Access::With(right) if !rights.contains(&right) => {
                let message = format!(
                    "This needs the right `{}`, which this token does not have. Use another token, or change its line in the server's token file.",
                    right.name()
                );
                Err(ApiError::new(StatusCode::FORBIDDEN, "no-right", message))
            }
            _ => Ok(rights),
        }
    }

    /// A name that is not ours may be of a page elsewhere that had it lead here (DNS rebinding).
    fn check_host(&self, parts: &Parts) -> Result<(), ApiError> {
        let wrong = |message: &str| Err(ApiError::new(StatusCode::MISDIRECTED_REQUEST, "wrong-host", message));
        let mut hosts = parts.headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err(ApiError::bad("The request needs exactly one Host header."));
        };
        let told = host.to_str().unwrap_or_default();
        let authority = parts.uri.authority().map(axum::http::uri::Authority::as_str);
        if !self.is_ours(told) || authority.is_some_and(|authority| !self.is_ours(authority)) {
            return wrong(
                "The server does not answer to this host name. Use the address that it printed, or allow the name when you start it.",
            );
        }
        Ok(())
    }

    fn is_ours(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => &host,
        };
        self.names.contains(&host) || self.given.iter().any(|given| *given == host || given == name)
    }

    /// A browser says which page asks. Another page must get nothing, whatever cookies come with it; nor a page on another port of a name
    /// that the server answers to.
    fn check_origin(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let asked = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let is_ours = |origin: &str| {
            let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            // A proxy may ask under another name than it has.
            let is_given = |host: &str| self.given.iter().any(|given| given.eq_ignore_ascii_case(host));
            host.is_some_and(|host| host.eq_ignore_ascii_case(asked) || is_given(host))
        };
        let origins = headers.get_all(header::ORIGIN).iter().all(|origin| origin.to_str().is_ok_and(is_ours));
        let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
        if origins && site.is_none_or(|site| ["same-origin", "none"].contains(&site)) {
            return Ok(());
        }
        Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "wrong-origin",
            "Only the server's own page may ask this. Open it by the address that the server printed.",
        ))
    }

    /// Returns what somebody may do.
    fn rights(&self, parts: &Parts) -> Result<&[Right], ApiError> {
        let headers = &parts.headers;
        let denied = |code, message: &str| Err(ApiError::new(StatusCode::UNAUTHORIZED, code, message));
        if headers.contains_key(header::AUTHORIZATION) {
            let token = bearer(headers).and_then(|token| self.tokens.find(token));
            return token.map(|token| token.rights.as_slice()).map_or_else(
                || {
                    denied(
                        "wrong-token",
                        "The token is wrong. Send one of the server's tokens as `Authorization: Bearer TOKEN`.",
                    )
                },
                Ok,
            );
        }
        let Some(rights) = self.rights_of_cookie(headers) else {
            return denied(
                "no-token",
                "Open a link of the server, which `tapline serve link` prints, or send one of its tokens as `Authorization: Bearer TOKEN`.",
            );
        };
        // Browsers say where a request that changes something comes from. One that does not say it is not a browser's.
        let changes = ![Method::GET, Method::HEAD].contains(&parts.method);
        if changes && !headers.contains_key(header::ORIGIN) {
            return Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "no-origin",
                "A request that changes something needs an Origin header, or a token as `Authorization: Bearer TOKEN`.",
            ));
        }
        Ok(rights)
    }

    fn rights_of_cookie(&self, headers: &HeaderMap) -> Option<&[Right]> {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let all = |value: &str| self.cookie.is(value).then_some(Right::ALL.as_slice());
        let of_token = |value: &str| self.tokens.with_cookie(value).map(|token| token.rights.as_slice());
        pairs.filter(|(name, _)| *name == self.cookie_name).find_map(|(_, value)| all(value).or_else(|| of_token(value)))
    }
}

/// Returns the token that comes with a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Returns whether a browser goes somewhere with a tab of its own, as it does when a person follows a link. What it gets there, no other page
/// can read.
fn is_followed(parts: &Parts) -> bool {
    let is = |name: &str, value: &str| parts.headers.get(name).is_some_and(|given| given == value);
    let has_origin = parts.headers.contains_key(header::ORIGIN);
    parts.method == Method::GET && !has_origin && is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document")
}

/// Puts the headers on an answer.
pub(crate) fn seal(headers: &mut HeaderMap) {
    for (name, value) in &HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}
