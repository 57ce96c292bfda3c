//! Each reader follows a session of its own: as many sessions grow at once as there are readers.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::load::{Clients, DIGITS, Got, Load, Poster, RATE, STAMP, Times, Turn, micros, said_in};
use super::server::Child;

/// How many connections post at the same time.
const POSTERS: usize = 8;

/// How many sessions there are, and how many events are in each request.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    pub sessions: usize,
    pub batch: u64,
    pub warm_up: Duration,
    pub seconds: u64,
    /// Whether a peer gets the lines of a stream, too, and not only bytes.
    pub lines: bool,
}

fn name(n: usize) -> String {
    format!("bench-{n}")
}

/// Returns events as one request has them. Each has a time of its own, so that none is taken for another.
fn events(session: &str, own: Own, load: &Load, began: Instant) -> String {
    let now = micros(began);
    let stamps = (0..own.batch).map(|n| format!("{}{:0DIGITS$}{}", STAMP.0, now + n, STAMP.1));
    match load {
        Load::Peer([size, _]) if !own.lines => {
            stamps.map(|stamp| format!("{stamp}{}\n", "x".repeat(size.saturating_sub(stamp.len() + 45)))).collect()
        }
        Load::Tapline | Load::Peer(_) => stamps.map(|stamp| said_in(session, &stamp)).collect(),
    }
}

/// Posts to some of the sessions, each at its time, until it is told to end.
fn post(mut poster: Poster, own: Own, first: usize, load: &Load, began: Instant, told: &Told) -> io::Result<()> {
    let mine: Vec<usize> = (first..own.sessions).step_by(POSTERS).collect();
    let every = Duration::from_micros(1_000_000 * own.batch / RATE);
    let start = Instant::now();
    for (round, n) in (0_u64..).flat_map(|round| mine.iter().enumerate().map(move |(at, n)| (round, (at, *n)))) {
        let (at, n) = n;
        let round_at = u32::try_from(round).unwrap_or(u32::MAX);
        let due = start + every * round_at + every.mul_f64(at as f64 / mine.len() as f64);
        if let Some(time) = due.checked_duration_since(Instant::now()) {
            std::thread::sleep(time);
        } else if due.elapsed() > every {
            told.late.fetch_add(1, Ordering::Relaxed);
        }
        if told.is_over.load(Ordering::Relaxed) {
            break;
        }
        let session = name(n);
        let id = if matches!(load, Load::Tapline) { String::new() } else { format!("?step={}", round * own.batch + 1) };
        poster.post(&format!("/api/v1/ingest/{session}{id}"), &events(&session, own, load, began))?;
        told.posted.fetch_add(own.batch, Ordering::Relaxed);
    }
    Ok(())
}

#[derive(Default)]
struct Told {
    is_over: AtomicBool,
    /// Requests that began more than a round too late.
    late: AtomicU64,
    posted: AtomicU64,
}

/// Measures one server. Returns how many requests were late, too: then the machine cannot carry so many events.
pub fn turn(own: Own, load: &Load, server: Child) -> io::Result<(Turn, u64)> {
    let began = Instant::now();
    let address = server.address;
    let mut poster = Poster::new(address)?;
    let before = server.memory()?;
    let mut clients = Clients::new(began)?;
    let is_tapline = matches!(load, Load::Tapline);
    for n in (0..own.sessions).filter(|_| is_tapline) {
        poster.begin(&name(n), &name(n))?;
    }
    for n in 0..own.sessions {
        if is_tapline {
            poster.wait_for(&name(n))?;
        }
        clients.connect(address, Some(&name(n)))?;
        clients.wait_for_heads(64)?;
    }
    clients.wait_for_heads(0)?;
    let told = Told::default();
    let memory = std::thread::scope(|scope| {
        let posting: Vec<_> = (0..POSTERS)
            .map(|first| {
                let told = &told;
                scope.spawn(move || post(Poster::new(address)?, own, first, load, began, told))
            })
            .collect();
        let mut read = || {
            clients.read_for(own.warm_up, u64::MAX)?;
            clients.read_for(Duration::from_secs(own.seconds), micros(began))?;
            let memory = server.memory()?;
            told.is_over.store(true, Ordering::Relaxed);
            // Those that are on their way.
            clients.read_for(Duration::from_secs(1), u64::MAX)?;
            Ok(memory)
        };
        let memory: io::Result<u64> = read();
        told.is_over.store(true, Ordering::Relaxed);
        for posting in posting {
            posting.join().unwrap_or_else(|_| Err(io::Error::other("posting broke off")))?;
        }
        memory
    })?;
    let Got { mut session, wrong, bytes, events, .. } = clients.got;
    session.sort_unstable();
    let size = usize::try_from(bytes[0] / events[0].max(1)).unwrap_or(0);
    let turn = Turn {
        all: Times(session.clone()),
        session: Times(session),
        bytes_per_client: memory.saturating_sub(before) / own.sessions as u64,
        wrong,
        sizes: [size, size],
    };
    Ok((turn, told.late.load(Ordering::Relaxed)))
}
