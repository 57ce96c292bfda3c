//! Connections: accepted up to a limit, each with time limits, and ended when the server ends.

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep};

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
    /// How long a client may take none of what it is sent.
    pub(crate) write: Duration,
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
        let Some((stream, peer, permit)) = accepted else {
            sleep(PAUSE).await;
            continue;
        };
        let (routes, stop) = (routes.clone(), stop.clone());
        open.spawn(async move {
            connection(stream, peer, routes, limits, stop).await;
            drop(permit);
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(limits.grace, async { while open.join_next().await.is_some() {} }).await;
}

async fn accept(listener: &TcpListener, room: &Arc<Semaphore>) -> Option<(TcpStream, IpAddr, OwnedSemaphorePermit)> {
    // First: whoever comes when the house is full waits in the system's queue, which is bounded.
    let permit = Arc::clone(room).acquire_owned().await.ok()?;
    let (stream, peer) = listener.accept().await.ok()?;
    Some((stream, peer.ip(), permit))
}

async fn connection(stream: TcpStream, peer: IpAddr, routes: Router, limits: Limits, mut stop: watch::Receiver<bool>) {
    let _ = stream.set_nodelay(true);
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.head).max_buf_size(HEAD).half_close(false);
    let routes = TowerToHyperService::new(routes);
    // Each request says from which address it comes.
    let service = service_fn(move |mut request| {
        request.extensions_mut().insert(peer);
        routes.call(request)
    });
    let served = builder.serve_connection(TokioIo::new(Taker { stream, limit: limits.write, stalled: None }), service);
    let mut served = std::pin::pin!(served);
    // It is not a failure of the server if a client says nonsense or leaves.
    tokio::select! {
        _ = &mut served => return,
        _ = stop.wait_for(|stop| *stop) => {}
    }
    served.as_mut().graceful_shutdown();
    let _ = served.await;
}

/// A connection whose client must take what it is sent. One that never reads would hold a place for ever.
#[derive(Debug)]
struct Taker {
    stream: TcpStream,
    limit: Duration,
    /// Runs while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Taker {
    /// Notes how a write went. Fails if the client has taken nothing for too long.
    fn noted(&mut self, written: Poll<io::Result<usize>>, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        stalled.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Taker {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Taker {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.noted(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.noted(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use axum::Extension;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_client_that_takes_nothing_is_cut_off() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut taker = Taker { stream, limit: Duration::from_millis(20), stalled: None };
        let bytes = vec![0; 1 << 16];
        let error = loop {
            // The system takes some of it.
            if let Err(error) = poll_fn(|context| Pin::new(&mut taker).poll_write(context, &bytes)).await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_request_says_from_which_address_it_comes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let routes = Router::new().route("/", get(|Extension(peer): Extension<IpAddr>| async move { peer.to_string() }));
        let minute = Duration::from_secs(60);
        let limits = Limits { connections: 1, head: minute, write: minute, grace: minute };
        let (_stop, stopped) = watch::channel(false);
        tokio::spawn(serve(listener, routes, limits, stopped));
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\n127.0.0.1"), "{answer}");
    }
}
