//! What is not about sessions: the page, its one-time link, health and metrics.

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;
use serde_json::json as value;

use super::json;
use crate::app::{Shared, blocking};
use crate::assets;
use crate::error::ApiError;

/// Says that the server runs.
pub(crate) async fn health() -> &'static str {
    "ok\n"
}

/// Says whether the sessions that live are known.
pub(crate) async fn ready(State(app): Shared) -> Response {
    let why = match () {
        () if app.watch.has_failed() => "failed: sessions are no longer watched. Start the server again\n",
        () if app.watch.is_ready() => return "ok\n".into_response(),
        () => "starting\n",
    };
    (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
}

/// Writes counters for Prometheus.
pub(crate) async fn metrics(State(app): Shared) -> Result<Response, ApiError> {
    let text = blocking(move || {
        let budgets = app.budgets.rows(&app.hub.shelf).map_err(|error| ApiError::internal(&error))?;
        Ok(app.metrics.text(&app.hub, &budgets))
    });
    let mut response = text.await?.into_response();
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

/// Returns the page.
pub(crate) async fn page() -> Response {
    assets::page()
}

/// Returns a file of the page.
pub(crate) async fn asset(Path(name): Path<String>) -> Result<Response, ApiError> {
    assets::asset(&name)
}

#[derive(Debug, Deserialize)]
pub(crate) struct TicketQuery {
    ticket: Option<String>,
}

/// What the link answers. It is not a redirect: if another site has the link, a redirect would come from that site, too, and without the
/// cookie. It names its icon, because a browser would ask for one that is not there.
const OPENED: &str = "<!doctype html><meta charset=utf-8><link rel=icon href=/assets/icon.svg type=image/svg+xml>\
                      <meta http-equiv=refresh content=\"0;url=/\"><title>tapline</title>\n";

/// Lets a browser in with the one-time link: it gets a cookie, and the ticket leaves the address bar.
pub(crate) async fn open(method: Method, State(app): Shared, Query(query): Query<TicketQuery>) -> Result<Response, ApiError> {
    // Programs that only look whether a link works must not use it up.
    if method != Method::GET {
        return Err(ApiError::wrong_method());
    }
    let cookie = app.guard.cookie();
    let is_good = blocking(move || Ok(query.ticket.is_some_and(|ticket| app.tickets.take(&ticket)))).await?;
    if !is_good {
        let message = "This link was used already, is older than ten minutes, or is not this server's. `tapline serve link` prints a new one.";
        return Err(ApiError::new(StatusCode::UNAUTHORIZED, "used-link", message));
    }
    with_cookie(Html(OPENED).into_response(), &cookie)
}

/// Lets a browser in with a token: it gets a cookie with the rights of the token.
pub(crate) async fn sign_in(State(app): Shared, headers: HeaderMap) -> Result<Response, ApiError> {
    let cookie = app.guard.cookie_for(&headers);
    let cookie = cookie.ok_or_else(|| ApiError::bad("Send a token as `Authorization: Bearer TOKEN`."))?;
    with_cookie(json(&value!({"ok": true}))?, &cookie)
}

fn with_cookie(mut response: Response, cookie: &str) -> Result<Response, ApiError> {
    let cookie = HeaderValue::from_str(cookie).map_err(|error| ApiError::internal(&error))?;
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}
