//! The readers: one process and one thread for all of them, which does little but read. Another thread posts what they wait for. What is
//! posted has the time in it.

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use memchr::memmem;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use serde_json::json;

use super::Extent;
use super::server::{Child, TOKEN};

/// Events of the session in a second. One of them is a change of the list, too.
pub(super) const RATE: u64 = 20;
/// The session.
const SESSION: &str = "bench-1";
/// A time is between these.
pub(super) const STAMP: (&str, &str) = ("zq", "qz");
pub(super) const DIGITS: usize = 13;

/// Who is measured. A peer gets events of the same sizes.
pub enum Load {
    Tapline,
    Peer([usize; 2]),
}

/// Times, in microseconds.
#[derive(Debug, Default)]
pub struct Times(pub(super) Vec<u64>);

impl Times {
    pub fn at(&self, share: f64) -> u64 {
        self.0.get(((self.0.len() as f64 * share) as usize).min(self.0.len().saturating_sub(1))).copied().unwrap_or(0)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// What was measured.
#[derive(Debug)]
pub struct Turn {
    pub all: Times,
    pub session: Times,
    pub bytes_per_client: u64,
    /// Events that were lost or came twice.
    pub wrong: u64,
    /// How many bytes an event of the session has, and one of the list.
    pub sizes: [usize; 2],
}

struct Client {
    stream: TcpStream,
    follows: bool,
    /// What came of an event that is not whole yet.
    rest: Vec<u8>,
    has_head: bool,
    last: Option<u64>,
    /// The newest time that it was told.
    stamp: u64,
}

/// What all clients got.
#[derive(Default)]
pub(super) struct Got {
    pub(super) session: Vec<u64>,
    pub(super) list: Vec<u64>,
    pub(super) wrong: u64,
    heads: usize,
    pub(super) bytes: [u64; 2],
    pub(super) events: [u64; 2],
}

/// All clients, and one place where the system tells which of them have something to read.
pub(super) struct Clients {
    epoll: std::os::fd::OwnedFd,
    all: Vec<Client>,
    buffer: Vec<u8>,
    ready: Vec<epoll::Event>,
    began: Instant,
    pub(super) got: Got,
}

pub(super) fn micros(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX)
}

impl Clients {
    pub(super) fn new(began: Instant) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let ready = Vec::with_capacity(1_024);
        Ok(Self { epoll, all: Vec::new(), buffer: vec![0; 64 << 10], ready, began, got: Got::default() })
    }

    /// Follows a session, or the list.
    pub(super) fn connect(&mut self, address: SocketAddr, session: Option<&str>) -> io::Result<()> {
        let mut stream = TcpStream::connect(address)?;
        let follows = session.is_some();
        let path = session.map_or_else(|| "/api/v1/events".to_owned(), |session| format!("/api/v1/sessions/{session}/events"));
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n")?;
        stream.set_nonblocking(true)?;
        let data = epoll::EventData::new_u64(self.all.len() as u64);
        epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN)?;
        self.all.push(Client { stream, follows, rest: Vec::new(), has_head: false, last: None, stamp: 0 });
        Ok(())
    }

    /// Reads what is there, or waits for it a little.
    fn read(&mut self, from: u64) -> io::Result<()> {
        self.ready.clear();
        let wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        match epoll::wait(&self.epoll, spare_capacity(&mut self.ready), Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &self.ready {
            let client = &mut self.all[usize::try_from(event.data.u64()).unwrap_or(usize::MAX)];
            let count = match client.stream.read(&mut self.buffer) {
                Ok(0) => return Err(io::Error::other("the server closed a connection")),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            };
            client.hear(&self.buffer[..count], micros(self.began), from, &mut self.got);
        }
        Ok(())
    }

    pub(super) fn read_for(&mut self, time: Duration, from: u64) -> io::Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.read(from)?;
        }
        Ok(())
    }

    fn connect_all(&mut self, address: SocketAddr, list: usize, follow: usize) -> io::Result<()> {
        for n in 0..list + follow {
            self.connect(address, (n < follow).then_some(SESSION))?;
            // The system's queue of those who wait at the door is short.
            self.wait_for_heads(64)?;
        }
        self.wait_for_heads(0)
    }

    /// Reads until all clients but so many were let in.
    pub(super) fn wait_for_heads(&mut self, but: usize) -> io::Result<()> {
        while self.all.len() - self.got.heads > but {
            self.read(u64::MAX)?;
        }
        Ok(())
    }
}

