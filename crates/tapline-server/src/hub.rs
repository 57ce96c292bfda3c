//! All sessions: those that are being read, and those on the shelf. Readers of the API ask here, and the watcher tells here what grew.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::controls::Controls;
use crate::feed::{Feed, FeedLimits};
use crate::follower::{Changed, Follower, SessionFile};
use crate::ingest::run_of;
use crate::otlp::Otlp;
use crate::row::{Origin, Row, now};
use crate::shelf::Shelf;

/// The list: a change a second for each of a thousand sessions stays here for a while.
const LIST: FeedLimits = FeedLimits { events: 8_192, bytes: 8 << 20, written: 8 << 20 };
/// One session.
const SESSION: FeedLimits = FeedLimits { events: 1_024, bytes: 512 << 10, written: 64 << 10 };
/// If more steps than this are new at once, readers ask for them instead.
const AT_ONCE: usize = 200;
/// A session that nobody asked for in this long, in milliseconds, has no events: there is nobody to go on reading.
const ASKED: u64 = 60_000;
/// A row whose numbers only grow is told again after this long, in milliseconds. Everything else about it is told at once.
const NUMBERS: u64 = 2_000;
/// Two files of a session that grow together are written within this time. One that is newer by more goes on alone.
const TOGETHER: Duration = Duration::from_secs(60);

/// A session that is being read.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) file: SessionFile,
    pub(crate) follower: Mutex<Follower>,
    pub(crate) feed: Arc<Feed>,
    /// Whether others pushed it. What they push may say anything.
    is_push: AtomicBool,
    /// Whether they pushed it to this server, which says so each time. Nobody else writes it then.
    pub(crate) is_pushed_here: AtomicBool,
    shown: Mutex<Arc<Row>>,
    told: Mutex<Told>,
    /// How many steps it has, for those who cannot wait until the follower is free.
    steps: AtomicUsize,
    /// When somebody asked for it last, in milliseconds since 1970.
    asked: AtomicU64,
    /// How long its file was when it was read last.
    pub(crate) length: AtomicU64,
    /// What its other files were like.
    pub(crate) beside: AtomicU64,
    /// Who looks at its file.
    pub(crate) looked_at: Mutex<()>,
    /// Whether readers do not know yet what was read.
    untold: AtomicBool,
    /// The name under which it is pushed, once it is known.
    run: OnceLock<String>,
    /// Whether it turned out to be a session. Until then nobody sees it: many files that have such names are something else.
    is_session: AtomicBool,
}

/// The row of a session as readers know it.
#[derive(Debug)]
struct Told {
    row: Arc<Row>,
    /// When they were told, in milliseconds since 1970.
    at: u64,
}

impl Live {
    /// Returns how many steps it has.
    pub(crate) fn steps(&self) -> usize {
        self.steps.load(Ordering::Acquire)
    }

    /// Returns its row.
    pub(crate) fn row(&self) -> Arc<Row> {
        Arc::clone(&locked(&self.shown))
    }

    /// Returns the name under which it is pushed, if it is: here, or from here.
    pub(crate) fn run(&self) -> Option<String> {
        if let Some(run) = self.run.get() {
            return Some(run.clone());
        }
        let run = run_of(self.file.recording.as_deref()?)?;
        Some(self.run.get_or_init(|| run).clone())
    }

    /// Returns whether it turned out to be a session.
    fn is_session(&self) -> bool {
        self.is_session.load(Ordering::Relaxed)
    }

    /// Returns whether all of it was read, and it is no session so far.
    pub(crate) fn is_stray(&self) -> bool {
        !self.is_session() && if_free(&self.follower).is_some_and(|follower| follower.is_current)
    }

    /// Notes that somebody asks for it.
    pub(crate) fn touch(&self) {
        self.asked.store(now().as_millis(), Ordering::Relaxed);
    }

    /// Returns for how long nobody has asked for it, in milliseconds.
    pub(crate) fn idle(&self) -> u64 {
        if self.feed.readers() > 0 { 0 } else { now().as_millis().saturating_sub(self.asked.load(Ordering::Relaxed)) }
    }
}

