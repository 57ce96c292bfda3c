//! The watcher: one thread that looks for files that appear and grow, a few that read what is pushed, and one that keeps the archive's rows
//! current. Looking every now and then is enough, works on every file system, and needs nothing set up.

use std::collections::{HashMap, HashSet, VecDeque};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use tapline_archive::{Found, Places, is_of_subagent};
use tapline_recording::Stream;

use crate::follower::{Follower, RECENT, SessionFile};
use crate::hub::{Hub, Live, if_free, locked};
use crate::row::now;

/// How often files that are read are looked at.
const TICK: Duration = Duration::from_millis(200);
/// How often it is asked whether something appeared in a folder, if there are few of them.
const PEEK: Duration = Duration::from_millis(50);
const FEW: usize = 256;
/// How often a folder is looked at when something appeared in it. The first times are soon after each other.
const LOOKS: i32 = 4;
/// How often folders are looked at.
const SCAN: Duration = Duration::from_secs(1);
/// How often the archive's rows are made anew, while something grows.
const SHELVE: Duration = Duration::from_secs(3);
/// A folder that nothing appeared in for this long is looked at less often.
const USED: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How many threads read what is pushed, at most: a session that takes long does not keep the others waiting.
const READERS: usize = 4;
/// How nice a thread is that nobody waits for.
#[cfg(target_os = "linux")]
const BEHIND: i32 = 10;
/// So many bytes, at most, are read by the thread that took them.
const LITTLE: usize = 64 << 10;
/// How many sessions are read at once.
pub(crate) const MOST: usize = 512;
/// How many times as many may be read if somebody follows each of them.
const FOLLOWED: usize = 8;
/// For so long, in milliseconds, a session that was asked for stays, whoever asks for others.
pub(crate) const GRACE: u64 = 10_000;
/// A session that nobody asked for in this long, in milliseconds, and that does not grow is no longer read.
const IDLE: u64 = 5 * 60 * 1_000;
/// A session that nobody asked for in this long, in milliseconds, makes place for another one if there are too many.
const UNREAD: u64 = 60_000;
/// So does one of this machine, if it was not written for this long, in milliseconds.
const QUIET: u64 = 60_000;
/// If more rows than this change at once, readers ask for all of them instead.
const AT_ONCE: usize = 500;
/// A larger session is not read again for each line of a sub-agent.
const REREAD: u64 = 32 << 20;
/// How long at least until a session is read again for its sub-agents.
const REREAD_EVERY: Duration = Duration::from_secs(2);

/// The threads that watch. They end with it.
#[derive(Debug)]
pub(crate) struct Watch {
    stop: Arc<Stop>,
    threads: Vec<JoinHandle<()>>,
    hub: Arc<Hub>,
}

/// Says that the threads must end.
#[derive(Debug, Default)]
struct Stop {
    waits: Mutex<Waits>,
    told: Condvar,
    /// Says that somebody pushed.
    pushed: Condvar,
    /// Whether folders were looked at once.
    ready: AtomicBool,
    /// Whether something grew since the archive's rows were made.
    grew: AtomicBool,
}

/// What a thread that waits is told.
#[derive(Debug, Default)]
struct Waits {
    is_over: bool,
    /// Recordings that somebody pushed to, so that nobody needs to wait until they are looked at, each once and in their order.
    pushed: VecDeque<PathBuf>,
    in_line: HashSet<PathBuf>,
    /// Those that are being read, and whether somebody pushed to them meanwhile. However much is pushed to one, one thread reads it.
    being_read: HashMap<PathBuf, bool>,
}

impl Stop {
    /// Waits. Returns whether it is over.
    fn wait(&self, time: Duration) -> bool {
        let waits = locked(&self.waits);
        self.told
            .wait_timeout_while(waits, time, |waits| !waits.is_over)
            .map_or_else(|error| error.into_inner().0, |(waits, _)| waits)
            .is_over
    }

