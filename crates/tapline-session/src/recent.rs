//! A set that remembers a limited number of recent things: it notices repeats, and memory stays bounded.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher as _, Hash};

use foldhash::{fast, quality};

/// How many things are remembered.
const CAPACITY: usize = 1 << 16;

/// The most recent things, by a 64-bit hash.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    set: HashSet<u64, fast::RandomState>,
    order: VecDeque<u64>,
}

pub(crate) fn hash(key: impl Hash) -> u64 {
    quality::FixedState::default().hash_one(key)
}

impl Recent {
    /// Remembers something. Returns `false` if it was already there.
    pub(crate) fn insert(&mut self, key: impl Hash) -> bool {
        let key = hash(key);
        if !self.set.insert(key) {
            return false;
        }
        self.order.push_back(key);
        if self.order.len() > CAPACITY
            && let Some(oldest) = self.order.pop_front()
        {
            self.set.remove(&oldest);
        }
        true
    }

    pub(crate) fn contains(&self, key: impl Hash) -> bool {
        self.set.contains(&hash(key))
    }
}
