//! Finds texts in the index, and puts them together by session.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{OptionalExtension as _, Statement, params};
use tapline_recording::Redactor;

use super::query::{Filter, SearchQuery, Term};
use super::snippet::{FoundText, Snippet};
use super::store::BITS;
use super::text_index::{TextIndex, agent_named, path_of};
use super::writing::{About, NameOf};
use crate::error::ArchiveError;
use crate::said::EntryKind;

/// How many hits are looked at. It bounds the time of a search for a word that is everywhere.
const LOOKED_AT: usize = 4_000;
/// When a session has this many hits, the search goes on without it, so that it does not hide the others.
const ENOUGH: usize = 50;
/// How close words stand that belong together.
const NEAR: usize = 10;
/// More sessions than this are not named in a search: each hit is checked instead.
const NAMED: i64 = 64;

/// Which hits come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SearchSort {
    /// The newest.
    #[default]
    Newest,
    /// Those where the words stand close together, then those in prompts and answers; of equals, the newest.
    Best,
}

/// How to search.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SearchOptions {
    /// Which hits come first.
    pub sort: SearchSort,
    /// The most sessions.
    pub sessions: usize,
    /// The most hits of each session.
    pub hits: usize,
    /// About how many characters of a text are shown.
    pub width: usize,
    /// Only files below these paths. Empty: all files.
    pub below: Vec<PathBuf>,
    /// Where copies of deleted files are.
    pub copies: Copies,
}

type FindCopy = dyn Fn(&Path) -> Option<PathBuf> + Send + Sync;

/// Finds the copy of a file that is no longer there.
#[derive(Clone, Default)]
pub struct Copies(Option<Arc<FindCopy>>);

impl Copies {
    /// Copies that this function finds. A copy that ends in `.zst` is compressed.
    pub fn found_by(find: impl Fn(&Path) -> Option<PathBuf> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(find)))
    }

    fn of(&self, path: &Path) -> Option<PathBuf> {
        self.0.as_ref().and_then(|find| find(path))
    }
}

impl std::fmt::Debug for Copies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Copies" } else { "None" })
    }
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self { sort: SearchSort::Newest, sessions: 10, hits: 3, width: 160, below: Vec::new(), copies: Copies::default() }
    }
}

/// What a search found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SearchFound {
    /// The sessions, in the order of their first hits.
    pub sessions: Vec<FoundSession>,
    /// Whether there are more sessions than were asked for.
    pub more: bool,
}

/// A session with hits.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FoundSession {
    /// Its id, or the path of a file that names no session.
    pub id: String,
    /// The agent.
    pub agent: String,
    /// The working folder.
    pub folder: String,
    /// Its title, or its first prompt, without secrets.
    pub title: String,
    /// The hits, the first ones only.
    pub hits: Vec<Hit>,
    /// How many more hits were seen. There can be still more.
    pub more: usize,
}

/// A text that was found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Hit {
    /// When it was said, in seconds since 1970.
    pub time: u64,
    /// What it is.
    pub kind: EntryKind,
    /// The tool, if it is of a call.
    pub tool: String,
    /// Whether it is an error.
    pub error: bool,
    /// Whether it is of a sub-agent.
    pub subagent: bool,
    /// The file that has it.
    pub path: PathBuf,
    /// Where its line begins in the file.
    pub offset: u64,
    /// A piece of it, without secrets.
    pub shown: Shown,
}

/// What there is to show of a hit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shown {
    /// A piece of it.
    Snippet(Snippet),
    /// Its file is no longer there.
    Gone,
    /// Its file is there, but says something else now, or cannot be read.
    Unreadable,
}

/// A hit before its text is read.
#[derive(Clone, Copy, Debug)]
struct Place {
    id: i64,
    file: i64,
    at: u64,
    len: u64,
    part: u32,
    about: About,
}

/// A file of the index.
struct IndexFile {
    path: PathBuf,
    agent: String,
}

/// The hits so far, by session.
#[derive(Default)]
struct Groups {
    order: Vec<i64>,
    hits: HashMap<i64, Vec<Place>>,
    seen: HashSet<i64>,
    looked_at: usize,
}

impl Groups {
    /// Adds a hit. Returns how many the session has now.
    fn add(&mut self, session: i64, found: Place) -> usize {
        if self.seen.insert(found.id) {
            if !self.hits.contains_key(&session) {
                self.order.push(session);
            }
            self.hits.entry(session).or_default().push(found);
            return self.hits[&session].len();
        }
        0
    }
}

const HITS: &str = "SELECT rowid FROM text WHERE text MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid DESC";
const PLACE: &str = "SELECT file, at, len, part, about, session FROM entries WHERE id = ?";

