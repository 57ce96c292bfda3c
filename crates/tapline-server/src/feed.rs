//! A feed of events: numbered, kept in a bounded ring so that a reader can go on where it was, and read at each reader's own pace. A reader
//! that the ring has overtaken gets a snapshot instead of a longer queue.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::watch;

/// How many bytes a reader gets at once, unless one event has more: what a slow one has not taken yet stays in the ring.
const AT_ONCE: usize = 64 << 10;

/// How large a feed may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FeedLimits {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

/// A feed.
#[derive(Debug)]
pub(crate) struct Feed {
    ring: Mutex<Ring>,
    /// The number of the newest event.
    newest: watch::Sender<u64>,
    limits: FeedLimits,
    /// Whether nothing more will come.
    is_over: AtomicBool,
}

#[derive(Debug)]
struct Ring {
    /// The number of the first event in the ring. The others follow without a gap.
    first: u64,
    events: VecDeque<Bytes>,
    bytes: usize,
}

impl Ring {
    fn newest(&self) -> u64 {
        self.first + self.events.len() as u64 - 1
    }
}

/// What a reader gets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The next events after the last one that it had, and the number of the newest of them.
    Events(Vec<Bytes>, u64),
    /// It missed some. The number of the newest.
    Missed(u64),
}

impl Feed {
    pub(crate) fn new(limits: FeedLimits) -> Self {
        // Numbers of an earlier server are smaller, so that its readers get a snapshot.
        let first = Timestamp::now().as_microsecond().max(1).cast_unsigned();
        Self::from(first, limits)
    }

    fn from(first: u64, limits: FeedLimits) -> Self {
        let ring = Ring { first, events: VecDeque::new(), bytes: 0 };
        Self { ring: Mutex::new(ring), newest: watch::Sender::new(first - 1), limits, is_over: AtomicBool::new(false) }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event.
    pub(crate) fn publish(&self, name: &str, data: &impl Serialize) {
        // What is sent here is a struct or a JSON value, which can be written.
        let data = serde_json::to_string(data).unwrap_or_default();
        self.publish_text(name, &data);
    }

    /// Adds an event whose data is JSON already.
    pub(crate) fn publish_text(&self, name: &str, data: &str) {
        let mut ring = self.ring();
        let id = ring.newest() + 1;
        let event = Bytes::from(format!("id: {id}\nevent: {name}\ndata: {data}\n\n"));
        ring.bytes += event.len();
        ring.events.push_back(event);
        while ring.events.len() > self.limits.events || ring.bytes > self.limits.bytes {
            let Some(oldest) = ring.events.pop_front() else { break };
            ring.bytes -= oldest.len();
            ring.first += 1;
        }
        drop(ring);
        self.newest.send_replace(id);
    }

    /// Says that so much changed that readers do better to ask for everything.
    pub(crate) fn skip(&self) {
        let mut ring = self.ring();
        ring.first = ring.newest() + 2;
        ring.events.clear();
        ring.bytes = 0;
        let newest = ring.newest();
        drop(ring);
        self.newest.send_replace(newest);
    }

    /// Ends the feed: its readers come back, and find another one in its place.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.newest.send_modify(|_| {});
    }

    /// Returns whether nothing more will come.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Returns the number of the newest event.
    pub(crate) fn newest(&self) -> u64 {
        self.ring().newest()
    }

    /// Waits for news here.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Returns how many readers there are.
    pub(crate) fn readers(&self) -> usize {
        self.newest.receiver_count()
    }

    /// Returns what came after an event, or the first part of it.
    pub(crate) fn after(&self, last: u64) -> Taken {
        let ring = self.ring();
        let newest = ring.newest();
        if last > newest || last.saturating_add(1) < ring.first {
            return Taken::Missed(newest);
        }
        let skipped = usize::try_from(last + 1 - ring.first).unwrap_or(usize::MAX);
        let mut bytes = 0;
        let fits = |event: &&Bytes| {
            let is_first = bytes == 0;
            bytes += event.len();
            is_first || bytes <= AT_ONCE
        };
        let events: Vec<Bytes> = ring.events.iter().skip(skipped).take_while(fits).cloned().collect();
        let newest = last + events.len() as u64;
        Taken::Events(events, newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(events: usize, bytes: usize) -> Feed {
        Feed::from(100, FeedLimits { events, bytes })
    }

    fn texts(taken: Taken) -> Vec<String> {
        match taken {
            Taken::Events(events, _) => events.iter().map(|event| String::from_utf8_lossy(event).into_owned()).collect(),
            Taken::Missed(newest) => vec![format!("missed, now {newest}")],
        }
    }

    #[test]
    fn a_reader_goes_on_after_its_last_event() {
        let feed = feed(10, 1 << 20);
        assert_eq!(feed.after(99), Taken::Events(Vec::new(), 99));
        feed.publish_text("step", "1");
        feed.publish_text("step", "2");
        assert_eq!(texts(feed.after(100)), ["id: 101\nevent: step\ndata: 2\n\n"]);
        assert_eq!(texts(feed.after(99)).len(), 2);
        assert_eq!(texts(feed.after(101)), [""; 0]);
    }

    #[test]
    fn whoever_falls_behind_or_comes_from_elsewhere_gets_a_snapshot() {
        let feed = feed(2, 1 << 20);
        for n in 0..5 {
            feed.publish("n", &n);
        }
        assert_eq!(texts(feed.after(99)), ["missed, now 104"]);
        assert_eq!(texts(feed.after(102)).len(), 2);
        // Numbers of another server.
        assert_eq!(texts(feed.after(7)), ["missed, now 104"]);
        assert_eq!(texts(feed.after(u64::MAX - 1)), ["missed, now 104"]);
    }

    #[test]
    fn a_reader_gets_a_part_at_once() {
        let feed = feed(1_000, 8 << 20);
        feed.publish_text("step", &"x".repeat(2 * AT_ONCE));
        for _ in 0..100 {
            feed.publish_text("step", &"x".repeat(1_000));
        }
        let (mut last, mut counts) = (99, Vec::new());
        while last < feed.newest() {
            let Taken::Events(events, newest) = feed.after(last) else { panic!("nothing was missed") };
            assert!(events.len() == 1 || events.iter().map(Bytes::len).sum::<usize>() <= AT_ONCE);
            counts.push(events.len());
            last = newest;
        }
        assert!(counts[0] == 1 && counts.len() > 2 && counts.iter().sum::<usize>() == 101, "{counts:?}");
    }

    #[test]
    fn after_a_skip_everybody_gets_a_snapshot() {
        let feed = feed(10, 1 << 20);
        feed.publish_text("step", "1");
        feed.skip();
        assert_eq!(texts(feed.after(100)), ["missed, now 101"]);
        assert_eq!(texts(feed.after(101)), [""; 0]);
        feed.publish_text("step", "2");
        assert_eq!(texts(feed.after(101)), ["id: 102\nevent: step\ndata: 2\n\n"]);
    }

    #[test]
    fn the_ring_is_bounded_in_bytes() {
        let feed = feed(1_000, 256);
        for _ in 0..100 {
            feed.publish_text("step", &"x".repeat(100));
        }
        let ring = feed.ring();
        assert!(ring.bytes <= 256 && !ring.events.is_empty());
        assert_eq!(ring.newest(), 199);
    }
}
