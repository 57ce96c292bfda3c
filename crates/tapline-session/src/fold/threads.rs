//! Calls and messages in flight: which answer belongs to which call, who speaks for whom, what was said already.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};

use tapline_protocol::{Moment, Record};

use crate::step::{Answer, Call};

/// How many calls are remembered after their answer: sub-agents in the background go on speaking.
const REMEMBERED: usize = 1 << 14;

/// How many answers without a call are remembered.
const ORPHANS: usize = 1 << 10;

/// How many bytes of them.
const ORPHAN_BYTES: usize = 8 << 20;

/// A call that was seen.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) done: Cow<'static, str>,
    pub(crate) line: u64,
    began: Option<Moment>,
    depth: usize,
    answered: bool,
}

impl Seen {
    /// The time from the call to what came in this record; unknown where both came in one.
    pub(crate) fn took(&self, end: &Record) -> Option<u64> {
        end.arrived?.millis_since(self.began.filter(|_| self.line != end.line)?)
    }
}

/// An answer whose call has not come.
#[derive(Debug)]
pub(crate) struct Early {
    pub(crate) answer: Answer,
    pub(crate) line: u64,
    pub(crate) arrived: Option<Moment>,
}

/// The calls of a session, by id.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    seen: HashMap<String, Seen>,
    order: VecDeque<String>,
    /// Answers whose call has not come, the newest last.
    orphans: VecDeque<Early>,
    orphan_bytes: usize,
    /// Answers without a call that are no longer remembered.
    pub(crate) forgotten: usize,
}

impl Calls {
    /// How deep a thread is: one deeper than the call it serves.
    pub(crate) fn depth_in(&self, parent: Option<&str>) -> usize {
        parent.map_or(0, |id| self.seen.get(id).map_or(0, |call| call.depth) + 1)
    }

    /// Remembers a call; `false` if it was there already.
    pub(crate) fn start(&mut self, call: &Call, record: &Record, depth: usize) -> bool {
        let Some(id) = &call.id else { return true };
        if self.seen.contains_key(id) {
            return false;
        }
        let (name, title, Record { line, arrived: began, .. }) = (call.name.clone(), call.title.clone(), record);
        self.seen.insert(
            id.clone(),
            Seen { name, title, done: call.done.clone(), line: *line, began: *began, depth, answered: false },
        );
        self.order.push_back(id.clone());
        self.forget();
        true
    }

    /// A call that was seen.
    pub(crate) fn get(&self, id: &str) -> Option<&Seen> {
        self.seen.get(id)
    }

    /// Finds the call that this answers; `again` tells whether it was answered before.
    pub(crate) fn answer(&mut self, id: Option<&String>) -> Option<(Seen, bool)> {
        let seen = self.seen.get_mut(id?)?;
        let again = std::mem::replace(&mut seen.answered, true);
        Some((seen.clone(), again))
    }

    /// Remembers an answer whose call may still come.
    pub(crate) fn keep_orphan(&mut self, answer: &Answer, record: &Record) {
        self.orphans.push_back(Early { answer: answer.clone(), line: record.line, arrived: record.arrived });
        self.orphan_bytes += answer.text.len();
        // The oldest lose their text first: that they came is still told.
        while self.orphan_bytes > ORPHAN_BYTES || self.orphans.len() > ORPHANS {
            let Some(oldest) = self.orphans.pop_front() else { break };
            self.orphan_bytes -= oldest.answer.text.len();
            self.forgotten += 1;
        }
    }

    /// The answer that came before this call.
    pub(crate) fn take_orphan(&mut self, id: Option<&String>) -> Option<Early> {
        let at = self.orphans.iter().position(|early| id.is_some() && early.answer.id.as_ref() == id)?;
        let orphan = self.orphans.remove(at)?;
        self.orphan_bytes -= orphan.answer.text.len();
        Some(orphan)
    }

    /// The answers whose call never came.
    pub(crate) fn orphans(&self) -> impl Iterator<Item = (&str, u64)> {
        self.orphans.iter().map(|early| (early.answer.id.as_deref().unwrap_or("(none)"), early.line))
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
    pub(crate) fn said_already(
        &mut self,
        thread: Option<&String>,
        id: Option<&String>,
        has_uuid: bool,
        blocks: &[u64],
    ) -> usize {
        let Some(id) = id else { return 0 };
        if self.threads.len() >= THREADS {
            self.threads.clear();
        }
        let (known, said) = self.threads.entry(thread.cloned()).or_default();
        if known != id {
            known.clone_from(id);
            said.clear();
        }
        let grown = !said.is_empty() && blocks.len() > 1 && blocks.len() >= said.len();
        let repeated = if grown && blocks.starts_with(said) { said.len() } else { 0 };
        // Without a uuid nothing tells a block that is sent again from one that is said again.
        let again = matches!(blocks, [block] if !has_uuid && said.contains(block));
        let repeated = if again { 1 } else { repeated };
        if said.len() > THREADS {
            said.clear();
        }
        said.extend(&blocks[repeated..]);
        repeated
    }
}
