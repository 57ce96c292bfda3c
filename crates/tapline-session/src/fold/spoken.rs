//! The last words: many, because some may be withdrawn. The answer and the heuristics look at what is left.

use std::collections::{HashSet, VecDeque};

use crate::verdict::says_waiting;

/// So many texts can still be withdrawn.
const KEPT: usize = 1_024;

/// So many bytes of them are kept, and two texts at least: memory stays bounded, however long they are.
const BYTES: usize = 16 << 20;

/// What was said, in the order in which it was said.
#[derive(Debug, Default)]
pub(super) struct Spoken {
    words: VecDeque<Words>,
    bytes: usize,
    count: u64,
    /// One that is no longer kept said that work goes on.
    waiting: bool,
}

/// One text.
#[derive(Debug)]
struct Words {
    number: u64,
    text: String,
    uuid: Option<String>,
    main: bool,
    /// The last character that is no blank.
    last: Option<char>,
    waiting: bool,
}

impl Spoken {
    /// Something was said.
    pub(super) fn add(&mut self, text: &str, uuid: Option<&String>, main: bool) {
        if text.is_empty() {
            return;
        }
        self.count += 1;
        self.bytes += text.len();
        self.words.push_back(Words {
            number: self.count,
            text: text.to_owned(),
            uuid: uuid.cloned(),
            main,
            last: text.trim_end().chars().next_back(),
            waiting: says_waiting(text),
        });
        while self.words.len() > KEPT || self.bytes > BYTES && self.words.len() > 2 {
            // The last of the main thread stays, however much its sub-agents say.
            let last_main = self.words.iter().rposition(|words| words.main);
            let Some(oldest) = self.words.remove(usize::from(last_main == Some(0))) else { break };
            self.bytes -= oldest.text.len();
            self.waiting |= oldest.waiting;
        }
    }

    /// These no longer count. Returns the number of the first that was still known.
    pub(super) fn retract(&mut self, uuids: &[String]) -> Option<u64> {
        let uuids: HashSet<&String> = uuids.iter().collect();
        let mut first = None;
        self.words.retain(|words| {
            let stays = words.uuid.as_ref().is_none_or(|uuid| !uuids.contains(uuid));
            if !stays {
                first = first.or(Some(words.number));
            }
            stays
        });
        self.bytes = self.words.iter().map(|words| words.text.len()).sum();
        first
    }

    /// How much was said so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The last text of all.
    pub(super) fn last(&self) -> &str {
        self.words.back().map_or("", |words| &words.text)
    }

    /// The last text of the main thread.
    pub(super) fn last_of_main(&self) -> Option<&str> {
        self.words.iter().rev().find(|words| words.main).map(|words| words.text.as_str())
    }

    /// The answer of a turn that names none: the last of the first `count` texts, the main thread's before a sub-agent's.
    pub(super) fn answer(&self, count: u64) -> Option<&str> {
        let said = || self.words.iter().rev().filter(|words| words.number <= count);
        said().find(|words| words.main).or_else(|| said().next()).map(|words| words.text.as_str())
    }

    /// The last character of what the main thread said that is no blank.
    pub(super) fn ends_with(&self) -> Option<char> {
        self.words.iter().rev().filter(|words| words.main).find_map(|words| words.last)
    }

    /// Whether something that was said says that work goes on.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting || self.words.iter().any(|words| words.waiting)
    }
}
