//! A feed of events: numbered, kept in a bounded ring so that a reader can go on where it was, and read at each reader's own pace. A reader
//! that the ring has overtaken gets a snapshot instead of a longer queue.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use axum::body::Bytes;
use jiff::Timestamp;
use serde::Serialize;

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
    limits: FeedLimits,
}

#[derive(Debug)]
struct Ring {
    /// The number of the first event in the ring. The others follow without a gap.
    first: u64,
    /// Each is written once, for all readers.
    events: VecDeque<Bytes>,
    bytes: usize,
    /// A place for each reader: how it is woken, if it waits.
    waiting: Vec<Option<Waker>>,
    /// Places of readers that left.
    free: Vec<usize>,
    /// Whether nothing more will come.
    is_over: bool,
}

impl Ring {
    fn newest(&self) -> u64 {
        self.first + self.events.len() as u64 - 1
    }

    /// Returns what came after an event, or the first part of it.
    fn after(&self, last: u64) -> Taken {
        let newest = self.newest();
        if last > newest || last.saturating_add(1) < self.first {
            return Taken::Missed(newest);
        }
        let skipped = usize::try_from(last + 1 - self.first).unwrap_or(usize::MAX);
        let mut events = self.events.iter().skip(skipped);
        let Some(one) = events.next().cloned() else { return if self.is_over { Taken::Over } else { Taken::Nothing } };
        let mut bytes = one.len();
        let fits = |event: &&Bytes| {
            bytes += event.len();
            bytes <= AT_ONCE
        };
        let more: Vec<Bytes> = events.take_while(fits).cloned().collect();
        Taken::Events(one, more)
    }
}

/// What a reader gets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It has everything so far.
    Nothing,
    /// It has everything, and nothing more will come.
    Over,
    /// The next event after the last one that it had, and those that follow it at once.
    Events(Bytes, Vec<Bytes>),
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
        let ring = Ring { first, events: VecDeque::new(), bytes: 0, waiting: Vec::new(), free: Vec::new(), is_over: false };
        Self { ring: Mutex::new(ring), limits }
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
        // It stays for a while: without room that nobody uses.
        let event = Bytes::from(format!("id: {id}\nevent: {name}\ndata: {data}\n\n").into_boxed_str().into_boxed_bytes());
        ring.bytes += event.len();
        ring.events.push_back(event);
        while ring.events.len() > self.limits.events || ring.bytes > self.limits.bytes {
            let Some(oldest) = ring.events.pop_front() else { break };
            ring.bytes -= oldest.len();
            ring.first += 1;
        }
        wake(ring);
    }

    /// Says that so much changed that readers do better to ask for everything.
    pub(crate) fn skip(&self) {
        let mut ring = self.ring();
        ring.first = ring.newest() + 2;
        ring.events.clear();
        ring.bytes = 0;
        wake(ring);
    }

    /// Ends the feed: its readers come back, and find another one in its place.
    pub(crate) fn end(&self) {
        let mut ring = self.ring();
        ring.is_over = true;
        wake(ring);
    }

    /// Returns the number of the newest event.
    pub(crate) fn newest(&self) -> u64 {
        self.ring().newest()
    }

    /// Returns how many readers there are.
    pub(crate) fn readers(&self) -> usize {
        let ring = self.ring();
        ring.waiting.len() - ring.free.len()
    }

    /// Returns what came after an event, or the first part of it.
    #[cfg(test)]
    pub(crate) fn after(&self, last: u64) -> Taken {
        self.ring().after(last)
    }

    /// Comes in as a reader.
    pub(crate) fn reader(self: &Arc<Self>) -> Reader {
        let mut ring = self.ring();
        let place = ring.free.pop().unwrap_or(ring.waiting.len());
        if place == ring.waiting.len() {
            ring.waiting.push(None);
        }
        drop(ring);
        Reader { feed: Arc::clone(self), place }
    }
}