impl Client {
    /// Takes bytes. Events count if they were posted after a time.
    fn hear(&mut self, bytes: &[u8], now: u64, from: u64, got: &mut Got) {
        let kept;
        let mut bytes = if self.rest.is_empty() {
            bytes
        } else {
            self.rest.extend_from_slice(bytes);
            kept = std::mem::take(&mut self.rest);
            &kept[..]
        };
        if !self.has_head {
            let Some(end) = memmem::find(bytes, b"\r\n\r\n") else { return self.rest.extend_from_slice(bytes) };
            if !bytes.starts_with(b"HTTP/1.1 200") {
                got.wrong += 1;
            }
            (self.has_head, bytes) = (true, &bytes[end + 4..]);
            got.heads += 1;
        }
        while let Some(end) = memmem::find(bytes, b"\n\n") {
            self.event(&bytes[..end], now, from, got);
            bytes = &bytes[end + 2..];
        }
        // The end of a chunk is not the beginning of an event.
        if bytes != b"\r\n" && bytes != b"\r" {
            self.rest.extend_from_slice(bytes);
        }
    }

    fn event(&mut self, event: &[u8], now: u64, from: u64, got: &mut Got) {
        let after = |name: &[u8]| memmem::find(event, name).map(|at| &event[at + name.len()..]);
        let number = |text: &[u8]| {
            text.iter().take_while(|digit| digit.is_ascii_digit()).fold(0, |n, digit| n * 10 + u64::from(digit - b'0'))
        };
        let (Some(id), Some(name)) = (after(b"id: ").map(number), after(b"event: ")) else { return };
        if self.last.is_some_and(|last| id != last + 1) {
            got.wrong += 1;
        }
        self.last = Some(id);
        let is_step = name.starts_with(b"step");
        if self.follows && !is_step {
            return;
        }
        let Some(stamp) = after(STAMP.0.as_bytes()).map(number) else { return };
        // A row can be told again for another reason.
        if stamp <= self.stamp {
            return;
        }
        self.stamp = stamp;
        if stamp < from {
            return;
        }
        let kind = usize::from(!self.follows);
        got.bytes[kind] += event.len() as u64;
        got.events[kind] += 1;
        if self.follows { &mut got.session } else { &mut got.list }.push(now.saturating_sub(stamp));
    }
}

/// A connection that posts.
pub(super) struct Poster {
    stream: TcpStream,
    address: SocketAddr,
    answer: Vec<u8>,
}

