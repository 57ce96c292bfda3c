//! A client as small as can be: one request, one connection, and every byte that came back.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tapline_sim::Sim;

/// What came back.
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) head: String,
    /// The body, chunks joined.
    pub(crate) body: String,
    /// The body came to its end.
    pub(crate) whole: bool,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The events of a stream: names and data.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        let event = |text: &str| {
            let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned();
            (field("event: "), field("data: "))
        };
        self.body.split("\n\n").filter(|text| !text.is_empty()).map(event).collect()
    }

    /// The texts of a streamed message, joined.
    pub(crate) fn text(&self) -> String {
        let data = self.events().into_iter().filter(|(name, _)| name.ends_with("delta"));
        let data = data.filter_map(|(_, data)| serde_json::from_str::<Value>(&data).ok());
        data.filter_map(|data| Some(data["delta"]["text"].as_str().or(data["delta"].as_str())?.to_owned())).collect()
    }
}

pub(crate) fn send(sim: &Sim, method: &str, path: &str, body: &str) -> Got {
    let mut stream = TcpStream::connect(sim.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let length = body.len();
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: sim\r\nx-api-key: secret-key\r\nuser-agent: claude-cli/2.1.325\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or_else(|| panic!("{bytes:?}"));
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
    let (body, whole) =
        if head.contains("transfer-encoding: chunked") { chunks(&bytes[end + 4..]) } else { (bytes[end + 4..].to_vec(), true) };
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Got { status, head, body: String::from_utf8(body).unwrap(), whole }
}

fn chunks(mut bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return (body, true);
        }
        let from = end + 2;
        if bytes.len() < from + size {
            body.extend_from_slice(&bytes[from.min(bytes.len())..]);
            break;
        }
        body.extend_from_slice(&bytes[from..from + size]);
        bytes = &bytes[from + size + 2..];
    }
    (body, false)
}

/// A request of Claude Code's, as far as it matters.
pub(crate) fn messages(last: &str, answers: usize, stream: bool) -> String {
    let mut said = vec![
        json!({ "role": "user", "content": [{ "type": "text", "text": "<system-reminder>ignore me</system-reminder>" }, { "type": "text", "text": "begin" }] }),
    ];
    for _ in 0..answers {
        said.push(json!({ "role": "assistant", "content": [{ "type": "text", "text": "so far" }] }));
        said.push(json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t", "content": [{ "type": "text", "text": last }] }] }));
    }
    if answers == 0 {
        said = vec![json!({ "role": "user", "content": last })];
    }
    json!({ "model": "claude-asked", "stream": stream, "messages": said, "system": [{ "type": "text", "text": "You are Claude Code." }], "tools": [{ "name": "Bash" }] }).to_string()
}

/// Asks as Claude Code does.
pub(crate) fn ask(sim: &Sim, last: &str, answers: usize) -> Got {
    send(sim, "POST", "/v1/messages?beta=true", &messages(last, answers, true))
}

/// Asks as Codex does.
pub(crate) fn ask_responses(sim: &Sim, last: &str, stream: bool) -> Got {
    let message = |role: &str, text: &str| json!({ "type": "message", "role": role, "content": [{ "type": "input_text", "text": text }] });
    let input = [message("user", "<environment_context>ignore me</environment_context>"), message("user", last)];
    let body = json!({ "model": "gpt-asked", "stream": stream, "instructions": "You are Codex.", "input": input, "tools": [{ "type": "function", "name": "exec_command" }] });
    send(sim, "POST", "/v1/responses", &body.to_string())
}
