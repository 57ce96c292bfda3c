//! Control of runs that tapline drives, if the server was told to allow it: answers to questions, messages, interrupt, stop.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json as value};

use super::json;
use super::push::{read, refused};
use super::sessions::opened;
use crate::app::{App, Shared, blocking};
use crate::error::ApiError;
use crate::hub::Live;

/// How long a run that asks waits for a command.
const WAIT: Duration = Duration::from_secs(20);
/// The longest body.
const LARGEST: usize = 256 << 10;

#[derive(Debug, Deserialize)]
struct Answer {
    question: String,
    decision: Decision,
    message: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Decision {
    Allow,
    Deny,
}

/// Answers a question of a run.
pub(crate) async fn answer(
    State(app): Shared,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let (live, run) = run(&app, id).await?;
    let bytes = read(&app, &headers, body, LARGEST).await?;
    let wrong = |_| {
        ApiError::bad("The body is not JSON like {\"question\": \"ID\", \"decision\": \"allow\"}; a decision is allow or deny.")
    };
    let Answer { question, decision, message } = serde_json::from_slice(&bytes).map_err(wrong)?;
    if !live.row().questions.iter().any(|open| open.id == question) {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "no-question",
            "This question is not open any more. Get the session again.",
        ));
    }
    let decision = match decision {
        Decision::Allow => "allow",
        Decision::Deny => "deny",
    };
    give(&app, &run, value!({"command": "answer", "question": question, "decision": decision, "message": message}))
}

/// Interrupts a run, as Ctrl-C does.
pub(crate) async fn interrupt(State(app): Shared, Path(id): Path<String>) -> Result<Response, ApiError> {
    let (_, run) = run(&app, id).await?;
    give(&app, &run, value!({"command": "interrupt"}))
}

/// Stops a run.
pub(crate) async fn stop(State(app): Shared, Path(id): Path<String>) -> Result<Response, ApiError> {
    let (_, run) = run(&app, id).await?;
    give(&app, &run, value!({"command": "stop"}))
}

#[derive(Debug, Deserialize)]
struct Message {
    text: String,
}

/// Sends a run a message.
pub(crate) async fn message(
    State(app): Shared,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let (_, run) = run(&app, id).await?;
    let bytes = read(&app, &headers, body, LARGEST).await?;
    let Message { text } =
        serde_json::from_slice(&bytes).map_err(|_| ApiError::bad("The body is not JSON like {\"text\": \"…\"}."))?;
    if !app.controls.takes_messages(&run) {
        let message = "This run takes no messages. It takes them if it was started so that it asks here for permissions.";
        return Err(ApiError::new(StatusCode::CONFLICT, "no-messages", message));
    }
    give(&app, &run, value!({"command": "message", "text": text}))
}

/// Returns the run of a session, if it takes commands.
async fn run(app: &Arc<App>, id: String) -> Result<(Arc<Live>, String), ApiError> {
    if !app.controls.is_allowed {
        let message = "This server only watches. Start it again and allow control to answer, interrupt and stop runs.";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "no-control", message));
    }
    let live = opened(app, id).await?;
    let run = live.run().filter(|run| app.controls.reaches(run));
    run.map(|run| (live, run)).ok_or_else(out_of_reach)
}

fn out_of_reach() -> ApiError {
    ApiError::new(StatusCode::CONFLICT, "out-of-reach", "This session takes no commands from here. Answer it where it runs.")
}

fn give(app: &App, run: &str, command: Value) -> Result<Response, ApiError> {
    if !app.controls.give(run, command) {
        return Err(out_of_reach());
    }
    json(&value!({"ok": true}))
}

#[derive(Debug, Deserialize)]
pub(crate) struct CommandsQuery {
    after: Option<u64>,
    messages: Option<bool>,
}

/// Returns the commands for a run that is pushed, or waits a while for one.
pub(crate) async fn commands(
    State(app): Shared,
    Path(run): Path<String>,
    Query(query): Query<CommandsQuery>,
) -> Result<Response, ApiError> {
    let (asking, asked) = (Arc::clone(&app), run.clone());
    blocking(move || asking.ingest.folder(&asked).map_err(refused)).await?;
    let after = query.after.unwrap_or(0);
    let (mut news, mut stop) = (app.controls.news(), app.stop.clone());
    let deadline = tokio::time::sleep(WAIT);
    tokio::pin!(deadline);
    loop {
        news.mark_unchanged();
        let commands = app.controls.take(&run, after, query.messages.unwrap_or(false));
        let is_over = *stop.borrow() || !app.controls.is_allowed || !commands.is_empty() || deadline.is_elapsed();
        if is_over {
            return json(&value!({"commands": commands, "allowed": app.controls.is_allowed}));
        }
        tokio::select! {
            _ = news.changed() => {}
            _ = stop.changed() => {}
            () = &mut deadline => {}
        }
    }
}
