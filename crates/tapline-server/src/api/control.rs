//! Control of runs that tapline drives, if the server was told to allow it: answers to questions, messages, interrupt, stop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json as value};
use tapline_session::{Inquiry, InquiryAnswers};

use super::json;
use super::push::refused;
use super::sessions::opened;
use crate::app::{App, Shared, blocking};
use crate::bodies::Incoming;
use crate::controls::NotGiven;
use crate::error::ApiError;
use crate::hub::{Live, locked};
use crate::questions::Questions;
use crate::row::OpenQuestion;

/// How long a run that asks waits for a command.
const WAIT: Duration = Duration::from_secs(20);
/// The longest answer or message.
pub(crate) const LARGEST: usize = 256 << 10;

#[derive(Debug, Deserialize)]
struct Answer {
    question: String,
    digest: String,
    decision: Decision,
    message: Option<String>,
    answers: Option<BTreeMap<String, Chosen>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Decision {
    Allow,
    Deny,
}

/// What was chosen or said.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Chosen {
    One(String),
    Several(Vec<String>),
}

impl Chosen {
    fn all(self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one],
            Self::Several(several) => several,
        }
    }
}

/// Says all that a question asks.
pub(crate) async fn question(State(app): Shared, Path((id, question)): Path<(String, String)>) -> Result<Response, ApiError> {
    let live = opened(&app, id).await?;
    blocking(move || {
        let follower = locked(&live.follower);
        let whole = follower.questions().whole(&question).map_err(|error| ApiError::internal(&error))?;
        let Some((row, text)) = whole else { return Err(not_open(&live, follower.questions(), &question)) };
        drop(follower);
        json(&OpenQuestion { text: Some(text), ..row })
    })
    .await
}

/// Answers a question of a run.
pub(crate) async fn answer(State(app): Shared, Path(id): Path<String>, body: Incoming) -> Result<Response, ApiError> {
    let (live, run) = run(&app, id).await?;
    let bytes = app.messages.read(body).await?;
    let wrong = |_| {
        ApiError::bad(
            "The body is not JSON like {\"question\": \"ID\", \"digest\": \"…\", \"decision\": \"allow\"}; a decision is allow or deny, and the digest is \
             that of the question that you saw: get the session.",
        )
    };
    let answer: Answer = serde_json::from_slice(&bytes).map_err(wrong)?;
    drop(bytes);
    blocking(move || {
        let question = (answer.question.clone(), answer.digest.clone());
        let (how, command) = told(&app, &live, &run, answer)?;
        app.controls.answer(&run, question, how, command).map_err(not_given)?;
        // Everybody who looks at the question knows at once that it has its answer.
        app.hub.show(&live, &locked(&live.follower));
        json(&value!({"ok": true}))
    })
    .await
}

/// Checks an answer. Returns how its question is answered, and what the run is told.
fn told(app: &App, live: &Live, run: &str, answer: Answer) -> Result<(&'static str, Value), ApiError> {
    let Answer { question, digest, decision, message, answers } = answer;
    if let Some(given) = app.controls.answered(run, &question, &digest) {
        return Err(already(&given.told()));
    }
    let follower = locked(&live.follower);
    let open = follower.questions().rows().into_iter().find(|open| open.id == question);
    let Some(open) = open else { return Err(not_open(live, follower.questions(), &question)) };
    if open.digest != digest {
        let message =
            "This is not the question that you saw: it asks for something else now. Look at it again, and answer that.";
        return Err(ApiError::new(StatusCode::CONFLICT, "changed", message));
    }
    if decision == Decision::Deny {
        let command =
            value!({"command": "answer", "question": question, "digest": digest, "decision": "deny", "message": message});
        return Ok(("refused", command));
    }
    // What nobody can have seen is not allowed.
    let whole = follower.questions().whole(&question).map_err(|error| ApiError::internal(&error))?;
    drop(follower);
    let Some((_, text)) = whole else { return Err(not_shown()) };
    let answers: InquiryAnswers = answers.into_iter().flatten().map(|(question, chosen)| (question, chosen.all())).collect();
    let mistake = Inquiry::mistake(&text.options, &answers);
    if let Some(mistake) = mistake {
        return Err(ApiError::bad(format!(
            "The answers do not fit: {mistake}. Send `answers`: what was chosen for each question."
        )));
    }
    let mut command = value!({"command": "answer", "question": question, "digest": digest, "decision": "allow"});
    if text.options.is_empty() {
        return Ok(("allowed", command));
    }
    command["answers"] = value!(answers.into_iter().collect::<BTreeMap<String, Vec<String>>>());
    Ok(("answered", command))
}

/// Says why a question cannot be shown or answered.
fn not_open(live: &Live, questions: &Questions, id: &str) -> ApiError {
    if let Some(how) = questions.settled(id) {
        return already(how);
    }
    if live.row().questions.iter().any(|open| open.id == id) {
        return not_shown();
    }
    let message = "This question is not open any more. Get the session again.";
    ApiError::new(StatusCode::CONFLICT, "no-question", message)
}

fn not_shown() -> ApiError {
    let message =
        "This question is too large to be shown here, so it cannot be allowed here. Answer it where the session runs.";
    ApiError::new(StatusCode::CONFLICT, "not-shown", message)
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
pub(crate) async fn message(State(app): Shared, Path(id): Path<String>, body: Incoming) -> Result<Response, ApiError> {
    let (_, run) = run(&app, id).await?;
    let bytes = app.messages.read(body).await?;
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
    app.controls.give(run, command).map_err(not_given)?;
    json(&value!({"ok": true}))
}

fn not_given(why: NotGiven) -> ApiError {
    match why {
        NotGiven::OutOfReach => out_of_reach(),
        NotGiven::Answered(given) => already(&given.told()),
    }
}

/// Refuses an answer to a question that has one.
fn already(how: &str) -> ApiError {
    let message = format!("This question has its answer: it was {how}. The first answer counts.");
    ApiError::new(StatusCode::CONFLICT, "answered", message)
}

#[derive(Debug, Deserialize)]
pub(crate) struct CommandsQuery {
    after: Option<String>,
    messages: Option<bool>,
}

/// Returns the commands for a run that is pushed, or waits a while for one.
pub(crate) async fn commands(
    State(app): Shared,
    Path(run): Path<String>,
    Query(query): Query<CommandsQuery>,
) -> Result<Response, ApiError> {
    let wrong = |_| ApiError::bad("`after` is not a number. Send the `n` of the last command that you have, or leave it out.");
    let after: u64 = query.after.as_deref().map_or(Ok(0), str::parse).map_err(wrong)?;
    let (asking, asked) = (Arc::clone(&app), run.clone());
    blocking(move || asking.ingest.folder(&asked).map_err(refused)).await?;
    let (mut news, mut stop) = (app.controls.news(), app.stop.clone());
    let deadline = tokio::time::sleep(WAIT);
    tokio::pin!(deadline);
    loop {
        news.mark_unchanged();
        let commands = app.controls.read(&run, after, query.messages);
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
