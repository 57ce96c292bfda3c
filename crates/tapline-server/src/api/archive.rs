//! The archive: costs, full text, and sessions to download, without secrets.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path as FilePath;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json as value};
use tapline_archive::search::{Hit, SearchOptions, SearchQuery, Shown, Snippet};
use tapline_archive::stats::{By, Query as StatsQuery};
use tapline_archive::{Source, SourceOptions};
use tapline_recording::Redactor;
use tapline_session::render::RenderAs;
use tapline_session::render::html::Page;
use tokio::sync::mpsc;

use super::json;
use super::sessions::{open, opened, read_until};
use crate::app::{App, Shared, blocking};
use crate::error::ApiError;
use crate::hub::locked;
use crate::row::{now, written_ms};
use crate::spool::Spool;

/// How long somebody who searches waits to hear in which step each hit is.
const PATIENCE: Duration = Duration::from_millis(300);

/// How large the pieces of a download are, at least.
const PIECE: usize = 64 << 10;

#[derive(Debug, Deserialize)]
pub(crate) struct CostsQuery {
    by: Option<String>,
    last: Option<String>,
    tz: Option<String>,
}

/// Counts costs.
pub(crate) async fn costs(State(app): Shared, Query(query): Query<CostsQuery>) -> Result<Response, ApiError> {
    let mut wanted = StatsQuery::default();
    wanted.by = match query.by.as_deref().unwrap_or("day") {
        "day" => By::Day,
        "week" => By::Week,
        "month" => By::Month,
        "project" => By::Project,
        "model" => By::Model,
        "tool" => By::Tool,
        "agent" => By::Agent,
        "subagent" => By::Subagent,
        _ => return Err(ApiError::bad("`by` is one of: day, week, month, project, model, tool, agent, subagent.")),
    };
    wanted.zone = query.tz.filter(|name| !name.is_empty()).map_or_else(|| Ok(TimeZone::system()), |name| zone(&name))?;
    wanted.now = now().as_millis();
    let last = query.last.filter(|last| !last.is_empty()).map(|last| span(&last)).transpose()?;
    wanted.since = last.map(|last| wanted.now.saturating_sub(last));
    blocking(move || {
        let counted = app.budgets.count_with(&app.hub.shelf, &wanted);
        let (counted, budgets) = counted.map_err(|error| ApiError::internal(&error))?;
        let mut costs = serde_json::to_value(&counted).map_err(|error| ApiError::internal(&error))?;
        costs["today"] = day(&wanted).into();
        costs["budgets"] = serde_json::to_value(&budgets).map_err(|error| ApiError::internal(&error))?;
        json(&costs)
    })
    .await
}

/// Finds a time zone by its name.
fn zone(name: &str) -> Result<TimeZone, ApiError> {
    TimeZone::get(name).map_err(|_| {
        ApiError::bad("`tz` is a time zone that this server knows, such as Europe/Berlin. Without it, the server's own counts.")
    })
}

/// Returns the day on which a query is asked, as the keys of rows are written.
fn day(query: &StatsQuery) -> String {
    let now = Timestamp::from_millisecond(query.now.cast_signed()).unwrap_or_default();
    now.to_zoned(query.zone.clone()).date().to_string()
}

