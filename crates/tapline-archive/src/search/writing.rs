//! Writes texts into the index: a batch at a time, all of it or nothing, sorted by time.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, Statement, Transaction, params};
use tapline_protocol::Agent;

use super::reading::{Entry, Piece, Scope, is_packed};
use super::store::BITS;
use crate::places::Found;
use crate::said::{Context, EntryKind};
use crate::scan::check;
use crate::sealed::seal;

/// When this much text has come together, it is written.
const BATCH: usize = 20 << 20;
/// The latest second that a text can have.
const LATEST: u64 = 1 << 40;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum NameOf {
    Agent = 0,
    Tool = 1,
    Folder = 2,
    Branch = 3,
}

impl NameOf {
    /// Returns the letter that its marks begin with.
    pub(super) const fn letter(self) -> char {
        match self {
            Self::Agent => 'a',
            Self::Tool => 't',
            Self::Folder => 'p',
            Self::Branch => 'b',
        }
    }
}

/// What an entry is, in one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct About {
    pub(super) kind: EntryKind,
    pub(super) error: bool,
    pub(super) subagent: bool,
    /// Whether it is of a stream, not of a transcript.
    pub(super) streamed: bool,
    /// Whether the same text was there already: in another session, or in the stream of this one.
    pub(super) repeated: bool,
    /// The number of the tool's name. 0 if there is none.
    pub(super) tool: i64,
}

/// The bit of texts that are of a stream.
const STREAMED: i64 = 1 << 5;

impl About {
    fn number(self) -> i64 {
        let streamed = if self.streamed { STREAMED } else { 0 };
        let flags = i64::from(self.error) << 3 | i64::from(self.subagent) << 4 | streamed;
        self.kind.number() | flags | i64::from(self.repeated) << 6 | self.tool << 7
    }

    pub(super) fn of(number: i64) -> Self {
        let kind = usize::try_from(number & 7).ok().and_then(|kind| EntryKind::ALL.get(kind)).copied();
        let kind = kind.unwrap_or(EntryKind::Output);
        let has = |bit: u32| number & (1 << bit) != 0;
        Self { kind, error: has(3), subagent: has(4), streamed: has(5), repeated: has(6), tool: number >> 7 }
    }
}

/// The session of a text, and what else it has in common with its neighbours, as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScopeNumbers {
    pub(super) session: i64,
    pub(super) agent: i64,
    pub(super) folder: i64,
    pub(super) branch: i64,
}

/// Writes what filters can ask for: the words of the column `marks`.
pub(super) fn marks(about: About, of: ScopeNumbers) -> String {
    let ScopeNumbers { session, agent, folder, branch } = of;
    let mut marks = format!("k{} s{session} a{agent} p{folder} b{branch}", about.kind.number());
    marks.push_str(if about.error { " e" } else { "" });
    marks.push_str(if about.subagent { " g" } else { "" });
    if about.tool != 0 {
        let _ = write!(marks, " t{}", about.tool);
    }
    marks
}

/// How far a file was read, in a batch.
#[derive(Debug)]
struct Read {
    agent: Option<Agent>,
    end: u64,
    context: Context,
    last: bool,
}

/// Collects what was read, and writes it.
pub(super) struct Writer<'f> {
    /// The files that are read, and whether what is known about each must go first.
    files: &'f [(&'f Found, bool)],
    entries: Vec<(usize, Entry)>,
    bytes: usize,
    read: HashMap<usize, Read>,
    cleared: HashSet<usize>,
    names: HashMap<(NameOf, String), i64>,
    sessions: HashMap<String, i64>,
    scopes: HashMap<(Arc<Scope>, &'static str, usize), (i64, ScopeNumbers)>,
}

