//! Messages for the agent from stdin (`--input stream-json`). If somebody pipes an agent's own output there, they meant
//! `--context`. The first line shows this, and then nothing is passed on.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tapline_protocol::Decoder;
use tokio::io::{AsyncRead, ReadBuf};

/// Whether stdin turned out to be an agent's output.
#[derive(Clone, Debug, Default)]
pub(super) struct WrongInput(Arc<AtomicBool>);

impl WrongInput {
    /// Returns the advice for the user, if it did.
    pub(super) fn advice(&self) -> Option<&'static str> {
        self.0.load(Ordering::Relaxed).then_some(
            "stdin has the output of an agent, but --input stream-json takes messages for one; to put an earlier run before the \
             prompt, use --context -",
        )
    }
}

/// Passes on what is read, once the first line is known.
pub(super) struct Messages<R> {
    inner: R,
    wrong: WrongInput,
    /// What was read before the first line was whole, and has not been passed on.
    held: Vec<u8>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    FirstLine,
    PassingOn,
    Refused,
}

/// No agent writes a longer first line: agents start with a session or a thread.
const FIRST_LINE: usize = 1 << 20;

impl<R> Messages<R> {
    pub(super) fn new(inner: R, wrong: &WrongInput) -> Self {
        Self { inner, wrong: wrong.clone(), held: Vec::new(), stage: Stage::FirstLine }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Messages<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.stage == Stage::FirstLine {
            let mut piece = [0; 8 << 10];
            let mut piece = ReadBuf::new(&mut piece);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut piece))?;
            let is_end = piece.filled().is_empty();
            this.held.extend_from_slice(piece.filled());
            let text = this.held.trim_ascii_start();
            if is_end || text.contains(&b'\n') || this.held.len() > FIRST_LINE {
                let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
                this.stage = if is_output(first) { Stage::Refused } else { Stage::PassingOn };
            }
        }
        if this.stage == Stage::Refused {
            this.wrong.0.store(true, Ordering::Relaxed);
            // Stdin has ended: the agent has nothing to do, and exits.
            return Poll::Ready(Ok(()));
        }
        if this.held.is_empty() {
            return Pin::new(&mut this.inner).poll_read(cx, out);
        }
        let count = this.held.len().min(out.remaining());
        out.put_slice(&this.held[..count]);
        this.held.drain(..count);
        Poll::Ready(Ok(()))
    }
}

/// Whether an agent wrote this line. Messages and what controls the agent go both ways.
fn is_output(line: &[u8]) -> bool {
    let record = Decoder::default().decode_line(1, line.to_vec());
    let both_ways = |kind: &str| kind == "user" || kind.starts_with("control_") || kind == "keep_alive";
    record.event.agent().is_some() && record.envelope.kind.as_deref().is_some_and(|kind| !both_ways(kind))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    async fn read(text: &str) -> (String, bool) {
        let wrong = WrongInput::default();
        let mut all = String::new();
        let read = Messages::new(text.as_bytes(), &wrong).read_to_string(&mut all).await;
        assert!(read.is_ok());
        (all, wrong.advice().is_some())
    }

    #[tokio::test]
    async fn messages_pass_and_an_agents_output_does_not() {
        let message = r#"{"type":"user","message":{"role":"user","content":"hi"}}"#;
        for text in
            ["", "\n", "not JSON", message, &format!("\n{message}\n{message}\n"), r#"{"type":"control_request"}"#, "{}\n"]
        {
            assert_eq!(read(text).await, (text.to_owned(), false), "{text}");
        }
        let long = format!("{message}\n").repeat(100_000);
        assert_eq!(read(&long).await, (long, false));
        for text in [
            r#"{"type":"system","subtype":"init","session_id":"s"}"#,
            r#"{"type":"assistant","message":{"content":[]}}"#,
            r#"{"type":"result","subtype":"success","is_error":false}"#,
            r#"{"type":"thread.started","thread_id":"t"}"#,
        ] {
            assert_eq!(read(&format!("\n{text}\n{message}\n")).await, (String::new(), true), "{text}");
        }
    }
}
