//! A feed of events: numbered, remembered in a bounded ring so that a reader can go on where it was, and read at each reader's own pace. An
//! event is in memory only until all readers have it: what it told is in the spool, and is told from there to whoever comes back. A reader
//! that the ring has overtaken gets a snapshot instead of a longer queue.

mod ring;

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use axum::body::Bytes;
use jiff::Timestamp;
use serde::Serialize;

pub(crate) use ring::{Older, Taken};
use ring::{Ring, Tells};

/// How large a feed may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FeedLimits {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
    /// How many bytes of events that can be told again are in memory for readers that are slow, beside those that were published last.
    pub(crate) written: usize,
}

/// A feed.
#[derive(Debug)]
pub(crate) struct Feed {
    ring: Mutex<Ring>,
    limits: FeedLimits,
}

/// Returns data as JSON. What is sent here is a struct or a JSON value, which can be written.
fn text_of(data: &impl Serialize) -> String {
    serde_json::to_string(data).unwrap_or_default()
}

/// Appends an event.
fn write_event(out: &mut String, id: u64, name: &str, data: &str) {
    // Writing to a text cannot fail.
    let _ = write!(out, "id: {id}\nevent: {name}\ndata: {data}\n\n");
}

/// Returns an event in memory of its own: it may stay for a while, without others and without room that nobody uses.
fn event(id: u64, name: &str, data: &str) -> Bytes {
    let mut event = String::new();
    write_event(&mut event, id, name, data);
    event.into_boxed_str().into_boxed_bytes().into()
}

/// Returns older events, the first of which has this number, as they are sent: steps as they are now. `None` if a step is not there.
pub(crate) fn told_again(first: u64, events: &[Older], mut step: impl FnMut(usize) -> Option<String>) -> Option<Bytes> {
    let mut out = String::new();
    for (id, event) in (first..).zip(events) {
        match event {
            Older::Step(n) => write_event(&mut out, id, "step", &step(*n)?),
            Older::Written(event) => out.push_str(std::str::from_utf8(event).ok()?),
            // Clients note the number, and are told nothing.
            Older::Nothing => drop(write!(out, "id: {id}\n\n")),
        }
    }
    Some(out.into())
}

impl Feed {
    pub(crate) fn new(limits: FeedLimits) -> Self {
        // Numbers of an earlier server are smaller, so that its readers get a snapshot.
        let first = Timestamp::now().as_microsecond().max(1).cast_unsigned();
        Self::from(first, limits)
    }

