//! The server of the scripted model: reads a request, lets the script choose, and sends the answer at its pace and with
//! its faults.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming};
use hyper::header::{HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tapline_protocol::Json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::answer::{Answer, Body, error_document, error_event, event, short};
use crate::asked::Api;
use crate::journal::{Answered, Journal, Logged};
use crate::scenario::{Fault, FaultKind, Lane, Pace, ScriptedBlock, ScriptedTurn, Usage};
use crate::script::Choice;
use crate::{messages, responses};

/// The longest request.
const LONGEST: usize = 256 << 20;
/// How long data that was sent has to leave before the connection is cut.
const FLUSH: Duration = Duration::from_millis(30);

/// Serves until it is dropped.
pub(crate) async fn serve(listener: TcpListener, journal: Arc<Journal>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // For example, there are no file descriptors left. Try again.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        tokio::spawn(connection(stream, Arc::clone(&journal)));
    }
}

async fn connection(stream: TcpStream, journal: Arc<Journal>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let journal = Arc::clone(&journal);
        // Without an answer, the connection is cut.
        async move { respond(request, &journal).await.ok_or(io::Error::from(io::ErrorKind::ConnectionReset)) }
    });
    // It is not a failure if a client disconnects early.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// The body that is sent.
enum Sent {
    Whole(Option<Bytes>),
    /// In pieces. An error cuts the connection.
    Pieces(Receiver<io::Result<Bytes>>),
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Pieces(pieces) => pieces.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }
}

async fn respond(request: Request<Incoming>, journal: &Arc<Journal>) -> Option<Response<Sent>> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or_else(|| parts.uri.path().to_owned(), ToString::to_string);
    let headers =
        parts.headers.iter().map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
    let headers: BTreeMap<String, String> = headers.collect();
    let body = Limited::new(body, LONGEST).collect().await.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned());
    let logged = |body| Logged::new(journal.elapsed_ms(), parts.method.to_string(), path, headers, body);
    let Ok(body) = body else {
        let error = error_document(Api::Messages, "request_too_large", "the request is too long or incomplete");
        return Some(plain(journal, logged(String::new()), StatusCode::PAYLOAD_TOO_LARGE, &error));
    };
    let logged = logged(body);
    match (&parts.method, parts.uri.path().trim_end_matches('/')) {
        (&Method::POST, path) if path.ends_with("/messages") => answer(Api::Messages, logged, journal).await,
        (&Method::POST, path) if path.ends_with("/responses") => answer(Api::Responses, logged, journal).await,
        (method, path) => Some(beside(method, path, logged, journal)),
    }
}

/// Answers a request that is not for the model.
fn beside(method: &Method, path: &str, logged: Logged, journal: &Journal) -> Response<Sent> {
    let (status, value) = match (method, path) {
        (&Method::POST, path) if path.ends_with("/messages/count_tokens") => {
            (StatusCode::OK, json!({ "input_tokens": journal.scenario_usage().input_tokens }))
        }
        (&Method::GET, path) if path.ends_with("/models") => {
            (StatusCode::OK, json!({ "object": "list", "data": [], "has_more": false }))
        }
        (&Method::HEAD | &Method::GET, "" | "/api/hello") => (StatusCode::OK, json!({})),
        (method, path) => {
            let has = "POST /v1/messages, /v1/messages/count_tokens and /v1/responses";
            let message = format!("tapline sim does not serve {method} {path}; it serves {has}");
            (StatusCode::NOT_FOUND, error_document(Api::Messages, "not_found_error", &message))
        }
    };
    plain(journal, logged, status, &value)
}

fn plain(journal: &Journal, logged: Logged, status: StatusCode, value: &Value) -> Response<Sent> {
    journal.log(Logged { status: status.as_u16(), ..logged });
    document(status, &value.to_string())
}

