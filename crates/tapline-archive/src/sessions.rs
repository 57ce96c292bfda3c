//! Sessions: a list of them, one by the beginning of its id, and what one used and cost.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use tapline_session::{Basis, Ledger, Patience, SessionState};

use crate::error::ArchiveError;
use crate::facts::Facts;
use crate::index::{Index, IndexedFile};
use crate::load::{Reader, Request, Selection, SessionFacts, load};
use crate::money::Money;
use crate::packed;
use crate::places::Places;
use crate::prices::Prices;
use tapline_protocol::Tokens;

impl SessionFacts {
    /// Returns when the limits that are used up are all reset, in milliseconds since 1970.
    pub fn limit_until(&self) -> Option<u64> {
        self.limits.iter().filter(|limit| limit.used.is_some_and(|used| used >= 1_000)).map(|limit| limit.resets).max()
    }
}

/// Which sessions to list.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SessionFilter {
    /// Only sessions that wrote something at this time or later, in milliseconds since 1970.
    pub since: Option<u64>,
    /// Only sessions that began before then.
    pub until: Option<u64>,
    /// Only sessions whose folder has one of these in its path.
    pub projects: Vec<String>,
    /// Only these agents.
    pub agents: Vec<String>,
    /// Only sessions in one of these states.
    pub states: Vec<SessionState>,
    /// Only sessions that cost more than this.
    pub cost_over: Option<Money>,
    /// The time, in milliseconds since 1970.
    pub now: u64,
}

/// One session of a list.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListedSession {
    /// What is known about it.
    pub facts: SessionFacts,
    /// How it stands.
    pub state: SessionState,
    /// The number of requests to models.
    pub requests: u64,
    /// The model that answered last.
    pub model: String,
}

impl ListedSession {
    /// Returns what opens it: its newest recording, which has the whole stream, or else its transcript, or else any of
    /// its files that is still there.
    pub fn opens(&self) -> Option<&Path> {
        self.facts.opens()
    }
}

/// Lists sessions, the newest first.
pub fn sessions(
    index: &Index,
    prices: &Prices,
    selection: &Selection,
    filter: &SessionFilter,
) -> Result<Vec<ListedSession>, ArchiveError> {
    let mut list = List { filter, requests: 0, last: (0, String::new()), found: Vec::new() };
    load(index, prices, selection, &mut list)?;
    list.found.sort_by(|one, other| other.facts.last.cmp(&one.facts.last).then_with(|| one.facts.id.cmp(&other.facts.id)));
    Ok(list.found)
}

struct List<'f> {
    filter: &'f SessionFilter,
    requests: u64,
    /// When the last request began, and its model.
    last: (u64, String),
    found: Vec<ListedSession>,
}

impl Reader for List<'_> {
    fn request(&mut self, request: &Request<'_>) {
        self.requests += u64::from(!request.error);
        if request.subagent.is_empty() && !request.error && request.time >= self.last.0 {
            self.last = (request.time, request.model.to_owned());
        }
    }

    fn session(&mut self, facts: SessionFacts) {
        let (requests, (_, model)) = (std::mem::take(&mut self.requests), std::mem::take(&mut self.last));
        let SessionFilter { since, until, projects, agents, states, cost_over, now } = self.filter;
        let last = facts.last.or_else(|| facts.files.iter().map(|file| file.mtime.cast_unsigned() / 1_000_000).max());
        let facts = SessionFacts { last, first: facts.first.or(last), ..facts };
        let state = SessionState::of(facts.phase, facts.last, facts.limit_until(), *now, Patience::default());
        let takes = !facts.id.is_empty()
            && since.is_none_or(|since| facts.last.is_some_and(|last| last >= since))
            && until.is_none_or(|until| facts.first.is_some_and(|first| first < until))
            && (projects.is_empty() || projects.iter().any(|part| facts.folder.contains(&**part)))
            && (agents.is_empty() || agents.contains(&facts.agent))
            && (states.is_empty() || states.contains(&state))
            && cost_over.is_none_or(|cost| facts.cost > cost);
        if takes {
            self.found.push(ListedSession { facts, state, requests, model });
        }
    }
}

/// What the beginning of a session's id leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionLookup {
    /// No session has such an id.
    None,
    /// One session.
    One(SessionFiles),
    /// Several sessions: their ids and titles.
    Several(Vec<(String, String)>),
}

impl SessionFacts {
    /// Returns what opens it: its newest recording, which has the whole stream, or else its transcript, or else any of its files that is there.
    pub fn opens(&self) -> Option<&Path> {
        self.own().filter(|file| !file.gone).map(|file| file.recording.as_deref().unwrap_or(&file.path))
    }

    /// Returns the file that is the session's own, and not one of a sub-agent or one that only repeats it. Of equals, it is the first one.
    pub(crate) fn own(&self) -> Option<&IndexedFile> {
        let is_named = |file: &IndexedFile| file.path.file_name().is_some_and(|name| name.to_string_lossy().contains(&self.id));
        let rank = |file: &&IndexedFile| (!file.gone, file.recording.as_ref().map(|_| file.mtime), is_named(file));
        self.files.iter().rev().max_by_key(rank)
    }
}

/// The files of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionFiles {
    /// The session's id.
    pub id: String,
    /// The agent.
    pub agent: String,
    /// The last working folder.
    pub folder: String,
    /// The folder of its newest recording.
    pub recording: Option<PathBuf>,
    /// Its transcript, or a captured stream.
    pub transcript: Option<PathBuf>,
    /// Whether it had files that are gone.
    pub had_others: bool,
}