    /// Says that a recording was pushed to.
    fn push(&self, folder: PathBuf) {
        let mut waits = locked(&self.waits);
        if let Some(again) = waits.being_read.get_mut(&folder) {
            *again = true;
        } else if waits.in_line.insert(folder.clone()) {
            waits.pushed.push_back(folder);
            drop(waits);
            self.pushed.notify_one();
        }
    }

    /// Begins to read a recording that was pushed to, unless somebody reads it, or many are read. Say when it [was read](Self::was_read).
    fn begin(&self, folder: &Path) -> bool {
        let mut waits = locked(&self.waits);
        let is_free =
            waits.being_read.len() < READERS && !waits.being_read.contains_key(folder) && !waits.in_line.contains(folder);
        if is_free {
            waits.being_read.insert(folder.to_owned(), false);
        }
        is_free
    }

    /// Waits until somebody pushes. Returns the recording that was pushed to; `None` when it is over. Say when it [was read](Self::was_read).
    fn wait_for_push(&self) -> Option<PathBuf> {
        let waits = locked(&self.waits);
        let mut waits = self
            .pushed
            .wait_while(waits, |waits| !waits.is_over && waits.pushed.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        let folder = waits.pushed.pop_front().filter(|_| !waits.is_over)?;
        waits.in_line.remove(&folder);
        waits.being_read.insert(folder.clone(), false);
        Some(folder)
    }

    /// Says that a recording was read, and whether there is more to read. If there is, others have their turn first.
    fn was_read(&self, folder: PathBuf, more: bool) {
        let again = locked(&self.waits).being_read.remove(&folder);
        if more || again == Some(true) {
            self.push(folder);
        }
    }
}

impl Watch {
    pub(crate) fn start(hub: &Arc<Hub>) -> std::io::Result<Self> {
        let stop = Arc::new(Stop::default());
        stop.grew.store(true, Ordering::Relaxed);
        let spawn = |name: &str, run: fn(&Arc<Hub>, &Stop)| {
            let (hub, stop) = (Arc::clone(hub), Arc::clone(&stop));
            thread::Builder::new().name(name.to_owned()).spawn(move || run(&hub, &stop))
        };
        let mut threads = vec![spawn("watch", watch)?, spawn("shelve", shelve)?];
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get).min(READERS) {
            threads.push(spawn("pushed", read_pushes)?);
        }
        Ok(Self { stop, threads, hub: Arc::clone(hub) })
    }

