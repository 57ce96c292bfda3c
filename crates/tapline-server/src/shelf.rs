//! The archive behind the live sessions: rows of all sessions, costs and full text. What is new is read by a thread of its own.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tapline_archive::runs::runs;
use tapline_archive::search::{SearchFound, SearchOptions, SearchQuery, TextIndex};
use tapline_archive::sessions::{ListedSession, SessionFilter, sessions};
use tapline_archive::stats::{Query, Stats, stats};
use tapline_archive::telemetry::measure;
use tapline_archive::{ArchiveError, FolderMemory, Index, Places, Prices, Selection, project};
use tapline_protocol::Moment;
use tapline_recording::{Beneath, Redactor};
use tapline_session::SessionState;
use tapline_session::otlp::Measures;

use crate::follower::SessionFile;
use crate::ingest;
use crate::row::{Origin, Row, State, cut, now, written_ms};

/// How many runs that were pushed are looked at where only some folders are watched. The one that was pushed to longest ago makes place; what
/// it cost still counts.
const PUSHED: usize = 512;
/// How many paths that cannot be read are named.
const NAMED: usize = 100;

/// A session that the archive knows.
#[derive(Clone, Debug)]
pub(crate) struct Shelved {
    pub(crate) row: Arc<Row>,
    /// What opens it, if it is still there.
    pub(crate) file: Option<SessionFile>,
    /// The recordings of its runs, the oldest first.
    pub(crate) runs: Vec<PathBuf>,
}

/// The archive.
pub(crate) struct Shelf {
    folder: PathBuf,
    roots: Vec<PathBuf>,
    /// Recordings elsewhere: what was pushed here, the one that was pushed to last at the end.
    pushed: Mutex<VecDeque<PathBuf>>,
    /// Those that made place for others.
    earlier: Mutex<HashSet<PathBuf>>,
    prices: Prices,
    rows: Mutex<Arc<HashMap<String, Shelved>>>,
    index: Mutex<Option<Index>>,
    text: Mutex<Option<TextIndex>>,
    stop: AtomicBool,
    /// Whether everything was read once.
    is_whole: AtomicBool,
    /// Who is told what cannot be read, and what they were told.
    warn: Option<Warn>,
    named: Mutex<HashSet<PathBuf>>,
}

/// Is told a path that cannot be read, and why.
pub type Warn = fn(&Path, &io::Error);

