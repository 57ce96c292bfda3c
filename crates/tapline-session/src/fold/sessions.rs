//! The sessions of a stream: their ids, and how the first one was started.

use foldhash::fast::RandomState;

use crate::step::SessionInfo;

/// What is known about the session.
#[derive(Clone, Debug, Default)]
pub struct SessionFacts {
    /// Every id, in order of appearance (at most 65,536).
    pub ids: Vec<String>,
    /// The session that started last.
    pub current: Option<String>,
    /// How often a session started.
    pub inits: u64,
    /// What the first start reported.
    pub info: SessionInfo,
}

/// Unique ids in order of appearance.
#[derive(Clone, Debug, Default)]
pub(super) struct Ids {
    pub(super) list: Vec<String>,
    seen: std::collections::HashSet<String, RandomState>,
    /// How many of them steps have named.
    named: usize,
}

impl Ids {
    /// How many ids are listed.
    const LISTED: usize = 1 << 16;

    /// Returns the newest id, if no step has named it yet.
    pub(super) fn news(&mut self) -> Option<String> {
        let is_new = self.named < self.list.len();
        self.named = self.list.len();
        self.list.last().filter(|_| is_new).cloned()
    }

    /// Notes an id.
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
