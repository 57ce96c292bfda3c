//! A text index that was put aside: what it says of files that are gone is carried over, because nobody else knows which words
//! stood in them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _};

use super::earlier::words_of;
use super::reading::{Entry, Piece, Scope};
use super::store::{BITS, SCHEMA, TextStore, lock};
use super::text_index::{agent_named, path_of};
use super::writing::{About, Writer};
use crate::database;
use crate::error::ArchiveError;
use crate::places::Found;
use crate::said::Context;

impl TextStore {
    /// Takes over what other files of the index say of files that are gone, if this one does not know them.
    pub(super) fn absorb(&mut self, folder: &Path) -> Result<(), ArchiveError> {
        SCHEMA.absorb(&mut self.db, folder, &self.name, |db, other| {
            let _lock = lock(folder);
            let gone = match gone_files(db, folder, other) {
                Ok(gone) => gone,
                // What is damaged cannot be read next time either.
                Err(error) if error.is_damage() || matches!(error, ArchiveError::Outdated) => Vec::new(),
                // There may be no room for a copy of it. Perhaps next time.
                Err(_) => return Ok(false),
            };
            for (found, pieces) in gone {
                let files = [(&found, false)];
                let mut writer = Writer::new(&files);
                for piece in pieces {
                    writer.take(db, 0, piece)?;
                    writer.write(db)?;
                }
            }
            Ok(true)
        })
    }
}

/// Reads what an index that was put aside says of files that are gone and that this one does not know.
fn gone_files(db: &Connection, folder: &Path, aside: &Path) -> Result<Vec<(Found, Vec<Piece>)>, ArchiveError> {
    let copy = Copy(folder.join(format!("{}.carried", SCHEMA.file())));
    // It stays as it is: one of an earlier version is brought up in a copy. Of a newer one, some may be read as it is.
    let aside = match database::open_read_only(aside)? {
        (aside, version) if version > SCHEMA.version || SCHEMA.is_of(&aside)? => aside,
        _ => {
            let failed = |error| ArchiveError::Folder { folder: copy.0.clone(), error };
            std::fs::copy(aside, &copy.0).map_err(failed)?;
            database::open(&copy.0, &SCHEMA)?.ok_or(ArchiveError::Outdated)?
        }
    };
    let mut known = db.prepare("SELECT 1 FROM files WHERE path = ?")?;
    let mut rows = aside.prepare("SELECT id, path, recording, len, agent, mtime FROM files WHERE agent IS NOT NULL")?;
    let mut rows = rows.query([])?;
    let mut files: BTreeMap<i64, (Found, String)> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let path: Vec<u8> = row.get(1)?;
        if known.query_row([&path], |_| Ok(())).optional()?.is_none() && !path_of(path.clone()).exists() {
            let recording = row.get::<_, Option<Vec<u8>>>(2)?.map(path_of);
            let len = row.get::<_, i64>(3)?.cast_unsigned();
            files.insert(
                row.get(0)?,
                (Found { path: path_of(path), recording, len, mtime: row.get(5)?, changed: 0 }, row.get(4)?),
            );
        }
    }
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let mut bodies = bodies(&aside, files.keys())?;
    files.into_iter().map(|(id, (found, agent))| Ok((found, pieces(&aside, id, &agent, &mut bodies)?))).collect()
}

/// Returns the words of the texts in these files, by the numbers of the texts.
fn bodies<'f>(aside: &Connection, files: impl Iterator<Item = &'f i64>) -> rusqlite::Result<HashMap<i64, String>> {
    let mut of_file = aside.prepare("SELECT id FROM entries WHERE file = ?")?;
    let mut wanted = HashSet::new();
    for file in files {
        for text in of_file.query_map([file], |row| row.get::<_, i64>(0))? {
            wanted.insert(text?);
        }
    }
    words_of(aside, &wanted, "body")
}

/// Returns the texts of one file: a piece for each session that they are of.
fn pieces(aside: &Connection, file: i64, agent: &str, bodies: &mut HashMap<i64, String>) -> rusqlite::Result<Vec<Piece>> {
    let name = |id: &str| format!("coalesce((SELECT name FROM names WHERE id = {id}), '')");
    let mut rows = aside.prepare(&format!(
        "SELECT e.id, at, len, part, about, key, s.name, {}, {}, {}, s.folder, s.title, s.titled FROM entries AS e \
         JOIN scopes ON scopes.id = scope JOIN sessions AS s ON s.id = session WHERE file = ? ORDER BY e.id",
        name("scopes.folder"),
        name("branch"),
        name("(about >> 7)"),
    ))?;
    let mut rows = rows.query([file])?;
    let mut pieces: BTreeMap<String, Piece> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let (id, about): (i64, About) = (row.get(0)?, About::of(row.get(4)?));
        let [offset, len, key] = [row.get(1)?, row.get(2)?, row.get(5)?].map(i64::cast_unsigned);
        let session: String = row.get(6)?;
        let entry = Entry {
            time: (id >> BITS).cast_unsigned(),
            scope: Arc::new(Scope { session: session.clone(), folder: row.get(7)?, branch: row.get(8)? }),
            kind: about.kind,
            key,
            asked: 0,
            tool: row.get(9)?,
            error: about.error,
            subagent: about.subagent,
            streamed: about.streamed,
            offset,
            len,
            part: row.get(3)?,
            body: bodies.remove(&id).unwrap_or_default(),
        };
        let (folder, title, titled) = (row.get(10)?, row.get(11)?, row.get(12)?);
        let piece = pieces.entry(session).or_insert_with_key(|session| Piece {
            agent: agent_named(agent),
            context: Context { session: session.clone(), folder, title, titled, ..Context::default() },
            last: true,
            ..Piece::default()
        });
        piece.entries.push(entry);
    }
    Ok(pieces.into_values().collect())
}

/// A file that is removed again, and what `SQLite` puts beside it.
struct Copy(PathBuf);

impl Drop for Copy {
    fn drop(&mut self) {
        for ending in ["", "-wal", "-shm"] {
            let mut name = self.0.clone().into_os_string();
            name.push(ending);
            let _ = std::fs::remove_file(name);
        }
    }
}
