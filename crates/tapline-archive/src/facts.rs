//! What one file says that can be counted: a pure function of its bytes. The index keeps it, file by file; the loader
//! adds it up. Names stand in a table, and ids are hashes, so that an archive of gigabytes fits into a few megabytes.

pub(crate) mod earlier;
mod messages;

use std::collections::HashMap;
use std::ops::AddAssign;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tapline_session::SessionPhase;

use crate::money::Money;
use crate::prices::Speed;
use tapline_protocol::Tokens;

/// A name in the table of its [`Facts`]. Name 0 is empty.
pub type Name = u32;

/// What one file says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// The agent that wrote the file. Empty if the agent is not known.
    pub agent: String,
    /// The names that the others refer to.
    pub names: Names,
    /// The session that the file belongs to. Copied lines can be of others.
    pub session: Name,
    /// The first prompt, cut, or the title that somebody gave the session.
    pub title: String,
    /// Whether somebody gave the title. Otherwise it is the first prompt.
    pub titled: bool,
    /// The kind of sub-agent, if the whole file is of one.
    pub subagent: Name,
    /// The version of the agent.
    pub version: Name,
    /// The last working folder and branch.
    pub folder: Name,
    /// The last branch.
    pub branch: Name,
    /// Answers of the model, each once.
    #[serde(with = "messages")]
    pub messages: Vec<Message>,
    /// What the agent reports as totals, in the order of the file.
    pub reported: Vec<Reported>,
    /// The last known state of the account's limits.
    pub limits: Vec<Limit>,
    /// The number of prompts that people gave.
    pub prompts: u64,
    /// How long the turns took in all, as far as the file says it.
    pub busy_ms: u64,
    /// When the first line was written.
    pub first: Option<u64>,
    /// When the last line was written.
    pub last: Option<u64>,
    /// For a recording: when its run began, and when it was last heard of.
    pub run: Option<RecordedRun>,
    /// How the file ends. For a recording of a run that has ended: how the run ended.
    pub phase: SessionPhase,
    /// The number of lines that could not be read.
    pub damaged: u64,
    /// What reading needs to go on at the end of the file.
    pub(crate) so_far: SoFar,
}

/// What reading needs to go on at the end of a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SoFar {
    /// The model that answers now.
    pub(crate) model: Name,
    /// A hash of the session that all of these tokens count towards: the own one, or the one it was forked from.
    pub(crate) root: u64,
    /// Whether lines say what each answer used. Then totals do not count.
    pub(crate) has_records: bool,
    /// The last total.
    pub(crate) total: Option<Tokens>,
    /// How often the totals began again.
    pub(crate) restarts: u64,
    /// Calls whose message was not read yet.
    pub(crate) made: Vec<Call>,
    /// Results whose call was not read yet.
    pub(crate) results: Vec<(u64, CallEnd)>,
    /// For a recording: up to where what was sent to the agent was read, and how many prompts are in it.
    pub(crate) sent: (u64, u64),
    /// The service tier of the requests that follow. `None` if nothing says it yet.
    pub(crate) tier: Option<Marks>,
}

/// When the run of a recording was, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRun {
    /// When it began.
    pub began: u64,
    /// When it ended, or else when its last output arrived.
    pub last: u64,
    /// Whether it was pushed to this machine, so that the recording can be a copy of another one.
    pub is_pushed: bool,
}

/// Names, each once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Names {
    all: Vec<String>,
    #[serde(skip)]
    known: HashMap<String, Name, foldhash::fast::FixedState>,
}

impl Default for Names {
    fn default() -> Self {
        Self { all: vec![String::new()], known: HashMap::default() }
    }
}

impl PartialEq for Names {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl Names {
    /// Returns the number of a name, and adds it to the table if it is new.
    pub fn add(&mut self, name: &str) -> Name {
        let number = |at: usize| Name::try_from(at).unwrap_or(0);
        if name.is_empty() {
            return 0;
        }
        if self.known.is_empty() {
            let names = self.all.iter().enumerate();
            self.known = names.map(|(at, name)| (name.clone(), number(at))).collect();
        }
        if let Some(&known) = self.known.get(name) {
            return known;
        }
        let new = number(self.all.len());
        self.all.push(name.to_owned());
        self.known.insert(name.to_owned(), new);
        new
    }

