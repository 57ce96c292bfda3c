//! Servers and types of `rmcp`, the official MCP SDK. A server written with it runs here without a process of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{CallToolResult, JsonObject};
use rmcp::{RoleServer, Service, ServiceExt as _};
use tapline_protocol::Json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::oneshot;

use super::server::ToolServer;
use super::tool::{Tool, ToolResult};

/// How many bytes may be in transit in each direction.
const PIPE: usize = 64 << 10;

impl ToolServer {
    /// Creates a server from `rmcp`. It is created again whenever the agent connects to it, which some versions do
    /// twice.
    pub fn rmcp<S: Service<RoleServer>>(name: impl Into<String>, server: impl Fn() -> S + Send + Sync + 'static) -> Self {
        let line: Arc<tokio::sync::Mutex<Option<Line>>> = Arc::default();
        Self::of_messages(name, move |message| {
            let begins = message.text_of("method").as_deref() == Some("initialize");
            let server = begins.then(&server);
            let line = Arc::clone(&line);
            async move {
                let answer = {
                    let mut line = line.lock().await;
                    if let Some(server) = server {
                        *line = Some(Line::to(server));
                    }
                    line.as_mut()?.send(&message).await?
                };
                answer.await.ok()
            }
        })
    }
}

/// A connection to a server.
struct Line {
    to: WriteHalf<DuplexStream>,
    wanted: Arc<Mutex<HashMap<String, oneshot::Sender<Json>>>>,
}

impl Line {
    fn to<S: Service<RoleServer>>(server: S) -> Self {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let (from, to) = tokio::io::split(ours);
        tokio::spawn(async move {
            if let Ok(running) = server.serve(theirs).await {
                let _ = running.waiting().await;
            }
        });
        let wanted = Arc::default();
        tokio::spawn(read(from, Arc::clone(&wanted)));
        Self { to, wanted }
    }

    /// Sends a message. If it is a request, returns where the answer arrives.
    async fn send(&mut self, message: &Json) -> Option<oneshot::Receiver<Json>> {
        let (reply, answer) = oneshot::channel();
        let asks = message.get("id");
        if let Some(id) = &asks {
            self.wanted.lock().unwrap_or_else(PoisonError::into_inner).insert(id.as_str().to_owned(), reply);
        }
        // The text of a message has no newlines, because JSON escapes them.
        self.to.write_all(format!("{message}\n").as_bytes()).await.ok()?;
        asks.map(|_| answer)
    }
}

/// Passes on the server's answers. Nobody here can answer its own requests.
async fn read(from: ReadHalf<DuplexStream>, wanted: Arc<Mutex<HashMap<String, oneshot::Sender<Json>>>>) {
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(message) = Json::parse(&line) else { continue };
        let reply = message.get("id").filter(|_| message.get("method").is_none());
        let reply = reply.and_then(|id| wanted.lock().unwrap_or_else(PoisonError::into_inner).remove(id.as_str()));
        if let Some(reply) = reply {
            let _ = reply.send(message);
        }
    }
}

impl Tool {
    /// Creates a tool from `rmcp`'s description of it.
    pub fn rmcp<E: std::fmt::Display, F>(
        about: &rmcp::model::Tool,
        function: impl Fn(JsonObject) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<CallToolResult, E>> + Send + 'static,
    {
        let schema = Json::of(&*about.input_schema);
        Self::new(about.name.clone(), about.description.clone().unwrap_or_default(), schema, function)
    }
}

impl From<CallToolResult> for ToolResult {
    fn from(result: CallToolResult) -> Self {
        Self {
            content: result.content.iter().map(Json::of).collect(),
            is_error: result.is_error.unwrap_or(false),
            structured_content: result.structured_content.map(Json::from),
        }
    }
}
