//! The one loader of all reports: every message once, however many lines and files repeat it, with its cost.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use serde::Serialize;
use tapline_session::SessionPhase;

use crate::cost::{CostBasis, Item, ModelTotal, Total, agree, price};
use crate::error::ArchiveError;
use crate::facts::{CallEnd, Facts, Limit, Marks, Message, Reported, Scope, note_limit};
use crate::index::{Index, IndexedFile, facts_of};
use crate::money::Money;
use crate::places::lossy;
use crate::prices::{Lookup, Prices};
use tapline_protocol::Tokens;

/// How many sessions a thread takes at once.
const BATCH: usize = 32;
/// How many batches are read ahead.
const AHEAD: usize = 4;

/// One request to a model, counted once.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request<'a> {
    /// A hash of its id, the same in every copy. 0 if no line shows the request.
    pub id: u64,
    /// When it began, in milliseconds since 1970.
    pub time: u64,
    /// The agent.
    pub agent: &'a str,
    /// The session.
    pub session: &'a str,
    /// The model.
    pub model: &'a str,
    /// The working folder.
    pub folder: &'a str,
    /// The branch.
    pub branch: &'a str,
    /// The kind of sub-agent that made it. Empty for the main agent.
    pub subagent: &'a str,
    /// The tokens.
    pub tokens: Tokens,
    /// The number of web searches.
    pub searches: u64,
    /// The cost. `None` if it is not known.
    pub cost: Option<Money>,
    /// Where the cost comes from.
    pub basis: CostBasis,
    /// Whether it was made at another service tier than the usual one.
    pub tier: bool,
    /// What the table of prices says.
    pub computed: Option<Money>,
    /// Whether the tokens are exact.
    pub exact: bool,
    /// Whether no line shows this request, but the agent's total includes it: it made a summary, for example.
    pub unlisted: bool,
    /// Whether it is an error that the agent wrote as a message.
    pub error: bool,
    /// The tools that it called, and how each call ended.
    pub calls: Vec<(&'a str, CallEnd)>,
}

/// One session.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SessionFacts {
    /// Its id.
    pub id: String,
    /// The agent.
    pub agent: String,
    /// The first prompt, or the title that somebody gave it.
    pub title: String,
    /// The last working folder.
    pub folder: String,
    /// The last branch.
    pub branch: String,
    /// The version of the agent.
    pub version: String,
    /// When its first line was written, in milliseconds since 1970.
    pub first: Option<u64>,
    /// When its last line was written.
    pub last: Option<u64>,
    /// The number of prompts that people gave.
    pub prompts: u64,
    /// How long its turns took in all, as far as the agent says it.
    pub busy_ms: u64,
    /// How it stands.
    pub phase: SessionPhase,
    /// Its files: transcripts, streams and recordings.
    pub files: Vec<IndexedFile>,
    /// The tokens of all its requests.
    pub tokens: Tokens,
    /// What it cost, as far as that is known.
    pub cost: Money,
    /// The number of requests whose cost is not known.
    pub unpriced: u64,
    /// The session that it was forked from.
    pub forked_from: Option<String>,
    /// The number of lines that could not be read.
    pub damaged: u64,
    /// The files that these are in.
    pub damaged_files: Vec<DamagedFile>,
    /// The account's limits, as this session learned them last.
    pub limits: Vec<Limit>,
}

/// A file with lines that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct DamagedFile {
    /// The file.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// How many of its lines could not be read.
    pub lines: u64,
}

/// Reads what the loader counts. Requests of a session come before the session.
pub trait Reader {
    /// Takes a request.
    fn request(&mut self, request: &Request<'_>);
    /// Takes a session.
    fn session(&mut self, _session: SessionFacts) {}
}

/// What a report is on.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only files below these paths. Empty: all files.
    pub below: Vec<PathBuf>,
    /// Also these recordings, wherever they are.
    pub recordings: HashSet<PathBuf>,
    /// Only files whose last line was written at this time or later, in milliseconds since 1970: for a quick look at the
    /// present. Copies of older messages are then not recognised, so ask only for requests from then on.
    pub since: Option<u64>,
}