    /// Returns whether a thread has ended, so that nothing new is seen.
    pub(crate) fn has_failed(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Says that a recording was pushed to. If it was little, it is read at once, by the thread that took it: another one would have to be
    /// woken first.
    pub(crate) fn pushed(&self, folder: PathBuf, bytes: usize) {
        if bytes > LITTLE || !self.stop.begin(&folder) {
            return self.stop.push(folder);
        }
        // If it is read for the first time, or somebody has it, there may be much to wait for. Others do that.
        let known = self.hub.of_file(&folder.join(Stream::Stdout.file_name()));
        let read = |live: &Arc<Live>| {
            let follower = if_free(&live.follower).filter(|follower| follower.is_current)?;
            live.is_pushed_here.store(true, Ordering::Relaxed);
            Some(look(&self.hub, live, &self.stop, if_free(&live.looked_at)?, follower))
        };
        let more = known.is_none_or(|live| self.hub.attempt(&live, || read(&live)).is_some_and(|more| more.unwrap_or(true)));
        self.stop.was_read(folder, more);
    }

    /// Returns whether the sessions that live are known.
    pub(crate) fn is_ready(&self) -> bool {
        self.stop.ready.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        locked(&self.stop.waits).is_over = true;
        self.stop.told.notify_all();
        self.stop.pushed.notify_all();
        self.hub.shelf.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// What is known about the files beside a transcript: how long they are, and when it was read for them last.
type Beside = HashMap<PathBuf, (u64, Instant)>;

/// Folders in which files appear, and when something last did.
#[derive(Default)]
struct Folders(HashMap<PathBuf, Option<SystemTime>>);

impl Folders {
    /// Returns when something last appeared in each folder.
    fn now(&self) -> HashMap<PathBuf, Option<SystemTime>> {
        self.0.keys().map(|path| (path.clone(), changed_at(path))).collect()
    }

    /// Takes the folders of these files that were used lately, and those above them. What was known before the files were listed counts: a
    /// file that appeared while they were is seen by the next look.
    fn note(&mut self, places: &Places, before: &HashMap<PathBuf, Option<SystemTime>>) {
        let used = |path: &&Path| changed_at(path).and_then(|at| at.elapsed().ok()).is_none_or(|age| age < USED);
        let above = places.files.iter().flat_map(|found| {
            let file = found.recording.as_ref().unwrap_or(&found.path);
            file.ancestors().skip(1).take(2)
        });
        let folders: HashSet<&Path> = above.chain(places.roots.iter().map(PathBuf::as_path)).collect();
        let at = |path: &Path| before.get(path).copied().unwrap_or_else(|| changed_at(path));
        self.0 = folders.into_iter().filter(used).map(|path| (path.to_owned(), at(path))).collect();
    }

    fn have_changed(&self) -> bool {
        self.0.iter().any(|(path, at)| changed_at(path) != *at)
    }
}

fn changed_at(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|meta| meta.modified()).ok()
}

fn watch(hub: &Arc<Hub>, stop: &Stop) {
    let mut scanned: Option<Instant> = None;
    let mut beside = Beside::new();
    let mut folders = Folders::default();
    let mut soon = 0_i32;
    loop {
        // A folder appears before the files in it do, and a file before its first line, so one look is not enough.
        soon = if folders.have_changed() { LOOKS } else { (soon - 1).max(0) };
        let is_due = soon > 0 || scanned.is_none_or(|scanned| scanned.elapsed() >= SCAN);
        if is_due {
            scan(hub, &mut beside, &mut folders, stop);
            scanned = Some(Instant::now());
            for live in hub.live() {
                hub.attempt(&live, || if_free(&live.follower).map(|follower| hub.show(&live, &follower)));
                let is_idle = live.idle() > IDLE && live.file.age().is_none_or(|age| age > RECENT);
                if is_idle && (live.is_stray() || hub.shelf.row(&live.row().id).is_some()) {
                    hub.forget(&live);
                }
            }
        }
        let mut more = false;
        // Who pushes here says so.
        for live in hub.live().iter().filter(|live| is_due || !live.is_pushed_here.load(Ordering::Relaxed)) {
            // What somebody else reads is current soon. Whatever it is, the others do not wait for it.
            more |= hub.attempt(live, || look_if_free(hub, live, stop)).flatten().unwrap_or(false);
        }
        stop.ready.store(true, Ordering::Relaxed);
        let next = Instant::now() + if soon > LOOKS - 2 { PEEK } else { TICK };
        loop {
            let time = if more { Duration::ZERO } else { next.saturating_duration_since(Instant::now()).min(PEEK) };
            if stop.wait(time) {
                return;
            }
            if more || next <= Instant::now() || folders.0.len() < FEW && folders.have_changed() {
                break;
            }
        }
    }
}

/// Reads what is pushed, at once: it does not wait until folders were looked at.
fn read_pushes(hub: &Arc<Hub>, stop: &Stop) {
    while let Some(folder) = stop.wait_for_push() {
        let more = look_at_push(hub, &folder, stop);
        stop.was_read(folder, more);
    }
}

/// Looks at a recording that somebody pushed to. Returns whether there is more to read.
fn look_at_push(hub: &Arc<Hub>, folder: &Path, stop: &Stop) -> bool {
    let path = folder.join(Stream::Stdout.file_name());
    let begin = || {
        let is_new = !hub.knows(&path);
        let has_room = hub.live().len() < MOST && is_new;
        if is_new {
            // Whoever wants to read it finds it in the archive's rows.
            stop.grew.store(true, Ordering::Relaxed);
        }
        has_room.then(|| hub.follow(SessionFile { path: path.clone(), recording: Some(folder.to_owned()) }, true)).flatten()
    };
    let look = |live: &Arc<Live>| {
        live.is_pushed_here.store(true, Ordering::Relaxed);
        look(hub, live, stop, locked(&live.looked_at), locked(&live.follower))
    };
    hub.of_file(&path).or_else(begin).and_then(|live| hub.attempt(&live, || look(&live))).unwrap_or(false)
}

/// Looks whether a session grew, unless somebody else reads it.
fn look_if_free(hub: &Arc<Hub>, live: &Arc<Live>, stop: &Stop) -> Option<bool> {
    Some(look(hub, live, stop, if_free(&live.looked_at)?, if_free(&live.follower)?))
}

/// Looks whether a session grew. Returns whether there is more to read. Two who look at the same time must not take an older length for a file
/// that was cut, so one has its turn.
fn look(hub: &Arc<Hub>, live: &Arc<Live>, stop: &Stop, _turn: MutexGuard<'_, ()>, follower: MutexGuard<'_, Follower>) -> bool {
    let length = std::fs::metadata(&live.file.path).map_or(0, |meta| meta.len());
    let known = live.length.swap(length, Ordering::Relaxed);
    let (is_current, has_ended) = (follower.is_current, follower.has_ended());
    let grew = length != known;
    if grew {
        stop.grew.store(true, Ordering::Relaxed);
    }
    let follower = if length < known || grew && has_ended {
        drop(follower);
        hub.reopen(live, true);
        locked(&live.follower)
    } else {
        follower
    };
    // A recording ends without growing, and its input and times grow without its output.
    let beside = live.file.beside();
    let is_told = live.beside.swap(beside, Ordering::Relaxed) == beside || has_ended;
    if grew || !is_current || !is_told { hub.advance(live, follower) } else { false }
}

fn scan(hub: &Arc<Hub>, beside: &mut Beside, folders: &mut Folders, stop: &Stop) {
    let now = now().as_millis();
    let before = folders.now();
    let places = hub.shelf.places();
    folders.note(&places, &before);
    let age = |found: &Found| now.saturating_sub((found.mtime / 1_000_000).max(0).cast_unsigned());
    let file = |found: &Found| SessionFile { path: found.path.clone(), recording: found.recording.clone() };
    // One that ended a moment ago is shown at once, too: the archive needs a while.
    // Of recordings, only those that are new matter here.
    let is_live = |found: &&Found| {
        (found.recording.is_none() || !hub.knows(&found.path))
            && (file(found).may_grow(age(found)) || found.recording.is_some() && age(found) < RECENT)
    };
    let mut recent: Vec<&Found> = places.files.iter().filter(is_live).collect();
    recent.sort_by_key(|found| std::cmp::Reverse(found.mtime));
    let mut grown: HashMap<PathBuf, u64> = HashMap::new();
    for found in recent.iter().filter(|found| found.recording.is_none()) {
        // Sub-agents write files of their own, in a folder beside the transcript that has its name.
        for folder in found.path.ancestors().skip(1).take(3) {
            let above = folder.with_extension("jsonl");
            if hub.of_file(&above).is_some() {
                *grown.entry(above).or_default() += found.len;
            }
        }
    }
    for (path, length) in grown {
        let Some(live) = hub.of_file(&path) else { continue };
        let (known, at) = beside.get(&path).copied().unwrap_or((0, Instant::now()));
        let is_small = live.length.load(Ordering::Relaxed).saturating_add(length) < REREAD;
        let is_due = known == 0 || at.elapsed() >= REREAD_EVERY;
        if known != length && is_small && is_due {
            hub.reopen(&live, true);
            beside.insert(path, (length, Instant::now()));
        }
    }
    beside.retain(|path, _| hub.of_file(path).is_some());
    // A file without a line says nothing yet.
    let is_new = |found: &&&Found| (found.recording.is_some() || found.len > 0) && !hub.knows(&found.path);
    let mut new: Vec<&&Found> = recent.iter().filter(is_new).collect();
    // What others push must not take the places of all sessions that are here.
    new.sort_by_key(|found| file(found).is_push());
    let wanted: Vec<(bool, u64)> = new.iter().map(|found| (file(found).is_push(), age(found))).collect();
    let room = make_room(hub, MOST, &wanted);
    for found in new.into_iter().take(room) {
        // What sub-agents write is a part of another session.
        if found.recording.is_none() && is_of_subagent(&found.path) {
            hub.ignore(&found.path);
            continue;
        }
        hub.follow(file(found), true);
        stop.grew.store(true, Ordering::Relaxed);
    }
}

/// Returns how many more sessions can be read, of those that are wanted: whether others pushed each, and how long ago it was written. If there
/// are too many, those that were written longest ago make place, unless somebody reads them. First those that turned out to be no sessions, which do
/// not come back, then what others pushed.
fn make_room(hub: &Arc<Hub>, most: usize, wanted: &[(bool, u64)]) -> usize {
    let live = hub.live();
    let room = most.saturating_sub(live.len());
    if wanted.len() <= room {
        return room;
    }
    let unread = live.iter().filter(|live| live.idle() > UNREAD);
    let rank = |live: &Arc<Live>| (live.is_stray(), live.file.is_push(), live.file.age().unwrap_or(u64::MAX));
    let mut unread: Vec<_> = unread.map(|live| (rank(live), live)).collect();
    unread.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
    let mut unread = unread.into_iter().peekable();
    let mut evicted = 0;
    for (wants_push, new) in &wanted[room..] {
        // Two that take each other's places again and again are never read.
        let makes_place = |((is_stray, is_push, age), live): &((bool, bool, u64), &Arc<Live>)| {
            let is_done = || *age > QUIET || live.file.has_end();
            *is_stray || *is_push && !wants_push || is_done() && age > new
        };
        let Some(((is_stray, ..), live)) = unread.next_if(makes_place) else { break };
        hub.forget(live);
        if is_stray {
            hub.ignore(&live.file.path);
        }
        evicted += 1;
    }
    room + evicted
}

/// Makes room for a session that somebody asks for. If all others are in use, the one that nobody has asked for longest makes place, unless
/// somebody reads its events: of those there may be [`FOLLOWED`] times as many. Returns whether there is room: each session that is read has
/// open files.
pub(crate) fn make_room_for_reader(hub: &Arc<Hub>, most: usize, grace: u64) -> bool {
    let makes_place = || {
        let live = hub.live();
        // Whoever has just asked for a session may be about to read its events.
        let is_unread = |live: &&Arc<Live>| live.feed.readers() == 0 && live.idle() >= grace;
        let unread = live.iter().filter(is_unread).max_by_key(|live| live.idle());
        unread.map(|live| hub.forget(live)).is_some()
    };
    make_room(hub, most, &[(false, 0)]) > 0 || makes_place() || hub.live().len() < FOLLOWED * most
}

/// Keeps the archive's rows current.
fn shelve(hub: &Arc<Hub>, stop: &Stop) {
    yield_to_others();
    let mut time = Duration::ZERO;
    let mut quiet = 0;
    while !stop.wait(time) {
        time = SHELVE;
        quiet += 1;
        // Files that nobody reads may have changed, too, but there is no hurry.
        if !stop.grew.swap(false, Ordering::Relaxed) && quiet < 10 {
            continue;
        }
        quiet = 0;
        let Ok(changed) = hub.shelf.refresh() else { continue };
        if changed.len() > AT_ONCE {
            hub.list.skip();
            continue;
        }
        for row in changed.iter().filter(|row| hub.find(&row.id).is_none()) {
            hub.list.publish("session", &**row);
        }
    }
}

/// Lets other threads have the processor first: readers wait for what they do. On Linux, threads that this one starts do the same.
fn yield_to_others() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(BEHIND);
}

#[cfg(test)]
mod tests {
    use tapline_testkit::files::append;
    use tapline_testkit::{TempFolder, wait_until};

