//! Sends requests.

use std::error::Error;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::http;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::address::Address;
use crate::connect::connect;
use crate::error::HttpError;
use crate::request::{HttpAnswer, HttpRequest};

/// How much of an answer is read. A server of ours may answer with a message of 256 KiB, in which every character can be escaped.
const ANSWER: usize = 8 << 20;

/// Sends a request over a connection of its own, and returns the answer as soon as its head is there. Whoever calls it sets the limit of time.
pub async fn exchange<B>(address: &Address, request: http::Request<B>) -> Result<http::Response<Incoming>, HttpError>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    #[cfg(feature = "https")]
    if address.is_encrypted() {
        let stream = match crate::proxy::proxy_for(address) {
            Some(proxy) => proxy?.tunnel(address).await?,
            None => connect(address.name(), address.port()).await.map_err(HttpError::Connect)?,
        };
        return converse(crate::tls::encrypt(stream, address.name()).await?, request).await;
    }
    let stream = connect(address.name(), address.port()).await.map_err(HttpError::Connect)?;
    converse(stream, request).await
}

async fn converse<S, B>(stream: S, request: http::Request<B>) -> Result<http::Response<Incoming>, HttpError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // It ends with the answer, or when nobody waits for that any more.
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(broken)
}

fn broken(error: hyper::Error) -> HttpError {
    HttpError::Broken(Box::new(error))
}

/// Sends a request, and returns the answer with the first 8 MiB of its body. All of that happens within the time given.
pub async fn send(address: &Address, request: HttpRequest, within: Duration) -> Result<HttpAnswer, HttpError> {
    let request = request.to(address)?;
    let answered = async {
        let (head, body) = exchange(address, request).await?.into_parts();
        Ok(HttpAnswer { status: head.status.as_u16(), headers: head.headers, body: beginning(body).await })
    };
    timeout(within, answered).await.unwrap_or(Err(HttpError::TimedOut(within)))
}

/// Reads the beginning of a body. Some servers close the connection in a hurry after they have answered: what came counts.
async fn beginning(mut body: Incoming) -> Bytes {
    let mut read = BytesMut::new();
    while read.len() < ANSWER
        && let Some(Ok(frame)) = body.frame().await
    {
        if let Ok(data) = frame.into_data() {
            read.extend_from_slice(&data);
        }
    }
    read.truncate(ANSWER);
    read.freeze()
}

/// Sends requests from a thread that has no runtime.
#[derive(Debug)]
pub struct BlockingClient {
    /// Always there, until it is dropped.
    runtime: Option<Runtime>,
}

impl BlockingClient {
    /// Makes a client, with a runtime of its own.
    pub fn new() -> io::Result<Self> {
        Ok(Self { runtime: Some(Builder::new_current_thread().enable_all().build()?) })
    }

    /// Sends a request, and waits for the answer as [`send`] does.
    pub fn send(&self, address: &Address, request: HttpRequest, within: Duration) -> Result<HttpAnswer, HttpError> {
        match &self.runtime {
            Some(runtime) => runtime.block_on(send(address, request, within)),
            None => Err(HttpError::TimedOut(within)),
        }
    }
}

impl Drop for BlockingClient {
    fn drop(&mut self) {
        // A name that is looked up for a long time must not delay the end.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
