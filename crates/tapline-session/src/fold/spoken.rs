//! The last texts. Many are kept, because some may be retracted. The answer and the heuristics use what is left.

use std::collections::{HashSet, VecDeque};

use crate::recent::hash;
use crate::verdict::says_waiting;

/// How many texts are kept, and how many bytes of them, but at least two texts. Memory stays bounded, however long the texts are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    texts: usize,
    bytes: usize,
}

impl Kept {
    /// Where many sessions are read at once.
    pub(super) const FEW: Self = Self { texts: 64, bytes: 64 << 10 };
}

impl Default for Kept {
    fn default() -> Self {
        Self { texts: 1_024, bytes: 16 << 20 }
    }
}

/// The texts, in order.
#[derive(Debug, Default)]
pub(super) struct Spoken {
    pub(super) kept: Kept,
    words: VecDeque<Words>,
    bytes: usize,
    count: u64,
    /// Whether a text that is no longer kept said that work continues.
    waiting: bool,
    /// The main thread's texts that no result has repeated yet, by their hashes: however much sub-agents say, they stay.
    unrepeated: VecDeque<Unrepeated>,
}

#[derive(Debug)]
struct Unrepeated {
    text: u64,
    uuid: Option<u64>,
}

/// One text.
#[derive(Debug)]
struct Words {
    number: u64,
    text: String,
    uuid: Option<String>,
    main: bool,
    /// The last character that is not whitespace.
    last: Option<char>,
    waiting: bool,
}

impl Spoken {
    /// Adds a text.
    pub(super) fn add(&mut self, text: &str, uuid: Option<&String>, main: bool) {
        if text.is_empty() {
            return;
        }
        self.count += 1;
        self.bytes += text.len();
        while self.words.len() >= self.kept.texts || self.bytes > self.kept.bytes && self.words.len() > 1 {
            // The last text of the main thread stays, however much its sub-agents say.
            let last_main = self.words.iter().rposition(|words| words.main).filter(|_| !main);
            let Some(oldest) = self.words.remove(usize::from(last_main == Some(0))) else { break };
            self.bytes -= oldest.text.len();
            self.waiting |= oldest.waiting;
        }
        if main {
            if self.unrepeated.len() >= self.kept.texts {
                self.unrepeated.pop_front();
            }
            self.unrepeated.push_back(Unrepeated { text: hash(text.trim()), uuid: uuid.map(hash) });
        }
        self.words.push_back(Words {
            number: self.count,
            text: text.to_owned(),
            uuid: uuid.cloned(),
            main,
            last: text.trim_end().chars().next_back(),
            waiting: says_waiting(text),
        });
    }

    /// Retracts these texts. Returns the number of the first one that was still kept.
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
        let hashes: HashSet<u64> = uuids.into_iter().map(hash).collect();
        self.unrepeated.retain(|text| text.uuid.is_none_or(|uuid| !hashes.contains(&uuid)));
        first
    }

    /// Returns how many texts there were so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the last text of all.
    pub(super) fn last(&self) -> &str {
        self.words.back().map_or("", |words| &words.text)
    }

    /// Takes the words of a result. Returns whether they only repeat the last text of the main thread, or an earlier one that no
    /// result has repeated yet: a background task can wake the agent before the result of a turn comes.
    pub(super) fn repeat(&mut self, result: &str) -> bool {
        let is_last = self.last_of_main().is_some_and(|last| last.trim() == result.trim());
        let result = hash(result.trim());
        let said = self.unrepeated.iter().rposition(|text| text.text == result);
        if let Some(at) = said {
            self.unrepeated.drain(..=at);
        }
        is_last || said.is_some()
    }

    /// Returns the last text of the main thread.
    pub(super) fn last_of_main(&self) -> Option<&str> {
        self.words.iter().rev().find(|words| words.main).map(|words| words.text.as_str())
    }

    /// Returns the answer of a turn whose result has none: the last of the first `count` texts, preferably the main
    /// thread's.
    pub(super) fn answer(&self, count: u64) -> Option<&str> {
        let said = || self.words.iter().rev().filter(|words| words.number <= count);
        said().find(|words| words.main).or_else(|| said().next()).map(|words| words.text.as_str())
    }

    /// Returns the last character of the main thread's texts that is not whitespace.
    pub(super) fn ends_with(&self) -> Option<char> {
        self.words.iter().rev().filter(|words| words.main).find_map(|words| words.last)
    }

    /// Returns whether a text says that work continues.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting || self.words.iter().any(|words| words.waiting)
    }
}
