//! A text index of an earlier version: it is brought up to this one with all that it says, because nobody else knows which
//! words stood in files that are gone.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, Transaction, params};

use super::words::add_words;
use crate::error::ArchiveError;
use crate::sealed::seal;

/// Brings the tables of an earlier version up to this one. Files that are still there will be read again.
pub(super) fn migrate(db: &Transaction<'_>, _: i64) -> Result<bool, ArchiveError> {
    if db.prepare("SELECT session FROM entries").is_ok() {
        add_scopes(db)?;
    }
    if db.prepare("SELECT seal FROM files").is_err() {
        db.execute_batch("ALTER TABLE files ADD COLUMN seal INTEGER NOT NULL DEFAULT 0")?;
    }
    db.execute_batch(
        "CREATE TABLE IF NOT EXISTS copies (entry INTEGER NOT NULL, file INTEGER NOT NULL, at INTEGER NOT NULL, \
             len INTEGER NOT NULL, part INTEGER NOT NULL, PRIMARY KEY (entry, file)) WITHOUT ROWID; \
         CREATE INDEX IF NOT EXISTS copies_by_file ON copies (file); \
         CREATE TABLE IF NOT EXISTS asked (words INTEGER PRIMARY KEY, key INTEGER NOT NULL); \
         CREATE VIRTUAL TABLE IF NOT EXISTS vocabulary USING fts5vocab (text, row);",
    )?;
    spell(db)?;
    let mut files = db.prepare("SELECT id, path, len, chk, agent FROM files")?;
    let mut unread = db.prepare("UPDATE files SET mtime = 0, offset = 0, context = x'', seal = ? WHERE id = ?")?;
    let mut files = files.query([])?;
    while let Some(row) = files.next()? {
        let (path, agent): (Vec<u8>, Option<String>) = (row.get(1)?, row.get(4)?);
        let numbers = [row.get(2)?, 0, 0, row.get(3)?];
        unread.execute(params![seal(&path, numbers, agent.as_deref().unwrap_or_default(), &[]), row.get::<_, i64>(0)?])?;
    }
    Ok(true)
}

/// Adds what version 1 did not have: what texts have in common besides their session. Of the folder it knew the session's, and of
/// the branch nothing. The number of a tool has moved by one bit.
fn add_scopes(db: &Transaction<'_>) -> Result<(), ArchiveError> {
    // The kinds of names are numbers there.
    let named =
        |kind: u8, of: &str| format!("coalesce((SELECT id FROM names WHERE kind = {kind} AND name = sessions.{of}), 0)");
    db.execute_batch(&format!(
        "CREATE TABLE scopes (id INTEGER PRIMARY KEY, session INTEGER NOT NULL, agent INTEGER NOT NULL, folder INTEGER NOT NULL, \
             branch INTEGER NOT NULL, UNIQUE (session, agent, folder, branch)); \
         INSERT INTO scopes SELECT id, id, {}, {}, 0 FROM sessions; \
         DROP INDEX entries_by_key; \
         ALTER TABLE entries RENAME COLUMN session TO scope; \
         UPDATE entries SET about = (about & 63) | ((about >> 6) << 7); \
         CREATE INDEX entries_by_key ON entries (key);",
        named(0, "agent"),
        named(2, "folder"),
    ))?;
    Ok(())
}

/// Spells the words of all texts as this version does, which takes away accents: the texts of files that are gone cannot be read again.
fn spell(db: &Transaction<'_>) -> Result<(), ArchiveError> {
    let spelled = |word: &str| {
        let mut out = String::new();
        add_words(word, &mut out);
        out
    };
    db.execute_batch("CREATE VIRTUAL TABLE temp.places USING fts5vocab('main', 'text', 'instance')")?;
    let mut texts = HashSet::new();
    let mut with_word = db.prepare("SELECT doc FROM temp.places WHERE term = ?")?;
    let mut words = db.prepare("SELECT term FROM vocabulary")?;
    for word in words.query_map([], |row| row.get::<_, String>(0))? {
        let word = word?;
        if !word.is_ascii() && spelled(&word) != word {
            for text in with_word.query_map([&word], |row| row.get::<_, i64>(0))? {
                texts.insert(text?);
            }
        }
    }
    if !texts.is_empty() {
        let mut marks = words_of(db, &texts, "marks")?;
        for (text, body) in words_of(db, &texts, "body")? {
            db.execute("DELETE FROM text WHERE rowid = ?", [text])?;
            let marks = marks.remove(&text).unwrap_or_default();
            db.execute("INSERT INTO text (rowid, body, marks) VALUES (?, ?, ?)", params![text, spelled(&body), marks])?;
        }
    }
    drop((with_word, words));
    db.execute_batch("DROP TABLE temp.places")?;
    Ok(())
}

/// Returns the words of some texts, by their numbers. The index has them by the words.
pub(super) fn words_of(db: &Connection, texts: &HashSet<i64>, column: &str) -> rusqlite::Result<HashMap<i64, String>> {
    db.execute_batch("CREATE VIRTUAL TABLE temp.words USING fts5vocab('main', 'text', 'instance')")?;
    let mut words: HashMap<i64, Vec<(i64, String)>> = HashMap::new();
    {
        let mut rows = db.prepare("SELECT doc, offset, term FROM temp.words WHERE col = ?")?;
        let mut rows = rows.query([column])?;
        while let Some(row) = rows.next()? {
            let text = row.get(0)?;
            if texts.contains(&text) {
                words.entry(text).or_default().push((row.get(1)?, row.get(2)?));
            }
        }
    }
    db.execute_batch("DROP TABLE temp.words")?;
    let joined = |mut words: Vec<(i64, String)>| {
        words.sort_unstable();
        words.into_iter().map(|(_, word)| word).collect::<Vec<_>>().join(" ")
    };
    Ok(words.into_iter().map(|(text, words)| (text, joined(words))).collect())
}
