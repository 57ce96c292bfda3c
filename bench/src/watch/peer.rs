//! A plain axum broadcast of the same work, as its documentation shows it: what is posted goes to everybody who listens.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;

use axum::Router;
use axum::extract::{Query, State};
use axum::response::sse::{Event, Sse};
use axum::routing::{get, post};
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::{Stream, StreamExt as _};

/// How many events wait for a reader.
const ROOM: usize = 1_024;

#[derive(Clone, Debug)]
struct Told {
    id: u64,
    name: &'static str,
    data: String,
}

/// A broadcast for the list, and one for the session.
#[derive(Clone)]
struct Channels {
    list: broadcast::Sender<Told>,
    session: broadcast::Sender<Told>,
}

fn events(channel: &broadcast::Sender<Told>) -> Sse<impl Stream<Item = Result<Event, Infallible>> + use<>> {
    let told = BroadcastStream::new(channel.subscribe()).filter_map(Result::ok);
    Sse::new(told.map(|told| Ok(Event::default().id(told.id.to_string()).event(told.name).data(told.data))))
}

async fn take(State(channels): State<Channels>, Query(query): Query<HashMap<String, u64>>, data: String) -> &'static str {
    let number = |name: &str| query.get(name).copied();
    let told = |id: u64, name| Told { id, name, data: data.clone() };
    if let Some(id) = number("step") {
        let _ = channels.session.send(told(id, "step"));
    }
    if let Some(id) = number("row") {
        let _ = channels.session.send(told(id, "row"));
    }
    if let Some(id) = number("list") {
        let _ = channels.list.send(told(id, "session"));
    }
    "ok\n"
}

/// Serves until nobody needs it any more.
pub fn serve() -> io::Result<()> {
    super::raise_limit()?;
    let channels = Channels { list: broadcast::Sender::new(ROOM), session: broadcast::Sender::new(ROOM) };
    let routes = Router::new()
        .route("/api/v1/events", get(|State(channels): State<Channels>| async move { events(&channels.list) }))
        .route("/api/v1/sessions/{id}/events", get(|State(channels): State<Channels>| async move { events(&channels.session) }))
        .route("/api/v1/ingest/{run}", post(take))
        .with_state(channels);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let end = super::server::told(listener.local_addr()?)?;
        tokio::select! {
            served = axum::serve(listener, routes) => served,
            () = end => Ok(()),
        }
    })
}
