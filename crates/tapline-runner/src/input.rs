//! Feeds an agent's standard input while its output is read, so that neither can block the other.

use std::sync::Arc;

use tapline_protocol::control::{Content, InputMessage, UserInput};
use tapline_recording::Stream;
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::journal::Journal;
use crate::spec::AgentInput;

/// What happened to the input.
#[derive(Debug)]
pub(crate) enum Fed {
    /// These bytes were sent at this time.
    Sent(Arc<Vec<u8>>, Instant),
    /// All of it was sent, or the agent accepts no more. The input is closed.
    Closed,
}

/// Sends all of it and closes the pipe. It is not an error if the agent stops reading: its output says why.
pub(crate) async fn feed(mut stdin: impl AsyncWrite + Unpin, input: AgentInput, journal: Journal, fed: UnboundedSender<Fed>) {
    let mut sink = Sink { stdin: &mut stdin, journal: &journal, fed: &fed };
    match input {
        AgentInput::Nothing => {}
        AgentInput::Prompt(prompt) => {
            sink.send(&prompt).await;
        }
        AgentInput::Messages { prompt, mut lines } => {
            let mut open = true;
            if let Some(prompt) = prompt {
                open = sink.send(message(&String::from_utf8_lossy(&prompt)).as_bytes()).await;
            }
            let mut buffer = vec![0; 64 << 10];
            while open {
                match lines.read(&mut buffer).await {
                    Ok(count) if count > 0 => open = sink.send(&buffer[..count]).await,
                    _ => break,
                }
            }
        }
    }
    journal.close(Stream::Stdin);
    drop(stdin);
    let _ = fed.send(Fed::Closed);
}

/// Formats a prompt as a message of `--input-format stream-json`.
fn message(text: &str) -> String {
    let message = InputMessage { role: Some("user".to_owned()), content: Content::Text(text.to_owned()) };
    UserInput { message: Some(message), ..UserInput::default() }.to_line()
}

struct Sink<'a, W> {
    stdin: &'a mut W,
    journal: &'a Journal,
    fed: &'a UnboundedSender<Fed>,
}

impl<W: AsyncWrite + Unpin> Sink<'_, W> {
    /// Sends bytes. Returns `false` once the agent accepts no more.
    async fn send(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            match self.stdin.write(bytes).await {
                Ok(count) if count > 0 => {
                    let sent = Arc::new(bytes[..count].to_vec());
                    let (at, written) = self.journal.write(Stream::Stdin, &sent, count);
                    // Report it at once: otherwise an answer that is read first would belong to an earlier prompt.
                    let _ = self.fed.send(Fed::Sent(sent, at));
                    if let Some(written) = written {
                        let _ = written.await;
                    }
                    bytes = &bytes[count..];
                }
                _ => return false,
            }
        }
        true
    }
}
