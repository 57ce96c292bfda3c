//! Connections: accepted up to a limit, each with time limits, and ended when the server ends.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// The longest head of a request, in bytes.
const HEAD: usize = 16 << 10;
/// How long to wait when a connection cannot be accepted, for example because there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(50);

/// Limits of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most connections at once.
    pub(crate) connections: usize,
    /// How long the head of a request may take, and how long a connection may be idle.
    pub(crate) head: Duration,
    /// How long requests may go on after the end was asked for.
    pub(crate) grace: Duration,
}

/// Serves until `stop` is true, then lets requests end.
pub(crate) async fn serve(listener: TcpListener, routes: Router, limits: Limits, mut stop: watch::Receiver<bool>) {
    let room = Arc::new(Semaphore::new(limits.connections));
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            Some(_) = open.join_next() => continue,
            accepted = accept(&listener, &room) => accepted,
        };
        let Some((stream, permit)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let (routes, stop) = (routes.clone(), stop.clone());
        open.spawn(async move {
            connection(stream, routes, limits, stop).await;
            drop(permit);
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(limits.grace, async { while open.join_next().await.is_some() {} }).await;
}

async fn accept(listener: &TcpListener, room: &Arc<Semaphore>) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    // First: whoever comes when the house is full waits in the system's queue, which is bounded.
    let permit = Arc::clone(room).acquire_owned().await.ok()?;
    let (stream, _) = listener.accept().await.ok()?;
    Some((stream, permit))
}

async fn connection(stream: TcpStream, routes: Router, limits: Limits, mut stop: watch::Receiver<bool>) {
    let _ = stream.set_nodelay(true);
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.head).max_buf_size(HEAD).half_close(false);
    let served = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    let mut served = std::pin::pin!(served);
    // It is not a failure of the server if a client says nonsense or leaves.
    tokio::select! {
        _ = &mut served => return,
        _ = stop.wait_for(|stop| *stop) => {}
    }
    served.as_mut().graceful_shutdown();
    let _ = served.await;
}