/// Returns where a text is, and its session.
fn place_of(statement: &mut Statement<'_>, id: i64) -> rusqlite::Result<Option<(i64, Place)>> {
    let place = statement.query_row([id], |row| {
        let (at, len): (i64, i64) = (row.get(1)?, row.get(2)?);
        let (at, len) = (at.cast_unsigned(), len.cast_unsigned());
        let about = About::of(row.get(4)?);
        Ok((row.get(5)?, Place { id, file: row.get(0)?, at, len, part: row.get(3)?, about }))
    });
    place.optional()
}

/// Returns the numbers of the first and the last text of a search's span of time.
fn span(query: &SearchQuery) -> (i64, i64) {
    let second = |ms: u64| i64::try_from(ms / 1_000).unwrap_or(i64::MAX).min(i64::MAX >> (BITS + 1)) << BITS;
    let last = |until: u64| second(until.saturating_add(999)) - 1;
    (query.since.map_or(0, second), query.until.map_or(i64::MAX, last))
}

impl TextIndex {
    /// Searches. What it returns has no secrets that this redactor finds.
    pub fn search(
        &self,
        query: &SearchQuery,
        options: &SearchOptions,
        redactor: &Redactor,
    ) -> Result<SearchFound, ArchiveError> {
        let files = self.files()?;
        let has = |file: &IndexFile| options.below.is_empty() || options.below.iter().any(|path| file.path.starts_with(path));
        let wanted: HashSet<i64> = files.iter().filter(|(_, file)| has(file)).map(|(id, _)| *id).collect();
        let all = wanted.len() == files.len();
        let Some(marks) = self.marks(query)? else { return Ok(SearchFound::default()) };
        let mut groups = Groups::default();
        for tier in tiers(query, options.sort) {
            let asked = expression(query, &tier, &marks);
            self.collect(query, &asked, options.sessions, &mut groups, |file| all || wanted.contains(&file))?;
            if groups.order.len() > options.sessions || groups.looked_at >= LOOKED_AT {
                break;
            }
        }
        if groups.order.len() > options.sessions {
            let (asked, few) = (expression(query, &Tier::ALL, &marks), options.hits + 1);
            let shown = groups.order.iter().take(options.sessions).copied();
            let short: Vec<i64> = shown.filter(|session| groups.hits[session].len() < few).collect();
            for session in short {
                self.collect_of(session, query, &asked, &mut groups, few, |file| all || wanted.contains(&file))?;
            }
        }
        let mut found = SearchFound { more: groups.order.len() > options.sessions, ..SearchFound::default() };
        for session in groups.order.iter().take(options.sessions) {
            let places = groups.hits.remove(session).unwrap_or_default();
            found.sessions.push(self.show(*session, &places, &files, query, options, redactor)?);
        }
        Ok(found)
    }

