//! The sessions of a stream: their ids, and what the first of them was started with.

use foldhash::fast::RandomState;

use crate::step::SessionInfo;

/// What is known of the session.
#[derive(Clone, Debug, Default)]
pub struct SessionFacts {
    /// Every id, in order of appearance (at most 65,536).
    pub ids: Vec<String>,
    /// The one that started last.
    pub current: Option<String>,
    /// How often it started.
    pub inits: u64,
    /// What the first start said.
    pub info: SessionInfo,
}

/// Ids in order of appearance, each once.
#[derive(Clone, Debug, Default)]
pub(super) struct Ids {
    pub(super) list: Vec<String>,
    seen: std::collections::HashSet<String, RandomState>,
    /// How many of them steps have named.
    named: usize,
}

impl Ids {
    /// No more ids are listed.
    const LISTED: usize = 1 << 16;

    /// The newest id, if no step has named it yet.
    pub(super) fn news(&mut self) -> Option<String> {
        let is_new = self.named < self.list.len();
        self.named = self.list.len();
        self.list.last().filter(|_| is_new).cloned()
    }

    /// An id appeared.
    pub(super) fn see(&mut self, id: &str) {
        if self.list.last().is_some_and(|last| last == id) || self.list.len() >= Self::LISTED {
            return;
        }
        if !self.seen.contains(id) {
            self.seen.insert(id.to_owned());
            self.list.push(id.to_owned());
        }
    }
}
