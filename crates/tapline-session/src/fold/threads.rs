//! Open calls and messages: which result belongs to which call, which thread a line belongs to, and what was already
//! said.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};

use foldhash::fast::RandomState;
use tapline_protocol::{Json, Moment, Record};

use crate::recent::hash;
use crate::step::{Call, CallAnswer, Denial};

/// How many calls are remembered after their result, because background sub-agents keep talking.
const REMEMBERED: usize = 1 << 14;

/// How many of them are remembered with everything that is known about them. Of the others a result that comes again only needs the
/// name of the tool.
const WHOLE: usize = 1 << 9;

/// How many names of tools are told apart in calls of long ago.
const NAMES: usize = 1 << 10;

/// How many results without a call are remembered.
const ORPHANS: usize = 1 << 10;

/// How many bytes of them are remembered.
const ORPHAN_BYTES: usize = 8 << 20;

/// A tool call.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) done: Cow<'static, str>,
    pub(crate) line: u64,
    /// The hash of its input.
    input: u64,
    pub(crate) denial: Option<Denial>,
    began: Option<Moment>,
    depth: usize,
    answered: bool,
}

impl Seen {
    /// Returns the time from the call to this record. It is unknown if both were in the same record.
    pub(crate) fn took(&self, end: &Record) -> Option<u64> {
        end.arrived?.millis_since(self.began.filter(|_| self.line != end.line)?)
    }
}

/// A call of long ago that has its result.
#[derive(Debug, Clone, Copy)]
struct Old {
    /// The place of its tool among the names.
    name: u16,
    depth: u16,
}

/// A result that came before its call.
#[derive(Debug)]
pub(crate) struct Early {
    pub(crate) answer: CallAnswer,
    pub(crate) line: u64,
    pub(crate) arrived: Option<Moment>,
}

/// The calls of a session, by id.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    seen: HashMap<String, Seen, RandomState>,
    order: VecDeque<String>,
    /// Calls of long ago, by the hashes of their ids. Many of them take little memory.
    old: HashMap<u64, Old, RandomState>,
    old_order: VecDeque<u64>,
    names: Vec<String>,
    /// Results without a call, the newest last.
    orphans: VecDeque<Early>,
    orphan_bytes: usize,
    /// How many results without a call are no longer remembered.
    pub(crate) forgotten: usize,
}

impl Calls {
    /// Returns the depth of a thread: one more than that of the call that started it.
    pub(crate) fn depth_in(&self, parent: Option<&str>) -> usize {
        let depth = |id: &str| match self.seen.get(id) {
            Some(call) => call.depth,
            None => self.old.get(&hash(id)).map_or(0, |call| usize::from(call.depth)),
        };
        parent.map_or(0, |id| depth(id) + 1)
    }

    /// Remembers a call. Returns `false` if it was already known.
    pub(crate) fn start(&mut self, call: &Call, record: &Record, depth: usize) -> bool {
        let Some(id) = &call.id else { return true };
        if self.seen.contains_key(id) || self.old.contains_key(&hash(id)) {
            return false;
        }
        let (name, title, Record { line, arrived: began, .. }) = (call.name.clone(), call.title.clone(), record);
        let (done, input) = (call.done.clone(), hash(call.input.as_ref().map(Json::as_str)));
        let call = Seen { name, title, done, line: *line, input, denial: None, began: *began, depth, answered: false };
        self.seen.insert(id.clone(), call);
        self.order.push_back(id.clone());
        self.forget();
        true
    }

    /// Returns the tool of a known call, and its title unless the call is of long ago.
    pub(crate) fn named(&self, id: &str) -> Option<(&str, &str)> {
        match self.seen.get(id) {
            Some(call) => Some((&call.name, &call.title)),
            None => self.old.get(&hash(id)).map(|call| (self.old_name(*call), "")),
        }
    }

    fn old_name(&self, call: Old) -> &str {
        self.names.get(usize::from(call.name)).map_or("a tool", String::as_str)
    }

    /// Finds the call that this result belongs to, and whether it already had a result.
    pub(crate) fn answer(&mut self, id: Option<&String>) -> Option<(Seen, bool)> {
        let id = id?;
        if let Some(seen) = self.seen.get_mut(id) {
            let again = std::mem::replace(&mut seen.answered, true);
            return Some((seen.clone(), again));
        }
        let old = self.old.get(&hash(id))?;
        let name = self.old_name(*old).to_owned();
        let (title, done, depth) = (String::new(), Cow::Borrowed(""), usize::from(old.depth));
        Some((Seen { name, title, done, line: 0, input: 0, denial: None, began: None, depth, answered: true }, true))
    }

