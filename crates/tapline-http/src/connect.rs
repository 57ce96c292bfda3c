//! A connection to the first address of a host that answers.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How long an address may be silent before the next one is tried, too.
const NEXT: Duration = Duration::from_millis(250);

/// Connects to a host. All its addresses are tried, each a little after the one before it, and the first that answers is taken.
pub(crate) async fn connect(name: &str, port: u16) -> io::Result<TcpStream> {
    let nobody = io::Error::new(io::ErrorKind::NotFound, format!("{name} has no address"));
    first_of(lookup_host((name, port)).await?, nobody).await
}

/// Connects to the first of these that answers, or returns the last error: at first this one.
async fn first_of(mut addresses: impl Iterator<Item = SocketAddr>, mut error: io::Error) -> io::Result<TcpStream> {
    let mut tries = JoinSet::new();
    let mut next = addresses.next();
    loop {
        if let Some(address) = next.take() {
            tries.spawn(TcpStream::connect(address));
            next = addresses.next();
        }
        tokio::select! {
            ended = tries.join_next() => match ended {
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(failed))) => error = failed,
                Some(Err(failed)) => error = failed.into(),
                None if next.is_none() => return Err(error),
                None => {}
            },
            () = sleep(NEXT), if next.is_some() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn listening() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    fn nobody() -> io::Error {
        io::Error::other("nobody")
    }

    #[tokio::test]
    async fn an_address_that_refuses_is_passed_over() {
        let (closed, refuses) = listening().await;
        drop(closed);
        let (_open, answers) = listening().await;
        assert_eq!(first_of([refuses, answers].into_iter(), nobody()).await.unwrap().peer_addr().unwrap(), answers);
        assert_eq!(first_of([refuses].into_iter(), nobody()).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(first_of([].into_iter(), nobody()).await.unwrap_err().to_string(), "nobody");
    }

    #[tokio::test]
    async fn an_address_that_is_silent_does_not_hold_up_the_next() {
        // Its queue is full, so that nobody answers the next who knocks.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let full = socket.listen(0).unwrap();
        let silent = full.local_addr().unwrap();
        let mut queued = Vec::new();
        while let Ok(connected) = tokio::time::timeout(NEXT, TcpStream::connect(silent)).await {
            queued.push(connected.unwrap());
        }
        let (_open, answers) = listening().await;
        assert_eq!(first_of([silent, answers].into_iter(), nobody()).await.unwrap().peer_addr().unwrap(), answers);
    }
}
