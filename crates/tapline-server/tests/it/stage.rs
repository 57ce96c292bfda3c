//! A server in a folder of its own, and a client that sends exactly the bytes it is told to.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use serde_json::Value;
use tapline_recording::Store;
use tapline_server::{Server, ServerOptions, ServerTokens};
use tapline_testkit::{HANG, TempFolder, eventually};
use tokio::sync::oneshot;

pub(crate) const TOKEN: &str = "a-token-of-the-tests-0123456789";

/// A server that runs.
pub(crate) struct Stage {
    pub(crate) address: SocketAddr,
    pub(crate) link: String,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    pub(crate) folder: Arc<TempFolder>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut ServerOptions) + Send + 'static) -> Self {
        Self::at(Arc::new(TempFolder::new()), change)
    }

    pub(crate) fn at(folder: Arc<TempFolder>, change: impl FnOnce(&mut ServerOptions) + Send + 'static) -> Self {
        let mut options = ServerOptions::default();
        options.store = Store::at(folder.join("home"));
        options.roots = vec![folder.join("transcripts"), folder.join("home/recordings")];
        options.tokens = ServerTokens::read(TOKEN).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            change(&mut options);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let server = Server::bind(options).await.unwrap();
                tell.send((server.address(), server.link())).unwrap();
                server.run(async { drop(ended.await) }).await;
            });
        });
        let (address, link) = told.recv().unwrap();
        Self { address, link, end: Some(end), thread: Some(thread), folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Sends bytes, and returns everything that comes until the server closes the connection.
    pub(crate) fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(bytes);
        read_all(&mut stream)
    }

    /// Sends a request that is as it should be, but for what is told.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            let _ = write!(head, "Host: {}\r\n", self.address);
        }
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if method != "GET" {
            let _ = write!(head, "Content-Length: {}\r\n", body.len());
        }
        Answer::read(&self.raw(&[head.as_bytes(), b"\r\n", body].concat()))
    }

    /// Asks with the token.
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[("Authorization", &format!("Bearer {TOKEN}"))], b"")
    }

    /// Posts with the token.
    pub(crate) fn post(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let token = format!("Bearer {TOKEN}");
        self.ask("POST", path, &[&[("Authorization", token.as_str())], headers].concat(), body)
    }

    /// Asks until the answer is as wanted.
    pub(crate) fn until<T>(&self, path: &str, wanted: impl Fn(&Value) -> Option<T>) -> T {
        let mut found = None;
        let is_so = eventually(|| {
            found = self.get(path).json().as_ref().and_then(&wanted);
            found.is_some()
        });
        assert!(is_so, "{path} never became as wanted: {:?}", self.get(path).body);
        found.unwrap()
    }

    /// Follows a stream of events.
    pub(crate) fn events(&self, path: &str, last: Option<u64>) -> Events {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        let last = last.map(|last| format!("Last-Event-ID: {last}\r\n")).unwrap_or_default();
        let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\n{last}\r\n", self.address);
        stream.write_all(head.as_bytes()).unwrap();
        Events { stream, text: String::new() }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        drop(self.end.take());
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

pub(crate) fn read_all(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 65_536];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn read(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let body = if is_chunked { dechunked(body) } else { body.to_owned() };
        Self { status, head: head.to_ascii_lowercase(), body }
    }

    pub(crate) fn json(&self) -> Option<Value> {
        serde_json::from_str(&self.body).ok()
    }

    /// The code of an error. Every error has a sentence, too, and people get only that.
    pub(crate) fn code(&self) -> String {
        if self.head.contains("content-type: text/plain; charset=utf-8") {
            assert!(self.body.ends_with(".\n") && self.json().is_none(), "{self:?}");
            let told = |begins: &str| self.body.starts_with(begins);
            return match () {
                () if told("Open a link of the server") => "no-token",
                () if told("The token is wrong") => "wrong-token",
                () if told("The server does not answer to this host name") => "wrong-host",
                () if told("Only the server's own page may ask this") => "wrong-origin",
                () if told("This link was used already") => "used-link",
                () if told("This cannot be asked with this method") => "wrong-method",
                () => panic!("{self:?}"),
            }
            .to_owned();
        }
        let json = self.json().unwrap_or_else(|| panic!("not JSON: {self:?}"));
        assert!(json["error"]["message"].as_str().is_some_and(|message| message.ends_with('.')), "{self:?}");
        json["error"]["code"].as_str().unwrap().to_owned()
    }
}

fn dechunked(mut rest: &str) -> String {
    let mut out = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || size > after.len() {
            break;
        }
        out += &after[..size];
        rest = after[size..].trim_start_matches("\r\n");
    }
    out
}

/// A stream of events that is read as it comes.
pub(crate) struct Events {
    stream: TcpStream,
    text: String,
}

impl Events {
    /// Returns the next event: its id, its name and its data.
    pub(crate) fn next(&mut self) -> (u64, String, Value) {
        let until = Instant::now() + HANG;
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
                if let (Some(id), Some(name), Some(data)) = (field("id"), field("event"), field("data")) {
                    return (id.parse().unwrap(), name.to_owned(), serde_json::from_str(data).unwrap());
                }
                continue;
            }
            // The server says now and then that it is there.
            assert!(Instant::now() < until, "there is no further event: {:?}", self.text);
            let mut buffer = vec![0; 65_536];
            let count = self.stream.read(&mut buffer).unwrap();
            assert!(count > 0, "the stream ended: {:?}", self.text);
            // Chunk sizes stand on lines of their own, between events.
            self.text += &String::from_utf8_lossy(&buffer[..count]).replace("\r\n", "\n");
            self.text = without_chunks(&self.text);
        }
    }

    /// Returns the first event that is as wanted.
    pub(crate) fn until<T>(&mut self, wanted: impl Fn(&str, &Value) -> Option<T>) -> T {
        loop {
            let (_, name, data) = self.next();
            if let Some(found) = wanted(&name, &data) {
                return found;
            }
        }
    }
}

/// Drops lines that are no part of an event: the head, and the sizes of chunks.
fn without_chunks(text: &str) -> String {
    let is_of_event =
        |line: &&str| line.is_empty() || ["id: ", "event: ", "data: ", "\n"].iter().any(|start| line.starts_with(start));
    let whole = text.rfind('\n').map_or(0, |at| at + 1);
    let kept: String = text[..whole].split_inclusive('\n').filter(|line| is_of_event(&line.trim_end_matches('\n'))).collect();
    kept + &text[whole..]
}

/// Writes a file and its folders.
pub(crate) fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}