impl std::fmt::Debug for Shelf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shelf").field("folder", &self.folder).finish_non_exhaustive()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shelf {
    pub(crate) fn new(folder: PathBuf, roots: Vec<PathBuf>, prices: Prices) -> Self {
        let rows = Mutex::new(Arc::new(HashMap::new()));
        Self {
            folder,
            roots,
            pushed: Mutex::default(),
            earlier: Mutex::default(),
            prices,
            rows,
            index: Mutex::new(None),
            text: Mutex::new(None),
            stop: AtomicBool::new(false),
            is_whole: AtomicBool::new(false),
            warn: None,
            named: Mutex::default(),
        }
    }

    /// Tells what cannot be read, once for each path.
    pub(crate) fn with_warnings(self, warn: Option<Warn>) -> Self {
        Self { warn, ..self }
    }

    /// Looks for session files.
    pub(crate) fn places(&self) -> Places {
        let roots: Vec<PathBuf> = self.roots().into_iter().filter(|root| root.exists()).collect();
        let memory = FolderMemory::new(&self.folder, now().as_millis());
        let places = if roots.is_empty() { Places::default() } else { Places::below_with(&memory, &roots) };
        let mut named = locked(&self.named);
        for (path, error) in &places.unreadable {
            if let Some(warn) = self.warn.filter(|_| named.len() < NAMED && named.insert(path.clone())) {
                warn(path, error);
            }
        }
        drop(named);
        places
    }

    /// Fails if a path leads out of the folders that are watched: what was a file when it was found may be a link by now.
    pub(crate) fn check(&self, path: &Path) -> io::Result<()> {
        self.root_of(path)?.map_or(Ok(()), |root| root.resolve(path).map(drop))
    }

    /// Opens a file in the folders that are watched. It waits for nobody, if it is a pipe by now.
    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        self.root_of(path)?.map_or_else(|| File::open(path), |root| root.file(path))
    }

    fn root_of(&self, path: &Path) -> io::Result<Option<Beneath>> {
        self.roots().iter().find(|root| path.starts_with(root)).map(|root| Beneath::open(root)).transpose()
    }

    fn roots(&self) -> Vec<PathBuf> {
        self.roots.iter().chain(locked(&self.pushed).iter()).cloned().collect()
    }

    /// Notes where a run is kept that is pushed here, in case nobody looks there.
    pub(crate) fn note_push(&self, folder: &Path) {
        let mut pushed = locked(&self.pushed);
        if pushed.back().is_some_and(|last| last == folder) || self.roots.iter().any(|root| folder.starts_with(root)) {
            return;
        }
        pushed.retain(|known| known != folder);
        pushed.push_back(folder.to_owned());
        if pushed.len() > PUSHED {
            locked(&self.earlier).extend(pushed.pop_front());
        }
    }

    /// Ends reading that is under way.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns all rows.
    pub(crate) fn rows(&self) -> Arc<HashMap<String, Shelved>> {
        Arc::clone(&locked(&self.rows))
    }

    /// Returns the row of a session.
    pub(crate) fn row(&self, id: &str) -> Option<Arc<Row>> {
        locked(&self.rows).get(id).map(|shelved| Arc::clone(&shelved.row))
    }

    /// Returns the recordings of a session's runs, the oldest first.
    pub(crate) fn runs(&self, id: &str) -> Vec<PathBuf> {
        locked(&self.rows).get(id).map(|shelved| shelved.runs.clone()).unwrap_or_default()
    }

    /// Reads what is new. Returns the rows that changed.
    pub(crate) fn refresh(&self) -> Result<Vec<Arc<Row>>, ArchiveError> {
        let places = self.places();
        let found = self.with_index(|index| {
            self.update(index, &places)?;
            let mut filter = SessionFilter::default();
            filter.now = now().as_millis();
            sessions(index, &self.prices, &self.selection(), &filter)
        })?;
        let old = self.rows();
        let mut changed = Vec::new();
        let mut rows = HashMap::with_capacity(found.len());
        for session in &found {
            let shelved = shelved(session);
            if old.get(&session.facts.id).is_none_or(|known| known.row != shelved.row) {
                changed.push(Arc::clone(&shelved.row));
            }
            rows.insert(session.facts.id.clone(), shelved);
        }
        *locked(&self.rows) = Arc::new(rows);
        Ok(changed)
    }

    /// Reads what is new into the index.
    fn update(&self, index: &mut Index, places: &Places) -> Result<(), ArchiveError> {
        index.update(places, &self.stop, |_| {})?;
        if !self.stop.load(Ordering::Relaxed) {
            self.is_whole.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn selection(&self) -> Selection {
        Selection { below: self.roots(), recordings: locked(&self.earlier).clone(), ..Selection::default() }
    }

    /// Uses the index. A damaged one is built again, once.
    fn with_index<T>(&self, read: impl Fn(&mut Index) -> Result<T, ArchiveError>) -> Result<T, ArchiveError> {
        let mut kept = locked(&self.index);
        let mut index = match kept.take() {
            Some(index) => index,
            None => Index::open(&self.folder).or_else(|_| Index::in_memory())?,
        };
        let mut result = read(&mut index);
        if result.as_ref().is_err_and(ArchiveError::is_damage) {
            index = index.rebuild()?;
            result = read(&mut index);
        }
        *kept = Some(index);
        result
    }

    /// Measures the requests since a moment. If nobody will read what is new any more, it is read now, until there is no more time for it. An
    /// archive that was never read to its end is too much for that.
    pub(crate) fn measures(&self, since: Moment, is_last: bool, stop: &AtomicBool) -> Result<Measures, ArchiveError> {
        let is_read = is_last && self.is_whole.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed);
        let places = is_read.then(|| self.places());
        let mut query = Query::default();
        query.since = Some(since.as_millis());
        self.with_index(|index| {
            if let Some(places) = &places {
                index.update(places, stop, |_| {})?;
            }
            measure(index, &self.prices, &self.selection(), &query).map(|usage| usage.measures)
        })
    }

    /// Counts what sessions cost: by one query and by others, all at the same time.
    pub(crate) fn costs(&self, query: &Query, others: &[Query]) -> Result<(Stats, Vec<Stats>), ArchiveError> {
        let places = self.places();
        self.with_index(|index| {
            self.update(index, &places)?;
            let count = |query: &Query| stats(index, &self.prices, &self.selection(), query);
            Ok((count(query)?, others.iter().map(count).collect::<Result<_, _>>()?))
        })
    }

    /// Searches the texts of all sessions.
    pub(crate) fn search(&self, query: &SearchQuery, options: &SearchOptions) -> Result<SearchFound, ArchiveError> {
        let places = self.places();
        let mut options = options.clone();
        options.below = self.roots();
        let mut kept = locked(&self.text);
        let mut index = match kept.take() {
            Some(index) => index,
            None => TextIndex::open(&self.folder).or_else(|_| TextIndex::in_memory())?,
        };
        let search = |index: &mut TextIndex| {
            index.update(&places, &self.stop, |_| {})?;
            index.search(query, &options, &Redactor::default())
        };
        let mut found = search(&mut index);
        if found.as_ref().is_err_and(ArchiveError::is_damage) {
            found = index.rebuild().and_then(|()| search(&mut index));
        }
        *kept = Some(index);
        found
    }
}