#[derive(Debug, Default)]
struct Shown {
    by_path: HashMap<PathBuf, Arc<Live>>,
    /// Names of sessions: ids, and names of files.
    by_name: HashMap<String, PathBuf>,
    /// Files that tell the same as another one, and that one. A file that cannot be read stands here with itself.
    ignored: HashMap<PathBuf, PathBuf>,
    /// Recordings that were pushed here, and the recordings of the same runs that tell more. However new they are, they are not read.
    copies: HashMap<PathBuf, PathBuf>,
    /// The recordings of runs of this machine that are pushed to it, too, by the names under which they are pushed.
    originals: HashMap<String, PathBuf>,
}

impl Shown {
    /// Shows one file of a session, and the other no longer.
    fn hide(&mut self, loser: &Path, winner: &Path) {
        self.by_path.remove(loser);
        let behind = self.ignored.values_mut().chain(self.copies.values_mut());
        behind.filter(|path| **path == *loser).for_each(|path| winner.clone_into(path));
        self.ignored.insert(loser.to_owned(), winner.to_owned());
        self.originals.retain(|_, path| *path != *loser);
    }
}

/// All sessions.
#[derive(Debug)]
pub(crate) struct Hub {
    shown: Mutex<Shown>,
    pub(crate) list: Arc<Feed>,
    pub(crate) shelf: Arc<Shelf>,
    spools: PathBuf,
    controls: Arc<Controls>,
    /// How many sessions are no longer read because reading them failed in a way that nobody thought of.
    pub(crate) broken: AtomicU64,
    /// Where spans go.
    pub(crate) otlp: Option<Otlp>,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns what a mutex guards, unless somebody else has it.
pub(crate) fn if_free<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Ok(guard) => Some(guard),
    }
}

impl Hub {
    pub(crate) fn new(shelf: Arc<Shelf>, spools: PathBuf, controls: Arc<Controls>, otlp: Option<Otlp>) -> Self {
        let (list, broken) = (Arc::new(Feed::new(LIST)), AtomicU64::new(0));
        Self { shown: Mutex::default(), list, shelf, spools, controls, broken, otlp }
    }

    /// Returns the folder for files without names.
    pub(crate) fn spools(&self) -> &Path {
        &self.spools
    }

    fn open_follower(&self, file: &SessionFile, grows: bool) -> std::io::Result<Follower> {
        self.shelf.check(file.opens())?;
        Follower::open(file.clone(), grows, &self.spools, self.otlp.as_ref().map(Otlp::spans))
    }

    /// Sends the spans of a session that have ended, if it is shown: another file may tell the same.
    fn export(&self, live: &Arc<Live>, follower: &mut Follower) {
        let spans = follower.take_spans();
        if let Some(otlp) = self.otlp.as_ref().filter(|_| !spans.is_empty())
            && self.of_file(&live.file.path).is_some_and(|shown| Arc::ptr_eq(&shown, live))
        {
            otlp.offer_of(&self.shelf, live.file.recording.as_deref(), follower.session(), spans);
        }
    }

    /// Sends what is known, and ends sending.
    pub(crate) fn end_export(&self) {
        let Some(otlp) = &self.otlp else { return };
        for live in self.live() {
            let mut follower = locked(&live.follower);
            let spans = follower.last_spans();
            otlp.offer_of(&self.shelf, live.file.recording.as_deref(), follower.session(), spans);
        }
        otlp.finish();
    }

    /// Returns the rows of all sessions: what needs somebody first, then what lives, then the newest.
    pub(crate) fn rows(&self) -> Vec<Arc<Row>> {
        let mut rows: Vec<Arc<Row>> = self.live().iter().filter(|live| live.is_session()).map(|live| live.row()).collect();
        let known: HashSet<String> = rows.iter().map(|row| row.id.clone()).collect();
        let shelved = self.shelf.rows();
        rows.extend(shelved.values().filter(|one| !known.contains(&one.row.id)).map(|one| Arc::clone(&one.row)));
        let key = |row: &Row| (!row.state.kind.is_live(), if row.state.kind.is_live() { Some(row.state.kind) } else { None });
        rows.sort_by(|one, other| {
            let newest = other.updated_at.cmp(&one.updated_at).then_with(|| one.id.cmp(&other.id));
            key(one).cmp(&key(other)).then(newest)
        });
        rows
    }

    /// Returns the sessions that are being read.
    pub(crate) fn live(&self) -> Vec<Arc<Live>> {
        locked(&self.shown).by_path.values().cloned().collect()
    }

    /// Returns whether a file is being read, or need not be.
    pub(crate) fn knows(&self, path: &Path) -> bool {
        let shown = locked(&self.shown);
        shown.by_path.contains_key(path)
            || shown.copies.contains_key(path)
            || shown.ignored.get(path).is_some_and(|winner| !goes_on_alone(path, winner))
    }