/// Wakes everybody who waits, after the lock is free for them.
fn wake(mut ring: MutexGuard<'_, Ring>) {
    let woken: Vec<Waker> = ring.waiting.iter_mut().filter_map(Option::take).collect();
    drop(ring);
    woken.into_iter().for_each(Waker::wake);
}

/// A reader of a feed. It has a place among those who wait, until it is dropped.
#[derive(Debug)]
pub(crate) struct Reader {
    feed: Arc<Feed>,
    place: usize,
}

impl Reader {
    /// Returns what came after an event. If there is nothing yet, the reader is woken when there is.
    pub(crate) fn poll_after(&self, last: u64, context: &Context<'_>) -> Poll<Taken> {
        let mut ring = self.feed.ring();
        let taken = ring.after(last);
        if taken != Taken::Nothing {
            return Poll::Ready(taken);
        }
        let waiting = &mut ring.waiting[self.place];
        if waiting.as_ref().is_none_or(|waker| !waker.will_wake(context.waker())) {
            *waiting = Some(context.waker().clone());
        }
        Poll::Pending
    }

    /// Returns the number of the newest event.
    pub(crate) fn newest(&self) -> u64 {
        self.feed.newest()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut ring = self.feed.ring();
        let waker = ring.waiting[self.place].take();
        ring.free.push(self.place);
        if ring.free.len() == ring.waiting.len() {
            (ring.waiting, ring.free) = (Vec::new(), Vec::new());
        }
        drop(ring);
        drop(waker);
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
            Taken::Nothing | Taken::Over => Vec::new(),
            Taken::Events(one, more) => {
                std::iter::once(&one).chain(&more).map(|event| String::from_utf8_lossy(event).into_owned()).collect()
            }
            Taken::Missed(newest) => vec![format!("missed, now {newest}")],
        }
    }

    #[test]
    fn a_reader_goes_on_after_its_last_event() {
        let feed = feed(10, 1 << 20);
        assert_eq!(feed.after(99), Taken::Nothing);
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
            let events = texts(feed.after(last));
            assert!(events.len() == 1 || events.iter().map(String::len).sum::<usize>() <= AT_ONCE);
            counts.push(events.len());
            last += events.len() as u64;
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

    #[test]
    fn an_hour_of_events_stays_within_the_ring() {
        let feed = Arc::new(feed(1_024, 512 << 10));
        let (readers, slow) = ((0..10).map(|_| feed.reader()).collect::<Vec<_>>(), feed.reader());
        let waker = Waker::noop();
        let context = Context::from_waker(waker);
        assert!(slow.poll_after(99, &context).is_pending());
        for n in 0..72_000_u64 {
            feed.publish_text("step", &format!("{{\"n\":{n},\"html\":\"{}\"}}", "x".repeat(300)));
            for reader in &readers {
                assert!(reader.poll_after(99 + n, &context).is_ready());
                // Again and again: it has one place all the same.
                assert!(reader.poll_after(100 + n, &context).is_pending() && reader.poll_after(100 + n, &context).is_pending());
            }
        }
        let ring = feed.ring();
        assert!(ring.events.len() <= 1_024 && ring.bytes <= 512 << 10, "{} events, {} bytes", ring.events.len(), ring.bytes);
        assert!(ring.events.capacity() <= 4_096 && ring.waiting.len() == 11 && ring.free.is_empty());
        drop(ring);
        assert_eq!(feed.readers(), 11);
        assert!(matches!(slow.poll_after(99, &context), Poll::Ready(Taken::Missed(72_099))));
        drop((readers, slow));
        assert_eq!((feed.readers(), feed.ring().waiting.capacity()), (0, 0));
    }

    #[test]
    fn places_of_readers_are_used_again() {
        let feed = Arc::new(feed(10, 1 << 20));
        let kept = feed.reader();
        for _ in 0..10_000 {
            let reader = feed.reader();
            assert!(reader.poll_after(99, &Context::from_waker(Waker::noop())).is_pending());
        }
        assert_eq!((feed.readers(), feed.ring().waiting.len()), (1, 2));
        drop(kept);
    }
}