    use super::*;
    use crate::controls::Controls;
    use crate::ingest;
    use crate::shelf::Shelf;

    #[test]
    fn one_thread_at_a_time_reads_a_run_however_often_it_is_pushed_to() {
        let (stop, [busy, other]) = (Stop::default(), ["busy", "other"].map(PathBuf::from));
        stop.push(busy.clone());
        stop.push(busy.clone());
        assert_eq!(stop.wait_for_push().as_ref(), Some(&busy));
        // While it is read, more comes. The next thread reads the other one.
        stop.push(busy.clone());
        stop.push(other.clone());
        stop.push(busy.clone());
        assert_eq!(stop.wait_for_push().as_ref(), Some(&other));
        assert!(locked(&stop.waits).pushed.is_empty());
        stop.was_read(other.clone(), false);
        stop.was_read(busy.clone(), false);
        assert_eq!(stop.wait_for_push().as_ref(), Some(&busy), "once more, for what came meanwhile");
        // It was not read to its end. Others have their turn first.
        stop.push(other.clone());
        stop.was_read(busy.clone(), true);
        assert_eq!([stop.wait_for_push(), stop.wait_for_push()], [Some(other.clone()), Some(busy.clone())]);
        stop.was_read(busy, false);
        stop.was_read(other, false);
        let waits = locked(&stop.waits);
        assert!(waits.pushed.is_empty() && waits.in_line.is_empty() && waits.being_read.is_empty());
    }

