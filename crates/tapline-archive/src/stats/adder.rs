//! Adds requests to the rows of statistics. What several threads added can be added up.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};

use super::keys::{Keys, key, model_hash};
use super::{About, By, Ended, Query, Row, Share, Stats, Totals, blocks, trend};
use crate::facts::{Limit, hash, note_limit, project};
use crate::load::{DamagedFile, Part, Reader, Request, SessionFacts};
use crate::shares::{CallShare, shares};

/// Requests, added to rows.
pub(super) struct Adder<'q> {
    query: &'q Query,
    keys: Keys,
    rows: Vec<Row>,
    by_key: HashMap<String, usize, foldhash::fast::FixedState>,
    totals: Totals,
    /// Which sessions occur in which rows, and with which models if every row has its models: row, session and model. The row
    /// of everything is [`ALL`], and all models together are 0.
    seen: HashSet<(usize, u64, u64), foldhash::fast::FixedState>,
    /// The row and the session of the request before.
    last: (usize, u64),
    /// The row that was asked for before, and the session: most often they are the same again.
    last_row: usize,
    last_session: (String, u64),
    /// The folder, the branch and the row of the request before.
    last_branch: (String, String, usize),
    unknown: BTreeSet<String>,
    damaged: Vec<DamagedFile>,
    blocks: blocks::Blocks,
    trend: trend::Trend,
    limits: Vec<Limit>,
    /// What sessions are about, if each is a row.
    about: HashMap<String, About>,
}

/// The row of all requests, in `seen`.
const ALL: usize = usize::MAX;
/// What stands between a time and a project in the key of a row, until all are counted.
const OF_PROJECT: char = '\0';

impl<'q> Adder<'q> {
    pub(super) fn new(query: &'q Query) -> Self {
        Self {
            query,
            keys: Keys::new(query),
            rows: Vec::new(),
            by_key: HashMap::default(),
            totals: Totals::default(),
            seen: HashSet::default(),
            last: (ALL, 0),
            last_row: ALL,
            last_session: (String::new(), hash("")),
            last_branch: Default::default(),
            unknown: BTreeSet::new(),
            damaged: Vec::new(),
            blocks: blocks::Blocks::default(),
            trend: trend::Trend::default(),
            limits: Vec::new(),
            about: HashMap::new(),
        }
    }

    fn row(&mut self, key: &str) -> usize {
        if self.rows.get(self.last_row).is_none_or(|last| last.key != key) {
            self.last_row = self.by_key.get(key).copied().unwrap_or_else(|| {
                self.rows.push(Row { key: key.to_owned(), ..Row::default() });
                self.by_key.insert(key.to_owned(), self.rows.len() - 1);
                self.rows.len() - 1
            });
        }
        self.last_row
    }

    /// Returns what stands for a session.
    fn session_hash(&mut self, session: &str) -> u64 {
        if self.last_session.0 != session {
            session.clone_into(&mut self.last_session.0);
            self.last_session.1 = hash(session);
        }
        self.last_session.1
    }

    /// Returns the row of a branch.
    fn branch(&mut self, folder: &str, branch: &str) -> usize {
        let (last_folder, last_branch, row) = &self.last_branch;
        if last_folder == folder && last_branch == branch && !self.rows.is_empty() {
            return *row;
        }
        let row = self.row(&format!("{} {}", project(folder), or_none(branch)));
        self.last_branch = (folder.to_owned(), branch.to_owned(), row);
        row
    }

    fn add(&mut self, at: usize, session: u64, share: &Share<'_>) {
        if self.last != (at, session) {
            self.last = (at, session);
            self.seen.insert((at, session, 0));
        }
        if self.query.trend {
            self.trend.add(at, share.request.time, share.cost.unwrap_or_default());
        }
        let row = &mut self.rows[at];
        row.totals.add(share);
        if self.query.breakdown {
            row.models.entry(share.request.model.to_owned()).or_default().add(share);
            self.seen.insert((at, session, model_hash(share.request.model)));
        }
    }

    /// Shares a request evenly among the tools that it called.
    fn add_to_tools(&mut self, session: u64, request: &Request<'_>) {
        for (at, ((tool, end), share)) in request.calls.iter().zip(shares(request)).enumerate() {
            let CallShare { tokens, cost, computed } = share;
            let row = self.row(tool);
            // The request itself counts once, with its first call.
            let calls = [*end].into_iter().collect();
            self.add(row, session, &Share { request, tokens, cost, computed, calls, whole: at == 0 });
        }
    }

    /// Counts the sessions of all rows.
    fn count_sessions(&mut self) {
        let mut of_models: HashMap<(usize, u64), u64> = HashMap::new();
        for &(row, _, model) in &self.seen {
            match self.rows.get_mut(row) {
                None => self.totals.sessions += 1,
                Some(row) if model == 0 => row.totals.sessions += 1,
                Some(_) => *of_models.entry((row, model)).or_default() += 1,
            }
        }
        for (at, row) in self.rows.iter_mut().enumerate().filter(|(_, row)| !row.models.is_empty()) {
            for (model, totals) in &mut row.models {
                totals.sessions = of_models.get(&(at, model_hash(model))).copied().unwrap_or(0);
            }
        }
    }