impl Poster {
    pub(super) fn new(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, address, answer: vec![0; 64 << 10] })
    }

    fn ask(&mut self, method: &str, path: &str, body: &str) -> io::Result<u16> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        self.stream.write_all(request.as_bytes())?;
        let mut length = 0;
        loop {
            let count = self.stream.read(&mut self.answer[length..])?;
            length += count;
            let answer = &self.answer[..length];
            let Some(head) = memmem::find(answer, b"\r\n\r\n") else {
                if count == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                } else {
                    continue;
                };
            };
            let text = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
            let size = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok()).unwrap_or(0);
            if length >= head + 4 + size {
                return text
                    .split(' ')
                    .nth(1)
                    .and_then(|status| status.parse().ok())
                    .ok_or_else(|| io::ErrorKind::InvalidData.into());
            }
        }
    }

    pub(super) fn post(&mut self, path: &str, body: &str) -> io::Result<()> {
        match self.ask("POST", path, body)? {
            200 => Ok(()),
            status => Err(io::Error::other(format!("the server answered {status} to {path}"))),
        }
    }

    /// Begins a session of tapline's.
    pub(super) fn begin(&mut self, run: &str, session: &str) -> io::Result<()> {
        let init = json!({"type": "system", "subtype": "init", "session_id": session, "model": "claude-opus-4-7", "cwd": "/home/dev/shop", "tools": ["Bash"]});
        let prompt =
            json!({"type": "user", "session_id": session, "message": {"role": "user", "content": "make the tests pass again"}});
        self.post(&format!("/api/v1/ingest/{run}"), &format!("{init}\n{prompt}\n"))
    }

    /// Waits until a session is there.
    pub(super) fn wait_for(&mut self, session: &str) -> io::Result<()> {
        while self.ask("GET", &format!("/api/v1/sessions/{session}/steps?limit=1"), "")? != 200 {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// Returns a line of a session.
fn line(session: &str, content: serde_json::Value, role: &str) -> String {
    let mut line = json!({"type": role, "session_id": session, "message": {"role": role, "content": [content]}}).to_string();
    line.push('\n');
    line
}

fn said(stamp: &str) -> String {
    said_in(SESSION, stamp)
}

/// Returns a line of a session in which the agent says something.
pub(super) fn said_in(session: &str, stamp: &str) -> String {
    line(
        session,
        json!({"type": "text", "text": format!("Looking at the next test, {stamp}: it expects **three** rows, and `cart.rs` returns two of them.")}),
        "assistant",
    )
}

fn called(n: u64, stamp: &str) -> String {
    line(
        SESSION,
        json!({"type": "tool_use", "id": format!("toolu_{n}"), "name": "Bash", "input": {"command": format!("cargo test {stamp}")}}),
        "assistant",
    )
}

fn answered(n: u64) -> String {
    line(
        SESSION,
        json!({"type": "tool_result", "tool_use_id": format!("toolu_{n}"), "content": "test result: ok. 12 passed"}),
        "user",
    )
}

fn stamp(began: Instant) -> String {
    format!("{}{:0DIGITS$}{}", STAMP.0, micros(began), STAMP.1)
}

/// Posts events at their times until it is told to end.
fn post_all(mut poster: Poster, load: &Load, began: Instant, is_over: &AtomicBool, slow: &AtomicU64) -> io::Result<()> {
    let start = Instant::now();
    for n in 1.. {
        let due = start + Duration::from_micros(1_000_000 / RATE * n);
        match due.checked_duration_since(Instant::now()) {
            Some(time) => std::thread::sleep(time),
            None => drop(slow.fetch_add(1, Ordering::Relaxed)),
        }
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let is_call = n % RATE == 0;
        let stamp = stamp(began);
        match load {
            Load::Tapline if is_call => poster.post("/api/v1/ingest/bench", &called(n, &stamp))?,
            Load::Tapline => poster.post("/api/v1/ingest/bench", &said(&stamp))?,
            Load::Peer(sizes) => {
                let body = |size: usize| format!("{stamp}{}", "x".repeat(size.saturating_sub(stamp.len() + 45)));
                let calls = n / RATE;
                let id = n + calls;
                if is_call {
                    // The list first: it has more readers.
                    poster.post(&format!("/api/v1/ingest/bench?list={calls}"), &body(sizes[1]))?;
                    poster.post(&format!("/api/v1/ingest/bench?step={}", id - 1), &body(sizes[0]))?;
                    poster.post(&format!("/api/v1/ingest/bench?row={id}"), &body(sizes[1]))?;
                } else {
                    poster.post(&format!("/api/v1/ingest/bench?step={id}"), &body(sizes[0]))?;
                }
            }
        }
    }
    Ok(())
}

/// Measures one server.
pub fn turn(extent: Extent, load: &Load, server: Child) -> io::Result<Turn> {
    let began = Instant::now();
    let address = server.address;
    let mut poster = Poster::new(address)?;
    if matches!(load, Load::Tapline) {
        poster.begin("bench", SESSION)?;
        poster.wait_for(SESSION)?;
    }
    let before = server.memory()?;
    let mut clients = Clients::new(began)?;
    clients.connect_all(address, extent.list, extent.follow)?;
    let (is_over, slow) = (AtomicBool::new(false), AtomicU64::new(0));
    let memory = std::thread::scope(|scope| {
        let posting = scope.spawn(|| post_all(poster, load, began, &is_over, &slow));
        let mut read = || {
            clients.read_for(extent.warm_up, u64::MAX)?;
            clients.read_for(Duration::from_secs(extent.seconds), micros(began))?;
            let memory = server.memory()?;
            // Those that are on their way.
            is_over.store(true, Ordering::Relaxed);
            clients.read_for(Duration::from_secs(1), u64::MAX)?;
            Ok(memory)
        };
        let memory = read();
        is_over.store(true, Ordering::Relaxed);
        let posted = posting.join().unwrap_or_else(|_| Err(io::Error::other("posting broke off")));
        posted.and(memory)
    })?;
    let Got { mut session, list, wrong, bytes, events, .. } = clients.got;
    session.sort_unstable();
    let mut all = [&session[..], &list[..]].concat();
    all.sort_unstable();
    let size = |kind: usize| usize::try_from(bytes[kind] / events[kind].max(1)).unwrap_or(0);
    Ok(Turn {
        all: Times(all),
        session: Times(session),
        bytes_per_client: memory.saturating_sub(before) / (extent.list + extent.follow) as u64,
        wrong,
        sizes: [size(0), size(1)],
    })
}

/// Posts an hour of events. Returns how much memory the server had: at the start, and after each quarter.
pub fn hour(events: u64, server: Child) -> io::Result<[u64; 5]> {
    let began = Instant::now();
    let mut poster = Poster::new(server.address)?;
    poster.begin("bench", SESSION)?;
    poster.wait_for(SESSION)?;
    let mut clients = Clients::new(began)?;
    clients.connect_all(server.address, 10, 10)?;
    let mut samples = [server.memory()?; 5];
    let mut n = 0;
    for (quarter, sample) in (0..).zip(&mut samples).skip(1) {
        while n < events * quarter / 4 {
            let mut text = String::new();
            for _ in 0..100 {
                n += 1;
                let _ = match n % RATE {
                    0 => write!(text, "{}", called(n, &stamp(began))),
                    10 if n > RATE => write!(text, "{}", answered(n - 10)),
                    _ => write!(text, "{}", said(&stamp(began))),
                };
            }
            poster.post("/api/v1/ingest/bench", &text)?;
            // Until all followers have it: what is not told step by step would cost nothing.
            let wanted = clients.got.session.len() + 10 * 90;
            let patience = Instant::now() + Duration::from_secs(2);
            while clients.got.session.len() < wanted && Instant::now() < patience {
                clients.read(0)?;
            }
        }
        clients.got.session.clear();
        *sample = server.memory()?;
    }
    Ok(samples)
}