    #[test]
    fn who_pushes_reads_unless_somebody_else_does() {
        let (stop, folder) = (Stop::default(), |n: usize| PathBuf::from(n.to_string()));
        assert!(stop.begin(&folder(0)) && !stop.begin(&folder(0)), "one at a time");
        // More comes while it is read. Whoever is next in line reads that.
        stop.push(folder(0));
        assert!(locked(&stop.waits).pushed.is_empty());
        stop.was_read(folder(0), false);
        assert!(!stop.begin(&folder(0)), "it is in line");
        assert_eq!(stop.wait_for_push(), Some(folder(0)));
        stop.was_read(folder(0), false);
        // There is an end to how many are read at once.
        assert!((0..READERS).all(|n| stop.begin(&folder(n))) && !stop.begin(&folder(READERS)));
        (0..READERS).for_each(|n| stop.was_read(folder(n), false));
        assert!(stop.begin(&folder(READERS)));
        stop.was_read(folder(READERS), false);
        let waits = locked(&stop.waits);
        assert!(waits.pushed.is_empty() && waits.in_line.is_empty() && waits.being_read.is_empty());
    }

    #[test]
    fn a_session_that_somebody_else_reads_does_not_hold_up_the_others() {
        let folder = TempFolder::new();
        let shelf = Arc::new(Shelf::new(folder.join("archive"), Vec::new(), tapline_archive::Prices::embedded().clone()));
        let hub = Arc::new(Hub::new(shelf, folder.to_owned(), Controls::new(false), None));
        let line = |name: &str| {
            format!(
                "{{\"type\":\"assistant\",\"session_id\":\"{name}\",\"message\":{{\"role\":\"assistant\",\"content\":[{{\"type\":\"text\",\"text\":\"x\"}}]}}}}\n"
            )
        };
        let [busy, other] = ["busy", "other"].map(|name| {
            let path = folder.join(format!("{name}.jsonl"));
            std::fs::write(&path, line(name)).unwrap();
            hub.follow(SessionFile { path, recording: None }, true).unwrap()
        });
        let until = |steps: usize, live: &Live| wait_until("it is read", || live.steps() >= steps);
        let reading = locked(&busy.follower);
        let watch = Watch::start(&hub).unwrap();
        // More than one round, and more than one look at the rows.
        for steps in 1..10 {
            until(steps, &other);
            append(&other.file.path, line("other"));
        }
        assert_eq!(busy.steps(), 0);
        drop(reading);
        until(1, &busy);
        drop(watch);
    }