impl Selection {
    /// Returns whether a report is on this file, too.
    pub(crate) fn has(&self, file: &IndexedFile) -> bool {
        self.below.is_empty() && self.recordings.is_empty()
            || self.below.iter().any(|path| file.path.starts_with(path))
            || file.recording.as_ref().is_some_and(|folder| self.recordings.contains(folder))
    }
}

/// Which copy of a message counts.
struct Owner {
    rank: (bool, bool, bool, u64, Option<u64>),
    file: i64,
    /// The copy whose tokens count.
    best: (bool, bool, u64),
    tokens: Tokens,
    searches: u32,
    marks: Marks,
    session: String,
}

/// What is known about all files before they are counted.
#[derive(Default)]
struct Survey {
    owners: HashMap<u64, Owner, foldhash::fast::FixedState>,
    /// The totals of sessions that others were forked from, in order of time.
    totals: HashMap<String, Vec<Total>>,
}

/// The files of a session, with what they say as it is kept.
type RawGroup = Vec<(IndexedFile, Vec<u8>)>;

/// Counts everything in the index.
pub fn load(index: &Index, prices: &Prices, selection: &Selection, reader: &mut dyn Reader) -> Result<(), ArchiveError> {
    let _snapshot = index.snapshot()?;
    let survey = survey(index, selection)?;
    let mut counting = Counting::new(&survey, prices, selection);
    each_group(index, selection, |group| counting.count(group, reader))
}

/// A reader whose parts count some of the sessions each, on all cores.
pub(crate) trait Part: Reader + Send {
    /// Adds what another part counted.
    fn merge(&mut self, other: Self);
}

