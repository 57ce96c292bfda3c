//! Finds texts in the index, and puts them together by session.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rusqlite::{OptionalExtension as _, Statement, params};
use tapline_recording::Redactor;

use super::asked::{MarkFilter, Tier};
use super::query::{SearchQuery, Term};
use super::results::{FoundSession, Hit, SearchFound, SearchOptions, SearchSort, Shown};
use super::snippet::FoundText;
use super::store::BITS;
use super::text_index::{TextIndex, agent_named, path_of};
use super::writing::{About, ScopeNumbers, marks};
use crate::error::ArchiveError;
use crate::prompts::sent_file;

/// How many hits are looked at. It bounds the time of a search for a word that is everywhere.
const LOOKED_AT: usize = 4_000;
/// When a session has this many hits, the search goes on without it, so that it does not hide the others.
const ENOUGH: usize = 50;

/// A hit before its text is read.
#[derive(Clone, Copy, Debug)]
struct Place {
    id: i64,
    file: i64,
    at: u64,
    len: u64,
    part: u32,
    about: About,
    scope: ScopeNumbers,
    /// The same for copies.
    key: i64,
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
    /// The keys of the hits.
    seen: HashSet<i64>,
    looked_at: usize,
}

impl Groups {
    /// Puts the newest first. They were found in this order, but the original of a copy is older than the copy that was found.
    fn sort(&mut self) {
        self.hits.values_mut().for_each(|hits| hits.sort_by_key(|hit| Reverse(hit.id)));
        let newest = |session: &i64| self.hits.get(session).and_then(|hits| hits.first()).map(|hit| hit.id);
        self.order.sort_by_key(|session| Reverse(newest(session)));
    }