    /// Remembers a result whose call may still come.
    pub(crate) fn keep_orphan(&mut self, answer: &CallAnswer, record: &Record) {
        self.orphans.push_back(Early { answer: answer.clone(), line: record.line, arrived: record.arrived });
        self.orphan_bytes += answer.text.len();
        // The oldest are dropped first, but they still count.
        while self.orphan_bytes > ORPHAN_BYTES || self.orphans.len() > ORPHANS {
            let Some(oldest) = self.orphans.pop_front() else { break };
            self.orphan_bytes -= oldest.answer.text.len();
            self.forgotten += 1;
        }
    }

    /// Takes the result that came before this call.
    pub(crate) fn take_orphan(&mut self, id: Option<&String>) -> Option<Early> {
        let at = self.orphans.iter().position(|early| id.is_some() && early.answer.id.as_ref() == id)?;
        let orphan = self.orphans.remove(at)?;
        self.orphan_bytes -= orphan.answer.text.len();
        Some(orphan)
    }

    /// Returns the results whose call never came.
    pub(crate) fn orphans(&self) -> impl Iterator<Item = (&str, u64)> {
        self.orphans.iter().map(|early| (early.answer.id.as_deref().unwrap_or("(none)"), early.line))
    }

    /// Notes why a call was denied.
    pub(crate) fn deny(&mut self, id: &str, denial: &Denial) {
        if let Some(call) = self.seen.get_mut(id) {
            call.denial = Some(denial.clone());
        }
    }

    /// Finds the call that a request is about which names none: the first of this tool with this input that waits for its result and of
    /// which this is true.
    pub(crate) fn like(&self, tool: &str, input: Option<&Json>, is_free: impl Fn(&str) -> bool) -> Option<String> {
        let input = hash(input.map(Json::as_str));
        let mut calls = self.pending().filter(|(id, call)| call.name == tool && call.input == input && is_free(id));
        calls.next().map(|(id, _)| id.to_owned())
    }

    /// Returns whether this call waits for its result.
    pub(crate) fn is_pending(&self, id: Option<&String>) -> bool {
        id.and_then(|id| self.seen.get(id)).is_some_and(|call| !call.answered)
    }

    /// Returns the calls that never got a result, in order.
    pub(crate) fn pending(&self) -> impl Iterator<Item = (&str, &Seen)> {
        self.order.iter().filter_map(|id| Some((id.as_str(), self.seen.get(id).filter(|call| !call.answered)?)))
    }

    fn forget(&mut self) {
        if self.order.len() <= WHOLE {
            return;
        }
        // The oldest call with a result is remembered by its name alone. If there is none, the oldest is forgotten at last.
        let at = self.order.iter().take(64).position(|id| self.seen.get(id).is_none_or(|call| call.answered));
        if at.is_none() && self.order.len() <= REMEMBERED {
            return;
        }
        if let Some(call) = self.order.remove(at.unwrap_or(0)).and_then(|id| Some((hash(&id), self.seen.remove(&id)?)))
            && let (id, call @ Seen { answered: true, .. }) = call
        {
            self.grow_old(id, call);
        }
    }

    fn grow_old(&mut self, id: u64, call: Seen) {
        let known = self.names.iter().position(|name| *name == call.name);
        let place = known.unwrap_or(self.names.len());
        if known.is_none() && place < NAMES {
            self.names.push(call.name);
        }
        let short = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        if self.old.insert(id, Old { name: short(place), depth: short(call.depth) }).is_none() {
            self.old_order.push_back(id);
        }
        if self.old_order.len() > REMEMBERED
            && let Some(oldest) = self.old_order.pop_front()
        {
            self.old.remove(&oldest);
        }
    }
}

/// The blocks of each thread's current message. If a message is sent again with more blocks, its first ones are not
/// repeated.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    threads: BTreeMap<Option<String>, (String, Vec<u64>)>,
}

/// More threads than this are never active at once.
const THREADS: usize = 1 << 10;

impl Messages {
    /// Returns how many of these blocks were already said under this message id.
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
        // Without a uuid, a block that is sent twice looks the same as one that is said twice.
        let again = matches!(blocks, [block] if !has_uuid && said.contains(block));
        let repeated = if again { 1 } else { repeated };
        if said.len() > THREADS {
            said.clear();
        }
        said.extend(&blocks[repeated..]);
        repeated
    }
}
