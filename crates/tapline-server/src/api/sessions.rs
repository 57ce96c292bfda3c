//! Sessions: the list, one of them, and its steps, page by page.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Extension, Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use tapline_session::SessionState;

use super::{json, json_bytes};
use crate::app::{App, Shared, blocking};
use crate::error::ApiError;
use crate::hub::{Live, locked};
use crate::row::{Details, Row};
use crate::tokens::Rights;
use crate::watch::{GRACE, MOST, make_room_for_reader};

/// How many sessions a page of the list has, unless the client says otherwise, and at most.
const SESSIONS: (usize, usize) = (1_000, 10_000);
/// The same for steps.
const STEPS: (usize, usize) = (200, 500);

/// How long somebody waits for a large session. The rest is read behind their back.
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Debug, Deserialize)]
pub(crate) struct ListQuery {
    q: Option<String>,
    state: Option<String>,
    limit: Option<usize>,
    after: Option<String>,
}

#[derive(Serialize)]
struct List<'r> {
    sessions: Vec<&'r Row>,
    next: Option<String>,
    event_id: u64,
    /// Whether runs may be controlled from here.
    control: bool,
    /// What whoever asks may do.
    rights: Rights,
}

/// Lists sessions.
pub(crate) async fn list(
    State(app): Shared,
    Extension(rights): Extension<Rights>,
    Query(query): Query<ListQuery>,
) -> Result<Response, ApiError> {
    let wanted = query.state.as_deref().filter(|state| !state.is_empty()).map(state_named).transpose()?;
    let after: usize = match query.after.as_deref().filter(|after| !after.is_empty()) {
        None => 0,
        Some(after) => after.parse().map_err(|_| ApiError::bad("`after` is not a cursor. Send `next` of the page before."))?,
    };
    let limit = query.limit.unwrap_or(SESSIONS.0).clamp(1, SESSIONS.1);
    let words: Vec<String> = query.q.unwrap_or_default().to_lowercase().split_whitespace().map(str::to_owned).collect();
    blocking(move || {
        // First: what changes while the list is made is told again.
        let event_id = app.hub.list.newest();
        let rows = app.hub.rows();
        let takes = |row: &&Row| wanted.is_none_or(|state| row.state.kind == state) && matches(row, &words);
        let mut found = rows.iter().map(|row| &**row).filter(takes).skip(after);
        let sessions: Vec<&Row> = found.by_ref().take(limit).collect();
        let next = found.next().map(|_| (after + sessions.len()).to_string());
        json(&List { sessions, next, event_id, control: app.controls.is_allowed, rights })
    })
    .await
}

fn state_named(name: &str) -> Result<SessionState, ApiError> {
    SessionState::ALL.into_iter().find(|state| state.name() == name).ok_or_else(|| {
        let names = SessionState::ALL.map(SessionState::name).join(", ");
        ApiError::bad(format!("`state` is one of: {names}."))
    })
}

/// Returns whether a row has all words.
fn matches(row: &Row, words: &[String]) -> bool {
    let texts =
        [Some(&row.title), row.folder.as_ref(), row.branch.as_ref(), row.model.as_ref(), Some(&row.id), Some(&row.agent)];
    words.is_empty() || {
        let text = texts.into_iter().flatten().map(|text| text.to_lowercase()).collect::<Vec<_>>().join("\n");
        words.iter().all(|word| text.contains(word))
    }
}

/// Opens a session, away from the threads that serve.
pub(super) async fn opened(app: &Arc<App>, id: String) -> Result<Arc<Live>, ApiError> {
    if let Some(live) = app.hub.find(&id) {
        live.touch();
        return Ok(live);
    }
    let app = Arc::clone(app);
    blocking(move || open(&app, &id)).await
}

/// Opens a session. If many are open, another one makes place.
pub(super) fn open(app: &App, id: &str) -> Result<Arc<Live>, ApiError> {
    let is_new = app.hub.find(id).is_none() && app.hub.shelf.row(id).is_some();
    if is_new && !make_room_for_reader(&app.hub, MOST, GRACE) {
        let message = "Others read too many sessions at once. Try again later.";
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message));
    }
    app.hub.open(id).ok_or_else(ApiError::no_session)
}

#[derive(Serialize)]
struct One<'r> {
    #[serde(flatten)]
    row: &'r Row,
    #[serde(flatten)]
    details: Details,
    resume: Vec<String>,
    /// Whether runs may be controlled from here.
    control: bool,
    /// What whoever asks may do.
    rights: Rights,
}

/// Says everything about one session but its steps.
pub(crate) async fn one(
    State(app): Shared,
    Extension(rights): Extension<Rights>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let live = opened(&app, id).await?;
    let resume = app.resume;
    blocking(move || {
        read_until(&app, &live, usize::MAX);
        let row = live.row();
        // A large one is not read yet. Its events say when it is.
        let follower = locked(&live.follower);
        let details = follower.details();
        // A recording without a session has only a name of its own, which no agent knows.
        let is_transcript = live.file.recording.is_none();
        let id = follower.session().or(is_transcript.then_some(row.id.as_str()));
        let resume = resume.zip(id).map(|(resume, id)| resume(&row.agent, id)).unwrap_or_default();
        drop(follower);
        json(&One { row: &row, details, resume, control: app.controls.is_allowed, rights })
    })
    .await
}

/// Reads on until a session has this many steps, or all that there are, or it takes too long for somebody who waits.
pub(super) fn read_until(app: &App, live: &Arc<Live>, steps: usize) {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let follower = locked(&live.follower);
        if follower.is_current || follower.has_ended() || follower.len() >= steps {
            return;
        }
        if !app.hub.advance(live, follower) {
            return;
        }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct StepsQuery {
    from: Option<usize>,
    limit: Option<usize>,
}

/// Returns steps of a session.
pub(crate) async fn steps(
    State(app): Shared,
    Path(id): Path<String>,
    Query(query): Query<StepsQuery>,
) -> Result<Response, ApiError> {
    let live = opened(&app, id).await?;
    let (from, limit) = (query.from.unwrap_or(0), query.limit.unwrap_or(STEPS.0).clamp(1, STEPS.1));
    blocking(move || {
        read_until(&app, &live, from.saturating_add(limit));
        // First: what changes meanwhile is told again.
        let event_id = live.feed.newest();
        let mut follower = locked(&live.follower);
        let mut out = format!("{{\"total\":{},\"event_id\":{event_id},\"steps\":[", follower.len()).into_bytes();
        follower.page(from, limit, &mut out).map_err(|error| ApiError::internal(&error))?;
        out.extend_from_slice(b"]}");
        Ok(json_bytes(out))
    })
    .await
}