    /// Adds a hit. Returns how many the session has now.
    fn add(&mut self, found: Place) -> usize {
        let session = found.scope.session;
        if self.seen.insert(found.key) {
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
const PLACE: &str = "SELECT file, at, len, part, about, session, agent, folder, branch, key FROM entries \
                     JOIN scopes ON scopes.id = scope WHERE entries.id = ?";

/// The same text elsewhere: in other sessions, or in the stream of the same one.
const OTHERS: &str = "SELECT id FROM entries WHERE key = ? AND id <> ?";

/// The further files of a text.
const COPIES: &str = "SELECT file, at, len, part FROM copies WHERE entry = ?";

/// Returns where a text is.
fn place_of(statement: &mut Statement<'_>, id: i64) -> Result<Place, ArchiveError> {
    let place = statement.query_row([id], |row| {
        let scope = ScopeNumbers { session: row.get(5)?, agent: row.get(6)?, folder: row.get(7)?, branch: row.get(8)? };
        let (at, len): (i64, i64) = (row.get(1)?, row.get(2)?);
        let (at, len, part) = (at.cast_unsigned(), len.cast_unsigned(), row.get(3)?);
        Ok(Place { id, file: row.get(0)?, at, len, part, about: About::of(row.get(4)?), scope, key: row.get(9)? })
    });
    place.optional()?.ok_or(ArchiveError::Damaged)
}

/// All files, and whether the search is on each.
struct Wanted(HashMap<i64, bool>);

impl Wanted {
    fn has(&self, file: i64) -> Result<bool, ArchiveError> {
        self.0.get(&file).copied().ok_or(ArchiveError::Damaged)
    }
}

/// Returns the numbers of the first and the last text of a search's span of time.
fn span(query: &SearchQuery) -> (i64, i64) {
    let second = |ms: u64| i64::try_from(ms / 1_000).unwrap_or(i64::MAX).min(i64::MAX >> (BITS + 1)) << BITS;
    let last = |until: u64| second(until.saturating_add(999)) - 1;
    (query.since.map_or(0, second), query.until.map_or(i64::MAX, last))
}

/// Returns whether a path is below another one, or the same. Byte by byte, because it is asked for every file.
fn is_below(path: &Path, folder: &Path) -> bool {
    let (path, folder) = (path.as_os_str().as_bytes(), folder.as_os_str().as_bytes());
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

impl TextIndex {
    /// Searches. What it returns has no secrets that this redactor finds.
    pub fn search(
        &self,
        query: &SearchQuery,
        options: &SearchOptions,
        redactor: &Redactor,
    ) -> Result<SearchFound, ArchiveError> {
        let mut found = self.find(query, options, redactor)?;
        if found.sessions.is_empty() {
            let first = SearchOptions { sessions: 1, hits: 1, ..options.clone() };
            for (word, near) in self.meant(query)? {
                // A word can be a part of a secret, which is never shown.
                let seen = self.find(&SearchQuery::word(&near), &first, redactor)?;
                let is_shown = |hit: &Hit| matches!(&hit.shown, Shown::Snippet(snippet) if !snippet.matches.is_empty());
                if seen.sessions.iter().flat_map(|session| &session.hits).any(is_shown) {
                    found.meant.push((word, near));
                }
            }
        }
        Ok(found)
    }

    fn find(&self, query: &SearchQuery, options: &SearchOptions, redactor: &Redactor) -> Result<SearchFound, ArchiveError> {
        // All at one moment: another process may be writing. What is then missing was damaged.
        let _moment = self.store.db.unchecked_transaction()?;
        let files = self.files()?;
        let is_wanted =
            |file: &IndexFile| options.below.is_empty() || options.below.iter().any(|path| is_below(&file.path, path));
        let wanted = Wanted(files.iter().map(|(id, file)| (*id, is_wanted(file))).collect());
        let Some(asked) = self.asked(query)? else { return Ok(SearchFound::default()) };
        let mut finding = Finding::new(self, query, &asked.marks, &wanted)?;
        let mut groups = Groups::default();
        for tier in Tier::all(query, options.sort) {
            finding.collect(&asked.expression(&tier), options.sessions, &mut groups)?;
            if groups.order.len() > options.sessions || groups.looked_at >= LOOKED_AT {
                break;
            }
        }
        if groups.order.len() > options.sessions {
            let (asked, few) = (asked.expression(&Tier::ALL), options.hits + 1);
            let shown = groups.order.iter().take(options.sessions).copied();
            let short: Vec<i64> = shown.filter(|session| groups.hits[session].len() < few).collect();
            for session in short {
                finding.collect_of(session, &asked, &mut groups, few)?;
            }
        }
        if options.sort == SearchSort::Newest {
            groups.sort();
        }
        let mut found = SearchFound { more: groups.order.len() > options.sessions, ..SearchFound::default() };
        for session in groups.order.iter().take(options.sessions) {
            let places = groups.hits.remove(session).unwrap_or_default();
            let shower = Shower { index: self, files: &files, wanted: &wanted, terms: &query.terms, options, redactor };
            found.sessions.push(shower.show(*session, &places)?);
        }
        if options.sort == SearchSort::Newest {
            // Where a stream and a transcript say the same, the transcript's time counts, and it may be an earlier one.
            found.sessions.iter_mut().for_each(|session| session.hits.sort_by_key(|hit| Reverse(hit.time)));
            found.sessions.sort_by_key(|session| Reverse(session.hits.first().map(|hit| hit.time)));
        }
        Ok(found)
    }

    fn files(&self) -> Result<HashMap<i64, IndexFile>, ArchiveError> {
        let mut rows = self.store.db.prepare("SELECT id, path, agent FROM files WHERE agent IS NOT NULL")?;
        let rows = rows.query_map([], |row| Ok((row.get(0)?, IndexFile { path: path_of(row.get(1)?), agent: row.get(2)? })))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn tool(&self, name: i64) -> Result<String, ArchiveError> {
        let mut row = self.store.db.prepare("SELECT name FROM names WHERE id = ?")?;
        Ok(row.query_row([name], |row| row.get(0)).optional()?.unwrap_or_default())
    }
}

/// A search that is under way.
struct Finding<'s> {
    index: &'s TextIndex,
    marks: &'s [MarkFilter],
    wanted: &'s Wanted,
    /// The numbers of the first and the last text of the span of time.
    span: (i64, i64),
    place: Statement<'s>,
    copies: Statement<'s>,
    others: Statement<'s>,
}

impl<'s> Finding<'s> {
    fn new(
        index: &'s TextIndex,
        query: &SearchQuery,
        marks: &'s [MarkFilter],
        wanted: &'s Wanted,
    ) -> Result<Self, ArchiveError> {
        let db = &index.store.db;
        let (place, copies) = (db.prepare(PLACE)?, db.prepare(COPIES)?);
        let others = db.prepare(OTHERS)?;
        Ok(Self { index, marks, wanted, span: span(query), place, copies, others })
    }

    /// Returns whether one of the files that have a text is one that the search is on.
    fn is_wanted(&mut self, place: &Place) -> Result<bool, ArchiveError> {
        if self.wanted.has(place.file)? {
            return Ok(true);
        }
        let mut rows = self.copies.query([place.id])?;
        while let Some(row) = rows.next()? {
            if self.wanted.has(row.get(0)?)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns where a text is, if the search is on one of its files. If several sessions have it, the first one that the
    /// search is on counts: the others are its forks. A transcript counts before a stream: it knows when it was.
    fn place(&mut self, id: i64) -> Result<Option<Place>, ArchiveError> {
        let found = place_of(&mut self.place, id)?;
        let mut first = if self.is_wanted(&found)? { Some(found) } else { None };
        if !found.about.repeated && !found.about.streamed {
            return Ok(first);
        }
        let others: Vec<i64> = self.others.query_map([found.key, id], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        for other in others {
            let other = place_of(&mut self.place, other)?;
            let is_asked = self.span.0 <= other.id && other.id <= self.span.1 && self.has_marks(&other);
            let rank = |place: &Place| (place.about.streamed, place.id);
            if is_asked && first.is_none_or(|first| rank(&other) < rank(&first)) && self.is_wanted(&other)? {
                first = Some(other);
            }
        }
        Ok(first)
    }

    /// Returns whether a text is what the filters ask for.
    fn has_marks(&self, place: &Place) -> bool {
        let own = marks(place.about, place.scope);
        let has = |mark: &String| own.split(' ').any(|own| own == mark);
        self.marks.iter().all(|(must, marks)| *must == marks.iter().any(has))
    }

    /// Adds the hits of an expression to the groups, the newest first.
    fn collect(&mut self, asked: &str, sessions: usize, groups: &mut Groups) -> Result<(), ArchiveError> {
        let (first, mut last) = self.span;
        let mut hits = self.index.store.db.prepare(HITS)?;
        'again: loop {
            let mut without = String::new();
            for session in groups.order.iter().filter(|session| groups.hits[*session].len() >= ENOUGH) {
                let _ = write!(without, "{}s{session}", if without.is_empty() { "" } else { " OR " });
            }
            let asked = if without.is_empty() { asked.to_owned() } else { format!("({asked}) NOT marks : ({without})") };
            let mut rows = hits.query(params![asked, first, last])?;
            while let Some(row) = rows.next()? {
                let id: i64 = row.get(0)?;
                // What is in other files does not count: however much that is, it must not hide what is asked for.
                let Some(found) = self.place(id)? else { continue };
                groups.looked_at += 1;
                if groups.looked_at >= LOOKED_AT || groups.order.len() > sessions {
                    return Ok(());
                }
                if groups.add(found) == ENOUGH {
                    last = id - 1;
                    continue 'again;
                }
            }
            return Ok(());
        }
    }

    /// Adds more hits of one session: the search for others ended before all of them were seen.
    fn collect_of(&mut self, session: i64, asked: &str, groups: &mut Groups, few: usize) -> Result<(), ArchiveError> {
        let (first, last) = self.span;
        let mut hits = self.index.store.db.prepare(HITS)?;
        let mut rows = hits.query(params![format!("({asked}) AND marks : s{session}"), first, last])?;
        while let Some(row) = rows.next()? {
            let found = place_of(&mut self.place, row.get(0)?)?;
            if self.is_wanted(&found)? && groups.add(found) >= few {
                break;
            }
        }
        Ok(())
    }
}

/// Reads texts that were found again, to show them.
struct Shower<'s> {
    index: &'s TextIndex,
    files: &'s HashMap<i64, IndexFile>,
    wanted: &'s Wanted,
    terms: &'s [Term],
    options: &'s SearchOptions,
    redactor: &'s Redactor,
}

impl Shower<'_> {
    /// Shows the first hits of a session.
    fn show(&self, session: i64, places: &[Place]) -> Result<FoundSession, ArchiveError> {
        let about = "SELECT name, agent, folder, title FROM sessions WHERE id = ?";
        let found = self.index.store.db.query_row(about, [session], |row| {
            let clean = |text: String| self.redactor.text(&text).into_owned();
            let (folder, title) = (clean(row.get(2)?), clean(row.get(3)?));
            Ok(FoundSession { id: row.get(0)?, agent: row.get(1)?, folder, title, ..FoundSession::default() })
        });
        let mut found = found.optional()?.ok_or(ArchiveError::Damaged)?;
        // A stream and a transcript of the same session can say the same in other words.
        let mut texts: Vec<(About, String)> = Vec::new();
        for (number, place) in places.iter().enumerate() {
            if found.hits.len() == self.options.hits {
                found.more = places.len() - number;
                break;
            }
            let (place, file, shown, text) = self.shown(place)?;
            let About { kind, error, subagent, streamed, tool, .. } = place.about;
            let hit = Hit {
                time: (place.id >> BITS).cast_unsigned(),
                kind,
                tool: self.redactor.text(&self.index.tool(tool)?).into_owned(),
                error,
                subagent,
                path: sent_file(&file.path, place.part).unwrap_or_else(|| file.path.clone()),
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

    /// Reads a hit again, from the first of its files where it still is.
    fn shown(&self, place: &Place) -> Result<(Place, &IndexFile, Shown, Option<String>), ArchiveError> {
        let mut places = vec![*place];
        let mut copies = self.index.store.db.prepare(COPIES)?;
        let mut rows = copies.query([place.id])?;
        while let Some(row) = rows.next()? {
            let (at, len): (i64, i64) = (row.get(1)?, row.get(2)?);
            let (at, len, part) = (at.cast_unsigned(), len.cast_unsigned(), row.get(3)?);
            places.push(Place { file: row.get(0)?, at, len, part, ..*place });
        }
        if place.about.repeated {
            let (mut others, mut by_id) = (self.index.store.db.prepare(OTHERS)?, self.index.store.db.prepare(PLACE)?);
            for other in others.query_map([place.key, place.id], |row| row.get(0))? {
                let Place { file, at, len, part, scope, .. } = place_of(&mut by_id, other?)?;
                if scope.session == place.scope.session {
                    places.push(Place { file, at, len, part, ..*place });
                }
            }
        }
        places.sort_by_key(|place| !self.wanted.has(place.file).unwrap_or(false));
        let mut lost = None;
        for place in places {
            let file = self.files.get(&place.file).ok_or(ArchiveError::Damaged)?;
            let (shown, text) = shown(&place, file, self.terms, self.options, self.redactor);
            if text.is_some() {
                return Ok((place, file, shown, text));
            }
            lost = lost.or(Some((place, file, shown, None)));
        }
        lost.ok_or(ArchiveError::Damaged)
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
    let read = |path: &Path| FoundText::read((path, agent), &options.below, line.clone(), place.part, redactor);
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