impl<'f> Writer<'f> {
    pub(super) fn new(files: &'f [(&'f Found, bool)]) -> Self {
        Self {
            files,
            entries: Vec::new(),
            bytes: 0,
            read: HashMap::new(),
            cleared: HashSet::new(),
            names: HashMap::new(),
            sessions: HashMap::new(),
            scopes: HashMap::new(),
        }
    }

    /// Takes a piece of a file, and writes if there is enough.
    pub(super) fn take(&mut self, db: &mut Connection, job: usize, piece: Piece) -> rusqlite::Result<()> {
        self.bytes += piece.bytes;
        self.entries.extend(piece.entries.into_iter().map(|entry| (job, entry)));
        let Piece { agent, end, context, last, .. } = piece;
        self.read.insert(job, Read { agent, end, context, last });
        if self.bytes >= BATCH { self.write(db) } else { Ok(()) }
    }

    /// Writes what has come together.
    pub(super) fn write(&mut self, db: &mut Connection) -> rusqlite::Result<()> {
        let transaction = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let mut ids = HashMap::new();
        // In the order of their paths: the first file of a session that has a title gives it, as everywhere.
        let mut read: Vec<_> = std::mem::take(&mut self.read).into_iter().collect();
        read.sort_unstable_by_key(|(job, _)| *job);
        for (job, read) in read {
            let (found, anew) = self.files[job];
            let id = keep_file(&transaction, found, &read)?;
            if anew && self.cleared.insert(job) {
                clear(&transaction, id)?;
            }
            ids.insert(job, (id, read.agent.map_or("", Agent::name)));
            self.title(&transaction, found, &read)?;
        }
        let mut entries = std::mem::take(&mut self.entries);
        // In the order of their numbers: otherwise the database begins a new segment for each. Of copies, the one in
        // the older file comes first: it is the original.
        entries.sort_by_key(|(job, entry)| (entry.time, *job, entry.offset, entry.part));
        {
            let mut statements = Statements::new(&transaction)?;
            for (job, entry) in entries {
                let (file, agent) = ids[&job];
                self.insert(&transaction, &mut statements, (job, file, agent), &entry)?;
            }
        }
        self.bytes = 0;
        transaction.commit()
    }

    fn insert(
        &mut self,
        db: &Transaction<'_>,
        statements: &mut Statements<'_>,
        (job, file, agent): (usize, i64, &'static str),
        entry: &Entry,
    ) -> rusqlite::Result<()> {
        let (scope, numbers) = self.scope(db, job, &entry.scope, agent)?;
        let [at, len, part] = [entry.offset.cast_signed(), entry.len.cast_signed(), entry.part.into()];
        let key = statements.key_of(entry)?;
        let known = statements.with_key(key)?;
        // A stream knows less about a text than a transcript: not the branch, and often not the time.
        let is_same = |row: &&Repeated| row.session == numbers.session && (entry.streamed || !row.about.streamed);
        if let Some(row) = known.iter().find(is_same) {
            if row.file != file {
                statements.copy.execute([row.id, file, at, len, part])?;
            }
            return Ok(());
        }
        let tool = if entry.tool.is_empty() { 0 } else { self.name(db, NameOf::Tool, &entry.tool)? };
        let Entry { kind, error, subagent, streamed, .. } = *entry;
        let about = About { kind, error, subagent, streamed, repeated: !known.is_empty(), tool };
        let id = statements.free_id(entry.time)?;
        statements.entry.execute(params![id, file, at, len, part, about.number(), scope, key])?;
        statements.text.execute(params![id, entry.body, marks(about, numbers)])?;
        Ok(())
    }

    /// Returns the number of a scope, and what is in it.
    fn scope(
        &mut self,
        db: &Connection,
        job: usize,
        scope: &Arc<Scope>,
        agent: &'static str,
    ) -> rusqlite::Result<(i64, ScopeNumbers)> {
        // Texts without a session are of a session of their file.
        let known = (Arc::clone(scope), agent, if scope.session.is_empty() { job } else { 0 });
        if let Some(numbers) = self.scopes.get(&known) {
            return Ok(*numbers);
        }
        let session = self.session(db, self.files[job].0, &scope.session, agent)?;
        let agent = self.name(db, NameOf::Agent, agent)?;
        let folder = self.name(db, NameOf::Folder, &scope.folder)?;
        let branch = self.name(db, NameOf::Branch, &scope.branch)?;
        let mut insert = db.prepare(
            "INSERT INTO scopes (session, agent, folder, branch) VALUES (?, ?, ?, ?) \
             ON CONFLICT (session, agent, folder, branch) DO UPDATE SET session = excluded.session RETURNING id",
        )?;
        let id = insert.query_row([session, agent, folder, branch], |row| row.get(0))?;
        let numbers = ScopeNumbers { session, agent, folder, branch };
        self.scopes.insert(known, (id, numbers));
        Ok((id, numbers))
    }

    fn name(&mut self, db: &Connection, of: NameOf, name: &str) -> rusqlite::Result<i64> {
        if let Some(id) = self.names.get(&(of, name.to_owned())) {
            return Ok(*id);
        }
        let mut insert = db.prepare(
            "INSERT INTO names (kind, name) VALUES (?, ?) ON CONFLICT (kind, name) DO UPDATE SET name = excluded.name RETURNING id",
        )?;
        let id = insert.query_row(params![of as i64, name], |row| row.get(0))?;
        self.names.insert((of, name.to_owned()), id);
        Ok(id)
    }

    /// Returns the number of a session. A file that names none is a session of its own.
    fn session(&mut self, db: &Connection, found: &Found, name: &str, agent: &str) -> rusqlite::Result<i64> {
        let unnamed = || found.recording.as_ref().unwrap_or(&found.path).display().to_string();
        let name = if name.is_empty() { unnamed() } else { name.to_owned() };
        if let Some(id) = self.sessions.get(&name) {
            return Ok(*id);
        }
        let mut insert = db.prepare(
            "INSERT INTO sessions (name, agent, folder, title, titled) VALUES (?, ?, '', '', 0) \
             ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id",
        )?;
        let id = insert.query_row([&*name, agent], |row| row.get(0))?;
        self.sessions.insert(name, id);
        Ok(id)
    }

    /// Keeps what is known about the session of a file.
    fn title(&mut self, db: &Connection, found: &Found, read: &Read) -> rusqlite::Result<()> {
        let Some(agent) = read.agent else { return Ok(()) };
        let context = &read.context;
        let id = self.session(db, found, &context.session, agent.name())?;
        let mut update = db.prepare(
            "UPDATE sessions SET agent = ?2, folder = CASE WHEN ?3 = '' THEN folder ELSE ?3 END, \
             title = CASE WHEN ?4 = '' OR (title <> '' AND ?5 = 0) THEN title ELSE ?4 END, titled = max(titled, ?5) WHERE id = ?1",
        )?;
        // A sub-agent can work in another folder.
        let folder = if context.subagent { "" } else { &*context.folder };
        update.execute(params![id, agent.name(), folder, context.title, context.titled])?;
        Ok(())
    }
}

