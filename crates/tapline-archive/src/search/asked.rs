//! What is searched for, as the database reads it.

use rusqlite::params;
use tapline_session::text::nearest;

use super::query::{Filter, SearchQuery, Term};
use super::results::SearchSort;
use super::text_index::TextIndex;
use super::writing::NameOf;
use crate::error::ArchiveError;
use crate::said::EntryKind;

/// How close words stand that belong together.
const NEAR: usize = 10;
/// More sessions than this are not named in a search: each hit is checked instead.
const NAMED: i64 = 64;
/// If no more words than this begin so, they are searched for one by one. For a beginning, the database puts the places of
/// all words together before it returns the first.
const WORDS: u32 = 200;
/// Of shorter words it cannot be told what was meant.
const SHORTEST_SLIP: usize = 4;

/// What a text must be, beside its words: one of these marks must be there, or none.
pub(super) type MarkFilter = (bool, Vec<String>);

/// What is searched for, in the words of the index.
#[derive(Debug)]
pub(super) struct Asked {
    /// The terms, and the same for `NEAR`.
    terms: Vec<String>,
    near: Vec<String>,
    without: Vec<String>,
    pub(super) marks: Vec<MarkFilter>,
}

/// What a search asks for first, then, and so on.
pub(super) struct Tier {
    near: bool,
    words_only: bool,
}

impl Tier {
    pub(super) const ALL: Self = Self { near: false, words_only: false };

    pub(super) fn all(query: &SearchQuery, sort: SearchSort) -> Vec<Self> {
        let all = |near, words_only| Self { near, words_only };
        match sort {
            SearchSort::Newest => vec![Self::ALL],
            SearchSort::Best if query.terms.len() < 2 || query.terms.iter().any(|term| term.or) => {
                vec![all(false, true), all(false, false)]
            }
            SearchSort::Best => vec![all(true, true), all(true, false), all(false, true), all(false, false)],
        }
    }
}

impl Asked {
    /// Writes it as the database reads it.
    pub(super) fn expression(&self, tier: &Tier) -> String {
        let mut parts = Vec::new();
        if tier.near {
            parts.push(format!("body : NEAR({}, {NEAR})", self.near.join(" ")));
        } else {
            parts.extend(self.terms.iter().map(|term| format!("body : {term}")));
        }
        let marked = |marks: &[String]| format!("marks : ({})", marks.join(" OR "));
        parts.extend(self.marks.iter().filter(|(must, _)| *must).map(|(_, marks)| marked(marks)));
        let kinds = |kinds: &[EntryKind]| marked(&kinds.iter().map(|kind| kind_mark(*kind)).collect::<Vec<_>>());
        if tier.words_only {
            parts.push(kinds(&[EntryKind::Prompt, EntryKind::Answer]));
        } else if parts.is_empty() {
            parts.push(kinds(&EntryKind::ALL));
        }
        let asked = parts.join(" AND ");
        let mut without: Vec<String> = self.without.iter().map(|term| format!("body : {term}")).collect();
        without.extend(self.marks.iter().filter(|(must, _)| !must).map(|(_, marks)| marked(marks)));
        if without.is_empty() { asked } else { format!("({asked}) NOT ({})", without.join(" OR ")) }
    }
}

impl TextIndex {
    /// Looks up what is searched for. Returns none if nothing can be found.
    pub(super) fn asked(&self, query: &SearchQuery) -> Result<Option<Asked>, ArchiveError> {
        let Some(marks) = self.marks(query)? else { return Ok(None) };
        let written = |terms: &[Term]| terms.iter().map(|term| self.written(term)).collect::<Result<Vec<_>, _>>();
        let mut terms: Vec<String> = Vec::new();
        for (term, written) in query.terms.iter().zip(written(&query.terms)?) {
            match terms.last_mut().filter(|_| term.or) {
                Some(before) => *before = format!("({before} OR {written})"),
                None => terms.push(written),
            }
        }
        let near = query.terms.iter().map(Term::written).collect();
        Ok(Some(Asked { terms, near, without: written(&query.without)?, marks }))
    }

    /// Writes a term, the beginning of a word as all words that begin so.
    fn written(&self, term: &Term) -> Result<String, ArchiveError> {
        let Some((last, before)) = term.words.split_last().filter(|_| term.prefix) else { return Ok(term.written()) };
        let mut rows = self.store.db.prepare("SELECT term FROM vocabulary WHERE term >= ? AND term < ? LIMIT ?")?;
        let rows = rows.query_map(params![last, format!("{last}{}", char::MAX), WORDS + 1], |row| row.get(0))?;
        let words: Vec<String> = rows.collect::<rusqlite::Result<_>>()?;
        if words.is_empty() || words.len() > WORDS as usize {
            return Ok(term.written());
        }
        let one = |word: String| Term { words: [before, &[word]].concat(), prefix: false, or: false }.written();
        Ok(format!("({})", words.into_iter().map(one).collect::<Vec<_>>().join(" OR ")))
    }

