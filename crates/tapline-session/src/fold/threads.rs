//! Calls and messages in flight: which answer belongs to which call, who speaks for whom, what was said already.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;

use super::recent::hash;
use crate::step::Call;

/// How many calls are remembered after their answer: sub-agents in the background go on speaking.
const REMEMBERED: usize = 1 << 14;

/// A call that was seen.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) done: &'static str,
    pub(crate) line: u64,
    depth: usize,
    answered: bool,
}

/// The calls of a session, by id.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    seen: HashMap<String, Seen>,
    order: VecDeque<String>,
}

impl Calls {
    /// How deep a thread is: one deeper than the call it serves.
    pub(crate) fn depth_in(&self, parent: Option<&str>) -> usize {
        parent.map_or(0, |id| self.seen.get(id).map_or(0, |call| call.depth) + 1)
    }

    /// Remembers a call; `false` if it was there already.
    pub(crate) fn start(&mut self, call: &Call, line: u64, depth: usize) -> bool {
        let Some(id) = &call.id else { return true };
        if self.seen.contains_key(id) {
            return false;
        }
        let (name, title) = (call.name.clone(), call.title.clone());
        self.seen.insert(id.clone(), Seen { name, title, done: call.done, line, depth, answered: false });
        self.order.push_back(id.clone());
        self.forget();
        true
    }

    /// Finds the call that this answers; `again` tells whether it was answered before.
    pub(crate) fn answer(&mut self, id: Option<&String>) -> Option<(Seen, bool)> {
        let seen = self.seen.get_mut(id?)?;
        let again = std::mem::replace(&mut seen.answered, true);
        Some((seen.clone(), again))
    }

    /// Whether this call waits for its answer.
    pub(crate) fn is_pending(&self, id: Option<&String>) -> bool {
        id.and_then(|id| self.seen.get(id)).is_some_and(|call| !call.answered)
    }

    /// The calls that were never answered, in order.
    pub(crate) fn pending(&self) -> impl Iterator<Item = (&str, &Seen)> {
        self.order.iter().filter_map(|id| Some((id.as_str(), self.seen.get(id).filter(|call| !call.answered)?)))
    }

    fn forget(&mut self) {
        if self.order.len() > REMEMBERED {
            // The oldest that was answered, else the oldest.
            let at = self.order.iter().take(64).position(|id| self.seen.get(id).is_none_or(|call| call.answered));
            if let Some(id) = self.order.remove(at.unwrap_or(0)) {
                self.seen.remove(&id);
            }
        }
    }
}

/// The blocks of the message each thread is at, so that a message that is sent again, grown, says nothing twice.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    threads: BTreeMap<Option<String>, (String, Vec<u64>)>,
}

/// More threads than this never speak at once.
const THREADS: usize = 1 << 10;

impl Messages {
    /// How many of these blocks were said already under this message's id.
    pub(crate) fn said_already<B: Hash>(&mut self, thread: Option<&String>, id: Option<&String>, blocks: &[B]) -> usize {
        let Some(id) = id else { return 0 };
        if self.threads.len() >= THREADS {
            self.threads.clear();
        }
        let (known, said) = self.threads.entry(thread.cloned()).or_default();
        if known != id {
            known.clone_from(id);
            said.clear();
        }
        let hashes = blocks.iter().map(hash);
        let grown = !said.is_empty() && blocks.len() > 1 && blocks.len() >= said.len();
        let repeated = if grown && hashes.clone().take(said.len()).eq(said.iter().copied()) { said.len() } else { 0 };
        said.extend(hashes.skip(repeated));
        repeated
    }
}