/// A text that is in the index, and comes again.
struct Repeated {
    id: i64,
    file: i64,
    about: About,
    session: i64,
}

/// Statements that run for every text.
struct Statements<'t> {
    by_key: Statement<'t>,
    entry: Statement<'t>,
    copy: Statement<'t>,
    text: Statement<'t>,
    last: Statement<'t>,
    asked: Statement<'t>,
    ask: Statement<'t>,
    rekey: Statement<'t>,
    /// The next free number of each second.
    next: HashMap<u64, i64>,
    /// Seconds without a free number, and where the next one was found.
    full: HashMap<u64, u64>,
}

impl<'t> Statements<'t> {
    fn new(db: &'t Transaction<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            by_key: db.prepare(
                "SELECT entries.id, file, about, session FROM entries JOIN scopes ON scopes.id = scope WHERE key = ? ORDER BY entries.id",
            )?,
            entry: db.prepare(
                "INSERT INTO entries (id, file, at, len, part, about, scope, key) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            )?,
            copy: db.prepare("INSERT OR IGNORE INTO copies (entry, file, at, len, part) VALUES (?, ?, ?, ?, ?)")?,
            text: db.prepare("INSERT INTO text (rowid, body, marks) VALUES (?, ?, ?)")?,
            last: db.prepare("SELECT max(id) FROM entries WHERE id BETWEEN ? AND ?")?,
            asked: db.prepare("SELECT key FROM asked WHERE words = ?")?,
            ask: db.prepare("INSERT OR REPLACE INTO asked (words, key) VALUES (?, ?)")?,
            rekey: db.prepare("UPDATE entries SET key = ?2 WHERE key = ?1 AND about & ?3")?,
            next: HashMap::new(),
            full: HashMap::new(),
        })
    }

    /// Returns the key of a text. A prompt that was sent has the key of the same prompt in the session's transcript, which is
    /// another one by itself: the transcript knows when it was. Whichever is read first, the two are one.
    fn key_of(&mut self, entry: &Entry) -> rusqlite::Result<i64> {
        let (own, words) = (entry.key.cast_signed(), entry.asked.cast_signed());
        if words == 0 {
            return Ok(own);
        }
        let known: Option<i64> = self.asked.query_row([words], |row| row.get(0)).optional()?;
        match known {
            Some(known) if entry.streamed => return Ok(known),
            Some(known) if known != own => drop(self.rekey.execute([known, own, STREAMED])?),
            Some(_) => return Ok(own),
            None => {}
        }
        self.ask.execute([words, own])?;
        Ok(own)
    }

    /// Returns the texts with this key.
    fn with_key(&mut self, key: i64) -> rusqlite::Result<Vec<Repeated>> {
        let row = |row: &rusqlite::Row<'_>| {
            Ok(Repeated { id: row.get(0)?, file: row.get(1)?, about: About::of(row.get(2)?), session: row.get(3)? })
        };
        self.by_key.query_map([key], row)?.collect()
    }

    /// Returns a number for a text of this second.
    fn free_id(&mut self, second: u64) -> rusqlite::Result<i64> {
        let wanted = second.min(LATEST);
        let mut second = self.full.get(&wanted).copied().unwrap_or(wanted);
        loop {
            let first = (second << BITS).cast_signed();
            let end = first + (1 << BITS);
            let next = match self.next.get(&second) {
                Some(next) => *next,
                None => {
                    self.last.query_row([first, end - 1], |row| row.get::<_, Option<i64>>(0))?.map_or(first, |last| last + 1)
                }
            };
            if next < end {
                self.next.insert(second, next + 1);
                return Ok(next);
            }
            self.next.insert(second, end);
            second += 1;
            self.full.insert(wanted, second);
        }
    }
}