/// Counts everything in the index on all cores. `new` makes a part.
pub(crate) fn load_parts<R: Part>(
    index: &Index,
    prices: &Prices,
    selection: &Selection,
    new: impl Fn() -> R + Sync,
) -> Result<R, ArchiveError> {
    let _snapshot = index.snapshot()?;
    let survey = &survey(index, selection)?;
    let (send, receive) = mpsc::sync_channel(AHEAD);
    // Only the threads hold it: when all of them are gone, there is nobody left to wait for.
    let receive = Arc::new(Mutex::new(receive));
    let count = |receive: Arc<Mutex<mpsc::Receiver<Vec<RawGroup>>>>| {
        let mut counting = Counting::new(survey, prices, selection);
        let mut part = new();
        loop {
            let next = receive.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(groups) = next else { return part };
            for group in groups {
                counting.count(group, &mut part);
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let spawn = |receive: Arc<_>| scope.spawn(|| count(receive));
        let parts: Vec<_> = (0..threads).map(|_| spawn(Arc::clone(&receive))).collect();
        drop(receive);
        let mut batch = Vec::new();
        let read = each_group(index, selection, |group| {
            batch.push(group);
            if batch.len() == BATCH {
                let _ = send.send(std::mem::take(&mut batch));
            }
        });
        let _ = send.send(batch);
        drop(send);
        let whole = parts.into_iter().map(|part| part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        let whole = whole.reduce(|mut whole, part| {
            whole.merge(part);
            whole
        });
        read.map(|()| whole.unwrap_or_else(&new))
    })
}

/// Passes on the files of each session.
fn each_group(index: &Index, selection: &Selection, mut each: impl FnMut(RawGroup)) -> Result<(), ArchiveError> {
    let mut group: RawGroup = Vec::new();
    let mut of = String::new();
    index.each_since(selection.since, |file, session, facts| {
        if !selection.has(&file) {
            return;
        }
        // Files without a session belong to none together.
        if !group.is_empty() && (of != session || session.is_empty()) {
            each(std::mem::take(&mut group));
        }
        session.clone_into(&mut of);
        group.push((file, facts.to_owned()));
    })?;
    if !group.is_empty() {
        each(group);
    }
    Ok(())
}

/// Finds the copies of messages.
fn survey(index: &Index, selection: &Selection) -> Result<Survey, ArchiveError> {
    let mut survey = Survey::default();
    let copies = index.copies(selection.since)?;
    let several: HashSet<u64, foldhash::fast::FixedState> = copies.iter().map(|(id, _)| *id).collect();
    let files: HashSet<i64> = copies.iter().map(|(_, file)| *file).collect();
    let mut sessions = HashMap::new();
    index.each_of(files, |file, session, facts| {
        if selection.has(&file) {
            let facts = facts_of(facts);
            for message in facts.messages.iter().filter(|message| several.contains(&message.id)) {
                own(&mut survey.owners, &file, &facts, message);
            }
            sessions.insert(file.id, session.to_owned());
        }
    })?;
    // A session whose messages are in another one's file: that one was forked from it, perhaps.
    let elsewhere = copies.iter().filter_map(|(id, file)| {
        let owner = &survey.owners.get(id)?.session;
        sessions.get(file).filter(|session| *session != owner).map(|_| owner.clone())
    });
    for session in elsewhere.collect::<BTreeSet<_>>() {
        let totals = totals_so_far(index, selection, &session)?;
        survey.totals.insert(session, totals);
    }
    Ok(survey)
}

/// Returns the totals that a session reports, in order of time.
fn totals_so_far(index: &Index, selection: &Selection, session: &str) -> Result<Vec<Total>, ArchiveError> {
    let mut totals = Vec::new();
    index.each_of(index.numbers_of(session)?, |file, _, facts| {
        if selection.has(&file) {
            let facts = facts_of(facts);
            let is_its = |reported: &&Reported| reported.of == Scope::Session && facts.names.get(reported.session) == session;
            totals.extend(facts.reported.iter().filter(is_its).map(|reported| total(&facts, reported)));
        }
    })?;
    totals.sort_by_key(|total| total.time);
    Ok(totals)
}

/// Decides which copy of a message counts: the main agent's before a sub-agent's, the original before a copy, the
/// final one before a placeholder, then the earliest, then the first by path, which is asked first. The largest count of
/// those is the true one.
fn own(owners: &mut HashMap<u64, Owner, foldhash::fast::FixedState>, file: &IndexedFile, facts: &Facts, message: &Message) {
    let first = facts.first.unwrap_or(u64::MAX);
    // A fork begins with a line of its own time, and copies older ones.
    let is_copy = message.time > 0 && facts.first.is_some_and(|first| message.time < first);
    let (side, is_final) = (message.marks.has(Marks::SIDE), message.marks.has(Marks::FINAL));
    // Older versions copy whole lines, so a fork begins as the original does. It usually goes on for longer.
    let rank = (side, is_copy, !is_final, first, facts.last);
    let best = (!side, is_final, message.tokens.total());
    let new = || Owner {
        rank,
        file: file.id,
        best,
        tokens: message.tokens,
        searches: message.searches,
        marks: message.marks,
        session: facts.names.get(message.session).to_owned(),
    };
    let owner = owners.entry(message.id).or_insert_with(new);
    if rank < owner.rank {
        (owner.rank, owner.file) = (rank, file.id);
        facts.names.get(message.session).clone_into(&mut owner.session);
    }
    if best > owner.best {
        (owner.best, owner.tokens, owner.searches, owner.marks) = (best, message.tokens, message.searches, message.marks);
    }
}

fn total(facts: &Facts, reported: &Reported) -> Total {
    let model = |model: &crate::facts::ModelReport| {
        let total =
            ModelTotal { tokens: model.tokens, splits_writes: model.splits_writes, searches: model.searches, cost: model.cost };
        (facts.names.get(model.model).to_owned(), total)
    };
    // What may count only where nothing else does goes on from the total of another session, if this one was forked.
    let is_sure = reported.of != Scope::Only;
    Total { cost: reported.cost, models: reported.models.iter().map(model).collect(), time: reported.time, is_sure }
}

/// What counting needs.
struct Counting<'c> {
    survey: &'c Survey,
    prices: Lookup<'c>,
    selection: &'c Selection,
    /// Memory for the items of the next session.
    items: Vec<Item<'static>>,
}

impl<'c> Counting<'c> {
    fn new(survey: &'c Survey, prices: &'c Prices, selection: &'c Selection) -> Self {
        Self { survey, prices: prices.lookup(), selection, items: Vec::new() }
    }

    /// Counts one session: all of its files.
    fn count(&mut self, group: RawGroup, reader: &mut dyn Reader) {
        let mut group: Vec<_> = group.into_iter().map(|(file, facts)| (file, facts_of(&facts))).collect();
        // The order in which files were read is not the same each time.
        group.sort_by(|(one, _), (other, _)| one.path.cmp(&other.path));
        self.count_files(&group, reader);
        for (_, facts) in group {
            facts.reuse();
        }
    }

    fn count_files(&mut self, group: &[(IndexedFile, Facts)], reader: &mut dyn Reader) {
        let Some((_, first)) = group.first() else { return };
        let id = first.names.get(first.session);
        let mut items = emptied(std::mem::take(&mut self.items));
        let mut parent: Option<&str> = None;
        for (at, (file, facts)) in group.iter().enumerate() {
            for message in &facts.messages {
                let (mut tokens, mut searches) = (message.tokens, message.searches);
                let mut exact = message.marks.has(Marks::FINAL);
                if let Some(owner) = self.survey.owners.get(&message.id) {
                    if owner.file != file.id {
                        let elsewhere = &*owner.session;
                        parent = parent.or(Some(elsewhere).filter(|session| *session != id && !message.marks.has(Marks::SIDE)));
                        continue;
                    }
                    (tokens, searches) = (owner.tokens, owner.searches);
                    exact |= owner.marks.has(Marks::FINAL);
                }
                let session = facts.names.get(message.session);
                let session = if session.is_empty() { id } else { session };
                let model = facts.names.get(message.model);
                let unknown = || facts.first.unwrap_or(file.mtime.cast_unsigned() / 1_000_000);
                let time = if message.time == 0 { unknown() } else { message.time };
                let message = Some(message);
                let mut item = Item { message, time, tokens, searches, model, file: at, session, exact, ..Item::default() };
                price(&mut item, &mut self.prices);
                items.push(item);
            }
        }
        // In a quick look, what a fork's parent had spent is not known.
        let is_fork = |item: &Item<'_>| group[item.file].1.first.is_some_and(|first| item.time < first);
        let is_unsure = self.selection.since.is_some() && items.iter().any(is_fork);
        let before = parent.and_then(|parent| self.survey.totals.get(parent)).map_or(&[][..], |totals| totals);
        let totals = if is_unsure { Vec::new() } else { totals_of(group, id, before, &items) };
        for (total, covered) in &totals {
            agree(&mut items, covered, total, &mut self.prices);
        }
        pass_on(group, id, parent, &items, reader);
        self.items = emptied(items);
    }
}

/// Returns the memory of some items, for others. Nothing is copied: there is nothing any more, and the types are equal.
fn emptied<'o>(mut items: Vec<Item<'_>>) -> Vec<Item<'o>> {
    items.clear();
    items.into_iter().map(|_| Item::default()).collect()
}