    fn files(&self) -> Result<HashMap<i64, IndexFile>, ArchiveError> {
        let mut rows = self.store.db.prepare("SELECT id, path, agent FROM files WHERE agent IS NOT NULL")?;
        let rows = rows.query_map([], |row| Ok((row.get(0)?, IndexFile { path: path_of(row.get(1)?), agent: row.get(2)? })))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Returns the marks that the filters ask for, each group with whether one of it must be there or none. Returns none if
    /// nothing can be found.
    fn marks(&self, query: &SearchQuery) -> Result<Option<Vec<(bool, String)>>, ArchiveError> {
        let mut all = Vec::new();
        for (must, filter) in &query.filters {
            let marks = match filter {
                Filter::Error => Some("e".to_owned()),
                Filter::Subagent => Some("g".to_owned()),
                Filter::Kind(kind) => Some(kind_mark(*kind)),
                Filter::Session(start) => self.sessions_named(start)?,
                Filter::Agent(name) => self.names(NameOf::Agent, |agent| agent.eq_ignore_ascii_case(name))?,
                Filter::Branch(name) => self.names(NameOf::Branch, |branch| like(branch, name))?,
                Filter::Tool(name) => self.names(NameOf::Tool, |tool| like(tool, name))?,
                Filter::Project(text) => {
                    let text = text.to_lowercase();
                    self.names(NameOf::Folder, |folder| folder.to_lowercase().contains(&text))?
                }
            };
            match marks {
                Some(marks) => all.push((*must, marks)),
                None if *must => return Ok(None),
                None => {}
            }
        }
        Ok(Some(all))
    }

    fn names(&self, of: NameOf, is_one: impl Fn(&str) -> bool) -> Result<Option<String>, ArchiveError> {
        let mut rows = self.store.db.prepare("SELECT id, name FROM names WHERE kind = ?")?;
        let mut rows = rows.query([of as i64])?;
        let mut marks = Vec::new();
        while let Some(row) = rows.next()? {
            if is_one(row.get_ref(1)?.as_str().unwrap_or_default()) {
                marks.push(format!("{}{}", of.letter(), row.get::<_, i64>(0)?));
            }
        }
        Ok((!marks.is_empty()).then(|| marks.join(" OR ")))
    }

    fn sessions_named(&self, start: &str) -> Result<Option<String>, ArchiveError> {
        let mut rows = self.store.db.prepare("SELECT id FROM sessions WHERE substr(name, 1, length(?1)) = ?1 LIMIT ?2")?;
        let rows = rows.query_map(params![start, NAMED], |row| Ok(format!("s{}", row.get::<_, i64>(0)?)))?;
        let marks = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        Ok((!marks.is_empty()).then(|| marks.join(" OR ")))
    }

    /// Adds the hits of an expression to the groups, the newest first.
    fn collect(
        &self,
        query: &SearchQuery,
        asked: &str,
        sessions: usize,
        groups: &mut Groups,
        has: impl Fn(i64) -> bool,
    ) -> Result<(), ArchiveError> {
        let (first, mut last) = span(query);
        let mut hits = self.store.db.prepare(HITS)?;
        let mut place = self.store.db.prepare(PLACE)?;
        'again: loop {
            let mut without = String::new();
            for session in groups.order.iter().filter(|session| groups.hits[*session].len() >= ENOUGH) {
                let _ = write!(without, "{}s{session}", if without.is_empty() { "" } else { " OR " });
            }
            let asked = if without.is_empty() { asked.to_owned() } else { format!("({asked}) NOT marks : ({without})") };
            let mut rows = hits.query(params![asked, first, last])?;
            while let Some(row) = rows.next()? {
                let id: i64 = row.get(0)?;
                groups.looked_at += 1;
                if groups.looked_at >= LOOKED_AT || groups.order.len() > sessions {
                    return Ok(());
                }
                let Some((session, found)) = place_of(&mut place, id)? else { continue };
                if has(found.file) && groups.add(session, found) == ENOUGH {
                    last = id - 1;
                    continue 'again;
                }
            }
            return Ok(());
        }
    }

    /// Adds more hits of one session: the search for others ended before all of them were seen.
    fn collect_of(
        &self,
        session: i64,
        query: &SearchQuery,
        asked: &str,
        groups: &mut Groups,
        few: usize,
        has: impl Fn(i64) -> bool,
    ) -> Result<(), ArchiveError> {
        let (first, last) = span(query);
        let mut hits = self.store.db.prepare(HITS)?;
        let mut place = self.store.db.prepare(PLACE)?;
        let mut rows = hits.query(params![format!("({asked}) AND marks : s{session}"), first, last])?;
        while let Some(row) = rows.next()? {
            let Some((session, found)) = place_of(&mut place, row.get(0)?)? else { continue };
            if has(found.file) && groups.add(session, found) >= few {
                break;
            }
        }
        Ok(())
    }

    /// Reads the first hits of a session again.
    fn show(
        &self,
        session: i64,
        places: &[Place],
        files: &HashMap<i64, IndexFile>,
        query: &SearchQuery,
        options: &SearchOptions,
        redactor: &Redactor,
    ) -> Result<FoundSession, ArchiveError> {
        let about = "SELECT name, agent, folder, title FROM sessions WHERE id = ?";
        let mut found = self.store.db.query_row(about, [session], |row| {
            let clean = |text: String| redactor.text(&text).into_owned();
            let (folder, title) = (clean(row.get(2)?), clean(row.get(3)?));
            Ok(FoundSession { id: row.get(0)?, agent: row.get(1)?, folder, title, ..FoundSession::default() })
        })?;
        // A stream and a transcript of the same session can say the same in other words.
        let mut texts: Vec<(About, String)> = Vec::new();
        for (number, place) in places.iter().enumerate() {
            if found.hits.len() == options.hits {
                found.more = places.len() - number;
                break;
            }
            let Some(file) = files.get(&place.file) else { continue };
            let (shown, text) = shown(place, file, &query.terms, options, redactor);
            let About { kind, error, subagent, streamed, tool } = place.about;
            let hit = Hit {
                time: (place.id >> BITS).cast_unsigned(),
                kind,
                tool: redactor.text(&self.tool(tool)?).into_owned(),
                error,
                subagent,
                path: file.path.clone(),
                offset: place.at,
                shown,
            };
            let text = text.unwrap_or_default().trim().to_owned();
            let same = |(about, other): &(About, String)| !text.is_empty() && is_same((about, other), (&place.about, &text));
            match texts.iter().position(same) {
                None => {
                    texts.push((place.about, text));
                    found.hits.push(hit);
                }
                // A transcript knows when it was.
                Some(at) if texts[at].0.streamed && !streamed => {
                    (texts[at], found.hits[at]) = ((place.about, text), hit);
                }
                Some(_) => {}
            }
        }
        Ok(found)
    }

