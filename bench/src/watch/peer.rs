//! A plain axum broadcast, as its documentation shows it: what is posted goes to everybody who listens. With a folder, what is posted is appended
//! to a file and flushed to the disk: before anybody is told, or meanwhile. If it reads, too, each line is taken for one of a stream, and its text is
//! rendered as a page shows it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use axum::Router;
use axum::extract::{Path, Query, State};
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

/// A broadcast for the list, and one for each session.
#[derive(Clone)]
struct Channels {
    list: broadcast::Sender<Told>,
    sessions: Arc<RwLock<HashMap<String, broadcast::Sender<Told>>>>,
    kept: Option<Arc<Kept>>,
    how: Peer,
}

/// What a peer does beside passing bytes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peer {
    /// Whether it reads and renders each line.
    pub reads: bool,
    /// Whether readers are told while the disk is at work. The answer waits for the disk in any case.
    pub early: bool,
}

/// The files of the runs.
struct Kept {
    folder: PathBuf,
    files: Mutex<HashMap<String, Arc<File>>>,
}

impl Kept {
    /// Appends bytes to the file of a run, and waits until they are on the disk.
    fn append(&self, run: &str, data: &str) -> io::Result<()> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match files.get(run) {
            Some(file) => Arc::clone(file),
            None => {
                let file = Arc::new(File::options().append(true).create(true).open(self.folder.join(run))?);
                files.insert(run.to_owned(), Arc::clone(&file));
                file
            }
        };
        drop(files);
        (&*file).write_all(data.as_bytes())?;
        file.sync_data()
    }
}

impl Channels {
    /// Returns the broadcast of a session. All of the runs of the first benchmark are one.
    fn session(&self, id: &str) -> broadcast::Sender<Told> {
        let id = if id == "bench" { "bench-1" } else { id };
        if let Some(known) = self.sessions.read().unwrap_or_else(PoisonError::into_inner).get(id) {
            return known.clone();
        }
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        sessions.entry(id.to_owned()).or_insert_with(|| broadcast::Sender::new(ROOM)).clone()
    }
}

fn events(channel: &broadcast::Sender<Told>) -> Sse<impl Stream<Item = Result<Event, Infallible>> + use<>> {
    let told = BroadcastStream::new(channel.subscribe()).filter_map(Result::ok);
    Sse::new(told.map(|told| Ok(Event::default().id(told.id.to_string()).event(told.name).data(told.data))))
}

/// Returns a line of a stream as a step, as a program of a few lines would make it.
fn rendered(line: &str, n: u64) -> String {
    let value: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
    let text = value["message"]["content"][0]["text"].as_str().unwrap_or_default();
    let mut html = String::new();
    pulldown_cmark::html::push_html(&mut html, pulldown_cmark::Parser::new(text));
    serde_json::json!({"n": n, "kind": "text", "session": value["session_id"], "html": html}).to_string()
}

/// Each line of a body is an event.
async fn take(
    State(channels): State<Channels>,
    Path(run): Path<String>,
    Query(query): Query<HashMap<String, u64>>,
    data: String,
) -> &'static str {
    let kept = channels.kept.clone().map(|kept| {
        let (run, data) = (run.clone(), data.clone());
        tokio::task::spawn_blocking(move || kept.append(&run, &data))
    });
    let is_kept = async { if let Some(kept) = kept { matches!(kept.await, Ok(Ok(()))) } else { true } };
    let Peer { reads, early } = channels.how;
    let late = if early {
        Some(is_kept)
    } else if is_kept.await {
        None
    } else {
        return "the disk failed\n";
    };
    let data_of = move |line: &str, id| if reads { rendered(line, id) } else { line.to_owned() };
    let told = |first: u64, name| data.lines().zip(first..).map(move |(line, id)| Told { id, name, data: data_of(line, id) });
    let channel = channels.session(&run);
    for name in ["step", "row"] {
        query.get(name).into_iter().flat_map(|id| told(*id, name)).for_each(|told| drop(channel.send(told)));
    }
    query.get("list").into_iter().flat_map(|id| told(*id, "session")).for_each(|told| drop(channels.list.send(told)));
    if let Some(late) = late
        && !late.await
    {
        return "the disk failed\n";
    }
    "ok\n"
}

async fn follow(
    State(channels): State<Channels>,
    Path(id): Path<String>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>> + use<>> {
    events(&channels.session(&id))
}

/// Serves until nobody needs it any more.
pub fn serve(folder: Option<&std::path::Path>, how: Peer) -> io::Result<()> {
    super::raise_limit()?;
    let keep = |folder: &std::path::Path| {
        std::fs::create_dir_all(folder)?;
        Ok::<_, io::Error>(Arc::new(Kept { folder: folder.to_owned(), files: Mutex::default() }))
    };
    let kept = folder.map(keep).transpose()?;
    let channels = Channels { list: broadcast::Sender::new(ROOM), sessions: Arc::default(), kept, how };
    let routes = Router::new()
        .route("/api/v1/events", get(|State(channels): State<Channels>| async move { events(&channels.list) }))
        .route("/api/v1/sessions/{id}/events", get(follow))
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
