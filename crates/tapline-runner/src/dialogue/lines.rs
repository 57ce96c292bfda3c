//! Makes a dialogue readable, so that the agent's input is fed from it like from any other source.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc::UnboundedReceiver;

/// Whole lines, one after the other.
#[derive(Debug)]
pub(crate) struct Lines {
    coming: UnboundedReceiver<Vec<u8>>,
    line: Vec<u8>,
    read: usize,
}

impl Lines {
    pub(crate) fn new(coming: UnboundedReceiver<Vec<u8>>) -> Self {
        Self { coming, line: Vec::new(), read: 0 }
    }
}

impl AsyncRead for Lines {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        while self.read == self.line.len() {
            match ready!(self.coming.poll_recv(context)) {
                Some(line) => (self.line, self.read) = (line, 0),
                None => return Poll::Ready(Ok(())),
            }
        }
        let count = (self.line.len() - self.read).min(buffer.remaining());
        let end = self.read + count;
        buffer.put_slice(&self.line[self.read..end]);
        self.read = end;
        Poll::Ready(Ok(()))
    }
}