/// Keeps how far a file was read, and returns its number.
fn keep_file(db: &Connection, found: &Found, read: &Read) -> rusqlite::Result<i64> {
    let packed = is_packed(&found.path);
    // A file that was not read to its end counts as one that has grown. A packed one is then read again.
    let (len, mtime, offset) = match (read.last, packed) {
        (true, _) => (found.len, found.mtime, read.end),
        (false, false) => (read.end, 0, read.end),
        (false, true) => (0, 0, 0),
    };
    let check = if packed { 0 } else { check(&found.path, offset).unwrap_or(0) };
    let mut insert = db.prepare(
        "INSERT INTO files (path, recording, len, mtime, offset, chk, agent, context, seal) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) \
         ON CONFLICT (path) DO UPDATE SET recording = excluded.recording, len = excluded.len, mtime = excluded.mtime, \
         offset = excluded.offset, chk = excluded.chk, agent = excluded.agent, context = excluded.context, seal = excluded.seal \
         RETURNING id",
    )?;
    let path = found.path.as_os_str().as_bytes();
    let recording = found.recording.as_ref().map(|folder| folder.as_os_str().as_bytes());
    let [len, offset, check] = [len, offset, check].map(u64::cast_signed);
    let agent = read.agent.map(Agent::name);
    let context = postcard::to_stdvec(&read.context).unwrap_or_default();
    let seal = seal(path, [len, mtime, offset, check], agent.unwrap_or_default(), &context);
    insert.query_row(params![path, recording, len, mtime, offset, check, agent, context, seal], |row| row.get(0))
}

/// Forgets the texts of a file that was rewritten, unless another file has them, too.
pub(super) fn clear(db: &Connection, file: i64) -> rusqlite::Result<()> {
    db.execute("DELETE FROM copies WHERE file = ?", [file])?;
    let mut old = db.prepare("SELECT id FROM entries WHERE file = ?")?;
    let old: Vec<i64> = old.query_map([file], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut copy = db.prepare("SELECT file FROM copies WHERE entry = ? LIMIT 1")?;
    let mut take = db.prepare(
        "UPDATE entries SET (file, at, len, part) = (SELECT file, at, len, part FROM copies WHERE entry = ?1 AND file = ?2) \
         WHERE id = ?1",
    )?;
    let mut taken = db.prepare("DELETE FROM copies WHERE entry = ? AND file = ?")?;
    let mut text = db.prepare("DELETE FROM text WHERE rowid = ?")?;
    let mut entry = db.prepare("DELETE FROM entries WHERE id = ?")?;
    for id in old {
        let other: Option<i64> = copy.query_row([id], |row| row.get(0)).optional()?;
        if let Some(other) = other {
            take.execute([id, other])?;
            taken.execute([id, other])?;
        } else {
            text.execute([id])?;
            entry.execute([id])?;
        }
    }
    Ok(())
}