    /// Notes that a file need not be read.
    pub(crate) fn ignore(&self, path: &Path) {
        locked(&self.shown).ignored.insert(path.to_owned(), path.to_owned());
    }

    /// Returns the session with this file.
    pub(crate) fn of_file(&self, path: &Path) -> Option<Arc<Live>> {
        locked(&self.shown).by_path.get(path).cloned()
    }

    /// Returns a session that is being read, by its id or the name of its file.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Live>> {
        let shown = locked(&self.shown);
        shown.by_name.get(id).and_then(|path| shown.by_path.get(path)).cloned()
    }

    /// Returns a session, and begins to read it if nobody does. The id is looked up, and never used as a path.
    pub(crate) fn open(&self, id: &str) -> Option<Arc<Live>> {
        let live = self.find(id).or_else(|| self.open_shelved(id))?;
        live.touch();
        Some(live)
    }

    fn open_shelved(&self, id: &str) -> Option<Arc<Live>> {
        let file = self.shelf.rows().get(id).and_then(|shelved| shelved.file.clone())?;
        let grows = file.age().is_some_and(|age| file.may_grow(age));
        let live = self.follow(file, grows)?;
        locked(&self.shown).by_name.entry(id.to_owned()).or_insert_with(|| live.file.path.clone());
        Some(live)
    }

    /// Begins to read a session.
    pub(crate) fn follow(&self, file: SessionFile, grows: bool) -> Option<Arc<Live>> {
        let length = std::fs::metadata(&file.path).ok()?.len();
        let follower = self.open_follower(&file, grows).ok()?;
        let name = file.name();
        let row = Arc::new(follower.row(&name, None));
        let live = Arc::new(Live {
            told: Mutex::new(Told { row: Arc::clone(&row), at: 0 }),
            shown: Mutex::new(row),
            steps: AtomicUsize::new(0),
            file: file.clone(),
            is_push: AtomicBool::new(follower.origin() == Origin::Push),
            is_pushed_here: AtomicBool::new(false),
            follower: Mutex::new(follower),
            feed: Arc::new(Feed::new(SESSION)),
            asked: AtomicU64::new(0),
            length: AtomicU64::new(length),
            beside: AtomicU64::new(0),
            looked_at: Mutex::default(),
            untold: AtomicBool::new(false),
            run: OnceLock::new(),
            is_session: AtomicBool::new(false),
        });
        let mut shown = locked(&self.shown);
        // Somebody else may have begun at the same time.
        if let Some(known) = shown.by_path.get(&file.path) {
            return Some(Arc::clone(known));
        }
        shown.ignored.remove(&file.path);
        shown.copies.remove(&file.path);
        if file.recording.is_some() {
            shown.by_name.insert(name, file.path.clone());
        }
        shown.by_path.insert(file.path, Arc::clone(&live));
        drop(shown);
        Some(live)
    }

    /// Begins to read a session from its start again.
    pub(crate) fn reopen(&self, live: &Live, grows: bool) {
        if let Ok(follower) = self.open_follower(&live.file, grows) {
            // Whoever reads the session meanwhile waits until its readers know that it begins again.
            let mut open = locked(&live.follower);
            *open = follower;
            live.steps.store(0, Ordering::Release);
            live.feed.skip();
            drop(open);
        }
    }

    /// Reads on in a session, and tells what changed. Returns whether there is more to read at once.
    pub(crate) fn advance(&self, live: &Arc<Live>, mut follower: MutexGuard<'_, Follower>) -> bool {
        let changed = follower.advance();
        let failed = changed.is_err();
        let Changed { steps, json } = changed.unwrap_or_default();
        // First: whoever gets a snapshot has the number of steps that its events lead to.
        live.steps.store(follower.len(), Ordering::Release);
        let untold = live.untold.load(Ordering::Relaxed);
        if !follower.is_current {
            // While much is read at once, readers are told once, at the end.
            live.untold.store(untold || !steps.is_empty(), Ordering::Relaxed);
        } else if untold || steps.len() > AT_ONCE || live.idle() > ASKED && !steps.is_empty() {
            live.untold.store(false, Ordering::Relaxed);
            live.feed.skip();
        } else {
            let mut json = json.into_iter();
            let mut step = |n| Ok((n, json.next().map_or_else(|| follower.step(n), Ok)?));
            match steps.into_iter().map(&mut step).collect::<std::io::Result<Vec<_>>>() {
                Ok(steps) if steps.is_empty() => {}
                Ok(steps) => live.feed.publish_steps(&steps),
                Err(_) => live.feed.skip(),
            }
        }
        let more = !failed && !follower.is_current;
        self.show(live, &follower);
        self.export(live, &mut follower);
        more
    }

    /// Makes the row of a session anew, and tells if it changed.
    pub(crate) fn show(&self, live: &Arc<Live>, follower: &Follower) {
        if self.is_copy(live) || !self.is_shown(live, follower) {
            return;
        }
        let Some(id) = self.name(live, follower) else { return };
        let archived = self.shelf.row(&id);
        let run = live.run().filter(|run| !follower.has_ended() && self.controls.reaches(run));
        let (controllable, messages) = (run.is_some(), run.is_some_and(|run| self.controls.takes_messages(&run)));
        let mut row = match archived.as_deref() {
            // The first part of a session says little about how it stands.
            Some(archived) if !follower.is_current => Row { steps: follower.len(), ..archived.clone() },
            archived => Row { controllable, messages, ..follower.row(&id, archived) },
        };
        if let Some(run) = live.run() {
            self.controls.note_answers(&run, &mut row.questions);
        }
        let mut told = locked(&live.told);
        let (time, is_same) = (now().as_millis(), *told.row == row);
        let can_wait = told.row.differs_in_numbers(&row) && time.saturating_sub(told.at) < NUMBERS;
        let row = if is_same { Arc::clone(&told.row) } else { Arc::new(row) };
        *locked(&live.shown) = Arc::clone(&row);
        if is_same || can_wait {
            return;
        }
        let old = std::mem::replace(&mut told.row, Arc::clone(&row));
        told.at = time;
        drop(told);
        if old.id != row.id {
            // Its name may be that of another one now, which is not gone.
            let is_free = self.find(&old.id).is_none_or(|other| Arc::ptr_eq(&other, live));
            match self.shelf.row(&old.id) {
                Some(shelved) if is_free => self.list.publish("session", &*shelved),
                None if is_free => self.list.publish("gone", &json!({"id": old.id})),
                _ => {}
            }
        }
        // While it is read for the first time, nobody needs to know how far it is.
        if follower.is_current {
            self.list.publish("session", &*row);
            if live.idle() <= ASKED {
                live.feed.publish_row(&*row);
            } else {
                // Whoever comes back must not believe that nothing happened.
                live.feed.skip();
            }
        }
    }

    /// Returns whether it is a session by now. One that is a plain file has its name only then.
    fn is_shown(&self, live: &Live, follower: &Follower) -> bool {
        if !live.is_session() && follower.is_session() {
            if live.file.recording.is_none() {
                // Another file of the session may have the name by now: `name` decides between them.
                locked(&self.shown).by_name.entry(live.file.name()).or_insert_with(|| live.file.path.clone());
            }
            live.is_session.store(true, Ordering::Relaxed);
        }
        live.is_session()
    }

    /// Returns whether a recording is only the copy of another one: of a run of this machine that is pushed to it, too. The original has more.
    fn is_copy(&self, live: &Arc<Live>) -> bool {
        let Some(run) = live.run() else { return false };
        let is_push = live.is_push.load(Ordering::Relaxed) || live.file.is_push();
        let mut shown = locked(&self.shown);
        let original = if is_push {
            let Some(original) = shown.originals.get(&run) else { return false };
            original.clone()
        } else {
            // One that is not shown hides nothing.
            if shown.by_path.get(&live.file.path).is_none_or(|known| !Arc::ptr_eq(known, live)) {
                return false;
            }
            shown.originals.insert(run.clone(), live.file.path.clone());
            live.file.path.clone()
        };
        let is_one = |other: &&Arc<Live>| other.file.path != original && other.run.get() == Some(&run) && other.file.is_push();
        let copies: Vec<Arc<Live>> = shown.by_path.values().filter(is_one).cloned().collect();
        for copy in &copies {
            shown.by_name.retain(|_, path| *path != copy.file.path);
            shown.hide(&copy.file.path, &original);
            shown.ignored.remove(&copy.file.path);
            shown.copies.insert(copy.file.path.clone(), original.clone());
        }
        drop(shown);
        for copy in copies {
            // Its readers go on with the original, which may not know its session yet.
            copy.feed.end();
            self.list.publish("gone", &json!({"id": copy.row().id}));
        }
        is_push
    }

    /// Returns the id under which a session is shown. `None` if another file tells the same session better.
    fn name(&self, live: &Arc<Live>, follower: &Follower) -> Option<String> {
        let own = live.file.name();
        let Some(id) = follower.session().filter(|id| !id.is_empty()) else { return Some(own) };
        let is_shelved = || self.shelf.row(id).is_some_and(|row| row.source != Origin::Push);
        let is_push = follower.origin() == Origin::Push;
        live.is_push.store(is_push, Ordering::Relaxed);
        let is_taken = is_push && is_shelved();
        let mut shown = locked(&self.shown);
        let other =
            shown.by_name.get(id).filter(|path| **path != live.file.path).and_then(|path| shown.by_path.get(path)).cloned();
        // What others push does not hide what is here.
        if is_taken || is_push && other.as_ref().is_some_and(|other| !other.is_push.load(Ordering::Relaxed)) {
            if own != id && shown.by_name.get(id) == Some(&live.file.path) {
                shown.by_name.remove(id);
            }
            return Some(own);
        }
        let Some(other) = other else {
            shown.by_name.insert(id.to_owned(), live.file.path.clone());
            return Some(id.to_owned());
        };
        let is_over_push = !is_push && other.is_push.load(Ordering::Relaxed);
        if !is_over_push && tells_less(&live.file, &other.file, id) {
            shown.by_name.remove(&own);
            shown.hide(&live.file.path, &other.file.path);
            if own == id {
                shown.by_name.insert(own.clone(), other.file.path.clone());
            }
            drop(shown);
            // Its readers go on with the other file.
            live.feed.end();
            if live.row().id == own && own != id {
                self.list.publish("gone", &json!({"id": own}));
            }
            return None;
        }
        // What was pushed goes on under the name of its file.
        if !is_over_push {
            shown.hide(&other.file.path, &live.file.path);
            other.feed.end();
        }
        shown.by_name.insert(id.to_owned(), live.file.path.clone());
        Some(id.to_owned())
    }

    /// Stops reading a session. Its row is the archive's from now on.
    pub(crate) fn forget(&self, live: &Live) {
        if let Some(otlp) = &self.otlp {
            let mut follower = locked(&live.follower);
            let spans = follower.last_spans();
            otlp.offer_of(&self.shelf, live.file.recording.as_deref(), follower.session(), spans);
        }
        let mut shown = locked(&self.shown);
        shown.by_path.remove(&live.file.path);
        shown.by_name.retain(|_, path| *path != live.file.path);
        shown.ignored.retain(|_, winner| *winner != live.file.path);
        shown.copies.retain(|_, original| *original != live.file.path);
        shown.originals.retain(|_, path| *path != live.file.path);
        drop(shown);
        // Its readers come back, and find another one in its place.
        live.feed.end();
    }

    /// Does something with a session. If that fails in a way that nobody thought of, the session is no longer read, and the others are.
    pub(crate) fn attempt<T>(&self, live: &Live, work: impl FnOnce() -> T) -> Option<T> {
        let done = catch_unwind(AssertUnwindSafe(work)).ok();
        if done.is_none() {
            self.forget(live);
            self.ignore(&live.file.path);
            self.broken.fetch_add(1, Ordering::Relaxed);
        }
        done
    }
}

/// Returns whether a file is so much newer than another one of its session that the other cannot tell the same any more.
fn goes_on_alone(path: &Path, other: &Path) -> bool {
    let changed = |path: &Path| std::fs::metadata(path).and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    changed(path).duration_since(changed(other)).is_ok_and(|newer| newer > TOGETHER)
}

/// Returns whether a file of a session tells less than another one.
fn tells_less(file: &SessionFile, other: &SessionFile, id: &str) -> bool {
    if goes_on_alone(&file.path, &other.path) || goes_on_alone(&other.path, &file.path) {
        return goes_on_alone(&other.path, &file.path);
    }
    rank(file, id) < rank(other, id)
}

/// Which of two files of a session tells more: a recording, then one that is named after the session, then the newer one.
fn rank(file: &SessionFile, id: &str) -> (bool, bool, String) {
    (file.recording.is_some(), file.name().contains(id), file.name())
}

#[cfg(test)]
mod tests;
