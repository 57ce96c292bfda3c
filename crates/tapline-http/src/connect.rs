//! A connection to the first address of a host that answers.

use std::io;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How long an address may be silent before the next one is tried, too.
const NEXT: Duration = Duration::from_millis(250);

/// Connects to a host. All its addresses are tried, each a little after the one before it, and the first that answers is taken.
pub(crate) async fn connect(name: &str, port: u16) -> io::Result<TcpStream> {
    let mut addresses = lookup_host((name, port)).await?;
    let mut tries = JoinSet::new();
    let mut error = io::Error::new(io::ErrorKind::NotFound, format!("{name} has no address"));
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