    pub(super) fn finish(mut self) -> Stats {
        let by = self.query.by;
        self.count_sessions();
        if by == By::Block {
            self.rows = self.blocks.rows(self.query, &self.limits);
        }
        self.trend.give(&mut self.rows);
        for row in &mut self.rows {
            row.totals.finish();
            row.models.values_mut().for_each(Totals::finish);
            row.about = self.about.remove(&row.key);
        }
        self.totals.finish();
        let by_time = matches!(by, By::Day | By::Week | By::Month | By::Hour | By::Block);
        let spent = |row: &Row| (!by_time).then_some(Reverse((row.totals.cost_usd, row.totals.tokens)));
        // Rows are large: each is moved only once.
        self.rows.sort_by_cached_key(|row| (spent(row), row.key.clone()));
        for row in self.rows.iter_mut().filter(|_| self.query.instances) {
            if let Some((time, project)) = row.key.split_once(OF_PROJECT) {
                (row.key, row.project) = (time.to_owned(), Some(project.to_owned()));
            }
        }
        self.damaged.sort();
        Stats {
            totals: self.totals,
            rows: self.rows,
            unknown_models: self.unknown.into_iter().collect(),
            damaged_lines: self.damaged.iter().map(|file| file.lines).sum(),
            damaged_files: self.damaged,
            prices_dated: String::new(),
        }
    }
}

impl Part for Adder<'_> {
    fn merge(&mut self, other: Self) {
        let mut places = Vec::with_capacity(other.rows.len());
        for row in other.rows {
            let at = self.row(&row.key);
            places.push(at);
            self.rows[at].totals.merge(&row.totals);
            for (model, totals) in row.models {
                self.rows[at].models.entry(model).or_default().merge(&totals);
            }
        }
        // The row of everything is the same in both.
        let place = |row: usize| places.get(row).copied().unwrap_or(ALL);
        self.seen.extend(other.seen.into_iter().map(|(row, session, model)| (place(row), session, model)));
        self.totals.merge(&other.totals);
        self.unknown.extend(other.unknown);
        self.damaged.extend(other.damaged);
        self.blocks.merge(other.blocks);
        self.trend.merge(other.trend, place);
        other.limits.into_iter().for_each(|limit| note_limit(&mut self.limits, limit));
        self.about.extend(other.about);
    }
}

impl Reader for Adder<'_> {
    fn request(&mut self, request: &Request<'_>) {
        if !self.query.takes(request) {
            return;
        }
        if request.cost.is_none() && request.tokens.total() > 0 {
            let tier = if request.tier { " at its service tier" } else { "" };
            self.unknown.insert(format!("{}{tier}", request.model));
        }
        let (tokens, cost, computed) = (request.tokens, request.cost, request.computed);
        let whole = Share { request, tokens, cost, computed, calls: Ended::of(request), whole: true };
        self.totals.add(&whole);
        let session = self.session_hash(request.session);
        if self.last.1 != session {
            self.seen.insert((ALL, session, 0));
        }
        let row = match self.query.by {
            By::Block => {
                self.last = (ALL, session);
                return self.blocks.add(request.time, session, &whole, self.query.breakdown);
            }
            By::Day | By::Week | By::Month | By::Hour if self.query.instances => {
                let time = key(self.query.by, request.time, self.query);
                self.row(&format!("{time}{OF_PROJECT}{}", or_none(request.folder)))
            }
            By::Day | By::Week | By::Month | By::Hour => {
                let (query, rows, by_key) = (self.query, &mut self.rows, &mut self.by_key);
                self.keys.row(request.time, query, |key| {
                    *by_key.entry(key.clone()).or_insert_with(|| {
                        rows.push(Row { key, ..Row::default() });
                        rows.len() - 1
                    })
                })
            }
            By::Tool if request.unlisted => self.row("(unlisted)"),
            By::Tool if request.calls.is_empty() => self.row("(answer)"),
            By::Tool => return self.add_to_tools(session, request),
            By::Session => self.row(request.session),
            By::Project => self.row(or_none(request.folder)),
            By::Model => self.row(or_none(request.model)),
            By::Agent => self.row(or_none(request.agent)),
            By::Subagent => self.row(if request.subagent.is_empty() { "(main)" } else { request.subagent }),
            By::Branch => self.branch(request.folder, request.branch),
        };
        self.add(row, session, &whole);
    }

    fn session(&mut self, session: SessionFacts) {
        self.damaged.extend(session.damaged_files);
        // Each agent has an account of its own.
        if self.query.takes_agent(&session.agent) {
            session.limits.into_iter().for_each(|limit| note_limit(&mut self.limits, limit));
        }
        if self.query.by == By::Session {
            let about = About {
                title: session.title,
                agent: session.agent,
                folder: session.folder,
                branch: session.branch,
                first: session.first,
                last: session.last,
                busy_ms: session.busy_ms,
                prompts: session.prompts,
            };
            self.about.insert(session.id, about);
        }
    }
}

fn or_none(name: &str) -> &str {
    if name.is_empty() { "(unknown)" } else { name }
}