fn shelved(session: &ListedSession) -> Shelved {
    let facts = &session.facts;
    let is_push = |recording: Option<&PathBuf>| recording.is_some_and(|folder| folder.join(ingest::MARK).exists());
    let found = session.opens().and_then(|opens| {
        let opened = facts.files.iter().find(|file| file.recording.as_deref() == Some(opens) || file.path == opens)?;
        // What others push does not hide what is here.
        let own =
            || facts.files.iter().filter(|file| !file.gone && !is_push(file.recording.as_ref())).max_by_key(|file| file.mtime);
        if is_push(opened.recording.as_ref()) { own().or(Some(opened)) } else { Some(opened) }
    });
    let file = found.map(|found| SessionFile { path: found.path.clone(), recording: found.recording.clone() });
    let source = match file.as_ref().and_then(|file| file.recording.as_ref()) {
        folder @ Some(_) if is_push(folder) => Origin::Push,
        Some(_) => Origin::Recording,
        None => Origin::Transcript,
    };
    // A transcript has all runs of its session. A recording has one.
    let (runs, shown) = (runs(facts), file.as_ref().and_then(|file| file.recording.as_ref()));
    // What others push is no earlier run of what is here.
    let is_other = |shown: &PathBuf, run: &PathBuf| shown != run && (is_push(Some(shown)) || !is_push(Some(run)));
    let others = runs.iter().filter(|run| shown.is_some_and(|shown| is_other(shown, run)));
    let earlier = others.filter_map(|run| Some(run.file_name()?.to_string_lossy().into_owned())).collect();
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let last = facts.last.and_then(written_ms);
    let until = facts.limit_until().filter(|_| session.state == SessionState::Limited).and_then(written_ms);
    let row = Row {
        id: facts.id.clone(),
        agent: facts.agent.clone(),
        title: cut(&facts.title),
        project: text(project(&facts.folder)),
        folder: text(&facts.folder),
        branch: text(&cut(&facts.branch)),
        model: text(&cut(&session.model)),
        state: State { kind: session.state, since: last.clone(), until, message: None },
        cost_usd: (facts.cost.pico() > 0 || facts.unpriced == 0).then(|| facts.cost.usd()),
        cost_exact: facts.unpriced == 0,
        tokens: facts.tokens,
        started_at: facts.first.and_then(written_ms),
        updated_at: last,
        source,
        earlier,
        ..Row::default()
    };
    Shelved { row: Arc::new(row), file, runs }
}

#[cfg(test)]
mod tests {
    use tapline_testkit::TempFolder;

    use super::*;

    const LINE: &str = "{\"type\":\"assistant\",\"sessionId\":\"one\",\"uuid\":\"u\",\"timestamp\":\"2026-01-01T00:00:00Z\",\"message\":{\"id\":\"m1\",\"model\":\"m\",\"role\":\"assistant\",\"usage\":{\"input_tokens\":1,\"output_tokens\":1},\"content\":[]}}\n";

    #[test]
    fn few_of_the_runs_that_were_pushed_are_remembered() {
        let shelf = Shelf::new("archive".into(), vec!["watched".into()], Prices::embedded().clone());
        let folder = |n: usize| PathBuf::from(format!("store/{n}"));
        for n in 0..3 * PUSHED {
            shelf.note_push(&folder(n));
            // Somebody goes on pushing to the first one.
            shelf.note_push(&folder(0));
            shelf.note_push(Path::new("watched/one"));
        }
        let roots = shelf.roots();
        assert_eq!(roots.len(), 1 + PUSHED);
        assert!(roots.contains(&folder(0)) && roots.contains(&folder(3 * PUSHED - 1)) && !roots.contains(&folder(1)));
        // The others still count.
        let selection = shelf.selection();
        assert!((0..3 * PUSHED).all(|n| roots.contains(&folder(n)) || selection.recordings.contains(&folder(n))));
    }

    #[test]
    fn the_end_reads_only_what_is_new_and_only_while_there_is_time() {
        let folder = TempFolder::new();
        folder.write("projects/p/one.jsonl", LINE);
        let shelf = Shelf::new(folder.join("archive"), vec![folder.join("projects")], Prices::embedded().clone());
        let [in_time, late] = [false, true].map(AtomicBool::new);
        let measured = |stop: &AtomicBool| !shelf.measures(Moment::from_millis(0), true, stop).unwrap().is_empty();
        assert!(!measured(&in_time), "nothing was ever read to its end");
        shelf.is_whole.store(true, Ordering::Relaxed);
        assert!(!measured(&late));
        assert!(measured(&in_time));
    }
}