    #[test]
    fn what_others_push_makes_place_for_sessions_of_this_machine() {
        let folder = TempFolder::new();
        let shelf = Arc::new(Shelf::new(folder.join("archive"), Vec::new(), tapline_archive::Prices::embedded().clone()));
        let hub = Arc::new(Hub::new(shelf, folder.to_owned(), Controls::new(false), None));
        let mut pushed = Vec::new();
        for n in 0..3 {
            let recording = folder.join(format!("pushed-{n}"));
            let meta = tapline_recording::Meta::default();
            drop(tapline_recording::Recorder::create(&recording, &meta, tapline_recording::Sync::EverySecond).unwrap());
            std::fs::write(recording.join(ingest::MARK), "{}").unwrap();
            let path = recording.join(Stream::Stdout.file_name());
            pushed.push(hub.follow(SessionFile { path, recording: Some(recording) }, true).unwrap());
        }
        let own = folder.join("own.jsonl");
        std::fs::write(&own, "{}\n").unwrap();
        hub.follow(SessionFile { path: own.clone(), recording: None }, true).unwrap();
        let (own_one, pushed_one) = ((false, 0), (true, 0));
        assert_eq!((make_room(&hub, 5, &[own_one]), hub.live().len()), (1, 4), "there is room");
        assert_eq!((make_room(&hub, 4, &[pushed_one; 9]), hub.live().len()), (0, 4), "one that is written is no worse");
        // Somebody reads one of them.
        let _reader = pushed[0].feed.reader();
        assert_eq!((make_room(&hub, 4, &[own_one; 9]), hub.live().len()), (2, 2));
        assert!(hub.of_file(&own).is_some() && hub.of_file(&pushed[0].file.path).is_some());
        // One that is silent makes place for a newer one, and not for an older one.
        let long_ago = SystemTime::now() - 2 * Duration::from_millis(QUIET);
        let file = std::fs::File::options().append(true).open(&own).unwrap();
        file.set_modified(long_ago).unwrap();
        assert_eq!((make_room(&hub, 2, &[(false, 9 * QUIET)]), hub.live().len()), (0, 2));
        assert_eq!((make_room(&hub, 2, &[own_one]), hub.live().len()), (1, 1));
        // Somebody asks for one after the other. Of those that nobody reads, the one that was asked for first makes place.
        let files: Vec<PathBuf> = (0..4).map(|n| folder.join(format!("asked-{n}.jsonl"))).collect();
        for (n, path) in files.iter().enumerate() {
            std::fs::write(path, "{}\n").unwrap();
            assert!(make_room_for_reader(&hub, 3, 0));
            let live = hub.follow(SessionFile { path: path.clone(), recording: None }, true).unwrap();
            live.touch();
            assert_eq!(hub.live().len(), (n + 2).min(3));
            // They are told apart by the millisecond.
            let asked = now();
            while now() == asked {
                thread::yield_now();
            }
        }
        let is_read = |path: &PathBuf| hub.of_file(path).is_some();
        assert_eq!(files.iter().map(is_read).collect::<Vec<_>>(), [false, false, true, true]);
        assert!(is_read(&pushed[0].file.path), "somebody reads its events");
        let _readers = [&files[2], &files[3]].map(|path| hub.of_file(path).unwrap().feed.reader());
        assert!(make_room_for_reader(&hub, 3, 0) && hub.live().len() == 3, "all are followed, and one more may be");
        assert!(!make_room_for_reader(&hub, 0, 0) && hub.live().len() == 3, "there are too many");
    }
}