    fn tool(&self, name: i64) -> Result<String, ArchiveError> {
        let mut row = self.store.db.prepare("SELECT name FROM names WHERE id = ?")?;
        Ok(row.query_row([name], |row| row.get(0)).optional()?.unwrap_or_default())
    }
}

/// Returns whether two texts of a session are the same. A stream has less around a command and its output than a transcript.
fn is_same((one, text): (&About, &str), (other, same): (&About, &str)) -> bool {
    let contains = || one.streamed != other.streamed && (text.contains(same) || same.contains(text));
    one.kind == other.kind && (text == same || contains())
}

/// Reads a hit again. Returns what to show, and its text.
fn shown(
    place: &Place,
    file: &IndexFile,
    terms: &[Term],
    options: &SearchOptions,
    redactor: &Redactor,
) -> (Shown, Option<String>) {
    let Some(agent) = agent_named(&file.agent) else { return (Shown::Unreadable, None) };
    let line = place.at..place.at.saturating_add(place.len);
    let read = |path: &Path| FoundText::read((path, agent), line.clone(), place.part, redactor);
    let text = match read(&file.path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            options.copies.of(&file.path).map_or(Err(error), |copy| read(&copy))
        }
        text => text,
    };
    match text {
        Err(error) if error.kind() == io::ErrorKind::NotFound => (Shown::Gone, None),
        Err(_) | Ok(None) => (Shown::Unreadable, None),
        Ok(Some(text)) => match text.snippet(terms, options.width) {
            Some(snippet) => (Shown::Snippet(snippet), Some(text.clean)),
            None => (Shown::Unreadable, None),
        },
    }
}

/// Returns whether a name is the one that is asked for. `mcp__*` stands for all names that begin with `mcp__`.
fn like(name: &str, asked: &str) -> bool {
    let (name, asked) = (name.to_lowercase(), asked.to_lowercase());
    asked.strip_suffix('*').map_or(name == asked, |start| name.starts_with(start))
}

fn kind_mark(kind: EntryKind) -> String {
    format!("k{}", kind.number())
}

/// What a search asks for first, then, and so on.
struct Tier {
    near: bool,
    words_only: bool,
}

impl Tier {
    const ALL: Self = Self { near: false, words_only: false };
}

fn tiers(query: &SearchQuery, sort: SearchSort) -> Vec<Tier> {
    let all = |near, words_only| Tier { near, words_only };
    match sort {
        SearchSort::Newest => vec![Tier::ALL],
        SearchSort::Best if query.terms.len() < 2 => vec![all(false, true), all(false, false)],
        SearchSort::Best => vec![all(true, true), all(true, false), all(false, true), all(false, false)],
    }
}

/// Writes a search as the database reads it.
fn expression(query: &SearchQuery, tier: &Tier, marks: &[(bool, String)]) -> String {
    let mut parts = Vec::new();
    let written = |term: &Term| {
        let mut out = String::new();
        term.write(&mut out);
        out
    };
    let terms: Vec<String> = query.terms.iter().map(written).collect();
    if tier.near {
        parts.push(format!("body : NEAR({}, {NEAR})", terms.join(" ")));
    } else {
        parts.extend(terms.iter().map(|term| format!("body : {term}")));
    }
    parts.extend(marks.iter().filter(|(must, _)| *must).map(|(_, marks)| format!("marks : ({marks})")));
    let kinds = |kinds: &[EntryKind]| kinds.iter().map(|kind| kind_mark(*kind)).collect::<Vec<_>>().join(" OR ");
    if tier.words_only {
        parts.push(format!("marks : ({})", kinds(&[EntryKind::Prompt, EntryKind::Answer])));
    } else if parts.is_empty() {
        parts.push(format!("marks : ({})", kinds(&EntryKind::ALL)));
    }
    let mut asked = parts.join(" AND ");
    let mut without: Vec<String> = query.without.iter().map(|term| format!("body : {}", written(term))).collect();
    without.extend(marks.iter().filter(|(must, _)| !must).map(|(_, marks)| format!("marks : ({marks})")));
    if !without.is_empty() {
        asked = format!("({asked}) NOT ({})", without.join(" OR "));
    }
    asked
}