/// Reads a span of time such as `30d` or `12h`, in milliseconds.
fn span(text: &str) -> Result<u64, ApiError> {
    let wrong = || ApiError::bad("`last` is a span of time such as 30d or 12h.");
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let hours = match unit {
        "h" => 1,
        "d" => 24,
        "w" => 7 * 24,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(hours * 60 * 60 * 1_000).ok_or_else(wrong)
}

#[derive(Debug, Deserialize)]
pub(crate) struct TextQuery {
    q: Option<String>,
    limit: Option<usize>,
}

/// Searches all sessions.
pub(crate) async fn search(State(app): Shared, Query(query): Query<TextQuery>) -> Result<Response, ApiError> {
    let asked = query.q.unwrap_or_default();
    let time = |text: &str| {
        let ago = span(text)
            .ok()
            .and_then(|span| Timestamp::now().checked_sub(SignedDuration::from_millis(i64::try_from(span).ok()?)).ok());
        let at = ago.map_or_else(|| text.parse::<Timestamp>(), Ok);
        at.map(|at| at.as_millisecond().max(0).cast_unsigned())
    };
    let wanted =
        SearchQuery::parse(&asked, time).map_err(|error| ApiError::bad(format!("The search is not understood: {error}.")))?;
    let mut options = SearchOptions::default();
    options.sessions = query.limit.unwrap_or(50).clamp(1, 200);
    (options.hits, options.width) = (3, 240);
    blocking(move || {
        let found = app.hub.shelf.search(&wanted, &options).map_err(|error| ApiError::internal(&error))?;
        let began = Instant::now();
        let mut hits = Vec::new();
        for session in &found.sessions {
            for hit in &session.hits {
                let snippet = match &hit.shown {
                    Shown::Snippet(snippet) => pieces(snippet),
                    _ => Vec::new(),
                };
                hits.push(value!({
                    "session": session.id,
                    "title": session.title,
                    "step": step_of(&app, &session.id, hit, began),
                    "time": written_ms(hit.time.saturating_mul(1_000)),
                    "snippet": snippet,
                }));
            }
        }
        json(&value!({"hits": hits}))
    })
    .await
}

/// Returns the step that a hit is in, if there is time to find out.
fn step_of(app: &App, session: &str, hit: &Hit, began: Instant) -> Option<usize> {
    if began.elapsed() > PATIENCE {
        return None;
    }
    let opened = open(app, session).ok().filter(|live| live.file.path == hit.path)?;
    read_until(app, &opened, usize::MAX);
    let line = lines_before(app.hub.shelf.open(&hit.path).ok()?, hit.offset).ok()? + 1;
    locked(&opened.follower).step_at(line)
}

/// Counts the lines before an offset.
fn lines_before(file: File, offset: u64) -> io::Result<u64> {
    let mut file = BufReader::new(file.take(offset));
    let mut lines = 0;
    while file.skip_until(b'\n')? > 0 {
        lines += 1;
    }
    Ok(lines)
}

/// Cuts a snippet where matches begin and end.
fn pieces(snippet: &Snippet) -> Vec<Value> {
    let mut pieces = Vec::new();
    let mut add = |text: Option<&str>, hit: bool| {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            pieces.push(value!({"text": text, "hit": hit}));
        }
    };
    let mut at = 0;
    for range in &snippet.matches {
        add(snippet.text.get(at..range.start), false);
        add(snippet.text.get(range.clone()), true);
        at = range.end;
    }
    add(snippet.text.get(at..), false);
    pieces
}

#[derive(Debug, Deserialize)]
pub(crate) struct DownloadQuery {
    format: Option<String>,
    run: Option<String>,
}

/// Returns a whole session, without secrets.
pub(crate) async fn download(
    State(app): Shared,
    Path(id): Path<String>,
    Query(query): Query<DownloadQuery>,
) -> Result<Response, ApiError> {
    let (render, kind, ending) = match query.format.as_deref().unwrap_or("html") {
        "html" => (Some(RenderAs::Html), "text/html; charset=utf-8", "html"),
        "markdown" => (Some(RenderAs::Markdown), "text/markdown; charset=utf-8", "md"),
        "jsonl" => (None, "application/x-ndjson", "jsonl"),
        _ => return Err(ApiError::bad("`format` is one of: html, markdown, jsonl.")),
    };
    let live = opened(&app, id).await?;
    let closed = |error| ApiError::internal(&error);
    let turn = Arc::clone(&app.downloads).acquire_owned().await.map_err(|error| closed(io::Error::other(error)))?;
    let path = match query.run {
        None => live.file.opens().to_owned(),
        // The name is looked up, and never used as a path.
        Some(run) => {
            let runs = app.hub.shelf.runs(&live.row().id).into_iter();
            let mut found = runs.filter(|path| path.file_name().is_some_and(|name| *name == *run));
            found.next().ok_or_else(|| ApiError::bad("`run` is one of `earlier` of the session."))?
        }
    };
    app.hub.shelf.check(&path).map_err(|_| ApiError::no_session())?;
    let open = move || Source::open(&path, SourceOptions::default()).map_err(|error| ApiError::internal(&error));
    let source = blocking(open).await?.redacted_by(Redactor::default());
    let (out, pieces) = mpsc::channel(1);
    tokio::task::spawn_blocking(move || {
        deliver(out, |out| match render {
            Some(RenderAs::Html) => write_page(source, app.hub.spools(), out),
            render => write(source, render, out),
        });
        drop(turn);
    });
    let mut response = Body::from_stream(Download(pieces)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    // The id is data: only plain characters go into a name of a file.
    let name: String = live.row().id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(64).collect();
    let name = format!("attachment; filename=\"session-{name}.{ending}\"");
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_str(&name).map_err(|error| ApiError::internal(&error))?);
    Ok(response)
}