    fn from(first: u64, limits: FeedLimits) -> Self {
        Self { ring: Mutex::new(Ring::from(first)), limits }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event.
    pub(crate) fn publish(&self, name: &str, data: &impl Serialize) {
        self.publish_text(name, Tells::Other, &text_of(data));
    }

    /// Adds the row of a session.
    pub(crate) fn publish_row(&self, row: &impl Serialize) {
        self.publish_text("row", Tells::Row, &text_of(row));
    }

    fn publish_text(&self, name: &str, tells: Tells, data: &str) {
        self.publish_all(|first| vec![(tells, event(first, name, data))]);
    }

    /// Adds steps that are JSON already, by their numbers. Readers are woken once.
    pub(crate) fn publish_steps(&self, steps: &[(usize, String)]) {
        let tells = |n: usize| u32::try_from(n).map_or(Tells::Other, Tells::Step);
        self.publish_all(|first| (first..).zip(steps).map(|(id, (n, json))| (tells(*n), event(id, "step", json))).collect());
    }

    /// Adds the events that `write` returns, given the number of the first one. They are written while readers can take others; again, if
    /// somebody else took the number meanwhile.
    fn publish_all(&self, write: impl Fn(u64) -> Vec<(Tells, Bytes)>) {
        let mut first = self.newest() + 1;
        let (mut ring, events) = loop {
            let events = write(first);
            let ring = self.ring();
            if ring.newest() + 1 == first {
                break (ring, events);
            }
            first = ring.newest() + 1;
        };
        let count = events.len();
        for (tells, event) in events {
            ring.push(tells, event, self.limits);
        }
        // Readers that have everything so far take the new ones from memory.
        ring.release(self.limits.written, count);
        wake(ring);
    }

    /// Says that so much changed that readers do better to ask for everything.
    pub(crate) fn skip(&self) {
        let mut ring = self.ring();
        ring.skip();
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
        self.ring().readers()
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
    ring.idle = 0;
    // Without readers, nobody needs what was published.
    ring.settle();
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
        let is_new = waiting.is_none();
        if waiting.as_ref().is_none_or(|waker| !waker.will_wake(context.waker())) {
            *waiting = Some(context.waker().clone());
        }
        ring.idle += usize::from(is_new);
        ring.settle();
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
        ring.idle -= usize::from(waker.is_some());
        ring.settle();
        if ring.free.len() == ring.waiting.len() {
            (ring.waiting, ring.free) = (Vec::new(), Vec::new());
        }
        drop(ring);
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use super::ring::AT_ONCE;
    use super::*;

    fn feed(events: usize, bytes: usize) -> Feed {
        Feed::from(100, FeedLimits { events, bytes, written: bytes })
    }

    fn texts(taken: Taken) -> Vec<String> {
        match taken {
            Taken::Nothing | Taken::Over => Vec::new(),
            Taken::Events(one, more) => {
                std::iter::once(&one).chain(&more).map(|event| String::from_utf8_lossy(event).into_owned()).collect()
            }
            Taken::Older(events) => vec![format!("{events:?}")],
            Taken::Missed(newest) => vec![format!("missed, now {newest}")],
        }
    }

    /// A feed of a session, and its steps. It is told so many of them, and then one of them again and again.
    fn session(steps: usize, again: usize) -> (Arc<Feed>, Vec<String>) {
        let feed = Arc::new(Feed::from(100, FeedLimits { events: 1_024, bytes: 512 << 10, written: 4_096 }));
        let json = |n: usize, time: usize| format!("{{\"n\":{n},\"html\":\"{}{time}\"}}", "x".repeat(300));
        let mut all: Vec<String> = Vec::new();
        for n in 0..steps {
            all.push(json(n, 0));
            feed.publish_steps(&[(n, all[n].clone())]);
        }
        for time in 1..=again {
            all[0] = json(0, time);
            feed.publish_steps(&[(0, all[0].clone())]);
        }
        (feed, all)
    }

    /// Takes everything after an event, as a client gets it.
    fn take_all(feed: &Feed, mut last: u64, steps: &[String]) -> String {
        let mut out = String::new();
        while last < feed.newest() {
            let (bytes, count) = match feed.after(last) {
                Taken::Older(events) => (told_again(last + 1, &events, |n| steps.get(n).cloned()).unwrap(), events.len()),
                Taken::Events(one, more) => (std::iter::once(&one).chain(&more).flatten().copied().collect(), 1 + more.len()),
                taken => panic!("{taken:?}"),
            };
            assert!(bytes.len() <= AT_ONCE + 4_096);
            out.push_str(std::str::from_utf8(&bytes).unwrap());
            last += count as u64;
        }
        out
    }

    fn ids(text: &str) -> Vec<u64> {
        text.lines().filter_map(|line| line.strip_prefix("id: ")?.parse().ok()).collect()
    }

    #[test]
    fn what_all_readers_have_is_not_in_memory_and_is_told_again_all_the_same() {
        let (feed, steps) = session(300, 0);
        feed.publish_row(&"the row");
        feed.publish_row(&"the row, later");
        assert_eq!(feed.ring().written.len(), 0, "nobody reads");
        let told = take_all(&feed, 99, &steps);
        assert_eq!(ids(&told), (100..402).collect::<Vec<_>>());
        for (n, step) in steps.iter().enumerate() {
            assert!(told.contains(&format!("id: {}\nevent: step\ndata: {step}\n\n", 100 + n)));
        }
        // Of a row, the last one says everything.
        assert!(told.ends_with("id: 400\n\nid: 401\nevent: row\ndata: \"the row, later\"\n\n"));
        assert_eq!(take_all(&feed, 398, &steps), told[told.find("id: 399").unwrap()..]);
        // A step that is gone, because the session is read again.
        assert_eq!(told_again(100, &[Older::Step(300)], |n| steps.get(n).cloned()), None);
    }

    #[test]
    fn events_are_in_memory_until_all_readers_have_them() {
        let (feed, _) = session(1, 0);
        let context = Context::from_waker(Waker::noop());
        let [quick, slow] = [0; 2].map(|_| feed.reader());
        let publish = |n: usize| feed.publish_steps(&[(n, "{}".to_owned())]);
        assert!(quick.poll_after(100, &context).is_pending() && slow.poll_after(100, &context).is_pending());
        publish(1);
        assert!(matches!(quick.poll_after(100, &context), Poll::Ready(Taken::Events(..))));
        assert!(quick.poll_after(101, &context).is_pending());
        assert_eq!(feed.ring().written.len(), 1, "the other one does not have it");
        assert!(matches!(slow.poll_after(100, &context), Poll::Ready(Taken::Events(..))));
        assert!(slow.poll_after(101, &context).is_pending());
        let ring = feed.ring();
        assert_eq!((ring.written.len(), ring.written.capacity(), ring.written_bytes), (0, 0, 0));
        drop(ring);
        // One that leaves needs nothing.
        publish(2);
        assert!(quick.poll_after(101, &context).is_ready() && quick.poll_after(102, &context).is_pending());
        assert_eq!(feed.ring().written.len(), 1);
        drop(slow);
        assert_eq!(feed.ring().written.len(), 0);
        // One that takes nothing holds only so much in memory.
        (3..1_000).for_each(publish);
        let ring = feed.ring();
        assert!(ring.written_bytes <= 4_096 && ring.events.len() == 1_000 && ring.events.capacity() <= 1_024);
        drop(ring);
        assert!(matches!(quick.poll_after(102, &context), Poll::Ready(Taken::Older(_))));
    }

    #[test]
    fn a_step_that_changes_again_and_again_is_told_again_once() {
        let (feed, steps) = session(3, 600);
        let told = take_all(&feed, 99, &steps);
        assert_eq!(ids(&told), (100..703).collect::<Vec<_>>());
        // Once in its place, so that steps come in the order of their numbers, and once when it changed last.
        assert_eq!(told.matches("event: step").count(), 4);
        assert!(told.ends_with(&format!("id: 702\nevent: step\ndata: {}\n\n", steps[0])));
        assert!(feed.ring().bytes < 4_096, "what nobody is told does not count");
    }

    #[test]
    fn steps_that_are_told_again_come_in_the_order_of_their_numbers() {
        let feed = feed(100, 1 << 20);
        let steps: Vec<String> = (0..8).map(|n| format!("{{\"n\":{n}}}")).collect();
        for n in [5, 6, 5, 7, 6, 5] {
            feed.publish_steps(&[(n, steps[n].clone())]);
        }
        let told = take_all(&feed, 99, &steps);
        let numbers: Vec<&str> = told.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        assert_eq!(numbers, [&steps[5], &steps[6], &steps[7], &steps[6], &steps[5]]);
        assert_eq!(ids(&told), (100..106).collect::<Vec<_>>());
    }

    #[test]
    fn readers_that_have_everything_take_a_large_step_from_memory() {
        let (feed, _) = session(1, 0);
        let context = Context::from_waker(Waker::noop());
        let readers: Vec<Reader> = (0..1_000).map(|_| feed.reader()).collect();
        assert!(readers.iter().all(|reader| reader.poll_after(100, &context).is_pending()));
        let large = |n: usize| (n, "x".repeat(50_000));
        feed.publish_steps(&[large(1), large(2), large(3)]);
        for reader in &readers {
            for last in 100..103 {
                let Poll::Ready(Taken::Events(one, _)) = reader.poll_after(last, &context) else { panic!("after {last}") };
                assert!(one.len() > 50_000 && one.len() < 50_100);
            }
            assert!(reader.poll_after(103, &context).is_pending());
        }
        assert_eq!(feed.ring().written_bytes, 0, "all have them");
        // For one that is slow, only what came last is in memory.
        for n in 4..9 {
            feed.publish_steps(&[large(n)]);
        }
        assert_eq!(feed.ring().written.len(), 1);
    }

    #[test]
    fn an_event_keeps_no_other_in_memory() {
        let (feed, _) = session(1, 0);
        let _reader = feed.reader();
        feed.publish_steps(&[(1, "1".repeat(3_000)), (2, "2".to_owned())]);
        let ring = feed.ring();
        assert!(ring.written.len() == 2 && ring.written.iter().all(Bytes::is_unique));
    }

    #[test]
    fn a_reader_goes_on_after_its_last_event() {
        let feed = feed(10, 1 << 20);
        assert_eq!(feed.after(99), Taken::Nothing);
        feed.publish_text("step", Tells::Other, "1");
        feed.publish_text("step", Tells::Other, "2");
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
        feed.publish_text("step", Tells::Other, &"x".repeat(2 * AT_ONCE));
        for _ in 0..100 {
            feed.publish_text("step", Tells::Other, &"x".repeat(1_000));
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
        feed.publish_text("step", Tells::Other, "1");
        feed.skip();
        assert_eq!(texts(feed.after(100)), ["missed, now 101"]);
        assert_eq!(texts(feed.after(101)), [""; 0]);
        feed.publish_text("step", Tells::Other, "2");
        assert_eq!(texts(feed.after(101)), ["id: 102\nevent: step\ndata: 2\n\n"]);
    }

    #[test]
    fn the_ring_is_bounded_in_bytes() {
        let feed = feed(1_000, 256);
        for _ in 0..100 {
            feed.publish_text("step", Tells::Other, &"x".repeat(100));
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
            feed.publish_text("step", Tells::Other, &format!("{{\"n\":{n},\"html\":\"{}\"}}", "x".repeat(300)));
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