    /// Returns the name with this number.
    pub fn get(&self, name: Name) -> &str {
        self.all.get(name as usize).map_or("", String::as_str)
    }

    /// Returns all names, by number.
    pub fn all(&self) -> &[String] {
        &self.all
    }
}

/// One answer of the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// A hash of its id. Copies in other files have the same.
    pub id: u64,
    /// When it began, in milliseconds since 1970. 0 if unknown.
    pub time: u64,
    /// The session that it was written for.
    pub session: Name,
    /// The model.
    pub model: Name,
    /// The working folder.
    pub folder: Name,
    /// The branch.
    pub branch: Name,
    /// The sub-agent that it is of.
    pub subagent: Name,
    /// The tokens.
    pub tokens: Tokens,
    /// The number of web searches.
    pub searches: u32,
    /// What else is known.
    pub marks: Marks,
    /// The length of its lines. Where the tokens of a message are not known, it is the message's share of a total.
    pub bytes: u64,
    /// Its tool calls.
    pub calls: Vec<Call>,
    /// What it cost, as its own line says: old versions of an agent wrote that.
    pub cost: Option<Money>,
}

impl Message {
    /// Adds a further line of the same message, or a copy of it. The final and larger count is the true one.
    pub(crate) fn merge(&mut self, other: Self) {
        let rank = |message: &Self| (message.marks.has(Marks::FINAL), message.tokens.total());
        self.bytes += other.bytes;
        self.cost = self.cost.max(other.cost);
        if self.time == 0 || other.time > 0 && other.time < self.time {
            self.time = other.time;
        }
        if rank(&other) > rank(self) {
            (self.tokens, self.searches) = (other.tokens, other.searches);
            self.marks = Marks(self.marks.0 & Marks::SIDE.0 | other.marks.0);
        }
        for call in other.calls {
            if !self.calls.iter().any(|known| known.id == call.id) {
                self.calls.push(call);
            }
        }
    }

    pub(crate) fn rename(&mut self, renamed: impl Fn(Name) -> Name) {
        for name in [&mut self.session, &mut self.model, &mut self.folder, &mut self.branch, &mut self.subagent] {
            *name = renamed(*name);
        }
        for call in &mut self.calls {
            call.tool = renamed(call.tool);
        }
    }
}

impl Reported {
    pub(crate) fn rename(&mut self, renamed: impl Fn(Name) -> Name) {
        self.session = renamed(self.session);
        for model in &mut self.models {
            model.model = renamed(model.model);
        }
    }
}

impl Facts {
    /// Returns whether it is of a run that was pushed to this machine.
    pub(crate) fn is_pushed(&self) -> bool {
        self.run.is_some_and(|run| run.is_pushed)
    }

    /// Gives the memory back that the next facts need, on the same thread.
    pub(crate) fn reuse(self) {
        messages::reuse(self.messages);
    }

    /// Takes over what the following part of the same file says about the whole file.
    pub(crate) fn continue_with(&mut self, next: Self, renamed: impl Fn(Name) -> Name) {
        for (mine, theirs) in
            [(&mut self.version, next.version), (&mut self.folder, next.folder), (&mut self.branch, next.branch)]
        {
            *mine = if theirs == 0 { *mine } else { renamed(theirs) };
        }
        if self.session == 0 {
            self.session = renamed(next.session);
        }
        if self.title.is_empty() || next.titled {
            self.title = next.title;
            self.titled = next.titled;
        }
        if next.phase != SessionPhase::Unknown {
            self.phase = next.phase;
        }
        for limit in next.limits {
            note_limit(&mut self.limits, limit);
        }
        self.prompts += next.prompts;
        self.busy_ms = self.busy_ms.saturating_add(next.busy_ms);
        self.damaged += next.damaged;
    }
}

/// Facts about a message that are either so or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks(pub u8);

impl Marks {
    /// The tokens are final. Streams have a placeholder for output tokens instead.
    pub const FINAL: Self = Self(1);
    /// A side chain wrote it: a sub-agent or a side question.
    pub const SIDE: Self = Self(2);
    /// It was computed in the US only, which costs more.
    pub const US: Self = Self(4);
    /// It was computed in the faster mode, which costs more.
    pub const FAST: Self = Self(8);
    /// It is an error that the agent wrote as a message.
    pub const ERROR: Self = Self(16);
    /// It was asked for at a service tier that is not the usual one: faster with [`Self::FAST`], fastest with [`Self::ULTRAFAST`], slower with
    /// [`Self::FLEX`], or else one that nobody knows.
    pub const TIER: Self = Self(32);
    /// At the fastest service tier.
    pub const ULTRAFAST: Self = Self(64);
    /// At the service tier that may wait.
    pub const FLEX: Self = Self(128);