/// Answers a request. Returns `None` if no answer may be sent.
async fn answer(api: Api, mut logged: Logged, journal: &Arc<Journal>) -> Option<Response<Sent>> {
    let refuse = |logged: Logged, message: &str| {
        let error = error_document(api, "invalid_request_error", &format!("tapline sim: {message}"));
        Some(plain(journal, logged, StatusCode::BAD_REQUEST, &error))
    };
    let asked = Json::parse(&logged.body).ok().and_then(|body| journal.read(api, &logged.headers, &body));
    let Some(asked) = asked else { return refuse(logged, "the request is not a JSON object") };
    logged.facts = Some(asked.facts.clone());
    let (choice, number) = journal.choose(&asked.facts);
    let (turn, id, fault) = match choice {
        Choice::Nothing(why) => {
            logged.failure = Some(why.clone());
            return refuse(logged, &why);
        }
        Choice::Departs { at, why } => {
            let why = format!("turn {} expects another request: {why}", at + 1);
            logged.failure = Some(why.clone());
            return refuse(logged, &why);
        }
        Choice::Side(text) => (ScriptedTurn::of_block(short(&text)), format!("{}_side_{number}", journal.ids), None),
        Choice::Turn { at, turn, before } => {
            logged.turn = Some(at + 1);
            (turn, id_of(&journal.ids, at, before), None)
        }
        Choice::Fault { at, turn, before, fault } => {
            logged.turn = Some(at + 1);
            logged.fault = Some(fault.kind.name());
            (turn, id_of(&journal.ids, at, before), Some(fault))
        }
    };
    let model = turn.model.clone().or_else(|| journal.model()).unwrap_or_else(|| asked.facts.model.clone());
    let usage = turn.usage.unwrap_or_else(|| journal.scenario_usage());
    // Faults instead of an answer.
    match &fault {
        Some(Fault { kind: FaultKind::Error { status, kind, message, headers }, after, .. })
            if after.is_none() || !asked.stream =>
        {
            let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let mut response = plain(journal, logged, status, &error_document(api, kind, message));
            tokio::time::sleep(turn.pace.before).await;
            set_headers(&mut response, headers);
            return Some(response);
        }
        Some(Fault { kind: kind @ (FaultKind::Cut | FaultKind::Hang), after: None, .. }) => {
            journal.log(logged);
            tokio::time::sleep(turn.pace.before).await;
            return if *kind == FaultKind::Cut { None } else { std::future::pending().await };
        }
        _ => {
            let answer = Some(Answered { id: api.id_of_answer(&id), model: model.clone(), usage });
            journal.log(Logged { status: 200, answer, ..logged });
        }
    }
    for tool in turn.blocks.iter().filter_map(ScriptedBlock::tool).filter(|tool| !asked.facts.may_call(tool)) {
        let id = id.replacen(&journal.ids, "sim", 1);
        journal.note(format!("{id} calls {tool}, but the agent has no tool of that name"));
    }
    tokio::time::sleep(turn.pace.before).await;
    let body = worded(Answer { turn: &turn, model: &model, usage, id: &id }, api, asked.stream);
    let kind = if matches!(body, Body::Events(_)) { "text/event-stream; charset=utf-8" } else { "application/json" };
    let (sender, pieces) = channel(1);
    let sending = Sending { api, pace: turn.pace, fault, usage, lane: asked.facts.lane, journal: Arc::clone(journal) };
    tokio::spawn(send(sending, body, sender));
    let mut response = Response::new(Sent::Pieces(pieces));
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, HeaderValue::from_static(kind));
    set_headers(&mut response, &BTreeMap::from([("request-id".to_owned(), format!("req_sim_{number}"))]));
    set_headers(&mut response, &turn.headers);
    Some(response)
}

/// Formats an answer for an API.
fn worded(answer: Answer<'_>, api: Api, stream: bool) -> Body {
    match (api, stream) {
        (Api::Messages, true) => Body::Events(messages::events(answer)),
        (Api::Messages, false) => Body::Document(messages::document(answer)),
        (Api::Responses, true) => Body::Events(responses::events(answer)),
        (Api::Responses, false) => Body::Document(responses::document(answer)),
    }
}

fn id_of(ids: &str, at: usize, before: u64) -> String {
    let turn = at + 1;
    if before == 0 { format!("{ids}_{turn}") } else { format!("{ids}_{turn}_{}", before + 1) }
}

/// An answer that is being sent.
struct Sending {
    api: Api,
    pace: Pace,
    fault: Option<Fault>,
    usage: Usage,
    lane: Lane,
    journal: Arc<Journal>,
}

/// Sends an answer. The client may disconnect at any time.
async fn send(sending: Sending, body: Body, sender: Sender<io::Result<Bytes>>) {
    let pieces = match (body, sending.fault.as_ref().map(|fault| &fault.kind)) {
        (Body::Events(events), _) => events,
        (Body::Document(_), Some(FaultKind::Malformed { data })) => {
            let _ = write(&sender, data, None).await;
            return;
        }
        // A document has no events, so the fault happens in its middle.
        (Body::Document(text), _) => {
            let middle = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            let (head, tail) = text.split_at(middle);
            vec![head.to_owned(), tail.to_owned()]
        }
    };
    for (at, piece) in pieces.iter().enumerate() {
        if let Some(fault) = sending.fault.as_ref().filter(|fault| fault.after.unwrap_or(0).min(pieces.len() - 1) == at) {
            match &fault.kind {
                FaultKind::Malformed { data } => {
                    let _ = write(&sender, &event("content_block_delta", data), None).await;
                    return;
                }
                FaultKind::Error { kind, message, .. } => {
                    let _ = write(&sender, &error_event(sending.api, kind, message), None).await;
                    return;
                }
                FaultKind::Hang => return sender.closed().await,
                FaultKind::Cut => {
                    tokio::time::sleep(FLUSH).await;
                    let _ = sender.send(Err(io::ErrorKind::ConnectionReset.into())).await;
                    return;
                }
            }
        }
        if at > 0 && is_delta(piece) && is_delta(&pieces[at - 1]) {
            tokio::time::sleep(sending.pace.between).await;
        }
        if at + 1 == pieces.len() {
            // Count before the last piece is sent, so that whoever has the answer finds it counted.
            sending.journal.count(sending.lane, sending.usage);
        }
        if write(&sender, piece, sending.pace.split.map(std::num::NonZeroUsize::get)).await.is_none() {
            return;
        }
    }
}

/// Returns whether an event is a delta of a block.
fn is_delta(event: &str) -> bool {
    event.lines().next().is_some_and(|name| name.ends_with("delta") && !name.ends_with("message_delta"))
}

async fn write(sender: &Sender<io::Result<Bytes>>, text: &str, split: Option<usize>) -> Option<()> {
    for piece in text.as_bytes().chunks(split.unwrap_or(usize::MAX)) {
        sender.send(Ok(Bytes::copy_from_slice(piece))).await.ok()?;
    }
    Some(())
}

fn document(status: StatusCode, text: &str) -> Response<Sent> {
    let mut response = Response::new(Sent::Whole(Some(Bytes::copy_from_slice(text.as_bytes()))));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(hyper::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(hyper::header::CONTENT_LENGTH, HeaderValue::from(text.len()));
    response
}

fn set_headers(response: &mut Response<Sent>, headers: &BTreeMap<String, String>) {
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
            response.headers_mut().insert(name, value);
        }
    }
}
