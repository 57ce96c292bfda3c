//! The ring of a feed: what the last events told, and those of them that not all readers have yet.

use std::collections::VecDeque;
use std::task::Waker;

use axum::body::Bytes;

use super::FeedLimits;

/// How many bytes a reader gets at once, unless one event has more: what a slow one has not taken yet stays in the ring.
pub(super) const AT_ONCE: usize = 64 << 10;

/// What an event tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tells {
    /// A step, by its number. Whoever is told its newest form has not missed the others.
    Step(u32),
    /// A step for the first time. It stays in its place, so that whoever is told it again has all steps in the order of their numbers.
    NewStep(u32),
    /// The row of the session.
    Row,
    /// What a later event tells anew.
    Nothing,
    /// Something that cannot be told again.
    Other,
}

/// An event that was published.
#[derive(Clone, Copy, Debug)]
pub(super) struct Published {
    tells: Tells,
    length: u32,
}

#[derive(Debug, Default)]
pub(super) struct Ring {
    /// The number of the first event in the ring. The others follow without a gap.
    pub(super) first: u64,
    pub(super) events: VecDeque<Published>,
    /// How many bytes they have, without those that tell nothing.
    pub(super) bytes: usize,
    /// The last of them, each written once for all readers.
    pub(super) written: VecDeque<Bytes>,
    pub(super) written_bytes: usize,
    /// The event with the last row, if it is not among those that are written.
    row: Option<Bytes>,
    /// All steps that were told have lower numbers.
    steps: u32,
    /// A place for each reader: how it is woken, if it has everything and waits.
    pub(super) waiting: Vec<Option<Waker>>,
    /// How many of them wait.
    pub(super) idle: usize,
    /// Places of readers that left.
    pub(super) free: Vec<usize>,
    /// Whether nothing more will come.
    pub(super) is_over: bool,
}

impl Ring {
    /// Makes an empty one, whose first event has this number.
    pub(super) fn from(first: u64) -> Self {
        Self { first, ..Self::default() }
    }

    /// Forgets all events. The next one has a number that does not follow theirs.
    pub(super) fn skip(&mut self) {
        let first = self.newest() + 2;
        let Self { waiting, idle, free, is_over, .. } = std::mem::take(self);
        *self = Self { first, waiting, idle, free, is_over, ..Self::default() };
    }

    pub(super) fn newest(&self) -> u64 {
        self.first + self.events.len() as u64 - 1
    }

    pub(super) fn readers(&self) -> usize {
        self.waiting.len() - self.free.len()
    }

    /// Returns what came after an event, or the first part of it.
    pub(super) fn after(&self, last: u64) -> Taken {
        let newest = self.newest();
        if last > newest || last.saturating_add(1) < self.first {
            return Taken::Missed(newest);
        }
        let skipped = usize::try_from(last + 1 - self.first).unwrap_or(usize::MAX);
        let mut bytes = 0;
        let mut fits = |length: usize| {
            let is_first = bytes == 0;
            bytes += length;
            is_first || bytes <= AT_ONCE
        };
        let older = self.events.len() - self.written.len();
        if skipped < older {
            let events = self.events.range(skipped..older).take_while(|event| fits(event.length as usize));
            return Taken::Older(events.map(|event| self.older(event.tells)).collect());
        }
        let mut events = self.written.iter().skip(skipped - older).take_while(|event| fits(event.len())).cloned();
        match events.next() {
            Some(one) => Taken::Events(one, events.collect()),
            None if self.is_over => Taken::Over,
            None => Taken::Nothing,
        }
    }

    fn older(&self, tells: Tells) -> Older {
        match (tells, &self.row) {
            (Tells::Step(n) | Tells::NewStep(n), _) => Older::Step(n as usize),
            (Tells::Row, Some(row)) => Older::Written(row.clone()),
            (Tells::Row | Tells::Nothing | Tells::Other, _) => Older::Nothing,
        }
    }

    /// Adds an event. After the last one that is added at once, [release](Self::release) those before them.
    pub(super) fn push(&mut self, tells: Tells, event: Bytes, limits: FeedLimits) {
        let tells = self.replace(tells);
        let length = u32::try_from(event.len()).unwrap_or(u32::MAX);
        if self.events.len() >= limits.events {
            // First: the ring takes no more memory than it needs.
            self.forget();
        }
        self.bytes += length as usize;
        self.written_bytes += event.len();
        self.events.push_back(Published { tells, length });
        self.written.push_back(event);
        while self.bytes > limits.bytes {
            self.forget();
        }
    }

    /// Notes that an earlier event need not be told again. Returns what the new one tells.
    fn replace(&mut self, tells: Tells) -> Tells {
        match tells {
            Tells::Step(n) if n >= self.steps => {
                self.steps = n.saturating_add(1);
                return Tells::NewStep(n);
            }
            Tells::Step(_) | Tells::Row => {}
            Tells::NewStep(_) | Tells::Nothing | Tells::Other => return tells,
        }
        if let Some(event) = self.events.iter_mut().rev().find(|event| event.tells == tells) {
            self.bytes -= event.length as usize;
            *event = Published { tells: Tells::Nothing, length: 0 };
        }
        if tells == Tells::Row {
            self.row = None;
        }
        tells
    }

    /// Forgets the oldest event.
    fn forget(&mut self) {
        let Some(oldest) = self.events.pop_front() else { return };
        self.first += 1;
        self.bytes -= oldest.length as usize;
        if oldest.tells == Tells::Row {
            self.row = None;
        }
        if self.written.len() > self.events.len() {
            self.written_bytes -= self.written.pop_front().map_or(0, |event| event.len());
        }
    }

    /// Keeps at most so many bytes of events that can be told again, and in any case the newest ones, of which there are so many.
    pub(super) fn release(&mut self, most: usize, newest: usize) {
        while self.written_bytes > most && self.written.len() > newest {
            let tells = self.events[self.events.len() - self.written.len()].tells;
            if tells == Tells::Other {
                return;
            }
            let Some(event) = self.written.pop_front() else { return };
            self.written_bytes -= event.len();
            if tells == Tells::Row {
                self.row = Some(event);
            }
        }
        if self.written.is_empty() {
            self.written = VecDeque::new();
        }
    }

    /// Releases what nobody waits for any more: all readers have everything.
    pub(super) fn settle(&mut self) {
        if self.idle == self.readers() {
            self.release(0, 0);
        }
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
    /// The same, of events that are not in memory any more.
    Older(Vec<Older>),
    /// It missed some. The number of the newest.
    Missed(u64),
}

/// An event that is not in memory any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Older {
    /// A step, as it is now.
    Step(usize),
    /// One that is in memory all the same.
    Written(Bytes),
    /// A later event tells it anew.
    Nothing,
}