    /// Returns words that are searched for and stand in no text, each with one that does and is nearly the same.
    pub(super) fn meant(&self, query: &SearchQuery) -> Result<Vec<(String, String)>, ArchiveError> {
        let db = &self.store.db;
        let mut known = db.prepare("SELECT 1 FROM vocabulary WHERE term = ?")?;
        let mut similar =
            db.prepare("SELECT term FROM vocabulary WHERE term >= ? AND term < ? AND length(term) BETWEEN ? AND ?")?;
        let words = query.terms.iter().filter(|term| !term.prefix).flat_map(|term| &term.words);
        let mut meant = Vec::new();
        // A slip is seldom in the first letter.
        for word in words.filter(|word| word.len() >= SHORTEST_SLIP) {
            let Some(first) = word.chars().next().filter(|_| word.chars().all(char::is_alphabetic)) else { continue };
            let (length, first) = (i64::try_from(word.chars().count()).unwrap_or(0), first.to_string());
            if known.exists([word])? {
                continue;
            }
            let behind = format!("{first}{}", char::MAX);
            let others = similar.query_map(params![first, behind, length - 1, length + 1], |row| row.get(0))?;
            let mut others: Vec<String> = others.collect::<rusqlite::Result<_>>()?;
            others.retain(|other| other.chars().all(char::is_alphabetic));
            meant.extend(nearest(word, others.iter().map(String::as_str)).map(|near| (word.clone(), near.to_owned())));
        }
        Ok(meant)
    }

    /// Returns the marks that the filters ask for, each group with whether one of it must be there or none. Returns none if
    /// nothing can be found.
    fn marks(&self, query: &SearchQuery) -> Result<Option<Vec<MarkFilter>>, ArchiveError> {
        let mut all = Vec::new();
        for (must, filter) in &query.filters {
            let marks = match filter {
                Filter::Error => vec!["e".to_owned()],
                Filter::Subagent => vec!["g".to_owned()],
                Filter::Kind(kind) => vec![kind_mark(*kind)],
                Filter::Session(start) => self.sessions_named(start)?,
                Filter::Agent(name) => self.names(NameOf::Agent, |agent| agent.eq_ignore_ascii_case(name))?,
                Filter::Branch(name) => self.names(NameOf::Branch, |branch| like(branch, name))?,
                Filter::Tool(name) => self.names(NameOf::Tool, |tool| like(tool, name))?,
                Filter::Project(text) => {
                    let text = text.to_lowercase();
                    self.names(NameOf::Folder, |folder| folder.to_lowercase().contains(&text))?
                }
            };
            if !marks.is_empty() {
                all.push((*must, marks));
            } else if *must {
                return Ok(None);
            }
        }
        Ok(Some(all))
    }

    fn names(&self, of: NameOf, is_one: impl Fn(&str) -> bool) -> Result<Vec<String>, ArchiveError> {
        let mut rows = self.store.db.prepare("SELECT id, name FROM names WHERE kind = ?")?;
        let mut rows = rows.query([of as i64])?;
        let mut marks = Vec::new();
        while let Some(row) = rows.next()? {
            if is_one(row.get_ref(1)?.as_str().unwrap_or_default()) {
                marks.push(format!("{}{}", of.letter(), row.get::<_, i64>(0)?));
            }
        }
        Ok(marks)
    }

    fn sessions_named(&self, start: &str) -> Result<Vec<String>, ArchiveError> {
        let mut rows = self.store.db.prepare("SELECT id FROM sessions WHERE substr(name, 1, length(?1)) = ?1 LIMIT ?2")?;
        let rows = rows.query_map(params![start, NAMED], |row| Ok(format!("s{}", row.get::<_, i64>(0)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

/// Returns whether a name is the one that is asked for. `mcp__*` stands for all that begin so.
fn like(name: &str, asked: &str) -> bool {
    let (name, asked) = (name.to_lowercase(), asked.to_lowercase());
    asked.strip_suffix('*').map_or(name == asked, |start| name.starts_with(start))
}

fn kind_mark(kind: EntryKind) -> String {
    format!("k{}", kind.number())
}