/// Returns the totals that count for a session, and which messages each is of.
fn totals_of(group: &[(IndexedFile, Facts)], id: &str, before: &[Total], items: &[Item<'_>]) -> Vec<(Total, Vec<usize>)> {
    let reports = || {
        let files = group.iter().enumerate();
        files.flat_map(|(at, (_, facts))| facts.reported.iter().map(move |reported| (at, reported)))
    };
    // A stream may name no session.
    let is_own = |at: usize, reported: &Reported| ["", id].contains(&group[at].1.names.get(reported.session));
    let own: Vec<usize> = (0..items.len()).filter(|at| items[*at].session == id).collect();
    let of_session = reports().filter(|(at, reported)| reported.of == Scope::Session && is_own(*at, reported));
    if let Some((at, last)) = of_session.max_by_key(|(_, reported)| (reported.cost, reported.time)) {
        // What the session that it was forked from had spent until then.
        let began = own.iter().map(|at| items[*at].time).min().unwrap_or(0);
        let before = before.iter().rfind(|total| total.time <= began);
        let whole = total(&group[at].1, last);
        let whole = before.map_or_else(|| whole.clone(), |before| whole.clone().without(before));
        let covered = own.into_iter().filter(|at| last.until == 0 || items[*at].time < last.until).collect();
        return vec![(whole, covered)];
    }
    let mut totals = of_processes(group, items, own, is_own);
    if totals.is_empty() && items.iter().all(|item| !item.exact) {
        let only = reports().filter(|(at, reported)| reported.of == Scope::Only && is_own(*at, reported));
        let most = only.max_by_key(|(_, reported)| reported.models.iter().map(|model| model.tokens.total()).sum::<u64>());
        totals.extend(most.map(|(at, reported)| (total(&group[at].1, reported), Vec::new())));
    }
    totals
}

/// Returns the totals of processes whose streams are there, and which messages each is of.
fn of_processes(
    group: &[(IndexedFile, Facts)],
    items: &[Item<'_>],
    mut left: Vec<usize>,
    is_own: impl Fn(usize, &Reported) -> bool,
) -> Vec<(Total, Vec<usize>)> {
    let mut processes: Vec<(u64, Total, Vec<usize>)> = Vec::new();
    // What was pushed here comes last: the original may be here, too.
    let mut order: Vec<(usize, &Facts)> = group.iter().map(|(_, facts)| facts).enumerate().collect();
    order.sort_by_key(|(_, facts)| facts.is_pushed());
    let mut counted = HashSet::new();
    for (at, facts) in order {
        let Some(last) = facts.reported.iter().rfind(|reported| reported.of == Scope::File && is_own(at, reported)) else {
            continue;
        };
        let ids: HashSet<u64> = facts.messages.iter().map(|message| message.id).collect();
        let whole = total(facts, last);
        let is_known =
            if ids.is_empty() { processes.iter().any(|(_, total, _)| *total == whole) } else { ids.is_subset(&counted) };
        if facts.is_pushed() && is_known {
            continue;
        }
        counted.extend(&ids);
        let (covered, others) =
            left.into_iter().partition::<Vec<_>, _>(|at| items[*at].message.is_some_and(|message| ids.contains(&message.id)));
        left = others;
        let ended = covered.iter().map(|at| items[*at].time).max();
        processes.push((ended.or(facts.last).unwrap_or(u64::MAX), whole, covered));
    }
    processes.sort_by_key(|(ended, ..)| *ended);
    // Streams do not show all sub-agents. They are of the process that ended next.
    for at in left {
        let item = &items[at];
        if item.has(Marks::SIDE) {
            let next = processes.iter().position(|(ended, ..)| item.time <= *ended);
            if let Some((_, _, covered)) = next.or(processes.len().checked_sub(1)).and_then(|next| processes.get_mut(next)) {
                covered.push(at);
            }
        }
    }
    processes.into_iter().map(|(_, total, covered)| (total, covered)).collect()
}

/// Passes on the requests of a session, and the session.
fn pass_on(group: &[(IndexedFile, Facts)], id: &str, parent: Option<&str>, items: &[Item<'_>], reader: &mut dyn Reader) {
    let mut session = SessionFacts { id: id.to_owned(), forked_from: parent.map(str::to_owned), ..SessionFacts::default() };
    for (file, facts) in group {
        session.add(file, facts);
    }
    session.add_runs(group);
    let mut calls = Vec::new();
    for item in items {
        let (file, facts) = &group[item.file];
        let names = &facts.names;
        let side = item.has(Marks::SIDE) || facts.subagent != 0;
        let last = || facts.last.or(facts.run.map(|run| run.last)).unwrap_or(file.mtime.cast_unsigned() / 1_000_000);
        let time = if item.time == 0 { last() } else { item.time };
        // Of a stream, no line but the first says where it ran, or only its recording does.
        let (folder, branch) = match item.message {
            Some(message) if message.folder != 0 => (message.folder, message.branch),
            Some(_) => (facts.folder, facts.branch),
            None => (0, 0),
        };
        let or = |name: u32, other: &'static str| Some(names.get(name)).filter(|name| !name.is_empty()).unwrap_or(other);
        calls.extend(item.message.iter().flat_map(|message| &message.calls).map(|call| (names.get(call.tool), call.ended)));
        let request = Request {
            id: item.message.map_or(0, |message| message.id),
            time,
            agent: &facts.agent,
            session: if item.session.is_empty() { id } else { item.session },
            model: item.model,
            folder: if folder == 0 { &session.folder } else { names.get(folder) },
            branch: if folder == 0 { &session.branch } else { names.get(branch) },
            subagent: if side { or(facts.subagent, "subagent") } else { "" },
            tokens: item.tokens,
            searches: item.searches.into(),
            cost: item.cost,
            basis: item.basis,
            tier: item.has(Marks::TIER),
            computed: item.computed,
            exact: item.exact,
            unlisted: item.message.is_none(),
            error: item.has(Marks::ERROR),
            calls,
        };
        session.tokens += request.tokens;
        session.cost += request.cost.unwrap_or_default();
        session.unpriced += u64::from(request.cost.is_none());
        reader.request(&request);
        // The next one needs no memory of its own.
        calls = request.calls;
        calls.clear();
    }
    reader.session(session);
}

impl SessionFacts {
    /// Adds what one of its files says.
    fn add(&mut self, file: &IndexedFile, facts: &Facts) {
        let newer = facts.last >= self.last;
        let is_main = facts.subagent == 0;
        for (mine, theirs) in
            [(&mut self.folder, facts.folder), (&mut self.branch, facts.branch), (&mut self.version, facts.version)]
        {
            if is_main && (newer || mine.is_empty()) && theirs != 0 {
                facts.names.get(theirs).clone_into(mine);
            }
        }
        if is_main && (self.title.is_empty() || facts.titled) {
            self.title.clone_from(&facts.title);
        }
        for limit in &facts.limits {
            // Without a time it was told when the requests were made that have none either.
            let time = if limit.time == 0 { facts.first.unwrap_or(file.mtime.cast_unsigned() / 1_000_000) } else { limit.time };
            note_limit(&mut self.limits, Limit { time, ..limit.clone() });
        }
        self.agent.clone_from(&facts.agent);
        self.first = [self.first, facts.first].into_iter().flatten().min();
        self.last = self.last.max(facts.last);
        self.prompts = self.prompts.max(facts.prompts).max(facts.so_far.sent.1);
        self.busy_ms = self.busy_ms.max(facts.busy_ms);
        self.damaged += facts.damaged;
        if facts.damaged > 0 {
            self.damaged_files.push(DamagedFile { path: file.path.clone(), lines: facts.damaged });
        }
        self.files.push(file.clone());
    }

    /// Adds when its runs were, and what all of them together were asked. A transcript has all runs of a session, a recording one of
    /// them. Of a run that was pushed here, the original may be here, too.
    fn add_runs(&mut self, group: &[(IndexedFile, Facts)]) {
        let mut sums = [(0, 0_u64); 2];
        let mut begun = HashSet::new();
        for (facts, run) in group.iter().filter_map(|(_, facts)| Some((facts, facts.run?))) {
            self.first = [self.first, Some(run.began)].into_iter().flatten().min();
            self.last = self.last.max(Some(run.last));
            if begun.insert((run.is_pushed, run.began)) {
                let (prompts, busy_ms) = &mut sums[usize::from(run.is_pushed)];
                *prompts += facts.prompts.max(facts.so_far.sent.1);
                *busy_ms = busy_ms.saturating_add(facts.busy_ms);
            }
        }
        for (prompts, busy_ms) in sums {
            (self.prompts, self.busy_ms) = (self.prompts.max(prompts), self.busy_ms.max(busy_ms));
        }
        // What was heard of last says how it stands. What was pushed here says less than what is here.
        let main = group.iter().map(|(_, facts)| facts).filter(|facts| facts.subagent == 0);
        let last = main.max_by_key(|facts| (!facts.is_pushed(), facts.last.max(facts.run.map(|run| run.last))));
        self.phase = last.map_or(SessionPhase::Unknown, |facts| facts.phase);
    }
}