/// Finds the session whose id begins with this text.
pub fn find(index: &Index, start: &str) -> Result<SessionLookup, ArchiveError> {
    let files = index.sessions_from(start)?;
    let mut ids: Vec<&str> = files.iter().map(|(id, ..)| id.as_str()).collect();
    ids.dedup();
    // A whole id is never ambiguous.
    let ids: Vec<&str> = if ids.contains(&start) { vec![start] } else { ids };
    let of =
        |wanted: &str| files.iter().filter(|(id, ..)| id == wanted).map(|(_, file, facts)| (file, facts)).collect::<Vec<_>>();
    match ids.as_slice() {
        [] => Ok(SessionLookup::None),
        [id] => Ok(SessionLookup::One(files_of_one(id, &of(id)))),
        several => Ok(SessionLookup::Several(several.iter().map(|id| ((*id).to_owned(), title(&of(id)))).collect())),
    }
}

fn title(files: &[(&IndexedFile, &Facts)]) -> String {
    let titles = || files.iter().filter(|(_, facts)| facts.subagent == 0 && !facts.title.is_empty());
    let title = titles().find(|(_, facts)| facts.titled).or_else(|| titles().next());
    title.map(|(_, facts)| facts.title.clone()).unwrap_or_default()
}

fn files_of_one(id: &str, files: &[(&IndexedFile, &Facts)]) -> SessionFiles {
    let mut one = SessionFiles { id: id.to_owned(), ..SessionFiles::default() };
    let (mut recorded, mut written) = (None, None);
    for (file, facts) in files {
        one.agent.clone_from(&facts.agent);
        if facts.subagent == 0 && facts.folder != 0 {
            facts.names.get(facts.folder).clone_into(&mut one.folder);
        }
        one.had_others |= file.gone;
        if file.gone || !file.path.exists() {
            continue;
        }
        if let Some(recording) = &file.recording {
            if recorded.is_none_or(|newest| file.mtime > newest) {
                recorded = Some(file.mtime);
                one.recording = Some(recording.clone());
            }
        } else {
            // The main agent's before a sub-agent's, one that is named after the session before others, then the newest.
            let is_named = file.path.file_name().is_some_and(|name| name.to_string_lossy().contains(id));
            let rank = (facts.subagent == 0, is_named, file.mtime);
            if written.is_none_or(|best| rank > best) {
                written = Some(rank);
                one.transcript = Some(file.path.clone());
            }
        }
    }
    one
}

/// Counts what one session used and cost: the same numbers as the statistics. `None` if nothing is known about it.
pub fn ledger(index: &Index, prices: &Prices, selection: &Selection, session: &str) -> Result<Option<Ledger>, ArchiveError> {
    let mut sum =
        Sum { session, ledger: Ledger::default(), cost: None, models: BTreeMap::new(), unpriced: false, is_known: false };
    sum.ledger.exact = true;
    load(index, prices, selection, &mut sum)?;
    let Sum { mut ledger, cost, models, unpriced, is_known, .. } = sum;
    for (model, cost) in models {
        ledger.by_model.entry(model).or_default().cost_usd = Some(cost.usd());
    }
    ledger.cost_usd = cost.filter(|cost: &Money| !unpriced || cost.pico() > 0).map(Money::usd);
    // What has no price is missing in the cost.
    ledger.exact &= !unpriced;
    Ok(is_known.then_some(ledger))
}

/// Counts what a session used and cost by a transcript alone, and those of its sub-agents beside it.
pub(crate) fn ledger_of_file(path: &Path, session: &str) -> Option<Ledger> {
    let beside = packed::unpacked_name(path).with_extension("");
    let paths: Vec<PathBuf> = [path.to_owned(), beside].into_iter().filter(|path| path.exists()).collect();
    let mut index = Index::in_memory().ok()?;
    index.update(&Places::below(&paths), &AtomicBool::new(false), |_| {}).ok()?;
    ledger(&index, Prices::embedded(), &Selection::default(), session).ok()?
}

struct Sum<'s> {
    session: &'s str,
    ledger: Ledger,
    cost: Option<Money>,
    /// The cost of each model. Dollars as floats would depend on the order in which files were read.
    models: BTreeMap<String, Money>,
    unpriced: bool,
    is_known: bool,
}

impl Reader for Sum<'_> {
    fn request(&mut self, request: &Request<'_>) {
        if request.session != self.session {
            return;
        }
        self.is_known = true;
        if request.tokens == Tokens::default() && request.searches == 0 && request.cost.unwrap_or_default() == Money::default()
        {
            return;
        }
        let tokens = request.tokens;
        let ledger = &mut self.ledger;
        ledger.tokens += tokens;
        ledger.web_searches += request.searches;
        ledger.exact &= request.exact || request.unlisted;
        ledger.basis = Basis::Messages;
        let model = ledger.by_model.entry(request.model.to_owned()).or_default();
        model.tokens += tokens;
        match request.cost {
            Some(cost) => {
                self.cost = Some(self.cost.unwrap_or_default() + cost);
                *self.models.entry(request.model.to_owned()).or_default() += cost;
            }
            None => self.unpriced = true,
        }
    }

    fn session(&mut self, session: SessionFacts) {
        self.is_known |= session.id == self.session;
    }
}