    /// Returns the speed.
    pub(crate) const fn speed(self) -> Speed {
        match self {
            it if it.has(Self::FAST) => Speed::Fast,
            it if it.has(Self::ULTRAFAST) => Speed::Ultrafast,
            it if it.has(Self::FLEX) => Speed::Flex,
            _ => Speed::Standard,
        }
    }

    /// Returns whether it has this mark.
    pub const fn has(self, mark: Self) -> bool {
        self.0 & mark.0 != 0
    }

    /// Adds a mark if `so`.
    pub const fn set(&mut self, mark: Self, so: bool) {
        if so {
            self.0 |= mark.0;
        }
    }
}

/// One tool call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// A hash of its id.
    pub id: u64,
    /// The tool.
    pub tool: Name,
    /// How it ended.
    pub ended: CallEnd,
}

/// How a call ended. Most results are not read one by one, so `Ok` is what no line contradicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CallEnd {
    /// Nothing speaks against its success.
    #[default]
    Ok,
    /// It failed.
    Failed,
    /// Somebody, or a rule, refused it.
    Denied,
}

/// What an agent reports as the total of a session or a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reported {
    /// The session.
    pub session: Name,
    /// When, in milliseconds since 1970. 0 if unknown.
    pub time: u64,
    /// When the session went on afterwards. 0 if it did not.
    pub until: u64,
    /// What the total is of.
    pub of: Scope,
    /// The cost. `None` if the agent reports none, or does not know a model's price.
    pub cost: Option<Money>,
    /// The totals for each model.
    pub models: Vec<ModelReport>,
}

/// What a reported total is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// The whole session until then. In a fork this includes what the session spent that it was forked from.
    #[default]
    Session,
    /// The process whose stream the file is, and nothing before it.
    File,
    /// The whole session until then, but it counts only if nothing says what each answer used.
    Only,
}

/// What an agent reports for one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelReport {
    /// The model.
    pub model: Name,
    /// The tokens.
    pub tokens: Tokens,
    /// Whether `tokens` tells the two kinds of cache writes apart.
    pub splits_writes: bool,
    /// The number of web searches.
    pub searches: u64,
    /// The cost.
    pub cost: Option<Money>,
}

impl AddAssign for ModelReport {
    fn add_assign(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.splits_writes &= other.splits_writes;
        self.searches += other.searches;
        self.cost = self.cost.zip(other.cost).map(|(one, other)| one + other);
    }
}

/// What is left of an account's limit, as an agent was told it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// When the agent was told.
    pub time: u64,
    /// The length of the window in minutes. 0 if unknown.
    pub minutes: u64,
    /// The share that is used, in thousandths. `None` if the agent was not told.
    pub used: Option<u64>,
    /// When the window ends, in milliseconds since 1970. 0 if unknown.
    pub resets: u64,
}

/// Notes what an agent was told about a limit: the last word counts, but one that does not say what is used takes nothing
/// back.
pub(crate) fn note_limit(limits: &mut Vec<Limit>, limit: Limit) {
    match limits.iter_mut().find(|known| known.minutes == limit.minutes) {
        Some(known) if known.time > limit.time || limit.used.is_none() && known.resets == limit.resets => {}
        Some(known) => *known = limit,
        None => limits.push(limit),
    }
}

/// Hashes an id. The same in every process, because the index keeps it.
pub(crate) fn hash(id: &str) -> u64 {
    hash_of_bytes(id.as_bytes())
}

/// Hashes bytes in the same way.
pub(crate) fn hash_of_bytes(bytes: &[u8]) -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    let mut hasher = foldhash::quality::FixedState::with_seed(0x0074_6170_6c69_6e65).build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

/// Returns the name of the project that a folder is of.
pub fn project(folder: &str) -> &str {
    Path::new(folder).file_name().and_then(|name| name.to_str()).unwrap_or(folder)
}