/// Lets something write a download. If that fails, whoever downloads sees that it is not whole: the connection breaks off.
fn deliver(out: mpsc::Sender<io::Result<Bytes>>, write: impl FnOnce(&mut Pieces) -> io::Result<()>) {
    let mut pieces = Pieces { out, piece: Vec::new() };
    let written = catch_unwind(AssertUnwindSafe(|| write(&mut pieces)));
    let written = written.unwrap_or_else(|_| Err(io::Error::other("the session cannot be written")));
    if let Err(error) = written {
        let _ = pieces.out.blocking_send(Err(error));
    }
}

/// Writes a whole session. If it is not wanted any more, it stops.
fn write<R: Read>(mut source: Source<R>, render: Option<RenderAs>, out: &mut Pieces) -> io::Result<()> {
    let Some(render) = render else {
        while let Some(record) = source.next_record().map_err(io::Error::other)? {
            out.write_all(&record.bytes)?;
        }
        return out.flush();
    };
    let mut renderer = render.renderer();
    while let Some((_, steps)) = source.advance().map_err(io::Error::other)? {
        for step in &steps {
            out.write_all(renderer.step(step).as_bytes())?;
        }
    }
    let summary = source.finish().summary;
    out.write_all(renderer.finish(&summary).as_bytes())?;
    out.flush()
}

/// Writes a whole session as a page. What it shows waits in a file, because the page begins with what only the end tells.
fn write_page<R: Read>(mut source: Source<R>, spools: &FilePath, out: &mut Pieces) -> io::Result<()> {
    let (mut page, mut spool) = (Page::default(), Spool::create(spools)?);
    let mut keep =
        |page: &mut Page, changed: BTreeSet<usize>| changed.into_iter().try_for_each(|n| spool.put(n, 0, &page.release(n)));
    while let Some((_, steps)) = source.advance().map_err(io::Error::other)? {
        let changed = steps.iter().flat_map(|step| page.accept(step)).collect();
        keep(&mut page, changed)?;
        if out.out.is_closed() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
    }
    let changed = page.close().into_iter().collect();
    keep(&mut page, changed)?;
    let summary = source.finish().summary;
    page.write(&summary, |n| spool.get(n), |piece| out.write_all(piece.as_bytes()))?;
    out.flush()
}

/// A download on its way: a piece at a time, as the client takes them.
struct Pieces {
    out: mpsc::Sender<io::Result<Bytes>>,
    piece: Vec<u8>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::take(&mut self.piece);
        if piece.is_empty() {
            return Ok(());
        }
        self.out.blocking_send(Ok(piece.into())).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// The other end of it.
struct Download(mpsc::Receiver<io::Result<Bytes>>);

impl Stream for Download {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

#[cfg(test)]
mod tests {
    use tapline_testkit::{TempFolder, fixture};

    use super::*;

    #[test]
    fn a_download_that_fails_does_not_look_whole() {
        let ends_well = |write: fn(&mut Pieces) -> io::Result<()>| {
            let (out, mut pieces) = mpsc::channel(8);
            deliver(out, write);
            let mut all = Vec::new();
            while let Some(piece) = pieces.blocking_recv() {
                all.push(piece.is_ok());
            }
            all
        };
        let begin = |out: &mut Pieces| out.write_all(b"x").and_then(|()| out.flush());
        assert_eq!(ends_well(begin), [true]);
        assert_eq!(ends_well(|_| Err(io::ErrorKind::InvalidData.into())), [false]);
        let breaks = |out: &mut Pieces| {
            out.write_all(b"x")?;
            out.flush()?;
            panic!("a bug")
        };
        assert_eq!(ends_well(breaks), [true, false]);
    }

    #[test]
    fn a_page_in_pieces_is_the_page_as_one_text() {
        let folder = TempFolder::new();
        let written = |write: &dyn Fn(&mut Pieces) -> io::Result<()>| {
            let (out, mut pieces) = mpsc::channel(1_024);
            deliver(out, write);
            let mut all = Vec::new();
            while let Some(piece) = pieces.blocking_recv() {
                all.extend_from_slice(&piece.unwrap());
            }
            String::from_utf8(all).unwrap()
        };
        for name in ["claude-2.1.325/subagent.jsonl", "claude-2.1.325/tools-partial.jsonl", "events/codex-catalogue.jsonl"] {
            let open = || Source::open(&fixture(name), SourceOptions::default()).unwrap();
            let page = written(&|out| write_page(open(), &folder, out));
            assert!(page.ends_with("</html>\n") && page == written(&|out| write(open(), Some(RenderAs::Html), out)), "{name}");
        }
    }
}
